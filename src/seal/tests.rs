//! Each refusal, and that what is sealed is what is opened.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::identity::{Identity, Signature};
use crate::wire::json::{Object, Raw, to_python};

const NOW: u64 = 1_796_075_200;

fn host() -> Identity {
    Identity::from_seed(&[1; 32])
}

fn client() -> Identity {
    Identity::from_seed(&[2; 32])
}

fn hello_now() -> (Value, Hello) {
    let (text, hello) = hello(&client(), &host().address(), NOW);
    (serde_json::from_str(&text).unwrap(), hello)
}

/// The frame with one field changed (or, with null, removed) and signed again by `signer`.
fn resigned(mut frame: Value, field: &str, value: Value, signer: &Identity) -> Value {
    frame["signature"].take();
    let members = frame.as_object_mut().unwrap();
    members.remove("signature");
    members.remove(field);
    if !value.is_null() {
        members.insert(field.to_owned(), value);
    }
    let text = frame.to_string();
    let message = to_python(&Raw::parse(&text).unwrap().value());
    let signature = Signature::from_bytes(signer.sign(&message));
    frame["signature"] = signature.to_string().into();
    frame
}

fn answer_at(frame: &Value, now: f64) -> Result<Accepted, SealRefused> {
    let text = frame.to_string();
    accept(&Object::parse(&text).unwrap(), &host(), now)
}

fn refusal(frame: &Value) -> SealRefused {
    match answer_at(frame, NOW as f64) {
        Ok(_) => panic!("accepted: {frame}"),
        Err(refusal) => refusal,
    }
}

