//! What holds for every frame there is.

use proptest::prelude::*;

use super::*;
use crate::wire::inbound::{self, Connect, Exec, Input};

const FIELDS: [&str; 20] = [
    "type",
    "from",
    "to",
    "payload",
    "signature",
    "timestamp",
    "nonce",
    "signed_commands",
    "session",
    "session_id",
    "last_msg_id",
    "protocol",
    "prompt",
    "images",
    "files",
    "tool",
    "args",
    "exec_id",
    "mode",
    "request_id",
];

fn scalar() -> impl Strategy<Value = String> {
    let quoted = |text: String| Value::from(text).to_string();
    prop_oneof![
        4 => proptest::sample::select(KINDS.to_vec()).prop_map(move |kind| quoted(kind.into())),
        2 => Just(quoted(caller().address().to_string())),
        2 => Just(quoted(host().address().to_string())),
        2 => Just(quoted("ab".repeat(64))),
        2 => Just("1796075200".to_owned()),
        4 => proptest::sample::select(vec![
            "null", "true", "false", "0", "1", "-0", "1e400", "NaN", "-Infinity", "\"\"",
            r#""\ud800""#, r#""\u0000""#,
        ])
        .prop_map(str::to_owned),
        1 => any::<f64>().prop_map(|number| Value::from(number).to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => ".{0,8}".prop_map(quoted),
    ]
}

fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (proptest::sample::select(FIELDS.to_vec()), value)
        .prop_map(|(key, value)| format!("\"{key}\":{value}"));
    proptest::collection::vec(member, 0..10)
        .prop_map(|members| format!("{{{}}}", members.join(",")))
}

/// Any JSON value made of the protocol's words.
fn value() -> impl Strategy<Value = String> {
    scalar().prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            members(inner.clone()),
            proptest::collection::vec(inner, 0..4)
                .prop_map(|elements| format!("[{}]", elements.join(","))),
        ]
    })
}

/// An object of a kind's type and anything else.
fn frame() -> impl Strategy<Value = String> {
    (proptest::sample::select(KINDS.to_vec()), members(value())).prop_map(|(kind, members)| {
        let rest = members.strip_prefix('{').unwrap();
        let comma = if rest.len() > 1 { "," } else { "" };
        // Another `type` further on wins; usually there is none.
        format!("{{\"type\":\"{kind}\"{comma}{rest}")
    })
}

fn states() -> impl Strategy<Value = (At, bool)> {
    (proptest::sample::select(STATES.to_vec()), any::<bool>())
}

/// Everything that reads a frame's fields, for what it might panic on.
fn read_all(fields: &Object<'_>) {
    let _ = Connect::read(fields);
    let _ = Input::read(fields);
    let _ = Exec::read(fields);
    let _ = inbound::status_query(fields);
    let _ = inbound::mode(fields);
    let _ = inbound::request_id(fields);
    let _ = negotiated(fields);
}

const EXEMPT: [Kind; 3] = [Kind::Pong, Kind::SessionStatus, Kind::OnboardSubmit];

proptest! {
    /// Nobody has signed these frames, so none of them passes; and of commands only the exempt
    /// ones get by without.
    #[test]
    fn nothing_unsigned_passes(text in frame(), (at, sealed) in states()) {
        let frame = object(&text);
        read_all(&frame);
        match gate(at, sealed).judge(frame, NOW, |_| Ok(false)) {
            Judged::Seal => prop_assert_eq!(at, At::Start),
            Judged::Check(checking) => prop_assert!(verified(checking).is_err()),
            Judged::Plain(kind, _) => {
                let exempt = EXEMPT.contains(&kind);
                prop_assert!(exempt || at == At::V1, "{:?} at {:?}", kind, at);
            }
            Judged::Refused(refusal) => {
                let frame = refusal.frame();
                prop_assert_eq!(&serde_json::from_str::<Value>(&frame).unwrap()["type"], "ERROR");
            }
        }
    }

    /// One byte of a signed payload is another one: the frame is refused, or says the same.
    #[test]
    fn a_changed_byte_is_found(
        extra in members(value()),
        kind in proptest::sample::select(vec!["CONNECT", "INPUT"]),
        at in any::<proptest::sample::Index>(),
        byte in prop_oneof![any::<u8>(), proptest::sample::select(b"\"\\{}[],: .eE+-019au".to_vec())],
    ) {
        let (head, tail) = (payload(kind).to_string(), &extra[1..]);
        let comma = if tail.len() > 1 { "," } else { "" };
        // The real members come last and win.
        let payload = format!("{{{}{comma}{}", &tail[..tail.len() - 1], &head[1..]);
        let signature = signature(&payload, &caller());
        let frame = |payload: &str| format!(
            r#"{{"type":"{kind}","from":"{}","payload":{payload},"signature":"{signature}"}}"#,
            caller().address(),
        );
        let state = if kind == "INPUT" { At::V2 } else { At::Start };
        let unchanged = said_to(&mut gate(state, false), &frame(&payload), |_| Ok(false));
        prop_assert_eq!(unchanged, "passed");

        let mut bytes = payload.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let Ok(changed) = String::from_utf8(bytes) else { return Ok(()) };
        let text = frame(&changed);
        let Ok(object) = Object::parse(&text) else { return Ok(()) };
        if let Judged::Check(checking) = gate(state, false).judge(object, NOW, |_| Ok(false))
            && let Ok(passed) = verified(checking)
        {
            // Members outside the payload, if the change closed it early, are not signed and not
            // what is executed.
            let executed = passed.frame.get("payload").unwrap().value();
            let meant = Raw::parse(&payload).unwrap().value();
            prop_assert_eq!(to_python(&executed), to_python(&meant));
        }
    }
}

/// Every byte of a usual payload, each with every bit flipped.
#[test]
fn every_flipped_bit_is_found() {
    let frame = signed("INPUT", &caller()).to_string();
    let payload = payload("INPUT").to_string();
    let start = frame.find(&payload).unwrap();
    for at in start..start + payload.len() {
        for bit in 0..8 {
            let mut bytes = frame.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            let Ok(object) = Object::parse(&text) else {
                continue;
            };
            let judged = gate(At::V2, false).judge(object, NOW, |_| Ok(false));
            let passed = match judged {
                Judged::Check(checking) => verified(checking).is_ok(),
                _ => false,
            };
            assert!(!passed, "byte {at}, bit {bit}: {text}");
        }
    }
}
