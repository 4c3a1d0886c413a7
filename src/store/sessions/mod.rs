//! The session store: what a session was when its last turn began, went on, or ended.

mod reader;
mod sql;
mod types;
mod writer;

use std::fs::{self, File};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use self::reader::Readers;
use self::types::Write;
pub use self::types::{
    Append, BeginTurn, EndTurn, Loaded, Outcome, SessionRow, StoreError, StoreHealth,
};
use self::writer::{Job, SessionWriter};
use super::database::{Database, make_private};
use super::queue::Queue;
use super::unix_now;
use crate::identity::Address;

/// Connections that only read; as many loads run at once.
const READERS: usize = 2;

/// Sessions in one SQLite file, or in memory. Clones share it.
///
/// Writes are queued in the order of the calls, whether or not their [`Pending`] is awaited.
#[derive(Clone)]
pub struct Store {
    path: Arc<str>,
    queue: Queue<Job>,
    /// None when the database is in memory: then the writer reads too.
    readers: Option<Readers>,
    health: Arc<Mutex<StoreHealth>>,
    /// Held for the store's life: this process alone hosts the folder.
    sole: Option<Arc<File>>,
}

impl Store {
    /// Opens the file at `path`, or makes it, and starts its writer.
    ///
    /// Turns that run according to the file are marked interrupted, unless another live host has
    /// the folder: then they may be that host's.
    ///
    /// # Errors
    /// When the file or its schema cannot be made, or it is no database.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let name: Arc<str> = absolute.to_string_lossy().into();
        let opened = Database::open(&absolute, writer::TUNING, sql::migrate);
        let database = opened.map_err(|error| StoreError::failed(&name, &error))?;
        let sole = lock(&absolute.with_file_name("oip.lock"))
            .map_err(|error| StoreError::failed(&name, &error))?;
        if sole.is_some() {
            sql::interrupt_running(&database.connection, unix_now())
                .map_err(|error| StoreError::failed(&name, &error))?;
        }
        let readers = Readers::spawn(&absolute, READERS)
            .map_err(|error| StoreError::failed(&name, &error))?;
        Self::start(name, database, Some(readers), sole.map(Arc::new))
    }

    /// Sessions that end with the process.
    ///
    /// # Errors
    /// When SQLite or a thread cannot be started.
    pub fn memory() -> Result<Self, StoreError> {
        let name: Arc<str> = ":memory:".into();
        let database =
            Database::memory(sql::migrate).map_err(|error| StoreError::failed(&name, &error))?;
        Self::start(name, database, None, None)
    }

    fn start(
        path: Arc<str>,
        database: Database,
        readers: Option<Readers>,
        sole: Option<Arc<File>>,
    ) -> Result<Self, StoreError> {
        let health = Arc::new(Mutex::new(StoreHealth {
            writable: true,
            reason: None,
        }));
        let writer = SessionWriter::new(path.clone(), database, health.clone());
        let queue =
            Queue::spawn("sessions", writer).map_err(|error| StoreError::failed(&path, &error))?;
        Ok(Self {
            path,
            queue,
            readers,
            health,
            sole,
        })
    }

    /// Whether no other live host has the folder.
    pub const fn sole_host(&self) -> bool {
        self.sole.is_some()
    }

    /// The session `id` with all its rows, as last committed; none when there is none or it has
    /// expired.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn load(&self, id: &str) -> Result<Option<Loaded>, StoreError> {
        let id = id.to_owned();
        self.read(move |connection| sql::load(connection, &id, unix_now()))
            .await
    }

    /// Whose session `id` is; none as in [`load`](Self::load).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn owner(&self, id: &str) -> Result<Option<Address>, StoreError> {
        let id = id.to_owned();
        self.read(move |connection| sql::owner(connection, &id, unix_now()))
            .await
    }

    /// The sessions of `owner`, the last used first, at most `limit`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn list(&self, owner: &Address, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        let owner = *owner;
        self.read(move |connection| sql::list(connection, &owner, limit, unix_now()))
            .await
    }

    /// Records that a turn has begun, and what it begins with.
    pub fn begin_turn(&self, begin: BeginTurn) -> Pending {
        self.write(Write::Begin(begin))
    }

    /// Commits the beginnings of turns that wait for company.
    pub fn hurry(&self) {
        self.queue.send(Job::Hurry);
    }

    /// Records what a running turn has added.
    pub fn append(&self, append: Append) -> Pending {
        self.write(Write::Append(append))
    }

    /// Records how a turn has ended, and what it added last.
    pub fn end_turn(&self, end: EndTurn) -> Pending {
        self.write(Write::End(end))
    }

    /// How the last write went.
    pub fn health(&self) -> StoreHealth {
        locked(&self.health).clone()
    }

    /// Tries a write, unless one succeeded within the last second, and says how it went (F72).
    pub async fn probe(&self) -> StoreHealth {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Job::Probe(answer));
        answered.await.unwrap_or_else(|_| StoreHealth {
            writable: false,
            reason: Some(StoreError::closed(&self.path).to_string()),
        })
    }

    /// Commits what has queued and closes the file. Every later call fails.
    pub async fn close(&self) {
        if let Some(readers) = &self.readers {
            readers.close();
        }
        self.queue.close().await;
    }

    fn write(&self, write: Write) -> Pending {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Job::Write(Box::new(write), answer));
        Pending {
            answered,
            path: self.path.clone(),
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let read = Box::new(
            move |connection: Result<&rusqlite::Connection, StoreError>, path: &str| {
                let done = connection.and_then(|connection| {
                    query(connection).map_err(|error| StoreError::failed(path, &error))
                });
                let _ = answer.send(done);
            },
        );
        match &self.readers {
            Some(readers) => readers.send(read),
            None => self.queue.send(Job::Read(read)),
        }
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::closed(&self.path)))
    }
}

/// A write that has its place in the queue. Resolves once it is on disk; dropping it changes
/// nothing.
#[must_use = "a write is known to have happened once this has resolved"]
pub struct Pending {
    answered: oneshot::Receiver<Result<(), StoreError>>,
    path: Arc<str>,
}

impl Future for Pending {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answered)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(StoreError::closed(&self.path))))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock file at `path`; none when another process holds it.
fn lock(path: &Path) -> std::io::Result<Option<File>> {
    make_private(path)?;
    let file = fs::OpenOptions::new().write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}
