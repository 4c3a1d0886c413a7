//! Sessions: who owns one, what was said in it, what runs in it, who is watching.
//!
//! Nothing here knows about sockets or models. A session outlives its turns and its viewers; all of a
//! session's changes happen under its one lock, so that whoever opens it in the same instant as a turn
//! starts sees the whole turn, once.

mod history;
mod items;
mod log;
mod mode;
mod registry;
#[cfg(test)]
mod tests;
mod turn;
mod viewer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;

pub use history::{Counters, History, JsonList, Version};
pub use log::{Chunk, TurnLog};
pub use mode::Mode;
pub use registry::{Opened, Registry, Settings};
pub use turn::{Inbox, Running, RuntimeInput};
pub use viewer::{Closing, Item, Outbox, Taken};

use crate::identity::Address;
use crate::store::SessionRow;
use crate::wire::outbound;

/// One session: a conversation that belongs to one address.
#[derive(Debug)]
pub struct Session {
    /// Its id, as clients name it.
    pub id: String,
    /// Whose it is. Nobody else can see, stop or continue it.
    pub owner: Address,
    state: Mutex<State>,
}

/// The part of a session that changes.
#[derive(Debug)]
struct State {
    /// Everything up to the last finished turn.
    history: History,
    mode: Mode,
    created: f64,
    running: Option<Arc<Running>>,
    viewers: Vec<Weak<Outbox>>,
    touched: Instant,
    saved: Saved,
}

/// How much of the conversation the store has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Message rows.
    pub messages: usize,
    /// Trace rows.
    pub trace: usize,
    /// The rows there are another copy's: they go first.
    pub replace: bool,
    /// There is a row for the session itself.
    pub row: bool,
}

/// What a viewer is told when it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The session was made just now.
    New,
    /// It exists and is idle.
    Connected,
    /// A turn is running.
    Running,
}

impl Status {
    /// The wire's word. Any other hangs the client for a minute (fact F34).
    pub const fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Connected => "connected",
            Self::Running => "running",
        }
    }
}

/// A turn that was just started and has to be run.
#[derive(Debug)]
pub struct Started {
    /// What reaches it from outside.
    pub running: Arc<Running>,
    /// The conversation before it.
    pub history: History,
    /// Its number, from 1.
    pub turn: u64,
    /// What the store has of the conversation.
    pub saved: Saved,
    /// The session's mode.
    pub mode: Mode,
}

