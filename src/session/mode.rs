//! Permission modes, as CONNECTED and mode_changed spell them (facts F33, F46).

use serde_json::json;

/// What a session's agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing that changes anything.
    ReadOnly,
    /// The ordinary rules.
    #[default]
    Auto,
}

impl Mode {
    /// Every mode this host offers, in the order they are shown.
    pub const OFFERED: [Self; 2] = [Self::ReadOnly, Self::Auto];

    /// The wire spelling.
    pub const fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Auto => "auto",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "Read only",
            Self::Auto => "Auto",
        }
    }

    /// The mode with this wire spelling, if it is offered.
    pub fn of(id: &str) -> Option<Self> {
        Self::OFFERED.into_iter().find(|mode| mode.id() == id)
    }

    /// `session_modes` of CONNECTED: one flaw and React shows no modes at all.
    pub fn state(self) -> String {
        let available: Vec<_> = Self::OFFERED
            .iter()
            .map(|mode| json!({"id": mode.id(), "name": mode.name()}))
            .collect();
        json!({"currentModeId": self.id(), "turnsLeft": null, "availableModes": available})
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_what_react_accepts() {
        assert_eq!(
            Mode::Auto.state(),
            r#"{"currentModeId":"auto","turnsLeft":null,"availableModes":[{"id":"read-only","name":"Read only"},{"id":"auto","name":"Auto"}]}"#
        );
        assert_eq!(Mode::of("full-access"), None);
        assert_eq!(Mode::of("read-only"), Some(Mode::ReadOnly));
    }
}
