//! What an authenticated caller can ask for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::Turned;
use crate::console::Event;
use crate::gate::{Passed, Refusal};
use crate::identity::Address;
use crate::session::{Mode, RuntimeInput, Session, Status};
use crate::store::{Append, StoreError};
use crate::wire::inbound::{self, Input, Kind, Malformed};
use crate::wire::json::Object;
use crate::wire::outbound;

use super::{Connection, Going, ON};

/// How long what the store said of a session's owner is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// What the store said last.
pub(super) struct Asked {
    id: String,
    owner: Option<Address>,
    at: Instant,
}

impl Connection {
    /// A signed frame: what is executed is the signed payload, never the copies beside it.
    pub(super) async fn verified_command(&mut self, passed: Passed<'_>) -> Going {
        let claimed = passed.verified.claimed();
        if passed.kind == Kind::SessionStatus && self.session.is_none() {
            let answer = self.status(&claimed.payload, Some(claimed.signer)).await;
            return self.answered(answer);
        }
        self.command(passed.kind, claimed.payload).await
    }

    /// Do what a frame of this kind asks; `fields` is what may be believed.
    pub(super) async fn command(&mut self, kind: Kind, fields: Object<'_>) -> Going {
        match kind {
            Kind::Pong => {
                if let Some(session) = &self.session {
                    session.touch();
                }
                return ON;
            }
            Kind::SessionStatus => {
                let answer = self.status(&fields, self.caller()).await;
                return self.answered(answer);
            }
            Kind::OnboardSubmit => {
                return self.refuse(&Refusal::Malformed(
                    "nothing to submit: this host offers no onboarding here".into(),
                ));
            }
            _ => {}
        }
        let Some(session) = self.session.clone() else {
            return self.refuse(&Refusal::NotAuthenticated);
        };
        if !matches!(kind, Kind::Input | Kind::Exec) {
            self.services.console.emit(Event::Other {
                message_type: kind_name(&kind),
            });
        }
        match kind {
            Kind::Input => self.answered(self.input(&session, &fields)),
            Kind::Exec => {
                self.exec(&fields).await;
                ON
            }
            Kind::Interrupt => {
                match session.running() {
                    Some(running) => running.cancel.cancel(),
                    None => self
                        .outbox
                        .send(outbound::error("interrupt requires an active turn")),
                }
                ON
            }
            Kind::ModeChange => {
                let answer = self.mode_change(&session, &fields).await;
                self.answered(answer)
            }
            Kind::ApprovalResponse | Kind::AskUserResponse => {
                let answer = inbound::request_id(&fields).map(|request_id| {
                    Some(outbound::stale_answer(
                        &session.id,
                        request_id.as_deref(),
                        "stale",
                        "no request is waiting for this answer",
                    ))
                });
                self.answered(answer)
            }
            Kind::Unknown(name) => self.refuse(&Refusal::UnknownType(crate::gate::quoted(&name))),
            // The gate hands these to others.
            Kind::Seal | Kind::Connect | Kind::Pong | Kind::SessionStatus | Kind::OnboardSubmit => {
                ON
            }
        }
    }

    fn answered(&self, answer: Result<Option<String>, Malformed>) -> Going {
        match answer {
            Ok(Some(frame)) => {
                self.outbox.send(frame);
                ON
            }
            Ok(None) => ON,
            Err(wrong) => self.refuse(&Refusal::Malformed(wrong.to_string())),
        }
    }

    /// Is a session alive, in memory or in the store? A foreign and an unknown one are not, in the same
    /// words (decisions D8, D9).
    async fn status(
        &mut self,
        fields: &Object<'_>,
        caller: Option<Address>,
    ) -> Result<Option<String>, Malformed> {
        let id = inbound::status_query(fields)?;
        let found = match &id {
            Some(id) if caller.is_some() => self.find(id).await,
            _ => Ok(None),
        };
        Ok(Some(match found {
            Ok(found) => {
                let own = found.filter(|(owner, _)| Some(*owner) == caller);
                let word = own.map_or("not_found", |(_, status)| status.word());
                outbound::session_status(id.as_deref(), word)
            }
            Err(failed) => {
                tracing::error!(%failed, "a session cannot be looked up");
                outbound::error("misconfigured: the session store is unavailable")
            }
        }))
    }

