//! A session with a host.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::identity::{Address, Identity};
use crate::wire::json::Raw;
use crate::wire::outbound::INTERNAL_ERROR;

use super::resume::{Seen, Turn, open};
use super::socket::kind;
use super::{ClientError, Event, ExecOutcome, Options, Seal, Socket, Target, sign};

/// How long CONNECTED may take.
const CONNECTED: Duration = Duration::from_secs(30);
/// A host sends PING every 30 s; one that is silent for so long is gone (fact F51).
const SILENCE: Duration = Duration::from_secs(60);
/// An authenticated session. Reading [`next`](Self::next) drives it: PING is answered there, and a
/// connection that is lost while a turn runs is opened again there.
pub struct Client {
    pub(super) target: Target,
    pub(super) identity: Identity,
    pub(super) host: Address,
    pub(super) seal: Seal,
    pub(super) socket: Socket,
    pub(super) session_id: String,
    profile: Value,
    /// The turn that runs, as far as is known here.
    pub(super) turn: Option<Turn>,
    /// Turns of the session that are over.
    pub(super) turns: u64,
    /// False from the loss of a connection until the next one is authenticated.
    pub(super) linked: bool,
    pub(super) seen: Seen,
    pub(super) waiting: VecDeque<Event>,
    /// Modes that were asked for, without an answer yet.
    pub(super) modes_asked: usize,
}

impl Client {
    /// Connect, authenticate, open a session.
    ///
    /// # Errors
    /// [`ClientError`]; a refusal is the host's own text.
    pub async fn connect(
        target: &Target,
        identity: &Identity,
        options: Options,
    ) -> Result<Self, ClientError> {
        let host = match options.host {
            Some(host) => host,
            None => target.address().await?,
        };
        let socket = open(target, identity, &host, options.seal).await?;
        let mut client = Self {
            target: target.clone(),
            identity: identity.clone(),
            host,
            seal: options.seal,
            socket,
            session_id: options.session_id.unwrap_or_default(),
            profile: Value::Null,
            turn: None,
            turns: 0,
            linked: true,
            seen: Seen::default(),
            waiting: VecDeque::new(),
            modes_asked: 0,
        };
        let connected = client.authenticate().await?;
        client.entered(&connected);
        Ok(client)
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The host's address.
    pub const fn host(&self) -> Address {
        self.host
    }

    /// Whether nobody between here and the host can read along.
    pub const fn is_sealed(&self) -> bool {
        self.socket.is_sealed()
    }

    /// Whether a turn is running, as far as is known here, or its end was not read yet.
    pub fn is_running(&self) -> bool {
        self.turn.is_some() || !self.waiting.is_empty()
    }

    /// Whether there is a connection, as far as is known here. Without one, the next command opens
    /// another.
    pub const fn is_connected(&self) -> bool {
        self.linked
    }

    /// AGENT_PROFILE, once it has arrived.
    pub const fn profile(&self) -> &Value {
        &self.profile
    }

    /// Send CONNECT and wait for CONNECTED.
    pub(super) async fn authenticate(&mut self) -> Result<Value, ClientError> {
        let mut fields = Map::new();
        if !self.session_id.is_empty() {
            fields.insert("session_id".into(), json!(self.session_id));
        }
        if let Some(anchor) = &self.seen.anchor {
            fields.insert("last_msg_id".into(), json!(anchor));
        }
        let frame = sign::connect(&self.identity, &self.host, fields);
        self.socket.send(&frame).await?;
        let answered = timeout(CONNECTED, self.connected()).await;
        let connected = answered.map_err(|_| ClientError::Timeout {
            what: "CONNECTED",
            seconds: CONNECTED.as_secs(),
        })??;
        self.session_id = connected["session_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        Ok(connected)
    }

    async fn connected(&mut self) -> Result<Value, ClientError> {
        loop {
            let frame = self.receive().await?;
            match frame["type"].as_str() {
                Some("CONNECTED") => return Ok(frame),
                Some("ERROR") => {
                    let message = frame["message"].as_str().unwrap_or("the host refused");
                    return Err(ClientError::Refused(message.to_owned()));
                }
                Some("ONBOARD_REQUIRED") => {
                    return Err(ClientError::Refused(
                        "forbidden: this agent asks strangers for a code or a payment first".into(),
                    ));
                }
                _ => {}
            }
        }
    }

    /// How the session stands.
    pub(super) fn entered(&mut self, connected: &Value) {
        self.turns = connected["session"]["turn"].as_u64().unwrap_or(self.turns);
        if connected["status"] == "running" {
            let turn = self.turn.get_or_insert(Turn::after(self.turns));
            turn.begun = true;
        }
    }

    /// Run a prompt, or hand it to the turn that is running.
    ///
    /// # Errors
    /// The host cannot be reached, or it does not want the caller any more: nothing was sent.
    pub async fn input(&mut self, prompt: &str) -> Result<(), ClientError> {
        self.ready().await?;
        let id = uuid::Uuid::new_v4().to_string();
        if self.turn.is_none() {
            self.seen = Seen::default();
            self.turn = Some(Turn::after(self.turns));
        }
        // Whether the host has it when the connection breaks meanwhile, `next` finds out.
        match self
            .send("INPUT", json!({"input_id": id, "prompt": prompt}))
            .await
        {
            Err(ClientError::Closed { .. }) => {
                self.linked = false;
                Ok(())
            }
            sent => sent,
        }
    }

    /// End the running turn.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn interrupt(&mut self) -> Result<(), ClientError> {
        self.ready().await?;
        self.send("INTERRUPT", json!({})).await
    }

    /// Answer [`Event::ApprovalNeeded`]: once, or for the rest of the session.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn approve(&mut self, request_id: &str, session: bool) -> Result<(), ClientError> {
        let scope = if session { "session" } else { "once" };
        let answer = json!({"approved": true, "scope": scope, "request_id": request_id});
        self.ready().await?;
        self.send("APPROVAL_RESPONSE", answer).await
    }

