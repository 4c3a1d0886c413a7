//! What a frame must pass before it means anything.
//!
//! 1. The first frame may be SEAL; after that SEAL is an unknown type.
//! 2. Before CONNECT nothing but CONNECT, PONG, ONBOARD_SUBMIT and a signed SESSION_STATUS is heard.
//! 3. After a CONNECT that negotiated `signed_commands`, every command but the few exempt ones must be
//!    signed by the caller for this host, once, and what is executed is the signed payload.
//!
//! The gate is sans-IO: [`Gate::judge`] says what has to be checked, the connection verifies
//! signatures (many at a time) and asks the ledger, and [`Judged`] says what comes of it.

mod refusal;
mod signed;
#[cfg(test)]
mod tests;

pub use refusal::Refusal;
pub(crate) use refusal::quoted;
pub use signed::{Claimed, FRESHNESS, Rules, Signed, Verified};

use crate::identity::Address;
use crate::wire::inbound::Kind;
use crate::wire::json::{Object, Raw};

/// Longest signed payload before CONNECT was accepted, in bytes of text. A real one has about 200.
const STRANGERS_PAYLOAD: usize = 64 << 10;

/// The caller of an authenticated connection and what its CONNECT negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Who signed CONNECT, normalised (fact F1).
    pub address: Address,
    /// The host that CONNECT named.
    pub recipient: Address,
    /// v2: every command is signed.
    pub signed_commands: bool,
}

/// The state of one connection's gate.
#[derive(Debug, Clone)]
pub struct Gate {
    host: Address,
    sealed_by: Option<Address>,
    caller: Option<Caller>,
    first: bool,
}

/// What has to happen to a frame next.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most frames are signed: a box would cost each of them an allocation"
)]
pub enum Judged<'a> {
    /// The first frame offers a seal.
    Seal,
    /// Verify the signature, then call [`Checking::verified`].
    Check(Checking<'a>),
    /// It needs no signature of its own: dispatch the frame as it is.
    Plain(Kind, Object<'a>),
    /// Nothing will come of it.
    Refused(Refusal),
}

/// A signed frame whose signature is to be verified.
#[derive(Debug)]
pub struct Checking<'a> {
    kind: Kind,
    frame: Object<'a>,
    /// The envelope; its [`Signed::check`] goes to the verifier.
    pub signed: Signed<'a>,
    caller: Option<Caller>,
    sealed: bool,
}

/// A frame whose signature verified: claim it if `claim` says so, then dispatch it.
#[derive(Debug)]
pub struct Passed<'a> {
    /// The frame's type.
    pub kind: Kind,
    /// The whole frame, for CONNECT's unsigned fields.
    pub frame: Object<'a>,
    /// The verified envelope.
    pub verified: Verified<'a>,
    /// Whether the one-use ledger has to be asked.
    pub claim: bool,
}

impl Gate {
    /// The gate of a new connection to `host`.
    pub const fn new(host: Address) -> Self {
        Self {
            host,
            sealed_by: None,
            caller: None,
            first: true,
        }
    }

    /// The first frame was a SEAL that `peer` signed.
    pub fn sealed(&mut self, peer: Address) {
        self.sealed_by = Some(peer);
    }

    /// Who sealed this connection, if anybody did.
    pub const fn sealed_by(&self) -> Option<Address> {
        self.sealed_by
    }

    /// CONNECT was accepted.
    pub fn authenticated(&mut self, caller: Caller) {
        self.caller = Some(caller);
    }

    /// The caller, once CONNECT was accepted.
    pub const fn caller(&self) -> Option<Caller> {
        self.caller
    }

