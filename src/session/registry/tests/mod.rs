//! How sessions are found, read back, taken over and let go.

mod copies;
mod life;
mod opening;

use serde_json::{Value, json};

use super::*;
use crate::session::Outbox;
use crate::store::{BeginTurn, EndTurn, SessionRow};

const IDLE: Duration = Duration::from_secs(600);
const TURN: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(1);

fn alice() -> Address {
    Address::from_bytes([1; 32])
}

fn bob() -> Address {
    Address::from_bytes([2; 32])
}

fn registry() -> Registry {
    let settings = Settings {
        session_idle: IDLE,
        turn_timeout: TURN,
        ..Settings::default()
    };
    Registry::new(Store::memory().unwrap(), settings)
}

async fn open(registry: &Registry, caller: Address, id: Option<&str>) -> Opened {
    registry.open(caller, id, None).await.unwrap()
}

async fn open_with(registry: &Registry, id: &str, client: &Value) -> Opened {
    let text = client.to_string();
    let client = Object::parse(&text).unwrap();
    let opened = registry.open(alice(), Some(id), Some(&client)).await;
    opened.unwrap()
}

fn join(session: &Session) -> Arc<Outbox> {
    let viewer = Arc::new(Outbox::default());
    session.join(&viewer, false, None, |_| false);
    viewer
}

fn messages(session: &Session) -> Vec<Value> {
    let history = session.history();
    history
        .messages
        .since(0)
        .map(|text| serde_json::from_str(text).unwrap())
        .collect()
}

fn user(content: &str) -> String {
    json!({"role": "user", "content": content}).to_string()
}

fn row(id: &str, owner: Address, turn: u64) -> SessionRow {
    SessionRow {
        id: id.into(),
        owner,
        created_at: 5.0,
        updated_at: 10.0,
        turn,
        iteration: 2,
        mode: "read-only".into(),
        turns_left: None,
        expires_at: unix_now() + 3600.0,
    }
}

/// Put a session with one turn into the store; the turn ended in `outcome`.
async fn stored(store: &Store, id: &str, owner: Address, trace: &[Value], outcome: Outcome) {
    let begun = store.begin_turn(BeginTurn {
        row: row(id, owner, 1),
        started_at: 9.0,
        preview: "hi".into(),
        replace: false,
        messages_from: 0,
        messages: vec![user("hi")],
        trace_from: 0,
        trace: trace.iter().map(Value::to_string).collect(),
    });
    begun.await.unwrap();
    let ended = store.end_turn(EndTurn {
        row: row(id, owner, 1),
        messages_from: 1,
        messages: Vec::new(),
        trace_from: trace.len() as u64,
        trace: Vec::new(),
        outcome,
    });
    ended.await.unwrap();
}

impl Registry {
    /// A session in memory that `caller` owns.
    fn own(&self, id: &str, caller: &Address) -> Option<Arc<Session>> {
        let session = self.lock().get(id).cloned();
        session.filter(|session| session.owner == *caller)
    }
}
