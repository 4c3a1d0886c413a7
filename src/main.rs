//! `oip`: hosts an AI agent, and talks to hosted ones.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
