//! Chat items: what a page shows of a conversation, made of its messages and trace.

use serde_json::{Map, Value, json};

/// The chat items of messages and trace entries that follow what was shown before.
///
/// Order is that of the conversation: the user's message, then what happened, each assistant text at
/// its place among the tools. `message` and `entry` are the indices of the first message and entry,
/// for the ids of those that have none of their own.
pub(super) fn chat_items(
    messages: &[&str],
    trace: &[&str],
    message: usize,
    entry: usize,
) -> Vec<Value> {
    let mut events = Events {
        entries: trace.iter().map(|text| parse(text)).collect(),
        base: entry,
        next: 0,
        out: Vec::new(),
    };
    for (i, text) in messages.iter().enumerate() {
        let message_value = parse(text);
        let own_id = message_value.get("id").filter(|id| id.is_string());
        let id = own_id
            .cloned()
            .unwrap_or_else(|| format!("msg-{}", message + i).into());
        let content = message_value.get("content").cloned().unwrap_or_default();
        match message_value.get("role").and_then(Value::as_str) {
            Some("user") => {
                events.up_to_input();
                events.next += 1;
                // What the host put there itself opens a turn but is nobody's words.
                if message_value.get("internal").is_none_or(|v| v == false) {
                    let id = format!("msg-{}", message + i);
                    events
                        .out
                        .push(json!({"id": id, "type": "user", "content": content}));
                }
            }
            Some("assistant") => {
                let calls: Vec<&str> = tool_ids(&message_value);
                if calls.is_empty() {
                    events.up_to_input();
                }
                if content.as_str().is_some_and(|text| !text.is_empty()) || content.is_array() {
                    events
                        .out
                        .push(json!({"id": id, "type": "agent", "content": content}));
                }
                events.until_results(&calls);
            }
            _ => {}
        }
    }
    events.rest();
    events.out
}

/// Trace entries on their way to items.
struct Events {
    entries: Vec<Value>,
    base: usize,
    next: usize,
    out: Vec<Value>,
}

impl Events {
    fn kind(&self, at: usize) -> Option<&str> {
        self.entries.get(at)?.get("type")?.as_str()
    }

    fn emit(&mut self) {
        if let Some(entry) = self.entries.get(self.next) {
            self.out.extend(item(entry, self.base + self.next));
        }
        self.next += 1;
    }

    /// Everything up to the next input.
    fn up_to_input(&mut self) {
        while self
            .kind(self.next)
            .is_some_and(|kind| kind != "user_input")
        {
            self.emit();
        }
    }

    /// Up to and with the results of these tool calls.
    fn until_results(&mut self, calls: &[&str]) {
        for call in calls {
            let at = (self.next..self.entries.len())
                .take_while(|&i| {
                    self.kind(i)
                        .is_some_and(|kind| !starts_turn(kind, &self.entries[i]))
                })
                .find(|&i| {
                    self.kind(i) == Some("tool_result") && self.entries[i]["tool_id"] == *call
                });
            if let Some(at) = at {
                while self.next <= at {
                    self.emit();
                }
            }
        }
    }

    fn rest(&mut self) {
        while self.next < self.entries.len() {
            self.emit();
        }
    }
}

/// Runtime input is traced as `user_input` too, but belongs to the turn that reads it.
fn starts_turn(kind: &str, entry: &Value) -> bool {
    kind == "user_input" && entry.get("runtime_input") != Some(&Value::Bool(true))
}

fn tool_ids(message: &Value) -> Vec<&str> {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    calls
        .into_iter()
        .flatten()
        .filter_map(|call| call.get("id")?.as_str())
        .collect()
}

