//! What a conversation looks like.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

use oip_host::client::{Client, Event};
use serde_json::Value;

use super::super::talk::shown;
use super::ask::Pending;

/// Where the conversation is printed: answers to standard output, the rest to standard error, so
/// that a script gets the answers alone.
pub(super) struct Screen {
    /// Answers and nothing else.
    bare: bool,
    interactive: bool,
    colours: bool,
    /// What the agent said last in this turn; the turn's answer may be the same over again.
    said: Option<String>,
}

impl Screen {
    pub(super) fn new(bare: bool, interactive: bool) -> Self {
        Self {
            bare,
            interactive,
            colours: std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            said: None,
        }
    }

    pub(super) fn hello(&self, client: &Client) {
        let link = if client.is_sealed() {
            "sealed"
        } else {
            "in the clear, on this machine"
        };
        self.note(&format!(
            "{} · {link} · session {}{}",
            client.host().short(),
            shown(client.session_id()),
            if self.interactive { " · /help" } else { "" }
        ));
    }

    /// A line beside the conversation.
    pub(super) fn note(&self, text: &str) {
        if self.bare {
            return;
        }
        if self.colours {
            eprintln!("\x1b[2m{text}\x1b[0m");
        } else {
            eprintln!("{text}");
        }
    }

    pub(super) fn prompt(&self) {
        if self.interactive {
            eprint!("> ");
            // A terminal that is gone is noticed when its next line is read.
            let _ = std::io::stderr().flush();
        }
    }

    /// Something went wrong.
    pub(super) fn failure(&self, text: &str) {
        eprintln!("✗ {}", shown(text));
    }

    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Thinking(text) => self.note(&format!("… {}", first_line(text))),
            Event::Assistant(text) => {
                println!("{}", shown(text));
                self.said = Some(text.clone());
            }
            Event::Output { result, .. } => {
                let again = self.said.take().as_ref() == Some(result);
                print!(
                    "{}",
                    if again {
                        String::new()
                    } else {
                        shown(result) + "\n"
                    }
                );
            }
            Event::ToolCall { name, args } => {
                self.note(&format!("⚙ {}({})", first_line(name), arguments(args)))
            }
            Event::ToolResult { result, ok, .. } => {
                self.note(&format!(
                    "  {} {}",
                    if *ok { "→" } else { "✗" },
                    first_line(result)
                ));
            }
            Event::Plan(entries) => {
                for (content, status) in entries {
                    let mark = match status.as_str() {
                        "completed" => "✓",
                        "in_progress" => "▸",
                        _ => "·",
                    };
                    self.note(&format!("  {mark} {}", first_line(content)));
                }
            }
            Event::UserMessage(text) => {
                self.note(&format!("from another device: {}", first_line(text)))
            }
            Event::ModeChanged(mode) => self.note(&format!("mode {}", first_line(mode))),
            Event::InputTaken => self.note("the agent will read that"),
            Event::Error { message, .. } => {
                self.said = None;
                self.failure(message);
            }
            Event::Resumed => self.note("the connection was lost and is back"),
            Event::ApprovalNeeded {
                tool,
                arguments: args,
                description,
                batch_remaining,
                ..
            } => {
                eprintln!("? {}({})", first_line(tool), arguments(args));
                if !description.is_empty() {
                    eprintln!("  {}", shown(description));
                }
                if *batch_remaining > 0 {
                    eprintln!("  {batch_remaining} more wait behind it");
                }
            }
            Event::AskUser {
                question, options, ..
            } => {
                eprintln!("? {}", shown(question));
                for (i, option) in options.iter().enumerate() {
                    eprintln!("  {} {}", i + 1, shown(option));
                }
            }
            _ => {}
        }
    }

    /// What to type next.
    pub(super) fn ask(&self, pending: &Pending) {
        let what = match pending {
            Pending::Approval { .. } => "y once, s for the session, n, or why not".to_owned(),
            Pending::Question {
                options,
                multi_select,
                ..
            } => match (options.is_empty(), multi_select) {
                (true, _) => "your answer".to_owned(),
                (false, false) => "a number, or your own answer".to_owned(),
                (false, true) => "numbers with commas, or your own answer".to_owned(),
            },
            Pending::Form { .. } => pending
                .field()
                .map_or_else(String::new, |field| shown(&field.label)),
        };
        eprint!("{what}: ");
        let _ = std::io::stderr().flush();
    }

    /// Whether what is typed is shown. `stty` is where every terminal has it.
    pub(super) fn echo(&self, on: bool) {
        if !self.interactive {
            return;
        }
        let set = Command::new("stty")
            .arg(if on { "echo" } else { "-echo" })
            .stdin(Stdio::inherit())
            .status();
        if !on && !set.is_ok_and(|status| status.success()) {
            eprint!("(this terminal shows what you type) ");
        }
    }

    /// Leave the terminal as it was.
    pub(super) fn end(&self) {
        self.echo(true);
        if self.interactive {
            eprintln!();
        }
    }
}

fn first_line(text: &str) -> String {
    const WIDTH: usize = 120;
    let line = text.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(WIDTH).collect();
    if line.chars().count() > WIDTH || text.lines().nth(1).is_some() {
        cut.push('…');
    }
    shown(&cut)
}

/// Arguments in full: who approves a call must see all of it.
fn arguments(args: &Value) -> String {
    let Some(args) = args.as_object() else {
        return shown(&args.to_string());
    };
    let pairs: Vec<String> = args
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    // A name with a line break in it must not look like a line of ours.
    shown(&pairs.join(", ")).replace('\n', "\\n")
}
