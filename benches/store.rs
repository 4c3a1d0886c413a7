//! What the ledger and the session store cost on a real file, every answer awaited.
//!
//! Times are per claim, per turn (its begin and its end) and per load.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use oip_host::identity::Address;
use oip_host::store::{BeginTurn, Claim, EndTurn, Ledger, Outcome, SessionRow, Store};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs_f64()
}

/// Runs `work(caller, number)` `count` times, shared among `callers` that each await theirs.
fn callers<F, W>(runtime: &Runtime, callers: u64, count: u64, work: W) -> Duration
where
    F: Future<Output = ()> + Send,
    W: Fn(u64, u64) -> F + Clone + Send + 'static,
{
    runtime.block_on(async {
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..callers {
            let work = work.clone();
            tasks.spawn(async move {
                for number in (caller..count).step_by(callers as usize) {
                    work(caller, number).await;
                }
            });
        }
        tasks.join_all().await;
        start.elapsed()
    })
}

fn ledger(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("claim");
    for (rows, tasks) in [(0, 1), (0, 64), (1_000_000, 64)] {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("replay.sqlite3");
        runtime.block_on(Ledger::open(&path).unwrap().close());
        let fill = Connection::open(&path).unwrap();
        fill.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO used_signatures
             SELECT randomblob(32), {now}, {now} + 3600 FROM n WHERE {rows} > 0",
            now = now()
        ))
        .unwrap();
        drop(fill);
        let ledger = Ledger::open(&path).unwrap();
        let mut round = 0_u64;
        let id = BenchmarkId::new(format!("{tasks} callers"), rows);
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|count| {
                round += 1;
                let ledger = ledger.clone();
                callers(&runtime, tasks, count, move |_, number| {
                    let ledger = ledger.clone();
                    let name = [round.to_be_bytes(), number.to_be_bytes()].concat();
                    let claim = Claim {
                        digest: Sha256::digest(name).into(),
                        expires_at: now() + 300.0,
                    };
                    async move { drop(ledger.claim(vec![claim]).await.unwrap()) }
                })
            });
        });
    }
}

fn row(session: u64, turn: u64) -> SessionRow {
    SessionRow {
        id: format!("session-{session}"),
        owner: Address::from_bytes([7; 32]),
        created_at: now(),
        updated_at: now(),
        turn,
        iteration: 1,
        mode: "safe".into(),
        turns_left: None,
        expires_at: now() + 86_400.0,
    }
}

fn turns(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = Store::open(&folder.path().join("oip.sqlite3")).unwrap();
    let message = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(200));
    let mut group = criterion.benchmark_group("turn");
    let mut session = 0;
    for tasks in [1, 64] {
        group.bench_function(
            BenchmarkId::from_parameter(format!("{tasks} callers")),
            |b| {
                b.iter_custom(|count| {
                    let (store, message) = (store.clone(), message.clone());
                    session += tasks;
                    let first = session;
                    callers(&runtime, tasks, count, move |caller, number| {
                        let turn = number / tasks;
                        let begin = BeginTurn {
                            row: row(first + caller, turn),
                            started_at: now(),
                            messages_from: turn * 2,
                            messages: vec![message.clone()],
                            trace_from: turn * 2,
                            trace: vec![message.clone()],
                            preview: "hello".into(),
                            replace: false,
                        };
                        let end = EndTurn {
                            row: row(first + caller, turn),
                            messages_from: turn * 2 + 1,
                            messages: vec![message.clone()],
                            trace_from: turn * 2 + 1,
                            trace: vec![message.clone()],
                            outcome: Outcome::Completed,
                        };
                        let store = store.clone();
                        async move {
                            // As a short turn does: its beginning is committed with its end.
                            let begun = store.begin_turn(begin);
                            store.end_turn(end).await.unwrap();
                            begun.await.unwrap();
                        }
                    })
                });
            },
        );
    }
}

/// Stores sessions of ten messages, `rows` messages in all.
fn fill(path: &Path, rows: u64) {
    let fill = Connection::open(path).unwrap();
    let sessions = rows / 10;
    fill.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO sessions
         SELECT i, 'filled-' || i, randomblob(32), ?2, ?2, 1, 1, 'safe', NULL, NULL, ?2 + 86400
         FROM n WHERE ?1 > 0",
        params![sessions, now()],
    )
    .unwrap();
    fill.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
         INSERT INTO messages SELECT key, i, hex(randomblob(100)) FROM sessions, n",
    )
    .unwrap();
}

fn load(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("load");
    for rows in [0, 100_000, 1_000_000] {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("oip.sqlite3");
        runtime.block_on(Store::open(&path).unwrap().close());
        fill(&path, rows);
        let store = Store::open(&path).unwrap();
        runtime.block_on(async {
            for session in 0..100 {
                let begin = BeginTurn {
                    row: row(session, 1),
                    started_at: now(),
                    messages_from: 0,
                    messages: vec!["x".repeat(200); 10],
                    trace_from: 0,
                    trace: vec![],
                    preview: "hello".into(),
                    replace: false,
                };
                store.begin_turn(begin).await.unwrap();
            }
        });
        let mut number = 0_u64;
        group.bench_function(BenchmarkId::from_parameter(rows), |bencher| {
            bencher.iter(|| {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let mixed = number >> 33;
                // Where there are filled sessions, any of them: most are in no cache of SQLite's.
                let id = match rows {
                    0 => format!("session-{}", mixed % 100),
                    _ => format!("filled-{}", mixed % (rows / 10) + 1),
                };
                let loaded = runtime.block_on(store.load(&id)).unwrap().unwrap();
                assert_eq!(loaded.messages.len(), 10);
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .measurement_time(Duration::from_secs(4));
    targets = ledger, turns, load
}
criterion_main!(benches);
