use std::sync::{Condvar, Mutex};

use super::*;

/// A writer that can be held, so that the queue behind it fills.
#[derive(Clone, Default)]
struct Sink(Arc<Gate>);

#[derive(Default)]
struct Gate {
    state: Mutex<(Vec<u8>, bool)>,
    moved: Condvar,
}

impl Sink {
    fn hold(&self, held: bool) {
        self.0.state.lock().unwrap().1 = held;
        self.0.moved.notify_all();
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.state.lock().unwrap().0.clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state.lock().unwrap();
        while state.1 {
            state = self.0.moved.wait(state).unwrap();
        }
        state.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn who() -> Address {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&[0x2f, 0x3d]);
    Address::from_bytes(bytes)
}

fn said(events: &[Event<'_>]) -> String {
    let sink = Sink::default();
    let console = Console::human_to(sink.clone());
    for event in events {
        console.emit(*event);
    }
    assert!(console.flush(PATIENCE));
    sink.text()
}

#[test]
fn the_lines_of_the_document() {
    let connected = |status, client_messages, merged, reattached| Event::Connected {
        identity: who(),
        session: "aad5c0de-0000",
        status,
        client_messages,
        merged,
        reattached,
    };
    let long = format!("analyze this{}", " please".repeat(20));
    let text = said(&[
        Event::SocketOpened {
            peer: &std::net::Ipv4Addr::LOCALHOST,
            active: 0,
        },
        connected("new", 0, false, false),
        connected("connected", 4, true, false),
        connected("running", 0, false, true),
        Event::Input {
            identity: who(),
            session: "aad5c0de",
            prompt: &long,
            images: 2,
            files: 1,
        },
        Event::Input {
            identity: who(),
            session: "aad",
            prompt: "hi",
            images: 0,
            files: 0,
        },
        Event::Exec {
            identity: who(),
            tool: "echo_tool",
        },
        Event::Other {
            message_type: "ONBOARD_SUBMIT",
        },
        Event::Refused {
            what: "CONNECT",
            reason: "forbidden: blocked",
        },
        Event::Refused {
            what: "INPUT",
            reason: "not authenticated (send CONNECT first)",
        },
        Event::AgentError {
            cause: &"no such model",
        },
        Event::SocketClosed { active: 1 },
        Event::Notice("one\ntwo"),
    ]);
    assert_eq!(
        text,
        "⚡ ws+ 127.0.0.1 (0 active)\n\
         ✓ CONNECT identity=0x2f3d... session=aad5... status=new\n\
         ✓ CONNECT identity=0x2f3d... session=aad5... status=connected\n\
         \x20 ↑ client session: 4 messages\n\
         \x20 ↕ merged sessions (server newer)\n\
         ✓ CONNECT identity=0x2f3d... session=aad5... status=running\n\
         \x20 ↻ reattaching to running agent\n\
         ✓ INPUT identity=0x2f3d... session=aad5... prompt=analyze this please please please please please pl...\n\
         \x20 ↑ 2 images, 1 files\n\
         ✓ INPUT identity=0x2f3d... session=aad prompt=hi\n\
         ✓ EXEC identity=0x2f3d... tool=echo_tool\n\
         ← WS recv: ONBOARD_SUBMIT\n\
         ✗ CONNECT auth error: forbidden: blocked\n\
         ✗ INPUT rejected: not authenticated (send CONNECT first)\n\
         ✗ agent error: no such model\n\
         ⚡ ws- (1 active)\n\
         one\ntwo\n"
    );
}

#[test]
fn a_peer_cannot_forge_lines_or_steer_the_terminal() {
    let text = said(&[
        Event::Input {
            identity: who(),
            session: "\u{1b}[2J",
            prompt: "a\r\n✓ CONNECT\u{1b}[31m\u{9b}1m\u{202e}b\u{2028}é世🚀\u{7f}",
            images: 0,
            files: 0,
        },
        Event::Refused {
            what: "FOO\nBAR",
            reason: "x\u{7}",
        },
        Event::Other {
            message_type: "\u{1b}]0;title\u{7}",
        },
    ]);
    assert_eq!(text.lines().count(), 3);
    let own = |c: char| c == '\n' || !c.is_control();
    assert!(text.chars().all(own), "{text:?}");
    assert!(text.contains("a\\r\\n✓ CONNECT\\u{1b}[31m\\u{9b}1m\\u{202e}b\\u{2028}é世🚀\\u{7f}"));
}

#[test]
fn json_lines_are_objects_with_whole_ids() {
    let sink = Sink::default();
    let console = Console::json_to(sink.clone());
    console.emit(Event::Input {
        identity: who(),
        session: "aad5c0de",
        prompt: "a\nb",
        images: 1,
        files: 0,
    });
    console.emit(Event::Notice("ready"));
    assert!(console.flush(PATIENCE));
    let text = sink.text();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["event"], "input");
    assert_eq!(lines[0]["identity"], who().to_string());
    assert_eq!(lines[0]["session"], "aad5c0de");
    assert_eq!(lines[0]["prompt"], "a\nb");
    assert!(lines[0]["ts"].as_f64().unwrap() > 1.7e9);
    assert_eq!(lines[1]["text"], "ready");
}

#[test]
fn a_stopped_reader_stops_nobody_and_lost_lines_are_counted() {
    let sink = Sink::default();
    sink.hold(true);
    let console = Console::human_to(sink.clone());
    let sent = 3 * QUEUE;
    for number in 0..sent {
        console.emit(Event::Notice(&number.to_string()));
    }
    assert!(!console.flush(Duration::from_millis(20)));
    sink.hold(false);
    assert!(console.flush(PATIENCE));
    let text = sink.text();
    let shown = text
        .lines()
        .filter(|line| line.parse::<u64>().is_ok())
        .count();
    let missing: usize = text
        .lines()
        .filter_map(|line| line.strip_prefix("… ")?.strip_suffix(" lines not shown"))
        .map(|count| count.parse::<usize>().unwrap())
        .sum();
    assert!(shown >= QUEUE && missing > 0, "{shown} {missing}");
    assert_eq!(shown + missing, sent);
}

#[test]
fn a_reader_that_went_away_stops_nobody() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let console = Console::human_to(Broken);
    console.emit(Event::Notice("x"));
    assert!(console.flush(PATIENCE));
    console.emit(Event::Notice(&"y".repeat(100_000)));
    assert!(console.flush(PATIENCE));
}

#[test]
fn silence_prepares_nothing() {
    struct Loud;
    impl fmt::Display for Loud {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("formatted for nobody");
        }
    }
    let console = Console::silent();
    assert!(console.is_silent());
    console.emit(Event::AgentError { cause: &Loud });
    assert!(console.flush(Duration::ZERO));
}

#[test]
fn colours_are_closed_on_their_line() {
    let event = Event::Refused {
        what: "INPUT",
        reason: "no",
    };
    assert_eq!(
        text::human(&event, true),
        "\x1b[31m✗ INPUT rejected:\x1b[0m no\n"
    );
}
