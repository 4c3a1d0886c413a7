//! A signature is good for one use, wherever, whenever and as whatever it comes again.

use serde_json::{Value, json};

use crate::common::{Person, TestClient, TestHost, now};

#[tokio::test]
async fn a_connect_is_used_once() {
    let host = TestHost::start().await;
    let person = Person::new();
    let frame = person.connect(&host.address(), true);
    let mut first = TestClient::dial_as(&host, person).await;
    first.send(&frame).await;
    first.expect("CONNECTED").await;

    let signature = frame["signature"].as_str().unwrap();
    for spelling in [
        signature.to_owned(),
        format!("0x{signature}"),
        signature.to_uppercase(),
    ] {
        let mut copy = frame.clone();
        copy["signature"] = json!(spelling);
        // What is not signed makes it no other CONNECT.
        copy["session_id"] = json!("somewhere else");
        let mut thief = TestClient::dial(&host).await;
        thief.send(&copy).await;
        thief
            .expect_error("unauthorized: this CONNECT was already used")
            .await;
    }
    let host = host.restart().await;
    let mut thief = TestClient::dial(&host).await;
    thief.send(&frame).await;
    thief
        .expect_error("unauthorized: this CONNECT was already used")
        .await;
}

#[tokio::test]
async fn of_many_copies_at_once_one_gets_in() {
    let host = TestHost::start().await;
    let person = Person::new();
    let frame = person.connect(&host.address(), true);
    let mut clients = Vec::new();
    for _ in 0..16 {
        let mut client = TestClient::dial_as(&host, person).await;
        client.send(&frame).await;
        clients.push(client);
    }
    let mut entered = 0;
    for client in &mut clients {
        entered += usize::from(client.next().await["type"] == "CONNECTED");
    }
    assert_eq!(entered, 1);
}

#[tokio::test]
async fn a_command_is_used_once() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let frame = client.made("INPUT", json!({"prompt": "hello"}));
    client.send(&frame).await;
    client.until("OUTPUT").await;
    client.send(&frame).await;
    client
        .expect_error("unauthorized: signed command already used")
        .await;
    // Nor on another socket of the same person.
    let mut other = TestClient::v2_as(&host, client.person, json!({})).await;
    other.send(&frame).await;
    other
        .expect_error("unauthorized: signed command already used")
        .await;
    // Two that arrive together are two.
    let twice = client.made("EXEC", json!({"exec_id": 1, "tool": "echo_tool"}));
    for _ in 0..2 {
        client.send(&twice).await;
    }
    client.expect("EXEC_RESULT").await;
    client
        .expect_error("unauthorized: signed command already used")
        .await;
}

#[tokio::test]
async fn a_connect_is_good_for_nothing_else_and_nothing_else_for_it() {
    let host = TestHost::start().await;
    let person = Person::new();
    let connect = person.connect(&host.address(), true);
    let mut client = TestClient::v2_as(&host, person, json!({})).await;

    // As another command on a socket of the same person.
    let mut as_input = connect.clone();
    as_input["type"] = json!("INPUT");
    as_input["prompt"] = json!("hello");
    client.send(&as_input).await;
    client
        .expect_error("unauthorized: signed command type mismatch")
        .await;
    // As the frame whose payload has no type either.
    let mut as_onboard = connect.clone();
    as_onboard["type"] = json!("ONBOARD_SUBMIT");
    let mut stranger = TestClient::dial(&host).await;
    stranger.send(&connect).await;
    stranger.until("AGENT_PROFILE").await;
    let mut stranger = TestClient::dial(&host).await;
    stranger.send(&as_onboard).await;
    stranger
        .expect_error("unauthorized: signed command already used")
        .await;

    // The other way round: what was an ONBOARD_SUBMIT does not open a session.
    let onboard = person.envelope("ONBOARD_SUBMIT", &Person::connect_payload(&host.address()));
    let mut stranger = TestClient::dial(&host).await;
    stranger.send(&onboard).await;
    stranger.expect("ERROR").await;
    let mut as_connect = onboard.clone();
    as_connect["type"] = json!("CONNECT");
    stranger.send(&as_connect).await;
    stranger
        .expect_error("unauthorized: this CONNECT was already used")
        .await;
    // Nor does a command: it was used, and it is no CONNECT even before.
    let input = client.made("INPUT", json!({"prompt": "hello"}));
    client.send(&input).await;
    client.until("OUTPUT").await;
    let mut as_connect = input.clone();
    as_connect["type"] = json!("CONNECT");
    stranger.send(&as_connect).await;
    stranger
        .expect_error("unauthorized: this CONNECT was already used")
        .await;
}

