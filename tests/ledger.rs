//! The one-use ledger: one use, whoever asks, whatever happens to the file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use oip_host::store::{Claim, Claimed, Ledger, LedgerError};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;

use Claimed::{AlreadyUsed, Fresh};

fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs_f64()
}

/// A claim on a signature made `age` seconds ago.
fn aged(number: u32, age: f64) -> Claim {
    let mut digest = [7; 32];
    digest[..4].copy_from_slice(&number.to_be_bytes());
    Claim {
        digest,
        expires_at: now() - age + 300.0,
    }
}

fn signed(number: u32) -> Claim {
    aged(number, 1.0)
}

async fn claim(ledger: &Ledger, number: u32) -> Result<Claimed, LedgerError> {
    Ok(ledger.claim(vec![signed(number)]).await?[0])
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".co/replay.sqlite3");
    (folder, path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Waits until `done`, for ten seconds at most.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_signature_is_used_once() {
    let (_folder, path) = folder();
    for ledger in [Ledger::open(&path).unwrap(), Ledger::memory()] {
        let call = vec![signed(1), signed(2), signed(1), signed(3)];
        let answers = ledger.claim(call).await.unwrap();
        assert_eq!(answers, [Fresh, Fresh, AlreadyUsed, Fresh]);
        let answers = ledger.claim(vec![signed(4), signed(2)]).await.unwrap();
        assert_eq!(answers, [Fresh, AlreadyUsed]);
        assert_eq!(ledger.claim(vec![]).await.unwrap(), []);
        // Kept to its expiry, and not a use any more after it.
        let answers = ledger.claim(vec![aged(5, 301.0)]).await.unwrap();
        assert_eq!(answers, [Fresh]);
        assert_eq!(claim(&ledger, 5).await, Ok(Fresh));
        assert_eq!(claim(&ledger, 5).await, Ok(AlreadyUsed));
        let odd = Claim {
            expires_at: f64::NAN,
            ..signed(6)
        };
        assert_eq!(ledger.claim(vec![odd.clone()]).await.unwrap(), [Fresh]);
        assert_eq!(ledger.claim(vec![odd]).await.unwrap(), [AlreadyUsed]);
        assert!(ledger.probe().await.writable);
    }
}

#[tokio::test]
async fn the_file_is_private_and_outlives_the_ledger() {
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(Fresh));
    for suffix in ["", "-wal", "-shm"] {
        let mode = fs::metadata(beside(&path, suffix)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{suffix}");
    }
    ledger.close().await;
    assert!(claim(&ledger, 2).await.is_err());
    assert!(!ledger.probe().await.writable);
    assert!(!beside(&path, "-wal").exists(), "closing tidies up");
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(AlreadyUsed));
    assert_eq!(claim(&ledger, 2).await, Ok(Fresh));
}

#[tokio::test]
async fn expired_rows_are_swept() {
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    let expired = (0..2_000).map(|number| aged(number, 301.0)).collect();
    ledger.claim(expired).await.unwrap();
    assert_eq!(claim(&ledger, 5_000).await, Ok(Fresh));
    let reader = Connection::open(&path).unwrap();
    let count = || -> u64 {
        let sql = "SELECT count(*) FROM used_signatures";
        reader.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    until("only the live row is left", || count() == 1).await;
    assert_eq!(claim(&ledger, 5_000).await, Ok(AlreadyUsed));
}

#[tokio::test]
async fn a_table_of_an_older_host_is_taken_over() {
    let (folder, _) = folder();
    let path = folder.path().join("replay.sqlite3");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "CREATE TABLE used_signatures(digest BLOB PRIMARY KEY, seen_at REAL NOT NULL) WITHOUT ROWID",
    )
    .unwrap();
    old.execute(
        "INSERT INTO used_signatures VALUES (?1, ?2)",
        rusqlite::params![signed(1).digest, now()],
    )
    .unwrap();
    drop(old);
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(AlreadyUsed));
    assert_eq!(claim(&ledger, 2).await, Ok(Fresh));
}

// --- Other processes ---

const CHILD: &str = "OIP_TEST_LEDGER";
const REPLAYS: usize = 500;

/// Claims number 1 from many tasks at once and returns how often it was fresh.
async fn replay(ledger: &Ledger) -> usize {
    let mut tasks = JoinSet::new();
    for _ in 0..REPLAYS {
        let ledger = ledger.clone();
        tasks.spawn(async move { claim(&ledger, 1).await.unwrap() == Fresh });
    }
    let fresh = tasks.join_all().await;
    fresh.into_iter().filter(|fresh| *fresh).count()
}

