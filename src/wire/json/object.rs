//! One object, checked but not read further than its members.

use std::borrow::Cow;
use std::collections::HashMap;

use super::scan::Scanner;
use super::{JsonError, Raw, Str};

/// The members of one object in the order received, their values not yet read. Of a key that comes
/// twice there is one member: the place of the first, the value of the last, as in Python (F4).
#[derive(Clone, Debug)]
pub struct Object<'a> {
    members: Vec<(Str<'a>, Raw<'a>)>,
}

impl<'a> Object<'a> {
    /// Reads a text that is exactly one object, white space around it allowed.
    ///
    /// # Errors
    /// `expected one JSON object` when the text is empty or other JSON, else what is wrong and the
    /// byte where.
    pub fn parse(text: &'a str) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(text);
        scanner.space();
        if scanner.peek() == b'{' {
            let object = Self::scan(&mut scanner)?;
            scanner.end()?;
            return Ok(object);
        }
        if !scanner.is_done() {
            Raw::parse(text)?;
        }
        Err(JsonError::not_one_object())
    }

    /// Reads the object whose opening brace is next, as the outermost one of its text.
    pub(super) fn scan(scanner: &mut Scanner<'a>) -> Result<Self, JsonError> {
        let mut members = Members::new();
        scanner.take(b'{');
        scanner.space();
        if scanner.take(b'}') {
            return Ok(Self {
                members: members.list,
            });
        }
        loop {
            let key = Str::from_quoted(&scanner.key()?);
            members.insert(key, Raw::checked(scanner.value(1)?));
            scanner.space();
            if scanner.take(b',') {
                continue;
            }
            if !scanner.take(b'}') {
                return scanner.expected("',' or '}'");
            }
            return Ok(Self {
                members: members.list,
            });
        }
    }

    pub(super) const fn empty() -> Self {
        Self {
            members: Vec::new(),
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<Raw<'a>> {
        self.members
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
    }

    /// Keys and values in the order received; a lone surrogate in a key becomes U+FFFD.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Raw<'a>)> {
        self.members
            .iter()
            .map(|(key, value)| (key.to_text(), *value))
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it is `{}`.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// Members while they are read. Few are searched one by one; many get an index, so that an object of
/// a million keys does not cost a million times a million.
pub(super) struct Members<'a, V> {
    pub(super) list: Vec<(Str<'a>, V)>,
    index: Option<HashMap<Str<'a>, usize>>,
}

impl<'a, V> Members<'a, V> {
    /// Up to this many a search is cheaper than hashing.
    const FEW: usize = 16;

    pub(super) fn new() -> Self {
        Self {
            list: Vec::with_capacity(8),
            index: None,
        }
    }

    pub(super) fn insert(&mut self, key: Str<'a>, value: V) {
        match self.find(&key) {
            Some(at) => self.list[at].1 = value,
            None => {
                if let Some(index) = &mut self.index {
                    index.insert(key.clone(), self.list.len());
                }
                self.list.push((key, value));
            }
        }
    }

    fn find(&mut self, key: &Str<'a>) -> Option<usize> {
        if self.list.len() < Self::FEW {
            return self.list.iter().position(|(name, _)| name == key);
        }
        let names = self.list.iter().map(|(name, _)| name.clone());
        self.index
            .get_or_insert_with(|| names.zip(0..).collect())
            .get(key)
            .copied()
    }
}
