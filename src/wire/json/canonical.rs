//! The byte forms a signature may cover (F3, F4, F6).

use std::cmp::Ordering;
use std::io::Write;

use super::text::{Piece, Str, utf16};
use super::{Value, number};

/// One way of writing a value that some peer signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    sort: Sort,
    order: Order,
    escape: Escape,
    numbers: Numbers,
}

/// Which objects have their keys sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Every,
    Top,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    CodePoint,
    Utf16,
}

/// What becomes `\uXXXX`: all but printable ASCII, or only what must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    Ascii,
    Least,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Python,
    Wire,
}

impl Form {
    /// What Python signs: keys sorted at every depth, ASCII, Python's spelling of numbers.
    pub const PYTHON: Self = Self {
        sort: Sort::Every,
        order: Order::CodePoint,
        escape: Escape::Ascii,
        numbers: Numbers::Python,
    };
    /// What React and the TypeScript SDK sign: top keys sorted, UTF-8, the text of numbers.
    pub const JAVASCRIPT: Self = Self {
        sort: Sort::Top,
        escape: Escape::Least,
        numbers: Numbers::Wire,
        ..Self::PYTHON
    };
    /// Keys sorted at every depth, UTF-8, the text of numbers.
    pub const SORTED_UTF8: Self = Self {
        sort: Sort::Every,
        ..Self::JAVASCRIPT
    };

    /// The same with numbers as Python spells them.
    pub const fn python_numbers(self) -> Self {
        Self {
            numbers: Numbers::Python,
            ..self
        }
    }

    /// The same with the text of numbers as received.
    pub const fn wire_numbers(self) -> Self {
        Self {
            numbers: Numbers::Wire,
            ..self
        }
    }

    /// The same with keys sorted by UTF-16 unit, as JavaScript sorts.
    pub const fn utf16_order(self) -> Self {
        Self {
            order: Order::Utf16,
            ..self
        }
    }
}

/// Every form a verifier accepts, likeliest first: the two that clients make, what is left of the
/// three sortings with both spellings of numbers, and all of it in JavaScript's order of keys. Most
/// payloads have the same bytes in all of them.
pub const FORMS: &[Form] = &[
    Form::PYTHON,
    Form::JAVASCRIPT,
    Form::SORTED_UTF8,
    Form::SORTED_UTF8.python_numbers(),
    Form::JAVASCRIPT.python_numbers(),
    Form::PYTHON.wire_numbers(),
    Form::JAVASCRIPT.utf16_order(),
    Form::SORTED_UTF8.utf16_order(),
    Form::PYTHON.utf16_order(),
    Form::SORTED_UTF8.python_numbers().utf16_order(),
    Form::JAVASCRIPT.python_numbers().utf16_order(),
    Form::PYTHON.wire_numbers().utf16_order(),
];

/// The bytes of `value` in `form`, with `,` and `:` between.
pub fn canonical(value: &Value<'_>, form: Form) -> Vec<u8> {
    Writer::run(value, form, b",", b":")
}

/// `json.dumps(value, sort_keys=True, separators=(",", ":"))`: form 1, what Python signs.
pub fn to_python(value: &Value<'_>) -> Vec<u8> {
    canonical(value, Form::PYTHON)
}

/// `json.dumps(value, sort_keys=True)`: what an ANNOUNCE is signed over (F6).
pub fn to_python_spaced(value: &Value<'_>) -> Vec<u8> {
    Writer::run(value, Form::PYTHON, b", ", b": ")
}

struct Writer {
    form: Form,
    comma: &'static [u8],
    colon: &'static [u8],
    out: Vec<u8>,
}

impl Writer {
    fn run(value: &Value<'_>, form: Form, comma: &'static [u8], colon: &'static [u8]) -> Vec<u8> {
        let out = Vec::with_capacity(512);
        let mut writer = Self {
            form,
            comma,
            colon,
            out,
        };
        writer.value(value, true);
        writer.out
    }

