//! A host in a process of its own, to be killed or measured.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use oip_host::agent::{Agent, AgentError, BoxFuture, Finished, Profile, Reason, ToolError, Turn};
use oip_host::config::Bytes;
use oip_host::host::Host;
use oip_host::identity::Address;
use serde_json::{Map, Value, json};

use super::Person;
use super::host::defaults;

const FOLDER: &str = "OIP_TEST_HOST";
/// The hosts of one folder are one person.
pub const PERSON: Person = Person::numbered(u64::MAX);
/// What one turn may hold in memory there.
pub const TURN_LOG: u64 = 8 << 20;

/// The other process; killed when it is dropped.
pub struct ChildHost {
    process: Child,
    pub socket: SocketAddr,
}

impl ChildHost {
    /// Serve [`Flood`] in `folder`.
    pub fn start(folder: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["common::child::serve", "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("> ").map(str::to_owned));
        Self {
            process,
            socket: said.unwrap().parse().unwrap(),
        }
    }

    pub fn address(&self) -> Address {
        PERSON.address()
    }

    /// End it as a power cut would.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Bytes of memory it has.
    pub fn resident(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.process.id());
        let text = std::fs::read_to_string(path).unwrap();
        let pages = text.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        pages * 4096
    }
}

impl Drop for ChildHost {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test but what the other process runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let mut config = defaults();
    config.limits.turn_log_bytes = Bytes(TURN_LOG);
    let host = Host::builder(Path::new(&folder))
        .config(config)
        .identity(PERSON.identity())
        .agent(Flood)
        .start()
        .await
        .unwrap();
    println!("\n> {}", host.socket_address());
    std::future::pending::<()>().await;
}

/// An agent that does what is hard on a host: `flood N BYTES` streams N events of that size, `wait`
/// calls a tool and never ends. To anything else it says what was said.
pub struct Flood;

impl Agent for Flood {
    fn profile(&self) -> Profile {
        Profile {
            model: "flood".into(),
            tools: Vec::new(),
        }
    }

    fn run<'a>(&'a self, turn: &'a mut Turn) -> BoxFuture<'a, Result<Finished, AgentError>> {
        Box::pin(async move {
            let prompt = turn.input().prompt.clone();
            let mut words = prompt.split(' ');
            match words.next() {
                Some("flood") => {
                    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
                    let (count, bytes) = (number(), number());
                    let event = json!({"type": "thinking", "content": "x".repeat(bytes)});
                    for _ in 0..count {
                        turn.events().emit(&event);
                        tokio::task::yield_now().await;
                    }
                }
                Some("wait") => {
                    turn.stored().await;
                    turn.events().record(
                        &json!({"type": "tool_call", "tool_id": "t-1", "name": "wait", "args": {}}),
                    );
                    std::future::pending::<()>().await;
                }
                _ => {}
            }
            turn.message(&json!({"role": "assistant", "content": prompt, "id": "a"}));
            turn.events().record(
                &json!({"type": "turn_result", "turn": turn.number(), "reason": "natural", "usage": null}),
            );
            Ok(Finished {
                result: prompt,
                reason: Reason::Natural,
            })
        })
    }

    fn exec<'a>(
        &'a self,
        tool: &'a str,
        _: Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        Box::pin(async move { Err(ToolError::Unknown(tool.to_owned())) })
    }

    fn may_exec(&self, _: &str, _: &Map<String, Value>) -> Result<(), String> {
        Ok(())
    }
}
