//! `oip call`.

use std::process::ExitCode;

use super::{CallArgs, CannotStart};

pub(crate) async fn run(args: CallArgs) -> anyhow::Result<ExitCode> {
    let folder = args.project.folder();
    let said = format!("call is not part of this build ({})", folder.display());
    Err(CannotStart(said).into())
}
