//! The client's copy, and what a crash leaves in the host's.

use super::*;

fn copy(turn: u64, iteration: u64, updated: f64, content: &str) -> Value {
    json!({
        "messages": [{"role": "user", "content": content}], "trace": [],
        "turn": turn, "iteration": iteration, "updated": updated, "mode": "full-access",
    })
}

/// Fact F38.
#[tokio::test]
async fn the_newer_copy_is_the_one_that_counts() {
    for (turn, iteration, updated, newer) in [
        (2, 0, 0.0, true),
        (1, 3, 0.0, true),
        (1, 2, 10.5, true),
        (1, 2, 10.0, false),
        (1, 2, 9.0, false),
        (1, 1, 99.0, false),
        (0, 9, 99.0, false),
    ] {
        let registry = registry();
        stored(registry.store(), "s", alice(), &[], Outcome::Completed).await;
        let client = copy(turn, iteration, updated, "client's");
        let session = open_with(&registry, "s", &client).await.session;
        let expected = if newer { "client's" } else { "hi" };
        let version = (turn, iteration, updated);
        assert_eq!(
            messages(&session),
            [json!({"role": "user", "content": expected})],
            "{version:?}"
        );
        let saved = session.lock().saved;
        // What the store has is another copy's: it is replaced with the next turn.
        assert_eq!((saved.replace, saved.row), (newer, true));
        assert_eq!(saved.messages, usize::from(!newer));
        // What somebody may do is not the client's to say.
        assert_eq!(session.mode(), Mode::ReadOnly);
    }
}

#[tokio::test]
async fn a_running_turn_keeps_the_hosts_copy() {
    let registry = registry();
    let session = open(&registry, alice(), Some("s")).await.session;
    let viewer = join(&session);
    session
        .start(registry.log(&session), &viewer, "hi")
        .unwrap();
    let client = copy(9, 0, 0.0, "client's");
    open_with(&registry, "s", &client).await;
    assert!(messages(&session).is_empty());
    session.finish(History::default(), Saved::default(), "{}".into());
    open_with(&registry, "s", &client).await;
    assert_eq!(messages(&session).len(), 1);
}

#[tokio::test]
async fn an_unknown_session_is_the_clients_copy() {
    let registry = registry();
    let opened = open_with(&registry, "s", &copy(3, 1, 7.5, "client's")).await;
    assert!(opened.fresh);
    let session = opened.session;
    assert_eq!(session.history().version(), (3.0, 1.0, 7.5));
    assert_eq!(session.lock().saved, Saved::default());
    assert_eq!(session.mode(), Mode::default());
}

/// Counters no turn can follow, and such as only a float can hold, are no counters.
#[tokio::test]
async fn a_copy_that_counts_oddly_does_no_harm() {
    for turn in [
        "18446744073709551615",
        "9007199254740993",
        "1e300",
        "Infinity",
        "NaN",
        "-1",
        "2.5",
        "\"7\"",
    ] {
        let registry = registry();
        let text = format!(r#"{{"messages":[{{"role":"user","content":"x"}}],"turn":{turn}}}"#);
        let client = Object::parse(&text).unwrap();
        for _ in 0..2 {
            let opened = registry.open(alice(), Some("s"), Some(&client)).await;
            let session = opened.unwrap().session;
            let history = session.history();
            assert_eq!(history.turn, 0, "{turn}");
            assert_eq!(history.version(), History::client_version(&client));
        }
        let session = registry.own("s", &alice()).unwrap();
        let viewer = join(&session);
        let started = session
            .start(registry.log(&session), &viewer, "hi")
            .unwrap();
        assert_eq!(started.turn, 1);
    }
}

/// A turn that a crash cut off gets its one `turn_result` (fact F42), and no second one.
#[tokio::test]
async fn an_interrupted_turn_is_closed_once() {
    let input = json!({"type": "user_input", "content": "hi", "turn": 1});
    let earlier = json!({"type": "turn_result", "turn": 0, "reason": "natural"});
    let closed = json!({"type": "turn_result", "turn": 1, "reason": "interrupted"});
    for (trace, outcome, added) in [
        (vec![input.clone()], Outcome::Interrupted, 1),
        (
            vec![earlier.clone(), input.clone()],
            Outcome::Interrupted,
            1,
        ),
        (vec![], Outcome::Interrupted, 1),
        (vec![input.clone(), closed.clone()], Outcome::Interrupted, 0),
        (vec![input.clone()], Outcome::Completed, 0),
        (vec![input.clone()], Outcome::Failed, 0),
    ] {
        let registry = registry();
        stored(registry.store(), "s", alice(), &trace, outcome).await;
        let session = open(&registry, alice(), Some("s")).await.session;
        let history = session.history();
        assert_eq!(history.trace.len(), trace.len() + added, "{outcome:?}");
        if added == 1 {
            let last = history.trace.since(trace.len()).next().unwrap();
            assert_eq!(
                serde_json::from_str::<Value>(last).unwrap(),
                json!({
                    "type": "turn_result", "turn": 1, "reason": "interrupted", "usage": null,
                    "id": "interrupted-1", "ts": 10.0,
                })
            );
        }
        // The store does not have it yet: the next turn brings it along.
        assert_eq!(session.lock().saved.trace, trace.len());
        // Stored with it, it is read back as it is.
        let all: Vec<Value> = history
            .trace
            .since(0)
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        stored(registry.store(), "again", alice(), &all, outcome).await;
        let again = open(&registry, alice(), Some("again")).await.session;
        assert_eq!(again.history().trace.text(), history.trace.text());
    }
}

/// A CONNECT may bring megabytes; nobody has to keep them who was never asked anything.
#[tokio::test]
async fn a_copy_that_was_never_used_goes_with_its_client() {
    let registry = registry();
    for (turn, iteration, updated) in [(0, 0, 0.0), (3, 1, 5.0)] {
        let client = copy(turn, iteration, updated, "client's");
        let session = open_with(&registry, "s", &client).await.session;
        let (one, two) = (join(&session), join(&session));
        session.leave(&one);
        assert_eq!(messages(&session).len(), 1);
        session.leave(&two);
        assert!(messages(&session).is_empty());
        // It is still there, and takes the copy again.
        let again = open_with(&registry, "s", &client).await;
        assert!(!again.fresh);
        assert_eq!(messages(&again.session).len(), 1);
        again.session.leave(&join(&again.session));
    }
    // A turn that ran and could not be stored is kept.
    let session = open_with(&registry, "s", &copy(0, 0, 0.0, "client's"))
        .await
        .session;
    let viewer = join(&session);
    session
        .start(registry.log(&session), &viewer, "hi")
        .unwrap();
    let unsaved = Saved {
        replace: true,
        ..Saved::default()
    };
    session.finish(session.history(), unsaved, "{}".into());
    session.leave(&viewer);
    assert_eq!(messages(&session).len(), 1);
}
