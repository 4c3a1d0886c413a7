//! `oip serve`.

use std::process::ExitCode;

use oip_host::config::Config;

use super::{CannotStart, ServeArgs};

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    Config::load(&args.project.folder(), args.overrides())
        .map_err(|error| CannotStart(error.to_string()))?;
    Err(CannotStart("serve is not part of this build".into()).into())
}
