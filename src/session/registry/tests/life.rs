//! When a session leaves and when a turn is ended.

use super::*;
use crate::session::Closing;

#[tokio::test(start_paused = true)]
async fn an_idle_session_leaves_after_its_time() {
    let registry = registry();
    let id = open(&registry, alice(), None).await.session.id.clone();
    tokio::time::advance(IDLE - SOON).await;
    assert!(registry.sweep().is_empty());
    tokio::time::advance(SOON).await;
    assert_eq!(registry.sweep(), std::slice::from_ref(&id));
    assert!(registry.is_empty());
    assert!(registry.own(&id, &alice()).is_none());
    assert!(registry.sweep().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watched_session_stays() {
    let registry = registry();
    let session = open(&registry, alice(), None).await.session;
    let (one, two) = (join(&session), join(&session));
    assert_eq!(session.viewers(), 2);
    let id = session.id.clone();
    drop(session);
    tokio::time::advance(IDLE * 10).await;
    assert!(registry.sweep().is_empty());
    // One leaves as it should, one is just dropped.
    registry.own(&id, &alice()).unwrap().leave(&one);
    tokio::time::advance(IDLE * 2).await;
    assert!(registry.sweep().is_empty());
    drop(two);
    assert_eq!(registry.sweep(), [id]);
}

#[tokio::test(start_paused = true)]
async fn leaving_starts_the_clock_again() {
    let registry = registry();
    let session = open(&registry, alice(), None).await.session;
    let viewer = join(&session);
    tokio::time::advance(IDLE * 2).await;
    session.leave(&viewer);
    drop(session);
    tokio::time::advance(IDLE - SOON).await;
    assert!(registry.sweep().is_empty());
    tokio::time::advance(SOON).await;
    assert_eq!(registry.sweep().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pong_is_a_sign_of_life() {
    let registry = registry();
    let id = open(&registry, alice(), None).await.session.id.clone();
    for _ in 0..5 {
        tokio::time::advance(IDLE - SOON).await;
        registry.own(&id, &alice()).unwrap().touch();
        assert!(registry.sweep().is_empty());
    }
    tokio::time::advance(IDLE).await;
    assert_eq!(registry.sweep(), [id]);
}

#[tokio::test(start_paused = true)]
async fn a_session_in_somebodys_hands_stays() {
    let registry = registry();
    let session = open(&registry, alice(), None).await.session;
    tokio::time::advance(IDLE * 2).await;
    assert!(registry.sweep().is_empty());
    drop(session);
    assert_eq!(registry.sweep().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_is_cancelled() {
    let registry = registry();
    let session = open(&registry, alice(), None).await.session;
    let viewer = join(&session);
    let started = session
        .start(registry.log(&session), &viewer, "hi")
        .unwrap();
    session.leave(&viewer);
    // Nobody watches and the idle time is long over, but something runs.
    tokio::time::advance(TURN).await;
    assert!(registry.sweep().is_empty());
    assert!(!started.running.cancel.is_cancelled());
    assert_eq!(registry.running().len(), 1);
    tokio::time::advance(SOON).await;
    assert!(registry.sweep().is_empty());
    assert!(started.running.cancel.is_cancelled());
    // The turn itself says when it is over.
    assert!(session.running().is_some());
    let waiting = tokio::spawn({
        let session = Arc::clone(&session);
        async move { session.idle().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    session.finish(History::default(), Saved::default(), "{}".into());
    waiting.await.unwrap();
    assert!(registry.running().is_empty());
}

/// A viewer whose socket was closed counts until it is gone.
#[tokio::test]
async fn closing_is_not_leaving() {
    let registry = registry();
    let session = open(&registry, alice(), None).await.session;
    let viewer = join(&session);
    viewer.close(1001, "bye");
    let closing = viewer.take(1).closing;
    let expected = Closing {
        code: 1001,
        reason: "bye".into(),
    };
    assert_eq!(closing, Some(expected));
    assert_eq!(session.viewers(), 1);
    session.leave(&viewer);
    assert_eq!(session.viewers(), 0);
}
