//! Coming back: to a running turn, to a finished one, after a restart, after a crash.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Person, TestClient, TestHost, eventually, types};

fn last(frames: &[Value]) -> &Value {
    &frames[frames.len() - 1]
}

/// A socket of the same person on the same session.
async fn again(host: &TestHost, client: &TestClient, more: Value) -> (TestClient, Value) {
    let mut other = TestClient::dial_as(host, client.person).await;
    other.signs = true;
    let mut fields = json!({"session_id": client.session});
    fields
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let connected = other.connect(fields).await;
    (other, connected)
}

#[tokio::test]
async fn from_every_point_of_a_turn_the_rest_follows_once() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.input("slow 2").await;
    let mut frames = client.until("tool_call").await;
    // All of these come back while the turn is running.
    let mut resumed = Vec::new();
    for known in [
        json!(null),
        json!("nobody's"),
        frames[0]["id"].clone(),
        frames[1]["id"].clone(),
        frames[3]["id"].clone(),
    ] {
        let (other, connected) = again(&host, &client, json!({"last_msg_id": known})).await;
        assert_eq!(connected["status"], "running");
        resumed.push((known, other));
    }
    let rest = client.until("OUTPUT").await;
    frames.extend(rest);
    for (known, mut other) in resumed {
        let at = frames
            .iter()
            .position(|f| f["id"] == known && known.is_string());
        let from = at.map_or(0, |at| at + 1);
        assert_eq!(other.until("OUTPUT").await, frames[from..]);
        other.expect_quiet().await;
    }
}

#[tokio::test]
async fn a_socket_that_follows_at_every_cut_misses_nothing() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.input("slow 2").await;
    // Leave after each event and come back with its id: put together, each event once.
    let mut seen: Vec<Value> = Vec::new();
    loop {
        let frame = client.next().await;
        let done = frame["type"] == "OUTPUT";
        let id = frame["id"].clone();
        // The second event of a pair has the first one's id: a resume repeats it.
        let news = !seen.contains(&frame);
        if news {
            seen.push(frame);
        }
        if done {
            break;
        }
        if news {
            let (other, connected) = again(&host, &client, json!({"last_msg_id": id})).await;
            if connected["status"] != "running" {
                break;
            }
            client = other;
        }
    }
    let expected = [
        "user_input",
        "llm_call",
        "llm_result",
        "tool_call",
        "tool_result",
        "llm_call",
        "llm_result",
        "tool_call",
        "tool_result",
        "llm_call",
        "llm_result",
        "complete",
        "turn_result",
        "OUTPUT",
    ];
    assert_eq!(types(&seen), expected[..seen.len()]);
    // The last few come at once: the turn may be over before the next socket is there.
    assert!(seen.len() >= 9, "{}", seen.len());
}

#[tokio::test]
async fn after_the_turn_only_an_older_copy_is_answered_with_history() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let frames = client.turn("slow 1").await;
    let output = last(&frames).clone();

    let (mut other, connected) =
        again(&host, &client, json!({"last_msg_id": frames[0]["id"]})).await;
    assert_eq!(connected["status"], "connected");
    assert_eq!(connected["server_newer"], true);
    assert_eq!(connected["session"], output["session"]);
    assert_eq!(connected["chat_items"], output["chat_items"]);
    other.expect_quiet().await;

    let (_, connected) = again(&host, &client, json!({"session": output["session"]})).await;
    assert_eq!(connected["status"], "connected");
    for key in ["server_newer", "session", "chat_items"] {
        assert_eq!(connected.get(key), None);
    }
    for (key, older) in [
        ("turn", json!(0)),
        ("iteration", json!(1)),
        ("updated", json!(1.0)),
    ] {
        let mut copy = output["session"].clone();
        copy[key] = older;
        let (_, connected) = again(&host, &client, json!({"session": copy})).await;
        assert_eq!(connected["session"], output["session"], "{key}");
    }
}

