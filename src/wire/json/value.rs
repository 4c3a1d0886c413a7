//! The tree of a JSON value.

use super::object::Members;
use super::scan::Scanner;
use super::{JsonError, Str, number};

/// A JSON value whose numbers keep their text and whose objects keep their order. A key that came
/// twice is in an object once: the place of the first, the value of the last (F4).
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// The text as received; Python's `NaN`, `Infinity` and `-Infinity` included.
    Number(&'a str),
    /// A string, escapes read.
    String(Str<'a>),
    /// The elements.
    Array(Vec<Value<'a>>),
    /// The members in the order received.
    Object(Vec<(Str<'a>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// Builds the tree of a text whose syntax and depth were checked.
    pub(super) fn read(checked: &'a str) -> Self {
        // Cannot fail on checked text; null would verify nothing and match no field.
        build(&mut Scanner::new(checked)).unwrap_or(Self::Null)
    }

    /// The value of an object's member.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        match self {
            Self::Object(members) => members
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    pub(super) fn to_serde(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(text) => number::to_serde(text),
            Self::String(text) => text.to_text().into_owned().into(),
            Self::Array(elements) => elements.iter().map(Value::to_serde).collect(),
            Self::Object(members) => members
                .iter()
                .map(|(key, value)| (key.to_text().into_owned(), value.to_serde()))
                .collect(),
        }
    }
}

/// Recursion is bounded: the text was checked to be at most `MAX_DEPTH` deep.
fn build<'a>(scanner: &mut Scanner<'a>) -> Result<Value<'a>, JsonError> {
    scanner.space();
    Ok(match scanner.peek() {
        b'{' => Value::Object(members(scanner)?),
        b'[' => Value::Array(elements(scanner)?),
        b'"' => Value::String(Str::from_quoted(&scanner.string()?)),
        first => match scanner.scalar(first)? {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => Value::Number(number),
        },
    })
}

fn members<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<(Str<'a>, Value<'a>)>, JsonError> {
    let mut members = Members::new();
    scanner.take(b'{');
    scanner.space();
    while !scanner.take(b'}') {
        let key = Str::from_quoted(&scanner.key()?);
        members.insert(key, build(scanner)?);
        scanner.space();
        scanner.take(b',');
    }
    Ok(members.list)
}

fn elements<'a>(scanner: &mut Scanner<'a>) -> Result<Vec<Value<'a>>, JsonError> {
    let mut elements = Vec::new();
    scanner.take(b'[');
    scanner.space();
    while !scanner.take(b']') {
        elements.push(build(scanner)?);
        scanner.space();
        scanner.take(b',');
    }
    Ok(elements)
}
