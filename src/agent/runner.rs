//! From an INPUT to its OUTPUT: start the turn, run the agent, store what it added, end the log.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::console::{Console, Event};
use crate::session::{Counters, History, Outbox, Registry, Running, Saved, Session};
use crate::store::{BeginTurn, EndTurn, Outcome};
use crate::wire::inbound::Input;
use crate::wire::outbound;

use super::assistant::{INTERRUPTED, TOOL_INTERRUPTED, answer};
use super::turn::{Added, Begun};
use super::{Agent, AgentError, Finished, Reason, Turn};

/// How long an agent may go on after its turn was cancelled, before its future is dropped: with it a
/// stop is a stop within the 300 ms that clients expect (fact F43).
const GRACE: Duration = Duration::from_millis(250);

/// Runs turns.
pub(crate) struct Runner {
    agent: Arc<dyn Agent>,
    registry: Arc<Registry>,
    console: Console,
    turns: TaskTracker,
}

/// What became of an INPUT.
#[derive(Debug)]
pub(crate) enum Turned {
    /// A turn was started.
    Started,
    /// A turn is running: the prompt is input for that one.
    Running(Arc<Running>),
}

impl Runner {
    pub(crate) fn new(agent: Arc<dyn Agent>, registry: Arc<Registry>, console: Console) -> Self {
        Self {
            agent,
            registry,
            console,
            turns: TaskTracker::new(),
        }
    }

    pub(crate) fn agent(&self) -> &Arc<dyn Agent> {
        &self.agent
    }

    /// Turns whose end is not stored yet.
    pub(crate) fn turns(&self) -> &TaskTracker {
        &self.turns
    }

    /// Start a turn of `session` for its owner, unless one is running.
    pub(crate) fn begin(
        self: &Arc<Self>,
        session: &Arc<Session>,
        origin: &Arc<Outbox>,
        input: Input,
    ) -> Turned {
        let started = match session.start(self.registry.log(session), origin, &input.prompt) {
            Ok(started) => started,
            Err(running) => return Turned::Running(running),
        };
        let saved = started.saved;
        let turn = Turn::new(&session.id, session.owner, started, input);
        let (runner, session) = (Arc::clone(self), Arc::clone(session));
        self.turns
            .spawn(async move { runner.run(&session, saved, turn).await });
        Turned::Started
    }

    async fn run(&self, session: &Session, saved: Saved, mut turn: Turn) {
        let started = Instant::now();
        let input = turn.input();
        let (prompt, number) = (input.prompt.clone(), turn.number());
        let content = content(input);
        turn.events()
            .record(&json!({"type": "user_input", "content": prompt, "turn": number}));
        turn.message(&json!({"role": "user", "content": content}));

        let before = turn.before();
        let begins = Counters {
            turn: number,
            iteration: 0,
            updated: now(),
        };
        let opening = turn.opening();
        let opened = (opening.0.len(), opening.1.len());
        let (messages, trace) = (
            unsaved(&before.messages, saved.messages, opening.0),
            unsaved(&before.trace, saved.trace, opening.1),
        );
        // Queued before anything that follows is: a turn that is cut off leaves its prompt behind.
        let begun: Begun = self
            .registry
            .store()
            .begin_turn(BeginTurn {
                row: session.row(begins, self.registry.expires_at()),
                started_at: begins.updated,
                preview: prompt.chars().take(160).collect(),
                replace: saved.replace,
                messages_from: saved.messages as u64,
                messages,
                trace_from: saved.trace as u64,
                trace,
            })
            .boxed()
            .shared();
        turn.begun = Some((self.registry.store().clone(), begun.clone()));

        let outcome = self.run_agent(&mut turn).await;
        turn.close_input();
        let outcome = match outcome {
            Ok(finished) => Ok(finished),
            Err(failed) => {
                self.console.emit(Event::AgentError { cause: &failed });
                turn.close_tools("Error: the agent failed");
                turn.events().record(&json!({
                    "type": "turn_result", "turn": number, "reason": Reason::Error.word(),
                    "usage": null, "error_type": "AgentError",
                }));
                Err(failed)
            }
        };

        let added = turn.added();
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let base = (added.history.messages.len(), added.history.trace.len());
        let history = settled(added, number);
        let ended = self.registry.store().end_turn(EndTurn {
            row: session.row(history.counters(), self.registry.expires_at()),
            messages_from: (base.0 + opened.0) as u64,
            messages: history
                .messages
                .since(base.0 + opened.0)
                .map(str::to_owned)
                .collect(),
            trace_from: (base.1 + opened.1) as u64,
            trace: history
                .trace
                .since(base.1 + opened.1)
                .map(str::to_owned)
                .collect(),
            outcome: match &outcome {
                Ok(finished) if finished.reason == Reason::Interrupted => Outcome::Interrupted,
                Ok(_) => Outcome::Completed,
                Err(_) => Outcome::Failed,
            },
        });
        let stored = match begun.await {
            Ok(()) => ended.await,
            Err(failed) => Err(failed),
        };
        let (saved, last) = match (stored, outcome) {
            (Ok(()), outcome) => {
                let all = Saved {
                    messages: history.messages.len(),
                    trace: history.trace.len(),
                    replace: false,
                    row: true,
                };
                (all, last_frame(session, &history, duration_ms, outcome))
            }
            // OUTPUT says that the turn is safe. It is not: say that instead, keep the turn in memory
            // and write everything with the next one.
            (Err(failed), _) => {
                tracing::error!(%failed, session = %session.id, "a turn could not be stored");
                self.console.emit(Event::AgentError {
                    cause: &format_args!("the turn could not be stored: {failed}"),
                });
                let again = Saved {
                    replace: true,
                    row: saved.row,
                    ..Saved::default()
                };
                let message =
                    "misconfigured: the session store is unavailable, this turn is not saved";
                (
                    again,
                    outbound::coded_error(outbound::INTERNAL_ERROR, message, Some(true)),
                )
            }
        };
        session.finish(history, saved, last);
    }

