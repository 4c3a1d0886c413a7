//! Somebody with a key, who signs as the Python client does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use oip_host::identity::{Address, Identity};
use oip_host::wire::json::{Raw, to_python};
use serde_json::{Value, json};

/// Unix seconds.
pub fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}

/// A key pair that can be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person([u8; 32]);

impl Person {
    /// Somebody nobody has met.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::numbered(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The same in every process.
    pub const fn numbered(number: u64) -> Self {
        let mut seed = [7; 32];
        let bytes = number.to_le_bytes();
        let mut at = 0;
        while at < bytes.len() {
            seed[at] = bytes[at];
            at += 1;
        }
        Self(seed)
    }

    pub fn seed(&self) -> [u8; 32] {
        self.0
    }

    pub fn identity(&self) -> Identity {
        Identity::from_seed(&self.0)
    }

    pub fn address(&self) -> Address {
        self.identity().address()
    }

    /// Hex of the signature over the Python form of `payload`.
    pub fn sign(&self, payload: &str) -> String {
        let value = Raw::parse(payload).unwrap().value();
        hex::encode(self.identity().sign(&to_python(&value)))
    }

    /// `{type, payload, from, signature}`.
    pub fn envelope(&self, kind: &str, payload: &Value) -> Value {
        let signature = self.sign(&payload.to_string());
        json!({
            "type": kind, "payload": payload, "from": self.address().to_string(),
            "signature": signature,
        })
    }

    /// The payload of a CONNECT for v1; `signed_commands: 1` beside it makes it v2.
    pub fn connect_payload(host: &Address) -> Value {
        json!({"to": host.to_string(), "timestamp": now(), "nonce": nonce()})
    }

    /// A CONNECT for the host, v1 or v2.
    pub fn connect(&self, host: &Address, signed_commands: bool) -> Value {
        let mut payload = Self::connect_payload(host);
        if signed_commands {
            payload["signed_commands"] = json!(1);
        }
        self.envelope("CONNECT", &payload)
    }

    /// The signed payload of a v2 command.
    pub fn command_payload(host: &Address, kind: &str, fields: &Value) -> Value {
        let mut payload = fields.clone();
        payload["type"] = json!(kind);
        payload["to"] = json!(host.to_string());
        payload["timestamp"] = json!(now());
        payload["nonce"] = json!(nonce());
        payload
    }

    /// A v2 command as the Python client sends it: the fields twice, once to be read by eye and once
    /// signed.
    pub fn command(&self, host: &Address, kind: &str, fields: &Value) -> Value {
        let payload = Self::command_payload(host, kind, fields);
        let mut frame = payload.clone();
        let envelope = self.envelope(kind, &payload);
        for key in ["payload", "from", "signature"] {
            frame[key] = envelope[key].clone();
        }
        frame
    }
}

fn nonce() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:016x}", NEXT.fetch_add(1, Ordering::Relaxed))
}
