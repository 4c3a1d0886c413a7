//! What a turn looks like to those who watch it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Person, TestClient, TestHost, types};

const PLAIN: [&str; 6] = [
    "user_input",
    "llm_call",
    "llm_result",
    "complete",
    "turn_result",
    "OUTPUT",
];
const ONE_TOOL: [&str; 10] = [
    "user_input",
    "llm_call",
    "llm_result",
    "tool_call",
    "tool_result",
    "llm_call",
    "llm_result",
    "complete",
    "turn_result",
    "OUTPUT",
];

fn last(frames: &[Value]) -> &Value {
    &frames[frames.len() - 1]
}

fn of<'a>(frames: &'a [Value], kind: &str) -> Vec<&'a Value> {
    frames.iter().filter(|f| f["type"] == kind).collect()
}

/// What holds for every turn, whatever it does.
fn check(client: &TestClient, frames: &[Value]) {
    let output = last(frames);
    let mut ids = Vec::new();
    for frame in &frames[..frames.len() - 1] {
        assert_eq!(frame["session_id"], client.session.as_str(), "{frame}");
        assert!(frame["ts"].as_f64().unwrap() > 1e9, "{frame}");
        let id = frame["id"].as_str().unwrap();
        // A model call and its result share an id, nothing else does.
        let shared = frame["type"] == "llm_result";
        assert_eq!(ids.contains(&id), shared, "{frame}");
        ids.push(id);
    }
    let calls = of(frames, "tool_call");
    let results = of(frames, "tool_result");
    assert_eq!(calls.len(), results.len());
    for (call, result) in calls.iter().zip(&results) {
        assert_eq!(call["status"], "in_progress");
        assert!(["completed", "failed"].contains(&result["status"].as_str().unwrap()));
        for key in ["tool_id", "name", "args"] {
            assert_eq!(call[key], result[key]);
        }
        assert_ne!(call["id"], result["id"]);
        assert!(result["timing_ms"].is_f64());
    }
    let (calls, results) = (of(frames, "llm_call"), of(frames, "llm_result"));
    for (n, (call, result)) in calls.iter().zip(&results).enumerate() {
        assert_eq!(call["id"], result["id"]);
        assert_eq!(call["iteration"], n + 1);
        assert_eq!(call["model"], "stub/scripted-1");
        assert!(result["usage"]["total_tokens"].as_u64().unwrap() > 0);
    }
    assert_eq!(of(frames, "turn_result").len(), 1);
    // OUTPUT tells what the conversation is now, and the last thing said in it.
    let session = &output["session"];
    for key in [
        "session_id",
        "messages",
        "mode",
        "turns_left",
        "trace",
        "turn",
        "iteration",
        "updated",
    ] {
        assert!(session.get(key).is_some(), "{key}");
    }
    assert_eq!(session["session_id"], client.session.as_str());
    assert_eq!(session["mode"], "auto");
    assert_eq!(session["iteration"], calls.len());
    let messages = session["messages"].as_array().unwrap();
    assert_eq!(last(messages)["content"], output["result"]);
    assert_eq!(last(messages)["role"], "assistant");
    let items = output["chat_items"].as_array().unwrap();
    assert_eq!(last(items)["type"], "agent");
    assert_eq!(last(items)["content"], output["result"]);
    assert_eq!(last(items)["id"], last(messages)["id"]);
    assert!(output["duration_ms"].is_u64());
    let trace = session["trace"].as_array().unwrap();
    assert_eq!(last(trace)["type"], "turn_result");
    assert!(trace.iter().all(|entry| entry.get("session_id").is_none()));
}

