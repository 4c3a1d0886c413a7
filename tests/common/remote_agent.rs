//! The reference package's Python client in a process of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::{Directory, Person, TestHost, python};

/// How long the whole of one client's life may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// A Python process with a RemoteAgent; killed when it is dropped.
pub struct RemoteAgent {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _home: tempfile::TempDir,
    _directory: Directory,
}

/// Who calls, how, and where.
pub struct Caller<'a> {
    host: &'a TestHost,
    /// Where the directory says that the host is.
    pub endpoint: SocketAddr,
    pub person: Option<Person>,
    pub sealed: bool,
}

impl<'a> Caller<'a> {
    pub fn new(host: &'a TestHost, sealed: bool) -> Self {
        Self {
            host,
            endpoint: host.socket(),
            person: Some(Person::new()),
            sealed,
        }
    }

    pub async fn start(&self, steps: Value) -> RemoteAgent {
        let directory = Directory::listing(vec![
            format!("http://{}", self.endpoint),
            format!("ws://{}/ws", self.endpoint),
        ])
        .await;
        let scenario = json!({
            "directory": directory.url,
            "host": self.host.address().to_string(),
            "seed": self.person.map(|person| hex::encode(person.seed())),
            "sealed": self.sealed,
            "steps": steps,
        });
        let home = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/remote_agent.py");
        // No variable of ours: a proxy, a key or a relay named there would be used.
        let mut process = Command::new(python())
            .arg(script)
            .arg(scenario.to_string())
            .env_clear()
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        RemoteAgent {
            process,
            lines,
            _home: home,
            _directory: directory,
        }
    }

    /// The results of all steps.
    pub async fn run(&self, steps: Value) -> Vec<Value> {
        let mut told = Told::default();
        self.start(steps).await.rest(&mut told).await;
        told.results
    }
}

/// All that a client said until it ended.
#[derive(Default)]
pub struct Told {
    pub results: Vec<Value>,
    pub events: Vec<Value>,
}

impl RemoteAgent {
    /// The next line; none when the client has ended well.
    async fn line(&mut self) -> Option<Value> {
        let line = timeout(DEADLINE, self.lines.next_line()).await;
        match line.expect("the client says nothing").unwrap() {
            Some(line) => Some(serde_json::from_str(&line).unwrap()),
            None => {
                let mut complaint = String::new();
                let mut stderr = self.process.stderr.take().unwrap();
                stderr.read_to_string(&mut complaint).await.unwrap();
                assert!(self.process.wait().await.unwrap().success(), "{complaint}");
                None
            }
        }
    }

    /// The lines up to and with the first event of this type.
    pub async fn until(&mut self, kind: &str, told: &mut Told) {
        loop {
            let line = self.line().await.expect("the client has ended");
            let found = line["event"]["type"] == kind;
            told.add(line);
            if found {
                return;
            }
        }
    }

    /// All that is still to come.
    pub async fn rest(&mut self, told: &mut Told) {
        while let Some(line) = self.line().await {
            told.add(line);
        }
    }
}

impl Told {
    fn add(&mut self, line: Value) {
        match line.get("event") {
            Some(event) => self.events.push(event.clone()),
            None => self.results.push(line),
        }
    }
}
