//! Signing what is sent, as the reference client does: every field once at the top level, for hosts
//! that know no signed commands, and once in the payload, which is what counts.

use serde_json::{Map, Value, json};

use crate::identity::{Address, Identity};
use crate::store::unix_now;
use crate::wire::json::{Raw, to_python};

/// A CONNECT that negotiates signed commands. `fields` go beside the signed payload: `session_id`,
/// `session`, `last_msg_id`.
pub fn connect(identity: &Identity, host: &Address, fields: Map<String, Value>) -> String {
    let payload = json!({
        "to": host, "timestamp": unix_now() as u64, "signed_commands": 1, "nonce": nonce(),
    });
    let mut frame = fields;
    frame.insert("type".into(), "CONNECT".into());
    signed(identity, frame, payload)
}

/// A signed command.
pub fn command(
    identity: &Identity,
    host: &Address,
    kind: &str,
    fields: Map<String, Value>,
) -> String {
    let mut payload = fields;
    payload.insert("type".into(), kind.into());
    payload.insert("to".into(), json!(host));
    payload.insert("timestamp".into(), json!(unix_now() as u64));
    payload.insert("nonce".into(), nonce());
    signed(identity, payload.clone(), Value::Object(payload))
}

fn nonce() -> Value {
    uuid::Uuid::new_v4().to_string().into()
}

fn signed(identity: &Identity, mut frame: Map<String, Value>, payload: Value) -> String {
    let text = payload.to_string();
    // What serde wrote is JSON; were it not, nothing would be signed and the host would refuse it.
    let signature = Raw::parse(&text)
        .map(|raw| hex::encode(identity.sign(&to_python(&raw.value()))))
        .unwrap_or_default();
    frame.insert("payload".into(), payload);
    frame.insert("from".into(), json!(identity.address()));
    frame.insert("signature".into(), signature.into());
    Value::Object(frame).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Signature, verify};
    use crate::wire::json::Object;

    #[test]
    fn a_command_is_signed_in_pythons_form() {
        let identity = Identity::from_seed(&[7; 32]);
        let host = Address::from_bytes([9; 32]);
        let mut fields = Map::new();
        fields.insert("prompt".into(), "héllo \u{7f}".into());
        let text = command(&identity, &host, "INPUT", fields);
        let frame = Object::parse(&text).unwrap();
        let signature: Signature = frame
            .get("signature")
            .unwrap()
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let payload = frame.get("payload").unwrap().value();
        assert!(verify(&identity.address(), &payload, &signature));
        assert_eq!(
            frame.get("prompt").unwrap().as_str().unwrap(),
            "héllo \u{7f}"
        );
    }
}
