//! Who may say what: the checks of CONNECT and of signed commands, in their order.

use oip_host::seal::hello;
use serde_json::{Value, json};

use crate::common::{Person, TestClient, TestHost, now};

/// A CONNECT whose payload was changed before it was signed.
fn connect(client: &TestClient, change: impl FnOnce(&mut Value)) -> Value {
    let mut payload = Person::connect_payload(&client.host);
    change(&mut payload);
    client.person.envelope("CONNECT", &payload)
}

/// A command whose payload was changed before it was signed.
fn command(client: &TestClient, kind: &str, change: impl FnOnce(&mut Value)) -> Value {
    let fields = json!({"prompt": "hi", "tool": "echo_tool", "args": {"text": "hi"}});
    let mut payload = Person::command_payload(&client.host, kind, &fields);
    change(&mut payload);
    client.person.envelope(kind, &payload)
}

fn remove(frame: &mut Value, key: &str) {
    frame.as_object_mut().unwrap().remove(key);
}

#[tokio::test]
async fn each_flaw_of_a_connect_is_named_and_the_socket_lives() {
    let host = TestHost::start().await;
    let mut client = TestClient::dial(&host).await;
    let good = client.person.connect(&client.host, true);
    let other = Person::new();

    let without = |key: &str| {
        let mut frame = good.clone();
        remove(&mut frame, key);
        frame
    };
    let with = |key: &str, value: Value| {
        let mut frame = good.clone();
        frame[key] = value;
        frame
    };
    let signed = |key: &str, value: Value| connect(&client, |payload| payload[key] = value);
    let cases = [
        (without("payload"), "signed request required"),
        (without("signature"), "signed request required"),
        (without("from"), "'from' field required"),
        (with("payload", json!(null)), "payload must be an object"),
        (with("payload", json!("x")), "payload must be an object"),
        (with("signature", json!("")), "signature required"),
        (
            signed("timestamp", json!(0)),
            "timestamp required in payload",
        ),
        (
            signed("timestamp", json!(null)),
            "timestamp required in payload",
        ),
        (
            connect(&client, |payload| remove(payload, "timestamp")),
            "timestamp required in payload",
        ),
        (signed("timestamp", json!("1")), "timestamp must be numeric"),
        (
            signed("timestamp", json!(true)),
            "timestamp must be numeric",
        ),
        (signed("timestamp", json!([1])), "timestamp must be numeric"),
        (
            signed("timestamp", json!(now() - 310.0)),
            "signature expired",
        ),
        (
            signed("timestamp", json!(now() + 310.0)),
            "signature expired",
        ),
        (
            signed("to", json!(other.address().to_string())),
            "wrong recipient",
        ),
        (signed("to", json!(5)), "wrong recipient"),
        (
            connect(&client, |payload| remove(payload, "to")),
            "wrong recipient",
        ),
        (with("signature", json!(5)), "invalid signature"),
        (with("signature", json!("00")), "invalid signature"),
        (
            with("from", json!(other.address().to_string())),
            "invalid signature",
        ),
        (
            signed("signed_commands", json!(2)),
            "signed_commands must be 1, 0 or absent",
        ),
        (
            signed("signed_commands", json!("1")),
            "signed_commands must be 1, 0 or absent",
        ),
    ];
    for (frame, refusal) in cases {
        client.send(&frame).await;
        client
            .expect_error(&format!("unauthorized: {refusal}"))
            .await;
    }
    client.expect_quiet().await;
    // Nothing of it has used the good one up.
    client.send(&good).await;
    client.expect("CONNECTED").await;
}

