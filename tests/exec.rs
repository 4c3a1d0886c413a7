//! EXEC: one tool, no model (facts D6, F53).

use oip_host::config::Permissions;
use serde_json::{Value, json};

use crate::common::{TestClient, TestHost};

/// A host on which `slow_step` and `always_fails` may be called directly, and a caller who may.
async fn admitted() -> (TestHost, TestClient) {
    let permissions: Permissions =
        serde_json::from_str(r#"{"slow_step": true, "always_fails": true}"#).unwrap();
    let host = TestHost::with(|config| config.permissions = permissions).await;
    let client = TestClient::v2(&host).await;
    host.list("contacts.txt", &client.person.address().to_string());
    (host, client)
}

async fn result(client: &mut TestClient, fields: Value) -> Value {
    client.command("EXEC", fields).await;
    client.expect("EXEC_RESULT").await
}

#[tokio::test]
async fn what_comes_of_each_call() {
    let (_host, mut client) = admitted().await;
    let ok = result(
        &mut client,
        json!({"exec_id": "e1", "tool": "echo_tool", "args": {"text": "hi å"}}),
    )
    .await;
    let took = ok["duration_ms"].as_u64().unwrap();
    assert_eq!(
        ok,
        json!({"type": "EXEC_RESULT", "exec_id": "e1", "tool": "echo_tool", "status": "success",
               "result": "echo: hi å", "duration_ms": took})
    );
    for (fields, error) in [
        (json!({}), "tool required"),
        (json!({"tool": ""}), "tool required"),
        (json!({"tool": 5}), "tool required"),
        (
            json!({"tool": "echo_tool", "args": []}),
            "args must be an object",
        ),
        (
            json!({"tool": "echo_tool", "args": "x"}),
            "args must be an object",
        ),
        (json!({"tool": "always_fails"}), "expected failure: å∫"),
    ] {
        let failed = result(&mut client, fields).await;
        assert_eq!(failed["status"], "error");
        assert_eq!(failed["error"], error);
        assert_eq!(failed.get("result"), None);
    }
    for tool in ["danger", "no_such_tool", "ask_user"] {
        let blocked = result(&mut client, json!({"tool": tool})).await;
        let why = blocked["error"].as_str().unwrap();
        let start = format!("blocked: '{tool}' is not in the permission whitelist");
        assert!(why.starts_with(&start), "{why}");
        assert_eq!(blocked.get("duration_ms"), None);
    }
    for args in [
        json!({}),
        json!({"text": "hi", "nope": 1}),
        json!({"text": 5}),
    ] {
        let wrong = result(&mut client, json!({"tool": "echo_tool", "args": args})).await;
        let why = wrong["error"].as_str().unwrap();
        assert!(why.starts_with("wrong arguments: "), "{why}");
    }
    client.expect_quiet().await;
}

#[tokio::test]
async fn an_exec_id_comes_back_as_it_came() {
    let (_host, mut client) = admitted().await;
    for id in [
        json!("x"),
        json!(8),
        json!(1.5),
        json!(null),
        json!({"a": [1, {"b": true}]}),
        json!([]),
        json!(""),
    ] {
        let answer = result(&mut client, json!({"exec_id": id, "tool": "echo_tool"})).await;
        assert_eq!(answer["exec_id"], id);
    }
    let answer = result(&mut client, json!({"tool": "echo_tool"})).await;
    assert_eq!(answer["exec_id"], Value::Null);
    assert!(answer.get("exec_id").is_some());

    // To the letter: 1e2 is not 100.0, and a lone surrogate is still one.
    let (host, _) = admitted().await;
    let mut v1 = TestClient::v1(&host).await;
    for id in [
        "1e2",
        "100000000000000000000000",
        "-0.0",
        r#""\ud800""#,
        r#"{"b":1,"a":2}"#,
    ] {
        let frame = format!(r#"{{"type":"EXEC","exec_id":{id},"tool":"echo_tool"}}"#);
        v1.send_text(&frame).await;
        let text = v1.next_text().await;
        assert!(text.contains(&format!(r#""exec_id":{id},"#)), "{text}");
    }
}

#[tokio::test]
async fn a_stranger_may_talk_but_not_exec() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let fields = json!({"exec_id": 1, "tool": "echo_tool", "args": {"text": "hi"}});
    let refused = result(&mut client, fields.clone()).await;
    assert_eq!(refused["status"], "error");
    assert_eq!(
        refused["error"],
        "forbidden: exec requires a contact or admin, you are stranger"
    );
    client.turn("hello").await;
    let me = client.person.address().to_string();
    for list in ["contacts.txt", "whitelist.txt", "admins.txt"] {
        host.list(list, &me);
        assert_eq!(
            result(&mut client, fields.clone()).await["status"],
            "success"
        );
        host.list(list, "");
    }
    assert_eq!(result(&mut client, fields).await["status"], "error");
}

#[tokio::test]
async fn a_slow_call_holds_up_nothing() {
    let (_host, mut client) = admitted().await;
    let slow = json!({"exec_id": "slow", "tool": "slow_step", "args": {"i": 1}});
    client.command("EXEC", slow).await;
    let fast = json!({"exec_id": "fast", "tool": "echo_tool", "args": {"text": "hi"}});
    client.command("EXEC", fast).await;
    client.input("hello").await;
    assert_eq!(client.expect("EXEC_RESULT").await["exec_id"], "fast");
    client.until("OUTPUT").await;
    let slow = client.expect("EXEC_RESULT").await;
    assert_eq!(slow["exec_id"], "slow");
    assert_eq!(slow["result"], "step 1 ok");
    assert!(slow["duration_ms"].as_u64().unwrap() >= 1000);
}

#[tokio::test]
async fn many_calls_at_once_are_each_answered() {
    let (_host, mut client) = admitted().await;
    for id in 0..64 {
        let fields = json!({"exec_id": id, "tool": "echo_tool", "args": {"text": id.to_string()}});
        client.command("EXEC", fields).await;
    }
    for id in 0..64 {
        let answer = client.expect("EXEC_RESULT").await;
        assert_eq!(answer["exec_id"], id);
        assert_eq!(answer["result"], format!("echo: {id}"));
    }
    // More slow ones than may run at once: the rest waits, nothing is lost.
    for id in 0..80 {
        let fields = json!({"exec_id": id, "tool": "slow_step", "args": {"i": id}});
        client.command("EXEC", fields).await;
    }
    let mut ids = Vec::new();
    for _ in 0..80 {
        ids.push(
            client.expect("EXEC_RESULT").await["exec_id"]
                .as_u64()
                .unwrap(),
        );
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..80).collect::<Vec<_>>());
}

#[tokio::test]
async fn exec_leaves_no_trace_in_the_conversation() {
    let (_host, mut client) = admitted().await;
    result(
        &mut client,
        json!({"tool": "echo_tool", "args": {"text": "unheard"}}),
    )
    .await;
    let frames = client.turn("hello").await;
    let output = &frames[frames.len() - 1];
    assert!(!output.to_string().contains("unheard"));
    assert_eq!(output["session"]["turn"], 1);
}
