//! One connection's life: open its frames, pass them through the gate, do what they ask.
//!
//! The reader below takes all frames that have arrived, verifies their signatures together, claims
//! them together and dispatches them in order. Whatever is answered goes through the connection's
//! [`Outbox`], which a second task writes.

mod attachments;
mod batch;
mod command;
mod connect;
mod exec;
mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::agent::Runner;
use crate::console::{Console, Event};
use crate::gate::{Gate, Refusal};
use crate::identity::{Address, Identity};
use crate::seal::Opener;
use crate::session::{Outbox, Registry, Session};
use crate::store::Ledger;
use crate::transport::{Incoming, Sink, Source, Unauthenticated};
use crate::trust::Trust;
use crate::wire::Text;
use crate::wire::outbound;

pub(crate) use attachments::Attachments;
use batch::BINARY;

/// Frames that are taken together.
const BATCH: usize = 64;
/// Bytes after which no more frames are taken together.
const BATCH_BYTES: usize = 1 << 20;

/// How long a connection that has ended may take to write what it has left.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Close code: the peer broke a rule of this protocol (fact F22).
pub(crate) const CLOSE_REFUSED: u16 = 4003;
/// Close code: nothing came in time.
pub(crate) const CLOSE_TIMEOUT: u16 = 4008;

/// Everything a connection needs of the host.
pub(crate) struct Services {
    pub(crate) identity: Identity,
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    pub(crate) trust: Trust,
    pub(crate) registry: Arc<Registry>,
    pub(crate) runner: Arc<Runner>,
    pub(crate) console: Console,
    pub(crate) limits: Limits,
    /// Cancelled when the host begins to stop: no new turns.
    pub(crate) draining: CancellationToken,
    /// Cancelled when connections are to end.
    pub(crate) stopping: CancellationToken,
    pub(crate) sockets: AtomicU64,
}

impl Services {
    /// AGENT_PROFILE, for a caller who passed the gate.
    fn profile(&self, session_id: &str) -> String {
        let crate::agent::Profile { model, tools } = self.runner.agent().profile();
        let profile = outbound::Profile {
            name: self.name.clone(),
            address: self.identity.address(),
            model,
            tools,
            skills: Vec::new(),
        };
        outbound::agent_profile(session_id, &profile)
    }
}

/// Limits of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) first_frame_timeout: Duration,
    pub(crate) exec_concurrency: usize,
    pub(crate) attachments: Attachments,
    pub(crate) ping_every: Duration,
}

/// Where a connection comes from.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// For the console: an address, or the relay's route.
    pub(crate) name: String,
    /// `direct` or `relay`, for the compatibility record.
    pub(crate) transport: &'static str,
}

/// One connection's reader.
struct Connection {
    services: Arc<Services>,
    outbox: Arc<Outbox>,
    gate: Gate,
    opener: Option<Opener>,
    session: Option<Arc<Session>>,
    /// A place among the unauthenticated sockets; given back by CONNECT.
    place: Option<Unauthenticated>,
    /// Tools that may run at once.
    exec: Arc<Semaphore>,
    /// Cancelled when the connection ends, with the tools it runs.
    gone: CancellationToken,
    transport: &'static str,
    bad_signatures: u32,
    /// What SESSION_STATUS found in the store last.
    asked: Option<command::Asked>,
}

/// Whether the connection goes on.
type Going = std::ops::ControlFlow<()>;
const ON: Going = Going::Continue(());
const STOP: Going = Going::Break(());

/// Serve one connection until it ends.
pub(crate) async fn serve<S: Source, K: Sink + 'static>(
    services: Arc<Services>,
    mut source: S,
    sink: K,
    peer: Peer,
    place: Unauthenticated,
) {
    let outbox = Arc::new(Outbox::default());
    let ping = services.limits.ping_every;
    let writer = tokio::spawn(writer::write(Arc::clone(&outbox), sink, ping));
    services
        .sockets
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    services.console.emit(Event::SocketOpened {
        peer: &peer.name,
        active: services.registry.len(),
    });
    let mut connection = Connection {
        gate: Gate::new(services.identity.address()),
        exec: Arc::new(Semaphore::new(services.limits.exec_concurrency)),
        services,
        outbox,
        opener: None,
        session: None,
        place: Some(place),
        gone: CancellationToken::new(),
        transport: peer.transport,
        bad_signatures: 0,
        asked: None,
    };
    connection.read(&mut source).await;
    connection.finish(writer).await;
}

impl Connection {
    async fn read(&mut self, source: &mut impl Source) {
        let patience = self.services.limits.first_frame_timeout;
        let mut incoming = tokio::select! {
            biased;
            () = self.services.stopping.cancelled() => return self.goodbye(),
            first = tokio::time::timeout(patience, source.next()) => match first {
                Ok(incoming) => incoming,
                Err(_) => {
                    let why = format!("no frame within {patience:?}");
                    self.outbox.send(outbound::error(&why));
                    self.outbox.close(CLOSE_TIMEOUT, why);
                    return;
                }
            },
        };
        let mut texts: Vec<Text> = Vec::new();
        loop {
            let mut bytes = 0;
            texts.clear();
            let end = loop {
                match incoming {
                    Incoming::Text(text) => {
                        bytes += text.len();
                        texts.push(text);
                    }
                    // A binary message is answered in its turn: it stands here as what it is not.
                    Incoming::Binary => texts.push(Text::from_static(BINARY)),
                    other => break Some(other),
                }
                // Before CONNECT every frame can change what the next one means.
                if self.session.is_none() || texts.len() >= BATCH || bytes > BATCH_BYTES {
                    break None;
                }
                match source.try_next() {
                    Some(next) => incoming = next,
                    None => break None,
                }
            };
            let going = Box::pin(self.frames(&texts)).await;
            if self.session.is_some() && self.place.take().is_some() {
                source.authenticated();
            }
            if going.is_break() {
                return;
            }
            match end {
                None => {}
                Some(Incoming::TooLarge(why)) => {
                    self.outbox.send(outbound::error(&why));
                    self.outbox.close(1009, why);
                    return;
                }
                Some(Incoming::Broken(code, why)) => {
                    self.outbox.send(outbound::error(&why));
                    self.outbox.close(code, why);
                    return;
                }
                Some(_) => {
                    self.outbox.gone();
                    return;
                }
            }
            // An idle connection keeps no batch.
            texts = Vec::new();
            self.outbox.room().await;
            incoming = tokio::select! {
                biased;
                () = self.services.stopping.cancelled() => return self.goodbye(),
                next = source.next() => next,
            };
        }
    }

    fn goodbye(&self) {
        self.outbox.close(1001, "the host is shutting down");
    }

    async fn finish(self, mut writer: tokio::task::JoinHandle<()>) {
        self.gone.cancel();
        if let Some(session) = &self.session {
            session.leave(&self.outbox);
        }
        // What was said last is still written, to a peer that reads.
        if tokio::time::timeout(LAST_WORDS, &mut writer).await.is_err() {
            self.outbox.gone();
            // It may hang in a write that the peer will never make room for.
            writer.abort();
        }
        self.services
            .sockets
            .fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        self.services.console.emit(Event::SocketClosed {
            active: self.services.registry.len(),
        });
    }

    fn say_refused(&self, refusal: &Refusal) {
        let what = if self.session.is_none() {
            "CONNECT"
        } else {
            "command"
        };
        self.services.console.emit(Event::Refused {
            what,
            reason: &refusal.to_string(),
        });
    }

    /// The caller's address; `None` before CONNECT.
    fn caller(&self) -> Option<Address> {
        self.gate.caller().map(|caller| caller.address)
    }
}
