//! Who may enter: a policy, and lists of addresses in `.co` that are read again when they change.
//!
//! Everybody has one [`Level`], from the lists; the [`Policy`] says which levels enter. Whether a
//! caller is who they say is decided before, by signature (D1).

mod lists;
mod pattern;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::identity::Address;
pub(crate) use pattern::matches;

use lists::{List, Lists, Watched};

/// How far a caller is trusted, from the lists. `Display` is the word the wire uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// On no list.
    Stranger,
    /// In `contacts.txt`.
    Contact,
    /// In `whitelist.txt`.
    Whitelist,
    /// In `admins.txt`, or the host itself.
    Admin,
    /// In `blocklist.txt`, whatever else they are in.
    Blocked,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stranger => "stranger",
            Self::Contact => "contact",
            Self::Whitelist => "whitelist",
            Self::Admin => "admin",
            Self::Blocked => "blocked",
        })
    }
}

/// Which levels are admitted. A signature is required by all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Everybody who is not blocked.
    Open,
    /// Contacts, the whitelist and admins.
    #[default]
    Careful,
    /// The whitelist and admins.
    Strict,
}

impl Policy {
    /// The policies' names, as they are written in `host.yaml` and on the command line.
    pub const NAMES: [&'static str; 3] = ["open", "careful", "strict"];

    fn admits(self, level: Level) -> bool {
        match level {
            Level::Blocked => false,
            Level::Whitelist | Level::Admin => true,
            Level::Contact => self != Self::Strict,
            Level::Stranger => self == Self::Open,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Careful => "careful",
            Self::Strict => "strict",
        })
    }
}

/// A word that names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("trust is one of open, careful and strict")]
pub struct PolicyError;

impl std::str::FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        match text.to_ascii_lowercase().as_str() {
            "open" => Ok(Self::Open),
            "careful" => Ok(Self::Careful),
            "strict" => Ok(Self::Strict),
            _ => Err(PolicyError),
        }
    }
}

/// A list that is there and cannot be used. `Display` is the wire text; nobody is admitted
/// meanwhile, because the answer could be on that list (F63).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("misconfigured: cannot read {}: {reason}", file.display())]
pub struct TrustError {
    /// Which file.
    pub file: PathBuf,
    /// The system's answer, or that the file is not UTF-8.
    pub reason: String,
}

/// Why a caller may not enter or not do something. `Display` is the wire text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// They are on the blocklist.
    #[error("forbidden: blocked")]
    Blocked,
    /// The policy does not admit their level.
    #[error(
        "forbidden: you are {level}; the operator of this agent admits you by adding {who} to .co/{file}"
    )]
    Level {
        /// Who asked.
        who: Address,
        /// Their level.
        level: Level,
        /// The list that would let them in.
        file: &'static str,
    },
    /// Direct tool calls need more than being admitted (D6, F53).
    #[error("forbidden: exec requires a contact or admin, you are {0}")]
    Exec(Level),
    /// A list cannot be read.
    #[error(transparent)]
    Misconfigured(#[from] TrustError),
}

/// The gate of one host: its policy and its lists. Cheap to share behind an `Arc`; every question
/// costs one `stat` a list and one look into a hash set, however long the lists are.
#[derive(Debug)]
pub struct Trust {
    policy: Policy,
    host: Address,
    lists: Watched,
}

impl Trust {
    /// The gate of the host with address `host` whose lists are in `co_dir` (a `.co` folder).
    /// Reads nothing yet: what is wrong with a list shows at the first question.
    pub fn open(co_dir: &Path, policy: Policy, host: Address) -> Self {
        let lists = Watched::new(co_dir);
        Self {
            policy,
            host,
            lists,
        }
    }

    /// The policy in force.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// What the lists say about `who`. The blocklist beats every other list.
    pub fn level(&self, who: &Address) -> Result<Level, TrustError> {
        Ok(self.level_in(&*self.lists.current()?, who))
    }

    fn level_in(&self, lists: &Lists, who: &Address) -> Level {
        let text = who.to_string();
        let on = |list: List| lists.get(list).has(who, &text);
        if on(List::Blocked) {
            Level::Blocked
        } else if *who == self.host || on(List::Admins) {
            Level::Admin
        } else if on(List::Whitelist) {
            Level::Whitelist
        } else if on(List::Contacts) {
            Level::Contact
        } else {
            Level::Stranger
        }
    }

    /// Is `who` on the blocklist? Asked before anything costly is done for them (F8).
    pub fn is_blocked(&self, who: &Address) -> Result<bool, TrustError> {
        let lists = self.lists.current()?;
        Ok(lists.get(List::Blocked).has(who, &who.to_string()))
    }

    /// May `who` enter? Their level if so.
    pub fn admit(&self, who: &Address) -> Result<Level, Refused> {
        let level = self.level(who)?;
        if self.policy.admits(level) {
            return Ok(level);
        }
        Err(match (level, self.policy) {
            (Level::Blocked, _) => Refused::Blocked,
            (_, Policy::Strict) => Refused::Level {
                who: *who,
                level,
                file: List::Whitelist.file(),
            },
            _ => Refused::Level {
                who: *who,
                level,
                file: List::Contacts.file(),
            },
        })
    }

    /// May `who` run a whitelisted tool directly? A contact, the whitelist or an admin may, under
    /// every policy.
    pub fn may_exec(&self, who: &Address) -> Result<Level, Refused> {
        match self.level(who)? {
            level @ (Level::Contact | Level::Whitelist | Level::Admin) => Ok(level),
            level => Err(Refused::Exec(level)),
        }
    }

    /// What an operator wants to see when the host starts.
    pub fn summary(&self) -> Result<Summary, TrustError> {
        let lists = self.lists.current()?;
        let count = |list: List| lists.get(list).entries();
        Ok(Summary {
            policy: self.policy,
            admins: count(List::Admins),
            whitelist: count(List::Whitelist),
            contacts: count(List::Contacts),
            blocked: count(List::Blocked),
            ignored: lists.ignored(),
        })
    }
}

/// Who may enter, and how many lines each list has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The policy in force.
    pub policy: Policy,
    /// Lines in `admins.txt`; the host itself is not counted.
    pub admins: usize,
    /// Lines in `whitelist.txt`.
    pub whitelist: usize,
    /// Lines in `contacts.txt`.
    pub contacts: usize,
    /// Lines in `blocklist.txt`.
    pub blocked: usize,
    /// Lines that are no address and have no `*`, so that they match nobody: file and line number.
    pub ignored: Vec<(&'static str, usize)>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (admins, whitelist, contacts) = (self.admins, self.whitelist, self.contacts);
        match self.policy {
            Policy::Open => write!(f, "open: everybody who can sign may enter")?,
            Policy::Careful => write!(
                f,
                "careful: the holder of this key, {contacts} in contacts, {whitelist} in whitelist and {admins} in admins may enter"
            )?,
            Policy::Strict => write!(
                f,
                "strict: the holder of this key, {whitelist} in whitelist and {admins} in admins may enter"
            )?,
        }
        match self.blocked {
            0 => Ok(()),
            blocked => write!(f, ", {blocked} in blocklist may not"),
        }
    }
}
