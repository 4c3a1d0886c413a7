//! The demo agent's model: a script, by the prompt's first word.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::agent::{BoxFuture, Model, ModelError, Request, Step, ToolCall, Usage};

/// Most events of one `stream`, and kilobytes of one `big`: enough for any test of limits.
const MOST: usize = 1_000_000;

/// The scripted model. It answers at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scripted;

impl Model for Scripted {
    fn name(&self) -> &'static str {
        "stub/scripted-1"
    }

    fn step<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Result<Step, ModelError>> {
        Box::pin(async move {
            let mut step = script(&request).await?;
            let call = request.rounds.len() as u64;
            step.usage = usage(40 + call % 21, 9 + call % 12);
            step.context_percent = 0.03125 * (call + 1) as f64;
            Ok(step)
        })
    }
}

fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage {
        input_tokens,
        output_tokens,
        total_tokens: input_tokens + output_tokens,
        cost: input_tokens as f64 * 1e-6 + output_tokens as f64 * 4e-6,
        ..Usage::default()
    }
}

async fn script(request: &Request<'_>) -> Result<Step, ModelError> {
    let prompt = &request.turn.input().prompt;
    let mut words = prompt.split_whitespace();
    let word = words.next().unwrap_or_default();
    let number = |default: usize| {
        let n = prompt
            .split_whitespace()
            .nth(1)
            .and_then(|n| n.parse().ok());
        n.unwrap_or(default).min(MOST)
    };
    let done = request.rounds.len();
    Ok(match word {
        "slow" => {
            let n = number(4);
            if done < n {
                call(request, "slow_step", json!({"i": done}))
            } else {
                let mut text = format!("slow finished after {n} steps");
                if let Some(input) = request.runtime_input.last() {
                    text.push_str(&format!("; also: {input}"));
                }
                say(text)
            }
        }
        "stream" => {
            let n = number(1);
            think(request, n).await;
            say(format!("streamed {n}"))
        }
        "big" => say("x".repeat(number(1) << 10)),
        "missing" if done == 0 => call(request, "no_such_tool", json!({"x": 1})),
        "missing" => say("tool was missing".into()),
        "fail" if done == 0 => call(request, "always_fails", json!({})),
        "fail" => say("tool failed".into()),
        "unicode" => say("héllo 世界 🚀 \u{2028} \\ \" </script> end".into()),
        "markdown" => say("# Title\n\n- a\n- b\n\n```python\nprint('hi')\n```\n".into()),
        "boom" => return Err(ModelError("boom, as asked".into())),
        _ => say(format!("Hello! You said: {prompt}")),
    })
}

fn say(text: String) -> Step {
    Step {
        text,
        ..Step::default()
    }
}

fn call(request: &Request<'_>, name: &str, args: Value) -> Step {
    let Value::Object(args) = args else {
        return Step::default();
    };
    Step {
        tool_calls: vec![tool_call(request, name, args)],
        ..Step::default()
    }
}

/// Call ids are unique in the session: they tell the turn and the call.
fn tool_call(request: &Request<'_>, name: &str, args: Map<String, Value>) -> ToolCall {
    ToolCall {
        id: format!(
            "call_{name}_{}_{}",
            request.turn.number(),
            request.rounds.len()
        ),
        name: name.to_owned(),
        args,
    }
}

/// What is thought: a hundred bytes, so that `stream` has a known size.
const CONTENT: &str = "Thinking about the request, one thought after another, until a hundred bytes of it are full, as here";
const _: () = assert!(CONTENT.len() == 100);

/// `n` events of type `thinking`, each with 100 bytes of content.
async fn think(request: &Request<'_>, n: usize) {
    #[derive(Serialize)]
    struct Thinking<'a> {
        r#type: &'a str,
        content: &'a str,
    }
    for i in 0..n {
        request.turn.events().emit(&Thinking {
            r#type: "thinking",
            content: CONTENT,
        });
        // Viewers are written to while the stream goes on; each time costs a wake-up.
        if i % 256 == 255 {
            tokio::task::yield_now().await;
        }
    }
}
