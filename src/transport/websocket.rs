//! The WebSocket leg.

use std::sync::Arc;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::wire::Text;

use super::meter::Metered;
use super::{Gone, Incoming, Meter, Sink, Source};

/// Bytes of a socket's read buffer. Idle sockets keep it, so it is small; a large one gains no
/// throughput.
const READ_BUFFER: usize = 4 << 10;
/// Bytes that are collected before they are written. An idle socket has none; a turn that streams
/// writes that much fewer times.
const WRITE_BUFFER: usize = 32 << 10;

/// The incoming half of a WebSocket.
#[derive(Debug)]
pub struct WebSocketSource<T> {
    stream: SplitStream<WebSocketStream<Metered<T>>>,
    meter: Arc<Meter>,
    over: bool,
}

/// The outgoing half of a WebSocket.
#[derive(Debug)]
pub struct WebSocketSink<T> {
    sink: SplitSink<WebSocketStream<Metered<T>>, Message>,
}

/// `Sec-WebSocket-Accept` for a handshake's key.
pub fn accept_key(key: &[u8]) -> String {
    derive_accept_key(key)
}

/// Speak WebSocket, as the server, over a connection whose handshake is done. Messages of up to
/// `frame_limit` bytes are taken, fewer while `meter` says so.
pub async fn websocket<T>(
    io: T,
    meter: Arc<Meter>,
    frame_limit: usize,
) -> (WebSocketSource<T>, WebSocketSink<T>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(frame_limit))
        .max_frame_size(Some(frame_limit));
    let metered = Metered::new(io, Arc::clone(&meter));
    let socket = WebSocketStream::from_raw_socket(metered, Role::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let source = WebSocketSource {
        stream,
        meter,
        over: false,
    };
    (source, WebSocketSink { sink })
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> WebSocketSource<T> {
    /// What a message means to the layer above; `None` for the protocol's own pings.
    fn incoming(&mut self, message: Option<Result<Message, Error>>) -> Option<Incoming> {
        let incoming = match message {
            None => Incoming::Closed,
            Some(Ok(Message::Text(text))) => Incoming::Text(text),
            Some(Ok(Message::Binary(_))) => Incoming::Binary,
            Some(Ok(Message::Close(_))) => Incoming::Closed,
            Some(Ok(_)) => {
                self.meter.complete();
                return None;
            }
            Some(Err(failed)) => self.failure(failed),
        };
        self.over = !matches!(incoming, Incoming::Text(_) | Incoming::Binary);
        self.meter.complete();
        Some(incoming)
    }

    fn failure(&self, failed: Error) -> Incoming {
        if let Some(why) = self.meter.over() {
            return Incoming::TooLarge(why);
        }
        match failed {
            Error::Capacity(why) => Incoming::TooLarge(format!("message too large: {why}")),
            Error::Utf8(_) => Incoming::Broken(1007, "a text message must be UTF-8".to_owned()),
            Error::Protocol(why) => Incoming::Broken(1002, format!("WebSocket protocol: {why}")),
            _ => Incoming::Closed,
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Source for WebSocketSource<T> {
    async fn next(&mut self) -> Incoming {
        loop {
            if self.over {
                return Incoming::Closed;
            }
            let message = self.stream.next().await;
            if let Some(incoming) = self.incoming(message) {
                return incoming;
            }
        }
    }

    fn try_next(&mut self) -> Option<Incoming> {
        while !self.over {
            let message = self.stream.next().now_or_never()?;
            if let Some(incoming) = self.incoming(message) {
                return Some(incoming);
            }
        }
        None
    }

    fn authenticated(&mut self) {
        self.meter.authenticated();
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Sink for WebSocketSink<T> {
    async fn feed(&mut self, frame: Text) -> Result<(), Gone> {
        self.sink.feed(Message::Text(frame)).await.map_err(|_| Gone)
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        self.sink.flush().await.map_err(|_| Gone)
    }

    async fn close(&mut self, code: u16, reason: &str) {
        // A close frame has room for 123 bytes of reason.
        let mut end = reason.len().min(123);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: reason[..end].into(),
        };
        // The peer may be gone already; there is nobody left to tell.
        let _ = self.sink.send(Message::Close(Some(frame))).await;
    }
}