#[tokio::test]
async fn texts_come_back_byte_for_byte() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    for (turn, (prompt, result)) in [
        ("hello", "Hello! You said: hello".to_owned()),
        ("  héllo \n", "Hello! You said:   héllo \n".to_owned()),
        ("big 3", "x".repeat(3 << 10)),
        (
            "unicode",
            "héllo 世界 🚀 \u{2028} \\ \" </script> end".to_owned(),
        ),
        (
            "markdown",
            "# Title\n\n- a\n- b\n\n```python\nprint('hi')\n```\n".to_owned(),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let frames = client.turn(prompt).await;
        check(&client, &frames);
        assert_eq!(types(&frames), PLAIN);
        assert_eq!(frames[0]["content"], prompt);
        assert_eq!(frames[0]["turn"], turn + 1);
        assert_eq!(last(&frames)["result"], result);
        assert_eq!(frames[4]["reason"], "natural");
        // The conversation goes on: two messages and two items a turn.
        let session = &last(&frames)["session"];
        assert_eq!(session["turn"], turn + 1);
        assert_eq!(
            session["messages"].as_array().unwrap().len(),
            2 * (turn + 1)
        );
        let items = last(&frames)["chat_items"].as_array().unwrap();
        assert_eq!(items.len(), 2 * (turn + 1));
        assert_eq!(items[2 * turn]["content"], prompt);
        assert_eq!(items[2 * turn]["id"], format!("msg-{}", 2 * turn));
    }
}

#[tokio::test]
async fn tools_are_shown_with_their_results() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    for (prompt, status, raw, said) in [
        (
            "slow 1",
            "completed",
            "step 0 ok",
            "slow finished after 1 steps",
        ),
        (
            "missing",
            "failed",
            "unknown tool: no_such_tool",
            "tool was missing",
        ),
        ("fail", "failed", "expected failure: å∫", "tool failed"),
    ] {
        let frames = client.turn(prompt).await;
        check(&client, &frames);
        assert_eq!(types(&frames), ONE_TOOL);
        let result = &frames[4];
        assert_eq!(result["status"], status);
        if status == "completed" {
            assert_eq!(result["result"], raw);
            assert_eq!(result["raw_output"], raw);
            assert_eq!(result.get("error"), None);
        } else {
            assert_eq!(result["error"], raw);
            assert!(result["result"].as_str().unwrap().contains(raw));
        }
        assert_eq!(last(&frames)["result"], said);
        assert_eq!(frames[7]["tools_used"].as_array().unwrap().len(), 1);
        let items = last(&frames)["chat_items"].as_array().unwrap();
        let item = &items[items.len() - 2];
        assert_eq!(item["type"], "tool_call");
        assert_eq!(item["id"], result["tool_id"]);
        let done = if status == "completed" {
            "done"
        } else {
            "error"
        };
        assert_eq!(item["status"], done);
    }
}

#[tokio::test]
async fn a_stream_comes_whole_and_in_order() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let frames = client.turn("stream 500").await;
    check(&client, &frames);
    let thoughts = of(&frames, "thinking");
    assert_eq!(thoughts.len(), 500);
    assert!(
        thoughts
            .iter()
            .all(|t| t["content"].as_str().unwrap().len() == 100)
    );
    assert_eq!(last(&frames)["result"], "streamed 500");
    // Thoughts are no part of the conversation.
    assert!(!last(&frames)["session"].to_string().contains("thinking"));
}

#[tokio::test]
async fn a_failed_turn_tells_nothing_of_its_cause_and_the_session_lives() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.input("boom").await;
    let frames = client.until("ERROR").await;
    assert_eq!(
        types(&frames),
        ["user_input", "llm_call", "turn_result", "ERROR"]
    );
    assert_eq!(frames[2]["reason"], "error");
    assert_eq!(frames[2]["usage"], Value::Null);
    assert_eq!(last(&frames)["code"], -32603);
    assert_eq!(last(&frames)["message"], "Unable to run agent");
    assert!(!frames[2..].iter().any(|f| f.to_string().contains("boom")));
    let frames = client.turn("hello").await;
    check(&client, &frames);
    assert_eq!(frames[0]["turn"], 2);
}

#[tokio::test]
async fn the_shape_of_a_turn() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let frames = json!(client.turn("fail").await);
    let session = client.session.clone();
    let known = std::cell::RefCell::new(Vec::<String>::new());
    let redacted = redact(&frames, &mut |id| {
        let mut known = known.borrow_mut();
        if id == session {
            return "[session]".into();
        }
        let at = known.iter().position(|k| k == id).unwrap_or_else(|| {
            known.push(id.to_owned());
            known.len() - 1
        });
        format!("[id {at}]")
    });
    insta::assert_json_snapshot!(redacted);
}

