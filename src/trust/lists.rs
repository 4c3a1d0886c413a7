//! The four list files: read, looked up, and read again when they change (F63, F64).

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;

use super::{TrustError, matches};
use crate::identity::Address;

/// Two writes closer together than a file system's clock can leave the same stamp. A file this
/// young when it was read is read again at the next question.
const CLOCK: Duration = Duration::from_millis(50);

/// One of the files.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    Admins,
    Whitelist,
    Contacts,
    Blocked,
}

impl List {
    const ALL: [Self; 4] = [Self::Admins, Self::Whitelist, Self::Contacts, Self::Blocked];

    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Admins => "admins.txt",
            Self::Whitelist => "whitelist.txt",
            Self::Contacts => "contacts.txt",
            Self::Blocked => "blocklist.txt",
        }
    }
}

/// What one file says.
#[derive(Debug, Default)]
pub(super) struct Entries {
    exact: HashSet<Address>,
    patterns: Vec<String>,
    ignored: Vec<usize>,
}

impl Entries {
    fn parse(text: &str) -> Self {
        let mut entries = Self::default();
        // Some editors begin a file with a byte order mark; it is no part of the first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(before, _)| before);
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
            } else if line.contains('*') {
                entries.patterns.push(line);
            } else if let Ok(address) = line.parse() {
                entries.exact.insert(address);
            } else {
                entries.ignored.push(index + 1);
            }
        }
        entries
    }

    /// `text` is `who` spelled out; a pattern may leave the `0x` away as an address may.
    pub(super) fn has(&self, who: &Address, text: &str) -> bool {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        self.exact.contains(who)
            || self
                .patterns
                .iter()
                .any(|pattern| matches(pattern, text) || matches(pattern, digits))
    }

    pub(super) fn entries(&self) -> usize {
        self.exact.len() + self.patterns.len()
    }
}

/// All four files at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    of: [Arc<Entries>; 4],
}

impl Lists {
    pub(super) fn get(&self, list: List) -> &Entries {
        &self.of[list as usize]
    }

    pub(super) fn ignored(&self) -> Vec<(&'static str, usize)> {
        List::ALL
            .into_iter()
            .flat_map(|list| {
                let lines = self.get(list).ignored.iter();
                lines.map(move |line| (list.file(), *line))
            })
            .collect()
    }
}

/// What tells one content of a file from the next without reading it. `None`: no such file.
type Stamp = Option<(SystemTime, u64, (u64, u64, i64, i64))>;

#[derive(Debug, Clone)]
struct Loaded {
    stamps: [Stamp; 4],
    /// The file was so young when it was read that a later write may carry the same stamp.
    young: [bool; 4],
    lists: Result<Arc<Lists>, TrustError>,
}

/// The files of one folder.
#[derive(Debug)]
pub(super) struct Watched {
    files: [PathBuf; 4],
    loaded: ArcSwap<Option<Loaded>>,
    /// Held while files are read, so that a change is read once and not by every caller.
    reading: Mutex<()>,
}

impl Watched {
    pub(super) fn new(co_dir: &Path) -> Self {
        Self {
            files: List::ALL.map(|list| co_dir.join(list.file())),
            loaded: ArcSwap::from_pointee(None),
            reading: Mutex::new(()),
        }
    }

    /// The lists as the files are now.
    pub(super) fn current(&self) -> Result<Arc<Lists>, TrustError> {
        if let Some(lists) = self.unchanged()? {
            return lists;
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // Someone else may have read the change while this caller waited.
        match self.unchanged()? {
            Some(lists) => lists,
            None => self.read(),
        }
    }

    #[allow(clippy::type_complexity)]
    fn unchanged(&self) -> Result<Option<Result<Arc<Lists>, TrustError>>, TrustError> {
        let loaded = self.loaded.load();
        let Some(loaded) = loaded.as_ref() else {
            return Ok(None);
        };
        for (index, file) in self.files.iter().enumerate() {
            if loaded.young[index] || stamp(file)? != loaded.stamps[index] {
                return Ok(None);
            }
        }
        Ok(Some(loaded.lists.clone()))
    }

    fn read(&self) -> Result<Arc<Lists>, TrustError> {
        let before = self.loaded.load_full();
        let mut next = Loaded {
            stamps: [None; 4],
            young: [false; 4],
            lists: Ok(Arc::default()),
        };
        let mut lists = Lists::default();
        for (index, file) in self.files.iter().enumerate() {
            let now = SystemTime::now();
            next.stamps[index] = stamp(file)?;
            let Some((changed, ..)) = next.stamps[index] else {
                continue;
            };
            // Also true of a time to come, from another machine's clock or a touched file.
            next.young[index] = now < changed + CLOCK && changed < now + CLOCK;
            let kept = before.as_ref().as_ref().and_then(|before| {
                let same = before.stamps[index] == next.stamps[index] && !before.young[index];
                let lists = before.lists.as_ref().ok()?;
                same.then(|| Arc::clone(&lists.of[index]))
            });
            lists.of[index] = match kept {
                Some(entries) => entries,
                None => match read(file) {
                    Ok(text) => Arc::new(Entries::parse(&text)),
                    Err(error) => {
                        next.lists = Err(error);
                        continue;
                    }
                },
            };
        }
        if next.lists.is_ok() {
            next.lists = Ok(Arc::new(lists));
        }
        let result = next.lists.clone();
        self.loaded.store(Arc::new(Some(next)));
        result
    }
}

fn stamp(file: &Path) -> Result<Stamp, TrustError> {
    match fs::metadata(file) {
        Ok(about) => {
            let changed = about.modified().map_err(|error| failed(file, &error))?;
            Ok(Some((changed, about.len(), identity(&about))))
        }
        // A link to nowhere is a list that is lost, not one that was never made.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(file).is_err() =>
        {
            Ok(None)
        }
        Err(error) => Err(failed(file, &error)),
    }
}

/// Which file it is, and when it was last touched in any way: a copy that keeps the time of the
/// original still shows.
#[cfg(unix)]
fn identity(about: &Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (about.dev(), about.ino(), about.ctime(), about.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}

fn read(file: &Path) -> Result<String, TrustError> {
    let bytes = fs::read(file).map_err(|error| failed(file, &error))?;
    String::from_utf8(bytes).map_err(|_| TrustError {
        file: file.into(),
        reason: "it is not UTF-8".into(),
    })
}

fn failed(file: &Path, error: &io::Error) -> TrustError {
    TrustError {
        file: file.into(),
        reason: error.to_string(),
    }
}
