//! The ordinary agent: ask the model, run the tools it asks for, ask again.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::config::Permissions;

use super::{
    Agent, AgentError, BoxFuture, Finished, Model, Profile, Reason, Request, Round, Step, ToolCall,
    ToolContext, ToolError, Toolbox, Turn, Usage,
};

/// Model calls in one turn, unless configured otherwise.
const MAX_ITERATIONS: u64 = 100;

/// An agent made of a model and tools.
pub struct Assistant {
    model: Arc<dyn Model>,
    tools: Toolbox,
    permissions: Permissions,
    max_iterations: u64,
}

impl std::fmt::Debug for Assistant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assistant")
            .field("model", &self.model.name())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl Assistant {
    /// An agent that uses `model` and `tools`; EXEC may run what `permissions` allow.
    pub fn new(model: impl Model, tools: Toolbox, permissions: Permissions) -> Self {
        Self {
            model: Arc::new(model),
            tools,
            permissions,
            max_iterations: MAX_ITERATIONS,
        }
    }

    async fn rounds(&self, turn: &mut Turn) -> Result<Finished, AgentError> {
        let mut rounds: Vec<Round> = Vec::new();
        let mut inputs = Vec::new();
        let mut usage = Usage::default();
        let mut tools_used: Vec<String> = Vec::new();
        let (reason, result) = loop {
            inputs.extend(turn.runtime_input());
            if rounds.len() as u64 >= self.max_iterations {
                break (
                    Reason::MaxIterations,
                    "The turn ended after its last allowed model call.".to_owned(),
                );
            }
            let Some(step) = self.ask(turn, &rounds, &inputs).await? else {
                break (Reason::Interrupted, INTERRUPTED.to_owned());
            };
            usage += step.usage;
            if step.tool_calls.is_empty() {
                // Input that came while the model was answering has to be answered too.
                let late = turn.last_runtime_input();
                if late.is_empty() {
                    break (Reason::Natural, step.text);
                }
                inputs.extend(late);
                say(turn, &step.text);
                rounds.push(Round {
                    step,
                    results: Vec::new(),
                });
                continue;
            }
            call_message(turn, &step);
            tools_used.extend(step.tool_calls.iter().map(|call| call.name.clone()));
            let (results, interrupted) = self.use_tools(turn, &step.tool_calls).await;
            rounds.push(Round { step, results });
            if interrupted {
                break (Reason::Interrupted, INTERRUPTED.to_owned());
            }
        };
        turn.close_input();
        turn.message(&answer(&result));
        turn.events().emit(&json!({
            "type": "complete", "tools_used": tools_used,
            "llm_calls": rounds.len() + usize::from(reason == Reason::Natural),
            "iterations": rounds.len() + usize::from(reason == Reason::Natural),
        }));
        turn.events().record(&json!({
            "type": "turn_result", "turn": turn.number(), "reason": reason.word(), "usage": usage,
        }));
        Ok(Finished { result, reason })
    }

    /// One model call; `None` if it was interrupted.
    async fn ask(
        &self,
        turn: &mut Turn,
        rounds: &[Round],
        inputs: &[String],
    ) -> Result<Option<Step>, AgentError> {
        let iteration = turn.next_iteration();
        let (started, model) = (Instant::now(), self.model.name());
        let id = turn.events().record(&json!({
            "type": "llm_call", "model": model, "iteration": iteration, "status": "running",
        }));
        let request = Request {
            turn,
            rounds,
            runtime_input: inputs,
        };
        let step = tokio::select! {
            biased;
            () = turn.cancelled() => None,
            step = self.model.step(request) => Some(step),
        };
        let duration_ms = started.elapsed().as_secs_f64() * 1e3;
        let Some(step) = step else {
            turn.events().record_as(
                &id,
                &json!({
                    "type": "llm_result", "model": model, "iteration": iteration,
                    "duration_ms": duration_ms, "tool_calls_count": 0, "usage": null,
                    "context_percent": null, "status": "interrupted",
                }),
            );
            return Ok(None);
        };
        let step = step.map_err(|failed| AgentError(failed.to_string()))?;
        turn.events().record_as(
            &id,
            &json!({
                "type": "llm_result", "model": model, "iteration": iteration,
                "duration_ms": duration_ms, "tool_calls_count": step.tool_calls.len(),
                "usage": step.usage, "context_percent": step.context_percent, "status": "success",
            }),
        );
        Ok(Some(step))
    }

    /// Run the calls one after another. After an interrupt every call that is still open gets its
    /// result all the same, or a client would show it running for ever.
    async fn use_tools(
        &self,
        turn: &mut Turn,
        calls: &[ToolCall],
    ) -> (Vec<Result<String, String>>, bool) {
        let (mut results, mut interrupted) = (Vec::with_capacity(calls.len()), false);
        turn.stored().await;
        for call in calls {
            let shown = Shown::of(call);
            turn.events()
                .record(&shown.event("tool_call", json!({"status": "in_progress"})));
            let started = Instant::now();
            let context = ToolContext {
                events: Some(turn.events().clone()),
                cancel: turn.cancel_token(),
            };
            let result = if interrupted {
                Err(ToolError::Interrupted)
            } else {
                self.tools.run(&call.name, &call.args, context).await
            };
            interrupted |= matches!(result, Err(ToolError::Interrupted));
            let timing_ms = started.elapsed().as_secs_f64() * 1e3;
            let (status, text) = match &result {
                Ok(text) => ("completed", text.clone()),
                Err(ToolError::Interrupted) => ("failed", TOOL_INTERRUPTED.to_owned()),
                Err(failed) => ("failed", format!("Error: {failed}")),
            };
            let mut rest = json!({"status": status, "result": text, "timing_ms": timing_ms});
            match &result {
                Ok(raw) => rest["raw_output"] = json!(raw),
                Err(ToolError::Interrupted) => {}
                Err(failed) => rest["error"] = json!(failed.to_string()),
            }
            turn.events().record(&shown.event("tool_result", rest));
            turn.message(&json!({"role": "tool", "content": text, "tool_call_id": call.id}));
            results.push(result.map_err(|failed| failed.to_string()));
        }
        (results, interrupted)
    }
}

