//! Agents that do not behave: the session outlives them.

use std::time::{Duration, Instant};

use oip_host::agent::{
    Agent, AgentError, Assistant, BoxFuture, Finished, Model, ModelError, Profile, Reason, Request,
    Step, Tool, ToolCall, ToolContext, ToolError, Toolbox, Turn,
};
use serde_json::{Map, Value, json};

use crate::common::{TestClient, TestHost, types};

/// Panics, or goes on for ever, as the prompt says.
struct Unruly;

impl Agent for Unruly {
    fn profile(&self) -> Profile {
        Profile {
            model: "unruly".into(),
            tools: Vec::new(),
        }
    }

    fn run<'a>(&'a self, turn: &'a mut Turn) -> BoxFuture<'a, Result<Finished, AgentError>> {
        Box::pin(async move {
            let prompt = turn.input().prompt.clone();
            if prompt == "hello" {
                let result = "hello yourself".to_owned();
                turn.message(&json!({"role": "assistant", "content": result, "id": "a"}));
                turn.events().record(
                    &json!({"type": "turn_result", "turn": turn.number(), "reason": "natural"}),
                );
                return Ok(Finished {
                    result,
                    reason: Reason::Natural,
                });
            }
            let call = json!({"type": "tool_call", "tool_id": "t-1", "name": "x", "args": {}});
            turn.events().record(&call);
            assert_ne!(prompt, "panic", "as asked");
            std::future::pending().await
        })
    }

    fn exec<'a>(
        &'a self,
        _: &'a str,
        _: Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async { panic!("as asked") })
    }

    fn may_exec(&self, _: &str, _: &Map<String, Value>) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_fails_the_turn_and_nothing_else() {
    let host = TestHost::serving(Unruly, |_| {}).await;
    let mut client = TestClient::v2(&host).await;
    client.input("panic").await;
    let frames = client.until("ERROR").await;
    assert_eq!(
        types(&frames),
        [
            "user_input",
            "tool_call",
            "tool_result",
            "turn_result",
            "ERROR"
        ]
    );
    assert_eq!(frames[2]["tool_id"], "t-1");
    assert_eq!(frames[2]["status"], "failed");
    assert_eq!(frames[4]["code"], -32603);
    assert_eq!(frames[4]["message"], "Unable to run agent");
    let frames = client.turn("hello").await;
    assert_eq!(frames[frames.len() - 1]["result"], "hello yourself");
}

#[tokio::test]
async fn who_ignores_an_interrupt_is_dropped() {
    let host = TestHost::serving(Unruly, |_| {}).await;
    let mut client = TestClient::v2(&host).await;
    client.input("for ever").await;
    client.until("tool_call").await;
    client.input("still there?").await;
    client.expect("RUNTIME_INPUT_ACK").await;
    let asked = Instant::now();
    client.command("INTERRUPT", json!({})).await;
    let frames = client.until("OUTPUT").await;
    assert!(asked.elapsed() < Duration::from_secs(2));
    assert_eq!(
        types(&frames),
        ["tool_result", "user_input", "turn_result", "OUTPUT"]
    );
    assert_eq!(frames[0]["tool_id"], "t-1");
    assert_eq!(frames[2]["reason"], "interrupted");
    let output = &frames[3];
    let items = output["chat_items"].as_array().unwrap();
    assert_eq!(items[items.len() - 1]["content"], output["result"]);
    client.turn("hello").await;
}

#[tokio::test]
async fn a_stuck_turn_is_ended() {
    let host = TestHost::serving(Unruly, |config| {
        config.turn_timeout = Duration::from_millis(300);
        config.session_idle = Duration::from_secs(1);
    })
    .await;
    let mut client = TestClient::v2(&host).await;
    let frames = client.turn("for ever").await;
    assert_eq!(frames[frames.len() - 2]["reason"], "interrupted");
}

#[tokio::test]
async fn an_exec_that_panics_is_answered() {
    let host = TestHost::serving(Unruly, |_| {}).await;
    let mut client = TestClient::v2(&host).await;
    host.list("contacts.txt", &client.person.address().to_string());
    client
        .command("EXEC", json!({"exec_id": 1, "tool": "x"}))
        .await;
    let result = client.expect("EXEC_RESULT").await;
    assert_eq!(result["status"], "error");
    client.expect_quiet().await;
}

/// Calls `bomb` once.
struct Bomber;

impl Model for Bomber {
    fn name(&self) -> &str {
        "bomber"
    }

    fn step<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Result<Step, ModelError>> {
        Box::pin(async move {
            let Some(round) = request.rounds.last() else {
                let call = ToolCall {
                    id: "b-1".into(),
                    name: "bomb".into(),
                    args: Map::new(),
                };
                return Ok(Step {
                    tool_calls: vec![call],
                    ..Step::default()
                });
            };
            Ok(Step {
                text: format!("{:?}", round.results[0]),
                ..Step::default()
            })
        })
    }
}

struct Bomb;

impl Tool for Bomb {
    fn name(&self) -> &str {
        "bomb"
    }

    fn run<'a>(
        &'a self,
        _: &'a Map<String, Value>,
        _: ToolContext,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async { panic!("as asked") })
    }
}

#[tokio::test]
async fn a_tool_that_panics_has_failed() {
    let mut tools = Toolbox::default();
    tools.add(Bomb);
    let agent = Assistant::new(Bomber, tools, oip_host::config::Permissions::default());
    let host = TestHost::serving(agent, |_| {}).await;
    let mut client = TestClient::v2(&host).await;
    let frames = client.turn("hello").await;
    let output = &frames[frames.len() - 1];
    assert_eq!(output["result"], r#"Err("the tool panicked")"#);
    assert_eq!(frames[4]["status"], "failed");
}
