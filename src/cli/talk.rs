//! What `chat` and `call` share: who is calling, and how a peer's words are shown.

use anyhow::anyhow;
use oip_host::client::{ClientError, Target};
use oip_host::identity::keys::{Place, for_project};
use oip_host::identity::{Address, Identity};

use super::{CannotStart, Project};

/// The identity this folder calls as.
pub(super) fn caller(project: &Project) -> anyhow::Result<Identity> {
    let located = for_project(&project.folder(), std::env::home_dir().as_deref())
        .map_err(|error| CannotStart(error.to_string()))?;
    if located.place == Place::Generated {
        eprintln!(
            "oip: a new key for this folder: you are {}",
            located.keys.identity.address()
        );
    }
    Ok(located.keys.identity.clone())
}

/// Where to connect, and which host must answer there: an address is looked up.
pub(super) async fn place(
    text: &str,
    directory: Option<&str>,
) -> anyhow::Result<(Target, Option<Address>)> {
    let found = match text.parse::<Address>() {
        Ok(address) => Target::find(&address, directory)
            .await
            .map(|target| (target, Some(address))),
        Err(_) => Target::parse(text).map(|target| (target, None)),
    };
    found.map_err(|error| CannotStart(error.to_string()).into())
}

/// Why there is no conversation: the host's own words, or exit code 2 if it cannot even be reached.
pub(super) fn refusal(error: &ClientError) -> anyhow::Error {
    match error {
        ClientError::Refused(why) => anyhow!("{}", shown(why)),
        other => CannotStart(shown(&other.to_string())).into(),
    }
}

/// A peer's text as it may be printed: line breaks and tabs stay, other control characters are
/// escaped, so that nobody else's words move the cursor or colour the screen.
pub(super) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            // These turn the writing around, so that a line reads as something else.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.extend(c.escape_default()),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_move_the_cursor() {
        assert_eq!(
            shown("a\n\tb\u{1b}[2J\r\u{9b}\u{202e}"),
            "a\n\tb\\u{1b}[2J\\r\\u{9b}\\u{202e}"
        );
    }
}
