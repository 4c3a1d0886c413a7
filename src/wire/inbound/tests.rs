//! What is malformed, in which words (fact F60), and what is not.

use serde_json::json;

use super::*;

fn object(text: &str) -> Object<'_> {
    Object::parse(text).unwrap()
}

/// The text that a CONNECT with this field is answered, or `ok`.
fn connect(field: &str, value: &str) -> String {
    let text = format!(r#"{{"type":"CONNECT","{field}":{value}}}"#);
    said(Connect::read(&object(&text)))
}

/// The text that an INPUT with these members is answered, or `ok`.
fn input(members: &str) -> String {
    said(Input::read(&object(&format!("{{{members}}}"))))
}

fn said<T>(outcome: Result<T, Malformed>) -> String {
    outcome.map_or_else(|wrong| wrong.to_string(), |_| "ok".into())
}

#[test]
fn each_type_has_its_kind() {
    for (name, kind) in [
        ("SEAL", Kind::Seal),
        ("CONNECT", Kind::Connect),
        ("ONBOARD_SUBMIT", Kind::OnboardSubmit),
        ("PONG", Kind::Pong),
        ("SESSION_STATUS", Kind::SessionStatus),
        ("INPUT", Kind::Input),
        ("EXEC", Kind::Exec),
        ("INTERRUPT", Kind::Interrupt),
        ("mode_change", Kind::ModeChange),
        ("APPROVAL_RESPONSE", Kind::ApprovalResponse),
        ("ASK_USER_RESPONSE", Kind::AskUserResponse),
    ] {
        assert_eq!(Kind::of(name), kind);
        for other in [
            name.to_lowercase(),
            name.to_uppercase(),
            format!("{name} "),
            format!("{name}\0"),
        ] {
            if other != name {
                assert_eq!(Kind::of(&other), Kind::Unknown(other.clone()));
            }
        }
    }
}

#[test]
fn what_connect_may_carry() {
    let object = "session must be an object";
    let string = "session_id must be a string";
    let quoted = |text: &str, count: usize| json!(text.repeat(count)).to_string();
    let longest = "session_id must not be longer than 256 characters";
    for (field, value, expected) in [
        ("session", "[]", object),
        ("session", "\"x\"", object),
        ("session", "5", object),
        ("session", "false", object),
        ("session", "null", "ok"),
        ("session", "{}", "ok"),
        ("session_id", "[]", string),
        ("session_id", "5", string),
        ("session_id", "true", string),
        ("session_id", "{}", string),
        ("session_id", "null", "ok"),
        ("session_id", "\"\"", "ok"),
        ("session_id", &quoted("x", 256), "ok"),
        ("session_id", &quoted("x", 257), longest),
        // Characters are counted, not bytes.
        ("session_id", &quoted("é", 256), "ok"),
        ("session_id", &quoted("é", 257), longest),
        ("last_msg_id", "5", "last_msg_id must be a string"),
        ("last_msg_id", "[]", "last_msg_id must be a string"),
        ("last_msg_id", "null", "ok"),
        ("last_msg_id", "\"e-1\"", "ok"),
        ("protocol", "5", "ok"),
    ] {
        assert_eq!(connect(field, value), expected, "{field}: {value}");
    }
}

#[test]
fn what_connect_says() {
    let read = |text: &'static str| Connect::read(&object(text)).unwrap();
    let bare = read("{}");
    assert_eq!((bare.session_id, bare.last_msg_id), (None, None));
    assert_eq!((bare.session.is_none(), bare.protocol), (true, None));
    let full =
        read(r#"{"session_id":"s","session":{"turn":3},"last_msg_id":"e-1","protocol":null}"#);
    assert_eq!(full.session_id.as_deref(), Some("s"));
    assert_eq!(full.session.unwrap().get("turn").unwrap().text(), "3");
    assert_eq!(full.last_msg_id.as_deref(), Some("e-1"));
    assert_eq!(full.protocol, None);
    // Empty asks for a new session, as absent does.
    assert_eq!(read(r#"{"session_id":""}"#).session_id, None);
}

#[test]
fn which_protocols_are_ours() {
    for (protocol, ours) in [
        (r#"{"name":"oip","version":"0.1"}"#, true),
        (
            r#"{"name":"oip","version":"0.1","min_version":"0.1"}"#,
            true,
        ),
        (r#"{"name":"oip","version":"0.2"}"#, false),
        (r#"{"name":"oip","version":0.1}"#, false),
        (r#"{"name":"OIP","version":"0.1"}"#, false),
        (r#"{"version":"0.1"}"#, false),
        ("{}", false),
        ("\"oip\"", false),
        ("[]", false),
        ("false", false),
    ] {
        let text = format!(r#"{{"protocol":{protocol}}}"#);
        let connect = Connect::read(&object(&text)).unwrap();
        assert_eq!(connect.protocol, Some(ours), "{protocol}");
    }
}

#[test]
fn what_input_may_carry() {
    let required = "prompt required";
    let string = "prompt required: prompt must be a string";
    let images = "images must be a list of data URLs";
    let files = "files must be a list of {name, data}";
    for (members, expected) in [
        ("", required),
        (r#""prompt":null"#, required),
        (r#""prompt":"""#, required),
        (r#""prompt":5"#, string),
        (r#""prompt":["hi"]"#, string),
        (r#""prompt":{}"#, string),
        (r#""prompt":true"#, string),
        (r#""prompt":" ""#, "ok"),
        (r#""prompt":"hi","images":"x""#, "images must be a list"),
        (r#""prompt":"hi","images":{}"#, "images must be a list"),
        (r#""prompt":"hi","images":[5]"#, images),
        (r#""prompt":"hi","images":["a",null]"#, images),
        (r#""prompt":"hi","images":null"#, "ok"),
        (r#""prompt":"hi","images":[]"#, "ok"),
        (r#""prompt":"hi","files":"x""#, "files must be a list"),
        (r#""prompt":"hi","files":{}"#, "files must be a list"),
        (r#""prompt":"hi","files":["x"]"#, files),
        (r#""prompt":"hi","files":[null]"#, files),
        (r#""prompt":"hi","files":[{}]"#, files),
        (r#""prompt":"hi","files":[{"name":"a"}]"#, files),
        (r#""prompt":"hi","files":[{"data":"d"}]"#, files),
        (r#""prompt":"hi","files":[{"name":"a","data":5}]"#, files),
        (r#""prompt":"hi","files":[{"name":5,"data":"d"}]"#, files),
        (r#""prompt":"hi","files":null"#, "ok"),
        // The prompt is what is asked for first.
        (r#""images":"x","files":"y""#, required),
    ] {
        assert_eq!(input(members), expected, "{members}");
    }
}

#[test]
fn what_input_says() {
    let text = r#"{"prompt":"h\u00e9 \ud83d\ude00 \ud800","images":["data:a","data:b"],
        "files":[{"name":"../x","data":"data:c","size":3}]}"#;
    assert_eq!(
        Input::read(&object(text)).unwrap(),
        Input {
            // A lone surrogate has no UTF-8 (fact F5).
            prompt: "hé 😀 \u{fffd}".into(),
            images: vec!["data:a".into(), "data:b".into()],
            files: vec![Attachment {
                name: "../x".into(),
                data: "data:c".into()
            }],
        }
    );
}

/// Fact F53: what is wrong with EXEC is said in its EXEC_RESULT.
#[test]
fn what_exec_says() {
    let read = |text: &str| Exec::read(&object(text));
    for (args, expected) in [
        ("[]", None),
        ("\"x\"", None),
        ("5", None),
        ("false", None),
        ("null", Some(json!({}))),
        ("{}", Some(json!({}))),
        (
            r#"{"b":1,"a":[2.5,null]}"#,
            Some(json!({"b": 1, "a": [2.5, null]})),
        ),
    ] {
        let exec = read(&format!(r#"{{"tool":"t","args":{args}}}"#));
        assert_eq!(exec.args.map(serde_json::Value::Object), expected, "{args}");
    }
    assert_eq!(read("{}").args, Some(serde_json::Map::new()));
    for (tool, expected) in [
        ("\"bash\"", Some("bash")),
        ("\"\"", None),
        ("null", None),
        ("5", None),
        ("[\"bash\"]", None),
    ] {
        let exec = read(&format!(r#"{{"tool":{tool}}}"#));
        assert_eq!(exec.tool.as_deref(), expected, "{tool}");
    }
    assert_eq!(read("{}").tool, None);
}

#[test]
fn exec_id_is_echoed_as_it_came() {
    assert_eq!(Exec::read(&object("{}")).exec_id, "null");
    for exec_id in [
        "\"e-1\"",
        "\"\\u00e9\\ud800\"",
        "5",
        "1e16",
        "-0.0",
        "123456789012345678901234567890",
        "null",
        "true",
        "[1, {\"b\" :2,\"a\":[ ]}]",
    ] {
        let text = format!(r#"{{"exec_id": {exec_id} ,"tool":"t"}}"#);
        assert_eq!(Exec::read(&object(&text)).exec_id, exec_id);
    }
}

#[test]
fn what_a_status_query_may_name() {
    let ok = |id: &str| Ok(Some(id.to_owned()));
    let wrong = |text: &str| Err(Malformed::new(text));
    let long = json!("x".repeat(257)).to_string();
    for (members, expected) in [
        ("", Ok(None)),
        (r#""session":null"#, Ok(None)),
        (r#""session":{}"#, Ok(None)),
        (r#""session":{"session_id":null}"#, Ok(None)),
        (r#""session":{"session_id":""}"#, Ok(None)),
        (r#""session":{"session_id":"s"}"#, ok("s")),
        (r#""session_id":"s""#, ok("s")),
        (r#""session":{"session_id":"a"},"session_id":"b""#, ok("a")),
        (r#""session":"nope""#, wrong("session must be an object")),
        (r#""session":[]"#, wrong("session must be an object")),
        (
            r#""session":{"session_id":5}"#,
            wrong("session_id must be a string"),
        ),
        (
            r#""session_id":["s"]"#,
            wrong("session_id must be a string"),
        ),
        (
            &format!("\"session_id\":{long}"),
            wrong("session_id must not be longer than 256 characters"),
        ),
    ] {
        let text = format!("{{{members}}}");
        assert_eq!(status_query(&object(&text)), expected, "{members}");
    }
}

#[test]
fn the_small_answers() {
    for (text, expected) in [
        ("{}", Err("mode required")),
        (r#"{"mode":null}"#, Err("mode required")),
        (r#"{"mode":5}"#, Err("mode must be a string")),
        (r#"{"mode":["auto"]}"#, Err("mode must be a string")),
        (r#"{"mode":"auto"}"#, Ok("auto")),
        (r#"{"mode":""}"#, Ok("")),
    ] {
        let expected = expected.map(str::to_owned).map_err(Malformed::new);
        assert_eq!(mode(&object(text)), expected, "{text}");
    }
    for (text, expected) in [
        ("{}", Ok(None)),
        (r#"{"request_id":null}"#, Ok(None)),
        (r#"{"request_id":"r"}"#, Ok(Some("r".to_owned()))),
        (
            r#"{"request_id":5}"#,
            Err(Malformed::new("request_id must be a string")),
        ),
    ] {
        assert_eq!(request_id(&object(text)), expected, "{text}");
    }
}
