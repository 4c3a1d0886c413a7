//! The `oip` program as people start and stop it.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use oip_host::identity::Address;
use serde_json::{Value, json};

use crate::common::{Person, TestClient};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running `oip`, killed when the test is over.
struct Oip {
    child: Child,
    lines: Receiver<String>,
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oip"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("PORT")
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1")
        .env("HOME", folder)
        .stdin(Stdio::null());
    command
}

impl Oip {
    fn start(folder: &Path, args: &[&str]) -> Self {
        Self::run(command(folder, args))
    }

    fn run(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// A host that reports as JSON; what it said first.
    fn serving(folder: &Path, args: &[&str]) -> (Self, SocketAddr, Address) {
        let args = [&["serve", "--port", "0", "--json"], args].concat();
        let oip = Self::start(folder, &args);
        let opening: Value = serde_json::from_str(&oip.line()).unwrap();
        let http = opening["http"].as_str().unwrap();
        let socket = http.strip_prefix("http://").unwrap().parse().unwrap();
        let address = opening["address"].as_str().unwrap().parse().unwrap();
        (oip, socket, address)
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Lines up to the first that contains `what`.
    fn until(&self, what: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("no line with {what:?} in {seen:#?}");
            };
            let found = line.contains(what);
            seen.push(line);
            if found {
                return seen;
            }
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running");
            std::thread::yield_now();
        }
    }
}

async fn dial(socket: SocketAddr, host: Address, person: Person) -> TestClient {
    let mut client = TestClient::dial_at(socket, host, person).await;
    client.signs = true;
    client
}

impl Drop for Oip {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_empty_folder_is_enough_and_one_screen_says_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mut oip = Oip::start(folder.path(), &["--port", "0"]);
    let screen = oip.until("let somebody in").join("\n");
    for part in [
        "stub-agent",
        "address  0x",
        "new key",
        "http://127.0.0.1:",
        "ws://127.0.0.1:",
        "careful: the holder of this key, 0 in contacts",
        "chat ws://127.0.0.1:",
    ] {
        assert!(screen.contains(part), "{part} is missing in\n{screen}");
    }
    let co = folder.path().join(".co");
    let key = std::fs::metadata(co.join("keys/agent.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    assert!(!co.join("host.yaml").exists());
    oip.signal("-INT");
    assert_eq!(oip.ended().code(), Some(0));
}

#[test]
fn a_taken_port_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let out = command(folder.path(), &["serve"])
        .env("PORT", &port)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stdout.is_empty());
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&port) && said.contains("in use"), "{said}");
}

#[test]
fn what_cannot_be_served_is_said_before_anything_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let out = command(folder.path(), &["serve", "--model", "gpt-9"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8(out.stderr).unwrap().contains("gpt-9"));
    std::fs::create_dir_all(folder.path().join(".co")).unwrap();
    std::fs::write(folder.path().join(".co/host.yaml"), "trusst: open\n").unwrap();
    let out = command(folder.path(), &["serve"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        said.contains("host.yaml") && said.contains("trusst") && said.contains("trust"),
        "{said}"
    );
}

#[tokio::test]
async fn lines_tell_a_person_what_happens_and_forge_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let oip = Oip::start(folder.path(), &["serve", "--port", "0", "--trust", "open"]);
    let screen = oip.until("chat ws://");
    let find = |label: &str| {
        let line = screen
            .iter()
            .find(|line| line.trim_start().starts_with(label))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let socket = find("page")
        .strip_prefix("http://")
        .unwrap()
        .parse()
        .unwrap();
    let person = Person::new();
    let mut client = dial(socket, find("address").parse().unwrap(), person).await;
    oip.until("⚡ ws+ 127.0.0.1 (0 active)");
    let history = json!({"session": {"messages": [{"role": "user", "content": "a"}], "turn": 1}});
    client.connect(history).await;
    let connected = oip.until("✓ CONNECT identity=0x").pop().unwrap();
    assert!(connected.contains("status=new"), "{connected}");
    assert_eq!(oip.line(), "  ↑ client session: 1 messages");
    client.input("hi\u{1b}[31m\n✓ CONNECT forged").await;
    let input = oip.until("✓ INPUT identity=0x").pop().unwrap();
    assert!(
        !input.contains('\u{1b}') && input.contains("prompt=hi"),
        "{input}"
    );
    client.until("OUTPUT").await;
    client.command("NONSENSE", json!({})).await;
    client
        .expect_error("unknown message type: 'NONSENSE'")
        .await;
    let refused = oip.until("✗").pop().unwrap();
    assert!(refused.contains("unknown message type"), "{refused}");
    drop(client);
    oip.until("⚡ ws- ");
}

#[tokio::test]
async fn the_compatibility_record_tells_nothing_about_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command(
        folder.path(),
        &["serve", "--port", "0", "--json", "--trust", "open"],
    );
    serve
        .env("RUST_LOG", "oip_compat=debug")
        .stderr(Stdio::piped());
    let mut oip = Oip::run(serve);
    let opening: Value = serde_json::from_str(&oip.line()).unwrap();
    let socket = opening["http"].as_str().unwrap()[7..].parse().unwrap();
    let person = Person::new();
    let host = opening["address"].as_str().unwrap().parse().unwrap();
    let mut client = dial(socket, host, person).await;
    client
        .connect(json!({"protocol": {"name": "oip", "version": "0.1"}}))
        .await;
    oip.signal("-TERM");
    assert_eq!(oip.ended().code(), Some(0));
    let mut log = String::new();
    oip.child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    let record = log
        .lines()
        .find(|line| line.contains("OIP_COMPAT"))
        .unwrap();
    for part in ["direct", "oip/0.1", "accepted"] {
        assert!(record.contains(part), "{record}");
    }
    let address = person.address().to_string();
    assert!(
        !log.contains(&address[2..]) && !log.contains("127.0.0.1"),
        "{log}"
    );
}

