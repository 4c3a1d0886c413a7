//! Any order of joining, leaving, starting, streaming and finishing, against a plain list.

use proptest::prelude::*;

use super::*;

const PEOPLE: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    /// Connect, or CONNECT again on the same socket; `resume` names the last event seen.
    Join { who: usize, resume: bool },
    /// The socket goes.
    Leave { who: usize },
    /// INPUT from this one.
    Start { who: usize },
    /// The turn says something.
    Append,
    /// The turn ends.
    Finish,
    /// The writer takes about so many bytes.
    Take { who: usize, budget: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..PEOPLE;
    prop_oneof![
        3 => (who.clone(), any::<bool>()).prop_map(|(who, resume)| Step::Join { who, resume }),
        2 => who.clone().prop_map(|who| Step::Leave { who }),
        3 => who.clone().prop_map(|who| Step::Start { who }),
        6 => Just(Step::Append),
        2 => Just(Step::Finish),
        4 => (who, prop_oneof![Just(1), 100..1000_usize, Just(ALL)])
            .prop_map(|(who, budget)| Step::Take { who, budget }),
    ]
}

/// One person: the socket they have now, what came through it and what should have.
#[derive(Default)]
struct Person {
    socket: Option<Arc<Outbox>>,
    answers: Vec<String>,
    expected_answers: Vec<String>,
    seen: Vec<String>,
    expected: Vec<String>,
    /// The last event that they have seen, on any socket.
    last: Option<String>,
}

impl Person {
    fn take(&mut self, budget: usize) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let (words, last) = taken(socket, budget);
        self.last = last.or(self.last.take());
        let more = !words.is_empty();
        let (answers, streamed): (Vec<_>, Vec<_>) = words
            .into_iter()
            .partition(|word| matches!(word.as_str(), "connected" | "running"));
        self.answers.extend(answers);
        self.seen.extend(streamed);
        more
    }

    fn hang_up(&mut self, session: &Session) {
        if let Some(socket) = self.socket.take() {
            session.leave(&socket);
            socket.gone();
        }
        assert!(self.expected.starts_with(&self.seen), "in order, each once");
        assert!(self.expected_answers.starts_with(&self.answers));
        let last = self.last.take();
        *self = Self {
            last,
            ..Self::default()
        };
    }
}

/// The turn that is running: its events so far, as word and id.
struct Turn {
    running: Arc<Running>,
    events: Vec<(String, String)>,
}

#[derive(Default)]
struct Model {
    people: [Person; PEOPLE],
    turn: Option<Turn>,
    turns: usize,
    events: usize,
}

impl Model {
    fn tell(&mut self, word: &str) {
        for person in &mut self.people {
            if person.socket.is_some() {
                person.expected.push(word.to_owned());
            }
        }
    }

    fn step(&mut self, session: &Arc<Session>, budget: usize, step: Step) {
        match step {
            Step::Join { who, resume } => self.join(session, who, resume),
            Step::Leave { who } => self.people[who].hang_up(session),
            Step::Start { who } => self.start(session, budget, who),
            Step::Append => {
                if let Some(turn) = &mut self.turn {
                    let id = append(&turn.running, self.events);
                    let word = self.events.to_string();
                    turn.events.push((word.clone(), id));
                    self.events += 1;
                    self.tell(&word);
                }
            }
            Step::Finish => {
                finish(session);
                if self.turn.take().is_some() {
                    self.tell("OUTPUT");
                }
                assert!(session.running().is_none());
            }
            Step::Take { who, budget } => drop(self.people[who].take(budget)),
        }
    }

    fn join(&mut self, session: &Session, who: usize, resume: bool) {
        let person = &mut self.people[who];
        let last = person.last.clone().filter(|_| resume);
        let new = person.socket.is_none();
        let socket = person.socket.get_or_insert_default();
        let (status, _) = session.join(socket, false, last.as_deref(), |_| false);
        person.expected_answers.push(status.word().to_owned());
        let Some(turn) = &self.turn else {
            assert_eq!(status, Status::Connected);
            return;
        };
        assert_eq!(status, Status::Running);
        if new {
            let after = turn
                .events
                .iter()
                .position(|(_, id)| Some(id) == last.as_ref())
                .map_or(0, |at| at + 1);
            let rest = turn.events[after..].iter().map(|(word, _)| word.clone());
            person.expected.extend(rest);
        }
    }

    fn start(&mut self, session: &Session, budget: usize, who: usize) {
        let Some(origin) = self.people[who].socket.clone() else {
            return;
        };
        let prompt = format!("prompt {}", self.turns);
        let log = TurnLog::new("s", budget, &std::env::temp_dir());
        match (session.start(log, &origin, &prompt), &self.turn) {
            (Ok(started), None) => {
                self.turns += 1;
                self.turn = Some(Turn {
                    running: started.running,
                    events: Vec::new(),
                });
                for (i, person) in self.people.iter_mut().enumerate() {
                    if i != who && person.socket.is_some() {
                        person.expected.push(prompt.clone());
                    }
                }
            }
            (Err(running), Some(turn)) => assert!(Arc::ptr_eq(&running, &turn.running)),
            (Ok(_), Some(_)) => panic!("two turns at once"),
            (Err(_), None) => panic!("a turn that nobody started"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Each viewer sees each event from where it joined, once and in order, whatever else happens.
    #[test]
    fn every_viewer_sees_each_event_once(
        steps in proptest::collection::vec(step(), 0..80),
        budget in prop_oneof![Just(1 << 20), 1..2000_usize],
    ) {
        let session = session();
        let mut model = Model::default();
        for step in steps {
            model.step(&session, budget, step);
            let watching = model.people.iter().filter(|person| person.socket.is_some());
            prop_assert_eq!(session.viewers(), watching.count());
        }
        model.step(&session, budget, Step::Finish);
        for person in &mut model.people {
            while person.take(100) {}
            prop_assert_eq!(&person.seen, &person.expected);
            prop_assert_eq!(&person.answers, &person.expected_answers);
        }
    }
}
