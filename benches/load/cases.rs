//! The suite's cases: which scenario, how much of it for a fast and for a slow host, which figures.

use serde_json::Value;

use crate::hosts::Kind;
use crate::options::Options;

/// One figure of a run's JSON line.
pub struct Figure {
    pub label: &'static str,
    /// JSON pointer into the line.
    pub path: &'static str,
    pub unit: &'static str,
    /// Divides the raw value into `unit`.
    pub divisor: f64,
    pub lower_is_better: bool,
}

const fn rate(label: &'static str) -> Figure {
    Figure {
        label,
        path: "/per_s",
        unit: "/s",
        divisor: 1.0,
        lower_is_better: false,
    }
}

const fn time(label: &'static str, path: &'static str, unit: &'static str, divisor: f64) -> Figure {
    Figure {
        label,
        path,
        unit,
        divisor,
        lower_is_better: true,
    }
}

const fn memory(
    label: &'static str,
    path: &'static str,
    unit: &'static str,
    divisor: f64,
) -> Figure {
    Figure {
        label,
        path,
        unit,
        divisor,
        lower_is_better: true,
    }
}

const P50: Figure = time("median", "/latency/p50_us", "ms", 1000.0);
const P99: Figure = time("99th percentile", "/latency/p99_us", "ms", 1000.0);
const CPU: Figure = time("host CPU each", "/host_cpu_us_per_op", "µs", 1.0);
/// KiB to MiB.
const MIB: f64 = 1024.0;

pub struct Case {
    pub name: &'static str,
    pub title: &'static str,
    /// `start` and `rest` are the suite's own; the others are scenarios.
    pub scenario: &'static str,
    pub figures: &'static [Figure],
    shape: fn(&mut Options),
    /// Operations in all and rounds for our host, then for the reference.
    work: [(usize, usize); 2],
}

impl Case {
    /// Whether this host can do it.
    pub fn is_for(&self, kind: Kind) -> bool {
        self.work[usize::from(kind != Kind::Ours)].0 > 0
    }

    /// The run's options for this host; `scale` multiplies the amount of work but not its shape.
    pub fn options(&self, kind: Kind, base: &Options, scale: f64) -> Options {
        let mut o = base.clone();
        o.scenario = self.scenario.into();
        o.label = format!("{} {}", kind.name(), self.name);
        let (count, rounds) = self.work[usize::from(kind != Kind::Ours)];
        (o.count, o.rounds) = (count, rounds);
        (self.shape)(&mut o);
        let scaled = |n: usize| ((n as f64 * scale).round() as usize).max(1);
        // The length of a session decides what its turns cost: only their number may change.
        if matches!(self.scenario, "input" | "stream") {
            o.rounds = scaled(o.rounds);
        } else {
            o.count = scaled(o.count).max(o.concurrency);
        }
        o
    }
}

fn alone(o: &mut Options) {
    o.concurrency = 1;
}

fn crowd(o: &mut Options) {
    o.concurrency = 32;
}

