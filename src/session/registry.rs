//! Which sessions are in memory, and how one is found, read back or made.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::identity::Address;
use crate::store::unix_now;
use crate::store::{Loaded, Outcome, Store, StoreError};
use crate::wire::json::Object;

use super::{Expired, History, Mode, Saved, Session, Status, TurnLog};

#[cfg(test)]
mod tests;

/// What the registry needs to know of the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// An unwatched idle session leaves the memory after this long.
    pub session_idle: Duration,
    /// A turn is ended after this long.
    pub turn_timeout: Duration,
    /// A stored session is deleted this long after its last change.
    pub result_ttl: Duration,
    /// Bytes of one turn's events that stay in memory.
    pub turn_log_bytes: usize,
    /// Where longer turns spill to.
    pub spill_dir: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            session_idle: Duration::from_secs(600),
            turn_timeout: Duration::from_secs(3600),
            result_ttl: Duration::from_secs(24 * 3600),
            turn_log_bytes: 32 << 20,
            spill_dir: std::env::temp_dir(),
        }
    }
}

/// The sessions in memory, over those in the store.
pub struct Registry {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Held while a session is read from the store, so that two connections that name the same one
    /// right after a restart get the same one.
    loading: tokio::sync::Mutex<()>,
    store: Store,
    settings: Settings,
}

/// A session that was opened for a caller.
#[derive(Debug)]
pub struct Opened {
    /// The caller's own session; its id may not be the one asked for (fact F62).
    pub session: Arc<Session>,
    /// It did not exist before.
    pub fresh: bool,
    /// Another caller owns the id that was asked for.
    pub foreign: bool,
}

