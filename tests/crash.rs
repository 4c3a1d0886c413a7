//! A host that ends in the middle of a turn, without a word.

use std::sync::Arc;

use serde_json::json;

use crate::common::child::{ChildHost, PERSON};
use crate::common::{Person, TestClient, TestHost, types};

#[tokio::test]
async fn a_turn_cut_off_by_a_crash_is_found_interrupted() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let child = ChildHost::start(folder.path());
    let person = Person::new();
    let mut client = TestClient::dial_at(child.socket, child.address(), person).await;
    client.signs = true;
    let connect = person.connect(&client.host, true);
    client.send(&connect).await;
    let connected = client.expect("CONNECTED").await;
    let session = connected["session_id"].as_str().unwrap().to_owned();
    client.turn("before").await;
    client.input("wait for me").await;
    client.until("tool_call").await;
    child.kill();

    let host = TestHost::reopen(folder, PERSON).await;
    let mut back = TestClient::dial_as(&host, person).await;
    // What was used before the crash stays used.
    back.send(&connect).await;
    back.expect_error("unauthorized: this CONNECT was already used")
        .await;
    back.signs = true;
    let connected = back.connect(json!({"session_id": session})).await;
    assert_eq!(connected["status"], "connected");
    assert_eq!(connected["server_newer"], true);
    let messages = connected["session"]["messages"].as_array().unwrap();
    let said: Vec<_> = messages.iter().map(|m| &m["content"]).collect();
    assert_eq!(said, ["before", "before", "wait for me"]);
    let trace = connected["session"]["trace"].as_array().unwrap();
    assert_eq!(
        types(trace),
        ["user_input", "turn_result", "user_input", "turn_result"]
    );
    assert_eq!(trace[3]["reason"], "interrupted");
    assert_eq!(trace[3]["turn"], 2);
    let items = connected["chat_items"].as_array().unwrap();
    assert_eq!(items[items.len() - 1]["content"], "wait for me");

    let frames = back.turn("after").await;
    assert_eq!(frames[0]["turn"], 3);
    let output = frames[frames.len() - 1].clone();
    // And once more: what was mended is stored with the next turn.
    let host = host.restart().await;
    let mut back = TestClient::dial_as(&host, person).await;
    let connected = back.connect(json!({"session_id": session})).await;
    assert_eq!(connected["session"], output["session"]);
    assert_eq!(connected["chat_items"], output["chat_items"]);
}
