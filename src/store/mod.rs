//! What outlives a process: the one-use ledger and the sessions, each in one SQLite file.
//!
//! A file is written by one thread that commits whatever has queued in one transaction; callers
//! await that commit, so what they are told has happened survives `kill -9`. Reads of sessions go
//! through connections of their own and wait for no writer.

mod database;
mod ledger;
mod queue;
mod sessions;

pub use ledger::{Claim, Claimed, Ledger, LedgerError, LedgerHealth};
pub use sessions::{
    Append, BeginTurn, EndTurn, Loaded, Outcome, Pending, SessionRow, Store, StoreError,
    StoreHealth,
};

/// Seconds since 1970, as every file here counts time.
pub(crate) fn unix_now() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
