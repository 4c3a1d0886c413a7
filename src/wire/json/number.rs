//! Numbers: their value, and how Python would spell them again (F4).

/// The nearest float of a JSON number or of Python's `NaN`, `Infinity`, `-Infinity`.
pub(super) fn to_f64(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok(),
    }
}

/// An integer if it is written as one and fits 64 bits, else a float, else null.
pub(super) fn to_serde(text: &str) -> serde_json::Value {
    if let Ok(value) = text.parse::<u64>() {
        return value.into();
    }
    if let Ok(value) = text.parse::<i64>() {
        return value.into();
    }
    to_f64(text).map_or(serde_json::Value::Null, Into::into)
}

/// Writes the number as Python's `json` does after reading it: an integer keeps its digits, a float
/// becomes the shortest text that reads back as the same float. Integers beyond the 4,300 digits that
/// Python reads keep their text too.
pub(super) fn write_python(text: &str, out: &mut Vec<u8>) {
    let is_float = text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    if is_float && let Ok(value) = text.parse::<f64>() {
        return write_float(value, out);
    }
    // Python has no negative zero among its integers.
    let text = if text == "-0" { "0" } else { text };
    out.extend_from_slice(text.as_bytes());
}

/// Python's `repr` of a float, from Rust's shortest digits: positional for exponents from -4 to 15,
/// else scientific with a sign and at least two digits of exponent.
fn write_float(value: f64, out: &mut Vec<u8>) {
    if value.is_infinite() {
        let word: &[u8] = if value > 0.0 {
            b"Infinity"
        } else {
            b"-Infinity"
        };
        return out.extend_from_slice(word);
    }
    let scientific = shortest(value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.extend_from_slice(sign.as_bytes());
    if !(-4..16).contains(&exponent) {
        out.extend_from_slice(mantissa.as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        let tail = format!("e{sign}{:02}", exponent.unsigned_abs());
        return out.extend_from_slice(tail.as_bytes());
    }
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend((exponent..-1).map(|_| b'0'));
        return out.extend(digits);
    }
    let whole = exponent as usize + 1;
    let padded = digits.chain(std::iter::repeat(b'0'));
    let count = mantissa.len() - usize::from(mantissa.len() > 1);
    out.extend(padded.clone().take(whole));
    out.push(b'.');
    out.extend(padded.skip(whole).take(count.saturating_sub(whole).max(1)));
}

/// The shortest digits that read back as the same float, as `d.ddde±x`. Of two that are equally near
/// Python and JavaScript take the even one and Rust the larger. That happens with 16 or 17 digits
/// only, and rounding to as many digits does take the even one; but beside a power of two what is
/// nearest may be another float's, so that is looked at.
fn shortest(value: f64) -> String {
    let shortest = format!("{value:e}");
    let digits = shortest
        .bytes()
        .take_while(|&byte| byte != b'e')
        .filter(u8::is_ascii_digit)
        .count();
    if digits >= 16 {
        let rounded = format!("{value:.*e}", digits - 1);
        if rounded.parse() == Ok(value) {
            return rounded;
        }
    }
    shortest
}
