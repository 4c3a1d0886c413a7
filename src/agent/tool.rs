//! Tools, by name.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{BoxFuture, Emitter};

/// Arguments of a tool call.
pub(crate) type Args = Map<String, Value>;

/// Why a tool gave no result. `Display` is what the model and EXEC's caller read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// There is no such tool.
    #[error("unknown tool: {0}")]
    Unknown(String),
    /// An argument is missing, of the wrong type, or not one of the tool's.
    #[error("wrong arguments: {0}")]
    Arguments(String),
    /// The tool ran and failed.
    #[error("{0}")]
    Failed(String),
    /// The turn was interrupted first.
    #[error("interrupted")]
    Interrupted,
}

/// What a running tool can reach.
#[derive(Debug, Clone, Default)]
pub struct ToolContext {
    /// Streams events into the turn; `None` for EXEC, which has no turn.
    pub events: Option<Emitter>,
    /// Cancelled when the turn is interrupted or EXEC's socket goes.
    pub cancel: CancellationToken,
}

/// One tool.
pub trait Tool: Send + Sync + 'static {
    /// The name models and callers use.
    fn name(&self) -> &str;

    /// Run it.
    fn run<'a>(
        &'a self,
        args: &'a Args,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<String, ToolError>>;
}

/// Tools in the order they were added.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Toolbox {
    /// Add a tool; one of the same name is replaced.
    pub fn add(&mut self, tool: impl Tool) {
        self.tools.retain(|other| other.name() != tool.name());
        self.tools.push(Arc::new(tool));
    }

    /// The tools' names.
    pub fn names(&self) -> Vec<String> {
        self.tools
            .iter()
            .map(|tool| tool.name().to_owned())
            .collect()
    }

    /// Run a tool by name; it is dropped when `context` is cancelled.
    ///
    /// # Errors
    /// [`ToolError::Unknown`], [`ToolError::Interrupted`] or the tool's own.
    pub async fn run(
        &self,
        name: &str,
        args: &Args,
        context: ToolContext,
    ) -> Result<String, ToolError> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return Err(ToolError::Unknown(name.to_owned()));
        };
        let cancel = context.cancel.clone();
        // A tool that panics has failed; the turn around it goes on.
        let run = AssertUnwindSafe(tool.run(args, context)).catch_unwind();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ToolError::Interrupted),
            result = run => result.unwrap_or_else(|_| Err(ToolError::Failed("the tool panicked".into()))),
        }
    }
}

/// Read a tool's arguments into its own type. Unknown and missing fields are named.
///
/// # Errors
/// [`ToolError::Arguments`].
pub(crate) fn arguments<T: serde::de::DeserializeOwned>(args: &Args) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(args.clone()))
        .map_err(|wrong| ToolError::Arguments(wrong.to_string()))
}
