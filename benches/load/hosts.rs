//! The hosts under test, each started in its own temporary folder on a free port.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::connect;
use crate::options::Options;
use crate::{Res, host_address};

/// A host that has not answered after this long is given up.
const START_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The `oip` binary of this package.
    Ours,
    /// connectonion as shipped, with an agent without plugins.
    Reference,
    /// connectonion without its recovery phrase on disk and without console lines.
    Tuned,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Reference => "reference",
            Kind::Tuned => "tuned",
        }
    }

    pub fn parse(name: &str) -> Res<Kind> {
        [Kind::Ours, Kind::Reference, Kind::Tuned]
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or(format!("unknown host {name:?}").into())
    }
}

/// A running host. Ends with the value.
pub struct Host {
    child: Child,
    folder: tempfile::TempDir,
    pub authority: String,
    pub address: String,
    /// Seconds from spawning the process to the first CONNECTED.
    pub start_s: f64,
}

impl Host {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Start a host that admits the generator's identities, and wait for its first CONNECTED.
    pub async fn start(kind: Kind, python: Option<&Path>, run: &Options) -> Res<Host> {
        let folder = tempfile::tempdir()?;
        prepare(folder.path(), run)?;
        let port = free_port()?;
        let mut command = match (kind, python) {
            (Kind::Ours, _) if run.scenario == "stalled" => flood(folder.path(), port)?,
            (Kind::Ours, _) => ours(folder.path(), port),
            (_, Some(python)) => reference(python, folder.path(), port, kind, run),
            (_, None) => return Err("the reference host needs a Python with connectonion".into()),
        };
        let log = File::create(folder.path().join("host.log"))?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let spawned = Instant::now();
        let child = command
            .spawn()
            .map_err(|e| format!("{}: {:?}: {e}", kind.name(), command.get_program()))?;
        let mut host = Host {
            child,
            folder,
            authority: format!("127.0.0.1:{port}"),
            address: String::new(),
            start_s: 0.0,
        };
        host.ready(kind, run, spawned).await?;
        Ok(host)
    }

    async fn ready(&mut self, kind: Kind, run: &Options, spawned: Instant) -> Res<()> {
        let mut probe = run.clone();
        probe.authority = self.authority.clone();
        probe.sealed = false;
        probe.to = String::new();
        // Short waits, so that a host that has ended is noticed at once.
        probe.duration = 0.5;
        loop {
            let tried = connect::wait(&probe).await;
            if tried.is_ok() {
                self.start_s = spawned.elapsed().as_secs_f64();
                self.address = host_address(&self.authority).await?;
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(
                    format!("{} host ended ({status}): {}", kind.name(), self.log_tail()).into(),
                );
            }
            if let Err(e) = tried
                && spawned.elapsed() > START_LIMIT
            {
                return Err(format!(
                    "{} host did not answer: {e}: {}",
                    kind.name(),
                    self.log_tail()
                )
                .into());
            }
        }
    }

    /// The last lines that the host printed.
    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("host.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Nothing to do about a host that cannot be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Write the trust list and the EXEC whitelist, the same for every host.
fn prepare(folder: &Path, run: &Options) -> Res<()> {
    let co = folder.join(".co");
    fs::create_dir(&co)?;
    let addresses: Vec<String> = (0..run.identities as usize)
        .map(|i| run.identity(i).address + "\n")
        .collect();
    fs::write(co.join("whitelist.txt"), addresses.concat())?;
    fs::write(
        co.join("host.yaml"),
        "name: stub-agent\npermissions:\n  echo_tool:\n    allowed: true\n    source: config\n",
    )?;
    Ok(())
}

fn ours(folder: &Path, port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oip"));
    command
        .args([
            "serve",
            "--trust",
            "open",
            "--port",
            &port.to_string(),
            "--dir",
        ])
        .arg(folder)
        // Keys and settings of the user must not leak in.
        .env("HOME", folder);
    command
}

/// This program again, as a host whose agent floods its callers.
fn flood(folder: &Path, port: u16) -> Res<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg(crate::flood::ARGUMENT)
        .arg(folder)
        .arg(port.to_string());
    Ok(command)
}

/// As shipped, with the plugins and logs an agent has by default; but parallel turns with one prompt fail over
/// its own log files, so those, and the tuned one always, run without.
fn reference(python: &Path, folder: &Path, port: u16, kind: Kind, run: &Options) -> Command {
    let parallel_turns = run.concurrency > 1 && matches!(run.scenario.as_str(), "input" | "stream");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/reference_host.py");
    let mut command = Command::new(python);
    command
        .arg(script)
        .args(["--trust", "open", "--port", &port.to_string(), "--dir"])
        .arg(folder);
    if kind == Kind::Tuned {
        command.arg("--tuned");
    }
    if kind == Kind::Tuned || parallel_turns {
        command.arg("--plain");
    }
    command
}

/// The Python that has the reference package; `tests/peers` installs it on the first call.
pub fn python() -> Res<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
    let done = Command::new(&script)
        .output()
        .map_err(|e| format!("{}: {e}", script.display()))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().into());
    }
    Ok(PathBuf::from(String::from_utf8(done.stdout)?.trim()))
}

/// A port that was free a moment ago.
fn free_port() -> Res<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
