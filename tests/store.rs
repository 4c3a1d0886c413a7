//! The session store: what a turn has written is there for the next one, and after a crash.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use oip_host::identity::Address;
use oip_host::store::{Append, BeginTurn, EndTurn, Outcome, SessionRow, Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

const ALICE: Address = Address::from_bytes([1; 32]);
const BOB: Address = Address::from_bytes([2; 32]);

fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs_f64()
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".co/oip.sqlite3");
    (folder, path)
}

fn row(id: &str, turn: u64) -> SessionRow {
    SessionRow {
        id: id.into(),
        owner: ALICE,
        created_at: 1_000.0,
        updated_at: now(),
        turn,
        iteration: 0,
        mode: "safe".into(),
        turns_left: None,
        expires_at: now() + 86_400.0,
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

fn begin(row: SessionRow, messages_from: u64, messages: &[&str]) -> BeginTurn {
    BeginTurn {
        started_at: row.updated_at,
        row,
        messages_from,
        messages: texts(messages),
        trace_from: messages_from,
        trace: texts(messages),
        preview: "hello".into(),
        replace: false,
    }
}

fn append(row: SessionRow, messages_from: u64, messages: &[&str]) -> Append {
    Append {
        row,
        messages_from,
        messages: texts(messages),
        trace_from: 0,
        trace: vec![],
    }
}

fn end(row: SessionRow, messages_from: u64, messages: &[&str], outcome: Outcome) -> EndTurn {
    EndTurn {
        row,
        messages_from,
        messages: texts(messages),
        trace_from: messages_from,
        trace: texts(messages),
        outcome,
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_turn_is_stored_as_it_goes() {
    let (_folder, path) = folder();
    for store in [Store::open(&path).unwrap(), Store::memory().unwrap()] {
        assert_eq!(store.load("s").await, Ok(None));
        assert_eq!(store.owner("s").await, Ok(None));
        let first = store.begin_turn(begin(row("s", 1), 0, &["m0"]));
        let second = store.append(append(row("s", 1), 1, &["m1", "m2"]));
        first.await.unwrap();
        second.await.unwrap();
        let loaded = store.load("s").await.unwrap().unwrap();
        assert_eq!(loaded.messages, ["m0", "m1", "m2"]);
        assert_eq!(loaded.trace, ["m0"]);
        assert_eq!(loaded.title.as_deref(), Some("hello"));
        assert_eq!(loaded.last_outcome, None);

        let last = SessionRow {
            iteration: 3,
            turns_left: Some(4),
            ..row("s", 1)
        };
        let ended = end(last.clone(), 3, &["m3"], Outcome::Failed);
        store.end_turn(ended).await.unwrap();
        // A mode alone changes the row and nothing else.
        let changed = SessionRow {
            mode: "read-only".into(),
            turns_left: None,
            ..last
        };
        let mode = Append {
            row: changed.clone(),
            messages_from: 0,
            messages: Vec::new(),
            trace_from: 0,
            trace: Vec::new(),
        };
        store.append(mode).await.unwrap();
        let loaded = store.load("s").await.unwrap().unwrap();
        assert_eq!(loaded.row, changed);
        assert_eq!(loaded.messages, ["m0", "m1", "m2", "m3"]);
        assert_eq!(loaded.last_outcome, Some(Outcome::Failed));
        assert_eq!(store.owner("s").await, Ok(Some(ALICE)));
        assert!(store.probe().await.writable);

        store.close().await;
        let closed = store.append(append(row("s", 1), 0, &[])).await.unwrap_err();
        assert!(matches!(closed, StoreError::Closed { .. }), "{closed}");
        assert!(store.load("s").await.is_err());
    }
    let store = Store::open(&path).unwrap();
    let loaded = store.load("s").await.unwrap().unwrap();
    assert_eq!(loaded.messages, ["m0", "m1", "m2", "m3"]);
    assert_eq!(loaded.row.mode, "read-only");
    for name in ["oip.sqlite3", "oip.sqlite3-wal", "oip.lock"] {
        let mode = fs::metadata(path.with_file_name(name))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn rows_replace_what_was_at_their_place_and_behind() {
    let store = Store::memory().unwrap();
    let messages = async || store.load("s").await.unwrap().unwrap().messages;
    drop(store.begin_turn(begin(row("s", 1), 0, &["a", "b", "c"])));
    drop(store.begin_turn(begin(row("other", 1), 0, &["x", "y"])));
    store.append(append(row("s", 1), 0, &[])).await.unwrap();
    assert_eq!(messages().await, ["a", "b", "c"]);
    // A conversation that was made shorter.
    drop(store.append(append(row("s", 1), 0, &["summary"])));
    drop(store.append(append(row("s", 1), 1, &["d"])));
    assert_eq!(store.append(append(row("s", 1), 0, &[])).await, Ok(()));
    assert_eq!(messages().await, ["summary", "d"]);

    let newer = BeginTurn {
        replace: true,
        trace: vec![],
        ..begin(row("s", 7), 0, &["n0", "n1"])
    };
    store.begin_turn(newer).await.unwrap();
    let loaded = store.load("s").await.unwrap().unwrap();
    assert_eq!(
        (loaded.messages, loaded.trace),
        (texts(&["n0", "n1"]), vec![])
    );
    let other = store.load("other").await.unwrap().unwrap();
    assert_eq!(other.messages, ["x", "y"]);
}

#[tokio::test]
async fn sessions_are_listed_by_owner_and_last_use() {
    let store = Store::memory().unwrap();
    for (id, owner, updated_at) in [
        ("a", ALICE, 1.0),
        ("b", BOB, 2.0),
        ("c", ALICE, 3.0),
        ("d", ALICE, 2.0),
    ] {
        let row = SessionRow {
            owner,
            updated_at,
            ..row(id, 1)
        };
        store.begin_turn(begin(row, 0, &[])).await.unwrap();
    }
    let ids = async |owner, limit| -> Vec<String> {
        let rows = store.list(owner, limit).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(ids(&ALICE, 9).await, ["c", "d", "a"]);
    assert_eq!(ids(&ALICE, 2).await, ["c", "d"]);
    assert_eq!(ids(&BOB, 9).await, ["b"]);
}

#[tokio::test]
async fn a_write_that_fails_harms_no_other() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    // While another connection has the lock, all of these queue up for one group.
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let _blocked = store.append(append(row("first", 1), 0, &[]));
    let before = store.begin_turn(begin(row("before", 1), 0, &["m"]));
    let bad = store.begin_turn(begin(row("bad", u64::MAX), 0, &["m"]));
    let after = store.begin_turn(begin(row("after", 1), 0, &["m"]));
    holder.execute_batch("COMMIT").unwrap();
    let error = bad.await.unwrap_err().to_string();
    assert!(error.contains("oip.sqlite3: "), "{error}");
    before.await.unwrap();
    after.await.unwrap();
    assert!(store.load("before").await.unwrap().is_some());
    assert!(store.load("bad").await.unwrap().is_none());
    assert!(store.load("after").await.unwrap().is_some());
    assert!(store.health().writable, "the file is well");
}

#[tokio::test]
async fn reads_wait_for_no_writer() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    store
        .begin_turn(begin(row("s", 1), 0, &["m"]))
        .await
        .unwrap();
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let waiting = store.append(append(row("s", 1), 0, &[]));
    for _ in 0..10 {
        assert!(store.load("s").await.unwrap().is_some());
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    drop(holder);
    waiting.await.unwrap();
}

#[tokio::test]
async fn behind_a_lock_writes_fail_and_later_succeed() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.begin_turn(begin(row("s", 1), 0, &["m"])).await;
    let reason = error.unwrap_err().to_string();
    assert!(
        reason.contains("oip.sqlite3: database is locked"),
        "{reason}"
    );
    assert_eq!(store.health().reason, Some(reason));
    holder.execute_batch("COMMIT").unwrap();
    until("the health is well again", || store.health().writable).await;
    store
        .begin_turn(begin(row("s", 1), 0, &["m"]))
        .await
        .unwrap();
}

#[tokio::test]
async fn expired_sessions_are_gone_at_once_and_swept_in_chunks() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    let expired = |id| SessionRow {
        expires_at: now() - 1.0,
        ..row(id, 1)
    };
    let many: Vec<_> = (0..1_300).map(|number| number.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    drop(store.begin_turn(begin(expired("old"), 0, &many)));
    drop(store.begin_turn(begin(expired("older"), 0, &["m"])));
    store
        .begin_turn(begin(row("new", 1), 0, &["m"]))
        .await
        .unwrap();
    assert_eq!(store.load("old").await, Ok(None));
    assert_eq!(store.owner("old").await, Ok(None));
    assert_eq!(store.list(&ALICE, 9).await.unwrap().len(), 1);

    let reader = Connection::open(&path).unwrap();
    let count = || -> u64 {
        let tables = ["sessions", "messages", "trace", "runs"];
        let rows = tables.map(|table| {
            let sql = format!("SELECT count(*) FROM {table}");
            reader
                .query_row(&sql, [], |row| row.get::<_, u64>(0))
                .unwrap()
        });
        rows.iter().sum()
    };
    until("only the new session's rows are left", || count() == 4).await;
    assert!(store.load("new").await.unwrap().is_some());
}

#[tokio::test]
async fn an_expired_session_that_begins_again_begins_empty() {
    let store = Store::memory().unwrap();
    let expired = SessionRow {
        expires_at: now() - 1.0,
        ..row("s", 1)
    };
    let old = BeginTurn {
        started_at: now() - 9.0,
        ..begin(expired.clone(), 0, &["old", "old"])
    };
    drop(store.begin_turn(old));
    drop(store.end_turn(end(expired, 2, &["old"], Outcome::Failed)));
    let again = store.begin_turn(begin(row("s", 1), 0, &["new"]));
    again.await.unwrap();
    let loaded = store.load("s").await.unwrap().unwrap();
    assert_eq!(loaded.messages, ["new"]);
    assert_eq!(loaded.trace, ["new"]);
    assert_eq!(loaded.last_outcome, None);
}

const CHILD: &str = "OIP_TEST_STORE";

/// Not a test but the other process of one: begins turns, ends one, says so, and waits for its end.
#[tokio::test]
async fn child() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    let store = Store::open(Path::new(&path)).unwrap();
    assert!(store.sole_host());
    for id in ["running", "ended"] {
        store
            .begin_turn(begin(row(id, 1), 0, &["m"]))
            .await
            .unwrap();
    }
    let ended = end(row("ended", 1), 1, &["m1"], Outcome::Completed);
    store.end_turn(ended).await.unwrap();
    println!("\n> ready");
    let _ = std::io::stdin().lines().next();
}

#[tokio::test]
async fn a_turn_that_a_kill_has_ended_is_interrupted() {
    let (_folder, path) = folder();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["store::child", "--exact", "--nocapture"])
        .env(CHILD, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == "> ready"));

    // While its host lives, the turn is that host's.
    let store = Store::open(&path).unwrap();
    assert!(!store.sole_host());
    let running = store.load("running").await.unwrap().unwrap();
    assert_eq!(running.last_outcome, None);
    drop(store);

    other.kill().unwrap();
    other.wait().unwrap();
    let store = Store::open(&path).unwrap();
    assert!(store.sole_host());
    let running = store.load("running").await.unwrap().unwrap();
    assert_eq!(running.last_outcome, Some(Outcome::Interrupted));
    assert_eq!(running.messages, ["m"]);
    let ended = store.load("ended").await.unwrap().unwrap();
    assert_eq!(ended.last_outcome, Some(Outcome::Completed));
    assert_eq!(ended.messages, ["m", "m1"]);
}

#[tokio::test]
async fn a_lost_file_is_restored() {
    for (case, lose) in [
        ("deleted", &["", "-wal", "-shm"][..]),
        ("deleted without its log", &[""]),
        ("log deleted", &["-wal"]),
        ("log index deleted", &["-shm"]),
    ] {
        let (_folder, path) = folder();
        let store = Store::open(&path).unwrap();
        store
            .begin_turn(begin(row("s", 1), 0, &["m0"]))
            .await
            .unwrap();
        assert!(store.load("s").await.unwrap().is_some(), "{case}");
        for suffix in lose {
            fs::remove_file(format!("{}{suffix}", path.display())).unwrap();
        }
        assert!(store.probe().await.writable, "{case}");
        store.append(append(row("s", 1), 1, &["m1"])).await.unwrap();
        let loaded = store.load("s").await.unwrap().unwrap();
        assert_eq!(loaded.messages, ["m0", "m1"], "{case}");
        store.close().await;
        let store = Store::open(&path).unwrap();
        let loaded = store.load("s").await.unwrap().unwrap();
        assert_eq!(loaded.messages, ["m0", "m1"], "{case}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{case}");
    }
}

#[tokio::test]
async fn without_a_file_writes_fail_and_nothing_is_lost() {
    let (_folder, path) = folder();
    let store = Store::open(&path).unwrap();
    store
        .begin_turn(begin(row("s", 1), 0, &["m0"]))
        .await
        .unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(store.append(append(row("s", 1), 1, &["m1"])).await.is_err());
    assert!(!store.probe().await.writable);
    fs::remove_dir(&path).unwrap();
    store.append(append(row("s", 1), 1, &["m1"])).await.unwrap();
    let loaded = store.load("s").await.unwrap().unwrap();
    assert_eq!(loaded.messages, ["m0", "m1"]);
    assert!(store.probe().await.writable);
}

#[tokio::test]
async fn what_is_no_database_is_refused_by_name() {
    let (folder, _) = folder();
    let path = folder.path().join("oip.sqlite3");
    fs::write(
        &path,
        "plain text, and enough of it to be no header of a database",
    )
    .unwrap();
    let error = Store::open(&path).err().unwrap().to_string();
    assert!(error.contains("oip.sqlite3: "), "{error}");
}
