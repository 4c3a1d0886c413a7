//! What is read, what is refused, and that nothing panics. The byte forms are tested against Python
//! itself in `tests/canonical.rs`.

use proptest::prelude::*;

use super::*;

fn object(text: &str) -> Object<'_> {
    Object::parse(text).unwrap()
}

fn refused(text: &str) -> String {
    Raw::parse(text).unwrap_err().to_string()
}

fn python(text: &str) -> String {
    String::from_utf8(to_python(&Raw::parse(text).unwrap().value())).unwrap()
}

#[test]
fn members_are_slices_of_the_frame() {
    let frame = object(r#" { "type" : "EXEC" , "payload": {"b": [1, {"a":2}] } ,"n":7} "#);
    assert_eq!(frame.len(), 3);
    assert_eq!(
        frame.get("payload").unwrap().text(),
        r#"{"b": [1, {"a":2}] }"#
    );
    assert_eq!(frame.get("n").unwrap().as_u64(), Some(7));
    assert!(frame.get("absent").is_none());
    assert!(matches!(
        frame.get("type").unwrap().as_str(),
        Some(std::borrow::Cow::Borrowed("EXEC"))
    ));
    let keys: Vec<_> = frame.iter().map(|(key, _)| key.into_owned()).collect();
    assert_eq!(keys, ["type", "payload", "n"]);
}

#[test]
fn the_last_of_equal_keys_wins_in_the_place_of_the_first() {
    let text = r#"{"a":1,"b":2,"\u0061":3}"#;
    let frame = object(text);
    assert_eq!(frame.get("a").unwrap().text(), "3");
    assert_eq!(frame.len(), 2);
    let Value::Object(members) = Raw::parse(text).unwrap().value() else {
        panic!("no object");
    };
    assert_eq!(members[0], ("a".into(), Value::Number("3")));
}

#[test]
fn many_keys_are_told_apart_too() {
    let members: Vec<_> = (0..100).map(|n| format!("\"k{}\":{n}", n % 50)).collect();
    let text = format!("{{{}}}", members.join(","));
    let frame = object(&text);
    assert_eq!(frame.len(), 50);
    assert_eq!(frame.get("k0").unwrap().text(), "50");
    assert_eq!(frame.get("k49").unwrap().text(), "99");
}

#[test]
fn other_json_is_not_one_object() {
    for text in ["", " ", "[]", "\"x\"", "5", "null", "NaN"] {
        let error = Object::parse(text).unwrap_err();
        assert_eq!(error.to_string(), "expected one JSON object", "{text}");
        assert!(error.is_other_kind());
    }
    for (text, error) in [
        ("hello", "expected a value at byte 0"),
        ("{} {}", "expected the end at byte 3"),
        (r#"{"a":1 "b""#, "expected ',' or '}' at byte 7"),
        ("{1:2}", "expected a key in quotes at byte 1"),
        (r#"{"a" 2}"#, "expected ':' at byte 5"),
        (r#"{"a":1,}"#, "expected a key in quotes at byte 7"),
    ] {
        let refusal = Object::parse(text).unwrap_err();
        assert_eq!(refusal.to_string(), error, "{text}");
        assert!(!refusal.is_other_kind());
    }
}

#[test]
fn syntax_is_strict() {
    for text in [
        "",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "--1",
        "0x1",
        "[1,]",
        "[1",
        "[",
        "]",
        "{",
        "{\"a\"}",
        "tru",
        "True",
        "nul",
        "Nan",
        "-NaN",
        "-Infinit",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"a\nb\"",
        "\"\u{1f}\"",
        "'a'",
        "1 2",
        "[1}",
        "{\"a\":1]",
        "\u{feff}1",
        "\u{a0}1",
        "//x\n1",
        "\"12345678\u{0}\"",
    ] {
        assert!(Raw::parse(text).is_err(), "{text:?} was read");
    }
    assert_eq!(
        refused("\"a\nb\""),
        "expected no raw control character in a string at byte 2"
    );
    assert_eq!(refused("[1 2]"), "expected ',' or ']' at byte 3");
}

/// Strings are scanned eight bytes at a time: every byte at every place in and after such a step.
#[test]
fn every_byte_is_seen_at_every_place() {
    for byte in 0..=0x7f_u8 {
        for at in 0..20 {
            let mut inner = [b'x'; 20];
            inner[at] = byte;
            let text = format!("\"{}\"", std::str::from_utf8(&inner).unwrap());
            let plain = byte >= 0x20 && byte != b'"' && byte != b'\\';
            assert_eq!(Raw::parse(&text).is_ok(), plain, "{byte:#x} at {at}");
        }
    }
}

#[test]
fn depth_is_bounded_wherever_one_starts() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Raw::parse(&nested(128)).is_ok());
    assert_eq!(refused(&nested(129)), "deeper than 128 at byte 128");
    assert!(Object::parse(&format!("{{\"a\":{}}}", nested(127))).is_ok());
    assert!(Object::parse(&format!("{{\"a\":{}}}", nested(128))).is_err());
    assert!(refused(&"[".repeat(1_000_000)).starts_with("deeper than 128"));
    assert!(refused(&"{\"a\":".repeat(200)).starts_with("deeper than 128"));
    let siblings = format!("[{}1]", "[[]],".repeat(1000));
    assert!(Raw::parse(&siblings).is_ok(), "closing gives depth back");
    assert_eq!(python(&nested(128)), nested(128));
}

#[test]
fn kinds_and_conversions() {
    let raw = |text: &'static str| Raw::parse(text).unwrap();
    assert!(raw(" null ").is_null());
    assert_eq!(raw("true").as_bool(), Some(true));
    assert_eq!(raw("1").as_bool(), None);
    assert_eq!(raw("-1.5e3").as_f64(), Some(-1500.0));
    assert_eq!(raw("1e999").as_f64(), Some(f64::INFINITY));
    assert!(raw("NaN").as_f64().unwrap().is_nan());
    assert_eq!(raw("-Infinity").as_f64(), Some(f64::NEG_INFINITY));
    assert_eq!(raw("\"1\"").as_f64(), None);
    assert_eq!(raw("18446744073709551615").as_u64(), Some(u64::MAX));
    for text in ["18446744073709551616", "-1", "1.0", "1e1", "\"1\"", "true"] {
        assert_eq!(raw(text).as_u64(), None, "{text}");
    }
    assert_eq!(
        raw(r#""\ud83d\ude00\u00e9\n\/""#).as_str().unwrap(),
        "😀é\n/"
    );
    assert_eq!(
        raw(r#""a\ud800b\udc00""#).as_str().unwrap(),
        "a\u{fffd}b\u{fffd}"
    );
    assert_eq!(raw("5").as_str(), None);
    let elements = raw("[1, [2,3] ,\"]\"]").as_array().unwrap();
    assert_eq!(
        elements.iter().map(|raw| raw.text()).collect::<Vec<_>>(),
        ["1", "[2,3]", "\"]\""]
    );
    assert_eq!(raw("[ ]").as_array().unwrap().len(), 0);
    assert!(raw("{ }").as_object().unwrap().is_empty());
    assert_eq!(raw("[NaN]").kind(), Kind::Array);
    assert_eq!(raw("-Infinity").kind(), Kind::Number);
}

#[test]
fn serde_gets_content() {
    let text = r#"{"a":[1,-2,1.5,1e400,NaN,123456789012345678901234567890],"b":"\ud800","c":-0}"#;
    assert_eq!(
        Raw::parse(text).unwrap().to_serde(),
        serde_json::json!({
            "a": [1, -2, 1.5, null, null, 1.2345678901234568e29],
            "b": "\u{fffd}",
            "c": 0,
        })
    );
}

#[test]
fn forms_differ_where_peers_do() {
    let text = r#"{"z":{"b":1e16,"a":"é\u007f"},"\ue000":1,"😀":2}"#;
    let value = Raw::parse(text).unwrap().value();
    let text = |form| String::from_utf8(canonical(&value, form)).unwrap();
    assert_eq!(
        text(Form::PYTHON),
        r#"{"z":{"a":"\u00e9\u007f","b":1e+16},"\ue000":1,"\ud83d\ude00":2}"#
    );
    assert_eq!(
        text(Form::JAVASCRIPT),
        "{\"z\":{\"b\":1e16,\"a\":\"é\u{7f}\"},\"\u{e000}\":1,\"😀\":2}"
    );
    assert!(
        FORMS
            .iter()
            .any(|&form| text(form).ends_with("\"😀\":2,\"\u{e000}\":1}"))
    );
    for (at, form) in FORMS.iter().enumerate() {
        assert!(!FORMS[..at].contains(form), "{form:?} twice");
    }
    assert_eq!(
        to_python_spaced(&Raw::parse(r#"{"b":[1,2],"a":{}}"#).unwrap().value()),
        br#"{"a": {}, "b": [1, 2]}"#
    );
}

#[test]
fn long_integers_keep_their_text() {
    let digits = "9".repeat(5000);
    assert_eq!(python(&digits), digits);
    assert_eq!(python("-0"), "0");
    assert_eq!(
        python("[-0.0,1E5,1e-7,1e400]"),
        "[-0.0,100000.0,1e-07,Infinity]"
    );
}

/// JSON-like noise: most of it is nearly JSON.
fn noise() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud800", "\\udc00", "a", "1", "-", "0",
        ".", "e", "+", "null", "true", "NaN", "Infinity", " ", "\n", "é", "😀", "\"k\":", "\u{7f}",
        "\u{0}",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<f64>().prop_map(|number| format!("{number:?}").replace("inf", "Infinity")),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just("\"\\ud800\"".to_owned()),
        Just("null".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let key = any::<String>().prop_map(|key| serde_json::to_string(&key).unwrap());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|elements| format!("[{}]", elements.join(","))),
            prop::collection::vec((key, inner), 0..6).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(k, v)| format!("{k}:{v}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// Reads the text in every way. What passes the check must be read whole by the others, which
/// rely on it.
fn exercise(text: &str) {
    let object = Object::parse(text);
    let Ok(raw) = Raw::parse(text) else {
        assert!(object.is_err());
        return;
    };
    assert_eq!(object.is_ok(), raw.kind() == Kind::Object);
    let value = raw.value();
    match &value {
        Value::Null => assert!(raw.is_null()),
        Value::Bool(value) => assert_eq!(raw.as_bool(), Some(*value)),
        Value::Number(text) => {
            assert_eq!(*text, raw.text());
            assert!(raw.as_f64().is_some());
        }
        Value::String(text) => assert_eq!(raw.as_str(), Some(text.to_text())),
        Value::Array(elements) => {
            let raws = raw.as_array().unwrap();
            assert!(
                raws.iter()
                    .map(|raw| raw.value())
                    .eq(elements.iter().cloned())
            );
        }
        Value::Object(members) => {
            let object = raw.as_object().unwrap();
            let ours = members
                .iter()
                .map(|(key, value)| (key.to_text(), value.clone()));
            assert!(object.iter().map(|(key, raw)| (key, raw.value())).eq(ours));
        }
    }
    raw.to_serde();
    for &form in FORMS {
        canonical(&value, form);
    }
}

proptest! {
    #[test]
    fn nothing_panics(any in any::<String>(), noise in noise()) {
        exercise(&any);
        exercise(&noise);
    }

    #[test]
    fn damaged_json_does_not_panic(text in json(), at in any::<prop::sample::Index>(), with in any::<char>()) {
        let mut characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len());
        characters[at] = with;
        exercise(&characters.iter().collect::<String>());
    }

    #[test]
    fn canonical_is_stable(text in json().prop_filter("NaN", |text| !text.contains("NaN"))) {
        let value = Raw::parse(&text).unwrap().value();
        for &form in FORMS {
            let once = String::from_utf8(canonical(&value, form)).unwrap();
            let again = canonical(&Raw::parse(&once).unwrap().value(), form);
            prop_assert_eq!(once.as_bytes(), again);
        }
    }

    #[test]
    fn sound_json_means_what_serde_says(
        // serde_json reads some floats one unit off.
        text in json().prop_filter("float", |text| !text.contains('.')),
    ) {
        if let Ok(theirs) = serde_json::from_str::<serde_json::Value>(&text) {
            prop_assert_eq!(Raw::parse(&text).unwrap().to_serde(), theirs);
        }
    }

    #[test]
    fn accepts_what_serde_accepts(text in noise()) {
        if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
            prop_assert!(Raw::parse(&text).is_ok());
        }
    }
}
