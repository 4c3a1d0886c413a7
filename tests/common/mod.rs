//! A host on a free port, and clients that talk to it over real sockets.

mod client;
mod host;
mod person;

pub use client::{TestClient, types};
pub use host::TestHost;
pub use person::{Person, now};
