//! A turn in progress, as its session sees it: the log it writes, what can still reach it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TurnLog;

/// The running turn of a session.
#[derive(Debug)]
pub struct Running {
    /// Its events.
    pub log: Arc<TurnLog>,
    /// Cancelled by INTERRUPT, by the shutdown and by the stuck-turn limit.
    pub cancel: CancellationToken,
    /// Input that arrives meanwhile.
    pub inbox: Inbox,
    /// When it started.
    pub since: Instant,
    /// Told when the turn is over and stored.
    pub(super) over: Notify,
}

/// Input for a turn that is running already.
#[derive(Debug)]
pub struct Inbox {
    /// `None` once the turn has looked for the last time.
    waiting: Mutex<Option<Vec<RuntimeInput>>>,
}

/// One INPUT that came while a turn was running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeInput {
    /// The id that RUNTIME_INPUT_ACK named.
    pub id: String,
    /// The text.
    pub prompt: String,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(Some(Vec::new())),
        }
    }
}

impl Inbox {
    /// Leave input for the turn; false if the turn will not read any more (fact F44).
    pub fn push(&self, input: RuntimeInput) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.as_mut() {
            Some(inputs) => {
                inputs.push(input);
                true
            }
            None => false,
        }
    }

    /// Take what has arrived.
    pub fn take(&self) -> Vec<RuntimeInput> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The turn wants to end: what has arrived must still be read; if nothing has, nothing is taken
    /// from here on. Looking and closing are one step.
    pub fn close_if_empty(&self) -> Vec<RuntimeInput> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.as_mut() {
            Some(inputs) if inputs.is_empty() => {
                *waiting = None;
                Vec::new()
            }
            Some(inputs) => std::mem::take(inputs),
            None => Vec::new(),
        }
    }

    /// The turn ends whatever has arrived, because it failed or was interrupted. Gives what nobody
    /// will read.
    pub fn close(&self) -> Vec<RuntimeInput> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.take().unwrap_or_default()
    }
}

impl Running {
    /// A turn that starts now and writes `log`.
    pub(super) fn new(log: Arc<TurnLog>) -> Self {
        Self {
            log,
            cancel: CancellationToken::new(),
            inbox: Inbox::default(),
            since: Instant::now(),
            over: Notify::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_and_the_end_are_one_step() {
        let inbox = Inbox::default();
        let input = |id: &str| RuntimeInput {
            id: id.into(),
            prompt: "p".into(),
        };
        assert!(inbox.push(input("a")));
        // Something is there: the turn goes on and more is taken.
        assert_eq!(inbox.close_if_empty(), [input("a")]);
        assert!(inbox.push(input("b")));
        assert_eq!(inbox.take(), [input("b")]);
        assert_eq!(inbox.close_if_empty(), []);
        assert!(!inbox.push(input("c")));
    }
}
