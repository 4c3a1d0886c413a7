//! Frames from a client, as types. What is malformed is said once, here, with the field's name.

use std::borrow::Cow;

use super::json::{Object, Raw};

#[cfg(test)]
mod tests;

/// Longest `session_id` that is accepted, in characters (fact F60).
pub const MAX_SESSION_ID: usize = 256;

/// The `type` of a frame from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Offer of an encrypted channel.
    Seal,
    /// Authenticate and open or resume a session.
    Connect,
    /// Proof for the trust gate.
    OnboardSubmit,
    /// Answer to PING.
    Pong,
    /// Is a session alive?
    SessionStatus,
    /// Run a prompt, or add input to the running turn.
    Input,
    /// Run one tool.
    Exec,
    /// End the running turn.
    Interrupt,
    /// Choose a permission mode.
    ModeChange,
    /// Answer an approval.
    ApprovalResponse,
    /// Answer a question.
    AskUserResponse,
    /// Anything else, by name.
    Unknown(String),
}

impl Kind {
    /// The kind that `type` names.
    pub fn of(name: &str) -> Self {
        match name {
            "SEAL" => Self::Seal,
            "CONNECT" => Self::Connect,
            "ONBOARD_SUBMIT" => Self::OnboardSubmit,
            "PONG" => Self::Pong,
            "SESSION_STATUS" => Self::SessionStatus,
            "INPUT" => Self::Input,
            "EXEC" => Self::Exec,
            "INTERRUPT" => Self::Interrupt,
            "mode_change" => Self::ModeChange,
            "APPROVAL_RESPONSE" => Self::ApprovalResponse,
            "ASK_USER_RESPONSE" => Self::AskUserResponse,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// A field with the wrong shape. `Display` names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl Malformed {
    fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// What CONNECT carries outside its signed payload.
#[derive(Debug, Clone)]
pub struct Connect<'a> {
    /// The session to open; absent, null or empty means a new one.
    pub session_id: Option<String>,
    /// The client's own copy of the conversation.
    pub session: Option<Object<'a>>,
    /// The last event that the client has rendered.
    pub last_msg_id: Option<String>,
    /// `None`: the client does not say. Otherwise whether it is OIP 0.1.
    pub protocol: Option<bool>,
}

impl<'a> Connect<'a> {
    /// Read a CONNECT frame.
    ///
    /// # Errors
    /// [`Malformed`] names the field whose shape is wrong.
    pub fn read(frame: &Object<'a>) -> Result<Self, Malformed> {
        let session = match present(frame, "session") {
            None => None,
            Some(raw) => Some(
                raw.as_object()
                    .ok_or_else(|| Malformed::new("session must be an object"))?,
            ),
        };
        let protocol = present(frame, "protocol").map(|raw| {
            raw.as_object().is_some_and(|p| {
                let is = |key, value| p.get(key).and_then(Raw::as_str).as_deref() == Some(value);
                is("name", "oip") && is("version", "0.1")
            })
        });
        Ok(Self {
            session_id: session_id(present(frame, "session_id"))?,
            session,
            last_msg_id: optional_string(frame, "last_msg_id")?,
            protocol,
        })
    }
}

/// A file that came with a prompt: a name and a data URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The name the client gave; not a path to be trusted.
    pub name: String,
    /// `data:…;base64,…`
    pub data: String,
}

/// INPUT: a prompt and what came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The text to run; never empty.
    pub prompt: String,
    /// Data URLs.
    pub images: Vec<String>,
    /// Files.
    pub files: Vec<Attachment>,
}

