//! `stalled`: one socket starts a long turn and never reads. What does it cost the host, and the others?

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

use crate::Res;
use crate::client::Client;
use crate::commands;
use crate::oip::Nonces;
use crate::options::Options;
use crate::sessions::session;
use crate::stats::Proc;

/// How often resident memory is read while the socket is stalled.
const SAMPLE: Duration = Duration::from_millis(50);

/// Reads the host's resident memory in the background until it is told to stop; returns the highest KiB.
struct Peak {
    task: JoinHandle<()>,
    highest: Arc<AtomicU64>,
}

impl Peak {
    fn watch(pid: u32) -> Self {
        let highest = Arc::new(AtomicU64::new(0));
        let seen = highest.clone();
        let task = tokio::spawn(async move {
            loop {
                seen.fetch_max(Proc::of(pid).rss_kb, Ordering::Relaxed);
                tokio::time::sleep(SAMPLE).await;
            }
        });
        Peak { task, highest }
    }

    fn stop(self) -> u64 {
        self.task.abort();
        self.highest.load(Ordering::Relaxed)
    }
}

/// Latency of EXEC on the other sockets, one command at a time on each, for about `--hold` seconds.
async fn others(o: &Options) -> Res<Value> {
    let mut o = o.clone();
    o.depth = 1;
    o.duration = o.hold;
    let out = commands::exec(&o).await?;
    Ok(json!({"per_s": out["per_s"], "latency": out["latency"], "errors": out["errors"]}))
}

pub async fn stalled(o: &Options) -> Res<Value> {
    let pid = o.host_pid.ok_or("stalled needs --host-pid")?;
    let without = others(o).await?;
    let before = Proc::of(pid).rss_kb;

    let mut nonces = Nonces::new();
    let mut client: Client = session(o, 0, &nonces.take()).await?;
    let input = o
        .identity(0)
        .input(&o.to, nonces.take(), "stalled", &o.stalled_prompt, o.lean);
    client.send(input.into()).await?;
    // From here on nobody reads this socket.
    let peak = Peak::watch(pid);
    let begun = Instant::now();
    let with = others(o).await?;
    let rest = Duration::from_secs_f64(o.hold).saturating_sub(begun.elapsed());
    tokio::time::sleep(rest).await;
    let stalled = Proc::of(pid).rss_kb;
    let highest = peak.stop().max(stalled);

    drop(client);
    tokio::time::sleep(Duration::from_secs_f64(o.settle.max(2.0))).await;
    let after = Proc::of(pid).rss_kb;
    Ok(json!({
        "prompt": o.stalled_prompt, "hold_s": o.hold,
        "host_rss_before_kb": before, "host_rss_stalled_kb": stalled,
        "host_rss_peak_kb": highest, "host_rss_after_kb": after,
        "growth_kb": highest.saturating_sub(before),
        "kept_kb": after.saturating_sub(before),
        "others_without": without, "others_with": with,
    }))
}
