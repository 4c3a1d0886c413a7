//! `oip chat`: a conversation with an agent, line by line.

mod ask;
mod screen;

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use oip_host::client::{Client, ClientError, Event, Options, Seal};
use tokio::sync::mpsc;

use super::ChatArgs;
use super::talk::{caller, place, refusal};
use ask::{Answer, Pending};
use screen::Screen;

const HELP: &str = "a line is a prompt; while the agent works, more input for it
Ctrl-C     stop the agent; twice, or when it is idle: leave
/mode M    read-only or auto
/quit      leave";

pub(crate) async fn run(args: ChatArgs) -> anyhow::Result<ExitCode> {
    let (target, host) = place(&args.target, args.directory.as_deref()).await?;
    let identity = caller(&args.project)?;
    let options = Options {
        seal: Seal::Offer,
        session_id: args.session.clone(),
        host,
    };
    let connected = Client::connect(&target, &identity, options).await;
    let client = connected.map_err(|error| refusal(&error))?;
    let interactive = std::io::stdin().is_terminal();
    let chat = Chat {
        client,
        screen: Screen::new(args.bare, interactive),
        interactive,
        pending: None,
        stopping: false,
        failed: false,
    };
    chat.run().await
}

struct Chat {
    client: Client,
    screen: Screen,
    interactive: bool,
    /// What the agent waits for.
    pending: Option<Pending>,
    /// Ctrl-C was pressed in this turn.
    stopping: bool,
    failed: bool,
}

/// What happens next.
enum Next {
    Line(Option<String>),
    Event(Result<Event, ClientError>),
    Interrupt,
}

impl Chat {
    async fn run(mut self) -> anyhow::Result<ExitCode> {
        self.screen.hello(&self.client);
        let mut lines = read_lines();
        let mut at_end = false;
        self.prompt();
        loop {
            // A script's next line is its next prompt: it waits for the answer to the last one.
            let idle = !self.client.is_running();
            let wants_line = !at_end && (self.interactive || idle || self.pending.is_some());
            if at_end && idle {
                break;
            }
            let next = tokio::select! {
                line = lines.recv(), if wants_line => Next::Line(line),
                event = self.client.next(), if self.client.is_connected() || !idle => Next::Event(event),
                _ = tokio::signal::ctrl_c() => Next::Interrupt,
            };
            match next {
                Next::Line(None) => at_end = true,
                Next::Line(Some(line)) => {
                    if self.line(&line).await? {
                        break;
                    }
                }
                Next::Event(Ok(event)) => self.event(event),
                Next::Event(Err(lost @ ClientError::TurnLost(_))) => {
                    self.screen.failure(&lost.to_string());
                    (self.failed, self.pending, self.stopping) = (true, None, false);
                    self.prompt();
                }
                Next::Event(Err(ClientError::Closed { .. })) if idle => {
                    self.screen
                        .note("the connection was lost; the next line opens another");
                }
                Next::Event(Err(failed)) => {
                    self.screen.end();
                    return Err(refusal(&failed));
                }
                Next::Interrupt if self.client.is_running() && !self.stopping => {
                    self.stopping = true;
                    self.pending = None;
                    self.screen.note("stopping; Ctrl-C again leaves");
                    if let Err(failed) = self.client.interrupt().await {
                        self.screen.note(&failed.to_string());
                    }
                }
                Next::Interrupt => break,
            }
        }
        self.screen.end();
        self.client.close().await;
        Ok(if self.failed && !self.interactive {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    /// A line from the keyboard; true to leave.
    async fn line(&mut self, line: &str) -> anyhow::Result<bool> {
        if let Some(pending) = self.pending.take() {
            match pending.take(line) {
                Answer::More(pending) => {
                    self.screen.ask(&pending);
                    self.pending = Some(pending);
                }
                Answer::Approve { id, session } => self.client.approve(&id, session).await?,
                Answer::Reject { id, feedback } => {
                    self.client.reject(&id, feedback.as_deref()).await?;
                }
                Answer::Text { id, text } => self.client.answer(&id, &text).await?,
            }
            self.screen.echo(
                self.pending
                    .as_ref()
                    .is_none_or(|pending| !pending.is_secret()),
            );
            return Ok(false);
        }
        let line = line.trim_end();
        match line.trim_start() {
            "" => self.prompt(),
            "/quit" | "/exit" => return Ok(true),
            "/help" => {
                self.screen.note(HELP);
                self.prompt();
            }
            command if command.starts_with("/mode") => {
                self.client
                    .set_mode(command["/mode".len()..].trim())
                    .await?;
            }
            _ => {
                self.stopping = false;
                self.client.input(line).await?;
            }
        }
        Ok(false)
    }

    fn event(&mut self, event: Event) {
        if let Event::Error { .. } = &event {
            self.failed = true;
        }
        self.screen.event(&event);
        if let Some(pending) = Pending::of(&event) {
            self.screen.ask(&pending);
            self.screen.echo(!pending.is_secret());
            self.pending = Some(pending);
        }
        let settled = matches!(
            event,
            Event::Output { .. } | Event::Error { .. } | Event::ModeChanged(_)
        );
        if settled && !self.client.is_running() {
            self.stopping = false;
            self.pending = None;
            self.prompt();
        }
    }

    fn prompt(&mut self) {
        self.screen.prompt();
    }
}

/// Lines from standard input, read by a thread of their own: a terminal's read cannot be given up.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
