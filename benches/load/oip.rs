//! OIP 0.1 frames as a client makes them: identities, canonical signing, commands.

use ed25519_dalek::{Signer, SigningKey};
use rand_core::{OsRng, RngCore};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

pub fn random32() -> [u8; 32] {
    let mut bytes = [0u8; 32];
    OsRng.fill_bytes(&mut bytes);
    bytes
}

/// The text that is signed: keys sorted at every depth, no spaces. Everything signed here is ASCII.
pub fn canonical(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

/// A nonce that no earlier run used: a random run prefix and a counter.
pub struct Nonces {
    prefix: String,
    next: u64,
}

impl Nonces {
    pub fn new() -> Self {
        Nonces {
            prefix: hex::encode(&random32()[..10]),
            next: 0,
        }
    }

    pub fn take(&mut self) -> String {
        self.next += 1;
        format!("{}-{:012x}", self.prefix, self.next)
    }
}

#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    pub address: String,
}

impl Identity {
    /// Identity `index` of the family that `base` names. Index 0 is `base` itself.
    pub fn derive(base: [u8; 32], index: u64) -> Self {
        let mut seed = base;
        for (byte, mix) in seed.iter_mut().zip(index.to_le_bytes()) {
            *byte ^= mix;
        }
        let key = SigningKey::from_bytes(&seed);
        let address = format!("0x{}", hex::encode(key.verifying_key().as_bytes()));
        Identity { key, address }
    }

    pub fn sign(&self, value: &Value) -> String {
        hex::encode(self.key.sign(canonical(value).as_bytes()).to_bytes())
    }

    /// CONNECT with the v2 command gate on. The extra nonce lets one identity
    /// open many sockets within one second (a signature is single-use).
    pub fn connect(&self, to: &str, nonce: &str, session_id: Option<&str>) -> String {
        let payload = json!({"to": to, "timestamp": now(), "signed_commands": 1, "nonce": nonce});
        let signature = self.sign(&payload);
        let mut frame = json!({
            "type": "CONNECT", "timestamp": payload["timestamp"], "payload": payload,
            "from": self.address, "signature": signature,
        });
        if let Some(id) = session_id {
            frame["session_id"] = id.into();
        }
        frame.to_string()
    }

    /// One signed v2 command, framed as the reference client frames it: every
    /// field once at the top level and once in the signed payload.
    fn command(&self, to: &str, nonce: String, mut payload: Value, lean: bool) -> String {
        payload["to"] = to.into();
        payload["timestamp"] = now().into();
        payload["nonce"] = nonce.into();
        let signature = self.sign(&payload);
        let mut frame = if lean {
            json!({"type": payload["type"]})
        } else {
            payload.clone()
        };
        frame["payload"] = payload;
        frame["from"] = self.address.clone().into();
        frame["signature"] = signature.into();
        frame.to_string()
    }

    pub fn exec(
        &self,
        to: &str,
        nonce: String,
        exec_id: &str,
        call: (&str, &Value),
        lean: bool,
    ) -> String {
        let (tool, args) = call;
        let payload = json!({"type": "EXEC", "exec_id": exec_id, "tool": tool, "args": args});
        self.command(to, nonce, payload, lean)
    }

    pub fn input(
        &self,
        to: &str,
        nonce: String,
        input_id: &str,
        prompt: &str,
        lean: bool,
    ) -> String {
        let payload = json!({"type": "INPUT", "input_id": input_id, "prompt": prompt});
        self.command(to, nonce, payload, lean)
    }
}
