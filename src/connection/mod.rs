//! One connection's life: open its frames, pass them through the gate, do what they ask.
//!
//! The reader below takes all frames that have arrived, verifies their signatures together, claims
//! them together and dispatches them in order. Whatever is answered goes through the connection's
//! [`Outbox`], which a second task writes.

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
use crate::gate::{Checking, Gate, Judged, Passed, Refusal};
use crate::identity::{Address, Check, Identity, verify_batch};
use crate::seal::{Opener, accept};
use crate::session::{Item, Outbox, Registry, Session};
use crate::store::{Claimed as Claim, Ledger, unix_now};
use crate::transport::{Incoming, Sink, Source, Unauthenticated};
use crate::trust::Trust;
use crate::wire::Text;
use crate::wire::inbound::Kind;
use crate::wire::json::{JsonError, Object};
use crate::wire::outbound;

/// Frames that are taken together.
const BATCH: usize = 64;
/// Bytes after which no more frames are taken together.
const BATCH_BYTES: usize = 1 << 20;
/// Signatures that do not verify, after which a connection is closed, or slowed down if it is
/// authenticated: each costs the host several verifications and its sender nothing.
const BAD_SIGNATURES: u32 = 64;
/// How long such an authenticated connection waits after each batch of frames.
const BAD_SIGNATURE_PAUSE: Duration = Duration::from_millis(100);

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

    /// Do what these frames ask, in their order.
    async fn frames(&mut self, texts: &[Text]) -> Going {
        let mut opened = Vec::with_capacity(texts.len());
        let mut broken = None;
        for text in texts {
            match self.open(text) {
                Ok(text) => opened.push(text),
                Err(why) => {
                    broken = Some(why);
                    break;
                }
            }
        }
        if self.frames_in_clear(&opened).await.is_break() {
            return STOP;
        }
        match broken {
            None => ON,
            // A break-in or a bug; guessing which is not for the host (fact F25).
            Some(why) => {
                self.outbox.push(Item::Clear(outbound::error(&why).into()));
                self.outbox.close(CLOSE_REFUSED, why);
                STOP
            }
        }
    }

    fn open(&mut self, text: &Text) -> Result<Text, String> {
        let Some(opener) = &mut self.opener else {
            return Ok(text.clone());
        };
        let refused = |why: String| format!("sealed frame rejected: {why}");
        let frame = Object::parse(text).map_err(|wrong| refused(wrong.to_string()))?;
        match opener.open(&frame) {
            Ok(clear) => Ok(clear.into()),
            Err(wrong) => Err(refused(wrong.to_string())),
        }
    }

    async fn frames_in_clear(&mut self, texts: &[Text]) -> Going {
        let now = unix_now();
        let mut staged: Vec<Staged<'_>> = Vec::with_capacity(texts.len());
        for text in texts {
            let frame = match Object::parse(text) {
                Ok(frame) => frame,
                Err(wrong) => {
                    staged.push(Staged::Answer(not_a_frame(text, &wrong)));
                    continue;
                }
            };
            let trust = &self.services.trust;
            let judged = self.gate.judge(frame, now, |who| {
                trust.is_blocked(who).map_err(|failed| failed.to_string())
            });
            match judged {
                Judged::Seal => return self.seal(text),
                Judged::Plain(kind, frame) => staged.push(Staged::Plain(kind, frame)),
                Judged::Check(checking) => staged.push(Staged::Check(checking)),
                Judged::Refused(refusal) => {
                    self.say_refused(&refusal);
                    staged.push(Staged::Answer(refusal.frame()));
                }
            }
        }
        self.staged(staged).await
    }

    /// Answer a SEAL; it is the connection's first frame and alone in its batch.
    fn seal(&mut self, text: &Text) -> Going {
        let accepted = match Object::parse(text) {
            Ok(frame) => accept(&frame, &self.services.identity, unix_now())
                .map_err(|refused| refused.to_string()),
            Err(wrong) => Err(wrong.to_string()),
        };
        match accepted {
            Ok(accepted) => {
                let (sealer, opener) = accepted.channel.split();
                self.outbox.push(Item::Clear(accepted.reply.into()));
                self.outbox.push(Item::Seal(Box::new(sealer)));
                self.opener = Some(opener);
                self.gate.sealed(accepted.peer);
                ON
            }
            Err(why) => {
                let why = format!("seal refused: {why}");
                self.services.console.emit(Event::Refused {
                    what: "SEAL",
                    reason: &why,
                });
                self.outbox.send(outbound::error(&why));
                self.outbox.close(CLOSE_REFUSED, why);
                STOP
            }
        }
    }

    /// Verify and claim what has to be, then dispatch.
    async fn staged(&mut self, staged: Vec<Staged<'_>>) -> Going {
        let valid = {
            let checks: Vec<Check<'_>> = staged.iter().filter_map(Staged::check).collect();
            verify_batch(&checks)
        };
        let mut valid = valid.into_iter();
        let mut ready: Vec<Ready<'_>> = Vec::with_capacity(staged.len());
        for frame in staged {
            ready.push(match frame {
                Staged::Answer(text) => Ready::Answer(text),
                Staged::Plain(kind, frame) => Ready::Plain(kind, frame),
                Staged::Check(checking) => {
                    let valid = checking.signed.check().is_some() && valid.next() == Some(true);
                    match checking.verified(valid) {
                        Ok(passed) => Ready::Passed(passed),
                        Err(refusal) => {
                            self.bad_signatures += u32::from(refusal.costs_verification());
                            self.say_refused(&refusal);
                            Ready::Answer(refusal.frame())
                        }
                    }
                }
            });
        }
        self.claim(&mut ready).await;
        for frame in ready {
            let going = match frame {
                Ready::Answer(text) => {
                    self.outbox.send(text);
                    ON
                }
                Ready::Plain(kind, frame) => Box::pin(self.command(kind, frame)).await,
                Ready::Passed(passed) if passed.kind == Kind::Connect => {
                    Box::pin(self.connect(passed)).await
                }
                Ready::Passed(passed) => Box::pin(self.verified_command(passed)).await,
            };
            if going.is_break() {
                return STOP;
            }
        }
        if self.bad_signatures > BAD_SIGNATURES && self.session.is_some() {
            // A refusal never closes an authenticated connection (fact F50); it can wait, though.
            tokio::time::sleep(BAD_SIGNATURE_PAUSE).await;
        } else if self.bad_signatures > BAD_SIGNATURES {
            let why = "too many invalid signatures on one connection";
            self.outbox.send(outbound::error(why));
            self.outbox.close(CLOSE_REFUSED, why);
            return STOP;
        }
        ON
    }

    /// Ask the ledger about everything that passed, at once. What it refuses, or cannot answer for,
    /// is answered and not dispatched.
    async fn claim(&self, ready: &mut [Ready<'_>]) {
        let claims: Vec<_> = ready.iter().filter_map(Ready::claim).collect();
        if claims.is_empty() {
            return;
        }
        let outcome = self.services.ledger.claim(claims).await;
        if let Err(failed) = &outcome {
            tracing::error!(%failed, "the replay ledger cannot answer");
        }
        let mut outcomes = outcome.unwrap_or_default().into_iter();
        for frame in ready.iter_mut() {
            if frame.claim().is_none() {
                continue;
            }
            let refusal = match outcomes.next() {
                Some(Claim::Fresh) => continue,
                Some(Claim::AlreadyUsed) => frame.reused(),
                None => Refusal::LedgerUnavailable,
            };
            self.say_refused(&refusal);
            *frame = Ready::Answer(refusal.frame());
        }
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

/// A frame that was judged.
#[expect(
    clippy::large_enum_variant,
    reason = "one lives for a moment; a box would cost every command"
)]
enum Staged<'a> {
    Answer(String),
    Plain(Kind, Object<'a>),
    Check(Checking<'a>),
}

impl Staged<'_> {
    fn check(&self) -> Option<Check<'_>> {
        match self {
            Self::Check(checking) => checking.signed.check(),
            _ => None,
        }
    }
}

/// A frame whose signature is settled.
enum Ready<'a> {
    Answer(String),
    Plain(Kind, Object<'a>),
    Passed(Passed<'a>),
}

impl Ready<'_> {
    fn claim(&self) -> Option<crate::store::Claim> {
        match self {
            Self::Passed(passed) if passed.claim => Some(passed.verified.claim()),
            _ => None,
        }
    }

    fn reused(&self) -> Refusal {
        match self {
            Self::Passed(passed) if passed.kind == Kind::Connect => Refusal::ConnectReused,
            _ => Refusal::CommandReused,
        }
    }
}

/// Stands for a binary message until it is answered: no text message can be this.
const BINARY: &str = "\u{0}binary";

fn not_a_frame(text: &str, why: &JsonError) -> String {
    if text == BINARY {
        outbound::error("binary messages are not part of the protocol: send JSON text")
    } else if why.is_other_kind() {
        outbound::error("a frame must be one JSON object")
    } else {
        outbound::invalid_json(&why.to_string(), text)
    }
}
