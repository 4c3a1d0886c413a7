//! The host and the reference package's Python client.

use std::collections::BTreeSet;

use oip_host::trust::Policy;
use serde_json::{Value, json};

use crate::common::{Caller, Proxy, TestHost, Told, types};

/// The client offers a seal, as it is shipped, or is kept from it.
const WAYS: [bool; 2] = [true, false];

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

/// A turn whose socket is lost in its second step, or just before the result of the first arrives.
///
/// Both times the last that the client got is a tool call, after which the host is quiet for a second.
/// Between a model call and its result the place would be in doubt, because they share an id.
async fn lost(host: &TestHost, sealed: bool, arrives: bool) {
    let proxy = Proxy::start(host.socket()).await;
    let mut caller = Caller::new(host, sealed);
    caller.endpoint = proxy.socket();
    let steps = json!([{"do": "input", "prompt": "slow 3"}]);
    let mut client = caller.start(steps).await;
    let mut told = Told::default();
    match (sealed, arrives) {
        // Nobody can see what is in a seal but the client.
        (true, _) => {
            client.until("tool_result", &mut told).await;
            client.until("tool_call", &mut told).await;
            proxy.cut();
        }
        (false, true) => proxy.cut_after(r#""tool_id":"call_slow_step_1_1""#),
        (false, false) => proxy.cut_before(r#""type":"tool_result""#),
    }
    client.rest(&mut told).await;
    let result = &told.results[0];
    assert_eq!(result["text"], "slow finished after 3 steps", "{result}");
    assert_eq!(result["done"], true);
    // GET /info, the socket that was cut, the one after it.
    assert_eq!(proxy.accepted(), 3);
    let mut events = told.events;
    events.retain(|event| event.get("id").is_some());
    assert_eq!(types(&events), THREE_STEPS);
    // Each event is another one, though a model call and its result share an id.
    let seen = events
        .iter()
        .map(|event| (event["id"].to_string(), event["type"].to_string()));
    assert_eq!(seen.collect::<BTreeSet<_>>().len(), events.len());
}

#[tokio::test]
async fn a_lost_socket_is_picked_up() {
    let host = TestHost::start().await;
    tokio::join!(
        lost(&host, true, true),
        lost(&host, false, true),
        lost(&host, false, false),
    );
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
        assert_eq!(results[1]["text"], "Stopped. What next?");
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
