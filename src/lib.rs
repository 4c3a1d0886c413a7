//! Host an AI agent for people who reach it over the network.
//!
//! The crate serves an agent at `/ws` in OIP 0.1, the ConnectOnion browser protocol. Data goes one
//! way: a byte enters through a [`transport`], is opened ([`seal`]), checked ([`gate`]), routed to a
//! [`session`], run by an [`agent`], and leaves as events through the session's log to every viewer.
//! `docs/ARCHITECTURE.md` has the map and the invariants.

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod agent;
pub mod client;
pub mod config;
mod connection;
pub mod console;
pub mod gate;
pub mod host;
pub mod http;
pub mod identity;
pub mod seal;
pub mod session;
pub mod store;
pub mod transport;
pub mod trust;
pub mod wire;
