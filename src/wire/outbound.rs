//! Frames to a client. Each function gives the text of one JSON object.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::identity::Address;

#[cfg(test)]
mod tests;

/// The protocol descriptor, strings exactly so: React closes for good on any other (fact F32).
pub const PROTOCOL: &str = r#"{"name":"oip","version":"0.1","min_version":"0.1","max_version":"0.1","websocket_path":"/ws"}"#;

/// PING, every 30 s (fact F51).
pub const PING: &str = r#"{"type":"PING"}"#;

/// `-32603`: the turn failed inside the host.
pub const INTERNAL_ERROR: i64 = -32603;
/// `-32602`: a parameter is not acceptable.
pub const INVALID_PARAMS: i64 = -32602;
/// `-32002`: the session is not the caller's.
pub const NOT_FOUND: i64 = -32002;
/// `-32000`: a turn is running.
pub const BUSY: i64 = -32000;
/// `-32010`: the client speaks another protocol (decision D2).
pub const UNSUPPORTED_PROTOCOL: i64 = -32010;

/// Serialise a frame. The types given here have string keys and finite numbers, for which
/// serialising cannot fail; should it, the peer is told so instead of nothing.
pub(crate) fn json(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_else(|failed| {
        tracing::error!(%failed, "a frame could not be serialised");
        r#"{"type":"ERROR","message":"internal: a frame could not be serialised"}"#.to_owned()
    })
}

/// Borrow JSON text that this host made, to embed it unparsed. `null` should it be no JSON.
pub(crate) fn embedded(text: &str) -> &RawValue {
    serde_json::from_str(text).unwrap_or(RawValue::NULL)
}

/// An ERROR with a message and nothing else.
pub fn error(message: &str) -> String {
    json(&serde_json::json!({"type": "ERROR", "message": message}))
}

/// An ERROR with a code: a number from JSON-RPC's range, or a word.
pub fn coded_error(code: impl Serialize, message: &str, retryable: Option<bool>) -> String {
    #[derive(Serialize)]
    struct Frame<'a, C> {
        r#type: &'a str,
        code: C,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        retryable: Option<bool>,
    }
    json(&Frame {
        r#type: "ERROR",
        code,
        message,
        retryable,
    })
}

/// The ERROR for text that is no JSON object, with what was received, cut at 200 characters.
pub fn invalid_json(reason: &str, received: &str) -> String {
    let received: String = received.chars().take(200).collect();
    json(&serde_json::json!({
        "type": "ERROR", "message": format!("Invalid JSON: {reason}"), "received": received,
    }))
}

/// The ERROR for a protocol that is not OIP 0.1 (decision D2).
pub fn unsupported_protocol() -> String {
    format!(
        r#"{{"type":"ERROR","code":{UNSUPPORTED_PROTOCOL},"message":"Unsupported OIP protocol","retryable":false,"protocol":{PROTOCOL}}}"#
    )
}

/// A session that is newer here than at the client.
#[derive(Debug, Clone, Copy)]
pub struct Newer<'a> {
    /// The session object's JSON text.
    pub session: &'a str,
    /// The chat items' JSON text.
    pub chat_items: &'a str,
}

/// CONNECTED (facts F32–F35).
pub fn connected(
    session_id: &str,
    status: &str,
    session_modes: &str,
    newer: Option<Newer<'_>>,
) -> String {
    let id = json(&session_id);
    let mut frame = format!(
        r#"{{"type":"CONNECTED","session_id":{id},"status":"{status}","protocol":{PROTOCOL},"session_modes":{session_modes}"#
    );
    if let Some(newer) = newer {
        frame.push_str(r#","server_newer":true,"session":"#);
        frame.push_str(newer.session);
        frame.push_str(r#","chat_items":"#);
        frame.push_str(newer.chat_items);
    }
    frame.push('}');
    frame
}

/// What an agent is, for those who passed the gate.
#[derive(Debug, Clone, Serialize)]
pub struct Profile {
    /// The agent's name.
    pub name: String,
    /// The host's address.
    pub address: Address,
    /// The model's name.
    pub model: String,
    /// Names of the tools.
    pub tools: Vec<String>,
    /// Skills, project's and operator's.
    pub skills: Vec<Skill>,
}

/// A skill of the agent.
#[derive(Debug, Clone, Serialize)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// `project` or `user`; only the former is public.
    pub location: String,
}

/// AGENT_PROFILE.
pub fn agent_profile(session_id: &str, profile: &Profile) -> String {
    #[derive(Serialize)]
    struct Frame<'a> {
        r#type: &'a str,
        session_id: &'a str,
        #[serde(flatten)]
        profile: &'a Profile,
    }
    json(&Frame {
        r#type: "AGENT_PROFILE",
        session_id,
        profile,
    })
}

/// OUTPUT (fact F48).
pub fn output(
    result: &str,
    session_id: &str,
    duration_ms: u64,
    session: &str,
    chat_items: &str,
) -> String {
    let (result, id) = (json(&result), json(&session_id));
    let mut frame =
        String::with_capacity(session.len() + chat_items.len() + result.len() + id.len() + 100);
    frame.push_str(r#"{"type":"OUTPUT","result":"#);
    frame.push_str(&result);
    frame.push_str(r#","session_id":"#);
    frame.push_str(&id);
    frame.push_str(&format!(r#","duration_ms":{duration_ms},"session":"#));
    frame.push_str(session);
    frame.push_str(r#","chat_items":"#);
    frame.push_str(chat_items);
    frame.push('}');
    frame
}

/// EXEC_RESULT (fact F53). `exec_id` is JSON text.
pub fn exec_result(
    exec_id: &str,
    tool: Option<&str>,
    outcome: Result<&str, &str>,
    duration_ms: Option<u64>,
) -> String {
    #[derive(Serialize)]
    struct Frame<'a> {
        r#type: &'a str,
        exec_id: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<&'a str>,
        status: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    }
    json(&Frame {
        r#type: "EXEC_RESULT",
        exec_id: embedded(exec_id),
        tool,
        status: if outcome.is_ok() { "success" } else { "error" },
        result: outcome.ok(),
        error: outcome.err(),
        duration_ms,
    })
}

/// SESSION_STATUS: `not_found` for an unknown and for a foreign id alike (decision D8).
pub fn session_status(session_id: Option<&str>, status: &str) -> String {
    json(&serde_json::json!({"type": "SESSION_STATUS", "session_id": session_id, "status": status}))
}

/// RUNTIME_INPUT_ACK.
pub fn runtime_input_ack(session_id: &str, id: &str) -> String {
    json(&serde_json::json!({"type": "RUNTIME_INPUT_ACK", "session_id": session_id, "id": id}))
}

/// The prompt of a turn that another device started (fact F45).
pub fn user_message(session_id: &str, content: &str) -> String {
    json(&serde_json::json!({"type": "user_message", "content": content, "session_id": session_id}))
}

/// mode_changed (fact F46).
pub fn mode_changed(session_id: &str, mode: &str, turns_left: Option<u64>) -> String {
    json(&serde_json::json!({
        "type": "mode_changed", "mode": mode, "turns_left": turns_left, "session_id": session_id,
    }))
}

/// An answer to a request that does not wait (fact F40).
pub fn stale_answer(
    session_id: &str,
    request_id: Option<&str>,
    reason: &str,
    message: &str,
) -> String {
    json(&serde_json::json!({
        "type": "ERROR", "code": "STALE_ANSWER", "reason": reason, "request_id": request_id,
        "session_id": session_id, "message": message,
    }))
}
