//! The command line.

use serde_json::Value;

use crate::Res;
use crate::hosts::Kind;
use crate::oip::Identity;

pub const HELP: &str = "\
cargo bench --bench load -- [suite options]
cargo bench --bench load -- --scenario NAME --url ws://127.0.0.1:PORT/ws [options]

Without --scenario: the whole suite against our host, the reference host and the tuned
reference host, each started here; prints a Markdown table of medians and ratios.

Suite
  --only NAME          only cases whose name contains NAME (may be given several times)
  --runs N             runs of each case and host (3)
  --hosts LIST         hosts to run on (ours,reference,tuned)
  --ours-only          the same as --hosts ours
  --count-scale F      multiply the amount of work of every case (1.0)
  --json               print one JSON line a run instead of the table
  --stalled-prompt T   prompt of the socket that never reads (flood)
  --list               print the cases

Scenarios
  connect     open a socket, signed CONNECT, wait for --until, close; repeated
  exec        pipelined signed EXEC on --concurrency sockets
  input       signed INPUT -> OUTPUT, one turn after another on --concurrency sessions
  stream      like input with a prompt that makes the agent emit events (--prompt 'stream K')
  idle        hold --count connected sessions for --hold seconds, answer PING
  stalled     one socket starts --stalled-prompt and never reads; others EXEC meanwhile
  wait        retry until the first CONNECTED, print the moment (startup time)
  ping        SESSION_STATUS round trips: the protocol without signature or agent
  addresses   print the addresses of the first --identities identities, one a line

Options
  --url URL            ws://HOST:PORT/ws (loopback)
  --to ADDRESS         the host's address; default: ask GET /info
  --concurrency N      sockets or connecting tasks (1)
  --count N            operations in all, over every socket (1000)
  --rounds N           input, stream: repeat with new sessions (1)
  --duration S         stop sending after S seconds even if --count is not reached (30)
  --depth N            exec, ping: unanswered commands kept on each socket (64)
  --bare               connect, idle, ping: WebSocket only, no CONNECT (for an echo server)
  --sealed             do the SEAL handshake on every socket
  --identities N       use N identities round robin (1)
  --identity-seed HEX  32-byte seed of identity 0 (0707...07)
  --until FRAME        connect: CONNECTED (default), AGENT_PROFILE or DASHBOARD_SNAPSHOT
  --tool NAME          exec: tool (echo_tool)
  --args JSON          exec: arguments ({\"text\":\"hello\"})
  --prompt TEXT        input, stream: prompt (hello)
  --warm               idle: run one turn in every session first
  --hold S             idle, stalled: seconds to hold (10)
  --settle S           wait after connecting, before measuring (0.5)
  --lean               leave the unsigned top-level copies out of command frames
  --threads N          generator threads (1)
  --host-pid PID       sample this process and its children
  --label TEXT         copied into the output
";

/// One run of one scenario.
#[derive(Clone)]
pub struct Options {
    pub authority: String,
    pub to: String,
    pub scenario: String,
    pub concurrency: usize,
    pub count: usize,
    pub rounds: usize,
    pub duration: f64,
    pub depth: usize,
    pub bare: bool,
    pub sealed: bool,
    pub identities: u64,
    pub seed: [u8; 32],
    pub until: String,
    pub tool: String,
    pub args: Value,
    pub prompt: String,
    pub stalled_prompt: String,
    pub warm: bool,
    pub hold: f64,
    pub settle: f64,
    pub lean: bool,
    pub host_pid: Option<u32>,
    pub label: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            authority: "127.0.0.1:8000".into(),
            to: String::new(),
            scenario: String::new(),
            concurrency: 1,
            count: 1000,
            rounds: 1,
            duration: 30.0,
            depth: 64,
            bare: false,
            sealed: false,
            identities: 1,
            seed: [7; 32],
            until: "CONNECTED".into(),
            tool: "echo_tool".into(),
            args: serde_json::json!({"text": "hello"}),
            prompt: "hello".into(),
            stalled_prompt: "flood".into(),
            warm: false,
            hold: 10.0,
            settle: 0.5,
            lean: false,
            host_pid: None,
            label: String::new(),
        }
    }
}

impl Options {
    pub fn identity(&self, index: usize) -> Identity {
        Identity::derive(self.seed, index as u64 % self.identities)
    }
}

/// What the suite was asked to do.
#[derive(Clone)]
pub struct Suite {
    pub only: Vec<String>,
    pub runs: usize,
    pub hosts: Vec<Kind>,
    pub scale: f64,
    pub json: bool,
    pub list: bool,
}

pub struct CommandLine {
    pub run: Options,
    pub suite: Suite,
    pub threads: usize,
}

/// Parse the process's arguments. `None`: help was asked for.
pub fn parse(args: impl Iterator<Item = String>) -> Res<Option<CommandLine>> {
    let mut o = Options::default();
    let mut suite = Suite {
        only: Vec::new(),
        runs: 3,
        hosts: vec![Kind::Ours, Kind::Reference, Kind::Tuned],
        scale: 1.0,
        json: false,
        list: false,
    };
    let mut threads = 1;
    let mut args = args;
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--url" => {
                let url = value()?;
                let rest = url.strip_prefix("ws://").ok_or("only ws:// is spoken")?;
                o.authority = rest.split('/').next().unwrap_or(rest).to_string();
            }
            "--to" => o.to = value()?,
            "--scenario" => o.scenario = value()?,
            "--concurrency" => o.concurrency = value()?.parse()?,
            "--count" => o.count = value()?.parse()?,
            "--rounds" => o.rounds = value()?.parse()?,
            "--duration" => o.duration = value()?.parse()?,
            "--depth" => o.depth = value()?.parse()?,
            "--bare" => o.bare = true,
            "--sealed" => o.sealed = true,
            "--identities" => o.identities = value()?.parse()?,
            "--identity-seed" => o.seed = hex_seed(&value()?)?,
            "--until" => o.until = value()?,
            "--tool" => o.tool = value()?,
            "--args" => o.args = serde_json::from_str(&value()?)?,
            "--prompt" => o.prompt = value()?,
            "--stalled-prompt" => o.stalled_prompt = value()?,
            "--warm" => o.warm = true,
            "--hold" => o.hold = value()?.parse()?,
            "--settle" => o.settle = value()?.parse()?,
            "--lean" => o.lean = true,
            "--threads" => threads = value()?.parse()?,
            "--host-pid" => o.host_pid = Some(value()?.parse()?),
            "--label" => o.label = value()?,
            "--only" => suite.only.push(value()?),
            "--runs" => suite.runs = value()?.parse()?,
            "--ours-only" => suite.hosts = vec![Kind::Ours],
            "--hosts" => suite.hosts = value()?.split(',').map(Kind::parse).collect::<Res<_>>()?,
            "--count-scale" => suite.scale = value()?.parse()?,
            "--json" => suite.json = true,
            "--list" => suite.list = true,
            // cargo bench adds this one.
            "--bench" => {}
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown option {other}\n\n{HELP}").into()),
        }
    }
    if o.concurrency == 0 || o.depth == 0 || o.identities == 0 || o.rounds == 0 || suite.runs == 0 {
        return Err("--concurrency, --depth, --identities, --rounds and --runs start at 1".into());
    }
    Ok(Some(CommandLine {
        run: o,
        suite,
        threads,
    }))
}

fn hex_seed(text: &str) -> Res<[u8; 32]> {
    hex::decode(text)?
        .try_into()
        .map_err(|_| "--identity-seed is 64 hex digits".into())
}
