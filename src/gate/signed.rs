//! A signed envelope on its way from text to something that may be executed.
//!
//! Each check is a type, and each type is made only by the check before it:
//! [`Signed`] (fields, freshness, recipient) → [`Verified`] (signature) → [`Claimed`] (used for the
//! first time). What is behind the gate takes a `Claimed`, so nothing can skip a step or take the
//! steps in another order (fact F8).

use crate::identity::{Address, Signature};
use crate::store::Claim;
use crate::wire::json::{Object, Raw, Value};

use super::Refusal;

/// How far a signed timestamp may be from the host's clock, in seconds, and how long after it a
/// claimed signature is remembered (facts F7, F9).
pub const FRESHNESS: f64 = 300.0;

/// What a signed envelope is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// This host: the only accepted recipient.
    pub host: Address,
    /// Unix seconds.
    pub now: f64,
    /// Longest payload in bytes of text: reading one takes many times its length in memory.
    pub max_payload: usize,
}

/// An envelope whose fields are present and fresh and name this host. Nothing is proven yet.
#[derive(Debug, Clone)]
pub struct Signed<'a> {
    signer: Address,
    recipient: Address,
    timestamp: f64,
    signature: Option<Signature>,
    payload: Object<'a>,
    value: Value<'a>,
}

impl<'a> Signed<'a> {
    /// Read the envelope of a frame: `from`, `signature` and an object `payload`.
    ///
    /// # Errors
    /// The first check that fails in the order blocklist, fields, freshness, recipient.
    pub fn read(
        frame: &Object<'a>,
        rules: Rules,
        blocked: impl FnOnce(&Address) -> Result<bool, String>,
    ) -> Result<Self, Refusal> {
        let (Some(payload), Some(signature)) = (frame.get("payload"), frame.get("signature"))
        else {
            return Err(Refusal::Unsigned);
        };
        let signer = address(frame.get("from"))?;
        if blocked(&signer).map_err(Refusal::Policy)? {
            return Err(Refusal::Blocked);
        }
        if payload.text().len() > rules.max_payload {
            return Err(Refusal::PayloadTooLong(rules.max_payload));
        }
        let members = payload.as_object().ok_or(Refusal::PayloadNotObject)?;
        if signature.is_null() || signature.as_str().is_some_and(|s| s.is_empty()) {
            return Err(Refusal::SignatureMissing);
        }
        let timestamp = timestamp(members.get("timestamp"))?;
        if (rules.now - timestamp).abs() > FRESHNESS {
            return Err(Refusal::Expired);
        }
        let recipient = members
            .get("to")
            .and_then(Raw::as_str)
            .and_then(|to| to.parse().ok())
            .filter(|to: &Address| *to == rules.host)
            .ok_or(Refusal::WrongRecipient)?;
        Ok(Self {
            signer,
            recipient,
            timestamp,
            // Text that is no signature fails where a wrong one fails: after the recipient.
            signature: signature.as_str().and_then(|s| s.parse().ok()),
            value: payload.value(),
            payload: members,
        })
    }

    /// Who claims to have signed.
    pub const fn signer(&self) -> Address {
        self.signer
    }

    /// What the signature is to be checked over; `None` if there is no well-formed signature.
    pub fn check(&self) -> Option<crate::identity::Check<'_>> {
        self.signature.map(|signature| crate::identity::Check {
            signer: self.signer,
            payload: &self.value,
            signature,
        })
    }

    /// Take the outcome of verifying [`check`](Self::check).
    ///
    /// # Errors
    /// [`Refusal::InvalidSignature`] if it did not verify.
    pub fn verified(self, valid: bool) -> Result<Verified<'a>, Refusal> {
        match self.signature {
            Some(signature) if valid => Ok(Verified {
                signer: self.signer,
                recipient: self.recipient,
                timestamp: self.timestamp,
                signature,
                payload: self.payload,
            }),
            _ => Err(Refusal::InvalidSignature),
        }
    }
}

/// An envelope whose signature verified. It may be a copy of one that was executed before.
#[derive(Debug, Clone)]
pub struct Verified<'a> {
    signer: Address,
    recipient: Address,
    timestamp: f64,
    signature: Signature,
    payload: Object<'a>,
}

impl<'a> Verified<'a> {
    /// Who signed.
    pub const fn signer(&self) -> Address {
        self.signer
    }

    /// The signed payload.
    pub const fn payload(&self) -> &Object<'a> {
        &self.payload
    }

    /// What the one-use ledger is asked. It is kept until the timestamp itself expires, so that a
    /// clock ahead of ours does not reopen the signature (fact F9).
    pub fn claim(&self) -> Claim {
        Claim {
            digest: self.signature.digest(),
            expires_at: self.timestamp + FRESHNESS,
        }
    }

    /// The ledger said that nobody claimed it before, or the frame came out of a seal, where only
    /// the sealed peer can put a frame and the ledger is not asked (fact F23).
    pub(crate) fn claimed(self) -> Claimed<'a> {
        Claimed {
            signer: self.signer,
            recipient: self.recipient,
            payload: self.payload,
        }
    }
}

/// A verified envelope that is executed for the first time.
#[derive(Debug, Clone)]
pub struct Claimed<'a> {
    /// Who signed.
    pub signer: Address,
    /// The host it names.
    pub recipient: Address,
    /// The signed payload: the only part of the frame that may be executed.
    pub payload: Object<'a>,
}

fn address(from: Option<Raw<'_>>) -> Result<Address, Refusal> {
    match from {
        None => Err(Refusal::FromMissing),
        Some(raw) => match raw.as_str() {
            Some(text) if text.is_empty() => Err(Refusal::FromMissing),
            Some(text) => text.parse().map_err(|_| Refusal::FromMalformed),
            None if raw.is_null() => Err(Refusal::FromMissing),
            None => Err(Refusal::FromMalformed),
        },
    }
}

fn timestamp(raw: Option<Raw<'_>>) -> Result<f64, Refusal> {
    let raw = raw
        .filter(|raw| !raw.is_null())
        .ok_or(Refusal::TimestampMissing)?;
    let seconds = raw.as_f64().ok_or(Refusal::TimestampNotNumeric)?;
    if !seconds.is_finite() {
        return Err(Refusal::TimestampNotFinite);
    }
    if seconds == 0.0 {
        return Err(Refusal::TimestampMissing);
    }
    Ok(seconds)
}
