//! A model: given what was said and done, what comes next.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{BoxFuture, Turn};

/// One call of a tool that a model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Unique in the session.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub args: Map<String, Value>,
}

/// Tokens and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Tokens the model read.
    pub input_tokens: u64,
    /// Tokens the model wrote.
    pub output_tokens: u64,
    /// Of the input, read from the provider's cache.
    pub cached_tokens: u64,
    /// Of the input, written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Input and output together.
    pub total_tokens: u64,
    /// US dollars.
    pub cost: f64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.total_tokens += other.total_tokens;
        self.cost += other.cost;
    }
}

/// What a model says in one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Text; the turn's answer if there are no tool calls.
    pub text: String,
    /// Tools to run before the next call.
    pub tool_calls: Vec<ToolCall>,
    /// What the call cost.
    pub usage: Usage,
    /// How full the model's context is, 0–100.
    pub context_percent: f64,
}

/// One model call that is over, with what its tools returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// What the model said.
    pub step: Step,
    /// The tools' results, in the order of the calls; `Err` is a failure's text.
    pub results: Vec<Result<String, String>>,
}

/// What a model is asked.
#[derive(Debug)]
pub struct Request<'a> {
    /// The turn: prompt, history, a way to stream events.
    pub turn: &'a Turn,
    /// This turn's calls so far.
    pub rounds: &'a [Round],
    /// Input that arrived while the turn was running.
    pub runtime_input: &'a [String],
}

/// A model that failed. The text goes to the host's log only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model failed: {0}")]
pub struct ModelError(pub String);

/// Something that decides what comes next.
pub trait Model: Send + Sync + 'static {
    /// The name shown to people.
    fn name(&self) -> &str;

    /// One call.
    fn step<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Result<Step, ModelError>>;
}
