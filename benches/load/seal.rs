//! The client end of the sealed channel: SEAL, SEALED_OK, SEALED.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as B64;
use crypto_box::aead::Aead;
use crypto_box::{PublicKey, SalsaBox, SecretKey};
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use serde_json::{Value, json};

use crate::Res;
use crate::oip::{Identity, canonical, now, random32};

/// The client end of a sealed socket.
pub struct Seal {
    boxed: SalsaBox,
    sent: u64,
    received: u64,
}

/// A SEAL frame and the one-time key that its SEALED_OK needs.
pub struct Hello {
    pub frame: String,
    ephemeral: SecretKey,
    ephemeral_hex: String,
    from: String,
    to: String,
}

impl Hello {
    pub fn new(who: &Identity, to: &str) -> Self {
        let ephemeral = SecretKey::from(random32());
        let ephemeral_hex = hex::encode(ephemeral.public_key().as_bytes());
        let mut frame = json!({
            "type": "SEAL", "to": to, "from": who.address,
            "ephemeral": ephemeral_hex, "timestamp": now(),
        });
        frame["signature"] = who.sign(&frame).into();
        Hello {
            frame: frame.to_string(),
            ephemeral,
            ephemeral_hex,
            from: who.address.clone(),
            to: to.to_string(),
        }
    }

    /// Check SEALED_OK against this hello and derive the channel.
    pub fn finish(self, reply: &str) -> Res<Seal> {
        let mut reply: Value = serde_json::from_str(reply)?;
        if reply["type"] != "SEALED_OK" {
            return Err(format!("expected SEALED_OK, got {reply}").into());
        }
        let signature = reply
            .as_object_mut()
            .and_then(|fields| fields.remove("signature"))
            .unwrap_or_default();
        if reply["from"] != self.to.as_str()
            || reply["to"] != self.from.as_str()
            || reply["client_ephemeral"] != self.ephemeral_hex.as_str()
        {
            return Err("SEALED_OK answers another SEAL".into());
        }
        let key: [u8; 32] = hex::decode(self.to.trim_start_matches("0x"))?
            .try_into()
            .map_err(|_| "host address is no key")?;
        let signature =
            Signature::from_slice(&hex::decode(signature.as_str().unwrap_or_default())?)?;
        VerifyingKey::from_bytes(&key)?.verify(canonical(&reply).as_bytes(), &signature)?;
        let theirs: [u8; 32] = hex::decode(reply["ephemeral"].as_str().unwrap_or_default())?
            .try_into()
            .map_err(|_| "ephemeral is no key")?;
        Ok(Seal {
            boxed: SalsaBox::new(&PublicKey::from(theirs), &self.ephemeral),
            sent: 0,
            received: 0,
        })
    }
}

/// Three bytes of direction, then the counter in 21 big-endian bytes.
fn seal_nonce(tag: &[u8; 3], counter: u64) -> crypto_box::Nonce {
    let mut nonce = [0u8; 24];
    nonce[..3].copy_from_slice(tag);
    nonce[16..].copy_from_slice(&counter.to_be_bytes());
    nonce.into()
}

impl Seal {
    pub fn seal(&mut self, clear: &str) -> String {
        self.sent += 1;
        let cipher = self
            .boxed
            .encrypt(&seal_nonce(b"c2h", self.sent), clear.as_bytes())
            .expect("seal");
        format!(
            "{{\"type\":\"SEALED\",\"n\":{},\"c\":\"{}\"}}",
            self.sent,
            B64.encode(cipher)
        )
    }

    pub fn open(&mut self, frame: &str) -> Res<String> {
        #[derive(serde::Deserialize)]
        struct Sealed<'a> {
            n: u64,
            c: &'a str,
        }
        let sealed: Sealed = serde_json::from_str(frame)?;
        if sealed.n <= self.received {
            return Err("sealed frame out of order".into());
        }
        let clear = self
            .boxed
            .decrypt(&seal_nonce(b"h2c", sealed.n), &B64.decode(sealed.c)?[..])
            .map_err(|_| "sealed frame does not open")?;
        self.received = sealed.n;
        Ok(String::from_utf8(clear)?)
    }
}
