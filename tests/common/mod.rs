//! A host on a free port, clients that talk to it over real sockets, and the peers' Python.

mod client;
mod host;
mod peer;
mod person;

pub use client::TestClient;
pub use host::TestHost;
pub use peer::{python, run_python};
pub use person::{Person, now};
