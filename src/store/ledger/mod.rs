//! The one-use ledger: which signatures have been used (F2, F9, F11).

mod memory;
mod sqlite;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use self::memory::MemoryLedger;
use self::sqlite::{Call, Job, SqliteLedger};
use super::queue::Queue;

/// A signature that is to be used, once.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// SHA-256 over `hex:` and the 64 bytes of the signature (F2).
    pub digest: [u8; 32],
    /// Unix seconds after which the signature is refused for its age: `timestamp + 300` (F9).
    pub expires_at: f64,
}

/// How long a signature can stay valid from the moment it is seen: its timestamp may be 300
/// seconds ahead and holds for 300 more.
const LONGEST: f64 = 600.0;

impl Claim {
    /// When it may be forgotten. What no clock could have said is kept for the longest time.
    fn expiry(&self, now: f64) -> f64 {
        match self.expires_at {
            finite if finite.is_finite() => finite,
            _ => now + LONGEST,
        }
    }
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The first use. It is on disk, and every later claim finds it.
    Fresh,
    /// Used before, or earlier in the same call.
    AlreadyUsed,
}

/// Why nothing may be done on the strength of a claim.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Whether the signature was used cannot be known. The reason is for the log, not for the
    /// caller; it names the file.
    #[error("{0}")]
    Unavailable(String),
}

/// How a ledger fares (F72).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerHealth {
    /// Whether the last write succeeded.
    pub writable: bool,
    /// Why it did not.
    pub reason: Option<String>,
    /// How often a file that vanished under the host was restored.
    pub healed: u64,
}

type Health = Arc<Mutex<LedgerHealth>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Used signatures until they expire, in a file or in memory. Clones share one ledger.
///
/// The file is the reference host's `.co/replay.sqlite3`, so both may serve one folder at once.
#[derive(Clone)]
pub struct Ledger(Kind);

#[derive(Clone)]
enum Kind {
    Sqlite(Queue<Job>, Health),
    Memory(Arc<Mutex<MemoryLedger>>),
}

impl Ledger {
    /// Opens the ledger file at `path`, or makes it, and starts its writer.
    ///
    /// # Errors
    /// When the file cannot be made or opened, is no database, or stays locked for two seconds.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let health = Arc::new(Mutex::new(LedgerHealth {
            writable: true,
            reason: None,
            healed: 0,
        }));
        let writer = SqliteLedger::open(path, health.clone())?;
        let queue = Queue::spawn("ledger", writer)
            .map_err(|error| LedgerError::Unavailable(format!("no ledger thread: {error}")))?;
        Ok(Self(Kind::Sqlite(queue, health)))
    }

    /// A ledger that a restart forgets.
    pub fn memory() -> Self {
        Self(Kind::Memory(Arc::default()))
    }

    /// Claims signatures, all in one transaction, and answers in their order. Of equal digests in
    /// one call the first wins.
    ///
    /// # Errors
    /// When nothing could be committed, after about two seconds at most: none of them may be used.
    pub async fn claim(&self, claims: Vec<Claim>) -> Result<Vec<Claimed>, LedgerError> {
        match &self.0 {
            Kind::Memory(ledger) => Ok(locked(ledger).claim(&claims, super::unix_now())),
            Kind::Sqlite(queue, _) => {
                let (answer, answered) = oneshot::channel();
                queue.send(Job::Claim(Call {
                    claims,
                    queued: Instant::now(),
                    answer,
                }));
                answered.await.unwrap_or_else(|_| Err(closed()))
            }
        }
    }

    /// How the last write went: at most a second old when the file was deleted or replaced.
    pub fn health(&self) -> LedgerHealth {
        match &self.0 {
            Kind::Sqlite(_, health) => locked(health).clone(),
            Kind::Memory(_) => LedgerHealth {
                writable: true,
                reason: None,
                healed: 0,
            },
        }
    }

    /// Tries a write, unless one succeeded within the last second, and says how it went.
    pub async fn probe(&self) -> LedgerHealth {
        if let Kind::Sqlite(queue, _) = &self.0 {
            let (answer, answered) = oneshot::channel();
            queue.send(Job::Probe(answer));
            return answered.await.unwrap_or_else(|_| LedgerHealth {
                writable: false,
                reason: Some(closed().to_string()),
                ..self.health()
            });
        }
        self.health()
    }

    /// Commits what has queued and closes the file. Every later claim fails.
    pub async fn close(&self) {
        if let Kind::Sqlite(queue, _) = &self.0 {
            queue.close().await;
        }
    }
}

fn closed() -> LedgerError {
    LedgerError::Unavailable("the ledger is closed".into())
}
