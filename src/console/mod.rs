//! What the host says while it runs: lines for people, or JSON lines for programs.
//!
//! Saying something never holds the host up. Lines go through a queue of fixed length to one
//! writing thread; what finds the queue full is counted and not shown.

mod text;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use crate::identity::Address;

/// Lines that may wait to be written.
const QUEUE: usize = 4096;

/// Something worth a line. Texts come from peers as they are; the console makes them harmless.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// `⚡ ws+ 127.0.0.1 (0 active)`
    SocketOpened {
        /// The peer's network address.
        peer: &'a dyn fmt::Display,
        /// Sessions that are active now.
        active: usize,
    },
    /// `✓ CONNECT identity=0x2f3d... session=aad5... status=new` and a line for each thing done with
    /// the client's data.
    Connected {
        /// Who connected.
        identity: Address,
        /// The session's id.
        session: &'a str,
        /// `new`, `connected`, `running` or `index` (F34).
        status: &'a str,
        /// Messages of history the client brought.
        client_messages: usize,
        /// The host had newer history and merged.
        merged: bool,
        /// A turn is running and this socket watches it now.
        reattached: bool,
    },
    /// `✓ INPUT identity=0x2f3d... session=aad5... prompt=hello world...`
    Input {
        /// Who wrote.
        identity: Address,
        /// The session's id.
        session: &'a str,
        /// The prompt; its beginning is shown.
        prompt: &'a str,
        /// Images that came with it.
        images: usize,
        /// Files that came with it.
        files: usize,
    },
    /// `✓ EXEC identity=0x2f3d... tool=echo_tool`
    Exec {
        /// Who called.
        identity: Address,
        /// The tool.
        tool: &'a str,
    },
    /// `← WS recv: ONBOARD_SUBMIT`, for types that have no line of their own.
    Other {
        /// The frame's type.
        message_type: &'a str,
    },
    /// `✗ CONNECT auth error: forbidden` or `✗ INPUT rejected: …`
    Refused {
        /// The frame's type.
        what: &'a str,
        /// The reason, as it was sent.
        reason: &'a str,
    },
    /// `✗ agent error: …`
    AgentError {
        /// The cause; the client does not get it (F49).
        cause: &'a dyn fmt::Display,
    },
    /// `⚡ ws- (1 active)`
    SocketClosed {
        /// Sessions that are active now.
        active: usize,
    },
    /// Text of the host's own, line by line as it is.
    Notice(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Human { colours: bool },
    Json,
}

/// Where [`Event`]s go. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Console {
    writer: Option<Arc<Writer>>,
}

#[derive(Debug)]
struct Writer {
    format: Format,
    lines: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

enum Message {
    Text(String),
    Flush(SyncSender<()>),
}

impl Console {
    /// Lines for people on standard output, in colour when that is a terminal and `NO_COLOR` is
    /// not set.
    pub fn human() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colours = io::stdout().is_terminal() && !no_color;
        Self::with(Format::Human { colours }, io::stdout())
    }

    /// One JSON object a line on standard output.
    pub fn json() -> Self {
        Self::with(Format::Json, io::stdout())
    }

    /// Says nothing, and costs one comparison an event.
    pub const fn silent() -> Self {
        Self { writer: None }
    }

    /// Lines for people, without colours, to `to`. For hosts inside another program, and tests.
    pub fn human_to(to: impl Write + Send + 'static) -> Self {
        Self::with(Format::Human { colours: false }, to)
    }

    /// JSON lines to `to`.
    pub fn json_to(to: impl Write + Send + 'static) -> Self {
        Self::with(Format::Json, to)
    }

    fn with(format: Format, to: impl Write + Send + 'static) -> Self {
        let (lines, queue) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let started = std::thread::Builder::new()
            .name("console".into())
            .spawn(move || write(&queue, &counted, format, to));
        let writer = started.ok().map(|_| {
            Arc::new(Writer {
                format,
                lines,
                lost,
            })
        });
        Self { writer }
    }

    /// Does anybody read this? Ask before preparing what is only for an event.
    pub const fn is_silent(&self) -> bool {
        self.writer.is_none()
    }

    /// Says `event`. Never waits.
    pub fn emit(&self, event: Event<'_>) {
        let Some(writer) = &self.writer else { return };
        let text = match writer.format {
            Format::Human { colours } => text::human(&event, colours),
            Format::Json => text::json(&event),
        };
        if let Err(TrySendError::Full(_)) = writer.lines.try_send(Message::Text(text)) {
            writer.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything said so far is written, at most `patience`: standard output may be a
    /// terminal that was stopped. Blocks the thread. Was all of it written?
    pub fn flush(&self, patience: Duration) -> bool {
        let Some(writer) = &self.writer else {
            return true;
        };
        let until = Instant::now() + patience;
        let (done, written) = sync_channel(1);
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(back)) = writer.lines.try_send(message) {
            if Instant::now() >= until {
                return false;
            }
            message = back;
            std::thread::sleep(Duration::from_millis(1));
        }
        let left = until.saturating_duration_since(Instant::now());
        written.recv_timeout(left).is_ok()
    }
}

/// The writing thread. Ends when the last console is gone.
fn write(queue: &Receiver<Message>, lost: &AtomicU64, format: Format, to: impl Write) {
    let mut to = io::BufWriter::new(to);
    // What cannot be written is dropped: a reader that went away must not stop the host.
    let settle = |to: &mut io::BufWriter<_>| {
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let _ = to.write_all(text::lost(missing, format == Format::Json).as_bytes());
        }
        let _ = to.flush();
    };
    let mut next = queue.recv().ok();
    while let Some(message) = next {
        match message {
            Message::Text(text) => {
                let _ = to.write_all(text.as_bytes());
            }
            Message::Flush(done) => {
                settle(&mut to);
                let _ = done.try_send(());
            }
        }
        next = match queue.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                settle(&mut to);
                queue.recv().ok()
            }
        };
    }
    settle(&mut to);
}

#[cfg(test)]
mod tests;
