//! The text of a JSON string or key once its escapes are read.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::scan::Quoted;

/// A string as Python and JavaScript see it: text in which, unlike in Rust's, a surrogate may stand
/// alone (F5). Equal when the code points are equal, however they were escaped.
#[derive(Clone)]
pub struct Str<'a>(Repr<'a>);

#[derive(Clone)]
enum Repr<'a> {
    Text(Cow<'a, str>),
    /// Code points, at least one of them a surrogate without its other half.
    Lone(Box<[u32]>),
}

/// The parts a string is written from: whole runs of text, and surrogates that stand alone.
pub(super) enum Piece<'s> {
    Text(&'s str),
    Lone(&'s [u32]),
}

impl<'a> Str<'a> {
    pub(super) fn from_quoted(quoted: &Quoted<'a>) -> Self {
        if quoted.escaped {
            Self(unescape(quoted.inner))
        } else {
            Self(Repr::Text(Cow::Borrowed(quoted.inner)))
        }
    }

    /// The text; a lone surrogate becomes U+FFFD.
    pub fn to_text(&self) -> Cow<'a, str> {
        match &self.0 {
            Repr::Text(text) => text.clone(),
            Repr::Lone(points) => Cow::Owned(
                points
                    .iter()
                    .map(|&point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect(),
            ),
        }
    }

    /// The text, unless a lone surrogate is in it.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::Text(text) => Some(text),
            Repr::Lone(_) => None,
        }
    }

    pub(super) fn piece(&self) -> Piece<'_> {
        match &self.0 {
            Repr::Text(text) => Piece::Text(text),
            Repr::Lone(points) => Piece::Lone(points),
        }
    }

    /// Order by code point, a lone surrogate by its own value: how Python sorts keys.
    pub(super) fn cmp_points(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            // UTF-8 keeps the order of code points.
            (Repr::Text(one), Repr::Text(two)) => one.as_bytes().cmp(two.as_bytes()),
            _ => self.points().cmp(other.points()),
        }
    }

    /// Order by UTF-16 unit: how JavaScript sorts keys. Differs with characters above U+FFFF.
    pub(super) fn cmp_units(&self, other: &Self) -> Ordering {
        self.units().cmp(other.units())
    }

    fn points(&self) -> impl Iterator<Item = u32> + '_ {
        let (text, lone): (&str, &[u32]) = match &self.0 {
            Repr::Text(text) => (text, &[]),
            Repr::Lone(points) => ("", points),
        };
        text.chars().map(u32::from).chain(lone.iter().copied())
    }

    fn units(&self) -> impl Iterator<Item = u16> + '_ {
        self.points().flat_map(|point| {
            let (first, second) = utf16(point);
            std::iter::once(first).chain(second)
        })
    }
}

/// The UTF-16 units of a code point, which may be a surrogate.
pub(super) fn utf16(point: u32) -> (u16, Option<u16>) {
    match point.checked_sub(0x1_0000) {
        None => (point as u16, None),
        Some(above) => (
            0xd800 | (above >> 10) as u16,
            Some(0xdc00 | (above & 0x3ff) as u16),
        ),
    }
}

/// Reads the escapes of a string whose syntax was checked.
fn unescape<'a>(inner: &str) -> Repr<'a> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (point, length) = escape(&rest[at..]);
        let Some(character) = char::from_u32(point) else {
            let mut points: Vec<u32> = text.chars().map(u32::from).collect();
            unescape_points(&rest[at..], &mut points);
            return Repr::Lone(points.into());
        };
        text.push(character);
        rest = &rest[at + length..];
    }
    text.push_str(rest);
    Repr::Text(Cow::Owned(text))
}

fn unescape_points(mut rest: &str, points: &mut Vec<u32>) {
    while let Some(at) = rest.find('\\') {
        points.extend(rest[..at].chars().map(u32::from));
        let (point, length) = escape(&rest[at..]);
        points.push(point);
        rest = &rest[at + length..];
    }
    points.extend(rest.chars().map(u32::from));
}

/// The code point of the escape that `text` starts with, and the bytes it takes: both halves of a
/// pair are one, a half without the other stands for itself.
fn escape(text: &str) -> (u32, usize) {
    let unit = |from: usize| {
        text.get(from..from + 6)
            .and_then(|escape| escape.strip_prefix("\\u"))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
    };
    let point = match text.as_bytes().get(1) {
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'n') => 0x0a,
        Some(b'r') => 0x0d,
        Some(b't') => 0x09,
        Some(b'u') => {
            let first = unit(0).unwrap_or(0xfffd);
            return match (first, unit(6)) {
                (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) => {
                    (0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
                }
                _ => (first, 6),
            };
        }
        Some(&other) => u32::from(other),
        None => 0xfffd,
    };
    (point, 2)
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self(Repr::Text(Cow::Borrowed(text)))
    }
}

impl From<String> for Str<'_> {
    fn from(text: String) -> Self {
        Self(Repr::Text(Cow::Owned(text)))
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Text(one), Repr::Text(two)) => one == two,
            (Repr::Lone(one), Repr::Lone(two)) => one == two,
            _ => false,
        }
    }
}

impl Eq for Str<'_> {}

impl PartialEq<str> for Str<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl Hash for Str<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Text(text) => text.hash(state),
            Repr::Lone(points) => points.hash(state),
        }
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}
