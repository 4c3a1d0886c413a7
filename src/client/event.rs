//! What a host streams, as a program or a person wants it.

use serde_json::Value;

/// One event of a turn, or the answer to something that was sent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The agent thinks aloud.
    Thinking(String),
    /// The agent says something before it is done.
    Assistant(String),
    /// A tool starts.
    ToolCall {
        /// The tool.
        name: String,
        /// Its arguments.
        args: Value,
    },
    /// A tool is done.
    ToolResult {
        /// The tool.
        name: String,
        /// What it returned, or why it failed.
        result: String,
        /// Whether it returned.
        ok: bool,
    },
    /// A tool may run only if somebody says so.
    ApprovalNeeded {
        /// To be named by the answer.
        id: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
        /// What it is for, if the agent says so.
        description: String,
        /// Calls of the same step that wait behind this one.
        batch_remaining: usize,
    },
    /// The agent asks something.
    AskUser {
        /// To be named by the answer.
        id: String,
        /// The question.
        question: String,
        /// Answers to choose from; empty if any will do.
        options: Vec<String>,
        /// More than one may be chosen.
        multi_select: bool,
        /// A form to fill in; empty if there is none.
        fields: Vec<Field>,
    },
    /// The plan, whole: what and how far.
    Plan(Vec<(String, String)>),
    /// The prompt of a turn that another device started.
    UserMessage(String),
    /// The permission mode is another one now.
    ModeChanged(String),
    /// Input was taken by the turn that is running.
    InputTaken,
    /// The turn is over.
    Output {
        /// The answer.
        result: String,
        /// How long it took, in milliseconds; 0 if it ended while the connection was lost.
        duration_ms: u64,
    },
    /// The host refused something, or the turn failed.
    Error {
        /// A number or a word, if there is one.
        code: Option<Value>,
        /// One line.
        message: String,
    },
    /// The connection was lost and is back; the turn goes on.
    Resumed,
    /// Anything else.
    Other(Value),
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its key in the answer.
    pub name: String,
    /// What a person reads.
    pub label: String,
    /// It is not to be shown while it is typed.
    pub secret: bool,
    /// It must not be empty.
    pub required: bool,
}

impl Event {
    /// Read a frame.
    pub(super) fn read(frame: Value) -> Self {
        let text = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
        match frame["type"].as_str().unwrap_or_default() {
            "thinking" => Self::Thinking(text("content")),
            "assistant" => Self::Assistant(text("content")),
            "tool_call" => Self::ToolCall {
                name: text("name"),
                args: frame["args"].clone(),
            },
            "tool_result" => Self::ToolResult {
                name: text("name"),
                result: text("result"),
                // A history keeps the tool's own word for it.
                ok: matches!(frame["status"].as_str(), Some("completed" | "success")),
            },
            "approval_needed" => Self::ApprovalNeeded {
                id: text("id"),
                tool: text("tool"),
                arguments: frame["arguments"].clone(),
                description: text("description"),
                batch_remaining: frame["batch_remaining"].as_array().map_or(0, Vec::len),
            },
            "ask_user" => Self::AskUser {
                id: text("id"),
                question: text("question"),
                options: strings(&frame["options"]),
                multi_select: frame["multi_select"] == true,
                fields: fields(&frame["fields"]),
            },
            "plan" => Self::Plan(plan(&frame["entries"])),
            "user_message" => Self::UserMessage(text("content")),
            "mode_changed" => Self::ModeChanged(text("mode")),
            "RUNTIME_INPUT_ACK" => Self::InputTaken,
            "OUTPUT" => Self::Output {
                result: text("result"),
                duration_ms: frame["duration_ms"].as_u64().unwrap_or(0),
            },
            "ERROR" => Self::Error {
                code: frame.get("code").cloned(),
                message: text("message"),
            },
            _ => Self::Other(frame),
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> Vec<String> {
    items(value)
        .filter_map(|item| Some(item.as_str()?.to_owned()))
        .collect()
}

fn plan(entries: &Value) -> Vec<(String, String)> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    items(entries)
        .map(|entry| (text(entry, "content"), text(entry, "status")))
        .collect()
}

fn fields(value: &Value) -> Vec<Field> {
    let field = |item: &Value| {
        let name = item["name"].as_str()?.to_owned();
        Some(Field {
            label: item["label"].as_str().unwrap_or(&name).to_owned(),
            secret: item["type"] == "password",
            required: item["required"] == true,
            name,
        })
    };
    items(value).filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_form_is_read_with_what_must_not_be_shown() {
        let frame = json!({
            "type": "ask_user", "id": "q", "question": "Sign in", "options": [], "multi_select": true,
            "fields": [{"name": "username", "label": "Username", "type": "text", "required": true},
                       {"name": "password", "type": "password"}, {"label": "nameless"}],
        });
        let Event::AskUser {
            fields,
            multi_select,
            ..
        } = Event::read(frame)
        else {
            panic!("a question");
        };
        assert!(multi_select);
        assert_eq!(fields.len(), 2);
        assert!(fields[0].required && !fields[0].secret);
        assert!(fields[1].secret && fields[1].label == "password");
    }

    #[test]
    fn what_is_unknown_is_kept() {
        let frame = json!({"type": "new_thing", "x": 1});
        assert_eq!(Event::read(frame.clone()), Event::Other(frame));
    }
}