    fn value(&mut self, value: &Value<'_>, is_top: bool) {
        match value {
            Value::Null => self.out.extend_from_slice(b"null"),
            Value::Bool(true) => self.out.extend_from_slice(b"true"),
            Value::Bool(false) => self.out.extend_from_slice(b"false"),
            Value::Number(text) if self.form.numbers == Numbers::Wire => {
                self.out.extend_from_slice(text.as_bytes());
            }
            Value::Number(text) => number::write_python(text, &mut self.out),
            Value::String(text) => self.string(text),
            Value::Array(elements) => self.array(elements),
            Value::Object(members) => self.object(members, is_top),
        }
    }

    fn array(&mut self, elements: &[Value<'_>]) {
        self.out.push(b'[');
        for (at, element) in elements.iter().enumerate() {
            if at > 0 {
                self.out.extend_from_slice(self.comma);
            }
            self.value(element, false);
        }
        self.out.push(b']');
    }

    fn object(&mut self, members: &[(Str<'_>, Value<'_>)], is_top: bool) {
        let order: fn(&Str<'_>, &Str<'_>) -> Ordering = match self.form.order {
            Order::CodePoint => |one, two| one.cmp_points(two),
            Order::Utf16 => |one, two| one.cmp_units(two),
        };
        let keep = !is_top && self.form.sort == Sort::Top;
        if keep || members.is_sorted_by(|one, two| order(&one.0, &two.0).is_lt()) {
            return self.members(members.iter());
        }
        let mut sorted: Vec<_> = members.iter().collect();
        sorted.sort_unstable_by(|one, two| order(&one.0, &two.0));
        self.members(sorted.into_iter());
    }

    fn members<'m, 'a: 'm>(&mut self, members: impl Iterator<Item = &'m (Str<'a>, Value<'a>)>) {
        self.out.push(b'{');
        for (at, (key, value)) in members.enumerate() {
            if at > 0 {
                self.out.extend_from_slice(self.comma);
            }
            self.string(key);
            self.out.extend_from_slice(self.colon);
            self.value(value, false);
        }
        self.out.push(b'}');
    }

    fn string(&mut self, text: &Str<'_>) {
        self.out.push(b'"');
        match text.piece() {
            Piece::Text(text) => self.text(text),
            Piece::Lone(points) => {
                for &point in points {
                    match char::from_u32(point) {
                        Some(character) => self.text(character.encode_utf8(&mut [0; 4])),
                        // Both Python's ASCII form and JavaScript write it so.
                        None => self.unit(point as u16),
                    }
                }
            }
        }
        self.out.push(b'"');
    }

    fn text(&mut self, mut text: &str) {
        let table = match self.form.escape {
            Escape::Ascii => &PRINTABLE,
            Escape::Least => &UNESCAPED,
        };
        while let Some(at) = text.bytes().position(|byte| !table[usize::from(byte)]) {
            let (plain, rest) = text.split_at(at);
            self.out.extend_from_slice(plain.as_bytes());
            let mut characters = rest.chars();
            if let Some(character) = characters.next() {
                self.escape(character);
            }
            text = characters.as_str();
        }
        self.out.extend_from_slice(text.as_bytes());
    }

    fn escape(&mut self, character: char) {
        let short: &[u8] = match character {
            '"' => b"\\\"",
            '\\' => b"\\\\",
            '\u{8}' => b"\\b",
            '\t' => b"\\t",
            '\n' => b"\\n",
            '\u{c}' => b"\\f",
            '\r' => b"\\r",
            other => {
                let (first, second) = utf16(other.into());
                self.unit(first);
                if let Some(second) = second {
                    self.unit(second);
                }
                return;
            }
        };
        self.out.extend_from_slice(short);
    }

    fn unit(&mut self, unit: u16) {
        // Writing into a Vec cannot fail.
        let _ = write!(self.out, "\\u{unit:04x}");
    }
}

/// Bytes that stay as they are in the ASCII forms: Python escapes DEL as well (F3).
const PRINTABLE: [bool; 256] = plain_bytes(0x7f);
/// Bytes that stay as they are in the UTF-8 forms.
const UNESCAPED: [bool; 256] = plain_bytes(0x100);

const fn plain_bytes(end: usize) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0x20;
    while byte < end {
        table[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    table
}
