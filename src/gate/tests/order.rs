//! The checks of an envelope come in one order (fact F8), and each has its text.

use super::*;

/// Faults in the order in which they are found, each with what is said to it.
const FAULTS: [(Fault, &str); 9] = [
    (Fault::NoPayload, "unauthorized: signed request required"),
    (Fault::NoFrom, "unauthorized: 'from' field required"),
    (Fault::Blocked, "forbidden: blocked"),
    (
        Fault::TooLong,
        "unauthorized: payload must not be longer than 65536 bytes",
    ),
    (Fault::NoSignature, "unauthorized: signature required"),
    (
        Fault::NoTimestamp,
        "unauthorized: timestamp required in payload",
    ),
    (Fault::Old, "unauthorized: signature expired"),
    (Fault::OtherHost, "unauthorized: wrong recipient"),
    (Fault::Forged, "unauthorized: invalid signature"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NoPayload,
    NoFrom,
    Blocked,
    TooLong,
    NoSignature,
    NoTimestamp,
    Old,
    OtherHost,
    Forged,
}

impl Fault {
    fn apply(self, frame: &mut Value) {
        let members = frame.as_object_mut().unwrap();
        match self {
            Self::NoPayload => drop(members.remove("payload")),
            Self::NoFrom => drop(members.remove("from")),
            Self::Blocked => {}
            Self::NoSignature => drop(members.insert("signature".into(), "".into())),
            Self::Forged => drop(members.insert("signature".into(), "ab".repeat(64).into())),
            Self::TooLong => self.change(frame, "prompt", "x".repeat(STRANGERS_PAYLOAD).into()),
            Self::NoTimestamp => self.change(frame, "timestamp", Value::Null),
            Self::Old => self.change(frame, "timestamp", (NOW - 301.0).into()),
            Self::OtherHost => self.change(frame, "to", json!(stranger().address())),
        }
    }

    fn change(self, frame: &mut Value, key: &str, value: Value) {
        if let Some(payload) = frame.get_mut("payload") {
            payload[key] = value;
        }
    }
}

/// A CONNECT with these faults and otherwise sound, so each text is due to its fault.
fn said_to_faults(faults: &[Fault]) -> String {
    let mut frame = json!({
        "type": "CONNECT", "from": caller().address(), "payload": payload("CONNECT"),
    });
    // The last one first, so that of two that change one field the earlier stays.
    for fault in faults.iter().rev() {
        fault.apply(&mut frame);
    }
    if frame.get("signature").is_none() {
        let payload = frame["payload"].to_string();
        frame["signature"] = signature(&payload, &caller()).into();
    }
    let blocked = faults.contains(&Fault::Blocked);
    said_to(&mut gate(At::Start, false), &frame.to_string(), |_| {
        Ok(blocked)
    })
}

#[test]
fn of_two_faults_the_earlier_is_told() {
    assert_eq!(said_to_faults(&[]), "passed");
    for (i, (fault, text)) in FAULTS.into_iter().enumerate() {
        assert_eq!(said_to_faults(&[fault]), text);
        for (later, _) in &FAULTS[i + 1..] {
            assert_eq!(
                said_to_faults(&[fault, *later]),
                text,
                "{fault:?}, {later:?}"
            );
        }
    }
}

/// The signer's checks come after the signature: a forged frame tells its sender nothing more.
#[test]
fn type_nonce_and_signer_are_looked_at_last() {
    let mut frame = signed("INPUT", &stranger());
    frame["payload"]["nonce"] = Value::Null;
    frame["payload"]["type"] = Value::Null;
    assert_eq!(
        said(&mut gate(At::V2, false), &frame),
        "unauthorized: invalid signature"
    );
    let mut payload = payload("INPUT");
    payload["nonce"] = Value::Null;
    payload["type"] = "EXEC".into();
    let texts = [
        (
            stranger(),
            "unauthorized: command signer does not own this connection",
        ),
        (caller(), "unauthorized: signed command type mismatch"),
    ];
    for (signer, text) in texts {
        let frame = envelope("INPUT", &payload, &signer);
        assert_eq!(said(&mut gate(At::V2, false), &frame), text);
    }
}

/// The seal's own check needs nothing but `from`, and is made before the ordinary ones.
#[test]
fn a_foreign_signer_in_a_seal_is_not_looked_up() {
    let frame = signed("CONNECT", &stranger()).to_string();
    let text = said_to(&mut gate(At::Stranger, true), &frame, |_| {
        panic!("looked up")
    });
    assert_eq!(
        text,
        "unauthorized: CONNECT is not signed by the sealed peer"
    );
}

#[test]
fn a_list_that_cannot_be_read_admits_nobody() {
    let frame = signed("CONNECT", &caller()).to_string();
    let text = said_to(&mut gate(At::Start, false), &frame, |_| {
        Err("misconfigured: blocklist.txt".into())
    });
    assert_eq!(text, "misconfigured: blocklist.txt");
}

#[test]
fn only_a_stranger_must_be_brief() {
    let limit = STRANGERS_PAYLOAD;
    for (at, kind, extra, expected) in [
        (At::Start, "CONNECT", 0, "passed"),
        (
            At::Start,
            "CONNECT",
            1,
            "unauthorized: payload must not be longer than 65536 bytes",
        ),
        (At::V1, "INPUT", 1, "passed"),
        (At::V2, "INPUT", 1, "passed"),
        (At::V2, "CONNECT", 1, "passed"),
    ] {
        let mut payload = payload(kind);
        let length = payload.to_string().len();
        payload["prompt"] = "x".repeat(limit - length + "hi".len() + extra).into();
        assert_eq!(payload.to_string().len(), limit + extra);
        let frame = envelope(kind, &payload, &caller());
        assert_eq!(said(&mut gate(at, false), &frame), expected, "{at:?}");
    }
}

#[test]
fn each_refusal_has_its_text() {
    use Refusal::*;
    let texts = [
        (Unsigned, "unauthorized: signed request required"),
        (PayloadNotObject, "unauthorized: payload must be an object"),
        (
            PayloadTooLong(9),
            "unauthorized: payload must not be longer than 9 bytes",
        ),
        (CommandUnsigned, "unauthorized: signed command required"),
        (FromMissing, "unauthorized: 'from' field required"),
        (
            FromMalformed,
            "unauthorized: 'from' must be an address (0x and 64 hex digits)",
        ),
        (Blocked, "forbidden: blocked"),
        (SignatureMissing, "unauthorized: signature required"),
        (
            TimestampMissing,
            "unauthorized: timestamp required in payload",
        ),
        (
            TimestampNotNumeric,
            "unauthorized: timestamp must be numeric",
        ),
        (TimestampNotFinite, "unauthorized: timestamp must be finite"),
        (Expired, "unauthorized: signature expired"),
        (WrongRecipient, "unauthorized: wrong recipient"),
        (InvalidSignature, "unauthorized: invalid signature"),
        (
            SignedCommandsUnknown,
            "unauthorized: signed_commands must be 1, 0 or absent",
        ),
        (ConnectReused, "unauthorized: this CONNECT was already used"),
        (CommandReused, "unauthorized: signed command already used"),
        (
            LedgerUnavailable,
            "misconfigured: replay protection unavailable",
        ),
        (
            ForeignCommand,
            "unauthorized: command signer does not own this connection",
        ),
        (TypeMismatch, "unauthorized: signed command type mismatch"),
        (NonceMissing, "unauthorized: signed command nonce required"),
        (
            NotSealedPeer("CONNECT"),
            "unauthorized: CONNECT is not signed by the sealed peer",
        ),
        (NotAuthenticated, "authenticate first (send CONNECT)"),
        (
            AlreadyAuthenticated,
            "already authenticated: open a new connection",
        ),
        (UnknownType(quoted("FOO")), "unknown message type: 'FOO'"),
        (TypeNotString, "type must be a string"),
        (Malformed("prompt required".into()), "prompt required"),
        (Policy("forbidden: no".into()), "forbidden: no"),
    ];
    for (refusal, text) in texts {
        assert_eq!(refusal.to_string(), text);
        let frame: Value = serde_json::from_str(&refusal.frame()).unwrap();
        assert_eq!(frame, json!({"type": "ERROR", "message": text}));
        assert_eq!(refusal.costs_verification(), refusal == InvalidSignature);
    }
}
