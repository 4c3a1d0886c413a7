//! `oip chat`.

use std::process::ExitCode;

use super::{CannotStart, ChatArgs};

pub(crate) async fn run(args: ChatArgs) -> anyhow::Result<ExitCode> {
    let folder = args.project.folder();
    let said = format!("chat is not part of this build ({})", folder.display());
    Err(CannotStart(said).into())
}
