//! The library's own client: what `oip chat` is made of.

use oip_host::client::{Client, ClientError, Event, Options, Seal, Target};
use serde_json::{Map, json};

use crate::common::{Person, Proxy, TestHost, eventually};

fn target(socket: std::net::SocketAddr) -> Target {
    Target::parse(&socket.to_string()).unwrap()
}

async fn connect(host: &TestHost, seal: Seal) -> Client {
    let options = Options {
        seal,
        ..Options::default()
    };
    let identity = Person::new().identity();
    Client::connect(&target(host.socket()), &identity, options)
        .await
        .unwrap()
}

/// Events up to the end of the turn.
async fn turn(client: &mut Client) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = client.next().await.unwrap();
        let over = matches!(event, Event::Output { .. } | Event::Error { .. });
        events.push(event);
        if over {
            return events;
        }
    }
}

fn answer(events: &[Event]) -> &str {
    match events.last() {
        Some(Event::Output { result, .. }) => result,
        other => panic!("no answer: {other:?}"),
    }
}

#[tokio::test]
async fn a_conversation_sealed_and_bare() {
    let host = TestHost::start().await;
    for seal in [Seal::Offer, Seal::Never] {
        let mut client = connect(&host, seal).await;
        assert_eq!(client.is_sealed(), seal == Seal::Offer);
        assert_eq!(client.host(), host.address());
        for prompt in ["hello", "héllo 世界 🚀"] {
            client.input(prompt).await.unwrap();
            let events = turn(&mut client).await;
            assert_eq!(answer(&events), format!("Hello! You said: {prompt}"));
            assert!(!client.is_running());
        }
        assert_eq!(client.profile()["name"], "stub-agent");
        client.set_mode("read-only").await.unwrap();
        assert_eq!(
            client.next().await.unwrap(),
            Event::ModeChanged("read-only".into())
        );
    }
}

#[tokio::test]
async fn a_tool_answers_between_a_turns_events() {
    let host = TestHost::start().await;
    host.list("contacts.txt", "*\n");
    let mut client = connect(&host, Seal::Offer).await;
    client.input("slow 1").await.unwrap();
    let mut args = Map::new();
    args.insert("text".into(), json!("hi"));
    let outcome = client.exec("echo_tool", args).await.unwrap();
    assert_eq!(outcome.result.unwrap(), "echo: hi");
    let refused = client
        .exec("danger", Map::new())
        .await
        .unwrap()
        .result
        .unwrap_err();
    assert!(refused.starts_with("blocked: "), "{refused}");
    let events = turn(&mut client).await;
    assert_eq!(answer(&events), "slow finished after 1 steps");
    let calls = events
        .iter()
        .filter(|event| matches!(event, Event::ToolCall { .. }))
        .count();
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_turn_is_stopped() {
    let host = TestHost::start().await;
    let mut client = connect(&host, Seal::Offer).await;
    client.input("slow 60").await.unwrap();
    while !matches!(client.next().await.unwrap(), Event::ToolCall { .. }) {}
    client.interrupt().await.unwrap();
    turn(&mut client).await;
    assert!(!client.is_running());
    client.interrupt().await.unwrap();
    let Event::Error { message, .. } = client.next().await.unwrap() else {
        panic!("nothing runs");
    };
    assert_eq!(message, "interrupt requires an active turn");
}

/// Each event of `slow 2`, in turn, is the last one before the connection is lost.
#[tokio::test]
async fn a_lost_connection_loses_and_doubles_nothing() {
    let host = TestHost::start().await;
    let proxy = Proxy::start(host.socket()).await;
    for seal in [Seal::Offer, Seal::Never] {
        let identity = Person::new().identity();
        let options = Options {
            seal,
            host: Some(host.address()),
            ..Options::default()
        };
        let mut client = Client::connect(&target(proxy.socket()), &identity, options)
            .await
            .unwrap();
        client.input("slow 2").await.unwrap();
        let mut seen = Vec::new();
        let mut resumed = 0;
        loop {
            match client.next().await.unwrap() {
                Event::Resumed => resumed += 1,
                Event::Output { result, .. } => {
                    assert_eq!(result, "slow finished after 2 steps");
                    break;
                }
                event => {
                    if matches!(event, Event::ToolCall { .. }) {
                        proxy.cut();
                    }
                    seen.push(match event {
                        Event::ToolCall { args, .. } => format!("call {}", args["i"]),
                        Event::ToolResult { result, .. } => result,
                        Event::Other(frame) => frame["type"].as_str().unwrap().to_owned(),
                        other => format!("{other:?}"),
                    });
                }
            }
        }
        assert_eq!(resumed, 2);
        assert_eq!(
            seen,
            [
                "user_input",
                "llm_call",
                "llm_result",
                "call 0",
                "step 0 ok",
                "llm_call",
                "llm_result",
                "call 1",
                "step 1 ok",
                "llm_call",
                "llm_result",
                "complete",
                "turn_result",
            ]
        );
    }
}

#[tokio::test]
async fn a_turn_that_ended_meanwhile_is_answered_all_the_same() {
    let host = TestHost::start().await;
    let proxy = Proxy::start(host.socket()).await;
    let identity = Person::new().identity();
    let options = Options {
        host: Some(host.address()),
        ..Options::default()
    };
    let mut client = Client::connect(&target(proxy.socket()), &identity, options)
        .await
        .unwrap();
    client.input("slow 1").await.unwrap();
    while !matches!(client.next().await.unwrap(), Event::ToolCall { .. }) {}
    proxy.cut();
    // Nobody asks for events until the turn is over.
    eventually("the turn to end", || host.running_turns() == 0).await;
    assert_eq!(
        answer(&turn(&mut client).await),
        "slow finished after 1 steps"
    );
}

#[tokio::test]
async fn refusals_are_the_hosts_own_words() {
    let host = TestHost::with(|config| config.trust = oip_host::trust::Policy::Careful).await;
    let identity = Person::new().identity();
    let refused = Client::connect(&target(host.socket()), &identity, Options::default()).await;
    match refused.err().unwrap() {
        ClientError::Refused(why) => assert!(why.starts_with("forbidden: "), "{why}"),
        other => panic!("{other}"),
    }
    // Another host than the one that was meant cannot answer for it.
    let options = Options {
        host: Some(identity.address()),
        ..Options::default()
    };
    let wrong = Client::connect(&target(host.socket()), &identity, options)
        .await
        .err()
        .unwrap();
    assert_eq!(wrong.to_string(), "seal refused: to is another address");
}