/// The answer of a turn that was interrupted.
pub(super) const INTERRUPTED: &str = "Stopped. What next?";
/// The result of a tool that was interrupted.
pub(super) const TOOL_INTERRUPTED: &str = "Interrupted by the user";

/// The message of a turn's answer.
pub(super) fn answer(text: &str) -> Value {
    json!({"role": "assistant", "content": text, "id": uuid::Uuid::new_v4().to_string()})
}

fn say(turn: &mut Turn, text: &str) {
    let id = uuid::Uuid::new_v4().to_string();
    turn.events()
        .emit_as(&id, &json!({"type": "assistant", "content": text}));
    turn.message(&json!({"role": "assistant", "content": text, "id": id}));
}

fn call_message(turn: &mut Turn, step: &Step) {
    let calls: Vec<Value> = step
        .tool_calls
        .iter()
        .map(|call| {
            let arguments = Value::Object(call.args.clone()).to_string();
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        })
        .collect();
    if step.text.is_empty() {
        turn.message(&json!({"role": "assistant", "tool_calls": calls}));
        return;
    }
    let id = uuid::Uuid::new_v4().to_string();
    turn.events()
        .emit_as(&id, &json!({"type": "assistant", "content": step.text}));
    turn.message(
        &json!({"role": "assistant", "content": step.text, "tool_calls": calls, "id": id}),
    );
}

/// A call as clients show it: a `summary` argument is a caption, not an argument.
struct Shown<'a> {
    call: &'a ToolCall,
    args: Map<String, Value>,
    summary: Option<Value>,
}

impl<'a> Shown<'a> {
    fn of(call: &'a ToolCall) -> Self {
        let mut args = call.args.clone();
        let summary = match args.get("summary") {
            Some(Value::String(_)) => args.remove("summary"),
            _ => None,
        };
        Self {
            call,
            args,
            summary,
        }
    }

    fn event(&self, kind: &str, rest: Value) -> Value {
        let mut event = json!({
            "type": kind, "tool_id": self.call.id, "name": self.call.name, "args": self.args,
        });
        if let (Some(event), Value::Object(rest)) = (event.as_object_mut(), rest) {
            event.extend(rest);
            if let Some(summary) = &self.summary {
                event.insert("summary".into(), summary.clone());
            }
        }
        event
    }
}

impl Agent for Assistant {
    fn profile(&self) -> Profile {
        Profile {
            model: self.model.name().to_owned(),
            tools: self.tools.names(),
        }
    }

    fn run<'a>(&'a self, turn: &'a mut Turn) -> BoxFuture<'a, Result<Finished, AgentError>> {
        Box::pin(self.rounds(turn))
    }

    fn exec<'a>(
        &'a self,
        tool: &'a str,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move { self.tools.run(tool, &args, ToolContext::default()).await })
    }

    fn may_exec(&self, tool: &str, args: &Map<String, Value>) -> Result<(), String> {
        self.permissions
            .check(tool, args)
            .map_err(|denied| format!("{denied}; permissions in .co/host.yaml decide"))
    }
}
