//! Frames as types, canonical JSON and error codes. No behaviour, no I/O.

pub mod inbound;
pub mod json;
pub mod outbound;

/// A frame's text: UTF-8, reference-counted, so that one event is serialised once for all viewers.
pub use tokio_tungstenite::tungstenite::Utf8Bytes as Text;
