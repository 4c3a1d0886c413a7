//! Sealing and opening the frames of a channel.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::{AeadInPlace, Kdf, KeyInit, Nonce, SecretBox, Tag, XSalsa20Poly1305};
use x25519_dalek::SharedSecret;
use zeroize::Zeroizing;

use crate::wire::json::Object;

/// Nonces of frames from the client to the host begin so (F20).
const CLIENT_TO_HOST: [u8; 3] = *b"c2h";
/// Nonces of frames from the host to the client begin so.
const HOST_TO_CLIENT: [u8; 3] = *b"h2c";
/// Bytes of the authenticator in front of every ciphertext.
const TAG: usize = 16;
/// A buffer grown beyond this by a large frame is given back: most sockets are idle.
const KEPT: usize = 4096;

/// Why a frame did not open; displays as what follows `sealed frame rejected: `. Each ends the
/// session (F25).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// A frame in the clear, or one without `n` or `c`.
    #[error("not a SEALED frame")]
    NotSealed,
    /// A repeat, a step back, or a counter that is no integer.
    #[error("n is not above the last one opened")]
    OutOfOrder,
    /// Not base64, or not sealed with this channel's key and this counter.
    #[error("c does not open")]
    Unopened,
    /// What was sealed is no frame.
    #[error("the sealed text is not one JSON object")]
    NotOneObject,
}

/// An agreed channel, seen from one of its ends. The key is wiped when both halves are dropped.
pub struct Channel {
    sealer: Sealer,
    opener: Opener,
}

impl Channel {
    pub(super) fn of_client(secret: &SharedSecret) -> Self {
        Self::new(secret, CLIENT_TO_HOST, HOST_TO_CLIENT)
    }

    pub(super) fn of_host(secret: &SharedSecret) -> Self {
        Self::new(secret, HOST_TO_CLIENT, CLIENT_TO_HOST)
    }

    fn new(secret: &SharedSecret, send: [u8; 3], receive: [u8; 3]) -> Self {
        let cipher = box_cipher(secret);
        Self {
            sealer: Sealer {
                cipher: cipher.clone(),
                tag: send,
                sent: 0,
                buffer: Vec::new(),
            },
            opener: Opener {
                cipher,
                tag: receive,
                received: 0,
            },
        }
    }

    /// The two directions, for the task that writes and the task that reads.
    pub fn split(self) -> (Sealer, Opener) {
        (self.sealer, self.opener)
    }
}

/// The NaCl box of a shared secret: its cipher's key is HSalsa20 of the secret and sixteen zeros.
fn box_cipher(secret: &SharedSecret) -> XSalsa20Poly1305 {
    fn derive<C: Kdf>(secret: &SharedSecret) -> SecretBox<C> {
        let key = Zeroizing::new(C::kdf(secret.as_bytes().into(), &Default::default()));
        SecretBox::new(&key)
    }
    derive(secret)
}

/// The direction's tag and the counter as 21 bytes, big-endian (F20).
fn nonce(tag: [u8; 3], counter: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..3].copy_from_slice(&tag);
    nonce[16..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

/// The writing half of a channel.
pub struct Sealer {
    cipher: XSalsa20Poly1305,
    tag: [u8; 3],
    sent: u64,
    /// Authenticator and ciphertext of the frame at hand; kept for the next one.
    buffer: Vec<u8>,
}

impl Sealer {
    /// The SEALED frame that carries the frame `clear`.
    pub fn seal(&mut self, clear: &str) -> String {
        self.sent += 1;
        self.encrypt(clear.as_bytes());
        let length = base64::encoded_len(self.buffer.len(), true).unwrap_or(0);
        let mut frame = String::with_capacity(length + 56);
        // Writing into a String cannot fail.
        let _ = write!(frame, r#"{{"type":"SEALED","n":{},"c":""#, self.sent);
        STANDARD.encode_string(&self.buffer, &mut frame);
        frame.push_str("\"}");
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        frame
    }

    fn encrypt(&mut self, clear: &[u8]) {
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.reserve_exact(TAG + clear.len());
        buffer.resize(TAG, 0);
        buffer.extend_from_slice(clear);
        let nonce = nonce(self.tag, self.sent);
        match self
            .cipher
            .encrypt_in_place_detached(&nonce, b"", &mut buffer[TAG..])
        {
            Ok(tag) => buffer[..TAG].copy_from_slice(&tag),
            // The cipher refuses associated data only, and there is none; still, what is not
            // encrypted must not leave.
            Err(_) => buffer.clear(),
        }
    }
}

/// The reading half of a channel.
pub struct Opener {
    cipher: XSalsa20Poly1305,
    tag: [u8; 3],
    received: u64,
}

impl Opener {
    /// The frame inside a SEALED frame. A gap in the counters is accepted (F21).
    ///
    /// # Errors
    /// [`SealError`], after which the session must end.
    pub fn open(&mut self, frame: &Object<'_>) -> Result<String, SealError> {
        let text = |key| frame.get(key).and_then(|value| value.as_str());
        if text("type").as_deref() != Some("SEALED") {
            return Err(SealError::NotSealed);
        }
        let counter = frame.get("n").ok_or(SealError::NotSealed)?;
        let sealed = text("c").ok_or(SealError::NotSealed)?;
        let counter = counter
            .as_u64()
            .filter(|&counter| counter > self.received)
            .ok_or(SealError::OutOfOrder)?;
        let clear = self.decrypt(counter, &sealed).ok_or(SealError::Unopened)?;
        self.received = counter;
        let clear = String::from_utf8(clear).map_err(|_| SealError::NotOneObject)?;
        Object::parse(&clear).map_err(|_| SealError::NotOneObject)?;
        Ok(clear)
    }

    fn decrypt(&self, counter: u64, sealed: &str) -> Option<Vec<u8>> {
        let mut bytes = STANDARD.decode(sealed).ok()?;
        let (tag, body) = bytes.split_at_mut_checked(TAG)?;
        let tag = *Tag::from_slice(tag);
        self.cipher
            .decrypt_in_place_detached(&nonce(self.tag, counter), b"", body, &tag)
            .ok()?;
        bytes.drain(..TAG);
        Some(bytes)
    }
}
