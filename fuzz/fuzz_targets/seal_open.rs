//! Any text as a SEAL, as a SEALED_OK, as a SEALED frame, and as what is inside one.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use oip_host::identity::Identity;
use oip_host::seal::{Opener, Sealer, accept_with, hello_with};
use oip_host::wire::json::Object;

const NOW: u64 = 1_796_075_200;

thread_local! {
    /// The client's writing end of a channel and the host's reading end, the same in every run.
    static ENDS: RefCell<(Sealer, Opener)> = RefCell::new(ends());
}

fn host() -> Identity {
    Identity::from_seed(&[1; 32])
}

fn client() -> Identity {
    Identity::from_seed(&[2; 32])
}

fn ends() -> (Sealer, Opener) {
    let (seal, hello) = hello_with(&client(), &host().address(), NOW, [3; 32]);
    let frame = Object::parse(&seal).expect("hello writes an object");
    let Ok(accepted) = accept_with(&frame, &host(), NOW as f64, [4; 32]) else {
        panic!("a sound SEAL is accepted");
    };
    let Ok(channel) = hello.finish(&accepted.reply) else {
        panic!("a sound SEALED_OK is accepted");
    };
    (channel.split().0, accepted.channel.split().1)
}

fuzz_target!(|text: &str| {
    let (_, hello) = hello_with(&client(), &host().address(), NOW, [3; 32]);
    assert!(hello.finish(text).is_err(), "a forged SEALED_OK");
    let frame = Object::parse(text);
    if let Ok(frame) = &frame {
        // The channel's own SEAL may be found again: it is no forgery.
        let _ = accept_with(frame, &host(), NOW as f64, [4; 32]);
    }
    ENDS.with_borrow_mut(|(sealer, opener)| {
        if let Ok(frame) = &frame {
            assert!(opener.open(frame).is_err(), "a forged frame opened");
        }
        let sealed = sealer.seal(text);
        let sealed = Object::parse(&sealed).expect("a SEALED frame is an object");
        match (opener.open(&sealed), &frame) {
            (Ok(clear), Ok(_)) => assert_eq!(clear, text),
            (Err(_), Err(_)) => {}
            (opened, _) => panic!("{opened:?}"),
        }
    });
});
