//! A TCP proxy whose connections can be cut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Passes bytes on to one address, until it is told to cut; new connections are always let in.
pub struct Proxy {
    socket: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    target: std::sync::Mutex<SocketAddr>,
    cut: Notify,
    accepted: AtomicUsize,
    /// What clients of the present connections say is dropped; each cut makes a new one.
    swallowing: std::sync::Mutex<Arc<AtomicBool>>,
    /// What, once it has passed on its way to the client, cuts everything. One time only.
    trap: std::sync::Mutex<Option<Vec<u8>>>,
}

impl Proxy {
    /// On a free port of the loopback interface.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let socket = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: std::sync::Mutex::new(target),
            cut: Notify::new(),
            swallowing: std::sync::Mutex::default(),
            accepted: AtomicUsize::new(0),
            trap: std::sync::Mutex::new(None),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            socket,
            shared,
            accepting,
        }
    }

    pub fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// How many connections came.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// End all connections that there are.
    pub fn cut(&self) {
        *self.shared.swallowing.lock().unwrap() = Arc::default();
        self.shared.cut.notify_waiters();
    }

    /// Drop what clients say until the next [`cut`](Self::cut).
    pub fn swallow(&self) {
        let swallowing = self.shared.swallowing.lock().unwrap();
        swallowing.store(true, Ordering::SeqCst);
    }

    /// Where new connections go from here on.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// End all connections once `text` has been passed on to a client. One time only.
    pub fn cut_after(&self, text: &str) {
        *self.shared.trap.lock().unwrap() = Some(text.as_bytes().to_vec());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // Made before the first byte, so that no cut is missed.
            let cut = shared.cut.notified();
            let swallowing = Arc::clone(&shared.swallowing.lock().unwrap());
            let target = *shared.target.lock().unwrap();
            let Ok(host) = TcpStream::connect(target).await else {
                return;
            };
            client.set_nodelay(true).unwrap();
            host.set_nodelay(true).unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_host, to_host) = host.into_split();
            let up = pass(
                from_client,
                to_host,
                || swallowing.load(Ordering::SeqCst),
                |_| {},
            );
            let down = pass(from_host, to_client, || false, |recent| shared.look(recent));
            // Whichever ends, both halves of both sockets are dropped, which closes them.
            tokio::select! {
                () = async { tokio::join!(up, down); } => {}
                () = cut => {}
            }
        });
    }
}

/// Pass bytes on until one side ends, without those that are dropped; `look` sees the last that were
/// passed.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    dropped: impl Fn() -> bool,
    look: impl Fn(&[u8]),
) {
    let mut bytes = vec![0; 64 << 10];
    // The end of what was passed before, for a text that comes in two pieces.
    let mut recent = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let bytes = &bytes[..count];
        if dropped() {
            continue;
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
        recent.extend_from_slice(bytes);
        look(&recent);
        recent.drain(..recent.len().saturating_sub(256));
    }
    let _ = to.shutdown().await;
}

impl Shared {
    fn look(&self, bytes: &[u8]) {
        if self.springs(bytes) {
            self.cut.notify_waiters();
        }
    }

    /// Whether these bytes hold what the trap waits for; if so, it is taken away.
    fn springs(&self, bytes: &[u8]) -> bool {
        let mut trap = self.trap.lock().unwrap();
        let sprung = trap
            .as_ref()
            .is_some_and(|text| bytes.windows(text.len()).any(|window| window == text));
        if sprung {
            *trap = None;
        }
        sprung
    }
}