#[tokio::test]
async fn a_timestamp_must_be_finite() {
    let host = TestHost::start().await;
    let mut client = TestClient::dial(&host).await;
    for text in ["NaN", "Infinity", "-Infinity", "1e999"] {
        let payload = format!(r#"{{"to":"{}","timestamp":{text}}}"#, client.host);
        let signature = client.person.sign(&payload);
        let from = client.person.address();
        let frame = format!(
            r#"{{"type":"CONNECT","payload":{payload},"from":"{from}","signature":"{signature}"}}"#
        );
        client.send_text(&frame).await;
        client
            .expect_error("unauthorized: timestamp must be finite")
            .await;
    }
}

#[tokio::test]
async fn checks_come_in_their_order() {
    let host = TestHost::start().await;
    let mut client = TestClient::dial(&host).await;
    let blocked = Person::new();
    host.list("blocklist.txt", &format!("{}\n", blocked.address()));

    // Everything is wrong with it; what is mended shows what comes next.
    let mut frame = connect(&client, |payload| {
        payload["timestamp"] = json!(now() - 1000.0);
        remove(payload, "to");
    });
    frame["from"] = json!(blocked.address().to_string());
    frame["signature"] = json!("00");
    client.send(&frame).await;
    client.expect_error("forbidden: blocked").await;
    frame["from"] = json!(client.person.address().to_string());
    client.send(&frame).await;
    client.expect_error("unauthorized: signature expired").await;
    frame["payload"]["timestamp"] = json!(now());
    client.send(&frame).await;
    client.expect_error("unauthorized: wrong recipient").await;
    frame["payload"]["to"] = json!(client.host.to_string());
    client.send(&frame).await;
    client.expect_error("unauthorized: invalid signature").await;
    frame["signature"] = json!(client.person.sign(&frame["payload"].to_string()));
    client.send(&frame).await;
    client.expect("CONNECTED").await;
}

#[tokio::test]
async fn trust_is_asked_last() {
    let host = TestHost::with(|config| config.trust = oip_host::trust::Policy::Strict).await;
    let mut client = TestClient::dial(&host).await;
    let frame = client.person.connect(&client.host, true);
    client.send(&frame).await;
    let error = client.expect("ERROR").await;
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("forbidden: you are stranger"),
        "{message}"
    );
    // It verified and was claimed before the policy said no.
    client.send(&frame).await;
    client
        .expect_error("unauthorized: this CONNECT was already used")
        .await;
    host.list("whitelist.txt", &client.person.address().to_string());
    client.connect(json!({})).await;
}

#[tokio::test]
async fn an_unreadable_list_admits_nobody() {
    let host = TestHost::start().await;
    std::fs::write(host.file("blocklist.txt"), b"\xff\xfe").unwrap();
    let mut client = TestClient::dial(&host).await;
    client
        .send(&client.person.connect(&client.host, true))
        .await;
    let error = client.expect("ERROR").await;
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("misconfigured: "), "{message}");
    assert!(message.contains("blocklist.txt"), "{message}");
    host.list("blocklist.txt", "");
    client.connect(json!({})).await;
}

#[tokio::test]
async fn every_spelling_of_an_address_is_one_person() {
    let host = TestHost::start().await;
    let person = Person::new();
    let address = person.address().to_string();
    let bare = address.trim_start_matches("0x").to_owned();
    let spellings = [
        address.clone(),
        bare.clone(),
        bare.to_uppercase(),
        format!("0x{}", bare.to_uppercase()),
    ];
    let mut first = TestClient::v2_as(&host, person, json!({})).await;
    first.turn("hello").await;
    for spelling in &spellings {
        let mut client = TestClient::dial_as(&host, person).await;
        let mut frame = client.person.connect(&client.host, true);
        frame["from"] = json!(spelling);
        frame["session_id"] = json!(first.session);
        client.send(&frame).await;
        let connected = client.expect("CONNECTED").await;
        assert_eq!(connected["session_id"], first.session.as_str());
        assert_eq!(connected["status"], "connected");
        // The host's own address has as many spellings.
        client.expect("AGENT_PROFILE").await;
        let host_address = client.host.to_string().to_uppercase().replace("0X", "");
        let mut payload = Person::command_payload(&client.host, "INPUT", &json!({"prompt": "hi"}));
        payload["to"] = json!(host_address);
        client
            .send(&client.person.envelope("INPUT", &payload))
            .await;
        client.until("OUTPUT").await;
    }
    for spelling in &spellings {
        host.list("blocklist.txt", spelling);
        for from in &spellings {
            let mut client = TestClient::dial_as(&host, person).await;
            let mut frame = client.person.connect(&client.host, true);
            frame["from"] = json!(from);
            client.send(&frame).await;
            client.expect_error("forbidden: blocked").await;
        }
    }
}

