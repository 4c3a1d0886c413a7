//! The host and the reference package's Python client, as shipped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use axum::routing::get;
use axum::{Json, Router};
use oip_host::identity::Address;
use oip_host::trust::Policy;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::common::{Person, Proxy, TestHost, python, types};

/// How long the whole of one client's life may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// The client offers a seal, as it is shipped, or is kept from it.
const WAYS: [bool; 2] = [true, false];

/// The relay's directory, which knows one agent.
struct Directory {
    url: String,
    serving: JoinHandle<()>,
}

impl Directory {
    async fn of(host: Address, endpoint: SocketAddr) -> Self {
        let record = json!({
            "endpoints": [format!("http://{endpoint}"), format!("ws://{endpoint}/ws")],
            "relay": null, "last_seen": null, "profile": {},
        });
        let path = format!("/api/agents/{host}");
        let router = Router::new().route(&path, get(async move || Json(record)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, serving }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A Python process with a RemoteAgent; killed when it is dropped.
struct RemoteAgent {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _home: tempfile::TempDir,
    _directory: Directory,
}

/// Who calls, how, and where.
struct Caller<'a> {
    host: &'a TestHost,
    /// Where the directory says that the host is.
    endpoint: SocketAddr,
    person: Option<Person>,
    sealed: bool,
}

impl<'a> Caller<'a> {
    fn new(host: &'a TestHost, sealed: bool) -> Self {
        Self {
            host,
            endpoint: host.socket(),
            person: Some(Person::new()),
            sealed,
        }
    }

    async fn start(&self, steps: Value) -> RemoteAgent {
        let directory = Directory::of(self.host.address(), self.endpoint).await;
        let scenario = json!({
            "directory": directory.url,
            "host": self.host.address().to_string(),
            "seed": self.person.map(|person| hex::encode(person.seed())),
            "sealed": self.sealed,
            "steps": steps,
        });
        let home = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/remote_agent.py");
        // No variable of ours: a proxy, a key or a relay named there would be used.
        let mut process = Command::new(python())
            .arg(script)
            .arg(scenario.to_string())
            .env_clear()
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        RemoteAgent {
            process,
            lines,
            _home: home,
            _directory: directory,
        }
    }

    /// The results of all steps.
    async fn run(&self, steps: Value) -> Vec<Value> {
        let count = steps.as_array().unwrap().len();
        let told = self.start(steps).await.told().await;
        let results: Vec<Value> = told.results;
        assert!(results.len() <= count);
        results
    }
}

/// All that a client said until it ended.
#[derive(Default)]
struct Told {
    results: Vec<Value>,
    events: Vec<Value>,
}

impl RemoteAgent {
    /// The next line; none when the client has ended well.
    async fn line(&mut self) -> Option<Value> {
        let line = timeout(DEADLINE, self.lines.next_line()).await;
        match line.expect("the client says nothing").unwrap() {
            Some(line) => Some(serde_json::from_str(&line).unwrap()),
            None => {
                let mut complaint = String::new();
                let mut stderr = self.process.stderr.take().unwrap();
                stderr.read_to_string(&mut complaint).await.unwrap();
                assert!(self.process.wait().await.unwrap().success(), "{complaint}");
                None
            }
        }
    }

    /// The lines up to and with the first event of this type.
    async fn until(&mut self, kind: &str, told: &mut Told) {
        loop {
            let line = self.line().await.expect("the client has ended");
            let found = line["event"]["type"] == kind;
            told.add(line);
            if found {
                return;
            }
        }
    }

    /// All that is still to come.
    async fn told(mut self) -> Told {
        let mut told = Told::default();
        self.rest(&mut told).await;
        told
    }

    async fn rest(&mut self, told: &mut Told) {
        while let Some(line) = self.line().await {
            told.add(line);
        }
    }
}

impl Told {
    fn add(&mut self, line: Value) {
        match line.get("event") {
            Some(event) => self.events.push(event.clone()),
            None => self.results.push(line),
        }
    }
}

fn raised(result: &Value, class: &str) -> String {
    let classes = result["raised"].as_array();
    assert!(
        classes.is_some_and(|classes| classes.contains(&json!(class))),
        "{result}"
    );
    result["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_conversation_goes_on() {
    let host = TestHost::start().await;
    for sealed in WAYS {
        let steps =
            json!([{"do": "input", "prompt": "hello"}, {"do": "input", "prompt": "and again"}]);
        let results = Caller::new(&host, sealed).run(steps).await;
        for (n, prompt) in ["hello", "and again"].into_iter().enumerate() {
            let result = &results[n];
            assert_eq!(
                result["text"],
                format!("Hello! You said: {prompt}"),
                "{result}"
            );
            assert_eq!(result["done"], true);
            assert_eq!(result["turn"], n + 1);
            assert_eq!(result["session"], results[0]["session"]);
            assert_eq!(result["status"], "idle");
        }
        assert_eq!(results[1]["prompts"], json!(["hello", "and again"]));
    }
}

#[tokio::test]
async fn texts_arrive_byte_for_byte() {
    let host = TestHost::start().await;
    let texts = [
        ("héllo 世界 🚀", "Hello! You said: héllo 世界 🚀".to_owned()),
        (
            "unicode",
            "héllo 世界 🚀 \u{2028} \\ \" </script> end".to_owned(),
        ),
        ("big 100", "x".repeat(100 << 10)),
    ];
    for sealed in WAYS {
        let steps = texts
            .each_ref()
            .map(|(prompt, _)| json!({"do": "input", "prompt": prompt}));
        let results = Caller::new(&host, sealed).run(json!(steps)).await;
        for (result, (prompt, text)) in results.iter().zip(&texts) {
            assert_eq!(result["text"], text.as_str(), "{prompt}");
        }
        assert_eq!(
            results[2]["prompts"],
            json!(texts.each_ref().map(|(prompt, _)| prompt))
        );
    }
}

#[tokio::test]
async fn a_tool_is_called_directly() {
    let host = TestHost::start().await;
    let steps = json!([
        {"do": "call", "tool": "echo_tool", "args": {"text": "hi é"}},
        {"do": "call", "tool": "danger", "args": {}},
        {"do": "call", "tool": "echo_tool", "args": {"nope": 1}},
    ]);
    for sealed in WAYS {
        let caller = Caller::new(&host, sealed);
        let results = caller.run(steps.clone()).await;
        for result in [&results[0], &results[2]] {
            assert_eq!(result["ok"], false);
            let refusal = "forbidden: exec requires a contact or admin, you are stranger";
            assert_eq!(result["error"], refusal);
        }

        host.list(
            "contacts.txt",
            &caller.person.unwrap().address().to_string(),
        );
        let results = caller.run(steps.clone()).await;
        assert_eq!(results[0]["ok"], true, "{}", results[0]);
        assert_eq!(results[0]["text"], "echo: hi é");
        for (result, start) in [
            (
                &results[1],
                "blocked: 'danger' is not in the permission whitelist",
            ),
            (&results[2], "wrong arguments: "),
        ] {
            assert_eq!(result["status"], "error");
            let why = result["error"].as_str().unwrap();
            assert!(why.starts_with(start), "{why}");
        }
    }
}

/// What a whole turn of three steps streams.
const THREE_STEPS: [&str; 17] = [
    "user_input",
    "llm_call",
    "llm_result",
    "tool_call",
    "tool_result",
    "llm_call",
    "llm_result",
    "tool_call",
    "tool_result",
    "llm_call",
    "llm_result",
    "tool_call",
    "tool_result",
    "llm_call",
    "llm_result",
    "complete",
    "turn_result",
];

#[tokio::test]
async fn a_lost_socket_is_picked_up() {
    let host = TestHost::start().await;
    for sealed in WAYS {
        let proxy = Proxy::start(host.socket()).await;
        let mut caller = Caller::new(&host, sealed);
        caller.endpoint = proxy.socket();
        let mut client = caller
            .start(json!([{"do": "input", "prompt": "slow 3"}]))
            .await;
        let mut told = Told::default();
        if sealed {
            client.until("tool_result", &mut told).await;
            proxy.cut();
        } else {
            proxy.cut_after(r#""type":"tool_result""#);
        }
        client.rest(&mut told).await;
        let result = &told.results[0];
        assert_eq!(result["text"], "slow finished after 3 steps", "{result}");
        assert_eq!(result["done"], true);
        // GET /info, the socket that was cut, the one after it.
        assert_eq!(proxy.accepted(), 3);
        let events: Vec<Value> = told
            .events
            .into_iter()
            .filter(|event| event.get("id").is_some())
            .collect();
        assert_eq!(types(&events), THREE_STEPS);
        let mut seen: Vec<(&Value, &Value)> = events
            .iter()
            .map(|event| (&event["id"], &event["type"]))
            .collect();
        seen.sort_by_key(|(id, kind)| (id.to_string(), kind.to_string()));
        seen.dedup();
        assert_eq!(seen.len(), events.len());
    }
}

#[tokio::test]
async fn a_client_without_a_key_is_refused() {
    let host = TestHost::start().await;
    let mut caller = Caller::new(&host, true);
    caller.person = None;
    let results = caller
        .run(json!([{"do": "input", "prompt": "hello"}, {"do": "call", "tool": "echo_tool", "args": {"text": "hi"}}]))
        .await;
    let message = raised(&results[0], "ConnectionError");
    assert!(
        message.contains("unauthorized: signed request required"),
        "{message}"
    );
    assert_eq!(results[1]["error"], "unauthorized: signed request required");
}

#[tokio::test]
async fn a_turn_is_stopped() {
    let host = TestHost::start().await;
    for sealed in WAYS {
        let steps = json!([
            {"do": "stop"},
            {"do": "input_and_stop", "prompt": "slow 30", "after": "tool_call"},
            {"do": "stop"},
        ]);
        let results = Caller::new(&host, sealed).run(steps).await;
        assert_eq!(results[0]["stopped"], false, "no session");
        assert_eq!(results[1]["stopped"], true, "{}", results[1]);
        assert_eq!(results[1]["returned"], true);
        assert_eq!(results[1]["done"], true);
        assert_eq!(results[2]["stopped"], false, "nothing runs in the session");
        assert_eq!(host.running_turns(), 0);
    }
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_stopped_later() {
    let host = TestHost::start().await;
    for sealed in WAYS {
        let steps = json!([
            {"do": "input", "prompt": "slow 30", "timeout": 1.5},
            {"do": "stop"},
            {"do": "input", "prompt": "hello"},
        ]);
        let results = Caller::new(&host, sealed).run(steps).await;
        raised(&results[0], "TurnTimeoutError");
        assert_eq!(results[1]["stopped"], true, "{}", results[1]);
        assert_eq!(results[2]["text"], "Hello! You said: hello");
        assert_eq!(results[2]["turn"], 2);
        assert_eq!(host.running_turns(), 0);
    }
}

#[tokio::test]
async fn a_mode_holds_for_the_next_client_of_the_session() {
    let host = TestHost::start().await;
    for sealed in WAYS {
        let steps = json!([
            {"do": "input", "prompt": "hello"},
            {"do": "mode", "mode": "read-only"},
            {"do": "another"},
            {"do": "input", "prompt": "do you remember"},
            {"do": "mode", "mode": "full-access"},
        ]);
        let results = Caller::new(&host, sealed).run(steps).await;
        assert_eq!(results[0]["mode"], "auto");
        assert_eq!(results[1]["mode"], "read-only", "{}", results[1]);
        let second = &results[2];
        assert_eq!(second["session"], results[0]["session"]);
        assert_eq!(second["mode"], "read-only");
        assert_eq!(second["turn"], 2);
        assert_eq!(second["prompts"], json!(["hello", "do you remember"]));
        let message = raised(&results[3], "ValueError");
        assert_eq!(message, "Permission mode is not available: full-access");
    }
}

#[tokio::test]
async fn a_stranger_is_told_why_not() {
    let host = TestHost::with(|config| config.trust = Policy::Careful).await;
    for sealed in WAYS {
        let caller = Caller::new(&host, sealed);
        let results = caller
            .run(json!([{"do": "input", "prompt": "hello"}]))
            .await;
        let message = raised(&results[0], "ConnectionError");
        assert!(message.contains("forbidden: "), "{message}");

        host.list(
            "contacts.txt",
            &caller.person.unwrap().address().to_string(),
        );
        let results = caller
            .run(json!([{"do": "input", "prompt": "hello"}]))
            .await;
        assert_eq!(
            results[0]["text"], "Hello! You said: hello",
            "{}",
            results[0]
        );
    }
}
