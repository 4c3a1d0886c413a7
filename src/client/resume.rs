//! Coming back: where a client is in a turn, and how it goes on there on another connection.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::identity::{Address, Identity};

use super::session::Client;
use super::{ClientError, Event, Seal, Socket, Target};

/// Pauses before a lost connection is opened again in the middle of a turn.
const AGAIN: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// A turn that is followed.
#[derive(Debug)]
pub(super) struct Turn {
    /// Its number in the session: as its `user_input` says, until that is seen as expected.
    pub(super) number: u64,
    /// The host has it.
    pub(super) begun: bool,
    /// Its `turn_result` was seen: OUTPUT or ERROR is next, and the last.
    pub(super) ending: bool,
}

impl Turn {
    /// The one after so many.
    pub(super) const fn after(turns: u64) -> Self {
        Self {
            number: turns + 1,
            begun: false,
            ending: false,
        }
    }
}

/// Which of a turn's events have been given out, so that a resumed stream doubles none.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ids: HashSet<String>,
    /// The last event with an id of its own: two events may share one, and the host resumes after
    /// the first of them.
    pub(super) anchor: Option<String>,
    /// Events with an id that came after it.
    since: usize,
    /// Events of a resumed stream that were seen before.
    skip: usize,
}

impl Client {
    /// Open another connection and go on there.
    pub(super) async fn resume(&mut self) -> Result<(), ClientError> {
        let mut last = ClientError::Closed { reason: None };
        for pause in AGAIN {
            tokio::time::sleep(pause).await;
            match open(&self.target, &self.identity, &self.host, self.seal).await {
                Ok(socket) => self.socket = socket,
                Err(failed) => {
                    last = failed;
                    continue;
                }
            }
            let session_id = self.session_id.clone();
            match self.authenticate().await {
                Ok(connected) => return self.resumed(&connected, &session_id),
                Err(failed @ ClientError::Refused(_)) => return Err(failed),
                Err(failed) => last = failed,
            }
        }
        Err(last)
    }

    fn resumed(&mut self, connected: &Value, session_id: &str) -> Result<(), ClientError> {
        self.linked = true;
        self.modes_asked = 0;
        let turn = self.turn.take();
        let known = self.session_id == session_id;
        let missed = match &turn {
            Some(turn) if known && connected["status"] != "running" => {
                missed(connected, turn.number, &self.seen)
            }
            _ => None,
        };
        self.entered(connected);
        match turn {
            Some(turn) if known && self.turn.is_some() => {
                self.turn = Some(Turn {
                    begun: true,
                    ..turn
                });
                self.seen.skip = match self.seen.anchor {
                    Some(_) => self.seen.since,
                    None => 0,
                };
                self.waiting.push_back(Event::Resumed);
            }
            Some(_) => {
                self.seen = Seen::default();
                // The prompt is not sent again: its tools might run twice.
                let missed = missed.ok_or_else(|| {
                    ClientError::TurnLost(
                        "the host does not have it; nothing was sent again".into(),
                    )
                })?;
                self.waiting.push_back(Event::Resumed);
                self.waiting.extend(missed);
            }
            None => {
                self.seen = Seen::default();
                self.waiting.push_back(Event::Resumed);
            }
        }
        Ok(())
    }
}

/// What a turn that ended unseen left in the history that CONNECTED brings: the events that were not
/// given out, and its end. `None` if the history does not have the turn and its end.
fn missed(connected: &Value, turn: u64, seen: &Seen) -> Option<Vec<Event>> {
    let trace = connected["session"]["trace"].as_array()?;
    let of_turn =
        |kind: &'static str| move |entry: &Value| entry["type"] == kind && entry["turn"] == turn;
    let start = trace.iter().position(of_turn("user_input"))?;
    let end = start + trace[start..].iter().position(of_turn("turn_result"))?;
    let mut events: Vec<Event> = trace[start..=end]
        .iter()
        .filter(|entry| !entry["id"].as_str().is_some_and(|id| seen.ids.contains(id)))
        .map(|entry| Event::read(entry.clone()))
        .collect();
    let items = connected["chat_items"].as_array();
    let answer = items.and_then(|items| items.iter().rfind(|item| item["type"] == "agent"));
    let answer = connected["session"]["result"]
        .as_str()
        .or_else(|| answer?["content"].as_str());
    events.push(match trace[end]["reason"].as_str() {
        Some("error") => Event::Error {
            code: None,
            message: "the turn failed while the connection was lost".to_owned(),
        },
        Some("interrupted") => Event::Error {
            code: None,
            message: "the turn was interrupted while the connection was lost".to_owned(),
        },
        _ => Event::Output {
            result: answer.unwrap_or_default().to_owned(),
            duration_ms: 0,
        },
    });
    Some(events)
}

impl Seen {
    /// Whether an event is new to whoever reads.
    pub(super) fn first_time(&mut self, id: &str) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.ids.insert(id.to_owned()) {
            self.anchor = Some(id.to_owned());
            self.since = 0;
        } else {
            self.since += 1;
        }
        true
    }
}

/// A connection on which nothing was said yet but the seal.
pub(super) async fn open(
    target: &Target,
    identity: &Identity,
    host: &Address,
    seal: Seal,
) -> Result<Socket, ClientError> {
    match seal {
        Seal::Offer => Socket::sealed(target, identity, host).await,
        Seal::Never => Socket::open(target).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_stream_doubles_nothing() {
        // An `llm_call` and its `llm_result` share `x`; the host resumes after the first.
        let turn = ["a", "x", "b", "x", "c"];
        for cut in 0..=turn.len() {
            let mut seen = Seen::default();
            let mut given = Vec::new();
            for id in &turn[..cut] {
                assert!(seen.first_time(id));
                given.push(*id);
            }
            let from = seen.anchor.as_deref().map_or(0, |anchor| {
                turn.iter().position(|id| *id == anchor).unwrap() + 1
            });
            seen.skip = if seen.anchor.is_some() { seen.since } else { 0 };
            for id in &turn[from..] {
                if seen.first_time(id) {
                    given.push(*id);
                }
            }
            assert_eq!(given, turn, "cut at {cut}");
        }
    }
}
