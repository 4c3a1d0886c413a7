//! Our host with an agent that sends more than anybody reads: 2,000 events of 100 KB for each prompt.

use std::path::Path;

use oip_host::agent::{
    Agent, AgentError, BoxFuture, Finished, Profile, Reason, ToolError, Turn, demo,
};
use oip_host::config::{Config, Permissions};
use oip_host::host::Host;
use oip_host::trust::Policy;
use serde_json::{Map, Value, json};

use crate::Res;

/// Starts this program as the host: followed by its folder and port.
pub const ARGUMENT: &str = "--flood-host";

const EVENTS: usize = 2_000;
const EVENT_BYTES: usize = 100_000;

pub fn serve(args: &[String]) -> Res<()> {
    let [folder, port] = args else {
        return Err(format!("{ARGUMENT} FOLDER PORT").into());
    };
    let config = Config {
        port: port.parse()?,
        trust: Policy::Open,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let agent = Flood(demo::agent(Permissions::default()));
        let _host = Host::builder(Path::new(folder))
            .config(config)
            .agent(agent)
            .start()
            .await?;
        std::future::pending().await
    })
}

/// The demo agent, except that it answers `flood` with what it takes to fill any buffer.
struct Flood<A>(A);

impl<A: Agent> Agent for Flood<A> {
    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn run<'a>(&'a self, turn: &'a mut Turn) -> BoxFuture<'a, Result<Finished, AgentError>> {
        if turn.input().prompt != "flood" {
            return self.0.run(turn);
        }
        Box::pin(async move {
            let content = "x".repeat(EVENT_BYTES);
            for _ in 0..EVENTS {
                turn.events()
                    .emit(&json!({"type": "thinking", "content": content}));
                tokio::task::yield_now().await;
            }
            Ok(Finished {
                result: "flooded".into(),
                reason: Reason::Natural,
            })
        })
    }

    fn exec<'a>(
        &'a self,
        tool: &'a str,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        self.0.exec(tool, args)
    }

    fn may_exec(&self, tool: &str, args: &Map<String, Value>) -> Result<(), String> {
        self.0.may_exec(tool, args)
    }
}
