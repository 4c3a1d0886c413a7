//! What scenarios share: authenticated sockets, and frames signed before the clock starts.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::Res;
use crate::client::Client;
use crate::oip::{Identity, Nonces};
use crate::options::Options;

pub const PONG: Utf8Bytes = Utf8Bytes::from_static("{\"type\":\"PONG\"}");

pub fn us(since: Instant) -> u32 {
    since.elapsed().as_micros() as u32
}

/// Open one authenticated session as identity `index` (only the socket with --bare).
pub async fn session(o: &Options, index: usize, nonce: &str) -> Res<Client> {
    if o.bare {
        return Client::open(&o.authority, &o.to, None).await;
    }
    let who = o.identity(index);
    let mut client = Client::open(&o.authority, &o.to, o.sealed.then_some(&who)).await?;
    client.send(who.connect(&o.to, nonce, None).into()).await?;
    client.until("CONNECTED").await?;
    Ok(client)
}

/// Open `n` sessions, at most 16 at a time, and let them settle.
pub async fn sessions(o: &Options, n: usize) -> Res<Vec<Client>> {
    let gate = Arc::new(Semaphore::new(16));
    let mut nonces = Nonces::new();
    let mut set = JoinSet::new();
    for i in 0..n {
        let (o, gate, nonce) = (o.clone(), gate.clone(), nonces.take());
        set.spawn(async move {
            let _slot = gate.acquire().await;
            session(&o, i, &nonce).await.map(|c| (i, c))
        });
    }
    let mut clients: Vec<(usize, Client)> = Vec::with_capacity(n);
    while let Some(done) = set.join_next().await {
        clients.push(done??);
    }
    clients.sort_by_key(|(i, _)| *i);
    tokio::time::sleep(Duration::from_secs_f64(o.settle)).await;
    let mut clients: Vec<Client> = clients.into_iter().map(|(_, c)| c).collect();
    for c in &mut clients {
        while c.try_recv()?.is_some() {}
        c.bytes_in = 0;
    }
    Ok(clients)
}

/// `count` split over `n` sockets, the remainder to the first ones.
pub fn share(count: usize, n: usize, i: usize) -> usize {
    count / n + usize::from(i < count % n)
}

/// Sign every frame of every socket, timed.
pub fn presign(
    o: &Options,
    mut make: impl FnMut(&Identity, String, usize) -> String,
) -> (Vec<Vec<Utf8Bytes>>, f64) {
    let mut nonces = Nonces::new();
    let started = Instant::now();
    let all = (0..o.concurrency)
        .map(|socket| {
            let who = o.identity(socket);
            (0..share(o.count, o.concurrency, socket))
                .map(|i| make(&who, nonces.take(), i).into())
                .collect()
        })
        .collect();
    let per_frame = started.elapsed().as_secs_f64() * 1e6 / o.count.max(1) as f64;
    (all, (per_frame * 10.0).round() / 10.0)
}
