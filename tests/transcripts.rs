//! What the client of a recorded conversation said is said to this host, and its answers are compared
//! with the reference host's: the same frames in the same order, with the same fields of the same types.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::common::{Person, TestClient, TestHost, types};

/// Conversations on one socket.
const SCENARIOS: [&str; 14] = [
    "boom",
    "exec",
    "exec-as-stranger",
    "fail",
    "hello",
    "hello-v1",
    "interrupt",
    "missing",
    "mode-change",
    "runtime-input",
    "slow-2",
    "stream-3",
    "two-turns",
    "unicode",
];

/// Frames that do not come at the same places, and why.
const ELSEWHERE: [&str; 2] = [
    // The reference repeats the whole session after every event; no client requires it (fact F37).
    "session_sync",
    // Only a host with a dashboard has one to show; the reference shows a page of its own.
    "DASHBOARD_SNAPSHOT",
];

/// Lines of [`shape`], by their beginnings, that only the reference has, and why they need not be there.
const NOT_OURS: &[(&str, &str)] = &[
    (
        "EXEC_RESULT.duration_ms",
        "arguments that are no object are refused before the tool runs (fact F53)",
    ),
    (
        "EXEC_RESULT.result",
        "our echo_tool takes a text and nothing else; a Python function takes a number for it",
    ),
    (
        "OUTPUT.session._provider_permission_options",
        "the reference's own",
    ),
    (
        "OUTPUT.session.messages[system]",
        "the operator's instructions to the model are not the client's to read",
    ),
    (
        "OUTPUT.session.permissions",
        "authority of the host, which no client may hand back (fact F38)",
    ),
    (
        "OUTPUT.session.requester",
        "authority of the host, which no client may hand back (fact F38)",
    ),
    ("OUTPUT.session.result", "is in OUTPUT and in the messages"),
    (
        "OUTPUT.session.trace[tool_call].approval_policy",
        "the reference's own",
    ),
    (
        "OUTPUT.session.trace[tool_result].error_type",
        "the class of a Python exception",
    ),
    (
        "OUTPUT.session.user_prompt",
        "is the last user's message among the messages",
    ),
    ("tool_result.error_type", "the class of a Python exception"),
];

/// The same for lines that only this host has.
const OURS: &[(&str, &str)] = &[
    (
        "EXEC_RESULT.error",
        "our echo_tool takes a text and nothing else; a Python function takes a number for it",
    ),
    (
        "OUTPUT.chat_items[agent]",
        "what an interrupted turn ends with is said in the conversation too (fact F48)",
    ),
    (
        "OUTPUT.session.messages[assistant]",
        "what an interrupted turn ends with is said in the conversation too (fact F48)",
    ),
    (
        "OUTPUT.session.trace[tool_call].status",
        "the trace holds the events as they were streamed",
    ),
    (
        "OUTPUT.session.trace[tool_result].raw_output",
        "the trace holds the events as they were streamed",
    ),
    (
        "OUTPUT.session.turns_left",
        "belongs to the mode (fact F38)",
    ),
];

struct Transcript(Vec<Value>);

impl Transcript {
    fn read(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = root.join(format!("fixtures/transcripts/{name}.json"));
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    /// Each frame of the client, with what the host sent before the next one.
    fn exchanges(self) -> Vec<(Value, Vec<Value>)> {
        let mut exchanges = Vec::new();
        for mut entry in self.0 {
            let frame = entry["frame"].take();
            if entry["dir"] == "out" {
                exchanges.push((frame, Vec::new()));
            } else if !ELSEWHERE.contains(&frame["type"].as_str().unwrap()) {
                exchanges.last_mut().unwrap().1.push(frame);
            }
        }
        exchanges
    }
}

/// Say what the client said; gives what this host sent.
async fn replay(client: &mut TestClient, said: Value, answers: usize) -> Vec<Value> {
    let kind = said["type"].as_str().unwrap().to_owned();
    if kind == "CONNECT" {
        client.signs = said["payload"]["signed_commands"] == 1;
        let frame = client.person.connect(&client.host, client.signs);
        client.send(&frame).await;
    } else {
        let mut fields = said;
        for own in [
            "type",
            "to",
            "timestamp",
            "nonce",
            "payload",
            "from",
            "signature",
        ] {
            fields.as_object_mut().unwrap().remove(own);
        }
        client.command(&kind, fields).await;
    }
    let mut came = Vec::new();
    while came.len() < answers {
        let frame = client.next().await;
        if !ELSEWHERE.contains(&frame["type"].as_str().unwrap()) {
            came.push(frame);
        }
    }
    came
}

/// One line for each field at whatever depth: its path and the type of its value. Members of a list
/// are told apart by their `type` or `role`.
fn shape(path: &str, value: &Value, lines: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(members) => {
            for member in members {
                let name = [&member["type"], &member["role"]]
                    .into_iter()
                    .find_map(Value::as_str);
                shape(
                    &format!("{path}[{}]", name.unwrap_or_default()),
                    member,
                    lines,
                );
            }
            "list"
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                // What was cut from the recording is marked so.
                if key != "…" {
                    shape(&format!("{path}.{key}"), field, lines);
                }
            }
            "object"
        }
    };
    lines.insert(format!("{path}: {kind}"));
}

fn shape_of(frame: &Value) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    shape(frame["type"].as_str().unwrap(), frame, &mut lines);
    lines
}

/// All differences must have a reason, and all reasons a difference.
fn check(who: &str, differences: &BTreeMap<String, &str>, reasons: &[(&str, &str)]) {
    let has_reason = |line: &str| reasons.iter().any(|(start, _)| line.starts_with(start));
    let surprises: Vec<_> = differences
        .iter()
        .filter(|(line, _)| !has_reason(line))
        .collect();
    assert!(surprises.is_empty(), "only {who}: {surprises:#?}");
    for (start, _) in reasons {
        let needed = differences.keys().any(|line| line.starts_with(start));
        assert!(needed, "{who} no longer differs in {start}");
    }
}

#[tokio::test]
async fn the_frames_are_those_of_the_reference() {
    let (mut only_reference, mut only_ours) = (BTreeMap::new(), BTreeMap::new());
    for name in SCENARIOS {
        let host = TestHost::start().await;
        let person = Person::new();
        if name == "exec" {
            host.list("contacts.txt", &person.address().to_string());
        }
        let mut client = TestClient::dial_as(&host, person).await;
        for (said, expected) in Transcript::read(name).exchanges() {
            let came = replay(&mut client, said, expected.len()).await;
            assert_eq!(types(&came), types(&expected), "{name}");
            for (ours, theirs) in came.iter().zip(&expected) {
                let (ours, theirs) = (shape_of(ours), shape_of(theirs));
                only_ours.extend(ours.difference(&theirs).map(|line| (line.clone(), name)));
                only_reference.extend(theirs.difference(&ours).map(|line| (line.clone(), name)));
            }
        }
        client.expect_quiet().await;
    }
    check("the reference", &only_reference, NOT_OURS);
    check("this host", &only_ours, OURS);
}