#[test]
fn a_seal_must_be_fit_for_this_host() {
    let upper = host().address().to_string().to_uppercase();
    let key = |byte: &str| Value::from(byte.repeat(32));
    let other = Identity::from_seed(&[3; 32]).address().to_string();
    let cases = [
        ("type", json!("SEALED"), SealRefused::Type("SEAL")),
        ("type", json!(null), SealRefused::Type("SEAL")),
        ("to", json!(null), SealRefused::Missing("to")),
        ("to", json!(5), SealRefused::To),
        ("to", json!(other), SealRefused::To),
        ("from", json!(null), SealRefused::Missing("from")),
        ("from", json!("0x12"), SealRefused::From),
        ("from", json!([]), SealRefused::From),
        ("timestamp", json!(null), SealRefused::Missing("timestamp")),
        ("timestamp", json!(true), SealRefused::Timestamp),
        ("timestamp", json!(NOW.to_string()), SealRefused::Timestamp),
        ("timestamp", json!(NOW - 301), SealRefused::Stale),
        ("timestamp", json!(NOW + 301), SealRefused::Stale),
        ("ephemeral", json!(null), SealRefused::Missing("ephemeral")),
        ("ephemeral", json!(7), SealRefused::Ephemeral),
        ("ephemeral", json!("00ff"), SealRefused::Ephemeral),
        ("ephemeral", json!("zz".repeat(32)), SealRefused::Ephemeral),
        (
            "ephemeral",
            json!(format!("0x{}", "09".repeat(32))),
            SealRefused::Ephemeral,
        ),
        (
            "ephemeral",
            json!(format!("0x{}", "09".repeat(31))),
            SealRefused::Ephemeral,
        ),
        ("ephemeral", key("00"), SealRefused::Ephemeral),
        (
            "ephemeral",
            json!(format!("01{}", "00".repeat(31))),
            SealRefused::Ephemeral,
        ),
        (
            "ephemeral",
            json!(format!("ec{}7f", "ff".repeat(30))),
            SealRefused::Ephemeral,
        ),
        (
            "ephemeral",
            json!("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
            SealRefused::Ephemeral,
        ),
    ];
    for (field, value, expected) in cases {
        let frame = resigned(hello_now().0, field, value.clone(), &client());
        assert_eq!(refusal(&frame), expected, "{field} {value}");
    }
    for (field, value) in [
        ("to", json!(upper)),
        ("to", json!(&host().address().to_string()[2..])),
        ("timestamp", json!(NOW as f64 + 299.5)),
        ("timestamp", json!(NOW - 300)),
    ] {
        let frame = resigned(hello_now().0, field, value, &client());
        assert!(answer_at(&frame, NOW as f64).is_ok(), "{frame}");
    }
}

#[test]
fn a_timestamp_that_is_no_time_is_stale() {
    for number in ["NaN", "Infinity", "1e400"] {
        let frame = hello_now().0.to_string().replace(&NOW.to_string(), number);
        let frame = Object::parse(&frame).unwrap();
        let refused = accept(&frame, &host(), NOW as f64).err();
        assert_eq!(refused, Some(SealRefused::Stale), "{number}");
    }
}

#[test]
fn a_seal_must_be_signed_by_its_sender() {
    let (frame, _) = hello_now();
    let signature = frame["signature"].as_str().unwrap().to_owned();
    for value in [
        json!("zz"),
        json!(5),
        json!(format!("0x{signature}")),
        json!(format!("0x{}", &signature[2..])),
        json!(&signature[2..]),
    ] {
        let mut frame = frame.clone();
        frame["signature"] = value;
        assert_eq!(refusal(&frame), SealRefused::Signature);
    }
    let mut bare = frame.clone();
    bare.as_object_mut().unwrap().remove("signature");
    assert_eq!(refusal(&bare), SealRefused::Missing("signature"));

    let mut changed = frame.clone();
    changed["timestamp"] = json!(NOW + 1);
    assert_eq!(refusal(&changed), SealRefused::Forged);
    let from = json!(client().address().to_string());
    let other = Identity::from_seed(&[3; 32]);
    assert_eq!(
        refusal(&resigned(frame.clone(), "from", from, &other)),
        SealRefused::Forged
    );

    let mut relayed = frame.clone();
    relayed["session_id"] = json!("added by the relay");
    relayed["signature"] = json!(signature.to_uppercase());
    let accepted = answer_at(&relayed, NOW as f64).unwrap();
    assert_eq!(accepted.peer, client().address());
}

#[test]
fn an_answer_must_be_the_called_hosts_to_this_seal() {
    let finish = |change: &dyn Fn(Value) -> Value| {
        let (frame, hello) = hello_now();
        let reply = answer_at(&frame, NOW as f64).unwrap().reply;
        hello
            .finish(&change(serde_json::from_str(&reply).unwrap()).to_string())
            .err()
    };
    let set = |field: &'static str, value: Value| {
        finish(&|reply| resigned(reply, field, value.clone(), &host()))
    };
    let other = Identity::from_seed(&[3; 32]);
    assert_eq!(finish(&|reply| reply), None);
    assert_eq!(finish(&|_| json!([])), Some(SealRefused::NotOneObject));
    assert_eq!(
        set("type", json!("ERROR")),
        Some(SealRefused::Type("SEALED_OK"))
    );
    assert_eq!(
        set("ephemeral", json!(null)),
        Some(SealRefused::Missing("ephemeral"))
    );
    assert_eq!(set("from", json!(other.address())), Some(SealRefused::From));
    assert_eq!(set("to", json!(other.address())), Some(SealRefused::To));
    assert_eq!(
        set("client_ephemeral", json!("09".repeat(32))),
        Some(SealRefused::ClientEphemeral)
    );
    assert_eq!(
        set("ephemeral", json!("00".repeat(32))),
        Some(SealRefused::Ephemeral)
    );
    let forged = finish(&|reply| resigned(reply, "type", json!("SEALED_OK"), &other));
    assert_eq!(forged, Some(SealRefused::Forged));
    assert_eq!(
        set("session_id", json!("signed in, so not ignored")),
        Some(SealRefused::Forged)
    );
}

/// The client's writing half and the host's reading half.
fn ends() -> (Sealer, Opener) {
    let (frame, hello) = hello_now();
    let accepted = answer_at(&frame, NOW as f64).unwrap();
    let client = hello.finish(&accepted.reply).unwrap();
    (client.split().0, accepted.channel.split().1)
}