/// Not a test but the other process of some: does what the lines on its standard input say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    let ledger = Ledger::open(Path::new(&path)).unwrap();
    println!("\n> ready");
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "replay" => println!("> {}", replay(&ledger).await),
            number => {
                let claimed = claim(&ledger, number.parse().unwrap()).await.unwrap();
                println!("> {claimed:?}");
            }
        }
    }
}

struct Other {
    process: Child,
    answers: Box<dyn Iterator<Item = String>>,
}

impl Other {
    fn start(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let answers = lines.filter_map(|line| Some(line.unwrap().strip_prefix("> ")?.to_string()));
        let mut other = Self {
            process,
            answers: Box::new(answers),
        };
        assert_eq!(other.answer(), "ready");
        other
    }

    fn host(path: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["ledger::child", "--exact", "--nocapture"])
            .env(CHILD, path);
        Self::start(command)
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn answer(&mut self) -> String {
        self.answers.next().expect("the other process has ended")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_replays_in_two_processes_one_is_fresh() {
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    let mut other = Other::host(&path);
    other.ask("replay");
    let here = replay(&ledger).await;
    let there: usize = other.answer().parse().unwrap();
    assert_eq!(here + there, 1);
}

#[tokio::test]
async fn an_acknowledged_claim_survives_a_kill() {
    let (_folder, path) = folder();
    let mut other = Other::host(&path);
    for number in 1..20 {
        other.ask(&number.to_string());
        assert_eq!(other.answer(), "Fresh");
    }
    drop(other);
    let ledger = Ledger::open(&path).unwrap();
    let claims = (1..21).map(signed).collect();
    let answers = ledger.claim(claims).await.unwrap();
    assert_eq!(answers[..19], [AlreadyUsed; 19]);
    assert_eq!(answers[19], Fresh);
}

/// A host that uses Python's SQLite, a connection a claim, as the reference host does.
const PYTHON: &str = r#"
import sqlite3, struct, sys, time
from contextlib import closing
path = sys.argv[1]

def claim(number):
    digest = struct.pack(">I", number) + bytes([7]) * 28
    now = time.time()
    with closing(sqlite3.connect(path, timeout=10)) as db, db:
        db.execute("DELETE FROM used_signatures WHERE expires_at < ?", (now,))
        row = (digest, now, now + 300)
        return db.execute("INSERT OR IGNORE INTO used_signatures(digest, seen_at, expires_at)"
                          " VALUES (?, ?, ?)", row).rowcount

print("> ready", flush=True)
for line in sys.stdin:
    print(">", sum(claim(int(number)) for number in line.split()), flush=True)
"#;

#[tokio::test]
async fn a_python_host_shares_the_file() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|python| python.status.success()) {
        eprintln!("skipped: no python3");
        return;
    }
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(Fresh));
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON]).arg(&path);
    let mut other = Other::start(command);
    other.ask("1 2");
    assert_eq!(other.answer(), "1");
    assert_eq!(claim(&ledger, 2).await, Ok(AlreadyUsed));

    let numbers: Vec<_> = (10..210).map(|number| number.to_string()).collect();
    other.ask(&numbers.join(" "));
    let mut here = 0;
    for number in (10..210).rev() {
        here += usize::from(claim(&ledger, number).await == Ok(Fresh));
    }
    let there: usize = other.answer().parse().unwrap();
    assert_eq!(here + there, 200);
}

// --- Trouble ---

#[tokio::test]
async fn behind_a_lock_claims_fail_and_later_succeed() {
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let (first, second) = tokio::join!(claim(&ledger, 1), claim(&ledger, 2));
    let LedgerError::Unavailable(reason) = first.unwrap_err();
    assert!(
        reason.contains("replay.sqlite3: database is locked"),
        "{reason}"
    );
    assert!(second.is_err());
    let took = start.elapsed().as_secs_f64();
    assert!((1.9..5.0).contains(&took), "{took}");
    assert_eq!(ledger.health().reason, Some(reason));

    holder.execute_batch("COMMIT").unwrap();
    until("the health is well without a claim", || {
        ledger.health().writable
    })
    .await;
    assert_eq!(
        claim(&ledger, 1).await,
        Ok(Fresh),
        "a failed claim is no use"
    );
    assert_eq!(ledger.health().healed, 0);
}

