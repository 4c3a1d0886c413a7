//! The test suite: one module a capability.

mod agents;
mod canonical;
mod common;
mod drain;
mod exec;
mod gate;
mod http;
mod ledger;
mod malformed;
mod replay;
mod resume;
mod seal_vectors;
mod sealed;
mod signatures;
mod store;
mod turns;
