//! The test suite: one module a capability.

mod seal_vectors;
mod signatures;