#[tokio::test]
async fn without_a_file_claims_fail_and_later_succeed() {
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(Fresh));
    // A directory stands for all that cannot be written: it stops even root.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let LedgerError::Unavailable(reason) = claim(&ledger, 2).await.unwrap_err();
    assert!(reason.contains("replay.sqlite3: not a file"), "{reason}");
    assert!(claim(&ledger, 1).await.is_err());
    assert_eq!(ledger.probe().await.reason, Some(reason));
    assert!(Ledger::open(&path).is_err());

    fs::remove_dir(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(AlreadyUsed));
    assert_eq!(claim(&ledger, 2).await, Ok(Fresh));
    let health = ledger.health();
    assert!(health.writable && health.reason.is_none());
    assert_eq!(health.healed, 1);
}

#[tokio::test]
async fn a_probe_finds_out_without_a_claim() {
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!ledger.probe().await.writable);
    fs::remove_dir(&path).unwrap();
    assert!(ledger.probe().await.writable);
}

#[tokio::test]
async fn a_lost_file_is_restored_and_reopens_nothing() {
    for (case, lose) in [
        ("deleted", &["", "-wal", "-shm"][..]),
        ("deleted without its log", &[""]),
        ("log deleted", &["-wal"]),
        ("log index deleted", &["-shm"]),
        ("both deleted", &["-wal", "-shm"]),
    ] {
        let (_folder, path) = folder();
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(claim(&ledger, 1).await, Ok(Fresh), "{case}");
        for suffix in lose {
            fs::remove_file(beside(&path, suffix)).unwrap();
        }
        assert_eq!(claim(&ledger, 1).await, Ok(AlreadyUsed), "{case}");
        assert_eq!(claim(&ledger, 2).await, Ok(Fresh), "{case}");
        assert_eq!(ledger.health().healed, 1, "{case}");
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        let answers = ledger.claim(vec![signed(1), signed(2)]).await;
        assert_eq!(answers, Ok(vec![AlreadyUsed, AlreadyUsed]), "{case}");
    }
}

#[tokio::test]
async fn a_lost_file_is_restored_without_a_claim() {
    let (_folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(Fresh));
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    until("the file is back", || ledger.health().healed == 1).await;
    let other = Ledger::open(&path).unwrap();
    assert_eq!(claim(&other, 1).await, Ok(AlreadyUsed));
}

#[tokio::test]
async fn a_file_put_in_its_place_is_filled() {
    let (folder, path) = folder();
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(Fresh));
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    fs::rename(&empty, &path).unwrap();
    assert_eq!(claim(&ledger, 1).await, Ok(AlreadyUsed));

    let other_path = folder.path().join("other.sqlite3");
    let other = Ledger::open(&other_path).unwrap();
    assert_eq!(claim(&other, 2).await, Ok(Fresh));
    other.close().await;
    fs::rename(&other_path, &path).unwrap();
    for number in [1, 2] {
        assert_eq!(claim(&ledger, number).await, Ok(AlreadyUsed));
    }
    assert_eq!(claim(&ledger, 3).await, Ok(Fresh));
    assert_eq!(ledger.health().healed, 2);
}

#[tokio::test]
async fn what_may_have_been_used_is_refused_when_the_rows_are_gone() {
    for case in ["truncated", "table dropped"] {
        let (_folder, path) = folder();
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(claim(&ledger, 1).await, Ok(Fresh), "{case}");
        if case == "truncated" {
            // Close and open, so that the rows are in no log and in no cache.
            ledger.close().await;
            let ledger = Ledger::open(&path).unwrap();
            fs::File::create(&path).unwrap();
            refuses_the_old(&ledger, case).await;
        } else {
            let other = Connection::open(&path).unwrap();
            other.execute_batch("DROP TABLE used_signatures").unwrap();
            refuses_the_old(&ledger, case).await;
        }
    }
}

async fn refuses_the_old(ledger: &Ledger, case: &str) {
    assert_ne!(claim(ledger, 1).await, Ok(Fresh), "{case}");
    assert_ne!(claim(ledger, 2).await, Ok(Fresh), "{case}");
    let new = ledger.claim(vec![aged(3, -5.0)]).await;
    assert_eq!(new, Ok(vec![Fresh]), "{case}");
    assert_eq!(ledger.health().healed, 1, "{case}");
}