impl Input {
    /// Read INPUT's fields from the signed payload (v2) or the frame (v1).
    ///
    /// # Errors
    /// `prompt required` if it is absent, empty or no string; otherwise the field's name.
    pub fn read(fields: &Object<'_>) -> Result<Self, Malformed> {
        let prompt = match present(fields, "prompt").map(Raw::as_str) {
            Some(Some(text)) if !text.is_empty() => text.into_owned(),
            Some(None) => return Err(Malformed::new("prompt required: prompt must be a string")),
            _ => return Err(Malformed::new("prompt required")),
        };
        let images = list(fields, "images", |raw| {
            raw.as_str()
                .map(Cow::into_owned)
                .ok_or_else(|| Malformed::new("images must be a list of data URLs"))
        })?;
        let files = list(fields, "files", |raw| {
            let wrong = || Malformed::new("files must be a list of {name, data}");
            let file = raw.as_object().ok_or_else(wrong)?;
            let text = |key| Some(file.get(key)?.as_str()?.into_owned());
            Ok(Attachment {
                name: text("name").ok_or_else(wrong)?,
                data: text("data").ok_or_else(wrong)?,
            })
        })?;
        Ok(Self {
            prompt,
            images,
            files,
        })
    }
}

/// EXEC: one tool call without a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Exec {
    /// Echoed as it came, whatever JSON it is (fact F53): its text, `null` if absent.
    pub exec_id: String,
    /// The tool, if one is named.
    pub tool: Option<String>,
    /// Its arguments; `None` if `args` is no object.
    pub args: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Exec {
    /// Read EXEC's fields. Nothing here fails: what is wrong is said in EXEC_RESULT.
    pub fn read(fields: &Object<'_>) -> Self {
        let tool = fields
            .get("tool")
            .and_then(Raw::as_str)
            .filter(|tool| !tool.is_empty());
        Self {
            exec_id: fields
                .get("exec_id")
                .map_or_else(|| "null".to_owned(), |raw| raw.text().to_owned()),
            tool: tool.map(Cow::into_owned),
            args: match present(fields, "args") {
                None => Some(serde_json::Map::new()),
                Some(raw) => match raw.to_serde() {
                    serde_json::Value::Object(args) => Some(args),
                    _ => None,
                },
            },
        }
    }
}

/// The session that SESSION_STATUS asks about: in `session.session_id` of a plain frame, or in
/// `session_id` of a signed payload.
///
/// # Errors
/// [`Malformed`] names the field whose shape is wrong.
pub fn status_query(fields: &Object<'_>) -> Result<Option<String>, Malformed> {
    match present(fields, "session") {
        Some(raw) => {
            let session = raw
                .as_object()
                .ok_or_else(|| Malformed::new("session must be an object"))?;
            session_id(present(&session, "session_id"))
        }
        None => session_id(present(fields, "session_id")),
    }
}

/// The `mode` of a mode_change.
///
/// # Errors
/// [`Malformed`] if it is absent or no string.
pub fn mode(fields: &Object<'_>) -> Result<String, Malformed> {
    optional_string(fields, "mode")?.ok_or_else(|| Malformed::new("mode required"))
}

/// The `request_id` of an answer, if it names a request.
///
/// # Errors
/// [`Malformed`] if it is no string.
pub fn request_id(fields: &Object<'_>) -> Result<Option<String>, Malformed> {
    optional_string(fields, "request_id")
}

fn present<'a>(object: &Object<'a>, key: &str) -> Option<Raw<'a>> {
    object.get(key).filter(|raw| !raw.is_null())
}

fn optional_string(object: &Object<'_>, key: &str) -> Result<Option<String>, Malformed> {
    match present(object, key) {
        None => Ok(None),
        Some(raw) => raw
            .as_str()
            .map(|text| Some(text.into_owned()))
            .ok_or_else(|| Malformed(format!("{key} must be a string"))),
    }
}

fn session_id(raw: Option<Raw<'_>>) -> Result<Option<String>, Malformed> {
    let Some(raw) = raw else { return Ok(None) };
    let id = raw
        .as_str()
        .ok_or_else(|| Malformed::new("session_id must be a string"))?;
    if id.chars().count() > MAX_SESSION_ID {
        return Err(Malformed(format!(
            "session_id must not be longer than {MAX_SESSION_ID} characters"
        )));
    }
    Ok(Some(id.into_owned()).filter(|id| !id.is_empty()))
}

fn list<T>(
    object: &Object<'_>,
    key: &str,
    item: impl Fn(Raw<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    match present(object, key) {
        None => Ok(Vec::new()),
        Some(raw) => raw
            .as_array()
            .ok_or_else(|| Malformed(format!("{key} must be a list")))?
            .into_iter()
            .map(item)
            .collect(),
    }
}
