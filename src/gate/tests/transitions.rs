//! Each kind in each state.

use super::*;

const UNSIGNED: &str = "unauthorized: signed request required";
const COMMAND_UNSIGNED: &str = "unauthorized: signed command required";
const FIRST: &str = "authenticate first (send CONNECT)";
const FOREIGN: &str = "unauthorized: command signer does not own this connection";

fn unknown(kind: &str) -> String {
    format!("unknown message type: '{kind}'")
}

fn is_command(kind: &str) -> bool {
    !matches!(
        kind,
        "SEAL" | "CONNECT" | "ONBOARD_SUBMIT" | "PONG" | "SESSION_STATUS" | "FOO"
    )
}

/// What is said to `frame(kind)` in each state is what `expected` has for it.
fn table(sealed: bool, frame: impl Fn(&str) -> Value, expected: impl Fn(&str) -> [String; 4]) {
    for kind in KINDS {
        for (at, expected) in STATES.into_iter().zip(expected(kind)) {
            // A seal is the first frame, so nothing sealed comes before it.
            if sealed && at == At::Start {
                continue;
            }
            let said = said(&mut gate(at, sealed), &frame(kind));
            assert_eq!(said, expected, "{kind} at {at:?}, sealed: {sealed}");
        }
    }
}

fn same(said: &str) -> [String; 4] {
    [said; 4].map(str::to_owned)
}

/// Before and after CONNECT.
fn turned(before: &str, after: &str) -> [String; 4] {
    [before, before, after, after].map(str::to_owned)
}

fn seal_once() -> [String; 4] {
    let unknown = unknown("SEAL");
    ["seal".to_owned(), unknown.clone(), unknown.clone(), unknown]
}

#[test]
fn unsigned_frames() {
    for sealed in [false, true] {
        let frame = |kind: &str| json!({"type": kind});
        table(sealed, frame, |kind| match kind {
            "SEAL" => seal_once(),
            "CONNECT" => same(UNSIGNED),
            "ONBOARD_SUBMIT" => turned(UNSIGNED, "plain"),
            "PONG" | "SESSION_STATUS" => same("plain"),
            "FOO" => [
                unknown(kind),
                unknown(kind),
                unknown(kind),
                COMMAND_UNSIGNED.into(),
            ],
            _ => [FIRST, FIRST, "plain", COMMAND_UNSIGNED].map(str::to_owned),
        });
    }
}

#[test]
fn frames_signed_by_the_caller() {
    for (sealed, passed) in [(false, "passed"), (true, "passed unclaimed")] {
        let frame = |kind: &str| signed(kind, &caller());
        table(sealed, frame, |kind| match kind {
            "SEAL" => seal_once(),
            "CONNECT" => same(passed),
            "ONBOARD_SUBMIT" | "SESSION_STATUS" => turned(passed, "plain"),
            "PONG" => same("plain"),
            "FOO" => same(&unknown(kind)),
            _ => turned(FIRST, passed),
        });
    }
}

#[test]
fn frames_signed_by_somebody_else() {
    for sealed in [false, true] {
        let frame = |kind: &str| signed(kind, &stranger());
        let passed = |kind: &str| match sealed {
            false => "passed".to_owned(),
            true => format!("unauthorized: {kind} is not signed by the sealed peer"),
        };
        table(sealed, frame, |kind| match kind {
            "SEAL" => seal_once(),
            "CONNECT" => same(&passed(kind)),
            "ONBOARD_SUBMIT" | "SESSION_STATUS" => turned(&passed(kind), "plain"),
            "PONG" => same("plain"),
            "FOO" => [
                unknown(kind),
                unknown(kind),
                unknown(kind),
                FOREIGN.to_owned(),
            ],
            _ => turned(FIRST, FOREIGN),
        });
    }
}

#[test]
fn forged_frames() {
    const FORGED: &str = "unauthorized: invalid signature";
    for sealed in [false, true] {
        let frame = |kind: &str| {
            let mut frame = signed(kind, &caller());
            frame["payload"]["prompt"] = "something else".into();
            frame
        };
        table(sealed, frame, |kind| match kind {
            "SEAL" => seal_once(),
            "CONNECT" => same(FORGED),
            "ONBOARD_SUBMIT" | "SESSION_STATUS" => turned(FORGED, "plain"),
            "PONG" => same("plain"),
            "FOO" => [
                unknown(kind),
                unknown(kind),
                unknown(kind),
                FORGED.to_owned(),
            ],
            _ => turned(FIRST, FORGED),
        });
    }
}

#[test]
fn half_an_envelope_is_none() {
    for kind in KINDS.into_iter().filter(|kind| is_command(kind)) {
        let halves = [
            json!({"type": kind, "from": caller().address(), "payload": payload(kind)}),
            json!({"type": kind, "from": caller().address(), "signature": "00"}),
            json!({"type": kind, "from": caller().address(), "payload": null, "signature": "00"}),
            json!({"type": kind, "from": caller().address(), "payload": "x", "signature": "00"}),
        ];
        for half in halves {
            assert_eq!(said(&mut gate(At::V2, false), &half), COMMAND_UNSIGNED);
            assert_eq!(said(&mut gate(At::V1, false), &half), "plain", "{half}");
        }
    }
}

/// Whatever the first frame was: SEAL is heard in its place only.
#[test]
fn a_seal_is_the_first_frame_or_none() {
    for first in KINDS.into_iter().filter(|kind| *kind != "SEAL") {
        let mut gate = gate(At::Start, false);
        said(&mut gate, &json!({"type": first}));
        assert_eq!(said(&mut gate, &json!({"type": "SEAL"})), unknown("SEAL"));
    }
}

#[test]
fn a_type_that_is_no_string() {
    for at in STATES {
        for frame in [
            json!({}),
            json!({"type": 5}),
            json!({"type": null}),
            json!({"type": ["INPUT"]}),
        ] {
            assert_eq!(said(&mut gate(at, false), &frame), "type must be a string");
        }
    }
}

#[test]
fn an_unknown_type_is_quoted_short_and_on_one_line() {
    let long = "x".repeat(100);
    let cases = [
        ("", "''".to_owned()),
        ("input", "'input'".to_owned()),
        ("SEALED", "'SEALED'".to_owned()),
        ("it's\n\\", r"'it\'s\n\\'".to_owned()),
        (&long, format!("'{}'", "x".repeat(64))),
    ];
    for (name, quoted) in cases {
        let said = said(&mut gate(At::V1, false), &json!({"type": name}));
        assert_eq!(said, format!("unknown message type: {quoted}"));
    }
}

#[test]
fn what_a_gate_knows() {
    let mut gate = Gate::new(host().address());
    assert_eq!((gate.caller(), gate.sealed_by()), (None, None));
    gate.sealed(caller().address());
    assert_eq!(gate.sealed_by(), Some(caller().address()));
    let caller = Caller {
        address: caller().address(),
        recipient: host().address(),
        signed_commands: true,
    };
    gate.authenticated(caller);
    assert_eq!(gate.caller(), Some(caller));
}
