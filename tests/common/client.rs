//! A WebSocket client that can say anything.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use oip_host::identity::Address;
use oip_host::seal::{Opener, Sealer, hello};
use oip_host::wire::json::Object;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::{Person, TestHost, now};

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// One socket. Everything that waits panics after ten seconds, with the frames that came.
pub struct TestClient {
    pub person: Person,
    pub host: Address,
    pub session: String,
    pub socket: WebSocketStream<TcpStream>,
    /// v2: commands are signed.
    pub signs: bool,
    pub seal: Option<(Sealer, Opener)>,
    seen: Vec<String>,
    probes: u64,
}

/// What came.
enum Came {
    Text(String),
    Close(Option<CloseFrame>),
    Nothing,
}

impl TestClient {
    /// A socket on which nothing was said yet.
    pub async fn dial(host: &TestHost) -> Self {
        Self::dial_at(host.socket(), host.address(), Person::new()).await
    }

    pub async fn dial_as(host: &TestHost, person: Person) -> Self {
        Self::dial_at(host.socket(), host.address(), person).await
    }

    pub async fn dial_at(socket: SocketAddr, host: Address, person: Person) -> Self {
        let stream = TcpStream::connect(socket).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let (socket, _) =
            client_async_with_config(format!("ws://{socket}/ws"), stream, Some(config))
                .await
                .unwrap();
        Self {
            person,
            host,
            session: String::new(),
            socket,
            signs: false,
            seal: None,
            seen: Vec::new(),
            probes: 0,
        }
    }

    /// A sealed socket on which nothing else was said yet.
    pub async fn sealed(host: &TestHost, person: Person) -> Self {
        let mut client = Self::dial_as(host, person).await;
        client.offer_seal().await;
        client
    }

    pub async fn offer_seal(&mut self) {
        let (frame, hello) = hello(&self.person.identity(), &self.host, now() as u64);
        self.send_clear(&frame).await;
        let reply = self.next_text().await;
        self.seal = Some(hello.finish(&reply).unwrap().split());
    }

    /// An authenticated socket of a new person; commands are plain.
    pub async fn v1(host: &TestHost) -> Self {
        let mut client = Self::dial(host).await;
        client.connect(json!({})).await;
        client
    }

    /// An authenticated socket of a new person; commands are signed.
    pub async fn v2(host: &TestHost) -> Self {
        Self::v2_as(host, Person::new(), json!({})).await
    }

    /// An authenticated socket of `person`, with more fields in its CONNECT.
    pub async fn v2_as(host: &TestHost, person: Person, more: Value) -> Self {
        let mut client = Self::dial_as(host, person).await;
        client.signs = true;
        client.connect(more).await;
        client
    }

    /// CONNECT with more fields beside the signed ones; gives CONNECTED.
    pub async fn connect(&mut self, more: Value) -> Value {
        let mut frame = self.person.connect(&self.host, self.signs);
        extend(&mut frame, more);
        self.send(&frame).await;
        let connected = self.expect("CONNECTED").await;
        self.expect("AGENT_PROFILE").await;
        self.session = connected["session_id"].as_str().unwrap().to_owned();
        connected
    }

    /// A frame, sealed if the socket is.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Any text, sealed if the socket is.
    pub async fn send_text(&mut self, text: &str) {
        match &mut self.seal {
            Some((sealer, _)) => {
                let frame = sealer.seal(text);
                self.send_clear(&frame).await;
            }
            None => self.send_clear(text).await,
        }
    }

    /// Any text as it is.
    pub async fn send_clear(&mut self, text: &str) {
        self.send_message(Message::text(text)).await;
    }

    /// Any message.
    pub async fn send_message(&mut self, message: Message) {
        tokio::time::timeout(DEADLINE, self.socket.send(message))
            .await
            .unwrap_or_else(|_| panic!("not written in time; {}", self.told()))
            .unwrap();
    }

    /// A command: signed on a v2 socket.
    pub async fn command(&mut self, kind: &str, fields: Value) {
        let frame = self.made(kind, fields);
        self.send(&frame).await;
    }

    /// The frame of a command.
    pub fn made(&self, kind: &str, fields: Value) -> Value {
        if self.signs {
            return self.person.command(&self.host, kind, &fields);
        }
        let mut frame = json!({"type": kind});
        extend(&mut frame, fields);
        frame
    }

