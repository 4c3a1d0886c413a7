//! The command line: what there is to say, and one file for each subcommand.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or cannot start. An error is one line on standard
//! error.

mod call;
mod chat;
mod init;
mod keys;
mod serve;
mod talk;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use oip_host::config::Overrides;
use oip_host::trust::Policy;

/// Host an AI agent for people who reach it over the network, and talk to such agents.
///
/// Without a command it serves, as `oip serve` does.
#[derive(Debug, Parser)]
#[command(name = "oip", version)]
struct Cli {
    /// The project's folder [default: the nearest one with a .co in it, else this one]
    #[arg(long, global = true, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Host the agent of this project
    Serve(ServeArgs),
    /// Make a project here: settings and keys
    Init,
    /// Show or recover the identity of this project
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Talk to an agent
    Chat(ChatArgs),
    /// Run one tool of an agent and print what it answers
    Call(CallArgs),
}

/// Which project a command is about: `--dir`, before or after the command's name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Project {
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[arg(skip)]
    pub(crate) project: Project,
    /// The TCP port, 0 for a free one [default: the file's, else 8000]
    #[arg(long, env = "PORT")]
    pub(crate) port: Option<u16>,
    /// The address to listen on [default: the file's, else 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<IpAddr>,
    /// Who may enter: open, careful or strict [default: the file's, else careful]
    #[arg(long, value_name = "POLICY")]
    pub(crate) trust: Option<Policy>,
    /// The model that answers [default: the file's, else demo]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The agent's name [default: the file's, else stub-agent]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Report as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// The address of this project and where its key is
    Show(ShowArgs),
    /// Make the key again from the recovery phrase, which is read from standard input
    Recover(RecoverArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Print the recovery phrase too: who sees it can act as this agent
    #[arg(long)]
    reveal: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RecoverArgs {
    /// Replace another key; the old one stays beside the new one
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Whom: an address, or the URL of a host
    pub(crate) target: String,
    #[arg(skip)]
    pub(crate) project: Project,
    /// No decoration: the agent's answers and nothing else
    #[arg(long)]
    pub(crate) bare: bool,
    /// Where addresses are looked up [default: only this machine is asked]
    #[arg(long, value_name = "URL", env = "OIP_DIRECTORY")]
    pub(crate) directory: Option<String>,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Whose tool: an address, or the URL of a host
    pub(crate) target: String,
    /// The tool
    pub(crate) tool: String,
    /// Its arguments
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,
    #[arg(skip)]
    pub(crate) project: Project,
    /// Where addresses are looked up [default: only this machine is asked]
    #[arg(long, value_name = "URL", env = "OIP_DIRECTORY")]
    pub(crate) directory: Option<String>,
    /// The whole answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl Project {
    /// The folder: as given, or the nearest one upwards that has a `.co`.
    ///
    /// The way up ends at a repository and at the person's home, whose `.co` belongs to the person
    /// and not to a project. An agent started in a folder below its own is the same agent, with
    /// the same lists.
    pub(crate) fn folder(&self) -> PathBuf {
        let given = self.dir.clone();
        given.unwrap_or_else(|| nearest_project(&here(), std::env::home_dir().as_deref()))
    }

    /// The folder as it was given.
    pub(crate) fn given(&self) -> Option<&Path> {
        self.dir.as_deref()
    }
}

impl ServeArgs {
    const FLAGS: [&str; 6] = ["port", "bind", "trust", "model", "name", "json"];

    /// What beats the file.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            port: self.port,
            bind: self.bind,
            trust: self.trust,
            model: self.model.clone(),
            name: self.name.clone(),
        }
    }
}

fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
}

fn nearest_project(start: &Path, home: Option<&Path>) -> PathBuf {
    for folder in start.ancestors() {
        let is_home = home == Some(folder);
        if folder.join(".co").is_dir() && !is_home {
            return folder.to_path_buf();
        }
        if is_home || folder.join(".git").exists() {
            break;
        }
    }
    start.to_path_buf()
}

/// A failure with exit code 2: the command cannot even start.
#[derive(Debug)]
pub(crate) struct CannotStart(pub(crate) String);

impl fmt::Display for CannotStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotStart {}

/// Parses the arguments and runs the command.
pub(crate) fn main() -> ExitCode {
    let done = parse(std::env::args_os()).map_or_else(|error| error.exit(), run);
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("oip: {error:#}");
            ExitCode::from(if error.is::<CannotStart>() { 2 } else { 1 })
        }
    }
}

fn parse<I, T>(args: I) -> Result<Cli, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<std::ffi::OsString> + Clone,
{
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(args)?;
    // What stands before a command belongs to serving without one, and would be lost.
    let lost = ServeArgs::FLAGS
        .iter()
        .find(|flag| matches.value_source(flag) == Some(ValueSource::CommandLine));
    if let (Some(flag), Some(name)) = (lost, matches.subcommand_name()) {
        let said = format!("--{flag} goes behind the command: oip {name} --{flag} …");
        return Err(command.error(ErrorKind::ArgumentConflict, said));
    }
    Cli::from_arg_matches(&matches)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let project = Project { dir: cli.dir };
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => in_runtime(serve::run(ServeArgs { project, ..args })),
        Command::Init => init::run(&project),
        Command::Keys { command } => match command {
            KeysCommand::Show(args) => keys::show(&project, &args),
            KeysCommand::Recover(args) => keys::recover(&project, &args),
        },
        Command::Chat(args) => in_runtime(chat::run(ChatArgs { project, ..args })),
        Command::Call(args) => in_runtime(call::run(CallArgs { project, ..args })),
    }
}

fn in_runtime(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_is_serve() {
        let cli = parse(["oip", "--port", "0", "--trust", "open", "--dir", "x"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.dir.as_deref(), Some(Path::new("x")));
        assert_eq!(cli.serve.overrides().trust, Some(Policy::Open));
        let cli = parse(["oip", "serve", "--bind", "::1"]).unwrap();
        let Some(Command::Serve(args)) = cli.command else {
            panic!("serve is a command");
        };
        assert_eq!(args.bind, Some("::1".parse().unwrap()));
        assert!(parse(["oip", "--trust", "everyone"]).is_err());
    }

    #[test]
    fn the_folder_may_stand_anywhere_and_other_flags_may_not() {
        for args in [
            &["oip", "--dir", "x", "keys", "show"][..],
            &["oip", "keys", "--dir", "x", "show"],
            &["oip", "keys", "show", "--dir", "x"],
            &["oip", "serve", "--dir", "x"],
        ] {
            assert_eq!(parse(args).unwrap().dir.as_deref(), Some(Path::new("x")));
        }
        for flag in ServeArgs::FLAGS {
            let long = format!("--{flag}");
            let value = match flag {
                "port" => Some("1"),
                "bind" => Some("::1"),
                "json" => None,
                _ => Some("open"),
            };
            let args = ["oip", &long].into_iter().chain(value).chain(["serve"]);
            let said = parse(args).unwrap_err().to_string();
            assert!(said.contains(&format!("oip serve {long}")), "{said}");
        }
    }

    #[test]
    fn a_folder_below_belongs_to_its_project() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let below = home.join("project/a/b");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir_all(home.join(".co")).unwrap();
        assert_eq!(nearest_project(&below, Some(&home)), below);
        std::fs::create_dir_all(home.join("project/.co")).unwrap();
        assert_eq!(nearest_project(&below, Some(&home)), home.join("project"));
        std::fs::create_dir_all(home.join("project/a/.git")).unwrap();
        assert_eq!(nearest_project(&below, Some(&home)), below);
    }
}