/// Ids by their order of appearance, times and durations away.
fn redact(value: &Value, name: &mut impl FnMut(&str) -> String) -> Value {
    match value {
        Value::Array(list) => list.iter().map(|v| redact(v, name)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("id" | "session_id", Value::String(id)) if !id.starts_with("msg-") => {
                        json!(name(id))
                    }
                    ("ts" | "updated" | "duration_ms" | "timing_ms", Value::Number(_)) => {
                        json!(format!("[{key}]"))
                    }
                    (_, value) => redact(value, name),
                };
                (key.clone(), value)
            })
            .collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn a_second_device_sees_the_turn_once() {
    let host = TestHost::start().await;
    let person = Person::new();
    let mut one = TestClient::v2_as(&host, person, json!({})).await;
    let same = json!({"session_id": one.session});
    let mut two = TestClient::v2_as(&host, person, same).await;
    let mut stranger = TestClient::v2(&host).await;
    let frames = one.turn("slow 1").await;
    check(&one, &frames);
    let told = two.expect("user_message").await;
    assert_eq!(
        told,
        json!({"type": "user_message", "content": "slow 1", "session_id": one.session})
    );
    assert_eq!(two.until("OUTPUT").await, frames);
    stranger.expect_quiet().await;
    // The other way round, and input from the device that did not start it.
    two.input("slow 2").await;
    one.expect("user_message").await;
    let mut seen = one.until("tool_call").await;
    one.input("and tea").await;
    let ack = one.expect("RUNTIME_INPUT_ACK").await;
    seen.extend(one.until("OUTPUT").await);
    assert_eq!(two.until("OUTPUT").await, seen);
    let added = of(&seen, "user_input")[1];
    assert_eq!(added["runtime_input"], true);
    assert_eq!(added["id"], ack["id"]);
    two.expect_quiet().await;
}

#[tokio::test]
async fn input_during_a_turn_is_acknowledged_and_read() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.input("slow 2").await;
    let mut frames = client.until("tool_call").await;
    client.input("some milk").await;
    let ack = client.expect("RUNTIME_INPUT_ACK").await;
    assert_eq!(ack["session_id"], client.session.as_str());
    frames.extend(client.until("OUTPUT").await);
    check(&client, &frames);
    let output = last(&frames);
    assert_eq!(
        output["result"],
        "slow finished after 2 steps; also: some milk"
    );
    let added = of(&frames, "user_input")[1];
    assert_eq!(added["id"], ack["id"]);
    assert_eq!(added["content"], "some milk");
    let items = output["chat_items"].as_array().unwrap();
    let said = |item: &&Value| item["type"] == "user" && item["content"] == "some milk";
    assert_eq!(items.iter().filter(said).count(), 1);
    // After the end it is a turn of its own.
    let frames = client.turn("more milk").await;
    assert_eq!(last(&frames)["result"], "Hello! You said: more milk");
    assert_eq!(frames[0]["turn"], 2);
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_at_once() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.command("INTERRUPT", json!({})).await;
    client
        .expect_error("interrupt requires an active turn")
        .await;
    client.input("slow 30").await;
    let mut frames = client.until("tool_call").await;
    client.input("this is not eaten").await;
    let ack = client.expect("RUNTIME_INPUT_ACK").await;
    let asked = Instant::now();
    client.command("INTERRUPT", json!({})).await;
    frames.extend(client.until("OUTPUT").await);
    assert!(
        asked.elapsed() < Duration::from_secs(2),
        "{:?}",
        asked.elapsed()
    );
    check(&client, &frames);
    assert_eq!(of(&frames, "turn_result")[0]["reason"], "interrupted");
    assert_eq!(of(&frames, "tool_result")[0]["status"], "failed");
    // What was acknowledged is in the conversation, though no model has answered it.
    assert!(
        frames
            .iter()
            .any(|f| f["type"] == "user_input" && f["id"] == ack["id"])
    );
    let messages = last(&frames)["session"]["messages"].to_string();
    assert!(messages.contains("this is not eaten"));
    client.expect_quiet().await;
    client.turn("hello").await;
}