    /// Run the agent; a panic is a failure, and a cancelled turn ends after a short grace.
    async fn run_agent(&self, turn: &mut Turn) -> Result<Finished, AgentError> {
        let cancelled = turn.cancel_token();
        let deadline = async {
            cancelled.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            outcome = AssertUnwindSafe(self.agent.run(turn)).catch_unwind() => match outcome {
                Ok(outcome) => return outcome,
                Err(_) => return Err(AgentError("the agent panicked".into())),
            },
            () = deadline => {}
        }
        turn.close_tools(TOOL_INTERRUPTED);
        turn.close_input();
        turn.message(&answer(INTERRUPTED));
        turn.events().record(&json!({
            "type": "turn_result", "turn": turn.number(), "reason": Reason::Interrupted.word(), "usage": null,
        }));
        Ok(Finished {
            result: INTERRUPTED.to_owned(),
            reason: Reason::Interrupted,
        })
    }
}

fn last_frame(
    session: &Session,
    history: &History,
    duration_ms: u64,
    outcome: Result<Finished, AgentError>,
) -> String {
    match outcome {
        Ok(finished) => outbound::output(
            &finished.result,
            &session.id,
            duration_ms,
            &history.session(&session.id, session.mode().id(), None),
            &history.chat_items(),
        ),
        // The cause is in the host's log; the client gets a fixed text (fact F49).
        Err(_) => outbound::coded_error(outbound::INTERNAL_ERROR, "Unable to run agent", None),
    }
}

/// The conversation with what the turn added.
fn settled(added: Added, turn: u64) -> History {
    let mut history = added.history;
    for message in added.messages.since(0) {
        history.messages.push(message);
    }
    for entry in added.trace.since(0) {
        history.trace.push(entry);
    }
    history.turn = turn;
    history.iteration = added.iteration;
    history.updated = now();
    history.settle();
    history
}

/// Entries the store does not have yet: older ones it missed, then `new`.
fn unsaved(list: &crate::session::JsonList, saved: usize, new: Vec<String>) -> Vec<String> {
    list.since(saved).map(str::to_owned).chain(new).collect()
}

/// A user message's content: text, or parts if there are images (fact F39).
fn content(input: &Input) -> serde_json::Value {
    if input.images.is_empty() {
        return json!(input.prompt);
    }
    let text = json!({"type": "text", "text": input.prompt});
    let images = input
        .images
        .iter()
        .map(|url| json!({"type": "image_url", "image_url": {"url": url}}));
    std::iter::once(text).chain(images).collect()
}

fn now() -> f64 {
    crate::store::unix_now()
}
