//! One connection to a host, sealed or bare.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::identity::{Address, Identity};
use crate::seal::{Opener, Sealer, hello};
use crate::store::unix_now;
use crate::wire::json::{Object, Raw};

use super::{ClientError, Target};

/// How long the handshakes may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest message that is taken, in bytes: OUTPUT carries whole sessions.
const LIMIT: usize = 256 << 20;

/// A WebSocket to a host. Frames go in and come out as text; what a seal adds is not seen.
pub struct Socket {
    socket: WebSocketStream<TcpStream>,
    seal: Option<(Sealer, Opener)>,
}

impl Socket {
    /// Open a bare connection.
    ///
    /// # Errors
    /// Nobody answers there, or not with a WebSocket.
    pub async fn open(target: &Target) -> Result<Self, ClientError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(LIMIT))
            .max_frame_size(Some(LIMIT));
        let opening = async {
            let stream = target.dial().await?;
            let url = format!("ws://{}/ws", target.authority());
            client_async_with_config(url, stream, Some(config))
                .await
                .map_err(|error| refused_handshake(target, error))
        };
        let (socket, _) =
            timeout(HANDSHAKE, opening)
                .await
                .map_err(|_| ClientError::Timeout {
                    what: "WebSocket",
                    seconds: HANDSHAKE.as_secs(),
                })??;
        Ok(Self { socket, seal: None })
    }

    /// Open a connection and offer a seal. A host that does not seal is talked to in the clear on
    /// this machine only.
    ///
    /// # Errors
    /// As [`open`](Self::open); or the seal does not check out; or there is none and there must be.
    pub async fn sealed(
        target: &Target,
        identity: &Identity,
        host: &Address,
    ) -> Result<Self, ClientError> {
        let mut socket = Self::open(target).await?;
        let (frame, kept) = hello(identity, host, unix_now() as u64);
        socket.send(&frame).await?;
        let reply =
            timeout(HANDSHAKE, socket.next())
                .await
                .map_err(|_| ClientError::Timeout {
                    what: "SEALED_OK",
                    seconds: HANDSHAKE.as_secs(),
                })??;
        if kind(&reply) == "SEALED_OK" {
            socket.seal = Some(kept.finish(&reply)?.split());
            return Ok(socket);
        }
        // A host that seals and does not want this seal is not asked in the clear instead.
        if let Some(why) = refused_seal(&reply) {
            return Err(ClientError::Refused(why));
        }
        if !target.is_loopback() {
            return Err(ClientError::Bare(target.authority().to_owned()));
        }
        // The refusal may have closed this one.
        Self::open(target).await
    }

    /// Whether frames are sealed.
    pub const fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// Send one frame.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&mut self, frame: &str) -> Result<(), ClientError> {
        let text = match &mut self.seal {
            Some((sealer, _)) => sealer.seal(frame),
            None => frame.to_owned(),
        };
        self.socket
            .send(Message::Text(text.into()))
            .await
            .map_err(|error| closed(&error))
    }

    /// The next frame.
    ///
    /// # Errors
    /// The connection has ended, or a sealed frame does not open.
    pub async fn next(&mut self) -> Result<String, ClientError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return self.opened(text.as_str()),
                Some(Ok(Message::Close(frame))) => {
                    return Err(ClientError::Closed {
                        reason: frame.and_then(reason),
                    });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(closed(&error)),
                None => return Err(ClientError::Closed { reason: None }),
            }
        }
    }

    fn opened(&mut self, text: &str) -> Result<String, ClientError> {
        let Some((_, opener)) = &mut self.seal else {
            return Ok(text.to_owned());
        };
        let frame = Object::parse(text).map_err(|_| crate::seal::SealError::NotSealed)?;
        // A relay's own PING and ERROR come in the clear, and so does a host's last word on a frame
        // that did not open (facts F24, F25).
        if matches!(kind(text).as_str(), "PING" | "ERROR") && frame.get("c").is_none() {
            return Ok(text.to_owned());
        }
        Ok(opener.open(&frame)?)
    }

    /// Say goodbye.
    pub async fn close(&mut self) {
        // The host may be gone already.
        let _ = self.socket.close(None).await;
    }
}

/// A frame's `type`; empty if it has none.
pub(super) fn kind(frame: &str) -> String {
    let object = Object::parse(frame).ok();
    let kind = object
        .as_ref()
        .and_then(|frame| frame.get("type"))
        .and_then(Raw::as_str);
    kind.map(std::borrow::Cow::into_owned).unwrap_or_default()
}

fn refused_seal(reply: &str) -> Option<String> {
    let frame = Object::parse(reply).ok()?;
    let message = frame.get("message").and_then(Raw::as_str)?;
    message
        .starts_with("seal refused")
        .then(|| message.into_owned())
}

fn reason(frame: CloseFrame) -> Option<String> {
    Some(frame.reason.to_string()).filter(|reason| !reason.is_empty())
}

fn closed(error: &Error) -> ClientError {
    let reason = match error {
        Error::ConnectionClosed | Error::AlreadyClosed => None,
        other => Some(other.to_string()),
    };
    ClientError::Closed { reason }
}

/// A host that refuses the upgrade says why in its answer's body.
fn refused_handshake(target: &Target, error: Error) -> ClientError {
    let reason = match &error {
        Error::Http(answer) => {
            let body = answer.body().as_deref().unwrap_or_default();
            let text = String::from_utf8_lossy(body);
            let said = Object::parse(text.trim()).ok().and_then(|body| {
                body.get("error")
                    .and_then(Raw::as_str)
                    .map(|said| said.into_owned())
            });
            said.unwrap_or_else(|| format!("HTTP status {}", answer.status()))
        }
        other => other.to_string(),
    };
    target.unreachable(&reason)
}
