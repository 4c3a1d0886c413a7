//! The library's client when things go wrong: what was refused, lost, or never arrived.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use oip_host::client::{Client, ClientError, Event, Options, Seal, Target};
use oip_host::trust::Policy;
use serde_json::Map;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

use crate::common::{Person, Proxy, TestHost, eventually};

const SEALS: [Seal; 2] = [Seal::Offer, Seal::Never];

fn target(socket: std::net::SocketAddr) -> Target {
    Target::parse(&socket.to_string()).unwrap()
}

fn options(seal: Seal) -> Options {
    Options {
        seal,
        ..Options::default()
    }
}

async fn connect(host: &TestHost, person: Person, options: Options) -> Client {
    Client::connect(&target(host.socket()), &person.identity(), options)
        .await
        .unwrap()
}

async fn next(client: &mut Client) -> Result<Event, ClientError> {
    tokio::time::timeout(Duration::from_secs(20), client.next())
        .await
        .expect("an event within 20 s")
}

/// All events of the turn that runs, its end included.
async fn turn(client: &mut Client) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        events.push(next(client).await.unwrap());
        if !client.is_running() {
            return events;
        }
    }
}

fn answer(events: &[Event]) -> &str {
    match events.last() {
        Some(Event::Output { result, .. }) => result,
        other => panic!("no OUTPUT but {other:?} in {events:?}"),
    }
}

/// What the events are, in short; ids left out.
fn told(events: &[Event]) -> Vec<String> {
    let one = |event: &Event| match event {
        Event::ToolCall { args, .. } => format!("call {args}"),
        Event::ToolResult { result, ok, .. } => format!("result {result} {ok}"),
        Event::Assistant(text) => format!("says {text}"),
        Event::Output { result, .. } => format!("output {result}"),
        Event::Error { message, .. } => format!("error {message}"),
        Event::Other(frame) => frame["type"].as_str().unwrap().to_owned(),
        other => format!("{other:?}"),
    };
    events.iter().map(one).collect()
}

/// What a turn tells when nothing is lost.
async fn undisturbed(host: &TestHost, prompt: &str) -> Vec<String> {
    let mut client = connect(host, Person::new(), Options::default()).await;
    client.input(prompt).await.unwrap();
    told(&turn(&mut client).await)
}