    pub async fn input(&mut self, prompt: &str) {
        self.command("INPUT", json!({"prompt": prompt})).await;
    }

    /// Everything from INPUT to OUTPUT.
    pub async fn turn(&mut self, prompt: &str) -> Vec<Value> {
        self.input(prompt).await;
        self.until("OUTPUT").await
    }

    async fn came(&mut self) -> Came {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let message = timeout_at(deadline, self.socket.next()).await;
            match message.unwrap_or_else(|_| panic!("nothing came; {}", self.told())) {
                Some(Ok(Message::Text(text))) => {
                    let shown: String = text.chars().take(400).collect();
                    self.seen.push(shown);
                    return Came::Text(text.to_string());
                }
                Some(Ok(Message::Close(frame))) => return Came::Close(frame),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(other)) => panic!("the host sent {other:?}"),
                Some(Err(_)) | None => return Came::Nothing,
            }
        }
    }

    /// The next frame's text, as it is on the wire.
    pub async fn next_text(&mut self) -> String {
        match self.came().await {
            Came::Text(text) => text,
            Came::Close(frame) => panic!("closed: {frame:?}; {}", self.told()),
            Came::Nothing => panic!("the socket ended; {}", self.told()),
        }
    }

    /// The next frame, opened if it is sealed; no PING.
    pub async fn next(&mut self) -> Value {
        loop {
            let mut text = self.next_text().await;
            if text.starts_with(r#"{"type":"SEALED","#)
                && let Some((_, opener)) = &mut self.seal
            {
                text = opener.open(&Object::parse(&text).unwrap()).unwrap();
                self.seen.push(text.chars().take(400).collect());
            }
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame["type"] != "PING" {
                return frame;
            }
        }
    }

    /// The next frame must have this type.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let frame = self.next().await;
        assert_eq!(frame["type"], kind, "{}", self.told());
        frame
    }

    /// All frames up to and with the first of this type.
    pub async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.next().await);
            if frames[frames.len() - 1]["type"] == kind {
                return frames;
            }
        }
    }

    /// The next frame must be an ERROR with this message.
    pub async fn expect_error(&mut self, message: &str) -> Value {
        let frame = self.expect("ERROR").await;
        assert_eq!(frame["message"], message, "{}", self.told());
        frame
    }

    /// The host must close, with this code, and say nothing before.
    pub async fn expect_close(&mut self, code: u16) {
        assert_eq!(self.close_code().await, code, "{}", self.told());
    }

    /// The code with which the host closes; it must say nothing before.
    pub async fn close_code(&mut self) -> u16 {
        match self.came().await {
            Came::Close(Some(frame)) => frame.code.into(),
            Came::Close(None) => panic!("closed without a code; {}", self.told()),
            Came::Text(_) => panic!("a frame instead of a close; {}", self.told()),
            Came::Nothing => panic!("the socket ended without a close; {}", self.told()),
        }
    }

    /// The socket answers, and has nothing else to say: the answer is the very next frame.
    pub async fn expect_quiet(&mut self) {
        self.probes += 1;
        let id = format!("probe-{}", self.probes);
        let query = json!({"type": "SESSION_STATUS", "session": {"session_id": id}});
        self.send(&query).await;
        let answer = self.expect("SESSION_STATUS").await;
        assert_eq!(answer["session_id"], id.as_str(), "{}", self.told());
        assert_eq!(answer["status"], "not_found");
    }

    /// Whether SESSION_STATUS, the very next frame, says this of the session.
    pub async fn expect_status(&mut self, session: &str, status: &str) {
        let query = json!({"type": "SESSION_STATUS", "session": {"session_id": session}});
        self.send(&query).await;
        let answer = self.expect("SESSION_STATUS").await;
        assert_eq!(answer["session_id"], session);
        assert_eq!(answer["status"], status, "{}", self.told());
    }

    fn told(&self) -> String {
        let from = self.seen.len().saturating_sub(30);
        format!("seen so far:\n{}", self.seen[from..].join("\n"))
    }
}

fn extend(frame: &mut Value, more: Value) {
    let Value::Object(more) = more else {
        panic!("fields must be an object")
    };
    frame.as_object_mut().unwrap().extend(more);
}
