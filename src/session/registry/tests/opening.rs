//! Whose session a caller gets.

use super::*;

#[tokio::test]
async fn ones_own_session_is_found_again() {
    let registry = registry();
    let first = open(&registry, alice(), None).await;
    assert_eq!((first.fresh, first.foreign), (true, false));
    let id = first.session.id.clone();
    let again = open(&registry, alice(), Some(&id)).await;
    assert_eq!((again.fresh, again.foreign), (false, false));
    assert!(Arc::ptr_eq(&again.session, &first.session));
    assert!(registry.own(&id, &alice()).is_some());
    assert!(registry.own(&id, &bob()).is_none());
    assert!(registry.own("unknown", &alice()).is_none());
}

#[tokio::test]
async fn an_unknown_id_is_kept() {
    let registry = registry();
    let opened = open(&registry, alice(), Some("mine")).await;
    assert_eq!((opened.fresh, opened.foreign), (true, false));
    assert_eq!(opened.session.id, "mine");
    assert_eq!(registry.len(), 1);
    // Without an id each is another.
    let (one, two) = (
        open(&registry, alice(), None).await,
        open(&registry, alice(), None).await,
    );
    assert_ne!(one.session.id, two.session.id);
}

/// Fact F62, in memory and in the store.
#[tokio::test]
async fn somebody_elses_id_gives_a_session_of_ones_own() {
    let registry = registry();
    let hers = open(&registry, alice(), Some("hers")).await.session;
    stored(registry.store(), "stored", alice(), &[], Outcome::Completed).await;
    let copy = json!({"messages": [{"role": "user", "content": "bob's"}], "turn": 9}).to_string();
    let copy = Object::parse(&copy).unwrap();
    for id in ["hers", "stored"] {
        let opened = registry.open(bob(), Some(id), Some(&copy)).await.unwrap();
        assert_eq!((opened.fresh, opened.foreign), (true, true));
        assert_ne!(opened.session.id, id);
        assert_eq!(opened.session.owner, bob());
        assert_eq!(opened.session.history().turn, 9);
    }
    assert!(hers.history().messages.is_empty());
    // The stranger did not make the host read the stored one.
    assert_eq!(registry.len(), 3);
    let own = open(&registry, alice(), Some("stored")).await;
    assert_eq!((own.fresh, own.foreign), (false, false));
    assert_eq!(
        messages(&own.session),
        [json!({"role": "user", "content": "hi"})]
    );
}

/// Decision D9.
#[tokio::test]
async fn a_stored_session_is_read_back_once() {
    let registry = registry();
    stored(registry.store(), "s", alice(), &[], Outcome::Completed).await;
    let (one, two, three) = tokio::join!(
        open(&registry, alice(), Some("s")),
        open(&registry, alice(), Some("s")),
        open(&registry, bob(), Some("s")),
    );
    assert!(Arc::ptr_eq(&one.session, &two.session));
    assert!(!one.fresh && !two.fresh && three.foreign);
    let session = one.session;
    assert_eq!(session.history().version(), (1.0, 2.0, 10.0));
    assert_eq!(session.mode(), Mode::ReadOnly);
    assert!(session.is_stored());
    let row = session.row(session.history().counters(), 99.0);
    assert_eq!((row.created_at, row.expires_at), (5.0, 99.0));
}

/// Two that make one new id in the same instant have one session, or two under two ids.
#[tokio::test]
async fn a_new_id_made_twice_at_once() {
    let registry = registry();
    let (one, two, three) = tokio::join!(
        open(&registry, alice(), Some("s")),
        open(&registry, alice(), Some("s")),
        open(&registry, bob(), Some("s")),
    );
    assert!(Arc::ptr_eq(&one.session, &two.session));
    assert_eq!(one.session.id, "s");
    assert_ne!(three.session.id, "s");
    assert_eq!(three.session.owner, bob());
    assert!(three.foreign);
}

#[tokio::test]
async fn a_store_that_is_closed_opens_nothing_stored() {
    let registry = registry();
    registry.store().close().await;
    assert!(registry.open(alice(), Some("s"), None).await.is_err());
    assert!(registry.is_empty());
    // What needs no store is served.
    assert!(registry.open(alice(), None, None).await.is_ok());
}