    /// Decide what `frame` needs. `now` is unix seconds; `blocked` says whether an address is on the
    /// blocklist, or why that cannot be known.
    pub fn judge<'a>(
        &mut self,
        frame: Object<'a>,
        now: f64,
        blocked: impl FnOnce(&Address) -> Result<bool, String>,
    ) -> Judged<'a> {
        let first = std::mem::replace(&mut self.first, false);
        let Some(kind) = frame.get("type").and_then(Raw::as_str) else {
            return Judged::Refused(Refusal::TypeNotString);
        };
        let kind = Kind::of(&kind);
        match self.needs(&kind, &frame, first) {
            Ok(Need::Seal) => Judged::Seal,
            Ok(Need::Nothing) => match self.still_welcome(&kind, blocked) {
                Ok(()) => Judged::Plain(kind, frame),
                Err(refusal) => Judged::Refused(refusal),
            },
            Ok(Need::Signature) => {
                let rules = Rules {
                    host: self.host,
                    now,
                    max_payload: match self.caller {
                        Some(_) => usize::MAX,
                        None => STRANGERS_PAYLOAD,
                    },
                };
                match Signed::read(&frame, rules, blocked) {
                    Ok(signed) => Judged::Check(Checking {
                        kind,
                        frame,
                        signed,
                        caller: self.caller,
                        sealed: self.sealed_by.is_some(),
                    }),
                    Err(refusal) => Judged::Refused(refusal),
                }
            }
            Err(refusal) => Judged::Refused(refusal),
        }
    }

    fn needs(&self, kind: &Kind, frame: &Object<'_>, first: bool) -> Result<Need, Refusal> {
        match (kind, self.caller) {
            (Kind::Seal, _) if first => Ok(Need::Seal),
            (Kind::Unknown(name), None) => Err(Refusal::UnknownType(quoted(name))),
            (Kind::Connect, _) => self
                .only_sealed_peer(frame, "CONNECT")
                .map(|()| Need::Signature),
            (Kind::OnboardSubmit, None) => self
                .only_sealed_peer(frame, "ONBOARD_SUBMIT")
                .map(|()| Need::Signature),
            (Kind::Pong | Kind::SessionStatus | Kind::OnboardSubmit, Some(_))
            | (Kind::Pong, None) => Ok(Need::Nothing),
            // A status query on a socket of its own is signed like a command (protocol, "v2").
            (Kind::SessionStatus, None) if frame.get("signature").is_some() => self
                .only_sealed_peer(frame, "SESSION_STATUS")
                .map(|()| Need::Signature),
            (Kind::SessionStatus, None) => Ok(Need::Nothing),
            (Kind::Seal, _) => Err(Refusal::UnknownType(quoted("SEAL"))),
            (_, None) => Err(Refusal::NotAuthenticated),
            (_, Some(caller)) if caller.signed_commands => {
                match frame.get("payload").and_then(Raw::as_object) {
                    Some(_) if frame.get("signature").is_some() => Ok(Need::Signature),
                    _ => Err(Refusal::CommandUnsigned),
                }
            }
            (Kind::Unknown(name), Some(_)) => Err(Refusal::UnknownType(quoted(name))),
            // v1 commands are unsigned; a signature that is there all the same must be right,
            // because its signer believes that it decides what runs.
            (_, Some(_)) => {
                let signed = frame.get("signature").is_some_and(|s| !s.is_null())
                    && frame.get("payload").and_then(Raw::as_object).is_some();
                Ok(if signed {
                    Need::Signature
                } else {
                    Need::Nothing
                })
            }
        }
    }

    /// A signed command asks the blocklist with its signer; a plain one asks it here, so that whoever
    /// is blocked while connected is not heard any more.
    fn still_welcome(
        &self,
        kind: &Kind,
        blocked: impl FnOnce(&Address) -> Result<bool, String>,
    ) -> Result<(), Refusal> {
        let exempt = matches!(kind, Kind::Pong | Kind::SessionStatus | Kind::OnboardSubmit);
        match self.caller {
            Some(caller) if !exempt && blocked(&caller.address).map_err(Refusal::Policy)? => {
                Err(Refusal::Blocked)
            }
            _ => Ok(()),
        }
    }

    /// Inside a seal the ledger is not asked, so a frame that somebody else signed might be a copy
    /// (fact F23).
    fn only_sealed_peer(&self, frame: &Object<'_>, what: &'static str) -> Result<(), Refusal> {
        let Some(peer) = self.sealed_by else {
            return Ok(());
        };
        let signer = frame.get("from").and_then(Raw::as_str);
        match signer.map(|from| from.parse::<Address>()) {
            // Absent or malformed is said by the field checks that follow.
            None | Some(Err(_)) => Ok(()),
            Some(Ok(signer)) if signer == peer => Ok(()),
            Some(Ok(_)) => Err(Refusal::NotSealedPeer(what)),
        }
    }
}

enum Need {
    Seal,
    Signature,
    Nothing,
}

impl<'a> Checking<'a> {
    /// Take the outcome of the signature check and apply what else binds the frame to this
    /// connection: signer, type, nonce (fact F14).
    ///
    /// # Errors
    /// The refusal that the caller is told.
    pub fn verified(self, valid: bool) -> Result<Passed<'a>, Refusal> {
        let verified = self.signed.verified(valid)?;
        match self.kind {
            Kind::Connect | Kind::OnboardSubmit => {}
            _ => {
                if let Some(caller) = self.caller
                    && verified.signer() != caller.address
                {
                    return Err(Refusal::ForeignCommand);
                }
                let v1 = self.caller.is_some_and(|caller| !caller.signed_commands);
                let signed_type = verified.payload().get("type");
                let named = signed_type.is_some_and(|name| !name.is_null());
                let signed_type = signed_type.and_then(Raw::as_str);
                let frame_type = self.frame.get("type").and_then(Raw::as_str);
                if !v1 {
                    if signed_type.is_none() || signed_type != frame_type {
                        return Err(Refusal::TypeMismatch);
                    }
                    let nonce = verified.payload().get("nonce").and_then(Raw::as_str);
                    if nonce.is_none_or(|nonce| nonce.is_empty()) {
                        return Err(Refusal::NonceMissing);
                    }
                } else if named && signed_type != frame_type {
                    // A v1 payload need not name its type; one that does is not run as another.
                    return Err(Refusal::TypeMismatch);
                }
            }
        }
        if let Kind::Unknown(name) = &self.kind {
            return Err(Refusal::UnknownType(quoted(name)));
        }
        Ok(Passed {
            kind: self.kind,
            frame: self.frame,
            verified,
            claim: !self.sealed,
        })
    }
}

/// Whether a signed CONNECT negotiates v2 (fact F13).
///
/// # Errors
/// Any value but 1, 0 and a bool, null too: what is not understood must not silently mean v1.
pub fn negotiated(payload: &Object<'_>) -> Result<bool, Refusal> {
    let Some(raw) = payload.get("signed_commands") else {
        return Ok(false);
    };
    match (raw.as_bool(), raw.as_f64()) {
        (Some(on), _) => Ok(on),
        (_, Some(1.0)) => Ok(true),
        (_, Some(0.0)) => Ok(false),
        _ => Err(Refusal::SignedCommandsUnknown),
    }
}
