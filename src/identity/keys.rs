//! Keys on disk: `.co/keys/{agent.key, recovery.txt, DO_NOT_SHARE}` (F12), as connectonion keeps them.
//!
//! A key that cannot be read is an error, never a reason for a new one: a host that quietly became
//! somebody else would be unreachable for everyone who knows it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{Address, Identity, Phrase, PhraseError};

const KEY_FILE: &str = "agent.key";
const PHRASE_FILE: &str = "recovery.txt";
const WARNING_FILE: &str = "DO_NOT_SHARE";
const WARNING: &str = "This folder holds private keys. Do not share it, do not commit it.

agent.key      the private key: who has it can act as this agent
recovery.txt   the twelve words the key can be made from again

Keep a copy of the twelve words somewhere safe, away from this machine.
";
/// More than any phrase takes.
const PHRASE_LIMIT: u64 = 4096;

/// Why keys could not be loaded, made or recovered. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file is there and cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file or its folder cannot be written.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// Which.
        file: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A private key is exactly 32 bytes.
    #[error("{} is not a private key: it has {bytes} bytes, a key has 32", file.display())]
    Length {
        /// Which.
        file: PathBuf,
        /// How many bytes were found.
        bytes: u64,
    },
    /// The recovery phrase is in the way of a new key, or the key file of a new key.
    #[error("{} is already there and is not overwritten", file.display())]
    Exists {
        /// Which.
        file: PathBuf,
    },
    /// The folder holds another identity than the phrase given.
    #[error("{} holds another key{}", file.display(), of(address))]
    Other {
        /// Which.
        file: PathBuf,
        /// Whose key it is, if it is a key at all.
        address: Option<Address>,
    },
    /// The text given is no recovery phrase.
    #[error(transparent)]
    Phrase(#[from] PhraseError),
}

fn of(address: &Option<Address>) -> String {
    address.map_or_else(String::new, |address| format!(", {}", address.short()))
}

/// An identity and where it is kept.
#[derive(Debug)]
pub struct Keys {
    /// Who this is.
    pub identity: Identity,
    /// The words beside the key. `None`: no file, or its text is no recovery phrase.
    pub phrase: Option<Phrase>,
    /// The file of words is there and makes another key than the one beside it. Such a key is from
    /// before the present derivation, or the words are wrong: recovering from them would give
    /// another address.
    pub legacy_phrase: bool,
    /// `…/.co/keys`.
    pub folder: PathBuf,
}

/// Which of the three places the keys came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The project's own `.co/keys`.
    Project,
    /// The person's `~/.co/keys`, because the project has none.
    Home,
    /// Made just now, in the project's `.co/keys`.
    Generated,
}

/// Keys and the place they came from.
#[derive(Debug)]
pub struct Located {
    /// The keys.
    pub keys: Keys,
    /// Their place.
    pub place: Place,
}

/// The keys under `co_dir` (a `.co` folder), `None` when there is no `agent.key`.
pub fn load(co_dir: &Path) -> Result<Option<Keys>, KeyError> {
    let folder = co_dir.join("keys");
    let Some(identity) = read_key(&folder.join(KEY_FILE))? else {
        return Ok(None);
    };
    let (phrase, legacy_phrase) = match read_text(&folder.join(PHRASE_FILE))? {
        Some(text) if !text.trim().is_empty() => match text.parse::<Phrase>() {
            Ok(phrase) => {
                let legacy = phrase.identity().address() != identity.address();
                (Some(phrase), legacy)
            }
            Err(_) => (None, true),
        },
        _ => (None, false),
    };
    Ok(Some(Keys {
        identity,
        phrase,
        legacy_phrase,
        folder,
    }))
}

/// Makes a new identity under `co_dir`. Nothing that is there is overwritten, and of several
/// processes that try at once one succeeds and the others get [`KeyError::Exists`].
pub fn generate(co_dir: &Path) -> Result<Keys, KeyError> {
    let folder = co_dir.join("keys");
    let words = folder.join(PHRASE_FILE);
    if words.symlink_metadata().is_ok() {
        return Err(KeyError::Exists { file: words });
    }
    let phrase = Phrase::random()?;
    let keys = fresh(phrase, folder);
    make_folder(&keys.folder)?;
    // The key first: whoever creates that file is the one who made the identity.
    place(&keys.folder.join(KEY_FILE), keys.identity.seed(), false)?;
    write_rest(&keys, false)?;
    Ok(keys)
}

/// Puts the identity of a recovery phrase under `co_dir`.
///
/// The same key again is no conflict; another one, or a file that is no key, is refused with
/// [`KeyError::Other`] unless `force`, and then kept as `agent.key.old-…` beside the new one.
pub fn recover(phrase: &str, co_dir: &Path, force: bool) -> Result<Keys, KeyError> {
    let keys = fresh(phrase.parse()?, co_dir.join("keys"));
    let file = keys.folder.join(KEY_FILE);
    let words = keys.folder.join(PHRASE_FILE);
    let present = match read_key(&file) {
        Ok(found) => found.map(|identity| Some(identity.address())),
        Err(KeyError::Length { .. }) => Some(None),
        Err(error) => return Err(error),
    };
    let same_key = present == Some(Some(keys.identity.address()));
    let present_words = read_text(&words).ok().flatten();
    let same_words = present_words
        .as_ref()
        .and_then(|text| text.parse::<Phrase>().ok())
        .is_some_and(|found| found.reveal() == phrase_of(&keys));
    if let (Some(address), false, false) = (present, same_key, force) {
        return Err(KeyError::Other { file, address });
    }
    if present.is_none() && present_words.is_some() && !same_words && !force {
        let address = None;
        return Err(KeyError::Other {
            file: words,
            address,
        });
    }
    make_folder(&keys.folder)?;
    if !same_key {
        back_up(&file)?;
        place(&file, keys.identity.seed(), true)?;
    }
    if !same_words {
        back_up(&words)?;
    }
    write_rest(&keys, true)?;
    Ok(keys)
}