    /// Whose a session is, and how it is. Clients ask about one session over and over: what the store
    /// said is believed for a moment.
    async fn find(&mut self, id: &str) -> Result<Option<(Address, Status)>, StoreError> {
        let registry = &self.services.registry;
        if let Some(found) = registry.in_memory(id) {
            return Ok(Some(found));
        }
        let owner = match &self.asked {
            Some(asked) if asked.id == id && asked.at.elapsed() < BELIEVED => asked.owner,
            _ => {
                let owner = registry.store().owner(id).await?;
                self.asked = Some(Asked {
                    id: id.to_owned(),
                    owner,
                    at: Instant::now(),
                });
                owner
            }
        };
        Ok(owner.map(|owner| (owner, Status::Connected)))
    }

    /// Run a prompt, or hand it to the turn that is running.
    fn input(
        &self,
        session: &Arc<Session>,
        fields: &Object<'_>,
    ) -> Result<Option<String>, Malformed> {
        let input = Input::read(fields)?;
        self.services.limits.attachments.check(&input)?;
        if self.services.draining.is_cancelled() {
            return Ok(Some(outbound::coded_error(
                outbound::BUSY,
                "the host is shutting down",
                Some(true),
            )));
        }
        self.services.console.emit(Event::Input {
            identity: session.owner,
            session: &session.id,
            prompt: &input.prompt,
            images: input.images.len(),
            files: input.files.len(),
        });
        let prompt = input.prompt.clone();
        let bare = input.images.is_empty() && input.files.is_empty();
        match self.services.runner.begin(session, &self.outbox, input) {
            Turned::Started => Ok(None),
            Turned::Running(running) => {
                let id = format!("runtime-input-{}", uuid::Uuid::new_v4());
                // What comes with a prompt has no way into a turn that runs; it must not be taken and lost.
                let accepted = bare
                    && running.inbox.push(RuntimeInput {
                        id: id.clone(),
                        prompt,
                    });
                Ok(Some(if accepted {
                    outbound::runtime_input_ack(&session.id, &id)
                } else {
                    outbound::coded_error(
                        "RUNTIME_INPUT_REJECTED",
                        if bare {
                            "the running turn takes no more input; send it again after OUTPUT"
                        } else {
                            "images and files cannot join a running turn; send them again after OUTPUT"
                        },
                        Some(true),
                    )
                }))
            }
        }
    }

    /// Choose a mode: stored first, then told (fact F46).
    async fn mode_change(
        &self,
        session: &Arc<Session>,
        fields: &Object<'_>,
    ) -> Result<Option<String>, Malformed> {
        let wanted = inbound::mode(fields)?;
        let Some(mode) = Mode::of(&wanted) else {
            let message = if wanted == "full-access" {
                "Permission mode is not available".to_owned()
            } else {
                format!("Unsupported mode: {}", crate::gate::quoted(&wanted))
            };
            return Ok(Some(outbound::coded_error(
                outbound::INVALID_PARAMS,
                &message,
                None,
            )));
        };
        let expires_at = self.services.registry.expires_at();
        let store = self.services.registry.store();
        let changed = session.change_mode(mode, expires_at, |row| {
            store.append(Append {
                row,
                messages_from: 0,
                messages: Vec::new(),
                trace_from: 0,
                trace: Vec::new(),
            })
        });
        let Some((before, stored)) = changed else {
            return Ok(Some(outbound::coded_error(
                outbound::BUSY,
                "Session is busy",
                Some(true),
            )));
        };
        let stored = stored.await;
        Ok(Some(match stored {
            Ok(()) => outbound::mode_changed(&session.id, mode.id(), None),
            Err(failed) => {
                session.set_mode(before);
                tracing::error!(%failed, "a mode cannot be stored");
                outbound::coded_error(
                    outbound::INTERNAL_ERROR,
                    "Unable to store the mode",
                    Some(true),
                )
            }
        }))
    }
}

fn kind_name(kind: &Kind) -> &str {
    match kind {
        Kind::Interrupt => "INTERRUPT",
        Kind::ModeChange => "mode_change",
        Kind::ApprovalResponse => "APPROVAL_RESPONSE",
        Kind::AskUserResponse => "ASK_USER_RESPONSE",
        Kind::Unknown(name) => name,
        _ => "",
    }
}