impl Registry {
    /// A registry over `store`.
    pub fn new(store: Store, settings: Settings) -> Self {
        Self {
            sessions: Mutex::default(),
            loading: tokio::sync::Mutex::default(),
            store,
            settings,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration it was made with.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The store beneath.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Sessions in memory.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sessions whose turn is running.
    pub fn running(&self) -> Vec<Arc<Session>> {
        let sessions: Vec<_> = self.lock().values().cloned().collect();
        sessions
            .into_iter()
            .filter(|session| session.running().is_some())
            .collect()
    }

    /// Whose a session in memory is, and how it is.
    pub fn in_memory(&self, id: &str) -> Option<(Address, Status)> {
        let session = self.lock().get(id).cloned()?;
        let status = match session.running() {
            Some(_) => Status::Running,
            None => Status::Connected,
        };
        Some((session.owner, status))
    }

    /// Find, read back or make the session that `caller` asks for; `client` is the caller's own copy
    /// of the conversation. Somebody else's id gives a new session under a new id.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn open(
        &self,
        caller: Address,
        id: Option<&str>,
        client: Option<&Object<'_>>,
    ) -> Result<Opened, StoreError> {
        let mut foreign = false;
        if let Some(id) = id {
            match self.find(id, caller).await? {
                Found::Own(session) => {
                    if let Some(client) = client {
                        session.take_newer(client);
                    }
                    return Ok(Opened {
                        session,
                        fresh: false,
                        foreign,
                    });
                }
                Found::Foreign => foreign = true,
                Found::None => {}
            }
        }
        let id = id
            .filter(|_| !foreign)
            .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let history = client.map(History::of_client).unwrap_or_default();
        let session = Arc::new(Session::new(
            id.clone(),
            caller,
            history,
            Mode::default(),
            unix_now(),
            Saved::default(),
        ));
        let existing = {
            let mut sessions = self.lock();
            match sessions.get(&id) {
                Some(existing) => Some(Arc::clone(existing)),
                None => {
                    sessions.insert(id, Arc::clone(&session));
                    None
                }
            }
        };
        match existing {
            None => Ok(Opened {
                session,
                fresh: true,
                foreign,
            }),
            Some(session) if session.owner == caller => Ok(Opened {
                session,
                fresh: true,
                foreign,
            }),
            // Another caller made this id in the same instant.
            Some(_) => Box::pin(self.open(caller, None, client))
                .await
                .map(|opened| Opened {
                    foreign: true,
                    ..opened
                }),
        }
    }

    async fn find(&self, id: &str, caller: Address) -> Result<Found, StoreError> {
        let in_memory = |registry: &Self| registry.lock().get(id).cloned();
        let known = match in_memory(self) {
            Some(session) => Some(session),
            None => {
                let _loading = self.loading.lock().await;
                match in_memory(self) {
                    Some(session) => Some(session),
                    // Whose it is comes first: a stranger must not make the host read it all.
                    None => match self.store.owner(id).await? {
                        Some(owner) if owner != caller => return Ok(Found::Foreign),
                        Some(_) => self.store.load(id).await?.map(|loaded| {
                            let session = Arc::new(restored(loaded));
                            self.lock().insert(id.to_owned(), Arc::clone(&session));
                            session
                        }),
                        None => None,
                    },
                }
            }
        };
        Ok(match known {
            None => Found::None,
            Some(session) if session.owner == caller => Found::Own(session),
            Some(_) => Found::Foreign,
        })
    }

    /// A log for a turn of `session`.
    pub fn log(&self, session: &Session) -> TurnLog {
        TurnLog::new(
            &session.id,
            self.settings.turn_log_bytes,
            &self.settings.spill_dir,
        )
    }

    /// Unix seconds at which a session that changed now may be deleted.
    pub fn expires_at(&self) -> f64 {
        unix_now() + self.settings.result_ttl.as_secs_f64()
    }

    /// Let go of sessions nobody uses and end turns that are stuck. Gives the ids let go.
    pub fn sweep(&self) -> Vec<String> {
        let now = Instant::now();
        let mut stuck = Vec::new();
        let mut gone = Vec::new();
        self.lock().retain(|id, session| {
            match session.expired(now, &self.settings) {
                Expired::No => true,
                // Whoever is opening it right now has a handle of its own: keep it for them.
                Expired::Idle if Arc::strong_count(session) > 1 => true,
                Expired::Idle => {
                    gone.push(id.clone());
                    false
                }
                Expired::Stuck(running) => {
                    stuck.push(running);
                    true
                }
            }
        });
        for running in stuck {
            running.cancel.cancel();
        }
        gone
    }
}

enum Found {
    Own(Arc<Session>),
    Foreign,
    None,
}

impl Session {
    /// Take over the client's copy if it is newer and nothing is running.
    fn take_newer(&self, client: &Object<'_>) {
        let mut state = self.lock();
        let newer = History::client_version(client) > state.history.version()
            || state.history.messages.is_empty();
        if state.running.is_none() && newer {
            state.history = History::of_client(client);
            state.saved = Saved {
                replace: state.saved.row,
                row: state.saved.row,
                ..Saved::default()
            };
        }
    }
}

/// A session read back from the store. A turn that was cut off by a crash is closed in the trace.
fn restored(loaded: Loaded) -> Session {
    let Loaded {
        row,
        messages,
        trace,
        last_outcome,
        ..
    } = loaded;
    let saved = Saved {
        messages: messages.len(),
        trace: trace.len(),
        replace: false,
        row: true,
    };
    let mut history = History::stored(
        messages.iter().collect(),
        trace.iter().collect(),
        row.turn,
        row.iteration,
        row.updated_at,
    );
    if last_outcome == Some(Outcome::Interrupted)
        && !trace.iter().any(|entry| closes(entry, row.turn))
    {
        history.trace.push(
            &serde_json::json!({
                "type": "turn_result", "turn": row.turn, "reason": "interrupted", "usage": null,
                "id": format!("interrupted-{}", row.turn), "ts": row.updated_at,
            })
            .to_string(),
        );
        history.settle();
    }
    Session::new(
        row.id,
        row.owner,
        history,
        Mode::of(&row.mode).unwrap_or_default(),
        row.created_at,
        saved,
    )
}

fn closes(entry: &str, turn: u64) -> bool {
    serde_json::from_str::<serde_json::Value>(entry)
        .is_ok_and(|entry| entry["type"] == "turn_result" && entry["turn"] == turn)
}
