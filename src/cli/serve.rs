//! `oip serve`: one screen that says what is served, where, to whom and what to do next; then lines
//! as things happen, until Ctrl-C.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use oip_host::agent::Agent;
use oip_host::agent::demo;
use oip_host::config::{Config, Loaded};
use oip_host::console::{Console, Event};
use oip_host::host::Host;
use oip_host::identity::keys::{Located, Place, for_project};
use tracing_subscriber::EnvFilter;

use super::{CannotStart, ServeArgs};

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(args.json);
    let folder = args.project.folder();
    let Loaded {
        config, warnings, ..
    } = Config::load(&folder, args.overrides()).map_err(cannot_start)?;
    if config.model != "demo" {
        let model = &config.model;
        return Err(cannot_start(format!(
            "model: {model} is not a model of this host; demo is built in and needs no key"
        ))
        .into());
    }
    let keys = for_project(&folder, std::env::home_dir().as_deref()).map_err(cannot_start)?;
    raise_file_limit();
    let console = if args.json {
        Console::json()
    } else {
        Console::human()
    };
    let agent = demo::agent(config.permissions.clone());
    let tools = agent.profile().tools;
    let host = Host::builder(&folder)
        .config(config.clone())
        .identity(keys.keys.identity.clone())
        .agent(agent)
        .console(console.clone())
        .start()
        .await
        .map_err(|error| cannot_start(hint(error.to_string(), config.port)))?;
    if args.json {
        println!("{}", opening(&host, &config, &folder));
    } else {
        print!("{}", screen(&host, &config, &keys, &tools, &warnings));
    }
    stopped().await?;
    if !args.json {
        let running = host.running_turns();
        let patience = config.drain_timeout.as_secs();
        let notice = match running {
            0 => "stopping".to_owned(),
            n => format!(
                "stopping: {n} running turns get {patience} s (Ctrl-C again to leave at once)"
            ),
        };
        console.emit(Event::Notice(&notice));
    }
    tokio::select! {
        () = host.stop() => Ok(ExitCode::SUCCESS),
        again = stopped() => {
            again?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn cannot_start(why: impl ToString) -> CannotStart {
    CannotStart(why.to_string())
}

/// A taken port is the commonest reason not to start: say what to do about it.
fn hint(error: String, port: u16) -> String {
    if error.contains("in use") {
        format!(
            "{error}; --port {} or PORT=… takes another",
            port.wrapping_add(1)
        )
    } else {
        error
    }
}

/// Diagnostics go to standard error, by RUST_LOG; standard output is the console's.
fn log_to_stderr(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second subscriber in one process is refused; the first one goes on.
    let _ = if json {
        log.json().try_init()
    } else {
        log.try_init()
    };
}

/// Each connection is a file to the system, and its default limit is low.
fn raise_file_limit() {
    if let Err(failed) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%failed, "the limit of open files stays as it is");
    }
}

/// Ctrl-C, or the system asking.
async fn stopped() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

/// How this program is called: `oip` if that finds it, else where it is.
fn program() -> String {
    let Ok(here) = std::env::current_exe() else {
        return "oip".to_owned();
    };
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .map(|folder| folder.join("oip"))
            .find(|candidate| candidate.is_file())
            .is_some_and(|first| first.canonicalize().ok() == here.canonicalize().ok())
    });
    if found {
        return "oip".to_owned();
    }
    let from_here = std::env::current_dir()
        .ok()
        .and_then(|folder| here.strip_prefix(folder).ok().map(Path::to_path_buf));
    from_here.unwrap_or(here).display().to_string()
}

fn urls(host: &Host) -> (String, String) {
    let at = host.socket_address();
    let reach = if at.ip().is_unspecified() {
        format!("127.0.0.1:{}", at.port())
    } else {
        at.to_string()
    };
    (format!("http://{reach}"), format!("ws://{reach}/ws"))
}

fn opening(host: &Host, config: &Config, folder: &Path) -> serde_json::Value {
    let (http, ws) = urls(host);
    serde_json::json!({
        "event": "serving", "name": config.name, "address": host.address(), "http": http, "ws": ws,
        "bind": host.socket_address(), "trust": config.trust.to_string(), "folder": folder,
    })
}

fn screen(
    host: &Host,
    config: &Config,
    keys: &Located,
    tools: &[String],
    warnings: &[String],
) -> String {
    let (http, ws) = urls(host);
    let mut out = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(out, "  {label:<9}{value}");
    };
    let found = match keys.place {
        Place::Project => "this project's key",
        Place::Home => "your own key, from the home folder",
        Place::Generated => {
            "a new key, made just now: `oip keys show --reveal` shows its recovery phrase"
        }
    };
    line("name", &config.name);
    line("address", &host.address().to_string());
    line("key", &format!("{} ({found})", keys.keys.folder.display()));
    line(
        "model",
        &format!("{} · tools {}", config.model, tools.join(", ")),
    );
    line("page", &http);
    line("socket", &ws);
    match host.trust().summary() {
        Ok(summary) => line("trust", &summary.to_string()),
        Err(wrong) => line("trust", &format!("{wrong}: nobody is admitted")),
    }
    line(
        "next",
        &format!(
            "in another terminal, in this folder: {} chat {ws}",
            program()
        ),
    );
    if config.trust != oip_host::trust::Policy::Open {
        line(
            "",
            "let somebody in: echo 0xTHEIR_ADDRESS >> .co/contacts.txt",
        );
    }
    for warning in warnings {
        line("note", warning);
    }
    format!("\noip-host {}\n{out}\n", env!("CARGO_PKG_VERSION"))
}
