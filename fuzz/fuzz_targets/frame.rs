//! Any text as a frame, at every stage of a connection: nothing panics, nothing unsigned passes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oip_host::gate::{Caller, Gate, Judged, negotiated};
use oip_host::identity::{Address, verify};
use oip_host::wire::inbound::{self, Connect, Exec, Input};
use oip_host::wire::json::Object;
use oip_host::wire::outbound;

const HOST: Address = Address::from_bytes([1; 32]);
const CALLER: Address = Address::from_bytes([2; 32]);
const NOW: f64 = 1_796_075_200.0;

/// The gates of a new connection and of an authenticated one of each version; each in clear and sealed.
fn gates() -> impl Iterator<Item = Gate> {
    let versions = [None, Some(false), Some(true)];
    versions.into_iter().flat_map(|version| {
        [false, true].map(|sealed| {
            let mut gate = Gate::new(HOST);
            if sealed {
                gate.sealed(CALLER);
            }
            if let Some(signed_commands) = version {
                gate.authenticated(Caller {
                    address: CALLER,
                    recipient: HOST,
                    signed_commands,
                });
            }
            gate
        })
    })
}

fn read(fields: &Object<'_>) {
    let _ = Connect::read(fields);
    let _ = Input::read(fields);
    let exec = Exec::read(fields);
    let answer = outbound::exec_result(&exec.exec_id, exec.tool.as_deref(), Ok(""), None);
    assert!(Object::parse(&answer).is_ok(), "{answer}");
    let _ = inbound::status_query(fields);
    let _ = inbound::mode(fields);
    let _ = inbound::request_id(fields);
    let _ = negotiated(fields);
}

fuzz_target!(|text: &str| {
    let frame = match Object::parse(text) {
        Ok(frame) => frame,
        Err(wrong) => {
            let answer = outbound::invalid_json(&wrong.to_string(), text);
            assert!(Object::parse(&answer).is_ok(), "{answer}");
            return;
        }
    };
    read(&frame);
    for mut gate in gates() {
        match gate.judge(frame.clone(), NOW, |_| Ok(false)) {
            Judged::Check(checking) => {
                let valid = checking
                    .signed
                    .check()
                    .is_some_and(|check| verify(&check.signer, check.payload, &check.signature));
                // Nobody has the private half of an address that the fuzzer finds.
                assert!(checking.verified(valid).is_err());
            }
            Judged::Plain(_, frame) => read(&frame),
            Judged::Refused(refusal) => {
                let answer = refusal.frame();
                assert!(Object::parse(&answer).is_ok(), "{answer}");
            }
            Judged::Seal => {}
        }
    }
});