/// The frames that came back are the undisturbed turn and one word about the loss.
fn without_the_loss(events: &[Event]) -> Vec<String> {
    let (back, rest): (Vec<&Event>, Vec<&Event>) = events
        .iter()
        .partition(|event| matches!(event, Event::Resumed));
    assert_eq!(back.len(), 1);
    told(&rest.into_iter().cloned().collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_follow_one_another_in_a_session() {
    let host = TestHost::start().await;
    for seal in SEALS {
        let mut client = connect(&host, Person::new(), options(seal)).await;
        assert_eq!(client.is_sealed(), seal == Seal::Offer);
        assert_eq!(client.host(), host.address());
        let session = client.session_id().to_owned();
        client.input("unicode").await.unwrap();
        let first = turn(&mut client).await;
        assert_eq!(answer(&first), "héllo 世界 🚀 \u{2028} \\ \" </script> end");
        client.input("slow 1").await.unwrap();
        let second = turn(&mut client).await;
        assert_eq!(answer(&second), "slow finished after 1 steps");
        assert!(
            second
                .iter()
                .any(|e| matches!(e, Event::ToolCall { name, .. } if name == "slow_step"))
        );
        assert_eq!(client.session_id(), session);
        assert_eq!(client.profile()["name"], "stub-agent");
        client.input("boom").await.unwrap();
        let failed = turn(&mut client).await;
        assert!(
            matches!(failed.last(), Some(Event::Error { .. })),
            "{failed:?}"
        );
        client.input("big 300").await.unwrap();
        assert_eq!(answer(&turn(&mut client).await).len(), 300 << 10);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_told_and_ends_no_turn_but_its_own() {
    let host = TestHost::with(|config| config.trust = Policy::Careful).await;
    let person = Person::new();
    let refused = Client::connect(
        &target(host.socket()),
        &person.identity(),
        Options::default(),
    )
    .await
    .err()
    .unwrap();
    let said = refused.to_string();
    assert!(matches!(refused, ClientError::Refused(_)), "{said}");
    assert!(said.starts_with("forbidden: you are stranger"), "{said}");
    assert!(said.contains(&person.address().to_string()), "{said}");
    host.list("contacts.txt", &person.address().to_string());
    let mut client = connect(&host, person, Options::default()).await;
    client.input("").await.unwrap();
    assert_eq!(told(&turn(&mut client).await), ["error prompt required"]);
    // A mode that cannot be had now is no end of the turn that runs.
    client.input("slow 1").await.unwrap();
    client.set_mode("read-only").await.unwrap();
    let events = turn(&mut client).await;
    assert!(
        events.iter().any(|e| matches!(e, Event::Error { .. })),
        "{events:?}"
    );
    assert_eq!(answer(&events), "slow finished after 1 steps");
    // Blocked while connected: a command is answered with a refusal, not waited for.
    host.list("blocklist.txt", &person.address().to_string());
    let refused = client.exec("echo_tool", Map::new()).await.unwrap_err();
    assert_eq!(refused.to_string(), "forbidden: blocked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_ended_while_nobody_listened_is_told_whole() {
    let host = TestHost::start().await;
    let expected = undisturbed(&host, "slow 1").await;
    let proxy = Proxy::start(host.socket()).await;
    let target = target(proxy.socket());
    let mut client = Client::connect(&target, &Person::new().identity(), Options::default())
        .await
        .unwrap();
    client.input("hello").await.unwrap();
    turn(&mut client).await;
    client.input("slow 1").await.unwrap();
    let mut events = Vec::new();
    while !matches!(events.last(), Some(Event::ToolCall { .. })) {
        events.push(next(&mut client).await.unwrap());
    }
    proxy.cut();
    eventually("the turn's end", || host.running_turns() == 0).await;
    events.extend(turn(&mut client).await);
    let told = without_the_loss(&events);
    // Events that are no part of a history are in it as its text.
    let kept = |told: &[String]| -> Vec<String> {
        let streamed = ["complete", "says"];
        told.iter()
            .filter(|one| !streamed.iter().any(|word| one.starts_with(word)))
            .cloned()
            .collect()
    };
    assert_eq!(kept(&told), kept(&expected));
    client.input("hello").await.unwrap();
    assert_eq!(answer(&turn(&mut client).await), "Hello! You said: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_never_arrived_is_not_answered_with_the_one_before() {
    let host = TestHost::start().await;
    let proxy = Proxy::start(host.socket()).await;
    let target = target(proxy.socket());
    let mut client = Client::connect(&target, &Person::new().identity(), Options::default())
        .await
        .unwrap();
    client.input("first").await.unwrap();
    assert_eq!(answer(&turn(&mut client).await), "Hello! You said: first");
    // Held back, then dropped with the connection.
    proxy.swallow();
    client.input("second").await.unwrap();
    proxy.cut();
    let lost = next(&mut client).await;
    let lost = match lost {
        Ok(Event::Resumed) => next(&mut client).await,
        other => other,
    };
    assert!(matches!(lost, Err(ClientError::TurnLost(_))), "{lost:?}");
    assert!(!client.is_running());
    client.input("third").await.unwrap();
    let events = turn(&mut client).await;
    assert_eq!(answer(&events), "Hello! You said: third");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_outlives_its_host_and_belongs_to_one() {
    let host = TestHost::start().await;
    let proxy = Proxy::start(host.socket()).await;
    let place = target(proxy.socket());
    let person = Person::new();
    let mut client = Client::connect(&place, &person.identity(), Options::default())
        .await
        .unwrap();
    client.input("hello").await.unwrap();
    turn(&mut client).await;
    let session = client.session_id().to_owned();
    // Somebody else who names it gets another one.
    let wanted = Options {
        session_id: Some(session.clone()),
        ..Options::default()
    };
    let other = connect(&host, Person::new(), wanted).await;
    assert_ne!(other.session_id(), session);
    let host = host.restart().await;
    proxy.lead_to(host.socket());
    client.input("again").await.unwrap();
    assert_eq!(answer(&turn(&mut client).await), "Hello! You said: again");
    assert_eq!(client.session_id(), session);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_in_the_middle_of_coming_back_is_no_loss() {
    let host = TestHost::start().await;
    let expected = undisturbed(&host, "slow 2").await;
    let proxy = Proxy::start(host.socket()).await;
    let target = target(proxy.socket());
    let mut client = Client::connect(&target, &Person::new().identity(), options(Seal::Never))
        .await
        .unwrap();
    proxy.cut_after(r#""tool_call""#);
    client.input("slow 2").await.unwrap();
    let mut events = Vec::new();
    // Every wait is given up once before it is taken: what it had done so far is not lost.
    while client.is_running() {
        for patience in [Duration::ZERO, Duration::from_secs(20)] {
            if let Ok(event) = tokio::time::timeout(patience, client.next()).await {
                events.push(event.unwrap());
                break;
            }
        }
    }
    assert_eq!(without_the_loss(&events), expected);
}

#[tokio::test]
async fn what_only_python_calls_json_is_understood() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut host = tokio_tungstenite::accept_async(stream).await.unwrap();
        let mut say = async |text: &str| host.send(Message::text(text)).await.unwrap();
        say(r#"{"type":"PING"}"#).await;
        say(r#"{"type":"CONNECTED","session_id":"s","status":"running"}"#).await;
        say(r#"{"type":"OUTPUT","result":"half \ud83d a pair","duration_ms":1}"#).await;
        while host.next().await.is_some() {}
    });
    let options = Options {
        seal: Seal::Never,
        host: Some(Person::new().address()),
        ..Options::default()
    };
    let mut client = Client::connect(&target(socket), &Person::new().identity(), options)
        .await
        .unwrap();
    assert!(client.is_running());
    assert_eq!(answer(&turn(&mut client).await), "half \u{fffd} a pair");
}
