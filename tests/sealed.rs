//! The sealed channel over a real socket: what opens, what is refused, and how it ends.

use oip_host::seal::hello;
use serde_json::{Value, json};

use crate::common::{Person, TestClient, TestHost, now};

#[tokio::test]
async fn a_sealed_turn_is_opaque_outside_and_ordinary_inside() {
    let host = TestHost::start().await;
    for signs in [false, true] {
        let mut client = TestClient::sealed(&host, Person::new()).await;
        client.signs = signs;
        client.connect(json!({})).await;
        let frames = client.turn("unicode").await;
        let output = &frames[frames.len() - 1];
        assert_eq!(
            output["result"],
            "héllo 世界 🚀 \u{2028} \\ \" </script> end"
        );
        client.input("hello").await;
        // On the wire: only type, counter and ciphertext.
        let text = client.next_text().await;
        let frame: Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = frame.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["type", "n", "c"]);
        assert_eq!(frame["type"], "SEALED");
    }
}

/// A SEAL with changes; `sign` signs it again after them.
fn seal(client: &TestClient, sign: bool, change: impl FnOnce(&mut Value)) -> Value {
    let (text, _) = hello(&client.person.identity(), &client.host, now() as u64);
    let mut frame: Value = serde_json::from_str(&text).unwrap();
    change(&mut frame);
    if sign {
        frame.as_object_mut().unwrap().remove("signature");
        frame["signature"] = json!(client.person.sign(&frame.to_string()));
    }
    frame
}

async fn refused(host: &TestHost, sign: bool, change: impl FnOnce(&mut Value)) -> String {
    let mut client = TestClient::dial(host).await;
    let frame = seal(&client, sign, change);
    client.send_clear(&frame.to_string()).await;
    let error = client.expect("ERROR").await;
    client.expect_close(4003).await;
    let message = error["message"].as_str().unwrap().to_owned();
    message
        .strip_prefix("seal refused: ")
        .unwrap_or_else(|| panic!("{message}"))
        .to_owned()
}

#[tokio::test]
async fn each_refusal_is_said_and_ends_the_socket() {
    let host = TestHost::start().await;
    let other = Person::new().address().to_string();
    let set = |key: &'static str, value: Value| move |frame: &mut Value| frame[key] = value;
    let cut = |frame: &mut Value| {
        let signature = frame["signature"].as_str().unwrap();
        frame["signature"] = json!(signature[..126]);
    };
    let prefixed = |frame: &mut Value| {
        let signature = frame["signature"].as_str().unwrap();
        frame["signature"] = json!(format!("0x{signature}"));
    };
    let zero = "0".repeat(64);
    // The order-8 point whose multiples are few.
    let low = "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800";

    let stale = "timestamp is too old or too new";
    assert_eq!(
        refused(&host, true, set("timestamp", json!(now() - 310.0))).await,
        stale
    );
    assert_eq!(
        refused(&host, true, set("timestamp", json!(now() + 310.0))).await,
        stale
    );
    let text = "timestamp is not a number";
    assert_eq!(
        refused(&host, true, set("timestamp", json!("1"))).await,
        text
    );
    let to = "to is another address";
    assert_eq!(refused(&host, true, set("to", json!(other))).await, to);
    let unsigned = "signature is not 128 hex digits";
    assert_eq!(refused(&host, false, cut).await, unsigned);
    assert_eq!(refused(&host, false, prefixed).await, unsigned);
    assert_eq!(
        refused(&host, false, set("signature", json!(5))).await,
        unsigned
    );
    let forged = "signature does not verify";
    assert_eq!(
        refused(&host, false, set("from", json!(other))).await,
        forged
    );
    let key = "ephemeral is not a usable key of 64 hex digits";
    assert_eq!(
        refused(&host, true, set("ephemeral", json!(zero))).await,
        key
    );
    assert_eq!(
        refused(&host, true, set("ephemeral", json!(low))).await,
        key
    );
    assert_eq!(
        refused(&host, true, set("ephemeral", json!("ab"))).await,
        key
    );
    for missing in ["to", "from", "ephemeral", "timestamp", "signature"] {
        let remove = |frame: &mut Value| drop(frame.as_object_mut().unwrap().remove(missing));
        let why = refused(&host, false, remove).await;
        assert_eq!(why, format!("{missing} is missing"));
    }
    // The relay's additions are not signed and change nothing.
    let mut client = TestClient::dial(&host).await;
    let frame = seal(&client, false, |frame| {
        frame["session_id"] = json!("relay");
        frame["conn_id"] = json!("c-1");
    });
    client.send_clear(&frame.to_string()).await;
    client.expect("SEALED_OK").await;
}

/// What the host says, in the clear, about a frame on a sealed and authenticated socket. `make` gets
/// two frames that would open, the first of which was sent already.
async fn rejected(host: &TestHost, make: impl FnOnce(&str, &str) -> String) -> String {
    let mut client = TestClient::sealed(host, Person::new()).await;
    client.connect(json!({})).await;
    let (sealer, _) = client.seal.as_mut().unwrap();
    let status = json!({"type": "SESSION_STATUS", "session": {}}).to_string();
    let (sent, next) = (sealer.seal(&status), sealer.seal(&status));
    client.send_clear(&sent).await;
    client.expect("SESSION_STATUS").await;
    client.send_clear(&make(&sent, &next)).await;
    let text = client.next_text().await;
    let frame: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(frame["type"], "ERROR", "{text}");
    client.expect_close(4003).await;
    let message = frame["message"].as_str().unwrap().to_owned();
    message
        .strip_prefix("sealed frame rejected: ")
        .unwrap_or_else(|| panic!("{message}"))
        .to_owned()
}

