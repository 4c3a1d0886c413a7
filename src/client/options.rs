//! What a caller chooses, and what a tool answers.

use serde_json::Value;

use crate::identity::Address;

/// Whether a seal is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seal {
    /// Offer one; go on without on this machine only.
    #[default]
    Offer,
    /// Talk in the clear.
    Never,
}

/// How to connect.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether a seal is offered.
    pub seal: Seal,
    /// The session to go on with.
    pub session_id: Option<String>,
    /// The host that must answer; asked from it if absent.
    pub host: Option<Address>,
}

/// The answer to EXEC.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecOutcome {
    /// What the tool returned, or why it did not.
    pub result: Result<String, String>,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// The whole frame.
    pub frame: Value,
}
