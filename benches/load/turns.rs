//! `input` and `stream`: whole turns, INPUT to OUTPUT, one after another on every session.

use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::Res;
use crate::client::{Client, Head};
use crate::options::Options;
use crate::sessions::{PONG, presign, sessions, us};
use crate::stats::{Meter, latencies};

/// What one socket, and then all of them, saw.
#[derive(Default)]
struct Seen {
    took: Vec<u32>,
    events: u64,
    frames: u64,
    bytes: u64,
    last_output: usize,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.took.extend(other.took);
        self.events += other.events;
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.last_output = self.last_output.max(other.last_output);
    }
}

/// Run every frame as one turn.
async fn turns(client: &mut Client, frames: Vec<Utf8Bytes>, deadline: Instant) -> Res<Seen> {
    let mut seen = Seen::default();
    for frame in frames {
        if Instant::now() > deadline {
            break;
        }
        let started = Instant::now();
        client.send(frame).await?;
        loop {
            let text = client.recv().await?;
            let head: Head = serde_json::from_str(&text)?;
            match &*head.kind {
                "OUTPUT" => {
                    seen.last_output = text.len();
                    break;
                }
                "ERROR" => return Err(text.as_str().into()),
                "PING" => client.send(PONG).await?,
                "thinking" => seen.events += 1,
                _ => {}
            }
            seen.frames += 1;
        }
        seen.took.push(us(started));
    }
    seen.bytes = client.bytes_in;
    Ok(seen)
}

/// `--count` turns over `--concurrency` new sessions; returns what was seen and the seconds it took.
async fn round(o: &Options, frames: Vec<Vec<Utf8Bytes>>) -> Res<(Seen, f64)> {
    let clients = sessions(o, o.concurrency).await?;
    let barrier = Arc::new(Barrier::new(o.concurrency + 1));
    let mut set: JoinSet<Res<(Seen, Instant)>> = JoinSet::new();
    for (mut client, frames) in clients.into_iter().zip(frames) {
        let (barrier, duration) = (barrier.clone(), o.duration);
        set.spawn(async move {
            barrier.wait().await;
            let deadline = Instant::now() + Duration::from_secs_f64(duration);
            let seen = turns(&mut client, frames, deadline).await?;
            Ok((seen, Instant::now()))
        });
    }
    barrier.wait().await;
    let begin = Instant::now();
    let (mut all, mut last) = (Seen::default(), begin);
    while let Some(done) = set.join_next().await {
        let (seen, at) = done??;
        all.add(seen);
        last = last.max(at);
    }
    Ok((all, (last - begin).as_secs_f64()))
}

pub async fn input(o: &Options) -> Res<Value> {
    let (mut all, mut elapsed, mut presign_us) = (Seen::default(), 0.0, 0.0);
    let meter = Meter::start(o.host_pid);
    for _ in 0..o.rounds {
        let (frames, per_frame) = presign(o, |who, nonce, i| {
            who.input(&o.to, nonce, &i.to_string(), &o.prompt, o.lean)
        });
        presign_us = per_frame;
        let (seen, took) = round(o, frames).await?;
        all.add(seen);
        elapsed += took;
    }
    let turns = all.took.len().max(1) as u64;
    let mut out = meter.report(all.took.len() as u64, Some(elapsed));
    out["latency"] = latencies(all.took);
    out["frames_per_turn"] = (all.frames / turns).into();
    out["bytes_in_per_turn"] = (all.bytes / turns).into();
    out["last_output_bytes"] = all.last_output.into();
    out["turns_per_session"] = (turns / (o.concurrency * o.rounds) as u64).into();
    if all.events > 0 {
        out["events"] = all.events.into();
        out["events_per_s"] = (all.events as f64 / elapsed).round().into();
    }
    out["prompt"] = o.prompt.clone().into();
    out["presign_us_per_frame"] = presign_us.into();
    Ok(out)
}
