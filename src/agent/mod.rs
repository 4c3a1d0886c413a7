//! What runs: the agent, its model and its tools.
//!
//! An [`Agent`] runs turns and single tools. [`Assistant`] is the ordinary one: a loop of a [`Model`]
//! and [`Tool`]s. The embedded demo agent is an `Assistant` whose model is scripted.

mod assistant;
pub mod demo;
mod model;
mod runner;
mod tool;
mod turn;

use std::future::Future;
use std::pin::Pin;

pub use assistant::Assistant;
pub use model::{Model, ModelError, Request, Round, Step, ToolCall, Usage};
pub(crate) use runner::{Runner, Turned};
pub use tool::{Tool, ToolContext, ToolError, Toolbox};
pub use turn::{Emitter, Turn};

/// A boxed future, so that agents, models and tools can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an agent says of itself, to everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The model's name.
    pub model: String,
    /// Names of the tools.
    pub tools: Vec<String>,
}

/// How a turn came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The answer, byte for byte what OUTPUT carries (fact F48).
    pub result: String,
    /// Why it ended: the `reason` of `turn_result` (fact F42).
    pub reason: Reason,
}

/// The `reason` of `turn_result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The model had no more to do.
    Natural,
    /// The model was called as often as it may be.
    MaxIterations,
    /// INTERRUPT, shutdown or the stuck-turn limit.
    Interrupted,
    /// It failed.
    Error,
}

impl Reason {
    /// The wire's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Natural => "natural",
            Self::MaxIterations => "max_iterations",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

/// A turn that failed. The text goes to the host's log, never to the client (fact F49).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AgentError(pub String);

/// Something that answers prompts and runs tools.
pub trait Agent: Send + Sync + 'static {
    /// What it says of itself.
    fn profile(&self) -> Profile;

    /// Run one turn: stream events through `turn` and give the answer.
    ///
    /// When [`Turn::cancelled`] resolves the turn should end at once; 250 ms later its future is
    /// dropped.
    fn run<'a>(&'a self, turn: &'a mut Turn) -> BoxFuture<'a, Result<Finished, AgentError>>;

    /// Run one tool for a caller who may (EXEC): no model, no session, no history.
    fn exec<'a>(
        &'a self,
        tool: &'a str,
        args: serde_json::Map<String, serde_json::Value>,
    ) -> BoxFuture<'a, Result<String, ToolError>>;

    /// Whether EXEC may run this tool with these arguments; if not, why not, as it follows
    /// `blocked: `.
    ///
    /// # Errors
    /// The reason.
    fn may_exec(
        &self,
        tool: &str,
        args: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), String>;
}
