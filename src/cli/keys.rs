//! `oip keys`: show the identity of a project, or make it again from its words.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use oip_host::identity::keys::{self, Keys, Located, Place};
use serde_json::json;
use zeroize::Zeroizing;

use super::{Project, RecoverArgs, ShowArgs};

/// Prints address, short address and place; the words only when asked.
pub(super) fn show(project: &Project, args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let folder = project.folder();
    let Some(located) = keys::find(&folder, std::env::home_dir().as_deref())? else {
        bail!(
            "no keys in {} nor in your home; `oip init` makes some",
            folder.join(".co").display()
        );
    };
    let found = &located.keys;
    let address = found.identity.address();
    let words = found.phrase.as_ref().filter(|_| args.reveal);
    if args.json {
        let mut object = json!({
            "address": address,
            "short_address": address.short(),
            "folder": found.folder,
            "place": match located.place {
                Place::Home => "home",
                Place::Project | Place::Generated => "project",
            },
            "has_phrase": found.phrase.is_some(),
            "legacy_phrase": found.legacy_phrase,
        });
        if args.reveal {
            object["phrase"] = json!(words.map(oip_host::identity::Phrase::reveal));
        }
        println!("{object}");
    } else {
        println!("address   {address}");
        println!("short     {}", address.short());
        println!("{}", describe(&located));
        match (words, args.reveal, &found.phrase) {
            (Some(words), ..) => println!("phrase    {}", words.reveal()),
            (None, true, _) => println!("phrase    none is kept here"),
            (None, false, Some(_)) => println!("phrase    hidden; --reveal shows it"),
            (None, false, None) => {}
        }
        warn_legacy(found);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the words and puts their key into the project.
pub(super) fn recover(project: &Project, args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let co_dir = project.folder().join(".co");
    let input = io::stdin();
    if input.is_terminal() {
        eprint!("Recovery phrase (12 words): ");
        io::stderr().flush()?;
    }
    let mut words = Zeroizing::new(String::with_capacity(512));
    input.read_line(&mut words).context("no phrase was read")?;
    let found = keys::recover(&words, &co_dir, args.force).map_err(|error| {
        let hint = matches!(error, keys::KeyError::Other { .. }) && !args.force;
        let error = anyhow::Error::from(error);
        if hint {
            error.context("nothing was changed; --force replaces the key")
        } else {
            error
        }
    })?;
    println!("recovered {}", found.folder.display());
    println!("address   {}", found.identity.address());
    Ok(ExitCode::SUCCESS)
}

/// One line: where the key is.
pub(super) fn describe(located: &Located) -> String {
    let folder = located.keys.folder.display();
    match located.place {
        Place::Project => format!("keys      {folder}"),
        Place::Home => format!("keys      {folder} (yours; this project has none of its own)"),
        Place::Generated => {
            format!("keys      {folder} (new; keep a copy of recovery.txt somewhere else)")
        }
    }
}

/// Says on standard error that the words beside a key are not its words.
pub(super) fn warn_legacy(keys: &Keys) {
    if keys.legacy_phrase {
        let file = keys.folder.join("recovery.txt");
        eprintln!(
            "oip: the words in {} do not make this key: recovering from them gives another address. \
             Keep agent.key itself safe",
            file.display()
        );
    }
}
