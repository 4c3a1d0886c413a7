//! Threads that do two things in the same instant.

use std::sync::Barrier;
use std::thread;

use super::*;

/// Spin until the viewer is given something, with no detour: what follows is the same instant.
fn await_frame(viewer: &Outbox) {
    let start = std::time::Instant::now();
    while viewer.take(ALL).items.is_empty() {
        assert!(start.elapsed().as_secs() < 10, "nothing came");
        std::hint::spin_loop();
    }
}

/// Whoever joins while a turn starts, runs and ends sees all of it, or joins after it.
#[test]
fn joining_in_the_instant_of_a_start() {
    const EVENTS: usize = 20;
    const VIEWERS: usize = 4;
    let whole: Vec<String> = (0..EVENTS)
        .map(|n| n.to_string())
        .chain(["OUTPUT".to_owned()])
        .collect();
    for _ in 0..200 {
        let session = session();
        let (asking, _) = join(&session, None);
        let barrier = Barrier::new(VIEWERS + 1);
        thread::scope(|scope| {
            let viewers: Vec<_> = (0..VIEWERS)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        join(&session, None)
                    })
                })
                .collect();
            barrier.wait();
            let running = session.start(log(), &asking, "prompt").unwrap().running;
            (0..EVENTS).for_each(|n| drop(append(&running, n)));
            finish(&session);
            for viewer in viewers {
                let (viewer, status) = viewer.join().unwrap();
                let mut seen = words(&viewer);
                let first = seen.remove(0);
                assert_eq!(first, status.word());
                let before = seen.first().is_some_and(|word| word == "prompt");
                match status {
                    Status::Running => assert_eq!(seen, whole),
                    // Joined before it started: the prompt, then all of it.
                    _ if before => assert_eq!(seen[1..], whole),
                    _ => assert!(seen.is_empty(), "{seen:?}"),
                }
            }
        });
        assert_eq!(words(&asking)[1..], whole);
    }
}

/// Who reads OUTPUT and answers at once is never told that a turn is running.
#[test]
fn an_input_that_answers_output_finds_the_session_idle() {
    let session = session();
    let (viewer, _) = join(&session, None);
    words(&viewer);
    thread::scope(|scope| {
        for _ in 0..300 {
            let started = session.start(log(), &viewer, "prompt");
            assert!(started.is_ok(), "busy after OUTPUT");
            let ending = scope.spawn(|| finish(&session));
            await_frame(&viewer);
            assert!(session.running().is_none(), "running after OUTPUT");
            ending.join().unwrap();
        }
    });
}

/// Of many that start a turn at once one does.
#[test]
fn starting_in_the_same_instant() {
    const PEOPLE: usize = 4;
    for _ in 0..100 {
        let session = session();
        let barrier = Barrier::new(PEOPLE);
        let started = thread::scope(|scope| {
            let people: Vec<_> = (0..PEOPLE)
                .map(|_| {
                    scope.spawn(|| {
                        let (viewer, _) = join(&session, None);
                        barrier.wait();
                        session.start(log(), &viewer, "prompt").is_ok()
                    })
                })
                .collect();
            let started = people.into_iter().map(|person| person.join().unwrap());
            started.filter(|started| *started).count()
        });
        assert_eq!(started, 1);
    }
}
