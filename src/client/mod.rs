//! The other end: what a person or a program needs to talk to a host.
//!
//! [`Client`] is a session with a host: it signs what it sends, offers a seal, answers PING, and comes
//! back by itself when its connection is lost in the middle of a turn. [`Socket`] is one connection
//! without any of that.

mod directory;
mod error;
mod event;
mod options;
mod resume;
mod session;
mod sign;
mod socket;
mod target;

pub use error::ClientError;
pub use event::{Event, Field};
pub use options::{ExecOutcome, Options, Seal};
pub use session::Client;
pub use sign::{command, connect};
pub use socket::Socket;
pub use target::Target;
