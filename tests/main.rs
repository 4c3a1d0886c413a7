//! The test suite: one module a capability.

mod signatures;
