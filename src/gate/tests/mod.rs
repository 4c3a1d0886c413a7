//! Every frame in every state, and what the gate says to it.

mod envelope;
mod order;
mod properties;
mod transitions;

use serde_json::{Value, json};

use super::*;
use crate::identity::{Identity, Signature, verify};
use crate::wire::json::{Raw, to_python};

const NOW: f64 = 1_796_075_200.0;

/// The `type` of each kind, one unknown among them.
const KINDS: [&str; 12] = [
    "SEAL",
    "CONNECT",
    "ONBOARD_SUBMIT",
    "PONG",
    "SESSION_STATUS",
    "INPUT",
    "EXEC",
    "INTERRUPT",
    "mode_change",
    "APPROVAL_RESPONSE",
    "ASK_USER_RESPONSE",
    "FOO",
];

fn host() -> Identity {
    Identity::from_seed(&[1; 32])
}

fn caller() -> Identity {
    Identity::from_seed(&[2; 32])
}

fn stranger() -> Identity {
    Identity::from_seed(&[3; 32])
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing was received yet.
    Start,
    /// A frame was received, none that authenticated.
    Stranger,
    /// CONNECT without signed commands.
    V1,
    /// CONNECT with signed commands.
    V2,
}

const STATES: [At; 4] = [At::Start, At::Stranger, At::V1, At::V2];

/// The gate of a connection of [`caller`]'s; `sealed` by the same.
fn gate(at: At, sealed: bool) -> Gate {
    let mut gate = Gate::new(host().address());
    if at != At::Start {
        let _ = gate.judge(object("{}"), NOW, |_| Ok(false));
    }
    if sealed {
        gate.sealed(caller().address());
    }
    if matches!(at, At::V1 | At::V2) {
        gate.authenticated(Caller {
            address: caller().address(),
            recipient: host().address(),
            signed_commands: at == At::V2,
        });
    }
    gate
}

fn object(text: &str) -> Object<'_> {
    Object::parse(text).unwrap()
}

/// The signature over a payload's text, in Python's form.
fn signature(payload: &str, signer: &Identity) -> String {
    let message = to_python(&Raw::parse(payload).unwrap().value());
    Signature::from_bytes(signer.sign(&message)).to_string()
}

/// A payload that passes every check of every kind.
fn payload(kind: &str) -> Value {
    json!({
        "type": kind, "timestamp": NOW, "to": host().address().to_string(), "nonce": "n",
        "prompt": "hi",
    })
}

/// The frame of this kind that carries `payload`, signed by `signer` and from them.
fn envelope(kind: &str, payload: &Value, signer: &Identity) -> Value {
    json!({
        "type": kind, "from": signer.address().to_string(), "payload": payload,
        "signature": signature(&payload.to_string(), signer),
    })
}

fn signed(kind: &str, signer: &Identity) -> Value {
    envelope(kind, &payload(kind), signer)
}

/// What became of a frame: `seal`, `plain`, `passed` (to be claimed), `passed unclaimed`, or the
/// refusal's text.
fn said(gate: &mut Gate, frame: &Value) -> String {
    said_to(gate, &frame.to_string(), |_| Ok(false))
}

fn said_to(
    gate: &mut Gate,
    frame: &str,
    blocked: impl FnOnce(&Address) -> Result<bool, String>,
) -> String {
    match gate.judge(object(frame), NOW, blocked) {
        Judged::Seal => "seal".into(),
        Judged::Plain(..) => "plain".into(),
        Judged::Refused(refusal) => refusal.to_string(),
        Judged::Check(checking) => match verified(checking) {
            Ok(passed) if passed.claim => "passed".into(),
            Ok(_) => "passed unclaimed".into(),
            Err(refusal) => refusal.to_string(),
        },
    }
}

/// Verify as the connection does.
fn verified(checking: Checking<'_>) -> Result<Passed<'_>, Refusal> {
    let valid = checking
        .signed
        .check()
        .is_some_and(|check| verify(&check.signer, check.payload, &check.signature));
    checking.verified(valid)
}