impl Session {
    fn new(
        id: String,
        owner: Address,
        history: History,
        mode: Mode,
        created: f64,
        saved: Saved,
    ) -> Self {
        Self {
            id,
            owner,
            state: Mutex::new(State {
                history,
                mode,
                created,
                running: None,
                viewers: Vec::new(),
                touched: Instant::now(),
                saved,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Join as a viewer: CONNECTED is queued, then whatever the running turn has after
    /// `last_msg_id`. `news` says whether the client's copy is older than the host's. A viewer that
    /// is here already (a second CONNECT) gets CONNECTED and no second copy of the turn.
    pub fn join(
        &self,
        viewer: &Arc<Outbox>,
        fresh: bool,
        last_msg_id: Option<&str>,
        news: impl FnOnce(&History) -> bool,
    ) -> (Status, bool) {
        let mut state = self.lock();
        state.touched = Instant::now();
        let status = match (&state.running, fresh) {
            (Some(_), _) => Status::Running,
            (None, true) => Status::New,
            (None, false) => Status::Connected,
        };
        let newer = news(&state.history);
        let texts = newer.then(|| {
            (
                state.history.session(&self.id, state.mode.id(), None),
                state.history.chat_items(),
            )
        });
        viewer.send(outbound::connected(
            &self.id,
            status.word(),
            &state.mode.state(),
            texts.as_ref().map(|(session, chat_items)| outbound::Newer {
                session,
                chat_items,
            }),
        ));
        let here = state
            .viewers
            .iter()
            .any(|v| v.as_ptr() == Arc::as_ptr(viewer));
        if !here {
            state.viewers.retain(|v| v.strong_count() > 0);
            state.viewers.push(Arc::downgrade(viewer));
            if let Some(running) = &state.running {
                viewer.follow(&running.log, running.log.position_after(last_msg_id), None);
            }
        }
        (status, newer)
    }

    /// Stop being a viewer.
    pub fn leave(&self, viewer: &Arc<Outbox>) {
        let mut state = self.lock();
        state.touched = Instant::now();
        state
            .viewers
            .retain(|v| v.strong_count() > 0 && v.as_ptr() != Arc::as_ptr(viewer));
        // What a client brought and never used is not worth keeping: it brings it again. A turn that
        // could not be stored is, and marks itself by `replace`.
        let unused = !state.saved.row && !state.saved.replace && state.running.is_none();
        if unused && state.viewers.is_empty() {
            state.history = History::default();
        }
    }

    /// Start a turn, streamed to every viewer; `origin` is the one that asked and needs no telling
    /// what the prompt was (fact F45).
    ///
    /// # Errors
    /// The running turn, if there is one.
    pub fn start(
        &self,
        log: TurnLog,
        origin: &Arc<Outbox>,
        prompt: &str,
    ) -> Result<Started, Arc<Running>> {
        let mut state = self.lock();
        if let Some(running) = &state.running {
            return Err(Arc::clone(running));
        }
        let running = Arc::new(Running::new(Arc::new(log)));
        state.running = Some(Arc::clone(&running));
        state.touched = Instant::now();
        for viewer in state.viewers.iter().filter_map(Weak::upgrade) {
            let before = (!Arc::ptr_eq(&viewer, origin))
                .then(|| outbound::user_message(&self.id, prompt).into());
            viewer.follow(&running.log, 0, before);
        }
        Ok(Started {
            running,
            turn: state.history.turn + 1,
            history: state.history.clone(),
            saved: state.saved,
            mode: state.mode,
        })
    }

    /// The turn is over: take its conversation, then send `last`, in this order, so that an INPUT
    /// which answers OUTPUT finds the session idle.
    pub fn finish(&self, history: History, saved: Saved, last: String) {
        let mut state = self.lock();
        state.history = history;
        state.saved = saved;
        state.touched = Instant::now();
        if let Some(running) = state.running.take() {
            running.log.end(last.into());
            running.over.notify_waiters();
        }
    }

    /// The running turn, if there is one.
    pub fn running(&self) -> Option<Arc<Running>> {
        self.lock().running.clone()
    }

    /// Wait until no turn is running.
    pub async fn idle(&self) {
        loop {
            let Some(running) = self.running() else {
                return;
            };
            let over = running.over.notified();
            // The turn may have ended between the two lines above.
            if self.running().is_none() {
                return;
            }
            over.await;
        }
    }

    /// A sign of life from a viewer.
    pub fn touch(&self) {
        self.lock().touched = Instant::now();
    }

    /// Number of live viewers.
    pub fn viewers(&self) -> usize {
        let state = self.lock();
        state
            .viewers
            .iter()
            .filter(|v| v.strong_count() > 0)
            .count()
    }

    /// The permission mode.
    pub fn mode(&self) -> Mode {
        self.lock().mode
    }

    /// Choose a mode, unless a turn is running. `store` queues the row that keeps it, under the
    /// session's lock: a turn that starts next runs in this mode and is stored after it. Gives the mode
    /// before, for the case that it cannot be stored.
    pub fn change_mode<P>(
        &self,
        mode: Mode,
        expires_at: f64,
        store: impl FnOnce(SessionRow) -> P,
    ) -> Option<(Mode, P)> {
        let mut state = self.lock();
        if state.running.is_some() {
            return None;
        }
        let before = std::mem::replace(&mut state.mode, mode);
        state.saved.row = true;
        let stored = store(self.row_in(&state, state.history.counters(), expires_at));
        Some((before, stored))
    }

    /// Go back to a mode.
    pub fn set_mode(&self, mode: Mode) {
        self.lock().mode = mode;
    }

    /// The row that describes the session when it has come this far.
    pub fn row(&self, counters: Counters, expires_at: f64) -> SessionRow {
        self.row_in(&self.lock(), counters, expires_at)
    }

    fn row_in(&self, state: &State, counters: Counters, expires_at: f64) -> SessionRow {
        SessionRow {
            id: self.id.clone(),
            owner: self.owner,
            created_at: state.created,
            updated_at: counters.updated,
            turn: counters.turn,
            iteration: counters.iteration,
            mode: state.mode.id().to_owned(),
            turns_left: None,
            expires_at,
        }
    }

    /// Turns that were started.
    pub fn turns(&self) -> u64 {
        self.lock().history.turn
    }

    /// The conversation up to the last finished turn.
    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    /// Whether the store has a row for it.
    pub fn is_stored(&self) -> bool {
        self.lock().saved.row
    }

    fn expired(&self, now: Instant, settings: &Settings) -> Expired {
        let state = self.lock();
        match &state.running {
            Some(running) if now.duration_since(running.since) > settings.turn_timeout => {
                Expired::Stuck(Arc::clone(running))
            }
            Some(_) => Expired::No,
            None => {
                let watched = state.viewers.iter().any(|v| v.strong_count() > 0);
                if !watched && now.duration_since(state.touched) >= settings.session_idle {
                    Expired::Idle
                } else {
                    Expired::No
                }
            }
        }
    }
}

enum Expired {
    No,
    Idle,
    Stuck(Arc<Running>),
}