/// The keys a project runs under: its own, else those of `home` (the person's home folder), if
/// there are any. Makes none.
pub fn find(project: &Path, home: Option<&Path>) -> Result<Option<Located>, KeyError> {
    if let Some(keys) = load(&project.join(".co"))? {
        let place = Place::Project;
        return Ok(Some(Located { keys, place }));
    }
    let keys = home.map(|home| load(&home.join(".co"))).transpose()?;
    Ok(keys.flatten().map(|keys| Located {
        keys,
        place: Place::Home,
    }))
}

/// As [`find`], and when there are none anywhere, new ones in the project's `.co`.
pub fn for_project(project: &Path, home: Option<&Path>) -> Result<Located, KeyError> {
    if let Some(found) = find(project, home)? {
        return Ok(found);
    }
    match generate(&project.join(".co")) {
        Ok(keys) => Ok(Located {
            keys,
            place: Place::Generated,
        }),
        // Another process made them between the look and the writing.
        Err(error @ KeyError::Exists { .. }) => find(project, None)?.ok_or(error),
        Err(error) => Err(error),
    }
}

fn fresh(phrase: Phrase, folder: PathBuf) -> Keys {
    Keys {
        identity: phrase.identity(),
        phrase: Some(phrase),
        legacy_phrase: false,
        folder,
    }
}

fn phrase_of(keys: &Keys) -> &str {
    keys.phrase.as_ref().map_or("", Phrase::reveal)
}

fn read_key(file: &Path) -> Result<Option<Identity>, KeyError> {
    let Some(bytes) = read(file, 33)? else {
        return Ok(None);
    };
    match <&[u8; 32]>::try_from(bytes.as_slice()) {
        Ok(seed) => Ok(Some(Identity::from_seed(seed))),
        Err(_) => Err(KeyError::Length {
            file: file.into(),
            bytes: fs::metadata(file).map_or(bytes.len() as u64, |about| about.len()),
        }),
    }
}

fn read_text(file: &Path) -> Result<Option<Zeroizing<String>>, KeyError> {
    let Some(bytes) = read(file, PHRASE_LIMIT)? else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| KeyError::Read {
        file: file.into(),
        source: io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"),
    })?;
    Ok(Some(Zeroizing::new(text.to_string())))
}

/// At most `limit` bytes of a file, `None` when there is no such file. A dangling link is an error.
fn read(file: &Path, limit: u64) -> Result<Option<Zeroizing<Vec<u8>>>, KeyError> {
    let failed = |source| KeyError::Read {
        file: file.into(),
        source,
    };
    let opened = match fs::File::open(file) {
        Ok(opened) => opened,
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && file.symlink_metadata().is_err() =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    // Room for all of it from the start: growing would leave copies of a secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit as usize + 1));
    opened.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

fn make_folder(folder: &Path) -> Result<(), KeyError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    let made = folder.parent().map_or(Ok(()), |co| builder.create(co));
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    made.and_then(|()| builder.create(folder))
        .map_err(|source| KeyError::Write {
            file: folder.into(),
            source,
        })
}

/// The words and the warning; a file of the same words or any warning may stay.
fn write_rest(keys: &Keys, replace: bool) -> Result<(), KeyError> {
    place(
        &keys.folder.join(PHRASE_FILE),
        phrase_of(keys).as_bytes(),
        replace,
    )?;
    match place(&keys.folder.join(WARNING_FILE), WARNING.as_bytes(), false) {
        Err(KeyError::Exists { .. }) => Ok(()),
        other => other,
    }
}

/// Writes a whole file or none: 0600, on the disk before it gets its name.
fn place(file: &Path, bytes: &[u8], replace: bool) -> Result<(), KeyError> {
    let failed = |source| KeyError::Write {
        file: file.into(),
        source,
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    // Temporary files are created with mode 0600.
    let mut written = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    written.write_all(bytes).map_err(failed)?;
    written.as_file().sync_all().map_err(failed)?;
    let named = if replace {
        written.persist(file)
    } else {
        written.persist_noclobber(file)
    };
    match named {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(KeyError::Exists { file: file.into() });
        }
        Err(error) => return Err(failed(error.error)),
    }
    #[cfg(unix)]
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)?;
    Ok(())
}

/// A second name for what is there, so that nothing is lost when the first is replaced.
fn back_up(file: &Path) -> Result<(), KeyError> {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    for suffix in seconds.. {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".old-{suffix}"));
        match fs::hard_link(file, &name) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(KeyError::Write {
                    file: name.into(),
                    source,
                });
            }
        }
    }
    Ok(())
}