#[tokio::test]
async fn ctrl_c_lets_a_turn_finish_and_says_goodbye() {
    let folder = tempfile::tempdir().unwrap();
    let (mut oip, socket, host) = Oip::serving(folder.path(), &["--trust", "open"]);
    let mut client = dial(socket, host, Person::new()).await;
    client.connect(json!({})).await;
    client.input("slow 1").await;
    client.until("tool_call").await;
    oip.signal("-INT");
    let frames = client.until("OUTPUT").await;
    assert_eq!(
        frames.last().unwrap()["result"],
        "slow finished after 1 steps"
    );
    client.expect_close(1001).await;
    assert_eq!(oip.ended().code(), Some(0));
}

#[tokio::test]
async fn a_killed_host_leaves_the_prompt_and_an_interrupted_turn() {
    let folder = tempfile::tempdir().unwrap();
    let person = Person::new();
    let (oip, socket, host) = Oip::serving(folder.path(), &["--trust", "open"]);
    let mut client = dial(socket, host, person).await;
    let id = client.connect(json!({})).await["session_id"].clone();
    client.turn("hello").await;
    client.input("slow 60").await;
    // The beginning is committed within milliseconds; two steps are seconds.
    client.until("tool_result").await;
    client.until("tool_result").await;
    oip.signal("-KILL");
    drop(oip);
    let (_oip, socket, host) = Oip::serving(folder.path(), &["--trust", "open"]);
    let mut client = dial(socket, host, person).await;
    let connected = client.connect(json!({"session_id": id})).await;
    assert_eq!(connected["status"], "connected");
    assert_eq!(connected["session_id"], id);
    let session = &connected["session"];
    let prompts: Vec<&Value> = session["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| &message["content"])
        .collect();
    assert_eq!(prompts, ["hello", "slow 60"]);
    let last = session["trace"].as_array().unwrap().last().unwrap();
    assert_eq!(last["type"], "turn_result");
    assert_eq!(last["reason"], "interrupted");
    assert_eq!(last["turn"], 2);
    let frames = client.turn("hello again").await;
    assert_eq!(frames.last().unwrap()["session"]["turn"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_connect_replayed_at_two_hosts_on_one_folder_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let (_one, first, host) = Oip::serving(folder.path(), &["--trust", "open"]);
    let (_two, second, same) = Oip::serving(folder.path(), &["--trust", "open"]);
    assert_eq!(host, same);
    let person = Person::new();
    let connect = person.connect(&host, true);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..20 {
        let connect = connect.clone();
        tasks.spawn(async move {
            let mut won = 0;
            for i in 0..50 {
                let at = if (worker + i) % 2 == 0 { first } else { second };
                let mut client = dial(at, host, person).await;
                client.send(&connect).await;
                let answer = client.next().await;
                match answer["type"].as_str().unwrap() {
                    "CONNECTED" => won += 1,
                    _ => assert_eq!(
                        answer["message"], "unauthorized: this CONNECT was already used",
                        "{answer}"
                    ),
                }
            }
            won
        });
    }
    let won: u32 = tasks.join_all().await.into_iter().sum();
    assert_eq!(won, 1);
}
