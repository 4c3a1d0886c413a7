//! Why a frame was refused, in the words clients match on.

use crate::wire::outbound;

/// A frame that did not pass the gate. `Display` is the `message` of the ERROR that is sent: the
/// peers compare some of these texts, so they are fixed (facts F7, F8, F13, F14, F23, F61).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// CONNECT without `payload` or `signature`.
    #[error("unauthorized: signed request required")]
    Unsigned,
    /// `payload` is there and is no object.
    #[error("unauthorized: payload must be an object")]
    PayloadNotObject,
    /// `payload` is longer than a caller who is not authenticated may send.
    #[error("unauthorized: payload must not be longer than {0} bytes")]
    PayloadTooLong(usize),
    /// A v2 connection sent a command that carries no signed payload.
    #[error("unauthorized: signed command required")]
    CommandUnsigned,
    /// `from` is absent.
    #[error("unauthorized: 'from' field required")]
    FromMissing,
    /// `from` is not an address in any spelling.
    #[error("unauthorized: 'from' must be an address (0x and 64 hex digits)")]
    FromMalformed,
    /// The caller is on the blocklist.
    #[error("forbidden: blocked")]
    Blocked,
    /// `signature` is empty.
    #[error("unauthorized: signature required")]
    SignatureMissing,
    /// `payload.timestamp` is absent, null or zero.
    #[error("unauthorized: timestamp required in payload")]
    TimestampMissing,
    /// `payload.timestamp` is a string, a bool or a container.
    #[error("unauthorized: timestamp must be numeric")]
    TimestampNotNumeric,
    /// `payload.timestamp` is NaN or infinite.
    #[error("unauthorized: timestamp must be finite")]
    TimestampNotFinite,
    /// `payload.timestamp` is more than 300 s away.
    #[error("unauthorized: signature expired")]
    Expired,
    /// `payload.to` is not this host.
    #[error("unauthorized: wrong recipient")]
    WrongRecipient,
    /// The signature fits none of the accepted byte forms.
    #[error("unauthorized: invalid signature")]
    InvalidSignature,
    /// `payload.signed_commands` is neither 1 nor an absence.
    #[error("unauthorized: signed_commands must be 1, 0 or absent")]
    SignedCommandsUnknown,
    /// A CONNECT whose signature was claimed before.
    #[error("unauthorized: this CONNECT was already used")]
    ConnectReused,
    /// A command whose signature was claimed before.
    #[error("unauthorized: signed command already used")]
    CommandReused,
    /// The ledger cannot answer, so nothing runs.
    #[error("misconfigured: replay protection unavailable")]
    LedgerUnavailable,
    /// A verified command by somebody else than the caller of this connection.
    #[error("unauthorized: command signer does not own this connection")]
    ForeignCommand,
    /// The signed `type` is not the frame's.
    #[error("unauthorized: signed command type mismatch")]
    TypeMismatch,
    /// The signed payload has no non-empty string `nonce`.
    #[error("unauthorized: signed command nonce required")]
    NonceMissing,
    /// Inside a seal, a frame that another identity signed.
    #[error("unauthorized: {0} is not signed by the sealed peer")]
    NotSealedPeer(&'static str),
    /// A command before CONNECT.
    #[error("authenticate first (send CONNECT)")]
    NotAuthenticated,
    /// A second CONNECT that is not the first one over again.
    #[error("already authenticated: open a new connection")]
    AlreadyAuthenticated,
    /// A `type` this host does not know, or does not know here.
    #[error("unknown message type: {0}")]
    UnknownType(String),
    /// `type` is absent or no string.
    #[error("type must be a string")]
    TypeNotString,
    /// A field that has the wrong shape; the text names it.
    #[error("{0}")]
    Malformed(String),
    /// The trust policy or a list file says no; the text says why.
    #[error("{0}")]
    Policy(String),
}

impl Refusal {
    /// The ERROR frame that tells the peer.
    pub fn frame(&self) -> String {
        outbound::error(&self.to_string())
    }

    /// Whether this refusal cost signature verifications: a socket may send only so many.
    pub fn costs_verification(&self) -> bool {
        matches!(self, Self::InvalidSignature)
    }
}

/// `type` as an error message quotes it: single quotes, control characters escaped, cut at 64.
pub(crate) fn quoted(kind: &str) -> String {
    let mut out = String::from("'");
    for c in kind.chars().take(64) {
        if c == '\'' || c == '\\' || c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('\'');
    out
}
