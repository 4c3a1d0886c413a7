//! One turn, a few viewers, step by step.

use super::*;

#[test]
fn a_turn_goes_to_everybody_and_the_prompt_to_those_who_did_not_ask() {
    let session = session();
    let (asking, _) = join(&session, None);
    let (watching, _) = join(&session, None);
    let running = session.start(log(), &asking, "prompt").unwrap().running;
    append(&running, 0);
    let (late, status) = join(&session, None);
    assert_eq!(status, Status::Running);
    append(&running, 1);
    finish(&session);
    assert_eq!(words(&asking), ["connected", "0", "1", "OUTPUT"]);
    assert_eq!(
        words(&watching),
        ["connected", "prompt", "0", "1", "OUTPUT"]
    );
    assert_eq!(words(&late), ["running", "0", "1", "OUTPUT"]);
    let (after, status) = join(&session, None);
    assert_eq!(status, Status::Connected);
    assert_eq!(words(&after), ["connected"]);
}

#[test]
fn a_viewer_that_joins_twice_follows_once() {
    let session = session();
    let (viewer, _) = join(&session, None);
    let again = |expected| {
        let (status, _) = session.join(&viewer, false, None, |_| false);
        assert_eq!(status, expected);
    };
    again(Status::Connected);
    assert_eq!(session.viewers(), 1);
    let running = session.start(log(), &viewer, "prompt").unwrap().running;
    append(&running, 0);
    again(Status::Running);
    append(&running, 1);
    finish(&session);
    again(Status::Connected);
    assert_eq!(session.viewers(), 1);
    assert_eq!(
        words(&viewer),
        [
            "connected",
            "connected",
            "running",
            "connected",
            "0",
            "1",
            "OUTPUT"
        ]
    );
    // Nor does a second turn come twice.
    session.start(log(), &viewer, "prompt").unwrap();
    finish(&session);
    assert_eq!(words(&viewer), ["OUTPUT"]);
}

#[test]
fn who_has_left_sees_nothing_more() {
    let session = session();
    let (viewer, _) = join(&session, None);
    let (other, _) = join(&session, None);
    session.leave(&viewer);
    assert_eq!(session.viewers(), 1);
    session.start(log(), &other, "prompt").unwrap();
    finish(&session);
    assert_eq!(words(&viewer), ["connected"]);
    session.leave(&viewer);
    assert_eq!(session.viewers(), 1);
}

#[test]
fn one_turn_at_a_time() {
    let session = session();
    let (viewer, _) = join(&session, None);
    let first = session.start(log(), &viewer, "one").unwrap();
    assert_eq!((first.turn, first.mode), (1, Mode::Auto));
    let refused = session.start(log(), &viewer, "two").unwrap_err();
    assert!(Arc::ptr_eq(&refused, &first.running));
    let empty = JsonList::default;
    let history = History::stored(empty(), empty(), 1, 0, 0.0);
    let saved = Saved {
        messages: 2,
        ..Saved::default()
    };
    session.finish(history, saved, "{\"type\":\"OUTPUT\"}".into());
    let second = session.start(log(), &viewer, "two").unwrap();
    assert_eq!((second.turn, second.saved), (2, saved));
    assert!(!Arc::ptr_eq(&second.running, &first.running));
}

