//! Who sees what of a turn.

mod interleavings;
mod races;
mod viewers;

use serde_json::{Value, json};

use super::*;

/// A budget that takes all there is.
const ALL: usize = usize::MAX;

fn session() -> Arc<Session> {
    Arc::new(Session::new(
        "s".into(),
        Address::from_bytes([1; 32]),
        History::default(),
        Mode::default(),
        0.0,
        Saved::default(),
    ))
}

fn log() -> TurnLog {
    TurnLog::new("s", 1 << 20, &std::env::temp_dir())
}

fn join(session: &Session, last_msg_id: Option<&str>) -> (Arc<Outbox>, Status) {
    let viewer = Arc::new(Outbox::default());
    let (status, _) = session.join(&viewer, false, last_msg_id, |_| false);
    (viewer, status)
}

fn finish(session: &Session) {
    let last = json!({"type": "OUTPUT"}).to_string();
    session.finish(History::default(), Saved::default(), last);
}

/// Append the event number `n`; gives its id.
fn append(running: &Running, n: usize) -> String {
    let event = json!({"type": "event", "n": n});
    running.log.append_traced(&event, None).0
}

/// What a viewer is given next, as short words: `connected`, `running`, `prompt`, `0`, `1`, …,
/// `OUTPUT`. Together with the id of the last event among them.
fn taken(viewer: &Outbox, budget: usize) -> (Vec<String>, Option<String>) {
    let mut last = None;
    let words = viewer
        .take(budget)
        .items
        .into_iter()
        .map(|item| {
            let Item::Frame(text) = item else {
                panic!("only frames are queued here");
            };
            let frame: Value = serde_json::from_str(&text).unwrap();
            match frame["type"].as_str().unwrap() {
                "event" => {
                    last = frame["id"].as_str().map(str::to_owned);
                    frame["n"].to_string()
                }
                "CONNECTED" => frame["status"].as_str().unwrap().to_owned(),
                "user_message" => frame["content"].as_str().unwrap().to_owned(),
                other => other.to_owned(),
            }
        })
        .collect();
    (words, last)
}

fn words(viewer: &Outbox) -> Vec<String> {
    taken(viewer, ALL).0
}
