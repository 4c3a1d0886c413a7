//! The suite: every case on every host, in turns, each run on a host started for it.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Duration;

use crate::cases::{CASES, Case};
use crate::hosts::{self, Host, Kind};
use crate::options::{Options, Suite};
use crate::report;
use crate::stats::Proc;
use crate::{Res, scenario};

/// Identities of the generator; sockets use them in turn.
const IDENTITIES: u64 = 32;
/// A run stops sending after so many seconds, so that a slow host does not hold up the suite.
const RUN_SECONDS: f64 = 12.0;
/// How long a host is left alone before its memory at rest is read.
const REST: Duration = Duration::from_secs(2);

/// The lines of all runs, by case and host.
pub type Lines = HashMap<(&'static str, &'static str), Vec<Value>>;

pub async fn run(suite: &Suite, given: &Options) -> Res<()> {
    let chosen: Vec<&Case> = CASES
        .iter()
        .filter(|c| {
            suite.only.is_empty() || suite.only.iter().any(|part| c.name.contains(part.as_str()))
        })
        .collect();
    if suite.list || chosen.is_empty() {
        for case in CASES {
            println!("{:18} {}", case.name, case.title);
        }
        return if suite.list {
            Ok(())
        } else {
            Err("--only names no case".into())
        };
    }
    let python = if suite.hosts.iter().all(|&kind| kind == Kind::Ours) {
        None
    } else {
        Some(hosts::python()?)
    };
    let base = Options {
        identities: IDENTITIES,
        duration: RUN_SECONDS,
        ..given.clone()
    };
    let (mut lines, mut failures) = (Lines::new(), 0);
    for case in &chosen {
        for number in 1..=suite.runs {
            for &kind in suite.hosts.iter().filter(|&&kind| case.is_for(kind)) {
                progress(&format!(
                    "{} {number}/{} {}",
                    case.name,
                    suite.runs,
                    kind.name()
                ));
                let mut o = case.options(kind, &base, suite.scale);
                // A host that does not start ends the suite: nothing would come of the rest.
                let host = Host::start(kind, python.as_deref(), &o).await?;
                match one(case, &host, &mut o).await {
                    Ok(mut line) => {
                        line["case"] = case.name.into();
                        line["host"] = kind.name().into();
                        if suite.json {
                            println!("{line}");
                        }
                        lines
                            .entry((case.name, kind.name()))
                            .or_default()
                            .push(line);
                    }
                    Err(e) => {
                        failures += 1;
                        progress("");
                        eprintln!("load: {} on {}: {e}", case.name, kind.name());
                    }
                }
            }
        }
    }
    progress("");
    if !suite.json {
        print!("{}", report::markdown(&chosen, &lines, suite));
    }
    match failures {
        0 => Ok(()),
        n => Err(format!("{n} runs failed").into()),
    }
}

/// One line that replaces itself, if somebody is watching.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

/// One run of one case on a host of its own.
async fn one(case: &Case, host: &Host, o: &mut Options) -> Res<Value> {
    o.authority = host.authority.clone();
    o.to = host.address.clone();
    o.host_pid = Some(host.pid());
    match case.scenario {
        "start" => Ok(json!({"start_s": host.start_s})),
        "rest" => {
            tokio::time::sleep(REST).await;
            Ok(json!({"host_rss_kb": Proc::of(host.pid()).rss_kb}))
        }
        _ => scenario(o).await,
    }
}