#[tokio::test]
async fn a_newer_copy_wins_but_brings_no_authority() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let output = last(&client.turn("hello").await).clone();
    let mut copy = output["session"].clone();
    copy["turn"] = json!(7);
    copy["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "offline"}));
    for key in ["permissions", "approval", "requester"] {
        copy[key] = json!({"x": {"allowed": true}});
    }
    copy["mode"] = json!("full-access");
    copy["turns_left"] = json!(99);
    let (mut other, connected) = again(&host, &client, json!({"session": copy})).await;
    assert_eq!(connected.get("server_newer"), None);
    assert_eq!(connected["session_modes"]["currentModeId"], "auto");
    let output = last(&other.turn("hello").await).clone();
    let session = &output["session"];
    assert_eq!(session["turn"], 8);
    assert_eq!(session["messages"][2]["content"], "offline");
    assert_eq!(session["mode"], "auto");
    assert_eq!(session["turns_left"], Value::Null);
    for key in ["permissions", "approval", "requester"] {
        assert_eq!(session.get(key), None);
    }
    // It is the stored one from now on.
    let id = client.session.clone();
    let host = host.restart().await;
    let mut back = TestClient::dial_as(&host, client.person).await;
    let connected = back.connect(json!({"session_id": id})).await;
    assert_eq!(connected["session"], *session);
}

#[tokio::test]
async fn an_id_is_its_owners() {
    let host = TestHost::start().await;
    let mut owner = TestClient::v2(&host).await;
    owner.turn("hello").await;
    let mut thief = TestClient::dial(&host).await;
    thief.signs = true;
    let connected = thief.connect(json!({"session_id": owner.session})).await;
    assert_eq!(connected["status"], "new");
    assert_ne!(connected["session_id"], owner.session.as_str());
    assert_eq!(connected.get("session"), None);
    thief.expect_status(&owner.session, "not_found").await;
    thief.expect_status("unknown", "not_found").await;
    let query = thief.made("SESSION_STATUS", json!({"session_id": owner.session}));
    thief.send(&query).await;
    assert_eq!(thief.expect("SESSION_STATUS").await["status"], "not_found");
    thief.turn("hello").await;
    owner.expect_quiet().await;

    // An id that nobody has is the client's to give.
    let mut own = TestClient::dial(&host).await;
    let connected = own.connect(json!({"session_id": "of my own making"})).await;
    assert_eq!(connected["status"], "new");
    assert_eq!(connected["session_id"], "of my own making");
}

#[tokio::test]
async fn a_status_is_told_to_the_owner() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.input("slow 1").await;
    client.until("tool_call").await;
    let session = client.session.clone();
    client.expect_status(&session, "running").await;
    // On a socket of its own the question is signed.
    let mut bare = TestClient::dial_as(&host, client.person).await;
    let query = client.made("SESSION_STATUS", json!({"session_id": session}));
    bare.send(&query).await;
    assert_eq!(bare.expect("SESSION_STATUS").await["status"], "running");
    bare.expect_status(&session, "not_found").await;
    client.until("OUTPUT").await;
    client.expect_status(&session, "connected").await;
    // After a restart it is on the disk only, and still there.
    let host = host.restart().await;
    let mut back = TestClient::v2_as(&host, client.person, json!({})).await;
    back.expect_status(&session, "connected").await;
    let mut bare = TestClient::dial_as(&host, client.person).await;
    let query = client.made("SESSION_STATUS", json!({"session_id": session}));
    bare.send(&query).await;
    assert_eq!(bare.expect("SESSION_STATUS").await["status"], "connected");
    let host = host.restart().await;
    let mut thief = TestClient::v2(&host).await;
    thief.expect_status(&session, "not_found").await;
    let mut thief = TestClient::dial(&host).await;
    let connected = thief.connect(json!({"session_id": session})).await;
    assert_eq!(connected["status"], "new");
    assert_ne!(connected["session_id"], session.as_str());
    assert_eq!(connected.get("session"), None);
}

