//! One value as the text it came in.

use std::borrow::Cow;

use super::scan::Scanner;
use super::{JsonError, Object, Str, Value, number};

/// The text of one JSON value whose syntax was checked. Copying it copies no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

/// What a JSON value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number; Python's `NaN`, `Infinity` and `-Infinity` included.
    Number,
    /// Text in quotes.
    String,
    /// `[…]`.
    Array,
    /// `{…}`.
    Object,
}

impl<'a> Raw<'a> {
    /// Checks a text that is one value, white space around it allowed.
    ///
    /// # Errors
    /// What is wrong, and the byte where.
    pub fn parse(text: &'a str) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(text);
        let value = scanner.value(0)?;
        scanner.end()?;
        Ok(Self(value))
    }

    pub(super) const fn checked(text: &'a str) -> Self {
        Self(text)
    }

    /// The value's text, without white space around it.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// What the value is.
    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'"') => Kind::String,
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// A string's text; a lone surrogate becomes U+FFFD (F5).
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        if self.kind() != Kind::String {
            return None;
        }
        let quoted = Scanner::new(self.0).string().ok()?;
        if !quoted.escaped {
            return Some(Cow::Borrowed(quoted.inner));
        }
        Some(Str::from_quoted(&quoted).to_text())
    }

    /// `true` or `false`.
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// A number as the nearest float; NaN and the infinities included.
    pub fn as_f64(self) -> Option<f64> {
        if self.kind() != Kind::Number {
            return None;
        }
        number::to_f64(self.0)
    }

    /// A number that is written as digits only and fits.
    pub fn as_u64(self) -> Option<u64> {
        if !self.0.as_bytes().iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0.parse().ok()
    }

    /// An object's members.
    pub fn as_object(self) -> Option<Object<'a>> {
        if self.kind() != Kind::Object {
            return None;
        }
        // The syntax was checked, so this reads the whole of it.
        Some(Object::scan(&mut Scanner::new(self.0)).unwrap_or_else(|_| Object::empty()))
    }

    /// An array's elements.
    pub fn as_array(self) -> Option<Vec<Raw<'a>>> {
        if self.kind() != Kind::Array {
            return None;
        }
        let mut scanner = Scanner::new(self.0);
        let mut elements = Vec::new();
        scanner.take(b'[');
        scanner.space();
        if scanner.peek() == b']' {
            return Some(elements);
        }
        loop {
            elements.push(Self(scanner.value(1).ok()?));
            scanner.space();
            if !scanner.take(b',') {
                return Some(elements);
            }
        }
    }

    /// The tree.
    pub fn value(self) -> Value<'a> {
        Value::read(self.0)
    }

    /// The tree as `serde_json` has it: lone surrogates become U+FFFD, NaN and infinities null, and
    /// numbers lose their spelling. For content, never for anything signed.
    pub fn to_serde(self) -> serde_json::Value {
        self.value().to_serde()
    }
}
