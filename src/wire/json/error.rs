//! Why a text is not the JSON that was asked for.

use std::fmt;

use super::MAX_DEPTH;

/// Text that is not JSON, or not one object. Displays as one line that tells the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError(Problem);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Expected { what: &'static str, at: usize },
    TooDeep { at: usize },
    NotOneObject,
}

impl JsonError {
    pub(super) fn expected(what: &'static str, at: usize) -> Self {
        Self(Problem::Expected { what, at })
    }

    pub(super) fn too_deep(at: usize) -> Self {
        Self(Problem::TooDeep { at })
    }

    pub(super) fn not_one_object() -> Self {
        Self(Problem::NotOneObject)
    }

    /// Whether the text is sound JSON (or empty) that just is no object: `[]`, `"x"`, `5`.
    pub fn is_other_kind(&self) -> bool {
        self.0 == Problem::NotOneObject
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Problem::Expected { what, at } => write!(f, "expected {what} at byte {at}"),
            Problem::TooDeep { at } => write!(f, "deeper than {MAX_DEPTH} at byte {at}"),
            Problem::NotOneObject => f.write_str("expected one JSON object"),
        }
    }
}

impl std::error::Error for JsonError {}
