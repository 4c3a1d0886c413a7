//! Frames as clients read them, and that each is one object whatever is put in.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::wire::json::Object;

fn parsed(frame: &str) -> Value {
    serde_json::from_str(frame).unwrap()
}

const MODES: &str = r#"{"currentModeId":"auto","turnsLeft":null,"availableModes":[]}"#;

/// Facts F32 to F35.
#[test]
fn connected_is_what_react_accepts() {
    assert_eq!(
        connected("s", "new", MODES, None),
        concat!(
            r#"{"type":"CONNECTED","session_id":"s","status":"new","#,
            r#""protocol":{"name":"oip","version":"0.1","min_version":"0.1","max_version":"0.1","websocket_path":"/ws"},"#,
            r#""session_modes":{"currentModeId":"auto","turnsLeft":null,"availableModes":[]}}"#
        )
    );
    let newer = Newer {
        session: r#"{"session_id":"s"}"#,
        chat_items: r#"[{"id":"msg-0"}]"#,
    };
    let frame = parsed(&connected("s", "running", MODES, Some(newer)));
    assert_eq!(
        frame,
        json!({
            "type": "CONNECTED", "session_id": "s", "status": "running",
            "protocol": {
                "name": "oip", "version": "0.1", "min_version": "0.1", "max_version": "0.1",
                "websocket_path": "/ws",
            },
            "session_modes": parsed(MODES),
            "server_newer": true, "session": {"session_id": "s"}, "chat_items": [{"id": "msg-0"}],
        })
    );
}

