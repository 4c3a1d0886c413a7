//! A session with a host.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::identity::{Address, Identity};

use super::socket::kind;
use super::{ClientError, Event, Socket, Target, sign};

/// How long CONNECTED may take.
const CONNECTED: Duration = Duration::from_secs(30);
/// Pauses before a lost connection is opened again in the middle of a turn.
const AGAIN: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Whether a seal is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seal {
    /// Offer one; go on without on this machine only.
    #[default]
    Offer,
    /// Talk in the clear.
    Never,
}

/// How to connect.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether a seal is offered.
    pub seal: Seal,
    /// The session to go on with.
    pub session_id: Option<String>,
    /// The host that must answer; asked from it if absent.
    pub host: Option<Address>,
}

/// The answer to EXEC.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecOutcome {
    /// What the tool returned, or why it did not.
    pub result: Result<String, String>,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// The whole frame.
    pub frame: Value,
}

/// An authenticated session. Reading [`next`](Self::next) drives it: PING is answered there, and a
/// connection that is lost while a turn runs is opened again there.
pub struct Client {
    target: Target,
    identity: Identity,
    host: Address,
    seal: Seal,
    socket: Socket,
    session_id: String,
    profile: Value,
    running: bool,
    /// False from the loss of a connection until the next one is authenticated.
    linked: bool,
    seen: Seen,
    waiting: VecDeque<Event>,
}

