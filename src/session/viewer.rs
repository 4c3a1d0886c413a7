//! What waits to be written to one socket.
//!
//! Two lanes: direct answers, and the logs of turns that the socket follows. Answers are small and
//! overtake a replay. The answers' lane is bounded by [`Outbox::room`]: whoever reads the socket waits
//! there, so a peer that asks and never reads is slowed by its own silence and costs a fixed amount.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::seal::Sealer;
use crate::wire::Text;

use super::TurnLog;

/// Bytes of unwritten answers above which the socket's reader waits.
const ROOM: usize = 256 << 10;

/// One socket's outgoing side, shared by whatever has something to say to it.
#[derive(Default)]
pub struct Outbox {
    state: Mutex<State>,
    wake: Notify,
    room: Notify,
}

#[derive(Default)]
struct State {
    direct: VecDeque<Item>,
    direct_bytes: usize,
    following: VecDeque<Following>,
    closing: Option<Closing>,
    gone: bool,
}

/// Something to write.
pub enum Item {
    /// A frame; sealed if the socket is.
    Frame(Text),
    /// A frame that is never sealed: SEALED_OK, and an ERROR about a frame that did not open.
    Clear(Text),
    /// Seal every later [`Frame`](Item::Frame).
    Seal(Box<Sealer>),
}

/// Why a socket is closed: a WebSocket close code and a reason of at most 123 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// 1000–4999.
    pub code: u16,
    /// One line for the peer.
    pub reason: String,
}

#[derive(Debug)]
struct Following {
    before: Option<Text>,
    log: Arc<TurnLog>,
    next: usize,
}

/// What [`Outbox::take`] hands to the writer.
#[derive(Default)]
pub struct Taken {
    /// To be written in this order.
    pub items: Vec<Item>,
    /// After that, close.
    pub closing: Option<Closing>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queue a frame.
    pub fn send(&self, frame: impl Into<Text>) {
        self.push(Item::Frame(frame.into()));
    }

    /// Queue something else than an ordinary frame.
    pub fn push(&self, item: Item) {
        let mut state = self.lock();
        if state.gone {
            return;
        }
        state.direct_bytes += item.len();
        state.direct.push_back(item);
        drop(state);
        self.wake();
    }

    /// Write `log` from position `from`, after what is followed already; `before` goes first.
    pub fn follow(self: &Arc<Self>, log: &Arc<TurnLog>, from: usize, before: Option<Text>) {
        log.watch(self);
        let mut state = self.lock();
        if state.gone {
            return;
        }
        state.following.push_back(Following {
            before,
            log: Arc::clone(log),
            next: from,
        });
        drop(state);
        self.wake();
    }

    /// Close the socket once everything queued before is written. The first reason stands.
    pub fn close(&self, code: u16, reason: impl Into<String>) {
        let mut state = self.lock();
        state.closing.get_or_insert_with(|| Closing {
            code,
            reason: reason.into(),
        });
        drop(state);
        self.wake();
        self.room.notify_waiters();
    }

    /// The socket is gone: forget what waits, take nothing more.
    pub fn gone(&self) {
        let mut state = self.lock();
        *state = State {
            gone: true,
            ..State::default()
        };
        drop(state);
        self.wake();
        self.room.notify_waiters();
    }

    /// Whether the socket is gone.
    pub fn is_gone(&self) -> bool {
        self.lock().gone
    }

    /// Wait until the answers' lane has room, or the socket is closing.
    pub async fn room(&self) {
        loop {
            let notified = self.room.notified();
            {
                let state = self.lock();
                if state.direct_bytes < ROOM || state.gone || state.closing.is_some() {
                    return;
                }
            }
            notified.await;
        }
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Wait until [`take`](Self::take) may have something.
    pub async fn ready(&self) {
        self.wake.notified().await;
    }

    /// Take what is to be written next, about `budget` bytes of logs at most.
    pub fn take(&self, budget: usize) -> Taken {
        let mut state = self.lock();
        let mut taken = Taken::default();
        taken.items.extend(state.direct.drain(..));
        state.direct_bytes = 0;
        let mut left = budget;
        while left > 0 {
            let Some(front) = state.following.front_mut() else {
                break;
            };
            if let Some(before) = front.before.take() {
                taken.items.push(Item::Frame(before));
            }
            let chunk = front.log.read(front.next, left);
            front.next = chunk.next;
            let bytes: usize = chunk.frames.iter().map(|frame| frame.len()).sum();
            left = left.saturating_sub(bytes);
            taken
                .items
                .extend(chunk.frames.into_iter().map(Item::Frame));
            if chunk.ended {
                state.following.pop_front();
            } else {
                break;
            }
        }
        let finished = state.following.front().is_none_or(|f| !f.log.has(f.next));
        if finished && state.direct.is_empty() {
            taken.closing = state.closing.clone();
        }
        drop(state);
        self.room.notify_waiters();
        taken
    }
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Self::Frame(text) | Self::Clear(text) => text.len(),
            Self::Seal(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(taken: &Taken) -> Vec<String> {
        taken
            .items
            .iter()
            .map(|item| match item {
                Item::Frame(text) | Item::Clear(text) => text.to_string(),
                Item::Seal(_) => "seal".into(),
            })
            .collect()
    }

    #[test]
    fn answers_overtake_a_replay_and_turns_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let log = |name: &str| {
            let log = Arc::new(TurnLog::new(name, 1 << 20, dir.path()));
            log.end(format!("{name} OUTPUT").into());
            log
        };
        let outbox = Arc::new(Outbox::default());
        outbox.follow(&log("one"), 0, Some("prompt".into()));
        outbox.follow(&log("two"), 0, None);
        outbox.send("answer");
        outbox.close(1001, "bye");
        let taken = outbox.take(1 << 20);
        assert_eq!(
            texts(&taken),
            ["answer", "prompt", "one OUTPUT", "two OUTPUT"]
        );
        assert_eq!(taken.closing.unwrap().code, 1001);
    }

    #[tokio::test]
    async fn a_full_lane_makes_its_filler_wait() {
        let outbox = Arc::new(Outbox::default());
        outbox.send("x".repeat(ROOM));
        let waiting = tokio::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        outbox.take(1);
        waiting.await.unwrap();
    }

    #[test]
    fn a_log_that_goes_on_keeps_the_socket_from_closing_only_for_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let log = Arc::new(TurnLog::new("s", 1 << 20, dir.path()));
        log.append(&json!({"type": "a"}), None);
        let outbox = Arc::new(Outbox::default());
        outbox.follow(&log, 0, None);
        outbox.close(1001, "bye");
        assert!(outbox.take(1 << 20).closing.is_some());
    }

    #[test]
    fn what_is_gone_takes_nothing() {
        let outbox = Arc::new(Outbox::default());
        outbox.send("a");
        outbox.gone();
        outbox.send("b");
        assert!(outbox.take(1 << 20).items.is_empty());
    }
}
