//! Connections that read while the writer writes.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use rusqlite::Connection;

use super::super::database::{Database, DatabaseError};
use super::locked;
use super::types::StoreError;

/// A query that answers its caller itself.
pub(super) type Read = Box<dyn FnOnce(Result<&Connection, StoreError>, &str) + Send>;

/// The most memory one reader's page cache takes, in KiB.
const CACHE_KIB: u32 = 4 * 1024;

/// Threads that take queries from one queue.
#[derive(Clone)]
pub(super) struct Readers(Arc<Mutex<Option<Sender<Read>>>>);

impl Readers {
    pub(super) fn spawn(path: &Path, threads: usize) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let receiver = receiver.clone();
            let path = path.to_path_buf();
            thread::Builder::new()
                .name("session-reads".into())
                .spawn(move || run(path, &receiver))?;
        }
        Ok(Self(Arc::new(Mutex::new(Some(sender)))))
    }

    /// Queues `read`. After `close` it is dropped, and with it the sender it carries.
    pub(super) fn send(&self, read: Read) {
        if let Some(sender) = locked(&self.0).as_ref() {
            let _ = sender.send(read);
        }
    }

    pub(super) fn close(&self) {
        locked(&self.0).take();
    }
}

fn run(path: PathBuf, receiver: &Mutex<Receiver<Read>>) {
    let name = path.to_string_lossy().into_owned();
    let mut open: Option<Database> = None;
    loop {
        let next = locked(receiver).recv();
        let Ok(read) = next else { return };
        match current(&path, &mut open) {
            Ok(connection) => read(Ok(connection), &name),
            Err(error) => read(Err(StoreError::failed(&name, &error)), &name),
        }
    }
}

/// A connection to the file that the path leads to at this moment; to the one before while that
/// cannot be opened, which is how it is until the writer has put its copy there.
fn current<'a>(
    path: &Path,
    open: &'a mut Option<Database>,
) -> Result<&'a Connection, DatabaseError> {
    let database = match open.take() {
        Some(database) if !database.moved() => database,
        before => match (Database::read_only(path, CACHE_KIB), before) {
            (Ok(database), _) | (Err(_), Some(database)) => database,
            (Err(error), None) => return Err(error),
        },
    };
    Ok(&open.insert(database).connection)
}
