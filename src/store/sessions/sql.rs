//! The statements of the session store.

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension, Row, params};
use rusqlite_migration::{M, Migrations};

use super::super::database::DatabaseError;
use super::types::{Append, BeginTurn, EndTurn, Loaded, Outcome, SessionRow, Write};
use crate::identity::Address;

const MIGRATIONS: &[M<'_>] = &[M::up(include_str!("../../../migrations/0001_sessions.sql"))];

/// Brings a file of any earlier release, or an empty one, to this release's schema.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), DatabaseError> {
    Ok(Migrations::from_slice(MIGRATIONS).to_latest(connection)?)
}

/// Marks turns without an end as interrupted at `now`.
pub(super) fn interrupt_running(connection: &Connection, now: f64) -> rusqlite::Result<usize> {
    connection.execute(
        "UPDATE runs SET ended_at = ?1, outcome = 'interrupted' WHERE ended_at IS NULL",
        [now],
    )
}

/// Carries out `write`. The caller has begun a transaction.
pub(super) fn apply(connection: &Connection, write: &Write) -> rusqlite::Result<()> {
    match write {
        Write::Begin(begin) => begin_turn(connection, begin),
        Write::Append(append) => append_rows(connection, append),
        Write::End(end) => end_turn(connection, end),
    }
}

fn begin_turn(connection: &Connection, begin: &BeginTurn) -> rusqlite::Result<()> {
    let stored = stored(connection, &begin.row.id)?;
    // What has expired may have been swept in part.
    let stale = stored.is_some_and(|(_, expires_at)| expires_at < begin.started_at);
    let key = save(connection, &begin.row, stored)?;
    if begin.replace || stale {
        delete_all(connection, "DELETE FROM messages WHERE session = ?1", key)?;
        delete_all(connection, "DELETE FROM trace WHERE session = ?1", key)?;
    }
    if stale {
        delete_all(connection, "DELETE FROM runs WHERE session = ?1", key)?;
    }
    connection
        .prepare_cached("UPDATE sessions SET title = ?2 WHERE key = ?1 AND title IS NULL")?
        .execute(params![key, begin.preview])?;
    connection
        .prepare_cached(
            "INSERT INTO runs(session, turn, started_at, preview) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET started_at = ?3, preview = ?4, ended_at = NULL,
                                       outcome = NULL",
        )?
        .execute(params![
            key,
            begin.row.turn,
            begin.started_at,
            begin.preview
        ])?;
    MESSAGES.put(connection, key, begin.messages_from, &begin.messages)?;
    TRACE.put(connection, key, begin.trace_from, &begin.trace)
}

fn append_rows(connection: &Connection, append: &Append) -> rusqlite::Result<()> {
    let stored = stored(connection, &append.row.id)?;
    let key = save(connection, &append.row, stored)?;
    MESSAGES.put(connection, key, append.messages_from, &append.messages)?;
    TRACE.put(connection, key, append.trace_from, &append.trace)
}

fn end_turn(connection: &Connection, end: &EndTurn) -> rusqlite::Result<()> {
    let stored = stored(connection, &end.row.id)?;
    let key = save(connection, &end.row, stored)?;
    MESSAGES.put(connection, key, end.messages_from, &end.messages)?;
    TRACE.put(connection, key, end.trace_from, &end.trace)?;
    connection
        .prepare_cached(
            "INSERT INTO runs(session, turn, started_at, ended_at, outcome, preview)
             VALUES (?1, ?2, ?3, ?3, ?4, '')
             ON CONFLICT DO UPDATE SET ended_at = ?3, outcome = ?4",
        )?
        .execute(params![
            key,
            end.row.turn,
            end.row.updated_at,
            end.outcome.as_str()
        ])
        .map(drop)
}

