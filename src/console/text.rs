//! The words and the JSON of an event.

use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::Event;

/// How much of a prompt is shown, in characters.
const PROMPT: usize = 50;
/// How much of any other text of a peer is shown.
const TEXT: usize = 300;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const CYAN: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Text of somebody else's that is safe in a line: what could end the line, steer the terminal or
/// turn the order of the letters around is shown as an escape. At most so many characters.
struct Safe<'a>(&'a str, usize);

impl fmt::Display for Safe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shown, character) in self.0.chars().enumerate() {
            if shown == self.1 {
                return f.write_str("...");
            }
            if dangerous(character) {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

fn dangerous(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The first four characters of an id, as far as it has them.
struct Short<'a>(&'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Safe(self.0, 4))
    }
}

/// The lines for people, each with its end.
pub(super) fn human(event: &Event<'_>, colours: bool) -> String {
    let mut text = String::with_capacity(128);
    // Writing to a string has no errors.
    let _ = lines(&mut text, event, &|colour| {
        if colours { colour } else { "" }
    });
    text
}

fn lines<'c>(
    out: &mut String,
    event: &Event<'_>,
    colour: &dyn Fn(&'c str) -> &'c str,
) -> fmt::Result {
    let (green, red, cyan, dim, plain) = (
        colour(GREEN),
        colour(RED),
        colour(CYAN),
        colour(DIM),
        colour(PLAIN),
    );
    match *event {
        Event::SocketOpened { peer, active } => {
            let peer = peer.to_string();
            writeln!(
                out,
                "{dim}⚡ ws+ {} ({active} active){plain}",
                Safe(&peer, TEXT)
            )
        }
        Event::SocketClosed { active } => writeln!(out, "{dim}⚡ ws- ({active} active){plain}"),
        Event::Connected {
            identity,
            session,
            status,
            client_messages,
            merged,
            reattached,
        } => {
            let who = &identity.to_string()[..6];
            writeln!(
                out,
                "{green}✓ CONNECT{plain} identity={who}... session={} status={}",
                Short(session),
                Safe(status, TEXT)
            )?;
            if client_messages > 0 {
                writeln!(
                    out,
                    "  {cyan}↑{plain} client session: {client_messages} messages"
                )?;
            }
            if merged {
                writeln!(out, "  {cyan}↕{plain} merged sessions (server newer)")?;
            }
            if reattached {
                writeln!(out, "  {cyan}↻{plain} reattaching to running agent")?;
            }
            Ok(())
        }
        Event::Input {
            identity,
            session,
            prompt,
            images,
            files,
        } => {
            let who = &identity.to_string()[..6];
            let prompt = Safe(prompt, PROMPT);
            writeln!(
                out,
                "{green}✓ INPUT{plain} identity={who}... session={} prompt={prompt}",
                Short(session)
            )?;
            if images + files > 0 {
                writeln!(out, "  {cyan}↑{plain} {images} images, {files} files")?;
            }
            Ok(())
        }
        Event::Exec { identity, tool } => {
            let who = &identity.to_string()[..6];
            let tool = Safe(tool, PROMPT);
            writeln!(out, "{green}✓ EXEC{plain} identity={who}... tool={tool}")
        }
        Event::Other { message_type } => {
            writeln!(out, "{dim}← WS recv: {}{plain}", Safe(message_type, PROMPT))
        }
        Event::Refused { what, reason } => {
            let how = match what {
                "CONNECT" => "auth error",
                _ => "rejected",
            };
            let (what, reason) = (Safe(what, PROMPT), Safe(reason, TEXT));
            writeln!(out, "{red}✗ {what} {how}:{plain} {reason}")
        }
        Event::AgentError { cause } => {
            let cause = cause.to_string();
            writeln!(out, "{red}✗ agent error:{plain} {}", Safe(&cause, TEXT))
        }
        Event::Notice(text) => writeln!(out, "{text}"),
    }
}

/// One JSON object with its line end: `event`, `ts` (seconds), and the event's own fields, whole
/// ids among them.
pub(super) fn json(event: &Event<'_>) -> String {
    let cut = |text: &str, limit: usize| text.chars().take(limit).collect::<String>();
    let mut object = match *event {
        Event::SocketOpened { peer, active } => {
            json!({"event": "socket_opened", "peer": peer.to_string(), "active": active})
        }
        Event::SocketClosed { active } => json!({"event": "socket_closed", "active": active}),
        Event::Connected {
            identity,
            session,
            status,
            client_messages,
            merged,
            reattached,
        } => json!({
            "event": "connect", "identity": identity, "session": session, "status": status,
            "client_messages": client_messages, "merged": merged, "reattached": reattached,
        }),
        Event::Input {
            identity,
            session,
            prompt,
            images,
            files,
        } => json!({
            "event": "input", "identity": identity, "session": session,
            "prompt": cut(prompt, PROMPT), "images": images, "files": files,
        }),
        Event::Exec { identity, tool } => {
            json!({"event": "exec", "identity": identity, "tool": cut(tool, TEXT)})
        }
        Event::Other { message_type } => {
            json!({"event": "received", "type": cut(message_type, TEXT)})
        }
        Event::Refused { what, reason } => {
            json!({"event": "refused", "what": cut(what, TEXT), "reason": cut(reason, TEXT)})
        }
        Event::AgentError { cause } => {
            json!({"event": "agent_error", "cause": cut(&cause.to_string(), TEXT)})
        }
        Event::Notice(text) => json!({"event": "notice", "text": text}),
    };
    stamped(&mut object)
}

/// What is said when lines were dropped.
pub(super) fn lost(lines: u64, as_json: bool) -> String {
    if as_json {
        stamped(&mut json!({"event": "lost", "lines": lines}))
    } else {
        format!("… {lines} lines not shown\n")
    }
}

fn stamped(object: &mut Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    object["ts"] = json!(now.map_or(0.0, |since| since.as_secs_f64()));
    format!("{object}\n")
}
