//! A handshake and sealed frames that the Python package recorded (`fixtures/make/seal.py`).

use oip_host::identity::Identity;
use oip_host::seal::{Channel, accept, accept_with, hello, hello_with};
use oip_host::wire::json::Object;
use serde_json::Value;

struct Recording(Value);

impl Recording {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("../fixtures/seal.json")).unwrap())
    }

    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap()
    }

    fn bytes(&self, field: &str) -> [u8; 32] {
        hex::decode(self.text(field)).unwrap().try_into().unwrap()
    }

    fn host(&self) -> Identity {
        Identity::from_seed(&self.bytes("host_seed"))
    }

    fn client(&self) -> Identity {
        Identity::from_seed(&self.bytes("client_seed"))
    }

    fn now(&self) -> u64 {
        self.0["now"].as_u64().unwrap()
    }

    /// The host's end of the recorded channel, and its answer.
    fn accepted(&self) -> (String, Channel) {
        let frame = Object::parse(self.text("seal_relayed")).unwrap();
        let now = self.now() as f64 + 7.0;
        let accepted =
            accept_with(&frame, &self.host(), now, self.bytes("host_ephemeral")).unwrap();
        assert_eq!(accepted.peer, self.client().address());
        (accepted.reply, accepted.channel)
    }

    /// The client's end of the recorded channel, and its SEAL.
    fn finished(&self) -> (String, Channel) {
        let ephemeral = self.bytes("client_ephemeral");
        let (seal, hello) = hello_with(
            &self.client(),
            &self.host().address(),
            self.now(),
            ephemeral,
        );
        (seal, hello.finish(self.text("sealed_ok")).unwrap())
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn both_halves_of_the_handshake_are_the_recorded_ones() {
    let recording = Recording::read();
    let (seal, _) = recording.finished();
    assert_eq!(parsed(&seal), parsed(recording.text("seal")));
    let (reply, _) = recording.accepted();
    assert_eq!(parsed(&reply), parsed(recording.text("sealed_ok")));
}

/// Opens what one recorded end sent, and seals the same again from this end's twin.
fn replay(rows: &Value, from: Channel, to: Channel) {
    let (mut sealer, _) = from.split();
    let (_, mut opener) = to.split();
    let mut counter = 0;
    for row in rows.as_array().unwrap() {
        let text = row["frame"].as_str().unwrap();
        let clear = row["clear"].as_str().unwrap();
        let frame = Object::parse(text).unwrap();
        assert_eq!(opener.open(&frame).unwrap(), clear);

        let n = frame.get("n").unwrap().as_u64().unwrap();
        let far = n > counter + 100;
        while !far && counter + 1 < n {
            sealer.seal("{}");
            counter += 1;
        }
        if !far {
            assert_eq!(parsed(&sealer.seal(clear)), parsed(text));
            counter += 1;
        }
    }
}

#[test]
fn what_the_client_sealed_opens_and_is_sealed_alike() {
    let recording = Recording::read();
    let (_, client) = recording.finished();
    let (_, host) = recording.accepted();
    replay(&recording.0["client_to_host"], client, host);
}

#[test]
fn what_the_host_sealed_opens_and_is_sealed_alike() {
    let recording = Recording::read();
    let (_, client) = recording.finished();
    let (_, host) = recording.accepted();
    replay(&recording.0["host_to_client"], host, client);
}

#[test]
fn one_direction_does_not_open_the_other() {
    let recording = Recording::read();
    let (_, mut host) = recording.accepted().1.split();
    let own = recording.0["host_to_client"][0]["frame"].as_str().unwrap();
    assert!(host.open(&Object::parse(own).unwrap()).is_err());
}

#[test]
fn every_handshake_has_new_keys() {
    let (host, client) = (Identity::random(), Identity::random());
    let (first, _) = hello(&client, &host.address(), 1000);
    let (second, _) = hello(&client, &host.address(), 1000);
    assert_ne!(parsed(&first)["ephemeral"], parsed(&second)["ephemeral"]);
    let frame = Object::parse(&first).unwrap();
    let answer = || accept(&frame, &host, 1000.0).unwrap().reply;
    assert_ne!(
        parsed(&answer())["ephemeral"],
        parsed(&answer())["ephemeral"]
    );
}
