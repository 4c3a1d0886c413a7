//! Why a host cannot be talked to.

use crate::seal::{SealError, SealRefused};

/// What went wrong, in one line that says where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// What was given is no place to connect to.
    #[error("{0}")]
    Target(String),
    /// Nobody answers there.
    #[error("cannot reach {at}: {reason}")]
    Unreachable {
        /// Host and port.
        at: String,
        /// What the system or the other side said.
        reason: String,
    },
    /// Something answers, and it is no OIP host.
    #[error("{at} is not an OIP host: {reason}")]
    NotAHost {
        /// Host and port.
        at: String,
        /// What is missing.
        reason: String,
    },
    /// The host's seal does not check out: somebody else may be answering.
    #[error("the host's seal does not check out: {0}")]
    Seal(#[from] SealRefused),
    /// A sealed frame does not open.
    #[error("a sealed frame does not open: {0}")]
    Sealed(#[from] SealError),
    /// The host does not seal and the link is not private.
    #[error(
        "the host does not seal, and {0} is not on this machine: nothing signed is sent in the clear"
    )]
    Bare(String),
    /// The host refused, in its own words.
    #[error("{0}")]
    Refused(String),
    /// The connection ended.
    #[error("the connection ended{}", reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    Closed {
        /// The close frame's reason, if there was one.
        reason: Option<String>,
    },
    /// The host no longer has the turn that was running.
    #[error("the turn is lost: {0}")]
    TurnLost(String),
    /// The host did not answer in time.
    #[error("no {what} within {seconds} s")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        seconds: u64,
    },
}
