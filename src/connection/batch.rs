//! A batch of frames on its way: opened, judged, verified together, claimed together, dispatched in order.

use std::time::Duration;

use crate::console::Event;
use crate::gate::{Checking, Judged, Passed, Refusal};
use crate::identity::{Check, verify_batch};
use crate::seal::accept;
use crate::session::Item;
use crate::store::{Claimed as Claim, unix_now};
use crate::wire::Text;
use crate::wire::inbound::Kind;
use crate::wire::json::{JsonError, Object};
use crate::wire::outbound;

use super::{CLOSE_REFUSED, Connection, Going, ON, STOP};

/// Signatures that do not verify, after which a connection is closed, or slowed down if it is
/// authenticated: each costs the host several verifications and its sender nothing.
const BAD_SIGNATURES: u32 = 64;
/// How long such an authenticated connection waits after each batch of frames.
const BAD_SIGNATURE_PAUSE: Duration = Duration::from_millis(100);

impl Connection {
    /// Do what these frames ask, in their order.
    pub(super) async fn frames(&mut self, texts: &[Text]) -> Going {
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
pub(super) const BINARY: &str = "\u{0}binary";

fn not_a_frame(text: &str, why: &JsonError) -> String {
    if text == BINARY {
        outbound::error("binary messages are not part of the protocol: send JSON text")
    } else if why.is_other_kind() {
        outbound::error("a frame must be one JSON object")
    } else {
        outbound::invalid_json(&why.to_string(), text)
    }
}
