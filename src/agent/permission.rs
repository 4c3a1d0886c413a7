//! Which tools EXEC may run.

use std::collections::BTreeSet;

/// The names of the tools that callers may run directly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whitelist(BTreeSet<String>);

impl Whitelist {
    /// Whether `tool` may be run; if not, why, as it follows `blocked: `.
    ///
    /// # Errors
    /// The reason, with what the operator can do.
    pub fn check(&self, tool: &str) -> Result<(), String> {
        if self.0.contains(tool) {
            return Ok(());
        }
        Err(format!(
            "{tool} is not on the permission whitelist; allow it under permissions in .co/host.yaml"
        ))
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<S: Into<String>> FromIterator<S> for Whitelist {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}