#[tokio::test]
async fn a_mode_is_told_and_kept() {
    let host = TestHost::start().await;
    let person = Person::new();
    let mut client = TestClient::v2_as(&host, person, json!({})).await;
    client
        .command("mode_change", json!({"mode": "read-only"}))
        .await;
    assert_eq!(
        client.expect("mode_changed").await,
        json!({"type": "mode_changed", "mode": "read-only", "turns_left": null,
               "session_id": client.session})
    );
    client
        .command("mode_change", json!({"mode": "nonsense"}))
        .await;
    let error = client.expect_error("Unsupported mode: 'nonsense'").await;
    assert_eq!(error["code"], -32602);
    client
        .command("mode_change", json!({"mode": "full-access"}))
        .await;
    let error = client
        .expect_error("Permission mode is not available")
        .await;
    assert_eq!(error["code"], -32602);
    client.input("slow 1").await;
    client.until("tool_call").await;
    client.command("mode_change", json!({"mode": "auto"})).await;
    let error = client.expect_error("Session is busy").await;
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!(-32000), &json!(true))
    );
    let frames = client.until("OUTPUT").await;
    assert_eq!(last(&frames)["session"]["mode"], "read-only");

    let session = client.session.clone();
    let host = host.restart().await;
    let mut client = TestClient::dial_as(&host, person).await;
    let connected = client.connect(json!({"session_id": session})).await;
    assert_eq!(connected["session_modes"]["currentModeId"], "read-only");
}

#[tokio::test]
async fn an_answer_that_nothing_waits_for_is_stale() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    for (kind, fields) in [
        (
            "APPROVAL_RESPONSE",
            json!({"approved": true, "scope": "once", "request_id": "r-1"}),
        ),
        (
            "APPROVAL_RESPONSE",
            json!({"approved": true, "scope": "once"}),
        ),
        (
            "ASK_USER_RESPONSE",
            json!({"answer": "red", "request_id": "r-1"}),
        ),
    ] {
        client.command(kind, fields.clone()).await;
        let error = client.expect("ERROR").await;
        assert_eq!(error["code"], "STALE_ANSWER");
        assert_eq!(error["reason"], "stale");
        assert_eq!(error["request_id"], fields["request_id"]);
    }
    client.expect_quiet().await;
}

#[tokio::test]
async fn attachments_have_limits_and_are_never_taken_and_lost() {
    let host = TestHost::with(|config| {
        config.max_file_size = 1;
        config.max_files_per_request = 1;
    })
    .await;
    let mut client = TestClient::v2(&host).await;
    let image = "data:image/png;base64,aGVsbG8=";
    let two = json!({"prompt": "look", "images": [image, image]});
    client.command("INPUT", two).await;
    client
        .expect_error("images: 2 were sent, 1 are allowed")
        .await;
    let large = format!("data:text/plain;base64,{}", "A".repeat(1_500_000));
    let files = json!({"prompt": "read", "files": [{"name": "a.txt", "data": large}]});
    client.command("INPUT", files).await;
    client
        .expect_error("file a.txt: 1125000 bytes were sent, 1048576 are allowed")
        .await;
    client
        .command("INPUT", json!({"prompt": "slow 1", "images": [image]}))
        .await;
    client.until("tool_call").await;
    client
        .command("INPUT", json!({"prompt": "and this", "images": [image]}))
        .await;
    let refused = client.until("ERROR").await;
    assert_eq!(last(&refused)["code"], "RUNTIME_INPUT_REJECTED");
    assert_eq!(last(&refused)["retryable"], true);
    let output = last(&client.until("OUTPUT").await).clone();
    assert_eq!(output["result"], "slow finished after 1 steps");
    let content = &output["session"]["messages"][0]["content"];
    assert_eq!(content[1]["image_url"]["url"], image);
}
