//! The demo agent's tools.

use std::time::Duration;

use serde::Deserialize;

use crate::agent::tool::{Args, arguments};
use crate::agent::{BoxFuture, Tool, ToolContext, ToolError};

/// `echo_tool(text)`: `echo: {text}`.
pub(super) struct Echo;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

impl Tool for Echo {
    fn name(&self) -> &'static str {
        "echo_tool"
    }

    fn run<'a>(
        &'a self,
        args: &'a Args,
        _: ToolContext,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let Text { text } = arguments(args)?;
            Ok(format!("echo: {text}"))
        })
    }
}

/// `slow_step(i)`: waits a second.
pub(super) struct SlowStep;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    i: i64,
}

impl Tool for SlowStep {
    fn name(&self) -> &'static str {
        "slow_step"
    }

    fn run<'a>(
        &'a self,
        args: &'a Args,
        _: ToolContext,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let Index { i } = arguments(args)?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(format!("step {i} ok"))
        })
    }
}

/// `always_fails()`.
pub(super) struct AlwaysFails;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Tool for AlwaysFails {
    fn name(&self) -> &'static str {
        "always_fails"
    }

    fn run<'a>(
        &'a self,
        args: &'a Args,
        _: ToolContext,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move {
            let Nothing {} = arguments(args)?;
            Err(ToolError::Failed("expected failure: å∫".into()))
        })
    }
}
