//! A conversation: messages, trace and the chat items made of them, kept as JSON text.
//!
//! The text of each entry is made once and appended; the session object that goes out with OUTPUT is
//! put together by copying, not by serialising the whole conversation again.

use crate::wire::json::{Object, Raw};
use crate::wire::outbound::json;

use super::items;

/// A JSON array under construction, whose entries can be told apart.
#[derive(Debug, Clone, Default)]
pub struct JsonList {
    text: String,
    ends: Vec<usize>,
}

impl JsonList {
    /// Append one JSON value.
    pub fn push(&mut self, value: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(value);
        self.ends.push(self.text.len());
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The entries from index `from` on.
    pub fn since(&self, from: usize) -> impl Iterator<Item = &str> {
        (from..self.ends.len()).map(|i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] + 1 };
            &self.text[start..self.ends[i]]
        })
    }

    /// The entries, separated by commas, without brackets.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<S: AsRef<str>> FromIterator<S> for JsonList {
    fn from_iter<I: IntoIterator<Item = S>>(values: I) -> Self {
        let mut list = Self::default();
        for value in values {
            list.push(value.as_ref());
        }
        list
    }
}

/// What orders two copies of a session: the first difference decides (fact F38).
pub type Version = (f64, f64, f64);

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counters {
    /// Turns that were started.
    pub turn: u64,
    /// Model calls of the last turn.
    pub iteration: u64,
    /// Unix seconds of the last change.
    pub updated: f64,
}

/// One session's conversation.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Chat messages: `{role, content, …}`.
    pub messages: JsonList,
    /// What happened: `user_input`, `llm_call`, `tool_result`, …
    pub trace: JsonList,
    items: JsonList,
    /// Messages and trace entries that `items` covers.
    covered: (usize, usize),
    /// Turns that were started.
    pub turn: u64,
    /// Model calls of the last turn.
    pub iteration: u64,
    /// Unix seconds of the last change.
    pub updated: f64,
}

impl History {
    /// A conversation read back from the store.
    pub fn stored(
        messages: JsonList,
        trace: JsonList,
        turn: u64,
        iteration: u64,
        updated: f64,
    ) -> Self {
        let mut history = Self {
            messages,
            trace,
            turn,
            iteration,
            updated,
            ..Self::default()
        };
        history.settle();
        history
    }

    /// A client's copy. Only the conversation is taken: mode, permissions and every other key that
    /// says what somebody may do are the server's (fact F38).
    pub fn of_client(session: &Object<'_>) -> Self {
        let list = |key: &str| -> JsonList {
            session
                .get(key)
                .and_then(Raw::as_array)
                .unwrap_or_default()
                .into_iter()
                .filter(|raw| raw.as_object().is_some())
                // Through serde: what Python and JavaScript call JSON is a little more than JSON.
                .map(|raw| json(&raw.to_serde()))
                .collect()
        };
        let (turn, iteration, updated) = counters(session);
        Self::stored(list("messages"), list("trace"), turn, iteration, updated)
    }

    /// The version of a client's copy without taking it over.
    pub fn client_version(session: &Object<'_>) -> Version {
        let (turn, iteration, updated) = counters(session);
        (turn as f64, iteration as f64, updated)
    }

    /// How far it has come.
    pub const fn counters(&self) -> Counters {
        Counters {
            turn: self.turn,
            iteration: self.iteration,
            updated: self.updated,
        }
    }

    /// This copy's version.
    pub fn version(&self) -> Version {
        (self.turn as f64, self.iteration as f64, self.updated)
    }

    /// Make the chat items of what came since the last time. To be called when a turn is over.
    pub fn settle(&mut self) {
        let (message, entry) = self.covered;
        let messages: Vec<&str> = self.messages.since(message).collect();
        let trace: Vec<&str> = self.trace.since(entry).collect();
        for item in items::chat_items(&messages, &trace, message, entry) {
            self.items.push(&json(&item));
        }
        self.covered = (self.messages.len(), self.trace.len());
    }

