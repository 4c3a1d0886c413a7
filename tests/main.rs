//! The test suite: one module a capability.

mod canonical;
mod common;
mod gate;
mod ledger;
mod seal_vectors;
mod signatures;
mod store;
