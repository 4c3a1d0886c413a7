//! The test suite: one module a capability.

mod cli_keys;
mod common;
mod config;
mod identity;
mod trust;
