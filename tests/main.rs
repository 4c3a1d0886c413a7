//! The test suite: one module a capability.

mod canonical;
mod seal_vectors;
mod signatures;
