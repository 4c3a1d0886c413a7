//! The tables of keys: what makes a struct, its file form and its documentation from one list.

use super::{Config, Limits};

/// One key as people read about it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: &'static str,
    /// The default as it is written in the file, `None` when there is none or it is a mapping.
    pub(crate) default: Option<String>,
    pub(crate) doc: String,
}

/// Declares a struct of settings, the struct its file is read into, and its table.
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident, file $file:ident {
            $( $(#[doc = $doc:literal])+ $key:ident : $type:ty = $default:expr; )+
        }
        ignored { $( $ignored:ident : $why:literal; )* }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $key: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )+ }
            }
        }

        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $file {
            $( $key: Option<$crate::config::setting::Read<$type>>, )+
            $( $ignored: Option<serde::de::IgnoredAny>, )*
        }

        impl $name {
            /// Takes what the file says; returns the keys that mean nothing here, and why.
            pub(super) fn apply(&mut self, file: $file) -> Vec<(&'static str, &'static str)> {
                $( if let Some(value) = file.$key { self.$key = value.0; } )+
                #[allow(unused_mut)]
                let mut unused = Vec::new();
                $( if file.$ignored.is_some() { unused.push((stringify!($ignored), $why)); } )*
                unused
            }

            /// The keys that mean something, in the order they are declared.
            pub(super) const KEYS: &'static [&'static str] = &[$( stringify!($key), )+];

            /// The table of keys with the defaults.
            pub(super) fn table() -> Vec<Entry> {
                let default = Self::default();
                vec![$( Entry {
                    key: stringify!($key),
                    default: $crate::config::setting::Setting::show(&default.$key),
                    doc: concat!($($doc, "\n",)+).lines().map(str::trim)
                        .collect::<Vec<_>>().join(" "),
                }, )+]
            }
        }
    };
}
pub(super) use settings;

/// A `host.yaml` that explains every key and sets none: each stands there with its default,
/// commented out by a `#` without a space.
pub fn example() -> String {
    let mut text = String::from(
        "# Settings of this host. Every key is optional; the values shown are the defaults.\n\
         # Remove the # in front of a key to set it.\n",
    );
    let write = |text: &mut String, entry: &Entry, margin: &str| {
        text.push('\n');
        for line in wrap(&entry.doc, 96 - margin.len()) {
            text.push_str(&format!("{margin}# {line}\n"));
        }
        let value = entry.default.as_deref().unwrap_or_default();
        text.push_str(format!("#{margin}{}: {value}", entry.key).trim_end());
        text.push('\n');
    };
    for entry in &Config::table() {
        write(&mut text, entry, "");
        match entry.key {
            "permissions" => text.push_str("#  echo_tool: true\n"),
            "limits" => {
                for entry in &Limits::table() {
                    write(&mut text, entry, "  ");
                }
            }
            _ => {}
        }
    }
    text
}

/// The tables of keys in Markdown, for `docs/configuration.md`.
pub fn reference() -> String {
    let mut text = String::new();
    let tables = [("", Config::table()), ("limits.", Limits::table())];
    for (prefix, table) in tables {
        text.push_str("| key | default | meaning |\n|---|---|---|\n");
        for entry in table {
            let default = entry
                .default
                .map_or_else(String::new, |value| format!("`{value}`"));
            text.push_str(&format!(
                "| `{prefix}{}` | {default} | {} |\n",
                entry.key, entry.doc
            ));
        }
        text.push('\n');
    }
    text
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines
            .last()
            .is_some_and(|line| !line.is_empty() && line.len() + word.len() >= width);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
