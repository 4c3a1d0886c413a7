//! The four list files: read, looked up, and read again when they change (F63, F64).

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// What tells one content of a file from the next without reading it.
#[derive(Debug, Clone, PartialEq)]
struct Stamp {
    modified: SystemTime,
    /// The last touch of any kind: a copy that keeps the time of the original still shows.
    touched: SystemTime,
    length: u64,
    /// Which file it is: device and inode.
    file: (u64, u64),
}

impl Stamp {
    /// `None`: no such file.
    fn of(file: &Path) -> Result<Option<Self>, TrustError> {
        match fs::metadata(file) {
            Ok(about) => Self::from(&about)
                .map(Some)
                .map_err(|error| failed(file, &error)),
            // A link to nowhere is a list that is lost, not one that was never made.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && fs::symlink_metadata(file).is_err() =>
            {
                Ok(None)
            }
            Err(error) => Err(failed(file, &error)),
        }
    }

    #[cfg(unix)]
    fn from(about: &Metadata) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let seconds = u64::try_from(about.ctime()).unwrap_or_default();
        let nanos = u32::try_from(about.ctime_nsec()).unwrap_or_default();
        Ok(Self {
            modified: about.modified()?,
            touched: UNIX_EPOCH + Duration::new(seconds, nanos),
            length: about.len(),
            file: (about.dev(), about.ino()),
        })
    }

    #[cfg(not(unix))]
    fn from(about: &Metadata) -> io::Result<Self> {
        Ok(Self {
            modified: about.modified()?,
            touched: about.modified()?,
            length: about.len(),
            file: (0, 0),
        })
    }

    /// Could a write from `now` on leave this same stamp?
    fn is_young(&self, now: SystemTime) -> bool {
        // A time to come, of a clock that was ahead, is not waited for.
        self.touched + CLOCK > now && self.touched < now + CLOCK
    }
}

#[derive(Debug, Clone)]
struct Loaded {
    stamps: [Option<Stamp>; 4],
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
            if loaded.young[index] || Stamp::of(file)? != loaded.stamps[index] {
                return Ok(None);
            }
        }
        Ok(Some(loaded.lists.clone()))
    }

    fn read(&self) -> Result<Arc<Lists>, TrustError> {
        let before = self.loaded.load_full();
        let mut next = Loaded {
            stamps: [const { None }; 4],
            young: [false; 4],
            lists: Ok(Arc::default()),
        };
        let mut lists = Lists::default();
        for (index, file) in self.files.iter().enumerate() {
            let now = SystemTime::now();
            next.stamps[index] = Stamp::of(file)?;
            let Some(stamp) = &next.stamps[index] else {
                continue;
            };
            next.young[index] = stamp.is_young(now);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_young_for_one_tick_of_the_clock() {
        let touched = UNIX_EPOCH + Duration::from_secs(1_000);
        let stamp = Stamp {
            modified: UNIX_EPOCH,
            touched,
            length: 1,
            file: (1, 1),
        };
        assert!(stamp.is_young(touched));
        assert!(stamp.is_young(touched + CLOCK / 2));
        assert!(!stamp.is_young(touched + CLOCK));
        assert!(!stamp.is_young(touched - 2 * CLOCK));
    }

    #[test]
    fn what_was_read_young_is_read_again_under_the_same_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(List::Blocked.file());
        let watched = Watched::new(folder.path());
        let (one, two) = (Address::from_bytes([1; 32]), Address::from_bytes([2; 32]));
        let blocked = |who: &Address| {
            let lists = watched.current().unwrap();
            lists.get(List::Blocked).has(who, &who.to_string())
        };
        // A machine that was held up reads a file that is no longer young: once more, then.
        let mut loaded = loop {
            fs::write(&file, one.to_string()).unwrap();
            assert!(blocked(&one));
            let loaded = watched.loaded.load_full().as_ref().clone().unwrap();
            if loaded.young[List::Blocked as usize] {
                break loaded;
            }
        };
        fs::write(&file, two.to_string()).unwrap();
        // As if the second write had left the stamp of the first.
        loaded.stamps[List::Blocked as usize] = Stamp::of(&file).unwrap();
        watched.loaded.store(Arc::new(Some(loaded)));
        assert!(blocked(&two) && !blocked(&one));
    }
}
