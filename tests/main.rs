//! The test suite: one module a capability.

mod canonical;
mod ledger;
mod seal_vectors;
mod signatures;
mod store;
