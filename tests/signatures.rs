//! Signatures that real clients made: each verifies, or does not, as it did for the clients' host.

use oip_host::identity::{Address, Check, Signature, verify, verify_batch, verify_bytes};
use oip_host::wire::json::{Form, Object, Raw, Value, canonical};

const LINES: &str = include_str!("../fixtures/signatures.jsonl");

struct Vector<'a> {
    line: usize,
    signer: Address,
    payload: Value<'a>,
    /// None when the text is no signature at all.
    signature: Option<Signature>,
    verifies_with: Vec<String>,
}

fn vectors() -> Vec<Vector<'static>> {
    let vectors: Vec<_> = LINES.lines().zip(1..).map(read).collect();
    assert_eq!(vectors.len(), 175);
    vectors
}

fn read((text, line): (&'static str, usize)) -> Vector<'static> {
    let row = Object::parse(text).unwrap();
    let field = |key| row.get(key).unwrap().as_str().unwrap();
    let forms = row.get("verifies_with").and_then(Raw::as_array).unwrap();
    Vector {
        line,
        signer: field("from").parse().unwrap(),
        payload: row.get("payload").unwrap().value(),
        signature: field("signature").parse().ok(),
        verifies_with: forms
            .iter()
            .map(|form| form.as_str().unwrap().into_owned())
            .collect(),
    }
}

#[test]
fn clients_signatures_verify() {
    for Vector {
        line,
        signer,
        payload,
        signature,
        verifies_with,
    } in vectors()
    {
        let good = signature.is_some_and(|signature| verify(&signer, &payload, &signature));
        assert_eq!(good, !verifies_with.is_empty(), "line {line}");
    }
}

#[test]
fn each_form_is_the_clients_form() {
    for vector in vectors() {
        let Some(signature) = vector.signature else {
            continue;
        };
        for (name, form) in [
            ("recursive_sort_ascii", Form::PYTHON),
            ("toplevel_sort_utf8", Form::JAVASCRIPT),
        ] {
            let good = verify_bytes(
                &vector.signer,
                &canonical(&vector.payload, form),
                &signature,
            );
            let listed = vector.verifies_with.iter().any(|with| with == name);
            // A lone surrogate has no UTF-8, so the listing could not try it there.
            let lone = vector.verifies_with == ["recursive_sort_ascii"]
                && LINES
                    .lines()
                    .nth(vector.line - 1)
                    .is_some_and(|line| line.contains("\\ud800"));
            assert!(good == listed || lone, "line {}, {name}", vector.line);
        }
    }
}

#[test]
fn a_batch_finds_the_same() {
    let vectors = vectors();
    let (checks, expected): (Vec<_>, Vec<_>) = vectors
        .iter()
        .filter_map(|vector| {
            let check = Check {
                signer: vector.signer,
                payload: &vector.payload,
                signature: vector.signature?,
            };
            Some((check, !vector.verifies_with.is_empty()))
        })
        .unzip();
    assert_eq!(verify_batch(&checks), expected);

    let good: Vec<_> = checks
        .iter()
        .zip(&expected)
        .filter_map(|(check, good)| good.then_some(*check))
        .collect();
    assert!(verify_batch(&good).into_iter().all(|good| good));
}

#[test]
fn tampered_ones_do_not_verify() {
    for vector in vectors() {
        let Some(signature) = vector.signature else {
            continue;
        };
        let mut bytes = signature.to_bytes();
        bytes[vector.line % 64] ^= 1 << (vector.line % 8);
        let flipped = Signature::from_bytes(bytes);
        assert!(!verify(&vector.signer, &vector.payload, &flipped));

        let Value::Object(mut members) = vector.payload else {
            panic!("line {}: no object", vector.line);
        };
        members.push(("extra".into(), Value::Bool(true)));
        let more = Value::Object(members);
        assert!(!verify(&vector.signer, &more, &signature));
    }
}