#[tokio::test]
async fn a_forged_copy_does_not_burn_the_signature() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let frame = client.made("INPUT", json!({"prompt": "hello"}));
    let mut forged = frame.clone();
    forged["payload"]["prompt"] = json!("goodbye");
    client.send(&forged).await;
    client.expect_error("unauthorized: invalid signature").await;
    let mut foreign = frame.clone();
    foreign["from"] = json!(Person::new().address().to_string());
    client.send(&foreign).await;
    client.expect_error("unauthorized: invalid signature").await;
    // All three arrive together: only the real one runs.
    client.send(&forged).await;
    client.send(&frame).await;
    client.send(&forged).await;
    client.expect_error("unauthorized: invalid signature").await;
    client.expect_error("unauthorized: invalid signature").await;
    let frames = client.until("OUTPUT").await;
    assert_eq!(frames[frames.len() - 1]["result"], "Hello! You said: hello");

    let person = Person::new();
    let connect = person.connect(&host.address(), true);
    let mut forged = connect.clone();
    forged["payload"]["signed_commands"] = json!(0);
    let mut stranger = TestClient::dial_as(&host, person).await;
    stranger.send(&forged).await;
    stranger
        .expect_error("unauthorized: invalid signature")
        .await;
    stranger.send(&connect).await;
    stranger.expect("CONNECTED").await;
}

#[tokio::test]
async fn without_its_ledger_the_host_runs_nothing() {
    const UNAVAILABLE: &str = "misconfigured: replay protection unavailable";
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let mut stranger = TestClient::dial(&host).await;
    let ledger = host.file("replay.sqlite3");
    let aside = host.file("aside.sqlite3");
    std::fs::rename(&ledger, &aside).unwrap();
    std::fs::create_dir(&ledger).unwrap();

    let frame = client.made("INPUT", json!({"prompt": "hello"}));
    client.send(&frame).await;
    client.expect_error(UNAVAILABLE).await;
    let connect = stranger.person.connect(&stranger.host, true);
    stranger.send(&connect).await;
    stranger.expect_error(UNAVAILABLE).await;
    // What needs no ledger goes on.
    client.expect_quiet().await;
    assert_eq!(host.running_turns(), 0);

    std::fs::remove_dir(&ledger).unwrap();
    std::fs::rename(&aside, &ledger).unwrap();
    client.send(&frame).await;
    client.until("OUTPUT").await;
    stranger.send(&connect).await;
    stranger.expect("CONNECTED").await;
}

/// The payloads of CONNECT that were recorded of each client, with this host and this time in them.
#[tokio::test]
async fn the_connects_of_real_clients_are_accepted() {
    let host = TestHost::start().await;
    let lines = include_str!("../fixtures/signatures.jsonl").lines();
    // Some other frames hold lone surrogates, which serde does not take.
    let recorded = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut shapes = Vec::new();
    for row in recorded.filter(|row| row["type"] == "CONNECT") {
        let mut payload = row["payload"].clone();
        let keys: Vec<String> = payload.as_object().unwrap().keys().cloned().collect();
        if shapes.contains(&keys) {
            continue;
        }
        shapes.push(keys);
        let whole_seconds = payload["timestamp"].is_u64();
        payload["to"] = json!(host.address().to_string());
        payload["timestamp"] = if whole_seconds {
            json!(now() as u64)
        } else {
            json!(now())
        };
        let person = Person::new();
        let mut client = TestClient::dial_as(&host, person).await;
        client.send(&person.envelope("CONNECT", &payload)).await;
        client.expect("CONNECTED").await;
        client.expect("AGENT_PROFILE").await;
        // v2 exactly if it was asked for.
        client.send(&json!({"type": "INTERRUPT"})).await;
        let refusal = match payload.get("signed_commands") {
            Some(_) => "unauthorized: signed command required",
            None => "interrupt requires an active turn",
        };
        client.expect_error(refusal).await;
    }
    assert_eq!(shapes.len(), 4, "{shapes:?}");
}