pub const CASES: &[Case] = &[
    Case {
        name: "start",
        title: "start to first CONNECTED",
        scenario: "start",
        figures: &[time("", "/start_s", "ms", 0.001)],
        shape: |_| {},
        work: [(1, 1), (1, 1)],
    },
    Case {
        name: "rest",
        title: "memory at rest",
        scenario: "rest",
        figures: &[memory("", "/host_rss_kb", "MiB", MIB)],
        shape: |_| {},
        work: [(1, 1), (1, 1)],
    },
    Case {
        name: "connect",
        title: "connect, 64 at once",
        scenario: "connect",
        figures: &[rate(""), CPU],
        shape: |o| o.concurrency = 64,
        work: [(10_000, 1), (800, 1)],
    },
    Case {
        name: "connect-sealed",
        title: "connect sealed, one after another",
        scenario: "connect",
        figures: &[rate(""), CPU],
        shape: |o| {
            alone(o);
            o.sealed = true;
        },
        work: [(2_000, 1), (400, 1)],
    },
    Case {
        name: "exec-1x1",
        title: "EXEC, 1 socket, one at a time",
        scenario: "exec",
        figures: &[rate(""), P50, P99],
        shape: |o| {
            alone(o);
            o.depth = 1;
        },
        work: [(20_000, 1), (1_500, 1)],
    },
    Case {
        name: "exec-1x64",
        title: "EXEC, 1 socket, 64 in flight",
        scenario: "exec",
        figures: &[rate(""), CPU],
        shape: alone,
        work: [(60_000, 1), (1_500, 1)],
    },
    Case {
        name: "exec-32x2",
        title: "EXEC, 32 sockets, 2 in flight on each",
        scenario: "exec",
        figures: &[rate(""), CPU, P99],
        shape: |o| {
            crowd(o);
            o.depth = 2;
        },
        work: [(60_000, 1), (1_500, 1)],
    },
    Case {
        name: "exec-sealed-1x64",
        title: "sealed EXEC, 1 socket, 64 in flight",
        scenario: "exec",
        figures: &[rate(""), CPU],
        shape: |o| {
            alone(o);
            o.sealed = true;
        },
        work: [(60_000, 1), (1_500, 1)],
    },
    Case {
        name: "exec-sealed-32x2",
        title: "sealed EXEC, 32 sockets, 2 in flight on each",
        scenario: "exec",
        figures: &[rate(""), CPU],
        shape: |o| {
            crowd(o);
            o.depth = 2;
            o.sealed = true;
        },
        work: [(60_000, 1), (1_500, 1)],
    },
    Case {
        name: "turns-20",
        title: "turns, 1 session of 20",
        scenario: "input",
        figures: &[rate(""), P99],
        shape: alone,
        work: [(20, 40), (20, 5)],
    },
    Case {
        name: "turns-200",
        title: "turns, 1 session of 200",
        scenario: "input",
        figures: &[rate("")],
        shape: |o| {
            alone(o);
            o.duration = 60.0;
        },
        work: [(200, 5), (200, 1)],
    },
    Case {
        name: "turns-32",
        title: "turns, 32 sessions of 20",
        scenario: "input",
        figures: &[rate(""), P99],
        shape: crowd,
        work: [(640, 10), (640, 1)],
    },
    Case {
        name: "stream-1",
        title: "turns of 1,000 events, 1 session",
        scenario: "stream",
        figures: &[rate("")],
        shape: |o| {
            alone(o);
            o.prompt = "stream 1000".into();
        },
        work: [(50, 10), (50, 1)],
    },
    Case {
        name: "stream-32",
        title: "turns of 500 events, 32 sessions",
        scenario: "stream",
        figures: &[rate("")],
        shape: |o| {
            crowd(o);
            o.prompt = "stream 500".into();
        },
        work: [(256, 10), (256, 1)],
    },
    Case {
        name: "ping",
        title: "SESSION_STATUS, 1 socket, 64 in flight",
        scenario: "ping",
        figures: &[rate("")],
        shape: alone,
        work: [(1_000_000, 1), (100_000, 1)],
    },
    Case {
        name: "idle",
        title: "idle sessions (10,000; reference 500)",
        scenario: "idle",
        figures: &[
            memory("memory each", "/host_rss_per_session_kb", "KiB", 1.0),
            Figure {
                label: "connected",
                ..rate_at("/connect_per_s")
            },
        ],
        shape: |o| {
            o.concurrency = 16;
            o.hold = 2.0;
            o.settle = 2.0;
            o.duration = 300.0;
        },
        work: [(10_000, 1), (500, 1)],
    },
    Case {
        name: "stalled",
        title: "a socket that never reads",
        scenario: "stalled",
        figures: &[
            memory("memory, highest growth", "/growth_kb", "MiB", MIB),
            memory("memory kept after it left", "/kept_kb", "MiB", MIB),
            time(
                "others' EXEC without it, 99th percentile",
                "/others_without/latency/p99_us",
                "ms",
                1000.0,
            ),
            time(
                "others' EXEC beside it, 99th percentile",
                "/others_with/latency/p99_us",
                "ms",
                1000.0,
            ),
        ],
        shape: |o| {
            o.concurrency = 4;
            o.hold = 5.0;
        },
        // The agent that floods it is of this package's own: the reference has none like it.
        work: [(60_000, 1), (0, 1)],
    },
];

const fn rate_at(path: &'static str) -> Figure {
    Figure {
        label: "",
        path,
        unit: "/s",
        divisor: 1.0,
        lower_is_better: false,
    }
}

impl Figure {
    /// The figure in a run's line, in its unit.
    pub fn of(&self, line: &Value) -> Option<f64> {
        line.pointer(self.path)?
            .as_f64()
            .map(|raw| raw / self.divisor)
    }
}
