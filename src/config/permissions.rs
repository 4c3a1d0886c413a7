//! Which tools may run without asking: `permissions` in `host.yaml`, in connectonion's shape.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::trust::matches;

/// The entries by tool name or by `Bash(command pattern)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    entries: BTreeMap<String, Permission>,
}

/// What one entry says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permission {
    /// Whether a call that fits may run. An entry without this word allows nothing and denies
    /// nothing.
    pub allowed: Option<bool>,
    /// Patterns (`*` is any text) that arguments must match; an argument that is absent is empty.
    pub when: BTreeMap<String, String>,
    /// Who set it: `config`, `safe`, or another word.
    pub source: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Until when. Anything but `never` counts as over: nothing here could tell when it ends.
    pub expires: Option<String>,
}

/// Why a tool may not run. `Display` is what follows `blocked: ` in the answer (F53).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No entry allows it.
    #[error("'{0}' is not in the permission whitelist")]
    NotListed(String),
    /// An entry forbids it.
    #[error("'{0}' is forbidden by the permission '{1}'")]
    Forbidden(String, String),
}

impl Default for Permissions {
    /// `echo_tool` of the demo agent, which only answers what it was given.
    fn default() -> Self {
        let allowed = Permission {
            allowed: Some(true),
            ..Permission::default()
        };
        Self {
            entries: BTreeMap::from([("echo_tool".into(), allowed)]),
        }
    }
}

impl Permissions {
    /// The entries, by tool name or pattern.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Permission)> {
        self.entries
            .iter()
            .map(|(key, entry)| (key.as_str(), entry))
    }

    /// May this call run without anybody being asked? A matching `allowed: false` beats every
    /// `allowed: true`. `Bash(…)` entries allow nothing, because a command line is more than one
    /// command; one that denies matches the whole line.
    pub fn check(&self, tool: &str, args: &Map<String, Value>) -> Result<(), Denied> {
        let fits = |(key, entry): &(&str, &Permission)| match bash(key) {
            Some(command) => {
                entry.allowed == Some(false)
                    && tool.eq_ignore_ascii_case("bash")
                    && matches(command, &text(args, "command"))
            }
            None => *key == tool && entry.fits(args),
        };
        let mut allowed = false;
        for (key, entry) in self.entries().filter(fits) {
            match entry.allowed {
                Some(false) => return Err(Denied::Forbidden(tool.into(), key.into())),
                Some(true) if entry.lasts() => allowed = true,
                _ => {}
            }
        }
        allowed
            .then_some(())
            .ok_or_else(|| Denied::NotListed(tool.into()))
    }
}

impl Permission {
    fn fits(&self, args: &Map<String, Value>) -> bool {
        self.when
            .iter()
            .all(|(argument, pattern)| matches(pattern, &text(args, argument)))
    }

    fn lasts(&self) -> bool {
        self.expires.as_deref().is_none_or(|until| until == "never")
    }
}

fn bash(key: &str) -> Option<&str> {
    key.strip_prefix("Bash(")?.strip_suffix(')')
}

fn text(args: &Map<String, Value>, argument: &str) -> String {
    match args.get(argument) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

impl<'de> Deserialize<'de> for Permissions {
    /// The file's entries over the defaults.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut permissions = Self::default();
        let entries = BTreeMap::<String, Permission>::deserialize(from)?;
        permissions.entries.extend(entries);
        Ok(permissions)
    }
}

/// The long form of an entry. An unknown key is an error: a misspelt `when` would allow more than
/// was meant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    allowed: Option<bool>,
    #[serde(default, alias = "match")]
    when: Option<BTreeMap<String, String>>,
    source: Option<String>,
    reason: Option<String>,
    expires: Option<Expires>,
}

#[derive(Deserialize)]
struct Expires {
    r#type: Option<String>,
}

impl<'de> Deserialize<'de> for Permission {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = Permission;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a mapping with `allowed`")
            }

            fn visit_bool<E: de::Error>(self, allowed: bool) -> Result<Permission, E> {
                Ok(Permission {
                    allowed: Some(allowed),
                    ..Permission::default()
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Permission, A::Error> {
                let long = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Permission {
                    allowed: long.allowed,
                    when: long.when.unwrap_or_default(),
                    source: long.source,
                    reason: long.reason,
                    expires: long
                        .expires
                        .map(|expires| expires.r#type.unwrap_or_default()),
                })
            }
        }
        from.deserialize_any(Entry)
    }
}