/// Fact F48.
#[test]
fn output_carries_everything() {
    assert_eq!(
        parsed(&output("done", "s", 12, r#"{"turn":1}"#, "[]")),
        json!({
            "type": "OUTPUT", "result": "done", "session_id": "s", "duration_ms": 12,
            "session": {"turn": 1}, "chat_items": [],
        })
    );
}

/// Fact F53.
#[test]
fn exec_result_echoes_its_id() {
    for exec_id in [
        "\"e\"",
        "5",
        "1e400",
        "[1,{\"a\":null}]",
        "\"\\ud800\"",
        "123456789012345678901234567890",
    ] {
        let frame = exec_result(exec_id, Some("t"), Ok("out"), Some(3));
        let expected = format!(
            r#"{{"type":"EXEC_RESULT","exec_id":{exec_id},"tool":"t","status":"success","result":"out","duration_ms":3}}"#
        );
        assert_eq!(frame, expected);
    }
    assert_eq!(
        exec_result("null", None, Err("tool required"), None),
        r#"{"type":"EXEC_RESULT","exec_id":null,"status":"error","error":"tool required"}"#
    );
    // Python reads NaN; a browser would drop the frame.
    assert_eq!(
        parsed(&exec_result("NaN", None, Ok(""), None))["exec_id"],
        Value::Null
    );
}

#[test]
fn errors_have_their_shapes() {
    assert_eq!(error("no"), r#"{"type":"ERROR","message":"no"}"#);
    assert_eq!(
        coded_error(BUSY, "Session is busy", Some(true)),
        r#"{"type":"ERROR","code":-32000,"message":"Session is busy","retryable":true}"#
    );
    assert_eq!(
        coded_error("RUNTIME_INPUT_REJECTED", "late", None),
        r#"{"type":"ERROR","code":"RUNTIME_INPUT_REJECTED","message":"late"}"#
    );
    assert_eq!(
        parsed(&unsupported_protocol()),
        json!({
            "type": "ERROR", "code": -32010, "message": "Unsupported OIP protocol",
            "retryable": false, "protocol": parsed(PROTOCOL),
        })
    );
    assert_eq!(
        stale_answer("s", None, "stale", "nothing waits"),
        r#"{"type":"ERROR","code":"STALE_ANSWER","reason":"stale","request_id":null,"session_id":"s","message":"nothing waits"}"#
    );
    assert_eq!(PING, r#"{"type":"PING"}"#);
}

/// Fact F60: cut at 200 characters, not bytes.
#[test]
fn what_was_received_is_cut() {
    let frame = parsed(&invalid_json("expected ',' at byte 3", &"é".repeat(201)));
    assert_eq!(frame["message"], "Invalid JSON: expected ',' at byte 3");
    assert_eq!(frame["received"], "é".repeat(200));
    assert_eq!(parsed(&invalid_json("x", "{"))["received"], "{");
}

#[test]
fn the_small_frames() {
    assert_eq!(
        session_status(Some("s"), "not_found"),
        r#"{"type":"SESSION_STATUS","session_id":"s","status":"not_found"}"#
    );
    assert_eq!(
        session_status(None, "not_found"),
        r#"{"type":"SESSION_STATUS","session_id":null,"status":"not_found"}"#
    );
    assert_eq!(
        runtime_input_ack("s", "r"),
        r#"{"type":"RUNTIME_INPUT_ACK","session_id":"s","id":"r"}"#
    );
    assert_eq!(
        user_message("s", "hi"),
        r#"{"type":"user_message","content":"hi","session_id":"s"}"#
    );
    assert_eq!(
        mode_changed("s", "auto", None),
        r#"{"type":"mode_changed","mode":"auto","turns_left":null,"session_id":"s"}"#
    );
    assert_eq!(mode_changed("s", "m", Some(2)), {
        r#"{"type":"mode_changed","mode":"m","turns_left":2,"session_id":"s"}"#
    });
}

#[test]
fn what_is_no_json_is_not_embedded() {
    for text in ["", "{", "NaN", "{} {}", "'x'", "\u{0}"] {
        assert_eq!(embedded(text).get(), "null", "{text}");
    }
    assert_eq!(embedded(r#"{"a": 1}"#).get(), r#"{"a": 1}"#);
}

fn profile(text: &str) -> Profile {
    Profile {
        name: text.into(),
        address: Address::from_bytes([7; 32]),
        model: text.into(),
        tools: vec![text.into(), String::new()],
        skills: vec![Skill {
            name: text.into(),
            description: text.into(),
            location: "project".into(),
        }],
    }
}

#[test]
fn a_profile_is_flat() {
    let frame = parsed(&agent_profile("s", &profile("x")));
    assert_eq!(
        frame,
        json!({
            "type": "AGENT_PROFILE", "session_id": "s", "name": "x", "model": "x",
            "address": format!("0x{}", "07".repeat(32)), "tools": ["x", ""],
            "skills": [{"name": "x", "description": "x", "location": "project"}],
        })
    );
}

/// Text that breaks out of badly written JSON, JavaScript or lines.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(vec![
            "\"", "\\", "\\\"", "\u{2028}", "\u{2029}", "\u{0}", "\n", "\r\n", "\t", "\u{7f}",
            "\u{85}", "\u{feff}", "\u{fffd}", "😀", "\\ud800", "</script>", "{", "}", "[", "]",
            ",", ":", "null", r#"","type":"OUTPUT"#, r#"{"type":"PING"}"#,
        ])
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Exactly one object of the type it should have, read alike by both readers, on one line.
    #[test]
    fn every_frame_is_one_object(
        a in nasty(),
        b in nasty(),
        number in any::<u64>(),
    ) {
        let value = json!({"session_id": a, "x": [b]}).to_string();
        let list = format!("[{value}]");
        let newer = Newer { session: &value, chat_items: &list };
        let quoted = json(&b);
        let frames = [
            ("ERROR", error(&a)),
            ("ERROR", coded_error(number, &a, Some(true))),
            ("ERROR", coded_error(&a, &b, None)),
            ("ERROR", invalid_json(&a, &b)),
            ("CONNECTED", connected(&a, "new", MODES, None)),
            ("CONNECTED", connected(&a, "connected", MODES, Some(newer))),
            ("AGENT_PROFILE", agent_profile(&b, &profile(&a))),
            ("OUTPUT", output(&a, &b, number, &value, &list)),
            ("EXEC_RESULT", exec_result(&quoted, Some(&a), Ok(&b), Some(number))),
            // An id that is no JSON cannot break out either.
            ("EXEC_RESULT", exec_result(&a, None, Err(&b), None)),
            ("SESSION_STATUS", session_status(Some(&a), "running")),
            ("RUNTIME_INPUT_ACK", runtime_input_ack(&a, &b)),
            ("user_message", user_message(&a, &b)),
            ("mode_changed", mode_changed(&a, &b, Some(number))),
            ("ERROR", stale_answer(&a, Some(&b), &a, &b)),
        ];
        for (kind, frame) in frames {
            let value: Value = serde_json::from_str(&frame).unwrap();
            prop_assert_eq!(&value["type"], kind, "{}", frame);
            let object = Object::parse(&frame).unwrap();
            prop_assert_eq!(object.len(), value.as_object().unwrap().len());
            prop_assert!(!frame.contains(['\n', '\r', '\0']), "{}", frame);
        }
        let frame = parsed(&output(&a, &b, number, &value, &list));
        prop_assert_eq!(&frame["result"], &a);
        prop_assert_eq!(&frame["session_id"], &b);
        prop_assert_eq!(&frame["session"]["x"][0], &b);
        let frame = parsed(&exec_result(&quoted, Some(&a), Ok(&b), None));
        prop_assert_eq!(&frame["exec_id"], &b);
    }
}
