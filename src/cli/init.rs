//! `oip init`: a project's settings and keys.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use oip_host::config;
use oip_host::identity::keys;

use super::keys::{describe, warn_legacy};
use super::{Project, here};

/// Writes what is missing and nothing else; says what it did and what comes next.
pub(super) fn run(project: &Project) -> anyhow::Result<ExitCode> {
    let folder = project.given().map_or_else(here, Path::to_path_buf);
    let co_dir = folder.join(".co");
    fs::create_dir_all(&co_dir).with_context(|| format!("cannot make {}", co_dir.display()))?;
    let file = co_dir.join("host.yaml");
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&file)
        .and_then(|mut opened| opened.write_all(config::example().as_bytes()));
    match written {
        Ok(()) => println!("wrote     {}", file.display()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            println!("kept      {}", file.display());
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot write {}", file.display()));
        }
    }
    let located = keys::for_project(&folder, std::env::home_dir().as_deref())?;
    println!("{}", describe(&located));
    warn_legacy(&located.keys);
    println!("address   {}", located.keys.identity.address());
    println!();
    match project.given() {
        None => println!("Next: oip serve"),
        Some(folder) => println!("Next: oip serve --dir {}", folder.display()),
    }
    Ok(ExitCode::SUCCESS)
}