#[test]
fn history_is_sent_to_whom_it_is_news() {
    let session = session();
    let mut history = History::default();
    history.messages.push(r#"{"role":"user","content":"hi"}"#);
    history.turn = 4;
    history.settle();
    session.finish(history, Saved::default(), String::new());
    for (fresh, newer, status) in [(false, true, "connected"), (true, false, "new")] {
        let viewer = Arc::new(Outbox::default());
        let (_, told) = session.join(&viewer, fresh, None, |ours| {
            assert_eq!(ours.turn, 4);
            newer
        });
        assert_eq!(told, newer);
        let Some(Item::Frame(text)) = viewer.take(ALL).items.pop() else {
            panic!("no CONNECTED");
        };
        let frame: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(frame["status"], status);
        assert_eq!(frame["session_modes"]["currentModeId"], "auto");
        let (has, member) = (newer.then_some(true), frame.get("server_newer"));
        assert_eq!(member.and_then(Value::as_bool), has);
        // Facts F35, F38: whole, or not at all.
        assert_eq!(frame.get("session").is_some(), newer);
        assert_eq!(frame.get("chat_items").is_some(), newer);
        if newer {
            assert_eq!(frame["session"]["turn"], 4);
            assert_eq!(frame["chat_items"][0]["content"], "hi");
        }
    }
}

/// A viewer that is cut off after any event and resumes there sees what an uncut one sees; from
/// memory, and from the file that a long turn moves to.
#[test]
fn every_cut_is_mended() {
    const EVENTS: usize = 40;
    for budget in [1 << 20, 500, 1] {
        let uncut: Vec<String> = (0..EVENTS)
            .map(|n| n.to_string())
            .chain(["OUTPUT".to_owned()])
            .collect();
        for cut in 0..=EVENTS {
            for resumed_at in [cut, (cut + EVENTS) / 2, EVENTS] {
                let session = session();
                let (viewer, _) = join(&session, None);
                let log = TurnLog::new("s", budget, &std::env::temp_dir());
                let running = session.start(log, &viewer, "prompt").unwrap().running;
                (0..cut).for_each(|n| drop(append(&running, n)));
                let (mut seen, last) = taken(&viewer, ALL);
                viewer.gone();
                session.leave(&viewer);
                (cut..resumed_at).for_each(|n| drop(append(&running, n)));
                let (viewer, status) = join(&session, last.as_deref());
                assert_eq!(status, Status::Running);
                (resumed_at..EVENTS).for_each(|n| drop(append(&running, n)));
                finish(&session);
                // A byte at a time: one frame each.
                loop {
                    let (more, _) = taken(&viewer, 1);
                    if more.is_empty() {
                        break;
                    }
                    seen.extend(more);
                }
                seen.retain(|word| word != "connected" && word != "running");
                assert_eq!(seen, uncut, "cut at {cut}, budget {budget}");
            }
        }
    }
}

/// An id of the turn before, or of nowhere: the whole running turn, rather twice than never.
#[test]
fn an_unknown_last_event_means_the_whole_turn() {
    let session = session();
    let (viewer, _) = join(&session, None);
    let running = session.start(log(), &viewer, "one").unwrap().running;
    let old = append(&running, 0);
    finish(&session);
    let running = session.start(log(), &viewer, "two").unwrap().running;
    append(&running, 1);
    append(&running, 2);
    for last in [Some(old.as_str()), Some("nowhere"), Some(""), None] {
        let (viewer, _) = join(&session, last);
        assert_eq!(words(&viewer), ["running", "1", "2"]);
    }
}

#[tokio::test]
async fn idle_waits_for_the_turns_end_only() {
    let session = session();
    session.idle().await;
    let (viewer, _) = join(&session, None);
    session.start(log(), &viewer, "prompt").unwrap();
    let waiting = tokio::spawn({
        let session = Arc::clone(&session);
        async move { session.idle().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    finish(&session);
    waiting.await.unwrap();
}

#[test]
fn the_row_describes_the_session() {
    let session = session();
    session.set_mode(Mode::ReadOnly);
    assert_eq!(session.mode(), Mode::ReadOnly);
    let empty = JsonList::default;
    let history = History::stored(empty(), empty(), 3, 2, 9.5);
    assert_eq!(
        session.row(history.counters(), 99.0),
        SessionRow {
            id: "s".into(),
            owner: session.owner,
            created_at: 0.0,
            updated_at: 9.5,
            turn: 3,
            iteration: 2,
            mode: "read-only".into(),
            turns_left: None,
            expires_at: 99.0,
        }
    );
    assert!(!session.is_stored());
    let saved = Saved {
        row: true,
        ..Saved::default()
    };
    session.finish(history, saved, String::new());
    assert!(session.is_stored());
    assert_eq!(session.history().turn, 3);
}
