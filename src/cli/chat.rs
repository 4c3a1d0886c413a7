//! `oip chat`.

use std::process::ExitCode;

use super::{CannotStart, ChatArgs};

pub(crate) async fn run(_: ChatArgs) -> anyhow::Result<ExitCode> {
    Err(CannotStart("chat is not part of this build".into()).into())
}
