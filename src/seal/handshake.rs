//! The two frames that agree on a channel.

use rand_core::OsRng;
use x25519_dalek::{PublicKey, StaticSecret};

use super::Channel;
use crate::identity::{Address, Identity, Signature, verify_bytes};
use crate::wire::json::{Object, Raw, Value, to_python};

/// How far a SEAL's timestamp may be from now, in seconds: as far as any signature's (F7).
const FRESH: f64 = 300.0;

const SEAL_FIELDS: [&str; 5] = ["type", "to", "from", "ephemeral", "timestamp"];
const SEALED_OK_FIELDS: [&str; 5] = ["type", "to", "from", "ephemeral", "client_ephemeral"];

/// Why a handshake failed; displays as what follows `seal refused: `. The socket is not used any
/// further (F22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealRefused {
    /// The answer is no JSON object.
    #[error("the answer is not one JSON object")]
    NotOneObject,
    /// Not the handshake's frame.
    #[error("type is not {0}")]
    Type(&'static str),
    /// A field that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// For another host, or for another client.
    #[error("to is another address")]
    To,
    /// No address, or, to a client, not the host it called.
    #[error("from is not the address of the peer")]
    From,
    /// No number.
    #[error("timestamp is not a number")]
    Timestamp,
    /// Made more than 300 seconds before or after now.
    #[error("timestamp is too old or too new")]
    Stale,
    /// Not the text of a key, or one that makes the secret known to all.
    #[error("ephemeral is not a usable key of 64 hex digits")]
    Ephemeral,
    /// An answer to another SEAL.
    #[error("client_ephemeral is another key")]
    ClientEphemeral,
    /// Not the text of a signature.
    #[error("signature is not 128 hex digits")]
    Signature,
    /// Signed by somebody else, or changed since.
    #[error("signature does not verify")]
    Forged,
}

/// A SEAL that was accepted.
pub struct Accepted {
    /// The text of the SEALED_OK frame to answer with, in the clear.
    pub reply: String,
    /// Who sealed; only they may CONNECT inside (F23).
    pub peer: Address,
    /// The channel, from the host's end.
    pub channel: Channel,
}

/// Answers a client's SEAL. `now` is in Unix seconds. Fields the relay adds are ignored (F20).
///
/// # Errors
/// [`SealRefused`], to be sent as `ERROR "seal refused: …"` before closing with 4003.
pub fn accept(frame: &Object<'_>, identity: &Identity, now: f64) -> Result<Accepted, SealRefused> {
    accept_key(frame, identity, now, &StaticSecret::random_from_rng(OsRng))
}

/// [`accept`] with a chosen one-time key, so that a recorded handshake can be repeated. Only for
/// tests: a key that is used twice protects nothing.
#[doc(hidden)]
pub fn accept_with(
    frame: &Object<'_>,
    identity: &Identity,
    now: f64,
    ephemeral: [u8; 32],
) -> Result<Accepted, SealRefused> {
    accept_key(frame, identity, now, &ephemeral.into())
}

fn accept_key(
    frame: &Object<'_>,
    identity: &Identity,
    now: f64,
    secret: &StaticSecret,
) -> Result<Accepted, SealRefused> {
    let fields = Fields::of(frame, "SEAL", SEAL_FIELDS)?;
    let to = fields.text("to").ok_or(SealRefused::To)?;
    if to.parse() != Ok(identity.address()) {
        return Err(SealRefused::To);
    }
    let timestamp = fields.get("timestamp").and_then(Raw::as_f64);
    let age = now - timestamp.ok_or(SealRefused::Timestamp)?;
    // NaN is in no range, so it does not pass.
    if !(-FRESH..=FRESH).contains(&age) {
        return Err(SealRefused::Stale);
    }
    let from = fields.text("from").ok_or(SealRefused::From)?;
    let peer: Address = from.parse().map_err(|_| SealRefused::From)?;
    let offered = fields.text("ephemeral").ok_or(SealRefused::Ephemeral)?;
    let key = fields.key("ephemeral")?;
    fields.check_signature(&peer)?;
    let shared = secret.diffie_hellman(&key);
    if !shared.was_contributory() {
        return Err(SealRefused::Ephemeral);
    }
    // Both addresses and the key go back as the client spelled them: it compares text. They were
    // found to be hex above, so they need no escapes, and in this order they are canonical.
    let ephemeral = hex::encode(PublicKey::from(secret));
    let body = format!(
        r#"{{"client_ephemeral":"{offered}","ephemeral":"{ephemeral}","from":"{to}","to":"{from}","type":"SEALED_OK"}}"#
    );
    Ok(Accepted {
        reply: signed(body, identity),
        peer,
        channel: Channel::of_host(&shared),
    })
}

/// What a client keeps between its SEAL and the answer.
pub struct Hello {
    secret: StaticSecret,
    from: Address,
    to: Address,
}

