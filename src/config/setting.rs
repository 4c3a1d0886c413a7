//! How one value is written in the file and read from it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::{Limits, LimitsFile, Permissions, Replay};
use crate::trust::Policy;

/// A number of bytes. Written as a number, or as `512 KiB`, `32 MiB`, `1 GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// As what lengths are counted in; a machine too small for it gets its largest number.
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A type a key can have.
pub(super) trait Setting: Sized {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
    /// As it is written in the file; `None` when that takes more than a line or there is nothing.
    fn show(&self) -> Option<String>;
}

/// Reads a [`Setting`] where serde wants a type of its own.
#[derive(Debug)]
pub(super) struct Read<T>(pub(super) T);

impl<'de, T: Setting> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Read)
    }
}

/// Plain numbers, as serde reads them.
macro_rules! plain {
    ($($type:ty),+) => { $(
        impl Setting for $type {
            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::deserialize(from)
            }
            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+ };
}
plain!(u16, u32);

impl Setting for String {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Self::deserialize(from)?;
        if text.trim().is_empty() {
            return Err(de::Error::custom("some text is needed"));
        }
        Ok(text)
    }

    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Setting for Option<String> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }

    fn show(&self) -> Option<String> {
        self.clone()
    }
}

/// Words and addresses: anything that parses from text.
macro_rules! parsed {
    ($($type:ty),+) => { $(
        impl Setting for $type {
            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(de::Error::custom)
            }
            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+ };
}
parsed!(Policy, IpAddr, Replay);

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
        })
    }
}

impl std::str::FromStr for Replay {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "memory" => Ok(Self::Memory),
            _ => Err("replay is one of sqlite and memory"),
        }
    }
}

impl Setting for Permissions {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }

    fn show(&self) -> Option<String> {
        None
    }
}

impl Setting for Limits {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut limits = Self::default();
        limits.apply(LimitsFile::deserialize(from)?);
        Ok(limits)
    }

    fn show(&self) -> Option<String> {
        None
    }
}

const SIZES: [(&str, u64); 8] = [
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
];
/// In milliseconds.
const TIMES: [(&str, u64); 6] = [
    ("", 1_000),
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl Setting for Bytes {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Quantity {
            units: &SIZES,
            wanted: "a number of bytes, or a size such as 512 KiB, 32 MiB or 1 GB",
        })
        .map(Self)
    }

    fn show(&self) -> Option<String> {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let unit = units
            .into_iter()
            .find(|(bits, _)| self.0 > 0 && self.0.trailing_zeros() >= *bits);
        Some(unit.map_or_else(
            || self.0.to_string(),
            |(bits, name)| format!("{} {name}", self.0 >> bits),
        ))
    }
}

impl Setting for Duration {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Quantity {
            units: &TIMES,
            wanted: "a number of seconds, or a time such as 500ms, 10s, 5m, 24h or 7d",
        })
        .map(Self::from_millis)
    }

    fn show(&self) -> Option<String> {
        let millis = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        let unit = TIMES
            .iter()
            .rev()
            .filter(|(name, _)| !name.is_empty() && *name != "d")
            .find(|(_, size)| millis >= *size && millis % size == 0);
        Some(unit.map_or_else(
            || "0".to_string(),
            |(name, size)| format!("{}{name}", millis / size),
        ))
    }
}

/// A number and a unit; without a unit the first one of the list.
struct Quantity {
    units: &'static [(&'static str, u64)],
    wanted: &'static str,
}

impl Quantity {
    fn parse(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let (_, size) = self.units.iter().find(|(name, _)| *name == unit)?;
        match number.parse::<u64>() {
            Ok(number) => number.checked_mul(*size),
            Err(_) => scaled(number.parse().ok()?, *size),
        }
    }

    fn plain(&self) -> u64 {
        self.units.first().map_or(1, |(_, size)| *size)
    }
}

fn scaled(number: f64, size: u64) -> Option<u64> {
    let value = number * size as f64;
    // Above 2^53 a float no longer counts single bytes, and nobody means such a size.
    (value.is_finite() && (0.0..9.0e15).contains(&value)).then(|| value.round() as u64)
}

impl Visitor<'_> for Quantity {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        number
            .checked_mul(self.plain())
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<u64, E> {
        scaled(number, self.plain())
            .ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        self.parse(text)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}
