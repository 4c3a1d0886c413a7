//! The test suite: one module a capability.

mod ledger;
mod store;
