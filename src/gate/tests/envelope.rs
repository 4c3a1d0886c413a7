//! What each field of an envelope may be.

use super::*;

/// What a stranger's CONNECT is told whose payload has these members, as text, beside `to`.
fn said_to_members(members: &str) -> String {
    let payload = format!(
        r#"{{"to":"{}"{}{members}}}"#,
        host().address(),
        if members.is_empty() { "" } else { "," }
    );
    let frame = format!(
        r#"{{"type":"CONNECT","from":"{}","payload":{payload},"signature":"{}"}}"#,
        caller().address(),
        signature(&payload, &caller())
    );
    said_to(&mut gate(At::Start, false), &frame, |_| Ok(false))
}

/// Fact F7.
#[test]
fn what_a_timestamp_may_be() {
    let required = "unauthorized: timestamp required in payload";
    let numeric = "unauthorized: timestamp must be numeric";
    let finite = "unauthorized: timestamp must be finite";
    let expired = "unauthorized: signature expired";
    assert_eq!(said_to_members(""), required);
    for (timestamp, expected) in [
        ("null", required),
        ("0", required),
        ("0.0", required),
        ("-0", required),
        ("0e5", required),
        (r#""1796075200""#, numeric),
        (r#""""#, numeric),
        ("true", numeric),
        ("false", numeric),
        ("[1796075200]", numeric),
        ("{}", numeric),
        ("NaN", finite),
        ("Infinity", finite),
        ("-Infinity", finite),
        ("1e999", finite),
        ("1796075200", "passed"),
        ("1796075200.0", "passed"),
        ("17960752e2", "passed"),
        ("1796074900", "passed"),
        ("1796075500", "passed"),
        ("1796074900.0", "passed"),
        ("1796075500.0", "passed"),
        ("1796074899.999", expired),
        ("1796075500.001", expired),
        ("1796074899", expired),
        ("1796075501", expired),
        ("-1796075200", expired),
        ("1", expired),
        // Milliseconds, the usual mistake.
        ("1796075200000", expired),
    ] {
        let said = said_to_members(&format!(r#""timestamp":{timestamp}"#));
        assert_eq!(said, expected, "{timestamp}");
    }
}

/// The last of two members with one key is the one that is signed and the one that is checked.
#[test]
fn a_timestamp_given_twice() {
    for (one, two, expected) in [
        ("1", "1796075200", "passed"),
        ("1796075200", "1", "unauthorized: signature expired"),
    ] {
        let said = said_to_members(&format!(r#""timestamp":{one},"timestamp":{two}"#));
        assert_eq!(said, expected);
    }
}

/// Fact F13.
#[test]
fn what_signed_commands_may_be() {
    assert_eq!(negotiated(&object("{}")), Ok(false));
    for (value, expected) in [
        ("0", Ok(false)),
        ("0.0", Ok(false)),
        ("false", Ok(false)),
        ("1", Ok(true)),
        ("1.0", Ok(true)),
        ("true", Ok(true)),
        ("null", Err(())),
        ("2", Err(())),
        ("-1", Err(())),
        ("0.5", Err(())),
        ("NaN", Err(())),
        ("Infinity", Err(())),
        (r#""1""#, Err(())),
        (r#""""#, Err(())),
        ("[1]", Err(())),
        ("[]", Err(())),
        ("{}", Err(())),
    ] {
        let text = format!(r#"{{"signed_commands":{value}}}"#);
        let expected = expected.map_err(|()| Refusal::SignedCommandsUnknown);
        assert_eq!(negotiated(&object(&text)), expected, "{value}");
    }
}

/// Fact F14.
#[test]
fn what_a_command_says_of_itself() {
    let mismatch = "unauthorized: signed command type mismatch";
    let nonce = "unauthorized: signed command nonce required";
    let cases = [
        ("type", json!(null), mismatch),
        ("type", json!("EXEC"), mismatch),
        ("type", json!("input"), mismatch),
        ("type", json!(["INPUT"]), mismatch),
        ("nonce", json!(null), nonce),
        ("nonce", json!(""), nonce),
        ("nonce", json!(5), nonce),
        ("nonce", json!(["n"]), nonce),
        ("nonce", json!(true), nonce),
        ("nonce", json!(" "), "passed"),
    ];
    for (field, value, expected) in cases {
        let mut payload = payload("INPUT");
        payload[field] = value.clone();
        let frame = envelope("INPUT", &payload, &caller());
        assert_eq!(said(&mut gate(At::V2, false), &frame), expected, "{value}");
        // v1 asks for neither: a signature there is a courtesy. But what names its type is nothing else.
        let named = field == "type" && !value.is_null();
        let courtesy = if named { mismatch } else { "passed" };
        assert_eq!(said(&mut gate(At::V1, false), &frame), courtesy, "{value}");
        let mut payload = payload.clone();
        payload.as_object_mut().unwrap().shift_remove(field);
        let frame = envelope("INPUT", &payload, &caller());
        let absent = if field == "type" { mismatch } else { nonce };
        assert_eq!(said(&mut gate(At::V2, false), &frame), absent);
    }
}

/// A signed status query on a socket of its own is a command; CONNECT names no type and no nonce.
#[test]
fn who_needs_a_type_and_a_nonce_before_connect() {
    for (kind, expected) in [
        ("CONNECT", "passed"),
        ("ONBOARD_SUBMIT", "passed"),
        (
            "SESSION_STATUS",
            "unauthorized: signed command type mismatch",
        ),
    ] {
        let mut payload = payload(kind);
        payload.as_object_mut().unwrap().shift_remove("type");
        payload.as_object_mut().unwrap().shift_remove("nonce");
        let frame = envelope(kind, &payload, &caller());
        assert_eq!(said(&mut gate(At::Start, false), &frame), expected);
    }
}

/// Fact F1: one person, whatever the spelling.
#[test]
fn every_spelling_of_an_address_is_one() {
    let spellings = |address: Address| {
        let lower = address.to_string();
        let digits = lower[2..].to_owned();
        let upper = digits.to_uppercase();
        [
            lower,
            digits,
            format!("0X{upper}"),
            format!("0x{upper}"),
            upper,
        ]
    };
    for from in spellings(caller().address()) {
        for to in spellings(host().address()) {
            let mut payload = payload("CONNECT");
            payload["to"] = to.clone().into();
            let mut frame = envelope("CONNECT", &payload, &caller());
            frame["from"] = from.clone().into();
            for sealed in [false, true] {
                let text = frame.to_string();
                let mut gate = gate(At::Stranger, sealed);
                let judged = gate.judge(object(&text), NOW, |who| {
                    assert_eq!(*who, caller().address());
                    Ok(false)
                });
                let Judged::Check(checking) = judged else {
                    panic!("{from} {to}: {judged:?}");
                };
                let claimed = verified(checking).unwrap().verified.claimed();
                assert_eq!(claimed.signer, caller().address());
                assert_eq!(claimed.recipient, host().address());
            }
        }
    }
}

#[test]
fn what_from_must_be() {
    let missing = "unauthorized: 'from' field required";
    let malformed = "unauthorized: 'from' must be an address (0x and 64 hex digits)";
    for (from, expected) in [
        (json!(null), missing),
        (json!(""), missing),
        (json!(5), malformed),
        (json!([caller().address()]), malformed),
        (json!({}), malformed),
        (json!("0x12"), malformed),
        (json!(format!("{} ", caller().address())), malformed),
        (json!(format!("0x{}", caller().address())), malformed),
        (json!("é".repeat(32)), malformed),
    ] {
        let mut frame = signed("CONNECT", &caller());
        frame["from"] = from;
        for sealed in [false, true] {
            assert_eq!(said(&mut gate(At::Stranger, sealed), &frame), expected);
        }
    }
}

#[test]
fn what_to_must_be() {
    for to in [
        json!(null),
        json!(""),
        json!(5),
        json!([host().address()]),
        json!(caller().address()),
        json!("*"),
    ] {
        let mut payload = payload("CONNECT");
        payload["to"] = to;
        let frame = envelope("CONNECT", &payload, &caller());
        let said = said(&mut gate(At::Start, false), &frame);
        assert_eq!(said, "unauthorized: wrong recipient");
    }
}

#[test]
fn what_payload_and_signature_must_be() {
    let object = "unauthorized: payload must be an object";
    let invalid = "unauthorized: invalid signature";
    let good = signed("CONNECT", &caller());
    let longer = format!("{}00", good["signature"].as_str().unwrap());
    for (field, value, expected) in [
        ("payload", json!(null), object),
        ("payload", json!("x"), object),
        ("payload", json!([]), object),
        ("payload", json!(5), object),
        (
            "payload",
            json!({}),
            "unauthorized: timestamp required in payload",
        ),
        ("signature", json!(null), "unauthorized: signature required"),
        ("signature", json!(""), "unauthorized: signature required"),
        ("signature", json!(5), invalid),
        ("signature", json!([]), invalid),
        ("signature", json!("00"), invalid),
        ("signature", json!(longer), invalid),
        ("signature", json!("00".repeat(64)), invalid),
    ] {
        let mut frame = good.clone();
        frame[field] = value;
        let said = said(&mut gate(At::Start, false), &frame);
        assert_eq!(said, expected, "{field}");
    }
}

/// Fact F2: every spelling of a signature passes, and is one entry of the ledger.
#[test]
fn every_spelling_of_a_signature_is_one_claim() {
    let good = signed("CONNECT", &caller());
    let digits = good["signature"].as_str().unwrap().to_owned();
    let upper = digits.to_uppercase();
    let claims: Vec<_> = [
        digits.clone(),
        format!("0x{digits}"),
        upper.clone(),
        format!("0X{upper}"),
    ]
    .into_iter()
    .map(|spelling| {
        let mut frame = good.clone();
        frame["signature"] = spelling.into();
        let text = frame.to_string();
        match gate(At::Start, false).judge(object(&text), NOW, |_| Ok(false)) {
            Judged::Check(checking) => verified(checking).unwrap().verified.claim(),
            other => panic!("{other:?}"),
        }
    })
    .collect();
    for claim in &claims {
        assert_eq!(claim.digest, claims[0].digest);
        assert_eq!(claim.expires_at, NOW + FRESHNESS);
    }
}

/// Fact F9: kept until the timestamp itself is too old, not until 300 s from now.
#[test]
fn a_claim_outlives_its_signature_and_no_longer() {
    for shift in [-300.0, 0.0, 290.0] {
        let mut payload = payload("CONNECT");
        payload["timestamp"] = (NOW + shift).into();
        let text = envelope("CONNECT", &payload, &caller()).to_string();
        let mut gate = gate(At::Start, false);
        let Judged::Check(checking) = gate.judge(object(&text), NOW, |_| Ok(false)) else {
            panic!("not checked");
        };
        let claim = verified(checking).unwrap().verified.claim();
        assert_eq!(claim.expires_at, NOW + shift + 300.0);
    }
}

/// What runs is the signed payload, never the copies beside it.
#[test]
fn only_the_signed_payload_comes_out() {
    let mut frame = signed("INPUT", &caller());
    frame["prompt"] = "smuggled".into();
    let text = frame.to_string();
    for at in [At::V1, At::V2] {
        let mut gate = gate(at, false);
        let Judged::Check(checking) = gate.judge(object(&text), NOW, |_| Ok(false)) else {
            panic!("not checked");
        };
        let claimed = verified(checking).unwrap().verified.claimed();
        let prompt = claimed.payload.get("prompt").and_then(Raw::as_str);
        assert_eq!(prompt.as_deref(), Some("hi"));
    }
}
