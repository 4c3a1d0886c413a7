//! One turn, as the agent that runs it sees it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::Shared;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::identity::Address;
use crate::session::{History, JsonList, Running, Started};
use crate::store::{Store, StoreError};
use crate::wire::inbound::Input;

use super::BoxFuture;

/// Streams events into a turn. Cheap to clone; tools get one each.
#[derive(Debug, Clone)]
pub struct Emitter {
    running: Arc<Running>,
    trace: Arc<Mutex<JsonList>>,
}

impl Emitter {
    /// Stream an event, an object with a `type`, to whoever is watching now or resumes within the
    /// turn. It is no part of the conversation.
    pub fn emit(&self, event: &impl Serialize) {
        self.running.log.append(event, None);
    }

    /// Stream an event under an id of one's own, such as the id of the event it completes.
    pub fn emit_as(&self, id: &str, event: &impl Serialize) {
        self.running.log.append(event, Some(id));
    }

    /// Stream an event and keep it in the session's trace. Returns its id.
    pub fn record(&self, event: &impl Serialize) -> String {
        self.keep(self.running.log.append_traced(event, None))
    }

    /// [`record`](Self::record) under an id of one's own.
    pub fn record_as(&self, id: &str, event: &impl Serialize) {
        self.keep(self.running.log.append_traced(event, Some(id)));
    }

    /// Traced tool calls without a result.
    fn open_tools(&self) -> Vec<Value> {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open: Vec<Value> = Vec::new();
        for entry in trace.since(0) {
            let Ok(entry) = serde_json::from_str::<Value>(entry) else {
                continue;
            };
            match entry["type"].as_str() {
                Some("tool_call") => open.push(entry),
                Some("tool_result") => open.retain(|call| call["tool_id"] != entry["tool_id"]),
                _ => {}
            }
        }
        open
    }

    fn keep(&self, (id, text): (String, String)) -> String {
        self.trace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(&text);
        id
    }
}

/// A turn in progress: what was asked, what was said before, and where events go.
pub struct Turn {
    session_id: String,
    caller: Address,
    number: u64,
    input: Input,
    before: History,
    messages: JsonList,
    emitter: Emitter,
    iteration: u64,
    pub(super) begun: Option<(Store, Begun)>,
}

/// The commit of a turn's beginning.
pub(super) type Begun = Shared<BoxFuture<'static, Result<(), StoreError>>>;

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("session_id", &self.session_id)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What a turn added to its conversation.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) history: History,
    pub(crate) messages: JsonList,
    pub(crate) trace: JsonList,
    pub(crate) iteration: u64,
}

impl Turn {
    pub(crate) fn new(session_id: &str, caller: Address, started: Started, input: Input) -> Self {
        Self {
            session_id: session_id.to_owned(),
            caller,
            number: started.turn,
            input,
            before: started.history,
            messages: JsonList::default(),
            emitter: Emitter {
                running: started.running,
                trace: Arc::default(),
            },
            iteration: 0,
            begun: None,
        }
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Who asked.
    pub const fn caller(&self) -> Address {
        self.caller
    }

    /// Its number in the session, from 1.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The prompt and what came with it.
    pub const fn input(&self) -> &Input {
        &self.input
    }

    /// The conversation before this turn.
    pub const fn before(&self) -> &History {
        &self.before
    }

    /// Where events go.
    pub const fn events(&self) -> &Emitter {
        &self.emitter
    }

    /// Add a chat message to the conversation.
    pub fn message(&mut self, message: &impl Serialize) {
        self.messages.push(&crate::wire::outbound::json(message));
    }

    /// Resolves once the beginning of the turn is on disk, so that a crash leaves its trace. To be
    /// awaited before anything with effects; [`Assistant`](super::Assistant) does before the first tool.
    /// If the store fails the turn may go on: its end will not be told as an OUTPUT.
    pub async fn stored(&self) {
        if let Some((store, begun)) = &self.begun
            && begun.peek().is_none()
        {
            store.hurry();
            if let Err(failed) = begun.clone().await {
                tracing::error!(%failed, "the beginning of a turn is not stored");
            }
        }
    }

    /// A model call begins: it has this number in the turn.
    pub fn next_iteration(&mut self) -> u64 {
        self.iteration += 1;
        self.iteration
    }

    /// Resolves when the turn has been interrupted.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.emitter.running.cancel.cancelled()
    }

    /// The token behind [`cancelled`](Self::cancelled).
    pub fn cancel_token(&self) -> CancellationToken {
        self.emitter.running.cancel.clone()
    }

    /// Take the input that has arrived since the last look; it joins the conversation.
    pub fn runtime_input(&mut self) -> Vec<String> {
        let inputs = self.emitter.running.inbox.take();
        self.take_in(inputs)
    }

    /// The turn would like to end: take what has arrived. If that is nothing, the turn has looked for
    /// the last time and must end; later input is refused.
    pub fn last_runtime_input(&mut self) -> Vec<String> {
        let inputs = self.emitter.running.inbox.close_if_empty();
        self.take_in(inputs)
    }

    /// The turn ends whatever has arrived. It was acknowledged, so it joins the conversation, where
    /// the next turn finds it; later input is refused.
    pub fn close_input(&mut self) {
        let inputs = self.emitter.running.inbox.close();
        self.take_in(inputs);
    }

    /// Give every tool that was called and has no result one that says why: without it a client
    /// shows the tool running for ever (fact F43).
    pub(crate) fn close_tools(&mut self, why: &str) {
        for mut call in self.emitter.open_tools() {
            let (id, entry) = (call["tool_id"].clone(), call.as_object_mut());
            let Some(entry) = entry else { continue };
            entry.retain(|key, _| !matches!(key.as_str(), "id" | "ts"));
            entry.insert("type".into(), json!("tool_result"));
            entry.insert("status".into(), json!("failed"));
            entry.insert("result".into(), json!(why));
            entry.insert("timing_ms".into(), json!(0.0));
            self.emitter.record(&call);
            self.message(&json!({"role": "tool", "content": why, "tool_call_id": id}));
        }
    }

    fn take_in(&mut self, inputs: Vec<crate::session::RuntimeInput>) -> Vec<String> {
        let mut prompts = Vec::with_capacity(inputs.len());
        for input in inputs {
            self.emitter.record_as(
                &input.id,
                &json!({
                    "type": "user_input", "content": input.prompt, "turn": self.number,
                    "iteration": self.iteration, "runtime_input": true,
                }),
            );
            self.message(&json!({"role": "user", "content": input.prompt}));
            prompts.push(input.prompt);
        }
        prompts
    }

    pub(crate) fn added(self) -> Added {
        let trace = self
            .emitter
            .trace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Added {
            history: self.before,
            messages: self.messages,
            trace,
            iteration: self.iteration,
        }
    }

    /// What was added so far, to be stored before the turn goes on.
    pub(crate) fn opening(&self) -> (Vec<String>, Vec<String>) {
        let trace = self
            .emitter
            .trace
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (
            self.messages.since(0).map(str::to_owned).collect(),
            trace.since(0).map(str::to_owned).collect(),
        )
    }
}
