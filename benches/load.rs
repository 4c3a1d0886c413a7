//! Load driver: `cargo bench --bench load -- --help`.
//!
//! Without a scenario it starts our host and the reference host (connectonion, from `tests/peers`), runs every
//! case on each in turns, and prints a table. With one it measures a host that is already there and prints one
//! JSON line.

#[path = "load/cases.rs"]
mod cases;
#[path = "load/client.rs"]
mod client;
#[path = "load/commands.rs"]
mod commands;
#[path = "load/connect.rs"]
mod connect;
#[path = "load/flood.rs"]
mod flood;
#[path = "load/hosts.rs"]
mod hosts;
#[path = "load/idle.rs"]
mod idle;
#[path = "load/oip.rs"]
mod oip;
#[path = "load/options.rs"]
mod options;
#[path = "load/report.rs"]
mod report;
#[path = "load/seal.rs"]
mod seal;
#[path = "load/sessions.rs"]
mod sessions;
#[path = "load/stalled.rs"]
mod stalled;
#[path = "load/stats.rs"]
mod stats;
#[path = "load/suite.rs"]
mod suite;
#[path = "load/turns.rs"]
mod turns;

use serde_json::Value;

use options::{CommandLine, HELP, Options};

pub type Res<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Run one scenario against one host; its figures as one JSON object.
async fn scenario(o: &Options) -> Res<Value> {
    let mut line = match o.scenario.as_str() {
        "connect" => connect::connect(o).await?,
        "wait" => return connect::wait(o).await,
        "exec" => commands::exec(o).await?,
        "ping" => commands::ping(o).await?,
        "input" | "stream" => turns::input(o).await?,
        "idle" => idle::idle(o).await?,
        "stalled" => stalled::stalled(o).await?,
        other => return Err(format!("unknown scenario {other:?}\n\n{HELP}").into()),
    };
    line["scenario"] = o.scenario.clone().into();
    line["concurrency"] = o.concurrency.into();
    if o.sealed {
        line["sealed"] = true.into();
    }
    if !o.label.is_empty() {
        line["label"] = o.label.clone().into();
    }
    Ok(line)
}

async fn run(command: CommandLine) -> Res<()> {
    let mut o = command.run;
    match o.scenario.as_str() {
        "" => return suite::run(&command.suite, &o).await,
        "addresses" => {
            for i in 0..o.identities as usize {
                println!("{}", o.identity(i).address);
            }
            return Ok(());
        }
        "wait" => {}
        _ if o.to.is_empty() && !o.bare => o.to = host_address(&o.authority).await?,
        _ => {}
    }
    println!("{}", scenario(&o).await?);
    Ok(())
}

/// The host's address, as its /info says.
pub async fn host_address(authority: &str) -> Res<String> {
    let info: Value = serde_json::from_str(&client::http_get(authority, "/info").await?)?;
    Ok(info["address"]
        .as_str()
        .ok_or("/info names no address")?
        .to_string())
}

fn start() -> Res<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` starts this without arguments: nothing to test here.
    if args.is_empty() {
        return Ok(());
    }
    if args[0] == flood::ARGUMENT {
        return flood::serve(&args[1..]);
    }
    let Some(command) = options::parse(args.into_iter())? else {
        print!("{HELP}");
        return Ok(());
    };
    // Hosts started here inherit the limit.
    rlimit::increase_nofile_limit(u64::MAX)?;
    let mut builder = if command.threads > 1 {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(command.threads);
        builder
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build()?.block_on(run(command))
}

fn main() {
    if let Err(e) = start() {
        eprintln!("load: {e}");
        std::process::exit(1);
    }
}
