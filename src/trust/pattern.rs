//! Patterns with `*`, which stands for any text, also none. No other character means anything but
//! itself.

/// Does all of `text` match `pattern`? Case matters; fold it before.
///
/// Each star is tried at its nearest place first and moved on from there, which never costs more
/// than pattern × text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            p = at + 1;
            t = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_star_is_any_text_and_the_only_wildcard() {
        for (pattern, text, fits) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("abc", "xabc", false),
            ("ab", "abc", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*c", "abc", true),
            ("*c", "abcd", false),
            ("a*c", "abbc", true),
            ("a*c", "ac", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**c", "abc", true),
            ("a?c", "abc", false),
            ("a[b]c", "abc", false),
            ("a.c", "abc", false),
            ("世*界", "世和界", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let started = std::time::Instant::now();
        assert!(!matches(&"*a".repeat(2_000), &"a".repeat(1_999)));
        assert!(!matches(
            &format!("{}b", "a*".repeat(40)),
            &"a".repeat(4_000)
        ));
        assert!(started.elapsed().as_secs() < 5);
    }

    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|at| slow(rest, &text[at..])),
            Some((byte, rest)) => text.first() == Some(byte) && slow(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &text), slow(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