/// Opens a handshake with the host at `to`: the text of the SEAL frame, and what [`Hello::finish`]
/// needs. `now` is in Unix seconds.
pub fn hello(identity: &Identity, to: &Address, now: u64) -> (String, Hello) {
    hello_key(identity, to, now, StaticSecret::random_from_rng(OsRng))
}

/// [`hello`] with a chosen one-time key. Only for tests, as [`accept_with`] is.
#[doc(hidden)]
pub fn hello_with(
    identity: &Identity,
    to: &Address,
    now: u64,
    ephemeral: [u8; 32],
) -> (String, Hello) {
    hello_key(identity, to, now, ephemeral.into())
}

fn hello_key(identity: &Identity, to: &Address, now: u64, secret: StaticSecret) -> (String, Hello) {
    let from = identity.address();
    let ephemeral = hex::encode(PublicKey::from(&secret));
    // In this order it is canonical.
    let body = format!(
        r#"{{"ephemeral":"{ephemeral}","from":"{from}","timestamp":{now},"to":"{to}","type":"SEAL"}}"#
    );
    let to = *to;
    (signed(body, identity), Hello { secret, from, to })
}

impl Hello {
    /// Checks the host's answer, the text of a SEALED_OK frame.
    ///
    /// # Errors
    /// [`SealRefused`]; the socket must not be used any further.
    pub fn finish(self, reply: &str) -> Result<Channel, SealRefused> {
        let frame = Object::parse(reply).map_err(|_| SealRefused::NotOneObject)?;
        let fields = Fields::of(&frame, "SEALED_OK", SEALED_OK_FIELDS)?;
        if fields.address("from") != Some(self.to) {
            return Err(SealRefused::From);
        }
        if fields.address("to") != Some(self.from) {
            return Err(SealRefused::To);
        }
        if fields.key("client_ephemeral") != Ok(PublicKey::from(&self.secret)) {
            return Err(SealRefused::ClientEphemeral);
        }
        let key = fields.key("ephemeral")?;
        fields.check_signature(&self.to)?;
        let shared = self.secret.diffie_hellman(&key);
        if !shared.was_contributory() {
            return Err(SealRefused::Ephemeral);
        }
        Ok(Channel::of_client(&shared))
    }
}

/// The object `body` with its signature as one more member.
fn signed(mut body: String, identity: &Identity) -> String {
    let signature = hex::encode(identity.sign(body.as_bytes()));
    body.pop();
    body.push_str(",\"signature\":\"");
    body.push_str(&signature);
    body.push_str("\"}");
    body
}

/// A handshake frame whose type is right and whose fields are all there.
struct Fields<'f, 'a> {
    frame: &'f Object<'a>,
    signed: [&'static str; 5],
}

impl<'f, 'a> Fields<'f, 'a> {
    fn of(
        frame: &'f Object<'a>,
        kind: &'static str,
        signed: [&'static str; 5],
    ) -> Result<Self, SealRefused> {
        let fields = Self { frame, signed };
        if fields.text("type").as_deref() != Some(kind) {
            return Err(SealRefused::Type(kind));
        }
        match signed
            .into_iter()
            .chain(["signature"])
            .find(|field| frame.get(field).is_none())
        {
            Some(missing) => Err(SealRefused::Missing(missing)),
            None => Ok(fields),
        }
    }

    fn get(&self, field: &str) -> Option<Raw<'a>> {
        self.frame.get(field)
    }

    fn text(&self, field: &str) -> Option<std::borrow::Cow<'a, str>> {
        self.get(field)?.as_str()
    }

    fn address(&self, field: &str) -> Option<Address> {
        self.text(field)?.parse().ok()
    }

    /// A public key: 64 hex digits and nothing before them.
    fn key(&self, field: &str) -> Result<PublicKey, SealRefused> {
        let text = self.text(field).ok_or(SealRefused::Ephemeral)?;
        let mut key = [0; 32];
        hex::decode_to_slice(text.as_bytes(), &mut key).map_err(|_| SealRefused::Ephemeral)?;
        Ok(key.into())
    }

    /// Checks the signature over the five signed fields as they were received.
    fn check_signature(&self, signer: &Address) -> Result<(), SealRefused> {
        let text = self.text("signature").ok_or(SealRefused::Signature)?;
        let mut signature = [0; 64];
        // Commands may write 0x in front; handshakes may not (F22).
        hex::decode_to_slice(text.as_bytes(), &mut signature)
            .map_err(|_| SealRefused::Signature)?;
        let members = self
            .signed
            .iter()
            .filter_map(|&field| Some((field.into(), self.get(field)?.value())));
        let message = to_python(&Value::Object(members.collect()));
        if verify_bytes(signer, &message, &Signature::from_bytes(signature)) {
            Ok(())
        } else {
            Err(SealRefused::Forged)
        }
    }
}
