//! One turn, as the agent that runs it sees it.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::json;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::identity::Address;
use crate::session::{History, JsonList, Running, Started};
use crate::wire::inbound::Input;

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

    fn keep(&self, (id, text): (String, String)) -> String {
        self.trace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(&text);
        id
    }
}

/// A turn in progress: what was asked, what was said before, and where events go.
#[derive(Debug)]
pub struct Turn {
    session_id: String,
    caller: Address,
    number: u64,
    input: Input,
    before: History,
    messages: JsonList,
    emitter: Emitter,
    iteration: u64,
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
