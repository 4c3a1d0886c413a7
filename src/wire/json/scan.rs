//! The scanner: strict RFC 8259 syntax plus Python's NaN, Infinity and -Infinity.

use super::{JsonError, MAX_DEPTH};

/// A position in a text. Every method leaves it behind what was read.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// The text between a string's quotes, and whether escapes stand in it.
pub(super) struct Quoted<'a> {
    pub(super) inner: &'a str,
    pub(super) escaped: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte; 0, which no JSON starts with, at the end.
    pub(super) fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Steps over `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == byte;
        self.at += usize::from(next);
        next
    }

    pub(super) fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn expected<T>(&self, what: &'static str) -> Result<T, JsonError> {
        Err(JsonError::expected(what, self.at))
    }

    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        self.space();
        if self.is_done() {
            return Ok(());
        }
        self.expected("the end")
    }

    /// A member's key and colon, white space around each allowed.
    pub(super) fn key(&mut self) -> Result<Quoted<'a>, JsonError> {
        self.space();
        if self.peek() != b'"' {
            return self.expected("a key in quotes");
        }
        let key = self.string()?;
        self.space();
        if !self.take(b':') {
            return self.expected("':'");
        }
        Ok(key)
    }

    /// One whole value inside `depth` arrays and objects, as its text. Does not recurse: a bit for
    /// every open array (0) or object (1) is all that has to be remembered.
    pub(super) fn value(&mut self, depth: usize) -> Result<&'a str, JsonError> {
        const _: () = assert!(MAX_DEPTH <= u128::BITS as usize);
        self.space();
        let start = self.at;
        let (mut open, mut kinds) = (0_usize, 0_u128);
        'value: loop {
            self.space();
            let first = self.peek();
            if first == b'{' || first == b'[' {
                if depth + open == MAX_DEPTH {
                    return Err(JsonError::too_deep(self.at));
                }
                self.at += 1;
                self.space();
                let is_object = first == b'{';
                if !self.take(if is_object { b'}' } else { b']' }) {
                    open += 1;
                    kinds = kinds << 1 | u128::from(is_object);
                    if is_object {
                        self.key()?;
                    }
                    continue 'value;
                }
            } else {
                self.scalar(first)?;
            }
            loop {
                if open == 0 {
                    return Ok(&self.text[start..self.at]);
                }
                self.space();
                let is_object = kinds & 1 == 1;
                if self.take(b',') {
                    if is_object {
                        self.key()?;
                    }
                    continue 'value;
                }
                if is_object && !self.take(b'}') {
                    return self.expected("',' or '}'");
                }
                if !is_object && !self.take(b']') {
                    return self.expected("',' or ']'");
                }
                open -= 1;
                kinds >>= 1;
            }
        }
    }

    /// A string, number or literal whose first byte is `first`, as its text.
    pub(super) fn scalar(&mut self, first: u8) -> Result<&'a str, JsonError> {
        let start = self.at;
        match first {
            b'"' => {
                self.string()?;
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'N' => self.literal("NaN")?,
            b'I' => self.literal("Infinity")?,
            _ => return self.expected("a value"),
        }
        Ok(&self.text[start..self.at])
    }

    fn literal(&mut self, word: &str) -> Result<(), JsonError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.take(b'-') && self.peek() == b'I' {
            return self.literal("Infinity");
        }
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'-') {
                self.take(b'+');
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !self.peek().is_ascii_digit() {
            return self.expected("a digit");
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    /// A string whose opening quote is next.
    pub(super) fn string(&mut self) -> Result<Quoted<'a>, JsonError> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        self.at = start;
        loop {
            self.at += plain_run(&bytes[self.at..]);
            match bytes.get(self.at) {
                Some(b'"') => {
                    let inner = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Quoted { inner, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.expected("no raw control character in a string"),
                None => return self.expected("'\"'"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let length = match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) => 6,
            _ => return self.expected("a valid escape"),
        };
        self.at += length;
        Ok(())
    }
}

/// How many bytes from the start are neither a quote, a backslash nor a control character. Eight at
/// a time, because a frame may be one string of many megabytes (files in base64).
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // A byte that borrows when `less` is taken away from it; bytes above 0x7f never count.
    let below = |word: u64, less: u8| word.wrapping_sub(ONES * u64::from(less)) & !word & HIGH;
    let mut run = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = chunk
            .iter()
            .rev()
            .fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        let quote = word ^ (ONES * u64::from(b'"'));
        let backslash = word ^ (ONES * u64::from(b'\\'));
        let found = below(word, 0x20) | below(quote, 1) | below(backslash, 1);
        if found != 0 {
            // The lowest mark is exact; a borrow can only make false marks above a true one.
            return run + (found.trailing_zeros() / 8) as usize;
        }
        run += 8;
    }
    bytes[run..]
        .iter()
        .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
        .map_or(bytes.len(), |more| run + more)
}
