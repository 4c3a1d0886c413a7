//! `.co/host.yaml` and command-line flags become one checked [`Config`].
//!
//! Every key is declared once, in the tables below, with its type, its default and its
//! explanation; the file that `oip init` writes and `docs/configuration.md` come from them too.

mod file;
mod permissions;
mod setting;
mod table;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::trust::Policy;
pub use file::ConfigError;
pub use permissions::{Denied, Permission, Permissions};
pub use setting::Bytes;
use table::{Entry, settings};
pub use table::{example, reference};

settings! {
    /// What a host runs with.
    pub struct Config, file ConfigFile {
        /// The agent's name, as people see it.
        name: String = "stub-agent".to_string();
        /// The model that answers. `demo` is built in and needs no key and no network.
        model: String = "demo".to_string();
        /// Who may enter: `open` (everybody who can sign), `careful` (contacts, the whitelist and
        /// admins) or `strict` (the whitelist and admins). The lists are `admins.txt`,
        /// `whitelist.txt`, `contacts.txt` and `blocklist.txt` beside this file, one address or
        /// pattern with `*` a line.
        trust: Policy = Policy::Careful;
        /// The TCP port. 0 takes a free one.
        port: u16 = 8000;
        /// The address to listen on. `0.0.0.0` is every network this machine is in.
        bind: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
        /// What the agent does, for people who look it up.
        summary: Option<String> = None;
        /// Where used signatures are remembered: `sqlite` (survives a restart) or `memory`.
        replay: Replay = Replay::Sqlite;
        /// How long a finished session is kept.
        result_ttl: Duration = Duration::from_secs(24 * 3600);
        /// How long a session that nobody watches stays in memory.
        session_idle: Duration = Duration::from_secs(600);
        /// The longest a turn may take.
        turn_timeout: Duration = Duration::from_secs(3600);
        /// How long running turns may go on when the host is told to stop.
        drain_timeout: Duration = Duration::from_secs(10);
        /// The largest file or image of a message, in megabytes of 1024 × 1024 bytes.
        max_file_size: u32 = 10;
        /// The most files, and the most images, in one message.
        max_files_per_request: u32 = 10;
        /// Which tools may run without asking, directly called ones among them: a tool's name and
        /// `true` or `false`, or `{allowed, when: {argument: pattern}, reason}`. A `false` that
        /// fits beats every `true`. Without an entry a direct call is refused.
        permissions: Permissions = Permissions::default();
        /// What one client may take from the others.
        limits: Limits = Limits::default();
    }
    ignored {
        workers: "one process serves everything";
        reload: "restart the host to change its code";
        relay_url: "this host does not announce itself to a relay yet";
        rem: "pages of rem are not served";
        listen: "chat channels are not answered";
        examples: "example prompts are not published";
        directory: "this host is in no directory";
        control_center: "there is no control center";
        whitelist: "put the addresses in .co/whitelist.txt";
    }
}

settings! {
    /// What one client may take from the others.
    pub struct Limits, file LimitsFile {
        /// New sockets accepted a second from one network address.
        connections_per_second: u32 = 64;
        /// Sockets that have not said who they are, from one network address.
        unauthenticated_sockets: u32 = 1024;
        /// The largest frame before CONNECT was accepted. A CONNECT carries the client's whole
        /// session.
        unauthenticated_frame: Bytes = Bytes(32 << 20);
        /// What all sockets before CONNECT may hold together.
        unauthenticated_total: Bytes = Bytes(256 << 20);
        /// The largest frame after CONNECT.
        frame: Bytes = Bytes(256 << 20);
        /// How long a new socket may stay silent.
        first_frame_timeout: Duration = Duration::from_secs(10);
        /// How many bytes of events one turn may keep for viewers that come later.
        turn_log_bytes: Bytes = Bytes(32 << 20);
        /// Direct tool calls that run at once on one socket.
        exec_concurrency: u32 = 64;
    }
    ignored {}
}

/// Where used signatures are remembered until they expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// `.co/replay.sqlite3`: a signature stays used across a restart.
    Sqlite,
    /// Forgotten when the host stops.
    Memory,
}

/// What the command line says; it beats the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--port`.
    pub port: Option<u16>,
    /// `--bind`.
    pub bind: Option<IpAddr>,
    /// `--trust`.
    pub trust: Option<Policy>,
    /// `--model`.
    pub model: Option<String>,
    /// `--name`.
    pub name: Option<String>,
}

/// A configuration and what is to be said about it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration in force.
    pub config: Config,
    /// The file it came from, `None` when there is none and everything is a default.
    pub file: Option<PathBuf>,
    /// Keys that mean something to other hosts and nothing here, one sentence each.
    pub warnings: Vec<String>,
}

impl Config {
    /// The configuration of the project in `dir`: the defaults, then `dir/.co/host.yaml` if there
    /// is one, then `overrides`.
    pub fn load(dir: &Path, overrides: Overrides) -> Result<Loaded, ConfigError> {
        let mut loaded = file::load(&dir.join(".co").join("host.yaml"))?;
        let config = &mut loaded.config;
        let Overrides {
            port,
            bind,
            trust,
            model,
            name,
        } = overrides;
        set(&mut config.port, port);
        set(&mut config.bind, bind);
        set(&mut config.trust, trust);
        set(&mut config.model, model);
        set(&mut config.name, name);
        Ok(loaded)
    }

    /// What is wrong with values that are right one by one: the key, and what it must be.
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let limits = &self.limits;
        let long = [
            ("session_idle", self.session_idle),
            ("turn_timeout", self.turn_timeout),
            ("first_frame_timeout", limits.first_frame_timeout),
        ];
        let some = [
            ("max_file_size", u64::from(self.max_file_size)),
            (
                "max_files_per_request",
                u64::from(self.max_files_per_request),
            ),
            (
                "connections_per_second",
                u64::from(limits.connections_per_second),
            ),
            (
                "unauthenticated_sockets",
                u64::from(limits.unauthenticated_sockets),
            ),
            ("exec_concurrency", u64::from(limits.exec_concurrency)),
            ("turn_log_bytes", limits.turn_log_bytes.0),
        ];
        let empty = long
            .iter()
            .find(|(_, time)| time.is_zero())
            .map(|(key, _)| *key)
            .or_else(|| some.iter().find(|(_, n)| *n == 0).map(|(key, _)| *key));
        if let Some(key) = empty {
            return Err((key, "must be more than nothing"));
        }
        let (first, total) = (limits.unauthenticated_frame, limits.unauthenticated_total);
        if first.0 < 1 << 10 {
            return Err(("unauthenticated_frame", "must be 1 KiB or more"));
        }
        if total < first {
            return Err((
                "unauthenticated_total",
                "must be unauthenticated_frame or more",
            ));
        }
        if limits.frame < first {
            return Err(("frame", "must be unauthenticated_frame or more"));
        }
        Ok(())
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
