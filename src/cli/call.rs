//! `oip call`.

use std::process::ExitCode;

use super::{CallArgs, CannotStart};

pub(crate) async fn run(_: CallArgs) -> anyhow::Result<ExitCode> {
    Err(CannotStart("call is not part of this build".into()).into())
}
