//! One thread that owns a database and commits in groups.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// What the thread runs.
pub(crate) trait Writer: Send + 'static {
    type Job: Send + 'static;

    /// The most weight one group takes before it is committed.
    const GROUP: usize;

    /// What `job` adds to its group.
    fn weight(job: &Self::Job) -> usize;

    /// How long `job` may wait for others to be committed with. None by default.
    fn patience(_job: &Self::Job) -> Duration {
        Duration::ZERO
    }

    /// Commits `group`, in order, and answers each job of it.
    fn commit(&mut self, group: Vec<Self::Job>);

    /// Housekeeping between groups. Returns how long until it is wanted again.
    fn tick(&mut self) -> Duration;

    /// The last call: nothing follows.
    fn close(self);
}

enum Item<J> {
    Job(J),
    Close(oneshot::Sender<()>),
}

/// The way to a writer. The thread ends when the last clone is dropped, or at `close`.
pub(crate) struct Queue<J>(mpsc::Sender<Item<J>>);

impl<J> Clone for Queue<J> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<J: Send + 'static> Queue<J> {
    /// Starts a thread called `name` around `writer`.
    pub(crate) fn spawn<W: Writer<Job = J>>(name: &str, writer: W) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new()
            .name(name.into())
            .spawn(move || run(writer, &receiver))?;
        Ok(Self(sender))
    }

    /// Queues `job` behind all that were sent before. A closed queue drops it, and with it the
    /// sender it carries, which is how its caller learns.
    pub(crate) fn send(&self, job: J) {
        let _ = self.0.send(Item::Job(job));
    }

    /// Waits until all queued jobs are committed and the writer has closed.
    pub(crate) async fn close(&self) {
        let (closed, wait) = oneshot::channel();
        if self.0.send(Item::Close(closed)).is_ok() {
            let _ = wait.await;
        }
    }
}

fn run<W: Writer>(mut writer: W, receiver: &mpsc::Receiver<Item<W::Job>>) {
    let mut tick_at = Instant::now() + writer.tick();
    let closed = loop {
        let mut close = None;
        let mut group = Vec::new();
        match receiver.recv_timeout(tick_at.saturating_duration_since(Instant::now())) {
            Ok(Item::Job(job)) => {
                close = gather::<W>(receiver, job, &mut group);
                writer.commit(group);
            }
            Ok(Item::Close(closed)) => close = Some(closed),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break None,
        }
        if close.is_some() {
            break close;
        }
        if Instant::now() >= tick_at {
            tick_at = Instant::now() + writer.tick();
        }
    };
    writer.close();
    if let Some(closed) = closed {
        let _ = closed.send(());
    }
}

/// Takes what has queued behind `first`, up to a full group; while everything in it is patient, what
/// comes next too.
fn gather<W: Writer>(
    receiver: &mpsc::Receiver<Item<W::Job>>,
    first: W::Job,
    group: &mut Vec<W::Job>,
) -> Option<oneshot::Sender<()>> {
    let mut weight = W::weight(&first);
    let mut until = Instant::now() + W::patience(&first);
    group.push(first);
    while weight < W::GROUP {
        let next = receiver.try_recv().ok().or_else(|| {
            let left = until.saturating_duration_since(Instant::now());
            (!left.is_zero()).then(|| receiver.recv_timeout(left).ok())?
        });
        match next {
            Some(Item::Job(job)) => {
                weight += W::weight(&job);
                until = until.min(Instant::now() + W::patience(&job));
                group.push(job);
            }
            Some(Item::Close(closed)) => return Some(closed),
            None => break,
        }
    }
    None
}
