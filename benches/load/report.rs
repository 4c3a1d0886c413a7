//! Medians and ratios as a Markdown table.

use std::fmt::Write;
use std::fs;

use crate::cases::{Case, Figure};
use crate::hosts::Kind;
use crate::options::Suite;
use crate::suite::Lines;

/// The generator's share of one core, in percent, from which it is likely to be the limit.
const GENERATOR_BOUND: f64 = 90.0;

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
    }
}

fn figure(lines: &Lines, case: &Case, kind: Kind, figure: &Figure) -> Option<f64> {
    let runs = lines.get(&(case.name, kind.name()))?;
    median(runs.iter().filter_map(|line| figure.of(line)).collect())
}

/// Three significant digits, thousands separated.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if value.abs() < 1000.0 {
        return text;
    }
    let mut out = String::new();
    for (i, digit) in text.chars().enumerate() {
        if i > 0 && (text.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How many times better `ours` is.
fn ratio(ours: Option<f64>, theirs: Option<f64>, lower_is_better: bool) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours > 0.0 && theirs > 0.0 => {
            let times = if lower_is_better {
                theirs / ours
            } else {
                ours / theirs
            };
            format!("{}×", number(times))
        }
        _ => "".into(),
    }
}

/// The table. Ratios are given when our host comes first.
pub fn markdown(cases: &[&Case], lines: &Lines, suite: &Suite) -> String {
    let kinds = &suite.hosts;
    let compared = kinds.len() > 1 && kinds[0] == Kind::Ours;
    let mut out = String::new();
    let _ = writeln!(out, "{}. Medians of {} runs.\n", machine(), suite.runs);
    let names: Vec<String> = kinds.iter().map(|k| k.name().to_string()).collect();
    let mut header = names.clone();
    if compared {
        header.extend(names[1..].iter().map(|name| format!("ours to {name}")));
    }
    let _ = writeln!(out, "| scenario | {} |", header.join(" | "));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(header.len()));
    let mut bound = false;
    for case in cases {
        let mark = if generator_bound(lines, case) {
            " †"
        } else {
            ""
        };
        bound |= !mark.is_empty();
        for f in case.figures {
            let label = if f.label.is_empty() {
                String::new()
            } else {
                format!(": {}", f.label)
            };
            let _ = write!(out, "| {}{label}{mark} ", case.title);
            let values: Vec<Option<f64>> =
                kinds.iter().map(|&k| figure(lines, case, k, f)).collect();
            for value in &values {
                let cell = value.map_or("–".into(), |v| format!("{} {}", number(v), f.unit));
                let _ = write!(out, "| {cell} ");
            }
            if compared {
                for &theirs in &values[1..] {
                    let _ = write!(out, "| {} ", ratio(values[0], theirs, f.lower_is_better));
                }
            }
            out.push_str("|\n");
        }
    }
    if compared {
        out.push_str("\nRatios say how many times better ours is: rates ours by theirs, times and memory theirs by ours.\n");
    }
    if bound {
        out.push_str(
            "† The generator used its whole core on our host: the host's limit is higher.\n",
        );
    }
    out
}

/// Whether the generator, not the host, set the pace against our host.
fn generator_bound(lines: &Lines, case: &Case) -> bool {
    let runs = lines.get(&(case.name, Kind::Ours.name()));
    let shares = runs.into_iter().flatten();
    median(shares.filter_map(|l| l["gen_cpu_pct"].as_f64()).collect())
        .is_some_and(|share| share >= GENERATOR_BOUND)
}

/// CPU model and count, memory.
fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, |n| n.get());
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text
            .lines()
            .find(|l| l.starts_with(name))
            .map(str::to_string);
        line.and_then(|l| l.split_once(':').map(|(_, v)| v.trim().to_string()))
    };
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".into());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|v| v.split(' ').next()?.parse::<f64>().ok())
        .map_or("unknown".into(), |kib| {
            format!("{:.0} GiB", kib / 1048576.0)
        });
    format!("{cpus} CPUs ({model}), {memory} of memory, loopback")
}
