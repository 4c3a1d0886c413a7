//! `connect`: open, CONNECT, close, over and over. `wait`: the moment a host first answers.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::client::Client;
use crate::oip::Nonces;
use crate::options::Options;
use crate::sessions::{session, us};
use crate::stats::{Meter, latencies};
use crate::{Res, host_address};

pub async fn wait(o: &Options) -> Res<Value> {
    let deadline = Instant::now() + Duration::from_secs_f64(o.duration);
    let mut o = o.clone();
    let mut nonces = Nonces::new();
    loop {
        let tried = async {
            if o.to.is_empty() && !o.bare {
                o.to = host_address(&o.authority).await?;
            }
            session(&o, 0, &nonces.take()).await
        }
        .await;
        match tried {
            Ok(client) => {
                let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
                client.close().await;
                return Ok(json!({"connected_at": at.as_secs_f64(), "to": o.to}));
            }
            Err(e) if Instant::now() > deadline => return Err(e),
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

pub async fn connect(o: &Options) -> Res<Value> {
    let mut nonces = Nonces::new();
    let started = Instant::now();
    let frames: Arc<Vec<Utf8Bytes>> = Arc::new(
        (0..o.count)
            .map(|i| o.identity(i).connect(&o.to, &nonces.take(), None).into())
            .collect(),
    );
    let presign_us = started.elapsed().as_secs_f64() * 1e6 / o.count.max(1) as f64;

    let next = Arc::new(AtomicUsize::new(0));
    let meter = Meter::start(o.host_pid);
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs_f64(o.duration);
    let mut set = JoinSet::new();
    for _ in 0..o.concurrency {
        let (o, frames, next) = (o.clone(), frames.clone(), next.clone());
        set.spawn(async move {
            let (mut took, mut opened, mut errors, mut last) =
                (Vec::new(), Vec::new(), Vec::new(), begin);
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= frames.len() || Instant::now() > deadline {
                    return (took, opened, errors, last);
                }
                let started = Instant::now();
                let tried: Res<Client> = async {
                    let who = o.sealed.then(|| o.identity(i));
                    let mut client = Client::open(&o.authority, &o.to, who.as_ref()).await?;
                    opened.push(us(started));
                    if o.bare {
                        return Ok(client);
                    }
                    client.send(frames[i].clone()).await?;
                    client.until(&o.until).await?;
                    Ok(client)
                }
                .await;
                match tried {
                    Ok(client) => {
                        took.push(us(started));
                        last = Instant::now();
                        client.close().await;
                    }
                    Err(e) => errors.push(e.to_string()),
                }
            }
        });
    }
    let (mut took, mut opened, mut errors, mut last) = (Vec::new(), Vec::new(), Vec::new(), begin);
    while let Some(done) = set.join_next().await {
        let (t, w, e, l) = done?;
        took.extend(t);
        opened.extend(w);
        errors.extend(e);
        last = last.max(l);
    }
    let mut out = meter.report(took.len() as u64, Some((last - begin).as_secs_f64()));
    out["latency"] = latencies(took);
    out["ws_open"] = latencies(opened);
    out["errors"] = errors.len().into();
    out["first_error"] = errors.first().cloned().into();
    out["until"] = o.until.clone().into();
    out["presign_us_per_frame"] = ((presign_us * 10.0).round() / 10.0).into();
    Ok(out)
}