#[tokio::test]
async fn a_second_connect_on_one_socket_is_the_first_over_again_or_refused() {
    const REFUSED: &str = "already authenticated: open a new connection";
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    let (person, session) = (client.person, client.session.clone());
    let connect = |signed_commands: bool, session: &str| {
        let mut frame = person.connect(&host.address(), signed_commands);
        frame["session_id"] = json!(session);
        frame
    };
    let again = connect(true, &session);
    client.send(&again).await;
    let connected = client.expect("CONNECTED").await;
    assert_eq!(connected["session_id"], session.as_str());
    client.expect("AGENT_PROFILE").await;
    // Each event still comes once.
    let frames = client.turn("slow 1").await;
    assert_eq!(frames.len(), 10);
    client.expect_quiet().await;
    // Mid-turn too.
    client.input("slow 1").await;
    let mut frames = client.until("tool_call").await;
    client.send(&connect(true, &session)).await;
    assert_eq!(client.expect("CONNECTED").await["status"], "running");
    client.expect("AGENT_PROFILE").await;
    frames.extend(client.until("OUTPUT").await);
    assert_eq!(frames.len(), 10);

    client.send(&again).await;
    client
        .expect_error("unauthorized: this CONNECT was already used")
        .await;
    let other = Person::new().connect(&host.address(), true);
    let mut no_session = connect(true, &session);
    no_session.as_object_mut().unwrap().remove("session_id");
    let mut protocol = connect(true, &session);
    protocol["protocol"] = json!({"name": "oip", "version": "9.9"});
    for frame in [
        other,
        no_session,
        protocol,
        connect(false, &session),
        connect(true, "other"),
    ] {
        client.send(&frame).await;
        client.expect_error(REFUSED).await;
    }
    client.turn("hello").await;
    host.list("blocklist.txt", &person.address().to_string());
    client.send(&connect(true, &session)).await;
    client.expect_error("forbidden: blocked").await;
}

#[tokio::test]
async fn a_session_nobody_watches_leaves_the_memory_and_comes_back() {
    let host = TestHost::with(|config| config.session_idle = Duration::from_millis(200)).await;
    let mut client = TestClient::v2(&host).await;
    let output = last(&client.turn("hello").await).clone();
    let (person, session) = (client.person, client.session.clone());
    drop(client);
    eventually("the session to go", || host.host.load() == (0, 0)).await;
    let mut back = TestClient::dial_as(&host, person).await;
    let connected = back.connect(json!({"session_id": session})).await;
    assert_eq!(connected["status"], "connected");
    assert_eq!(connected["session"], output["session"]);
    assert_eq!(connected["chat_items"], output["chat_items"]);
    // A watched one stays.
    let before = host.host.load();
    back.turn("slow 1").await;
    assert_eq!(host.host.load(), before);
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.turn("fail").await;
    client.input("slow 2").await;
    client.until("tool_call").await;
    client.input("milk").await;
    client.until("OUTPUT").await;
    client.input("boom").await;
    client.until("ERROR").await;
    let output = last(&client.turn("hello").await).clone();
    let (person, session) = (client.person, client.session.clone());
    let host = host.restart().await;
    let mut back = TestClient::v2_as(&host, person, json!({"session_id": session})).await;
    let mut third = TestClient::dial_as(&host, person).await;
    let connected = third.connect(json!({"session_id": session})).await;
    assert_eq!(connected["status"], "connected");
    assert_eq!(connected["session"], output["session"]);
    assert_eq!(connected["chat_items"], output["chat_items"]);
    let said: Vec<&str> = connected["chat_items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["type"] == "user")
        .map(|item| item["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["fail", "slow 2", "milk", "boom", "hello"]);
    let frames = back.turn("hello").await;
    assert_eq!(frames[0]["turn"], 5);
}

#[tokio::test]
async fn runtime_input_is_shown_where_it_was_said() {
    let host = TestHost::start().await;
    let mut client = TestClient::v2(&host).await;
    client.input("slow 2").await;
    client.until("tool_call").await;
    client.input("milk").await;
    client.until("OUTPUT").await;
    let output = last(&client.turn("fail").await).clone();
    let shown = |items: &Value| -> Vec<String> {
        let items = items.as_array().unwrap().iter();
        items
            .map(|item| {
                item["content"]
                    .as_str()
                    .or(item["name"].as_str())
                    .unwrap()
                    .to_owned()
            })
            .collect()
    };
    let expected = [
        "slow 2",
        "slow_step",
        "milk",
        "slow_step",
        "slow finished after 2 steps; also: milk",
        "fail",
        "always_fails",
        "tool failed",
    ];
    assert_eq!(shown(&output["chat_items"]), expected);
    let (person, session) = (client.person, client.session.clone());
    let host = host.restart().await;
    let mut back = TestClient::dial_as(&host, person).await;
    let connected = back.connect(json!({"session_id": session})).await;
    assert_eq!(shown(&connected["chat_items"]), expected);
}
