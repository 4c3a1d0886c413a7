//! The ledger's file and the thread that writes it.

use std::fmt::Display;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};
use tokio::sync::oneshot;

use super::super::database::{BUSY, Database, DatabaseError, Tuning, touch};
use super::super::queue::Writer;
use super::super::unix_now;
use super::{Claim, Claimed, Health, LONGEST, LedgerError, LedgerHealth, locked};

/// Digests are random, so every claim dirties a page of its own and the log fills fast: a rarer
/// checkpoint writes a page once that many claims have changed. Smaller and larger pages were
/// measured and were no faster.
const TUNING: Tuning = Tuning {
    page_size: 4096,
    cache_kib: 16 * 1024,
    checkpoint_pages: 4000,
};

const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Between two sweeps while there is more to delete.
const SWEEPING: Duration = Duration::from_millis(10);
/// Rows a sweep deletes at a time, so that no claim waits long behind it.
const SWEEP: usize = 500;
/// How long a written transaction stands in for a probe.
const PROBED: Duration = Duration::from_secs(1);
/// Seconds a signature is valid after its timestamp (F9).
const VALID: f64 = 300.0;

/// One caller's claims.
pub(super) struct Call {
    pub(super) claims: Vec<Claim>,
    pub(super) queued: Instant,
    pub(super) answer: oneshot::Sender<Result<Vec<Claimed>, LedgerError>>,
}

pub(super) enum Job {
    Claim(Call),
    Probe(oneshot::Sender<LedgerHealth>),
}

/// A used signature on its way from a lost file into its successor.
struct Row {
    digest: Vec<u8>,
    seen_at: f64,
    expires_at: f64,
}

pub(super) struct SqliteLedger {
    path: PathBuf,
    database: Option<Database>,
    health: Health,
    /// Rows of a lost file that no other file has yet.
    carried: Vec<Row>,
    /// A file was lost and its successor is not there yet.
    healing: bool,
    /// When rows were lost for good. Signatures made before then may have been used.
    lost_at: Option<f64>,
    written: Instant,
}

impl SqliteLedger {
    pub(super) fn open(path: &Path, health: Health) -> Result<Self, LedgerError> {
        let unavailable =
            |error: &dyn Display| LedgerError::Unavailable(format!("{}: {error}", path.display()));
        let path_absolute = std::path::absolute(path).map_err(|error| unavailable(&error))?;
        let database =
            Database::open(&path_absolute, TUNING, schema).map_err(|error| unavailable(&error))?;
        Ok(Self {
            path: path_absolute,
            database: Some(database),
            health,
            carried: Vec::new(),
            healing: false,
            lost_at: None,
            written: Instant::now(),
        })
    }