/// Which of a turn's events have been given out, so that a resumed stream doubles none.
#[derive(Debug, Default)]
struct Seen {
    ids: HashSet<String>,
    /// The last event with an id of its own: two events may share one, and the host resumes after
    /// the first of them.
    anchor: Option<String>,
    /// Events with an id that came after it.
    since: usize,
    /// Events of a resumed stream that were seen before.
    skip: usize,
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
            running: false,
            linked: true,
            seen: Seen::default(),
            waiting: VecDeque::new(),
        };
        let connected = client.authenticate().await?;
        client.running = connected["status"] == "running";
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

    /// Whether a turn is running, as far as is known here.
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// AGENT_PROFILE, once it has arrived.
    pub const fn profile(&self) -> &Value {
        &self.profile
    }

    /// Send CONNECT and wait for CONNECTED.
    async fn authenticate(&mut self) -> Result<Value, ClientError> {
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

    /// Run a prompt, or hand it to the turn that is running.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn input(&mut self, prompt: &str) -> Result<(), ClientError> {
        if !self.running {
            self.seen = Seen::default();
        }
        let id = uuid::Uuid::new_v4().to_string();
        self.send("INPUT", json!({"input_id": id, "prompt": prompt}))
            .await?;
        self.running = true;
        Ok(())
    }

    /// End the running turn.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn interrupt(&mut self) -> Result<(), ClientError> {
        self.send("INTERRUPT", json!({})).await
    }

    /// Answer [`Event::ApprovalNeeded`]: once, or for the rest of the session.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn approve(&mut self, request_id: &str, session: bool) -> Result<(), ClientError> {
        let scope = if session { "session" } else { "once" };
        let answer = json!({"approved": true, "scope": scope, "request_id": request_id});
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
        self.send("APPROVAL_RESPONSE", answer).await
    }

    /// Answer [`Event::AskUser`].
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn answer(&mut self, request_id: &str, answer: &str) -> Result<(), ClientError> {
        let answer = json!({"answer": answer, "request_id": request_id});
        self.send("ASK_USER_RESPONSE", answer).await
    }

    /// Choose a permission mode; [`Event::ModeChanged`] says that it is in force.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn set_mode(&mut self, mode: &str) -> Result<(), ClientError> {
        self.send("mode_change", json!({"mode": mode})).await
    }

    /// Run one tool and wait for its result; what else arrives meanwhile is kept for
    /// [`next`](Self::next).
    ///
    /// # Errors
    /// The connection has ended. A tool that failed or was refused is an outcome, not an error.
    pub async fn exec(
        &mut self,
        tool: &str,
        args: Map<String, Value>,
    ) -> Result<ExecOutcome, ClientError> {
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
            if let Some(event) = self.event(frame) {
                self.waiting.push_back(event);
            }
        }
    }

    /// The next event. A connection that is lost while a turn runs is opened again, and the stream
    /// goes on after what was given out. The future may be dropped and asked for again at any time.
    ///
    /// # Errors
    /// The connection has ended and nothing runs, it cannot be opened again, or the host no longer has
    /// the turn.
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(event);
            }
            // Also if an earlier call was dropped in the middle of coming back.
            if !self.linked {
                return self.resume().await;
            }
            match self.receive().await {
                Ok(frame) => {
                    if let Some(event) = self.event(frame) {
                        return Ok(event);
                    }
                }
                Err(ClientError::Closed { .. }) if self.running => self.linked = false,
                Err(failed) => return Err(failed),
            }
        }
    }

    /// Say goodbye.
    pub async fn close(mut self) {
        self.socket.close().await;
    }

    async fn send(&mut self, kind: &str, fields: Value) -> Result<(), ClientError> {
        let Value::Object(fields) = fields else {
            return Ok(());
        };
        if !self.linked {
            return Err(ClientError::Closed {
                reason: Some("it is being opened again".into()),
            });
        }
        let frame = sign::command(&self.identity, &self.host, kind, fields);
        self.socket.send(&frame).await
    }

    /// The next frame that is not the protocol's own business.
    async fn receive(&mut self) -> Result<Value, ClientError> {
        loop {
            let text = self.socket.next().await?;
            if kind(&text) == "PING" {
                self.socket.send(r#"{"type":"PONG"}"#).await?;
                continue;
            }
            // A host that sends something else than JSON is not understood, and not fatal.
            if let Ok(frame) = serde_json::from_str::<Value>(&text) {
                return Ok(frame);
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
        let event = Event::read(frame);
        match &event {
            Event::Output { .. } => self.running = false,
            Event::Error { code, .. } => {
                let about_one_frame = matches!(
                    code.as_ref().and_then(Value::as_str),
                    Some("STALE_ANSWER" | "RUNTIME_INPUT_REJECTED")
                );
                self.running &= about_one_frame;
            }
            Event::UserMessage(_) => {
                self.running = true;
                self.seen = Seen::default();
            }
            _ => {}
        }
        Some(event)
    }

    async fn resume(&mut self) -> Result<Event, ClientError> {
        let mut last = ClientError::Closed { reason: None };
        for pause in AGAIN {
            tokio::time::sleep(pause).await;
            match open(&self.target, &self.identity, &self.host, self.seal).await {
                Ok(socket) => self.socket = socket,
                Err(failed) => {
                    last = failed;
                    continue;
                }
            }
            match self.authenticate().await {
                Ok(connected) => return self.resumed(&connected),
                Err(failed @ ClientError::Refused(_)) => return Err(failed),
                Err(failed) => last = failed,
            }
        }
        Err(last)
    }

    fn resumed(&mut self, connected: &Value) -> Result<Event, ClientError> {
        self.linked = true;
        if connected["status"] == "running" {
            self.seen.skip = match self.seen.anchor {
                Some(_) => self.seen.since,
                None => 0,
            };
            return Ok(Event::Resumed);
        }
        self.running = false;
        // It ended meanwhile: its answer is in the history that CONNECTED brings.
        let trace = connected["session"]["trace"].as_array();
        let ended =
            trace.and_then(|trace| trace.iter().rfind(|entry| entry["type"] == "turn_result"));
        let reason = ended.and_then(|entry| entry["reason"].as_str());
        let items = connected["chat_items"].as_array();
        let answer = items.and_then(|items| items.iter().rfind(|item| item["type"] == "agent"));
        match (reason, answer.and_then(|item| item["content"].as_str())) {
            (Some("natural" | "max_iterations" | "stopped"), Some(text)) => Ok(Event::Output {
                result: text.to_owned(),
                duration_ms: 0,
            }),
            (Some(reason), _) => Err(ClientError::TurnLost(format!(
                "it ended {reason} while the connection was lost"
            ))),
            (None, _) => Err(ClientError::TurnLost("the host no longer knows it".into())),
        }
    }
}

impl Seen {
    /// Whether an event is new to whoever reads.
    fn first_time(&mut self, id: &str) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.ids.insert(id.to_owned()) {
            self.anchor = Some(id.to_owned());
            self.since = 0;
        } else {
            self.since += 1;
        }
        true
    }
}

async fn open(
    target: &Target,
    identity: &Identity,
    host: &Address,
    seal: Seal,
) -> Result<Socket, ClientError> {
    match seal {
        Seal::Offer => Socket::sealed(target, identity, host).await,
        Seal::Never => Socket::open(target).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_stream_doubles_nothing() {
        // An `llm_call` and its `llm_result` share `x`; the host resumes after the first.
        let turn = ["a", "x", "b", "x", "c"];
        for cut in 0..=turn.len() {
            let mut seen = Seen::default();
            let mut given = Vec::new();
            for id in &turn[..cut] {
                assert!(seen.first_time(id));
                given.push(*id);
            }
            let from = seen.anchor.as_deref().map_or(0, |anchor| {
                turn.iter().position(|id| *id == anchor).unwrap() + 1
            });
            seen.skip = if seen.anchor.is_some() { seen.since } else { 0 };
            for id in &turn[from..] {
                if seen.first_time(id) {
                    given.push(*id);
                }
            }
            assert_eq!(given, turn, "cut at {cut}");
        }
    }
}
