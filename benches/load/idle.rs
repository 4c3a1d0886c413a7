//! `idle`: what a connected session costs while nothing happens.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::Res;
use crate::client::Client;
use crate::oip::Nonces;
use crate::options::Options;
use crate::sessions::{PONG, session};
use crate::stats::{Meter, Proc};

/// Read until told to stop, answering PING. WebSocket pings are answered below us, but
/// only while someone reads: an unread socket is closed by a host that pings it.
async fn stay(
    mut client: Client,
    mut stop: watch::Receiver<bool>,
    pings: Arc<AtomicUsize>,
) -> bool {
    loop {
        let text = tokio::select! {
            _ = stop.changed() => return true,
            text = client.recv() => text,
        };
        match text {
            Err(_) => return false,
            Ok(text) if text.contains("\"PING\"") => {
                pings.fetch_add(1, Ordering::Relaxed);
                if client.send(PONG).await.is_err() {
                    return false;
                }
            }
            Ok(_) => {}
        }
    }
}

pub async fn idle(o: &Options) -> Res<Value> {
    let before = o.host_pid.map(Proc::of).unwrap_or_default();
    let own_before = Proc::of(std::process::id());
    let gate = Arc::new(Semaphore::new(o.concurrency));
    let (stop, stopped) = watch::channel(false);
    let (report, mut reports) = mpsc::unbounded_channel::<Result<(), String>>();
    let pings = Arc::new(AtomicUsize::new(0));
    let mut nonces = Nonces::new();
    let mut set: JoinSet<bool> = JoinSet::new();
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs_f64(o.duration);
    for i in 0..o.count {
        let (o, gate, nonce, turn) = (o.clone(), gate.clone(), nonces.take(), nonces.take());
        let (stopped, report, pings) = (stopped.clone(), report.clone(), pings.clone());
        set.spawn(async move {
            let opened: Res<Client> = async {
                let _slot = gate.acquire().await;
                if Instant::now() > deadline {
                    return Err("out of time".into());
                }
                let mut client = session(&o, i, &nonce).await?;
                if o.warm {
                    let frame = o.identity(i).input(&o.to, turn, "0", &o.prompt, o.lean);
                    client.send(frame.into()).await?;
                    client.until("OUTPUT").await?;
                }
                Ok(client)
            }
            .await;
            match opened {
                Ok(client) => {
                    let _ = report.send(Ok(()));
                    stay(client, stopped, pings).await
                }
                Err(e) => {
                    let _ = report.send(Err(e.to_string()));
                    false
                }
            }
        });
    }
    drop(report);
    let (mut held, mut errors, mut first_error) = (0usize, 0usize, None);
    for _ in 0..o.count {
        match reports.recv().await {
            Some(Ok(())) => held += 1,
            Some(Err(e)) => {
                errors += 1;
                first_error.get_or_insert(e);
            }
            None => break,
        }
    }
    let connect_s = begin.elapsed().as_secs_f64();
    let connected = o.host_pid.map(Proc::of).unwrap_or_default();
    let own_after = Proc::of(std::process::id());
    tokio::time::sleep(Duration::from_secs_f64(o.settle)).await;
    let after = o.host_pid.map(Proc::of).unwrap_or_default();
    let pings_before = pings.load(Ordering::Relaxed);
    let meter = Meter::start(o.host_pid);
    tokio::time::sleep(Duration::from_secs_f64(o.hold)).await;
    let hold = meter.report(held as u64, None);
    stop.send_replace(true);
    let mut alive = 0;
    while let Some(up) = set.join_next().await {
        alive += usize::from(up?);
    }
    let per = |kb: u64, base: u64| {
        (kb.saturating_sub(base) as f64 / held.max(1) as f64 * 100.0).round() / 100.0
    };
    Ok(json!({
        "asked": o.count, "held": held, "alive_after_hold": alive, "errors": errors,
        "first_error": first_error, "warm": o.warm,
        "connect_s": (connect_s * 100.0).round() / 100.0,
        "connect_per_s": (held as f64 / connect_s * 10.0).round() / 10.0,
        "host_rss_before_kb": before.rss_kb, "host_rss_after_kb": after.rss_kb,
        "host_rss_per_session_kb": per(after.rss_kb, before.rss_kb),
        "host_threads": after.threads,
        "host_cpu_us_per_connect": connected.cpu_us.saturating_sub(before.cpu_us) / held.max(1) as u64,
        "gen_rss_per_session_kb": per(own_after.rss_kb, own_before.rss_kb),
        "hold_s": o.hold, "pings_in_hold": pings.load(Ordering::Relaxed) - pings_before,
        "host_cpu_pct_hold": hold["host_cpu_pct"], "host_rss_end_kb": hold["host_rss_kb"],
        "others_cpu_pct": hold["others_cpu_pct"],
    }))
}
