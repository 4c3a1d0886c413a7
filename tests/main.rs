//! The test suite: one module a capability.

mod agents;
mod canonical;
mod common;
mod crash;
mod drain;
mod exec;
mod gate;
mod http;
mod ledger;
mod limits;
mod malformed;
mod ping;
mod races;
mod replay;
mod resume;
mod seal_vectors;
mod sealed;
mod signatures;
mod store;
mod turns;