    /// Runs `work` in a write transaction on the file that the path leads to at this moment.
    /// One failure is forgiven: the file may have gone between the look and the write.
    fn write<T>(
        &mut self,
        patience: Duration,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerError> {
        let mut done = self.try_write(patience, &mut work);
        if let Err(error) = &done
            && !error.is_busy()
        {
            if error.is_loss() {
                self.healing = true;
            }
            self.leave_file();
            done = self.try_write(patience, &mut work);
        }
        let mut health = locked(&self.health);
        match done {
            Ok(done) => {
                self.written = Instant::now();
                health.writable = true;
                health.reason = None;
                Ok(done)
            }
            Err(error) => {
                let reason = format!("{}: {error}", self.path.display());
                if health.writable {
                    tracing::error!(%reason, "replay ledger unavailable");
                }
                health.writable = false;
                health.reason = Some(reason.clone());
                Err(LedgerError::Unavailable(reason))
            }
        }
    }

    fn try_write<T>(
        &mut self,
        patience: Duration,
        work: &mut impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        if self.database.as_ref().is_some_and(Database::moved) {
            self.healing = true;
            self.leave_file();
        }
        let database = match self.database.take() {
            Some(database) => self.database.insert(database),
            None => {
                let opened = Database::open(&self.path, TUNING, schema)?;
                self.database.insert(opened)
            }
        };
        let connection = &mut database.connection;
        connection.busy_timeout(patience)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for row in &self.carried {
            insert(&transaction, &row.digest, row.seen_at, row.expires_at)?;
        }
        let done = work(&transaction)?;
        transaction.commit()?;
        self.carried = Vec::new();
        if mem::take(&mut self.healing) {
            locked(&self.health).healed += 1;
            tracing::warn!(path = %self.path.display(), "replay ledger restored");
        }
        Ok(done)
    }

    /// Lets go of the file, keeping its live rows when it is not the one that the path leads to.
    fn leave_file(&mut self) {
        let Some(database) = self.database.take() else {
            return;
        };
        if self.healing || database.moved() {
            self.healing = true;
            let now = unix_now();
            if let Err(error) = live_rows(&database.connection, now, &mut self.carried) {
                tracing::error!(path = %self.path.display(), %error, "used signatures were lost");
                self.lost_at = Some(now);
            }
            database.remove_stale_log();
        }
    }

    fn claim(&mut self, calls: Vec<Call>) {
        let Some(first) = calls.first() else { return };
        // A claim that has waited behind a lock for its time has no more of it.
        let patience = BUSY
            .saturating_sub(first.queued.elapsed())
            .max(Duration::from_millis(50));
        let claimed = self.write(patience, |connection| {
            let now = unix_now();
            calls
                .iter()
                .map(|call| claim_call(connection, &call.claims, now))
                .collect::<rusqlite::Result<Vec<_>>>()
        });
        match claimed {
            Ok(answers) => {
                for (call, answers) in calls.into_iter().zip(answers) {
                    let answer = self.refuse_lost(&call.claims).map_or(Ok(answers), Err);
                    let _ = call.answer.send(answer);
                }
            }
            Err(error) => {
                for call in calls {
                    let _ = call.answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Why signatures as old as `claims` cannot be told from used ones, if so.
    fn refuse_lost(&self, claims: &[Claim]) -> Option<LedgerError> {
        let lost_at = self.lost_at?;
        claims
            .iter()
            .any(|claim| claim.expires_at - VALID <= lost_at)
            .then(|| {
                let path = self.path.display();
                LedgerError::Unavailable(format!(
                    "{path}: was emptied after this signature was made, which may have been used"
                ))
            })
    }

    fn probe(&mut self) {
        if self.database.as_ref().is_none_or(Database::moved)
            || self.written.elapsed() > PROBED
            || !locked(&self.health).writable
        {
            let _ = self.write(BUSY, touch);
        }
    }
}

impl Writer for SqliteLedger {
    type Job = Job;

    const GROUP: usize = 512;

    fn weight(job: &Job) -> usize {
        match job {
            Job::Claim(call) => call.claims.len().max(1),
            Job::Probe(_) => 1,
        }
    }

    fn commit(&mut self, group: Vec<Job>) {
        let mut calls = Vec::with_capacity(group.len());
        let mut probes = Vec::new();
        for job in group {
            match job {
                Job::Claim(call) => calls.push(call),
                Job::Probe(answer) => probes.push(answer),
            }
        }
        self.claim(calls);
        if !probes.is_empty() {
            self.probe();
            for probe in probes {
                let _ = probe.send(locked(&self.health).clone());
            }
        }
    }

    fn tick(&mut self) -> Duration {
        let now = unix_now();
        if self.lost_at.is_some_and(|lost_at| lost_at + LONGEST < now) {
            self.lost_at = None;
        }
        match &self.database {
            Some(database) if !database.moved() && locked(&self.health).writable => {
                // Whoever holds the lock comes first; what has expired can wait.
                let _ = database.connection.busy_timeout(Duration::ZERO);
                match sweep(&database.connection, now) {
                    Ok(SWEEP..) => SWEEPING,
                    _ => HOUSEKEEPING,
                }
            }
            _ => {
                let _ = self.write(Duration::ZERO, touch);
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

/// The reference host's table, and what it does to a file of an older release.
fn schema(connection: &mut Connection) -> Result<(), DatabaseError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS used_signatures(
             digest BLOB PRIMARY KEY, seen_at REAL NOT NULL, expires_at REAL
         ) WITHOUT ROWID",
    )?;
    let has_expiry = transaction.column_exists(None, "used_signatures", "expires_at")?;
    if !has_expiry {
        transaction.execute("ALTER TABLE used_signatures ADD COLUMN expires_at REAL", [])?;
    }
    transaction.execute_batch(
        "CREATE INDEX IF NOT EXISTS used_signatures_expiry ON used_signatures(expires_at)",
    )?;
    transaction.execute(
        "UPDATE used_signatures SET expires_at = seen_at + ?1 WHERE expires_at IS NULL",
        [LONGEST],
    )?;
    Ok(transaction.commit()?)
}

fn claim_call(
    connection: &Connection,
    claims: &[Claim],
    now: f64,
) -> rusqlite::Result<Vec<Claimed>> {
    let claim = |claim: &Claim| {
        let fresh = insert(connection, &claim.digest, now, claim.expiry(now))?;
        Ok(match fresh {
            true => Claimed::Fresh,
            false => Claimed::AlreadyUsed,
        })
    };
    claims.iter().map(claim).collect()
}

/// Whether `digest` was not there, or only as one that has expired.
fn insert(
    connection: &Connection,
    digest: &[u8],
    seen_at: f64,
    expires_at: f64,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO used_signatures(digest, seen_at, expires_at) VALUES (?1, ?2, ?3)
         ON CONFLICT(digest) DO UPDATE SET seen_at = ?2, expires_at = ?3 WHERE expires_at < ?2",
    )?;
    Ok(statement.execute(params![digest, seen_at, expires_at])? == 1)
}

fn live_rows(connection: &Connection, now: f64, rows: &mut Vec<Row>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(
        "SELECT digest, seen_at, expires_at FROM used_signatures WHERE expires_at >= ?1",
    )?;
    let found = statement.query_map([now], |row| {
        Ok(Row {
            digest: row.get(0)?,
            seen_at: row.get(1)?,
            expires_at: row.get(2)?,
        })
    })?;
    for row in found {
        rows.push(row?);
    }
    Ok(())
}

/// Deletes some of what expired before `now` and says how much.
fn sweep(connection: &Connection, now: f64) -> rusqlite::Result<usize> {
    let mut expired = connection.prepare_cached(
        "SELECT digest FROM used_signatures WHERE expires_at < ?1 ORDER BY expires_at LIMIT 1",
    )?;
    if !expired.exists([now])? {
        return Ok(0);
    }
    let mut delete = connection.prepare_cached(
        "DELETE FROM used_signatures WHERE digest IN (
             SELECT digest FROM used_signatures WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)",
    )?;
    delete.execute(params![now, SWEEP])
}
