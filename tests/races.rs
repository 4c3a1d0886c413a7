//! Things that happen in the same instant.

use serde_json::{Value, json};

use crate::common::{Person, TestClient, TestHost};

/// What became of each prompt: which turn read it.
#[derive(Debug, Default)]
struct Heard {
    started: Vec<Value>,
    acknowledged: Vec<Value>,
    read: Vec<Value>,
    rejected: usize,
    outputs: usize,
    /// The turn has told its result and has still to be stored.
    over: bool,
}

impl Heard {
    fn take(&mut self, frame: &Value) {
        match frame["type"].as_str().unwrap() {
            "user_input" if frame["runtime_input"] == true => {
                // After that the model would not answer it.
                assert!(!self.over, "read when the turn was over: {frame}");
                self.read.push(frame["id"].clone());
            }
            "turn_result" => self.over = true,
            "user_input" => self.started.push(frame["content"].clone()),
            "RUNTIME_INPUT_ACK" => self.acknowledged.push(frame["id"].clone()),
            "OUTPUT" => {
                self.over = false;
                self.outputs += 1;
            }
            "ERROR" => {
                assert_eq!(frame["code"], "RUNTIME_INPUT_REJECTED", "{frame}");
                assert_eq!(frame["retryable"], true);
                self.rejected += 1;
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_at_the_end_of_a_turn_is_read_refused_or_a_turn_of_its_own() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let mut all = Heard::default();
    for round in 0..100 {
        let mut heard = Heard::default();
        client.input("hello").await;
        // The second one comes at every point of the turn, from its start to after its end.
        for _ in 0..round % 7 {
            let frame = client.next().await;
            heard.take(&frame);
        }
        client.input("again").await;
        loop {
            let frame = client.next().await;
            heard.take(&frame);
            let answered = heard.started.len() + heard.acknowledged.len() + heard.rejected;
            if heard.outputs == heard.started.len() && answered == 2 {
                break;
            }
        }
        heard.acknowledged.sort_by_key(Value::to_string);
        heard.read.sort_by_key(Value::to_string);
        assert_eq!(heard.acknowledged, heard.read, "round {round}");
        client.expect_quiet().await;
        all.acknowledged.extend(heard.acknowledged);
        all.started.extend(heard.started);
    }
    // It was no use if it always went the same way.
    assert!(!all.acknowledged.is_empty());
    assert!(all.started.len() > 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_devices_that_start_at_once_one_does() {
    let host = TestHost::start().await;
    let person = Person::new();
    let mut one = TestClient::v2_as(&host, person, json!({})).await;
    let same = json!({"session_id": one.session});
    let mut two = TestClient::v2_as(&host, person, same).await;
    for _ in 0..4 {
        let (a, b) = (
            one.made("INPUT", json!({"prompt": "slow 1"})),
            two.made("INPUT", json!({"prompt": "slow 1"})),
        );
        tokio::join!(one.send(&a), two.send(&b));
        let (a, b) = tokio::join!(one.until("OUTPUT"), two.until("OUTPUT"));
        let count = |frames: &[Value], kind: &str| {
            frames.iter().filter(|frame| frame["type"] == kind).count()
        };
        for kind in ["RUNTIME_INPUT_ACK", "user_message"] {
            assert_eq!(count(&a, kind) + count(&b, kind), 1, "{kind}");
        }
        let shared = |frames: Vec<Value>| -> Vec<Value> {
            let kinds = ["RUNTIME_INPUT_ACK", "user_message"];
            frames
                .into_iter()
                .filter(|frame| !kinds.contains(&frame["type"].as_str().unwrap()))
                .collect()
        };
        assert_eq!(shared(a), shared(b));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_joins_as_a_turn_starts_sees_it_whole() {
    let host = TestHost::start().await;
    let person = Person::new();
    let mut one = TestClient::v2_as(&host, person, json!({})).await;
    for _ in 0..50 {
        let mut two = TestClient::dial_as(&host, person).await;
        let mut connect = person.connect(&host.address(), true);
        connect["session_id"] = json!(one.session);
        let input = one.made("INPUT", json!({"prompt": "stream 20"}));
        tokio::join!(one.send(&input), two.send(&connect));
        let frames = one.until("OUTPUT").await;
        let connected = two.expect("CONNECTED").await;
        let mut seen = Vec::new();
        if connected["status"] == "running"
            || connected["session"] != frames[frames.len() - 1]["session"]
        {
            seen = two.until("OUTPUT").await;
            seen.retain(|f| {
                !["AGENT_PROFILE", "user_message"].contains(&f["type"].as_str().unwrap())
            });
            assert_eq!(seen, frames);
        }
        if seen.is_empty() {
            two.expect("AGENT_PROFILE").await;
        }
        two.expect_quiet().await;
    }
}
