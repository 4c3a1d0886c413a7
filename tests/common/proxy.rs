//! A TCP proxy whose connections can be cut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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
    target: Mutex<SocketAddr>,
    /// What clients of the present connections say is dropped; each cut makes a new one.
    swallowing: Mutex<Arc<AtomicBool>>,
    cut: Notify,
    accepted: AtomicUsize,
    /// What on its way to a client cuts everything. One time only.
    trap: Mutex<Option<Trap>>,
}

struct Trap {
    text: Vec<u8>,
    /// Whether the text still arrives.
    passes: bool,
}

impl Proxy {
    /// On a free port of the loopback interface.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let socket = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            swallowing: Mutex::default(),
            cut: Notify::new(),
            accepted: AtomicUsize::new(0),
            trap: Mutex::new(None),
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
        self.shared.lay(text, true);
    }

    /// End all connections instead of passing on `text`, which the host has sent for good. One time only.
    pub fn cut_before(&self, text: &str) {
        self.shared.lay(text, false);
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
            let up = pass(from_client, to_host, Some(&swallowing), None);
            let down = pass(from_host, to_client, None, Some(&shared));
            // Whichever ends, both halves of both sockets are dropped, which closes them.
            tokio::select! {
                () = async { tokio::join!(up, down); } => {}
                () = cut => {}
            }
        });
    }
}

/// Pass bytes on until one side ends, but for what is swallowed; with `watched`, look for what springs
/// its trap.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    swallowing: Option<&AtomicBool>,
    watched: Option<&Shared>,
) {
    let mut bytes = vec![0; 64 << 10];
    // The end of what came before, for a text that comes in two pieces.
    let mut recent = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if swallowing.is_some_and(|on| on.load(Ordering::SeqCst)) {
            continue;
        }
        let mut sprung = None;
        if let Some(shared) = watched {
            recent.extend_from_slice(&bytes[..count]);
            sprung = shared.springs(&recent);
            recent.drain(..recent.len().saturating_sub(256));
        }
        let passes = sprung.as_ref().is_none_or(|trap| trap.passes);
        if passes && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
        if let Some(shared) = watched.filter(|_| sprung.is_some()) {
            return shared.cut.notify_waiters();
        }
    }
    let _ = to.shutdown().await;
}

impl Shared {
    fn lay(&self, text: &str, passes: bool) {
        let text = text.as_bytes().to_vec();
        *self.trap.lock().unwrap() = Some(Trap { text, passes });
    }

    /// The trap, taken away, if these bytes hold what it waits for.
    fn springs(&self, bytes: &[u8]) -> Option<Trap> {
        let mut trap = self.trap.lock().unwrap();
        trap.take_if(|trap| {
            bytes
                .windows(trap.text.len())
                .any(|window| window == trap.text)
        })
    }
}
