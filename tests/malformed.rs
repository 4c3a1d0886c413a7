//! Whatever comes in: one ERROR, and the socket lives.

use std::time::Duration;

use oip_host::config::Bytes;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use crate::common::{Person, TestClient, TestHost};

/// Texts that are not one JSON object.
fn not_objects() -> Vec<String> {
    let deep = |depth: usize| {
        let inner = depth - 1;
        format!(r#"{{"type":{}{}}}"#, "[".repeat(inner), "]".repeat(inner))
    };
    vec![
        "[]".into(),
        r#""x""#.into(),
        "5".into(),
        "null".into(),
        String::new(),
        " ".into(),
        "nope".into(),
        r#"{"type":"#.into(),
        r#"{"type":"PONG"} {}"#.into(),
        "{'type':'PONG'}".into(),
        deep(129),
        "[".repeat(100_000),
        format!(r#"{{"type":"PONG","x":{}"#, "[{\"a\":".repeat(50_000)),
    ]
}

/// Objects that are no frame, or frames with a field of the wrong shape.
fn wrong_objects(client: &TestClient) -> Vec<Value> {
    let connect = |key: &str, value: Value| {
        let mut frame = client.person.connect(&client.host, client.signs);
        frame[key] = value;
        frame
    };
    let command = |kind: &str, fields: Value| client.made(kind, fields);
    vec![
        json!({}),
        json!({"type": 5}),
        json!({"type": null}),
        json!({"type": ["INPUT"]}),
        json!({"type": ""}),
        json!({"type": "FOO"}),
        json!({"type": "input"}),
        json!({"type": "CONNECT"}),
        connect("payload", json!(null)),
        connect("payload", json!("x")),
        connect("signature", json!(5)),
        connect("signature", json!("00")),
        connect("from", json!(5)),
        connect("from", json!("0xzz")),
        connect("session", json!([])),
        connect("session_id", json!([])),
        connect("session_id", json!(5)),
        connect("session_id", json!("x".repeat(257))),
        connect("last_msg_id", json!(5)),
        command("INPUT", json!({"prompt": 5})),
        command("INPUT", json!({"prompt": ""})),
        command("INPUT", json!({})),
        command("INPUT", json!({"prompt": "hi", "images": "x"})),
        command("INPUT", json!({"prompt": "hi", "images": [5]})),
        command("INPUT", json!({"prompt": "hi", "files": [{"name": 5}]})),
        command("mode_change", json!({"mode": 5})),
        command("mode_change", json!({})),
        command(
            "APPROVAL_RESPONSE",
            json!({"approved": true, "request_id": 5}),
        ),
        json!({"type": "SESSION_STATUS", "session": "nope"}),
        json!({"type": "SESSION_STATUS", "session": {"session_id": 5}}),
        json!({"type": "ONBOARD_SUBMIT"}),
    ]
}

/// One ERROR for each, and then an ordinary answer.
async fn survives(mut client: TestClient) {
    if client.seal.is_none() {
        for text in not_objects() {
            client.send_text(&text).await;
            let error = client.expect("ERROR").await;
            let received = error["received"].as_str().unwrap_or_default();
            assert!(received.chars().count() <= 200);
            client.expect_quiet().await;
        }
        for bytes in [&b"{\"type\":\"PONG\"}"[..], b"", b"\xff\xfe"] {
            client.send_message(Message::binary(bytes.to_vec())).await;
            client.expect("ERROR").await;
            client.expect_quiet().await;
        }
    }
    for frame in wrong_objects(&client) {
        client.send(&frame).await;
        client.expect("ERROR").await;
        client.expect_quiet().await;
    }
}

#[tokio::test]
async fn a_stranger_gets_one_error_for_each() {
    let host = TestHost::start().await;
    survives(TestClient::dial(&host).await).await;
    survives(TestClient::sealed(&host, Person::new()).await).await;
}

#[tokio::test]
async fn a_v1_caller_gets_one_error_for_each() {
    let host = TestHost::start().await;
    survives(TestClient::v1(&host).await).await;
    let mut sealed = TestClient::sealed(&host, Person::new()).await;
    sealed.connect(json!({})).await;
    survives(sealed).await;
}

#[tokio::test]
async fn a_v2_caller_gets_one_error_for_each() {
    let host = TestHost::start().await;
    survives(TestClient::v2(&host).await).await;
    let mut sealed = TestClient::sealed(&host, Person::new()).await;
    sealed.signs = true;
    sealed.connect(json!({})).await;
    survives(sealed).await;
}

#[tokio::test]
async fn the_errors_say_what_is_wrong() {
    let host = TestHost::start().await;
    let mut client = TestClient::v1(&host).await;
    client.send_text("nope, that is no JSON").await;
    let error = client.expect("ERROR").await;
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .starts_with("Invalid JSON: ")
    );
    assert_eq!(error["received"], "nope, that is no JSON");
    client.send_text(&"é".repeat(300)).await;
    let error = client.expect("ERROR").await;
    assert_eq!(error["received"], "é".repeat(200));
    for (frame, message) in [
        (json!({"type": "FOO"}), "unknown message type: 'FOO'"),
        (json!({"type": "INPUT"}), "prompt required"),
        (json!({"type": "INPUT", "prompt": ""}), "prompt required"),
        (
            json!({"type": "SESSION_STATUS", "session": "nope"}),
            "session must be an object",
        ),
    ] {
        client.send(&frame).await;
        client.expect_error(message).await;
    }
    // Several at once are answered one by one, in their order.
    for text in ["[]", r#"{"type":"A"}"#, r#"{"type":"B"}"#] {
        client.send_text(text).await;
    }
    client.expect("ERROR").await;
    client.expect_error("unknown message type: 'A'").await;
    client.expect_error("unknown message type: 'B'").await;
}

#[tokio::test]
async fn a_lone_surrogate_verifies_and_runs() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let payload = Person::command_payload(&client.host, "INPUT", &json!({"prompt": "PROMPT"}));
    let payload = payload
        .to_string()
        .replace("PROMPT", r"big 1 \ud800 x \udc00");
    let (from, signature) = (client.person.address(), client.person.sign(&payload));
    let frame = format!(
        r#"{{"type":"INPUT","payload":{payload},"from":"{from}","signature":"{signature}"}}"#
    );
    client.send_text(&frame).await;
    let frames = client.until("OUTPUT").await;
    assert_eq!(frames[frames.len() - 1]["result"], "x".repeat(1024));

    let mut v1 = TestClient::v1(&host).await;
    v1.send_text(r#"{"type":"INPUT","prompt":"a\ud800b"}"#)
        .await;
    let frames = v1.until("OUTPUT").await;
    assert_eq!(
        frames[frames.len() - 1]["result"],
        "Hello! You said: a\u{fffd}b"
    );
}

#[tokio::test]
async fn of_two_members_with_one_name_the_last_counts() {
    let host = TestHost::start().await;
    let mut client = TestClient::v1(&host).await;
    client
        .send_text(r#"{"type":"FOO","type":"INPUT","prompt":"one","prompt":"two"}"#)
        .await;
    let frames = client.until("OUTPUT").await;
    assert_eq!(frames[frames.len() - 1]["result"], "Hello! You said: two");
}

#[tokio::test]
async fn a_breach_of_the_websocket_protocol_ends_the_socket_with_a_reason() {
    let host = TestHost::start().await;
    for authenticated in [false, true] {
        for (bytes, code) in [
            // A text frame that is not UTF-8, masked with zeros.
            (&b"\x81\x82\x00\x00\x00\x00\xff\xfe"[..], 1007),
            // A text frame without a mask.
            (b"\x81\x02{}", 1002),
            // A reserved opcode.
            (b"\x83\x80\x00\x00\x00\x00", 1002),
        ] {
            let mut client = TestClient::dial(&host).await;
            if authenticated {
                client.connect(json!({})).await;
            }
            client.socket.get_mut().write_all(bytes).await.unwrap();
            client.expect("ERROR").await;
            client.expect_close(code).await;
        }
    }
    TestClient::v2(&host).await.turn("hello").await;
}

#[tokio::test]
async fn a_frame_over_the_limit_ends_the_socket_with_a_reason() {
    let host = TestHost::with(|config| {
        config.limits.unauthenticated_frame = Bytes(8 << 10);
        config.limits.frame = Bytes(64 << 10);
    })
    .await;
    let long =
        |bytes: usize| json!({"type": "INPUT", "prompt": format!("big 1 {}", "x".repeat(bytes))});
    for bytes in [9 << 10, 65 << 10, 4 << 20] {
        let mut stranger = TestClient::dial(&host).await;
        let (error, close) = overlong(&mut stranger, &long(bytes)).await;
        assert!(error.starts_with("message too large: "), "{error}");
        assert_eq!(close, 1009);
    }
    let mut client = TestClient::v1(&host).await;
    client.send(&long(32 << 10)).await;
    client.until("OUTPUT").await;
    for bytes in [65 << 10, 4 << 20] {
        let mut client = TestClient::v1(&host).await;
        let (error, close) = overlong(&mut client, &long(bytes)).await;
        assert!(error.starts_with("message too large: "), "{error}");
        assert_eq!(close, 1009);
    }
}

/// Send more than may be sent; the error and the close code that come back.
async fn overlong(client: &mut TestClient, frame: &Value) -> (String, u16) {
    // The host need not read it all.
    let _ = futures_util::SinkExt::send(&mut client.socket, Message::text(frame.to_string())).await;
    let error = client.expect("ERROR").await;
    (
        error["message"].as_str().unwrap().to_owned(),
        client.close_code().await,
    )
}

#[tokio::test]
async fn a_silent_socket_is_closed() {
    let host = TestHost::with(|config| {
        config.limits.first_frame_timeout = Duration::from_millis(200);
    })
    .await;
    let mut client = TestClient::dial(&host).await;
    client.expect_error("no frame within 200ms").await;
    client.expect_close(4008).await;
    // Whoever said something may be silent as long as they like.
    let mut client = TestClient::dial(&host).await;
    client.send(&json!({"type": "PONG"})).await;
    let mut silent = TestClient::dial(&host).await;
    silent.expect("ERROR").await;
    client.expect_quiet().await;
}

/// A small generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn mutate(&mut self, text: &str) -> String {
        const BITS: [&str; 12] = [
            "\"", "{", "}", "[", "]", ",", ":", "\\u", "\\ud800", "null", "1e999", "é",
        ];
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len().max(1));
            match self.roll(4) {
                0 if at < bytes.len() => bytes[at] = self.roll(128) as u8,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => {
                    let bit = BITS[self.roll(BITS.len())].bytes();
                    bytes.splice(at..at, bit);
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[tokio::test]
async fn two_thousand_broken_frames_do_not_end_a_socket() {
    let host = TestHost::start().await;
    let mut client = TestClient::v1(&host).await;
    let frames = [
        json!({"type": "INPUT", "prompt": "hello", "images": ["data:"], "files": [{"name": "a", "data": "b"}]}),
        json!({"type": "EXEC", "exec_id": {"a": [1, 2.5e3]}, "tool": "echo_tool", "args": {"text": "hi"}}),
        json!({"type": "mode_change", "mode": "read-only"}),
        json!({"type": "INTERRUPT"}),
        json!({"type": "SESSION_STATUS", "session": {"session_id": client.session}}),
        json!({"type": "CONNECT", "payload": {"to": "x"}, "session": {"messages": [], "trace": []}}),
        json!({"type": "APPROVAL_RESPONSE", "approved": true, "request_id": "r"}),
        json!({"type": "PONG"}),
    ]
    .map(|frame| frame.to_string());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for round in 0..50 {
        for _ in 0..40 {
            let frame = &frames[dice.roll(frames.len())];
            let text = dice.mutate(frame);
            client.send_text(&text).await;
        }
        let probe = format!("round {round}");
        client
            .send(&json!({"type": "SESSION_STATUS", "session": {"session_id": probe}}))
            .await;
        while client.next().await["session_id"] != probe.as_str() {}
    }
    TestClient::v2(&host).await.turn("hello").await;
}
