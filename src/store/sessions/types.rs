//! What goes into the session store and comes out of it.

use std::fmt::Display;

use crate::identity::Address;

/// A session, without its rows. Times are Unix seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// The session id, as the client chose it or was given it.
    pub id: String,
    /// Whose it is.
    pub owner: Address,
    /// When it was first stored.
    pub created_at: f64,
    /// When it last changed.
    pub updated_at: f64,
    /// The number of the last turn; 0 before the first.
    pub turn: u64,
    /// Model calls of that turn.
    pub iteration: u64,
    /// The mode's name, as the wire spells it.
    pub mode: String,
    /// Turns that the mode still allows; none when it does not count them.
    pub turns_left: Option<u64>,
    /// When the session is forgotten.
    pub expires_at: f64,
}

/// A session with all its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The session itself.
    pub row: SessionRow,
    /// Its title: the first prompt's preview.
    pub title: Option<String>,
    /// The conversation, one JSON object each.
    pub messages: Vec<String>,
    /// The trace, one JSON object each.
    pub trace: Vec<String>,
    /// How the last turn that ended has ended.
    pub last_outcome: Option<Outcome>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The agent came to its end.
    Completed,
    /// It failed.
    Failed,
    /// It was interrupted, by a person or by the end of its host.
    Interrupted,
}

impl Outcome {
    /// The word for it on the wire and in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// The outcome that `word` names.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        [Self::Completed, Self::Failed, Self::Interrupted]
            .into_iter()
            .find(|outcome| outcome.as_str() == word)
    }
}

/// The start of a turn: the number `row.turn`.
///
/// Rows given here and in [`Append`] and [`EndTurn`] take the numbers from `…_from` on, counted
/// from 0, and replace all that the session has from there; an empty list changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct BeginTurn {
    /// The session as it is now; stored whole.
    pub row: SessionRow,
    /// When the turn began.
    pub started_at: f64,
    /// The number of the first message.
    pub messages_from: u64,
    /// Messages, one JSON object each.
    pub messages: Vec<String>,
    /// The number of the first trace entry.
    pub trace_from: u64,
    /// Trace entries, one JSON object each.
    pub trace: Vec<String>,
    /// The start of the prompt; the first one titles the session.
    pub preview: String,
    /// Whether all stored rows go first: the client's history is newer.
    pub replace: bool,
}

/// What a running turn has added.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// The session as it is now; stored whole.
    pub row: SessionRow,
    /// The number of the first message.
    pub messages_from: u64,
    /// Messages, one JSON object each.
    pub messages: Vec<String>,
    /// The number of the first trace entry.
    pub trace_from: u64,
    /// Trace entries, one JSON object each.
    pub trace: Vec<String>,
}

/// The end of the turn `row.turn`, at `row.updated_at`.
#[derive(Debug, Clone, PartialEq)]
pub struct EndTurn {
    /// The session as it is now; stored whole.
    pub row: SessionRow,
    /// The number of the first message.
    pub messages_from: u64,
    /// Messages, one JSON object each.
    pub messages: Vec<String>,
    /// The number of the first trace entry.
    pub trace_from: u64,
    /// Trace entries, one JSON object each.
    pub trace: Vec<String>,
    /// How it ended.
    pub outcome: Outcome,
}

/// A change to the store.
pub(super) enum Write {
    Begin(BeginTurn),
    Append(Append),
    End(EndTurn),
}

impl Write {
    /// How many rows it brings.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Begin(begin) => begin.messages.len() + begin.trace.len(),
            Self::Append(append) => append.messages.len() + append.trace.len(),
            Self::End(end) => end.messages.len() + end.trace.len(),
        }
    }
}

/// Why the session store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file could not be opened, read or written. Nothing was changed.
    #[error("{path}: {reason}")]
    Failed {
        /// The file.
        path: String,
        /// What SQLite or the system said.
        reason: String,
    },
    /// The store has been closed.
    #[error("{path}: closed")]
    Closed {
        /// The file.
        path: String,
    },
}

impl StoreError {
    pub(super) fn failed(path: &str, reason: &dyn Display) -> Self {
        Self::Failed {
            path: path.into(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn closed(path: &str) -> Self {
        Self::Closed { path: path.into() }
    }
}

/// How the store fares (F72).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    /// Whether the last write succeeded.
    pub writable: bool,
    /// Why it did not.
    pub reason: Option<String>,
}