fn open(opener: &mut Opener, frame: &str) -> Result<String, SealError> {
    opener.open(&Object::parse(frame).unwrap())
}

#[test]
fn counters_only_go_up() {
    let (mut sealer, mut opener) = ends();
    let frames: Vec<_> = (0..5)
        .map(|n| sealer.seal(&format!("{{\"n\":{n}}}")))
        .collect();
    assert!(
        frames[0].starts_with(r#"{"type":"SEALED","n":1,"c":""#),
        "{}",
        frames[0]
    );
    assert_eq!(open(&mut opener, &frames[0]).unwrap(), "{\"n\":0}");
    assert_eq!(open(&mut opener, &frames[0]), Err(SealError::OutOfOrder));
    assert_eq!(
        open(&mut opener, &frames[3]).unwrap(),
        "{\"n\":3}",
        "a gap is accepted"
    );
    assert_eq!(open(&mut opener, &frames[2]), Err(SealError::OutOfOrder));
    for n in [
        "\"5\"",
        "5.0",
        "true",
        "null",
        "0",
        "-5",
        "5e0",
        "99999999999999999999",
    ] {
        let frame = frames[4].replace("\"n\":5", &format!("\"n\":{n}"));
        assert_eq!(open(&mut opener, &frame), Err(SealError::OutOfOrder), "{n}");
    }
    let renumbered = frames[4].replace("\"n\":5", "\"n\":6");
    assert_eq!(open(&mut opener, &renumbered), Err(SealError::Unopened));
    assert!(
        open(&mut opener, &frames[4]).is_ok(),
        "a failure moves no counter"
    );
}

#[test]
fn what_is_not_sealed_does_not_open() {
    let (mut sealer, mut opener) = ends();
    let frame = sealer.seal("{}");
    for text in [
        "{}",
        r#"{"type":"PING"}"#,
        r#"{"type":"SEALED","n":1}"#,
        r#"{"type":"SEALED","n":1,"c":5}"#,
        r#"{"type":"SEALED","c":""}"#,
        &frame.replace("SEALED", "SEAL"),
    ] {
        assert_eq!(open(&mut opener, text), Err(SealError::NotSealed), "{text}");
    }
    for c in ["", "AAAA", "!", &"A".repeat(64)] {
        let text = format!(r#"{{"type":"SEALED","n":1,"c":"{c}"}}"#);
        assert_eq!(open(&mut opener, &text), Err(SealError::Unopened), "{c}");
    }
}

#[test]
fn what_was_sealed_must_be_one_object() {
    for clear in ["", "[]", "{", "{} {}", "5", "hello"] {
        let (mut sealer, mut opener) = ends();
        let frame = sealer.seal(clear);
        assert_eq!(
            open(&mut opener, &frame),
            Err(SealError::NotOneObject),
            "{clear}"
        );
    }
}

#[test]
fn errors_name_the_field() {
    for (refused, text) in [
        (SealRefused::Missing("ephemeral"), "ephemeral is missing"),
        (SealRefused::To, "to is another address"),
        (SealRefused::Stale, "timestamp is too old or too new"),
    ] {
        assert_eq!(refused.to_string(), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_sealed_is_opened_and_a_flipped_bit_is_not(
        texts in prop::collection::vec(any::<String>(), 1..5),
        flip in any::<prop::sample::Index>(),
        long in 0..20_000_usize,
    ) {
        let (mut sealer, mut opener) = ends();
        for text in texts.iter().map(String::as_str).chain(["x".repeat(long).as_str()]) {
            let clear = json!({"type": "INPUT", "prompt": text}).to_string();
            let frame = sealer.seal(&clear);
            let start = frame.find("\"c\":\"").unwrap() + 5;
            let mut damaged = frame.clone().into_bytes();
            let at = start + flip.index(frame.len() - start - 2);
            damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(damaged).unwrap();
            prop_assert_eq!(open(&mut opener, &damaged), Err(SealError::Unopened));
            prop_assert_eq!(open(&mut opener, &frame).unwrap(), clear);
        }
    }
}