#[tokio::test]
async fn before_connect_nothing_else_is_heard() {
    let host = TestHost::start().await;
    let mut client = TestClient::dial(&host).await;
    for kind in [
        "INPUT",
        "EXEC",
        "INTERRUPT",
        "mode_change",
        "APPROVAL_RESPONSE",
    ] {
        client.send(&json!({"type": kind, "prompt": "hi"})).await;
        client
            .expect_error("authenticate first (send CONNECT)")
            .await;
        let frame = command(&client, kind, |_| {});
        client.send(&frame).await;
        client
            .expect_error("authenticate first (send CONNECT)")
            .await;
    }
    client.send(&json!({"type": "FOO"})).await;
    client.expect_error("unknown message type: 'FOO'").await;
    let (seal, _) = hello(&client.person.identity(), &client.host, now() as u64);
    client.send_text(&seal).await;
    client.expect_error("unknown message type: 'SEAL'").await;
    client.send(&json!({"type": "PONG"})).await;
    client.expect_quiet().await;
}

#[tokio::test]
async fn unknown_types_are_named_on_v1_and_need_a_signature_on_v2() {
    let host = TestHost::start().await;
    let mut v1 = TestClient::v1(&host).await;
    v1.send(&json!({"type": "FOO"})).await;
    v1.expect_error("unknown message type: 'FOO'").await;
    v1.send(&json!({"type": "PONG"})).await;
    v1.expect_quiet().await;

    let mut v2 = TestClient::v2(&host).await;
    v2.send(&json!({"type": "FOO"})).await;
    v2.expect_error("unauthorized: signed command required")
        .await;
    v2.command("FOO", json!({})).await;
    v2.expect_error("unknown message type: 'FOO'").await;
    v2.send(&json!({"type": "PONG"})).await;
    v2.expect_quiet().await;
}

#[tokio::test]
async fn each_flaw_of_a_signed_command_is_named() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let other = Person::new();
    let mut foreign = command(&client, "INPUT", |_| {});
    foreign["from"] = json!(other.address().to_string());
    foreign["signature"] = json!(other.sign(&foreign["payload"].to_string()));
    let mut unsigned = command(&client, "INPUT", |_| {});
    remove(&mut unsigned, "signature");
    let mut forged = command(&client, "INPUT", |_| {});
    forged["payload"]["prompt"] = json!("something else");
    let of = |change: &dyn Fn(&mut Value)| command(&client, "INPUT", change);
    let cases = [
        (
            json!({"type": "INPUT", "prompt": "hi"}),
            "signed command required",
        ),
        (
            json!({"type": "EXEC", "tool": "echo_tool"}),
            "signed command required",
        ),
        (json!({"type": "INTERRUPT"}), "signed command required"),
        (
            json!({"type": "INPUT", "payload": 5, "signature": "00"}),
            "signed command required",
        ),
        (unsigned, "signed command required"),
        (
            of(&|payload| payload["timestamp"] = json!(now() - 301.0)),
            "signature expired",
        ),
        (
            of(&|payload| remove(payload, "timestamp")),
            "timestamp required in payload",
        ),
        (of(&|payload| remove(payload, "to")), "wrong recipient"),
        (forged, "invalid signature"),
        (foreign, "command signer does not own this connection"),
        (
            of(&|payload| payload["type"] = json!("EXEC")),
            "signed command type mismatch",
        ),
        (
            of(&|payload| remove(payload, "type")),
            "signed command type mismatch",
        ),
        (
            of(&|payload| remove(payload, "nonce")),
            "signed command nonce required",
        ),
        (
            of(&|payload| payload["nonce"] = json!("")),
            "signed command nonce required",
        ),
        (
            of(&|payload| payload["nonce"] = json!(5)),
            "signed command nonce required",
        ),
    ];
    for (frame, refusal) in cases {
        client.send(&frame).await;
        client
            .expect_error(&format!("unauthorized: {refusal}"))
            .await;
    }
    client.expect_quiet().await;
}