#[tokio::test]
async fn a_frame_that_does_not_open_ends_the_socket_in_the_clear() {
    let host = TestHost::start().await;
    let order = "n is not above the last one opened";
    assert_eq!(rejected(&host, |sent, _| sent.to_owned()).await, order);
    let with_n = |n: Value| {
        move |_: &str, next: &str| {
            let mut frame: Value = serde_json::from_str(next).unwrap();
            frame["n"] = n;
            frame.to_string()
        }
    };
    for n in [
        json!(1),
        json!(0),
        json!(-3),
        json!("4"),
        json!(4.0),
        json!(true),
    ] {
        assert_eq!(rejected(&host, with_n(n.clone())).await, order, "{n}");
    }
    // Another counter is another nonce.
    assert_eq!(rejected(&host, with_n(json!(9))).await, "c does not open");
    let garbage = |_: &str, _: &str| r#"{"type":"SEALED","n":9,"c":"!!"}"#.to_owned();
    assert_eq!(rejected(&host, garbage).await, "c does not open");
    let not_sealed = "not a SEALED frame";
    let clear = |_: &str, _: &str| r#"{"type":"INPUT","prompt":"hello"}"#.to_owned();
    assert_eq!(rejected(&host, clear).await, not_sealed);
    let no_c = |_: &str, _: &str| r#"{"type":"SEALED","n":9}"#.to_owned();
    assert_eq!(rejected(&host, no_c).await, not_sealed);
    rejected(&host, |_, _| "[]".to_owned()).await;
    rejected(&host, |_, _| "no JSON".to_owned()).await;
}

#[tokio::test]
async fn sealed_text_that_is_no_object_ends_the_socket() {
    let host = TestHost::start().await;
    for text in ["[]", "5", "", "nope", "{} {}"] {
        let mut client = TestClient::sealed(&host, Person::new()).await;
        client.send_text(text).await;
        let error = client.next_text().await;
        assert!(error.contains("sealed frame rejected: "), "{error}");
        client.expect_close(4003).await;
    }
    // A gap in the counters is none of it.
    let mut client = TestClient::sealed(&host, Person::new()).await;
    for _ in 0..5 {
        client.seal.as_mut().unwrap().0.seal("{}");
    }
    client.connect(json!({})).await;
}

#[tokio::test]
async fn only_the_one_who_sealed_may_speak_inside() {
    let host = TestHost::start().await;
    let (victim, thief) = (Person::new(), Person::new());
    let mut owner = TestClient::v2_as(&host, victim, json!({})).await;
    owner.turn("hello").await;

    let mut client = TestClient::sealed(&host, thief).await;
    client.send(&victim.connect(&client.host, true)).await;
    client
        .expect_error("unauthorized: CONNECT is not signed by the sealed peer")
        .await;
    let onboard = victim.envelope("ONBOARD_SUBMIT", &Person::connect_payload(&client.host));
    client.send(&onboard).await;
    client
        .expect_error("unauthorized: ONBOARD_SUBMIT is not signed by the sealed peer")
        .await;
    // The ledger is not asked in here, so a captured question could be asked for ever.
    let query = victim.command(
        &client.host,
        "SESSION_STATUS",
        &json!({"session_id": owner.session}),
    );
    client.send(&query).await;
    client
        .expect_error("unauthorized: SESSION_STATUS is not signed by the sealed peer")
        .await;
    client.signs = true;
    client.connect(json!({})).await;
    client
        .send(&victim.command(&client.host, "INPUT", &json!({"prompt": "hi"})))
        .await;
    client
        .expect_error("unauthorized: command signer does not own this connection")
        .await;
    client.turn("hello").await;
}

#[tokio::test]
async fn the_ledger_is_not_asked_inside() {
    let host = TestHost::start().await;
    let ledger = host.file("replay.sqlite3");
    std::fs::rename(&ledger, host.file("aside")).unwrap();
    std::fs::create_dir(&ledger).unwrap();
    let mut client = TestClient::sealed(&host, Person::new()).await;
    client.signs = true;
    client.connect(json!({})).await;
    let frame = client.made("EXEC", json!({"exec_id": 1, "tool": "echo_tool"}));
    for _ in 0..2 {
        client.send(&frame).await;
        client.expect("EXEC_RESULT").await;
    }
}

#[tokio::test]
async fn seal_is_for_the_first_frame() {
    let host = TestHost::start().await;
    let mut client = TestClient::dial(&host).await;
    client.send(&json!({"type": "PONG"})).await;
    let frame = seal(&client, false, |_| {});
    client.send(&frame).await;
    client.expect_error("unknown message type: 'SEAL'").await;
    client.connect(json!({})).await;
    client.send(&frame).await;
    client.expect_error("unknown message type: 'SEAL'").await;
    let mut client = TestClient::sealed(&host, Person::new()).await;
    client.send(&frame).await;
    client.expect_error("unknown message type: 'SEAL'").await;
}
