//! Reading `host.yaml`, and saying what is wrong with it in one line.

use std::io;
use std::path::{Path, PathBuf};

use serde_saphyr::Error as Yaml;

use super::{Config, ConfigFile, Limits, Loaded};

/// Why a configuration cannot be used. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A key that nothing knows.
    #[error("{}{}: unknown key `{key}`{}", file.display(), at(*line), hint(nearest.as_deref()))]
    UnknownKey {
        /// Which file.
        file: PathBuf,
        /// The line, from 1; 0 when it is not known.
        line: u64,
        /// The key.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// A value of the wrong kind, or text that is no YAML.
    #[error("{}{}: {reason}{}", file.display(), at(*line), quote(text))]
    Invalid {
        /// Which file.
        file: PathBuf,
        /// The line, from 1; 0 when it is not known.
        line: u64,
        /// That line, cut.
        text: String,
        /// What is wrong.
        reason: String,
    },
}

fn at(line: u64) -> String {
    match line {
        0 => String::new(),
        line => format!(", line {line}"),
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

fn quote(line: &str) -> String {
    match line {
        "" => String::new(),
        line => format!(" in `{line}`"),
    }
}

pub(super) fn load(file: &Path) -> Result<Loaded, ConfigError> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        // A link to nowhere is a file that is lost: its settings may be what keeps people out.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !file.is_symlink() => {
            return Ok(Loaded {
                config: Config::default(),
                file: None,
                warnings: Vec::new(),
            });
        }
        Err(source) => {
            let file = file.into();
            return Err(ConfigError::Read { file, source });
        }
    };
    let (config, warnings) = parse(file, &text)?;
    Ok(Loaded {
        config,
        file: Some(file.into()),
        warnings,
    })
}

fn parse(file: &Path, text: &str) -> Result<(Config, Vec<String>), ConfigError> {
    // A file of comments alone is no document and sets nothing.
    let read: Option<ConfigFile> =
        serde_saphyr::from_str(text).map_err(|error| explain(file, text, &error))?;
    let mut config = Config::default();
    let unused = config.apply(read.unwrap_or_default());
    let warnings = unused
        .into_iter()
        .map(|(key, why)| format!("{}: `{key}` has no effect: {why}", file.display()))
        .collect();
    config.check().map_err(|(key, wanted)| {
        let line = line_of(text, key);
        ConfigError::Invalid {
            file: file.into(),
            line,
            text: shown(text, line),
            reason: format!("{key} {wanted}"),
        }
    })?;
    Ok((config, warnings))
}

fn explain(file: &Path, text: &str, error: &Yaml) -> ConfigError {
    let error = error.without_snippet();
    let line = error.location().map_or(0, |place| place.line());
    let file = file.to_path_buf();
    let reason = match error {
        // Another host's key. Overlooking it would let in whom it was written to keep out.
        Yaml::SerdeUnknownField { field, .. } if field == "blacklist" => {
            "blacklist is not read here: put the addresses in .co/blocklist.txt".to_string()
        }
        Yaml::SerdeUnknownField {
            field, expected, ..
        } => {
            return ConfigError::UnknownKey {
                file,
                line,
                key: field.clone(),
                nearest: nearest(field, expected),
            };
        }
        Yaml::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | Yaml::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => format!("{expected} is needed, not {unexpected}"),
        Yaml::InvalidScalar { ty, .. } => format!("{ty} is needed"),
        Yaml::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is there twice"),
        other => plain(other),
    };
    ConfigError::Invalid {
        file,
        line,
        text: shown(text, line),
        reason,
    }
}

/// Where `key` is set, 0 when it is nowhere.
fn line_of(text: &str, key: &str) -> u64 {
    let sets = |line: &str| {
        let line = line.split_once('#').map_or(line, |(before, _)| before);
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
            .any(|word| word.strip_suffix(':') == Some(key))
    };
    (1..)
        .zip(text.lines())
        .find(|(_, line)| sets(line))
        .map_or(0, |(number, _)| number)
}

/// The library's own words without the picture of the source around them.
fn plain(error: &Yaml) -> String {
    let rendered = error.to_string();
    let first = rendered.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_string()
}

fn shown(text: &str, line: u64) -> String {
    let index = usize::try_from(line)
        .ok()
        .and_then(|line| line.checked_sub(1));
    let line = index.and_then(|index| text.lines().nth(index));
    line.unwrap_or_default()
        .trim()
        .chars()
        .filter(|c| !c.is_control())
        .take(60)
        .collect()
}

/// The key that was probably meant: the most alike of those that mean something here.
fn nearest(key: &str, expected: &[&'static str]) -> Option<String> {
    let known = |name: &&&str| {
        let top = expected.contains(&"trust");
        !top || Config::KEYS.contains(*name)
    };
    let best = expected
        .iter()
        .filter(known)
        .map(|name| (strsim::damerau_levenshtein(key, name), *name))
        .min()?;
    // A key of `limits` written one level too high is the other likely mistake.
    if best.0 > 0 && Limits::KEYS.contains(&key) {
        return Some(format!("limits: {{{key}: …}}"));
    }
    (best.0 <= 1 + key.chars().count() / 3).then(|| best.1.to_string())
}
