//! Bytes to frames and back; limits, pings, slow readers. Nothing here knows what a frame means.

mod admission;
mod meter;
mod websocket;

use std::future::Future;

pub use admission::{Admission, Unauthenticated};
pub use meter::{Budget, Meter};
pub use websocket::{WebSocketSink, WebSocketSource, accept_key, websocket};

use crate::wire::Text;

/// What a peer sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// One text message.
    Text(Text),
    /// A binary message, which no frame of the protocol is.
    Binary,
    /// A message over the limit, or over what all unauthenticated sockets may hold together.
    /// Nothing can be read after it. The text says which.
    TooLarge(String),
    /// A breach of the WebSocket protocol itself: a close code and one line. Nothing can be read
    /// after it.
    Broken(u16, String),
    /// The peer is gone.
    Closed,
}

/// The incoming half of a connection.
pub trait Source: Send {
    /// The next message.
    fn next(&mut self) -> impl Future<Output = Incoming> + Send;

    /// A message that is here already.
    fn try_next(&mut self) -> Option<Incoming>;

    /// The peer has authenticated: the larger limit holds from here on.
    fn authenticated(&mut self);
}

/// The outgoing half of a connection.
pub trait Sink: Send {
    /// Hand over a frame; it may stay in a buffer until [`flush`](Self::flush).
    fn feed(&mut self, frame: Text) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Write what is in the buffer.
    fn flush(&mut self) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Say goodbye.
    fn close(&mut self, code: u16, reason: &str) -> impl Future<Output = ()> + Send;
}

/// The peer cannot be written to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer is gone")]
pub struct Gone;
