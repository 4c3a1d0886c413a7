//! A host on a free port, clients that talk to it over real sockets, and the peers' Python.

pub mod child;
mod client;
mod directory;
mod host;
mod peer;
mod person;
mod proxy;
mod remote_agent;

pub use client::{TestClient, types};
pub use directory::Directory;
pub use host::TestHost;
pub use peer::{python, run_python};
pub use person::{Person, now};
pub use proxy::Proxy;
pub use remote_agent::{Caller, Told};

/// Wait until something is so; panics with `what` after ten seconds.
pub async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), waiting)
        .await
        .unwrap_or_else(|_| panic!("waited for {what}"));
}
