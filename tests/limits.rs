//! What one client may cost the others.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use oip_host::config::Bytes;

use crate::common::child::{ChildHost, Flood, TURN_LOG};
use crate::common::{Person, TestClient, TestHost, eventually};

/// 2000 events of 100 KB, 200 MB together.
const FLOOD: &str = "flood 2000 100000";

async fn join(host: &ChildHost, person: Person, session: Option<&str>) -> TestClient {
    let mut client = TestClient::dial_at(host.socket, host.address(), person).await;
    client.signs = true;
    client.connect(json!({"session_id": session})).await;
    client
}

#[tokio::test]
async fn who_does_not_read_costs_little_and_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let host = ChildHost::start(folder.path());
    let person = Person::new();
    let mut stalled = join(&host, person, None).await;
    let session = stalled.session.clone();
    let mut reads = join(&host, person, Some(&session)).await;
    let mut other = join(&host, Person::new(), None).await;
    other.turn("hello").await;
    let before = host.resident();
    let mut most = before;
    // It asks, and never reads what comes.
    stalled.input(FLOOD).await;
    reads.expect("user_message").await;
    let mut events = 0;
    loop {
        let frame = reads.next().await;
        if frame["type"] == "OUTPUT" {
            break;
        }
        events += usize::from(frame["type"] == "thinking");
        if events % 100 == 0 {
            other.turn("hello").await;
            most = most.max(host.resident());
        }
    }
    assert_eq!(events, 2000);
    let grown = most.max(host.resident()) - before;
    assert!(
        grown < TURN_LOG + (32 << 20),
        "{} MiB more than before",
        grown >> 20
    );
    // It has missed nothing.
    let frames = stalled.until("OUTPUT").await;
    let thoughts = frames.iter().filter(|f| f["type"] == "thinking").count();
    assert_eq!(thoughts, 2000);
}

#[tokio::test]
async fn who_asks_and_does_not_read_is_not_read_either() {
    let folder = tempfile::tempdir().unwrap();
    let host = ChildHost::start(folder.path());
    let mut other = join(&host, Person::new(), None).await;
    let mut greedy = TestClient::dial_at(host.socket, host.address(), Person::new()).await;
    greedy.connect(json!({})).await;
    let before = host.resident();
    // Each of these is answered with more than it has; at some point the host stops listening.
    let question = json!({"type": "SESSION_STATUS", "session": {"session_id": "é".repeat(256)}});
    let question = question.to_string();
    let mut asked = 0;
    loop {
        let sending = greedy.send_clear(&question);
        let sent = tokio::time::timeout(Duration::from_secs(1), sending).await;
        if sent.is_err() {
            break;
        }
        asked += 1;
        assert!(asked < 200_000, "the host took 100 MB of questions");
    }
    other.turn("hello").await;
    let grown = host.resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{} MiB more than before", grown >> 20);
}

/// Files without a name in `folder` that this process still holds.
fn nameless(folder: &Path) -> usize {
    let folder = folder.canonicalize().unwrap();
    let held = std::fs::read_dir("/proc/self/fd").unwrap();
    held.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.starts_with(&folder))
        .filter(|target| target.to_string_lossy().ends_with(" (deleted)"))
        .count()
}

#[tokio::test]
async fn a_turn_is_forgotten_with_its_last_reader() {
    let host = TestHost::serving(Flood, |config| {
        config.limits.turn_log_bytes = Bytes(1 << 20);
        config.session_idle = Duration::from_millis(200);
    })
    .await;
    let folder = host.folder.path().to_owned();
    let person = Person::new();
    let stalled = TestClient::v2_as(&host, person, json!({})).await;
    let same = json!({"session_id": stalled.session});
    let mut reads = TestClient::v2_as(&host, person, same).await;
    reads.turn("flood 200 100000").await;
    // The other one has still to read it.
    assert_eq!(nameless(&folder), 1);
    drop(stalled);
    eventually("the file to go", || nameless(&folder) == 0).await;
    drop(reads);
    eventually("the session to go", || host.host.load() == (0, 0)).await;
}

/// Sockets of the host at this port that the peer has half closed and the host has not.
fn half_closed(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        (fields.next().unwrap(), fields.nth(1).unwrap())
    });
    rows.filter(|(address, state)| address.ends_with(&local) && *state == "08")
        .count()
}

#[tokio::test]
async fn who_hangs_up_without_reading_is_let_go() {
    let host = TestHost::serving(Flood, |_| {}).await;
    let mut client = TestClient::v2(&host).await;
    let port = host.socket().port();
    client.input("flood 500 100000").await;
    client.until("thinking").await;
    eventually("the turn to end", || host.running_turns() == 0).await;
    client.socket.get_mut().shutdown().await.unwrap();
    eventually("the socket to be half closed", || half_closed(port) == 1).await;
    eventually("the socket to go", || half_closed(port) == 0).await;
    drop(client);
}

/// The start of a text frame of 60,000 bytes, masked with zeros, that is never finished.
async fn begin_frame(client: &mut TestClient) {
    let mut frame = vec![0x81, 0xfe, 0xea, 0x60, 0, 0, 0, 0];
    frame.resize(30_000, b' ');
    client.socket.get_mut().write_all(&frame).await.unwrap();
}

#[tokio::test]
async fn strangers_together_hold_no_more_than_they_may() {
    let host = TestHost::with(|config| {
        config.limits.unauthenticated_frame = Bytes(64 << 10);
        config.limits.unauthenticated_total = Bytes(100_000);
    })
    .await;
    let mut member = TestClient::v2(&host).await;
    let mut strangers = Vec::new();
    for _ in 0..3 {
        let mut client = TestClient::dial(&host).await;
        begin_frame(&mut client).await;
        strangers.push(client);
    }
    let mut fourth = TestClient::dial(&host).await;
    begin_frame(&mut fourth).await;
    let why = "message too large: the host holds too much from unauthenticated connections";
    fourth.expect_error(why).await;
    fourth.expect_close(1009).await;
    // Who has authenticated counts for nothing.
    member
        .input(&format!("big 1 {}", "x".repeat(200_000)))
        .await;
    member.until("OUTPUT").await;
    // When they have gone there is room again.
    drop(strangers);
    eventually("the others to go", || host.host.load().1 == 1).await;
    let mut next = TestClient::dial(&host).await;
    next.send(&json!({"type": "FOO", "x": "x".repeat(60_000)}))
        .await;
    next.expect_error("unknown message type: 'FOO'").await;
}

#[tokio::test]
async fn who_sends_too_many_bad_signatures_is_shown_out() {
    let host = TestHost::start().await;
    let mut client = TestClient::dial(&host).await;
    let mut frame = client.person.connect(&client.host, true);
    frame["payload"]["nonce"] = json!("another");
    for _ in 0..64 {
        client.send(&frame).await;
        client.expect_error("unauthorized: invalid signature").await;
    }
    client.expect_quiet().await;
    client.send(&frame).await;
    client.expect_error("unauthorized: invalid signature").await;
    client
        .expect_error("too many invalid signatures on one connection")
        .await;
    client.expect_close(4003).await;
}