    /// Refuse [`Event::ApprovalNeeded`]. With feedback the agent goes on and reads it; without, its turn
    /// ends.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn reject(
        &mut self,
        request_id: &str,
        feedback: Option<&str>,
    ) -> Result<(), ClientError> {
        let mode = if feedback.is_some() {
            "reject_explain"
        } else {
            "reject_hard"
        };
        let answer = json!({
            "approved": false, "scope": "once", "mode": mode, "feedback": feedback, "request_id": request_id,
        });
        self.ready().await?;
        self.send("APPROVAL_RESPONSE", answer).await
    }

    /// Answer [`Event::AskUser`].
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn answer(&mut self, request_id: &str, answer: &str) -> Result<(), ClientError> {
        let answer = json!({"answer": answer, "request_id": request_id});
        self.ready().await?;
        self.send("ASK_USER_RESPONSE", answer).await
    }

    /// Choose a permission mode; [`Event::ModeChanged`] says that it is in force.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn set_mode(&mut self, mode: &str) -> Result<(), ClientError> {
        self.ready().await?;
        self.modes_asked += 1;
        self.send("mode_change", json!({"mode": mode})).await
    }

    /// Run one tool and wait for its result; what else arrives meanwhile is kept for
    /// [`next`](Self::next).
    ///
    /// # Errors
    /// The connection has ended, or the host refused the command itself. A tool that failed or was
    /// refused is an outcome, not an error.
    pub async fn exec(
        &mut self,
        tool: &str,
        args: Map<String, Value>,
    ) -> Result<ExecOutcome, ClientError> {
        self.ready().await?;
        let id = uuid::Uuid::new_v4().to_string();
        self.send("EXEC", json!({"exec_id": id, "tool": tool, "args": args}))
            .await?;
        loop {
            let frame = self.receive().await?;
            if frame["type"] == "EXEC_RESULT" && frame["exec_id"] == id.as_str() {
                let text = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
                let result = match frame["status"] == "success" {
                    true => Ok(text("result")),
                    false => Err(text("error")),
                };
                return Ok(ExecOutcome {
                    result,
                    duration_ms: frame["duration_ms"].as_u64().unwrap_or(0),
                    frame,
                });
            }
            // Without a turn there is nothing else that it could be about.
            if frame["type"] == "ERROR" && self.turn.is_none() {
                let message = frame["message"].as_str().unwrap_or_default();
                return Err(ClientError::Refused(message.to_owned()));
            }
            let event = self.event(frame);
            self.waiting.extend(event);
        }
    }

    /// The next event. A connection that is lost while a turn runs is opened again, and the stream
    /// goes on after what was given out. The future may be dropped and asked for again at any time.
    ///
    /// # Errors
    /// The connection has ended and nothing runs (the next command opens another), it cannot be opened again, or the host no longer has
    /// the turn.
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(event);
            }
            // Also if an earlier call was dropped in the middle of coming back.
            if !self.linked {
                if self.turn.is_none() {
                    return Err(ClientError::Closed { reason: None });
                }
                self.resume().await?;
                continue;
            }
            match self.receive().await {
                Ok(frame) => {
                    if let Some(event) = self.event(frame) {
                        return Ok(event);
                    }
                }
                Err(failed) => {
                    self.linked = false;
                    if self.turn.is_none() || !matches!(failed, ClientError::Closed { .. }) {
                        return Err(failed);
                    }
                }
            }
        }
    }

    /// Have a connection that is not known to have ended; what has come already is kept.
    async fn ready(&mut self) -> Result<(), ClientError> {
        while self.linked {
            match self.receive().now_or_never() {
                None => return Ok(()),
                Some(Ok(frame)) => {
                    let event = self.event(frame);
                    self.waiting.extend(event);
                }
                Some(Err(_)) => self.linked = false,
            }
        }
        self.resume().await
    }

    /// Say goodbye.
    pub async fn close(mut self) {
        self.socket.close().await;
    }

    /// Send a signed command on the connection that there is.
    async fn send(&mut self, kind: &str, fields: Value) -> Result<(), ClientError> {
        let Value::Object(fields) = fields else {
            return Ok(());
        };
        let frame = sign::command(&self.identity, &self.host, kind, fields);
        self.socket.send(&frame).await
    }

    /// The next frame that is not the protocol's own business.
    async fn receive(&mut self) -> Result<Value, ClientError> {
        loop {
            let silent = || ClientError::Closed {
                reason: Some(format!("silence for {} s", SILENCE.as_secs())),
            };
            let text = timeout(SILENCE, self.socket.next())
                .await
                .map_err(|_| silent())??;
            if kind(&text) == "PING" {
                self.socket.send(r#"{"type":"PONG"}"#).await?;
                continue;
            }
            // A host that sends something else than JSON is not understood, and not fatal. What Python
            // calls JSON, lone surrogates among it, is understood (fact F5).
            if let Ok(frame) = Raw::parse(&text) {
                return Ok(frame.to_serde());
            }
        }
    }

    /// What a frame means here; `None` if it was seen before, or is kept.
    fn event(&mut self, frame: Value) -> Option<Event> {
        if let Some(id) = frame["id"]
            .as_str()
            .filter(|_| frame["type"] != "RUNTIME_INPUT_ACK")
            && !self.seen.first_time(id)
        {
            return None;
        }
        if frame["type"] == "AGENT_PROFILE" {
            self.profile = frame;
            return None;
        }
        self.follow(&frame);
        Some(Event::read(frame))
    }

    /// What a frame says about the turn.
    fn follow(&mut self, frame: &Value) {
        let kind = frame["type"].as_str().unwrap_or_default();
        // An answer may overtake the turn's first events, so what it is about has to be known.
        let refused =
            kind == "ERROR" && frame["code"].is_number() && frame["code"] != INTERNAL_ERROR;
        if self.modes_asked > 0 && (kind == "mode_changed" || refused) {
            self.modes_asked -= 1;
            return;
        }
        match (kind, &mut self.turn) {
            // Another device of the same owner has started one.
            ("user_message", turn) => {
                *turn = Some(Turn::after(self.turns));
                self.seen = Seen::default();
            }
            // The prompt of the turn, or one that came while it ran.
            ("user_input", turn) => {
                let turn = turn.get_or_insert(Turn::after(self.turns));
                turn.begun = true;
                turn.number = frame["turn"].as_u64().unwrap_or(turn.number);
            }
            ("OUTPUT", turn) => {
                let number = turn.take().map(|turn| turn.number);
                let stored = frame["session"]["turn"].as_u64();
                self.turns = stored.or(number).unwrap_or(self.turns);
            }
            // The prompt was refused, or the turn has failed. Everything else is about some other
            // frame: the turn goes on.
            ("ERROR", Some(turn))
                if !turn.begun || turn.ending || frame["code"] == INTERNAL_ERROR =>
            {
                if turn.begun {
                    self.turns = turn.number;
                }
                self.turn = None;
            }
            ("turn_result", Some(turn)) => turn.ending = true,
            (_, Some(turn)) if frame["ts"].is_number() => turn.begun = true,
            _ => {}
        }
    }
}