/// The key and the expiry of session `id`.
fn stored(connection: &Connection, id: &str) -> rusqlite::Result<Option<(i64, f64)>> {
    connection
        .prepare_cached("SELECT key, expires_at FROM sessions WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Stores the session itself and returns its key.
fn save(
    connection: &Connection,
    row: &SessionRow,
    stored: Option<(i64, f64)>,
) -> rusqlite::Result<i64> {
    let owner = row.owner.as_bytes().as_slice();
    let values: [&dyn ToSql; 9] = [
        &owner,
        &row.created_at,
        &row.updated_at,
        &row.turn,
        &row.iteration,
        &row.mode,
        &row.turns_left,
        &row.expires_at,
        match &stored {
            Some((key, _)) => key,
            None => &row.id,
        },
    ];
    let Some((key, _)) = stored else {
        let mut insert = connection.prepare_cached(
            "INSERT INTO sessions(owner, created_at, updated_at, turn, iteration, mode,
                                  turns_left, expires_at, id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        return insert.insert(values);
    };
    let mut update = connection.prepare_cached(
        "UPDATE sessions SET owner = ?1, created_at = ?2, updated_at = ?3, turn = ?4,
                             iteration = ?5, mode = ?6, turns_left = ?7, expires_at = ?8
         WHERE key = ?9",
    )?;
    update.execute(values)?;
    Ok(key)
}

fn delete_all(connection: &Connection, sql: &str, key: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([key]).map(drop)
}

/// The statements of one of the two tables of numbered JSON rows.
struct Rows {
    truncate: &'static str,
    insert: &'static str,
    select: &'static str,
}

const MESSAGES: Rows = Rows {
    truncate: "DELETE FROM messages WHERE session = ?1 AND seq >= ?2",
    insert: "INSERT INTO messages(session, seq, json) VALUES (?1, ?2, ?3)",
    select: "SELECT json FROM messages WHERE session = ?1 ORDER BY seq",
};

const TRACE: Rows = Rows {
    truncate: "DELETE FROM trace WHERE session = ?1 AND seq >= ?2",
    insert: "INSERT INTO trace(session, seq, json) VALUES (?1, ?2, ?3)",
    select: "SELECT json FROM trace WHERE session = ?1 ORDER BY seq",
};

impl Rows {
    fn put(
        &self,
        connection: &Connection,
        key: i64,
        from: u64,
        rows: &[String],
    ) -> rusqlite::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        connection
            .prepare_cached(self.truncate)?
            .execute(params![key, from])?;
        let mut insert = connection.prepare_cached(self.insert)?;
        for (seq, json) in (from..).zip(rows) {
            insert.execute(params![key, seq, json])?;
        }
        Ok(())
    }

    fn all(&self, connection: &Connection, key: i64) -> rusqlite::Result<Vec<String>> {
        connection
            .prepare_cached(self.select)?
            .query_map([key], |row| row.get(0))?
            .collect()
    }
}

const COLUMNS: &str = "id, owner, created_at, updated_at, turn, iteration, mode, turns_left, \
                       expires_at, key, title";

fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        id: row.get(0)?,
        owner: Address::from_bytes(row.get(1)?),
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
        turn: row.get(4)?,
        iteration: row.get(5)?,
        mode: row.get(6)?,
        turns_left: row.get(7)?,
        expires_at: row.get(8)?,
    })
}

/// One moment's view of session `id`.
pub(super) fn load(
    connection: &Connection,
    id: &str,
    now: f64,
) -> rusqlite::Result<Option<Loaded>> {
    let transaction = connection.unchecked_transaction()?;
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1 AND expires_at >= ?2");
    let found = transaction
        .prepare_cached(&sql)?
        .query_row(params![id, now], |row| {
            Ok((session_row(row)?, row.get(9)?, row.get(10)?))
        })
        .optional()?;
    let Some((row, key, title)) = found else {
        return Ok(None);
    };
    let last_outcome: Option<String> = transaction
        .prepare_cached(
            "SELECT outcome FROM runs WHERE session = ?1 AND outcome IS NOT NULL
             ORDER BY turn DESC LIMIT 1",
        )?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Ok(Some(Loaded {
        row,
        title,
        messages: MESSAGES.all(&transaction, key)?,
        trace: TRACE.all(&transaction, key)?,
        last_outcome: last_outcome.as_deref().and_then(Outcome::from_word),
    }))
}

pub(super) fn owner(
    connection: &Connection,
    id: &str,
    now: f64,
) -> rusqlite::Result<Option<Address>> {
    connection
        .prepare_cached("SELECT owner FROM sessions WHERE id = ?1 AND expires_at >= ?2")?
        .query_row(params![id, now], |row| row.get(0).map(Address::from_bytes))
        .optional()
}

pub(super) fn list(
    connection: &Connection,
    owner: &Address,
    limit: usize,
    now: f64,
) -> rusqlite::Result<Vec<SessionRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE owner = ?1 AND expires_at >= ?2
         ORDER BY updated_at DESC LIMIT ?3"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    connection
        .prepare_cached(&sql)?
        .query_map(
            params![owner.as_bytes().as_slice(), now, limit],
            session_row,
        )?
        .collect()
}

/// Deletes up to `limit` rows of one session that expired before `now`. Returns whether there was
/// one, and so may be more.
pub(super) fn sweep(connection: &Connection, now: f64, limit: u32) -> rusqlite::Result<bool> {
    let expired: Option<i64> = connection
        .prepare_cached(
            "SELECT key FROM sessions WHERE expires_at < ?1 ORDER BY expires_at LIMIT 1",
        )?
        .query_row([now], |row| row.get(0))
        .optional()?;
    let Some(key) = expired else {
        return Ok(false);
    };
    let transaction = connection.unchecked_transaction()?;
    let mut left = limit as usize;
    for (table, number) in [("messages", "seq"), ("trace", "seq"), ("runs", "turn")] {
        let sql = format!(
            "DELETE FROM {table} WHERE session = ?1 AND {number} IN (
                 SELECT {number} FROM {table} WHERE session = ?1 ORDER BY {number} LIMIT ?2)"
        );
        let limit = i64::try_from(left).unwrap_or(i64::MAX);
        left -= transaction
            .prepare_cached(&sql)?
            .execute(params![key, limit])?
            .min(left);
    }
    if left > 0 {
        delete_all(&transaction, "DELETE FROM sessions WHERE key = ?1", key)?;
    }
    transaction.commit()?;
    Ok(true)
}