/// The item of one trace entry, if a page shows it. `tool_call` is only a start: the result makes
/// the item, so that each tool has one.
fn item(entry: &Value, at: usize) -> Option<Value> {
    let kind = entry.get("type")?.as_str()?;
    let mut item = Map::new();
    let own_id = entry.get("id").filter(|id| id.is_string()).cloned();
    let take = |item: &mut Map<String, Value>, keys: &[&str]| {
        for key in keys {
            if let Some(value) = entry.get(*key) {
                item.insert((*key).into(), value.clone());
            }
        }
    };
    match kind {
        "tool_result" => {
            let name = entry.get("name").filter(|name| name.is_string())?;
            let id = entry.get("tool_id").filter(|id| id.is_string()).cloned();
            item.insert(
                "id".into(),
                id.unwrap_or_else(|| format!("tool-{at}").into()),
            );
            item.insert("type".into(), "tool_call".into());
            item.insert("name".into(), name.clone());
            let done = matches!(
                entry.get("status").and_then(Value::as_str),
                Some("completed" | "success" | "done")
            );
            item.insert("status".into(), if done { "done" } else { "error" }.into());
            take(
                &mut item,
                &[
                    "args",
                    "result",
                    "timing_ms",
                    "summary",
                    "provider",
                    "invocationId",
                    "parentToolCallId",
                ],
            );
        }
        "thinking" | "intent" | "eval" | "files_received" => {
            item.insert(
                "id".into(),
                own_id.unwrap_or_else(|| format!("{kind}-{at}").into()),
            );
            item.insert("type".into(), kind.into());
            match kind {
                "thinking" => {
                    item.insert("status".into(), "done".into());
                    take(&mut item, &["content", "kind"]);
                }
                // Only the final state of each is worth an item.
                "intent" if entry.get("status")? == "understood" => {
                    take(&mut item, &["status", "ack", "is_build"]);
                }
                "eval" if entry.get("status")? == "done" => {
                    take(
                        &mut item,
                        &["status", "passed", "summary", "expected", "eval_path"],
                    );
                }
                "files_received" => take(&mut item, &["files"]),
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(Value::Object(item))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(messages: &[Value], trace: &[Value]) -> Vec<Value> {
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        let trace: Vec<String> = trace.iter().map(Value::to_string).collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        let trace: Vec<&str> = trace.iter().map(String::as_str).collect();
        chat_items(&messages, &trace, 0, 0)
    }

    #[test]
    fn an_assistant_text_stands_before_the_tools_it_calls() {
        let all = items(
            &[
                json!({"role": "user", "content": "batch"}),
                json!({"role": "assistant", "content": "Two calls", "tool_calls": [{"id": "c1"}, {"id": "c2"}]}),
                json!({"role": "tool", "tool_call_id": "c1", "content": "one"}),
                json!({"role": "tool", "tool_call_id": "c2", "content": "two"}),
                json!({"role": "assistant", "content": "done", "id": "m-9"}),
            ],
            &[
                json!({"type": "user_input", "content": "batch"}),
                json!({"type": "llm_call"}),
                json!({"type": "tool_call", "tool_id": "c1", "name": "t"}),
                json!({"type": "tool_result", "tool_id": "c1", "name": "t", "status": "completed", "result": "one", "args": {}, "timing_ms": 1}),
                json!({"type": "tool_result", "tool_id": "c2", "name": "t", "status": "failed", "result": "two"}),
                json!({"type": "thinking", "id": "th", "content": "hm", "kind": "k"}),
            ],
        );
        let brief: Vec<(&str, &str)> = all
            .iter()
            .map(|item| (item["type"].as_str().unwrap(), item["id"].as_str().unwrap()))
            .collect();
        assert_eq!(
            brief,
            [
                ("user", "msg-0"),
                ("agent", "msg-1"),
                ("tool_call", "c1"),
                ("tool_call", "c2"),
                ("thinking", "th"),
                ("agent", "m-9")
            ]
        );
        assert_eq!(all[2]["status"], "done");
        assert_eq!(all[3]["status"], "error");
    }

    #[test]
    fn a_message_the_host_put_there_is_not_shown() {
        let all = items(
            &[
                json!({"role": "user", "content": "x", "internal": true}),
                json!({"role": "system", "content": "s"}),
            ],
            &[],
        );
        assert!(all.is_empty());
    }

    #[test]
    fn text_that_is_no_object_shows_nothing() {
        assert!(chat_items(&["5", "nope"], &["[]"], 0, 0).is_empty());
    }
}
