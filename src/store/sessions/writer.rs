//! The thread that writes sessions.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::super::database::{BUSY, Database, DatabaseError, Tuning, touch};
use super::super::queue::Writer;
use super::super::unix_now;
use super::reader::Read;
use super::types::{StoreError, StoreHealth, Write};
use super::{locked, sql};

pub(super) const TUNING: Tuning = Tuning {
    page_size: 4096,
    cache_kib: 16 * 1024,
    checkpoint_pages: 4000,
};

const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Between two sweeps while there is more to delete.
const SWEEPING: Duration = Duration::from_millis(10);
/// Rows a sweep deletes at a time, so that no turn waits long behind it.
const SWEEP: u32 = 500;
/// How long the beginning of a turn may wait for its end: nobody is told that a turn has begun, and
/// a short one is over before a commit of its own would be. One that does things does not wait
/// ([`Store::hurry`](super::Store::hurry)).
const BEGINNING: Duration = Duration::from_millis(5);
/// How long a written transaction stands in for a probe.
const PROBED: Duration = Duration::from_secs(1);

type Answer = oneshot::Sender<Result<(), StoreError>>;

pub(super) enum Job {
    Write(Box<Write>, Answer),
    Read(Read),
    Probe(oneshot::Sender<StoreHealth>),
    /// Commit what waits for company.
    Hurry,
}

pub(super) struct SessionWriter {
    path: Arc<str>,
    database: Option<Database>,
    health: Arc<Mutex<StoreHealth>>,
    written: Instant,
}

impl SessionWriter {
    pub(super) fn new(path: Arc<str>, database: Database, health: Arc<Mutex<StoreHealth>>) -> Self {
        Self {
            path,
            database: Some(database),
            health,
            written: Instant::now(),
        }
    }

    /// Runs `work` in a write transaction on the file that the path leads to at this moment.
    fn transact(
        &mut self,
        work: impl Fn(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), DatabaseError> {
        let done = self.database().and_then(|database| {
            let connection = &mut database.connection;
            connection.busy_timeout(BUSY)?;
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            work(&transaction)?;
            Ok(transaction.commit()?)
        });
        match &done {
            Ok(()) => self.written = Instant::now(),
            Err(error) if error.is_busy() || error.is_callers() => {}
            // A connection that has failed may fail for ever; the next write tries a new one.
            Err(_) => drop(
                self.database
                    .take_if(|open| open.is_file() && !open.moved()),
            ),
        }
        done
    }

    fn database(&mut self) -> Result<&mut Database, DatabaseError> {
        if let Some(lost) = self.database.take_if(|database| database.moved()) {
            tracing::error!(path = %self.path, "the session file was deleted, replaced or emptied");
            match lost.restore() {
                Err(error) if !error.is_loss() => {
                    self.database = Some(lost);
                    return Err(error);
                }
                Err(error) => tracing::error!(path = %self.path, %error, "sessions were lost"),
                Ok(()) => {}
            }
        }
        match self.database.take() {
            Some(database) => Ok(self.database.insert(database)),
            None => {
                let opened = Database::open(Path::new(&*self.path), TUNING, sql::migrate)?;
                Ok(self.database.insert(opened))
            }
        }
    }

    fn write(&mut self, jobs: Vec<(Box<Write>, Answer)>) {
        if jobs.is_empty() {
            return;
        }
        let together = self.transact(|connection| {
            jobs.iter()
                .try_for_each(|(write, _)| sql::apply(connection, write))
        });
        match together {
            Ok(()) => {
                self.report(None);
                for (_, answer) in jobs {
                    let _ = answer.send(Ok(()));
                }
            }
            Err(error) if jobs.len() > 1 && !error.is_busy() => {
                // One of them fails, or all do. Alone, each bears its own failure only.
                for job in jobs {
                    self.write(vec![job]);
                }
            }
            Err(error) => {
                let callers = error.is_callers();
                let error = StoreError::failed(&self.path, &error);
                if !callers {
                    self.report(Some(&error));
                }
                for (_, answer) in jobs {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    fn report(&self, error: Option<&StoreError>) {
        let mut health = locked(&self.health);
        if let Some(error) = error
            && health.writable
        {
            tracing::error!(%error, "session store unavailable");
        }
        health.writable = error.is_none();
        health.reason = error.map(ToString::to_string);
    }

    fn probe(&mut self) {
        if self.written.elapsed() > PROBED
            || !locked(&self.health).writable
            || self.database.as_ref().is_none_or(Database::moved)
        {
            let tried = self
                .transact(touch)
                .map_err(|error| StoreError::failed(&self.path, &error));
            self.report(tried.err().as_ref());
        }
    }
}

impl Writer for SessionWriter {
    type Job = Job;

    const GROUP: usize = 512;

    fn weight(job: &Job) -> usize {
        match job {
            Job::Write(write, _) => write.rows() + 1,
            Job::Read(_) | Job::Probe(_) | Job::Hurry => 1,
        }
    }

    fn patience(job: &Job) -> Duration {
        match job {
            Job::Write(write, _) if matches!(**write, Write::Begin(_)) => BEGINNING,
            _ => Duration::ZERO,
        }
    }

    fn commit(&mut self, group: Vec<Job>) {
        let mut writes = Vec::with_capacity(group.len());
        let mut reads = Vec::new();
        let mut probes = Vec::new();
        for job in group {
            match job {
                Job::Write(write, answer) => writes.push((write, answer)),
                Job::Read(read) => reads.push(read),
                Job::Probe(answer) => probes.push(answer),
                Job::Hurry => {}
            }
        }
        self.write(writes);
        for read in reads {
            let path = self.path.clone();
            match self.database() {
                Ok(database) => read(Ok(&database.connection), &path),
                Err(error) => read(Err(StoreError::failed(&path, &error)), &path),
            }
        }
        if !probes.is_empty() {
            self.probe();
            for probe in probes {
                let _ = probe.send(locked(&self.health).clone());
            }
        }
    }

    fn tick(&mut self) -> Duration {
        match &self.database {
            Some(database) if !database.moved() && locked(&self.health).writable => {
                // Whoever holds the lock comes first; what has expired can wait.
                let _ = database.connection.busy_timeout(Duration::ZERO);
                match sql::sweep(&database.connection, unix_now(), SWEEP) {
                    Ok(true) => SWEEPING,
                    _ => HOUSEKEEPING,
                }
            }
            _ => {
                self.probe();
                HOUSEKEEPING
            }
        }
    }

    fn close(self) {
        if let Some(database) = self.database {
            database.close();
        }
    }
}
