//! The test suite: one module a capability.

mod agents;
mod binary;
mod canonical;
mod cli_keys;
mod common;
mod config;
mod crash;
mod drain;
mod exec;
mod gate;
mod http;
mod identity;
mod interop;
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
mod trust;
mod turns;