#[tokio::test]
async fn what_was_signed_runs_and_not_the_copy_beside_it() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let mut frame = client.made("INPUT", json!({"prompt": "the signed one"}));
    frame["prompt"] = json!("the other one");
    client.send(&frame).await;
    let frames = client.until("OUTPUT").await;
    let output = &frames[frames.len() - 1];
    assert_eq!(output["result"], "Hello! You said: the signed one");
    assert!(!output.to_string().contains("the other one"));
    // A session named outside the payload is no way into another one.
    assert_eq!(output["session_id"], client.session.as_str());
}

#[tokio::test]
async fn on_v1_a_signature_that_is_there_must_be_right() {
    let host = TestHost::start().await;
    let mut client = TestClient::v1(&host).await;
    let frame = client
        .person
        .command(&client.host, "INPUT", &json!({"prompt": "signed"}));
    let mut forged = frame.clone();
    forged["payload"]["prompt"] = json!("forged");
    client.send(&forged).await;
    client.expect_error("unauthorized: invalid signature").await;
    let foreign = Person::new().command(&client.host, "INPUT", &json!({"prompt": "foreign"}));
    client.send(&foreign).await;
    client
        .expect_error("unauthorized: command signer does not own this connection")
        .await;
    let mut copy = frame.clone();
    copy["prompt"] = json!("the copy");
    client.send(&copy).await;
    let frames = client.until("OUTPUT").await;
    assert_eq!(
        frames[frames.len() - 1]["result"],
        "Hello! You said: signed"
    );
    client.send(&frame).await;
    client
        .expect_error("unauthorized: signed command already used")
        .await;
}

#[tokio::test]
async fn another_protocol_is_named_and_the_socket_closed() {
    let host = TestHost::start().await;
    for protocol in [
        json!({"name": "oip", "version": "0.2"}),
        json!({"name": "other", "version": "0.1"}),
        json!("oip"),
    ] {
        let mut client = TestClient::dial(&host).await;
        let mut frame = client.person.connect(&client.host, true);
        frame["protocol"] = protocol;
        client.send(&frame).await;
        let error = client.expect_error("Unsupported OIP protocol").await;
        assert_eq!(error["code"], -32010);
        assert_eq!(error["retryable"], false);
        assert_eq!(error["protocol"]["version"], "0.1");
        client.expect_close(1002).await;
    }
    let mut client = TestClient::dial(&host).await;
    let protocol = json!({"name": "oip", "version": "0.1", "more": 1});
    client.connect(json!({"protocol": protocol})).await;
}

#[tokio::test]
async fn who_is_blocked_while_connected_is_not_heard_any_more() {
    let host = TestHost::start().await;
    for signs in [false, true] {
        let mut client = TestClient::dial(&host).await;
        client.signs = signs;
        client.connect(json!({})).await;
        client.turn("hello").await;
        host.list("blocklist.txt", &client.person.address().to_string());
        for kind in ["INPUT", "EXEC", "mode_change"] {
            let fields = json!({"prompt": "hi", "tool": "echo_tool", "mode": "auto"});
            client.command(kind, fields).await;
            client.expect_error("forbidden: blocked").await;
        }
        client.expect_quiet().await;
    }
}
