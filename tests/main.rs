//! The test suite: one module a capability.

mod binary;
mod canonical;
mod cli_keys;
mod common;
mod config;
mod gate;
mod identity;
mod ledger;
mod malformed;
mod replay;
mod seal_vectors;
mod sealed;
mod signatures;
mod store;
mod trust;