    /// The chat items' JSON text.
    pub fn chat_items(&self) -> String {
        format!("[{}]", self.items.text())
    }

    /// The session object's JSON text, as it goes out and comes back with the next CONNECT.
    pub fn session(&self, session_id: &str, mode: &str, turns_left: Option<u64>) -> String {
        let mut out = String::with_capacity(
            self.messages.text().len() + self.trace.text().len() + session_id.len() + 200,
        );
        out.push_str(r#"{"session_id":"#);
        out.push_str(&json(&session_id));
        out.push_str(r#","messages":["#);
        out.push_str(self.messages.text());
        out.push_str(r#"],"trace":["#);
        out.push_str(self.trace.text());
        let (turn, iteration, updated) = (self.turn, self.iteration, json(&self.updated));
        let (mode, turns_left) = (json(&mode), json(&turns_left));
        out.push_str(&format!(
            r#"],"turn":{turn},"iteration":{iteration},"updated":{updated},"mode":{mode},"turns_left":{turns_left}}}"#
        ));
        out
    }
}

/// The counters of a client's copy; 0 for what is no count. Beyond what a JavaScript client can count
/// to there is no next turn, and the store has no room either.
fn counters(session: &Object<'_>) -> (u64, u64, f64) {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    let number = |key: &str| session.get(key).and_then(Raw::as_f64);
    let count = |key: &str| {
        number(key)
            .filter(|count| (0.0..SAFE).contains(count) && count.fract() == 0.0)
            .map_or(0, |count| count as u64)
    };
    let updated = number("updated").filter(|updated| updated.is_finite());
    (count("turn"), count("iteration"), updated.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn entries_can_be_told_apart() {
        let list: JsonList = ["{}", r#"{"a":1}"#, "[2,3]"].into_iter().collect();
        assert_eq!(list.len(), 3);
        assert_eq!(list.since(1).collect::<Vec<_>>(), [r#"{"a":1}"#, "[2,3]"]);
        assert_eq!(list.since(3).count(), 0);
    }

    #[test]
    fn a_clients_copy_brings_no_authority() {
        let text = json!({
            "session_id": "other", "messages": [{"role": "user", "content": "hi"}, 5],
            "trace": [], "turn": 3, "iteration": 2, "updated": 7.5,
            "mode": "full-access", "turns_left": 9, "permissions": {"bash": true},
            "approval": {}, "requester": {"level": "admin"},
        })
        .to_string();
        let object = Object::parse(&text).unwrap();
        let history = History::of_client(&object);
        assert_eq!(history.version(), History::client_version(&object));
        let session: Value = serde_json::from_str(&history.session("mine", "auto", None)).unwrap();
        assert_eq!(
            session,
            json!({
                "session_id": "mine", "messages": [{"role": "user", "content": "hi"}], "trace": [],
                "turn": 3, "iteration": 2, "updated": 7.5, "mode": "auto", "turns_left": null,
            })
        );
    }

    #[test]
    fn items_are_extended_and_equal_to_made_at_once() {
        let user = |text: &str| json!({"role": "user", "content": text}).to_string();
        let agent = |id: &str| json!({"role": "assistant", "content": "ok", "id": id}).to_string();
        let marker = json!({"type": "user_input", "content": "x"}).to_string();
        let mut history = History::default();
        for turn in 0..3 {
            history.messages.push(&user(&format!("p{turn}")));
            history.trace.push(&marker);
            history.messages.push(&agent(&format!("a{turn}")));
            history.settle();
        }
        let again = History::stored(history.messages.clone(), history.trace.clone(), 3, 1, 0.0);
        assert_eq!(history.chat_items(), again.chat_items());
        let items: Value = serde_json::from_str(&history.chat_items()).unwrap();
        assert_eq!(items.as_array().unwrap().len(), 6);
        assert_eq!(
            items[2],
            json!({"id": "msg-2", "type": "user", "content": "p1"})
        );
    }
}
