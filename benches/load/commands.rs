//! `exec` and `ping`: commands kept in flight on a number of sockets.

use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::Res;
use crate::client::{Client, Head};
use crate::options::Options;
use crate::sessions::{PONG, presign, sessions, share, us};
use crate::stats::{Meter, latencies};

/// Keep `depth` commands unanswered on one socket until all are answered.
///
/// `answer` maps a received frame to the index of the command it answers and
/// whether that answer is a success.
async fn pipeline(
    client: &mut Client,
    frames: &[Utf8Bytes],
    depth: usize,
    deadline: Instant,
    answer: impl Fn(&Head, usize) -> Option<(usize, bool)>,
) -> Res<(Vec<u32>, usize)> {
    let mut sent_at: Vec<Instant> = Vec::with_capacity(frames.len());
    let mut took = Vec::with_capacity(frames.len());
    let (mut answered, mut errors) = (0usize, 0usize);
    let mut limit = frames.len();
    loop {
        if Instant::now() > deadline {
            limit = sent_at.len();
        }
        while sent_at.len() < limit && sent_at.len() - answered < depth {
            client.feed(frames[sent_at.len()].clone()).await?;
            sent_at.push(Instant::now());
        }
        client.flush().await?;
        if answered == limit {
            return Ok((took, errors));
        }
        let mut text = client.recv().await?;
        loop {
            let head: Head = serde_json::from_str(&text)?;
            if head.kind == "PING" {
                client.feed(PONG).await?;
            } else if let Some((index, ok)) = answer(&head, answered) {
                took.push(us(sent_at[index]));
                answered += 1;
                errors += usize::from(!ok);
            } else if head.kind == "ERROR" {
                return Err(text.as_str().into());
            }
            match client.try_recv()? {
                Some(next) => text = next,
                None => break,
            }
        }
    }
}

async fn pipelined(
    o: &Options,
    frames: Vec<Vec<Utf8Bytes>>,
    answer: fn(&Head, usize) -> Option<(usize, bool)>,
) -> Res<Value> {
    let clients = sessions(o, o.concurrency).await?;
    let barrier = Arc::new(Barrier::new(o.concurrency + 1));
    let mut set = JoinSet::new();
    for (mut client, frames) in clients.into_iter().zip(frames) {
        let (o, barrier) = (o.clone(), barrier.clone());
        set.spawn(async move {
            barrier.wait().await;
            let deadline = Instant::now() + Duration::from_secs_f64(o.duration);
            let done = pipeline(&mut client, &frames, o.depth, deadline, answer).await;
            (done, Instant::now(), client.bytes_in)
        });
    }
    let meter = Meter::start(o.host_pid);
    barrier.wait().await;
    let begin = Instant::now();
    let (mut took, mut errors, mut last, mut bytes) = (Vec::new(), 0, begin, 0);
    while let Some(done) = set.join_next().await {
        let (done, at, bytes_in) = done?;
        let (t, e) = done?;
        took.extend(t);
        errors += e;
        bytes += bytes_in;
        last = last.max(at);
    }
    let mut out = meter.report(took.len() as u64, Some((last - begin).as_secs_f64()));
    out["bytes_in_per_op"] = (bytes / took.len().max(1) as u64).into();
    out["latency"] = latencies(took);
    out["errors"] = errors.into();
    out["depth"] = o.depth.into();
    Ok(out)
}

pub async fn exec(o: &Options) -> Res<Value> {
    let (frames, presign_us) = presign(o, |who, nonce, i| {
        who.exec(&o.to, nonce, &i.to_string(), (&o.tool, &o.args), o.lean)
    });
    let bytes = frames.iter().flatten().next().map_or(0, |f| f.len());
    let mut out = pipelined(o, frames, |head, _| {
        if head.kind != "EXEC_RESULT" {
            return None;
        }
        let index = head.exec_id.as_ref()?.parse().ok()?;
        Some((index, head.status.as_deref() == Some("success")))
    })
    .await?;
    out["presign_us_per_frame"] = presign_us.into();
    out["bytes_out_per_op"] = bytes.into();
    Ok(out)
}

/// SESSION_STATUS needs no signature on a live socket: the floor of the protocol.
pub async fn ping(o: &Options) -> Res<Value> {
    let frame = Utf8Bytes::from_static(
        "{\"type\":\"SESSION_STATUS\",\"session\":{\"session_id\":\"none\"}}",
    );
    let frames = (0..o.concurrency)
        .map(|i| vec![frame.clone(); share(o.count, o.concurrency, i)])
        .collect();
    // Answers come in order here and carry no id of ours.
    pipelined(o, frames, |head, answered| {
        (head.kind == "SESSION_STATUS").then_some((answered, true))
    })
    .await
}
