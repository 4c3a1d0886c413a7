//! The signed byte forms, against Python itself: hand-picked vectors, and thousands of random ones.

use std::io::Write;
use std::process::{Command, Stdio};

use oip_host::wire::json::{Form, Object, Raw, canonical, to_python_spaced};

const VECTORS: &str = include_str!("../fixtures/canonical.jsonl");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/make/canonical.py");

/// Compares one line of the script's output with what is written here for its text.
fn check(row: &str) {
    let row = Object::parse(row).unwrap();
    let field = |key| row.get(key).unwrap().as_str().unwrap();
    let text = field("text");
    let value = Raw::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let value = value.value();
    let utf8 = Form::SORTED_UTF8.python_numbers();
    let top = Form::JAVASCRIPT.python_numbers();
    for (name, ours) in [
        ("python", canonical(&value, Form::PYTHON)),
        ("python_utf8", canonical(&value, utf8)),
        ("top_utf8", canonical(&value, top)),
        ("utf16_ascii", canonical(&value, Form::PYTHON.utf16_order())),
        ("utf16_utf8", canonical(&value, utf8.utf16_order())),
        ("utf16_top", canonical(&value, top.utf16_order())),
        ("spaced", to_python_spaced(&value)),
    ] {
        let theirs = hex::decode(field(name).as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&theirs),
            "{name} of {text}"
        );
        assert_eq!(ours, theirs, "{name} of {text}");
    }
}

#[test]
fn picked_texts_are_written_as_python_does() {
    assert!(VECTORS.lines().count() > 60);
    VECTORS.lines().for_each(check);
}

#[test]
fn random_texts_are_written_as_python_does() {
    const TEXTS: usize = 10_000;
    let mut random = Random(0x0123_4567_89ab_cdef);
    let texts: Vec<String> = (0..TEXTS).map(|_| random.payload()).collect();
    let output = python(&texts.join("\n"));
    let rows: Vec<&str> = output.lines().collect();
    assert_eq!(rows.len(), TEXTS);
    for (row, text) in rows.into_iter().zip(texts) {
        let object = Object::parse(row).unwrap();
        assert_eq!(object.get("text").unwrap().as_str().unwrap(), text);
        check(row);
    }
}

/// What the script says for these lines.
fn python(lines: &str) -> String {
    let mut child = Command::new("python3")
        .args(["-X", "utf8", SCRIPT, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs python3 on PATH: it is what the bytes are compared with");
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "python3 {SCRIPT} failed");
    String::from_utf8(output.stdout).unwrap()
}

/// A seeded generator (xorshift) of payloads full of what JSON writers disagree about.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }

    fn pick(&mut self, of: &[&str]) -> String {
        of[self.below(of.len())].to_owned()
    }

    fn payload(&mut self) -> String {
        self.object(3)
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => self.pick(&["null", "true", "false", "NaN", "Infinity", "-Infinity"]),
            1..=3 => self.number(),
            4 | 5 => self.string(),
            6 | 7 => self.object(depth - 1),
            _ => {
                let elements: Vec<_> = (0..self.below(4)).map(|_| self.value(depth - 1)).collect();
                format!("[{}]", elements.join(&self.comma()))
            }
        }
    }

    fn object(&mut self, depth: usize) -> String {
        let mut members: Vec<(String, String)> = (0..self.below(7))
            .map(|_| (self.string(), self.value(depth)))
            .collect();
        if let (0, Some((key, _))) = (self.below(4), members.first()) {
            members.push((key.clone(), self.value(0)));
        }
        let members: Vec<_> = members.iter().map(|(k, v)| format!("{k}:{v}")).collect();
        format!("{{{}}}", members.join(&self.comma()))
    }

    fn comma(&mut self) -> String {
        self.pick(&[",", ", ", " ,\t", ","])
    }

    fn number(&mut self) -> String {
        let sign = self.pick(&["", "", "-"]);
        match self.below(8) {
            0 => format!("{sign}0"),
            1 => format!("{sign}{}", self.next() >> self.below(64)),
            2 => format!("{sign}{}{:020}", 1 + self.below(9), self.next()),
            // Any bits at all: half of these are long decimals at the edge of what a float holds.
            3 | 4 => match f64::from_bits(self.next()) {
                number if number.is_finite() => format!("{number:e}"),
                _ => "1.0".to_owned(),
            },
            5 => format!("{sign}{}.{}", self.below(1000), self.below(1_000_000)),
            6 => format!("{sign}{}.{}", self.next() >> self.below(64), self.next()),
            _ => {
                let exponent = self.pick(&["e", "E", "e+", "E-", "e-", "e0"]);
                let fraction = self.pick(&["", ".0", ".5", ".10", ".000001"]);
                format!(
                    "{sign}{}{fraction}{exponent}{}",
                    self.below(30),
                    self.below(330)
                )
            }
        }
    }

    fn string(&mut self) -> String {
        let length = self.below(6);
        let inner: String = (0..length).map(|_| self.piece()).collect();
        format!("\"{inner}\"")
    }

    fn piece(&mut self) -> String {
        match self.below(8) {
            0 => self.pick(&[
                "a", "b", "text", "Z", "~", " ", "\u{7f}", "/", "'", "é", "ß",
            ]),
            1 => self.pick(&[
                "世界",
                "\u{2028}",
                "\u{2029}",
                "\u{e000}",
                "\u{ffff}",
                "🚀",
                "\u{10ffff}",
            ]),
            2 => self.pick(&["\\n", "\\t", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\r"]),
            3 => format!("\\u{:04x}", self.below(0x1_0000)),
            4 => format!("\\u{:04X}", 0xd800 + self.below(0x800)),
            5 => format!("\\u00{:02x}", self.below(0x100)),
            6 => char::from_u32(self.below(0x11_0000) as u32)
                .filter(|character| !character.is_control() && !"\"\\".contains(*character))
                .map_or_else(String::new, String::from),
            _ => self.pick(&[
                "\\ud83d\\ude80",
                "\\uD83D\\uDE80",
                "\\ud83dx",
                "\\ude80",
                "k",
                "key",
            ]),
        }
    }
}
