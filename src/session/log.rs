//! The log of one turn: serialised events, appended once and read by any number of viewers.
//!
//! A viewer holds a position, not a queue: a slow one costs nothing, a new one replays. What does not
//! fit into the memory budget moves, oldest first, to an unnamed file that goes with the log.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::wire::Text;
use crate::wire::outbound::json;

use super::Outbox;

/// What an event in memory costs beside its text, in bytes: its place in the queue, its reference count,
/// the allocator's rounding.
const OVERHEAD: usize = 96;

/// One turn's events, in order, from `user_input` to OUTPUT or ERROR.
#[derive(Debug)]
pub struct TurnLog {
    /// The end of every event: `,"session_id":"…"}`.
    suffix: String,
    /// Makes event ids unique across turns and restarts.
    prefix: String,
    budget: usize,
    spill_dir: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Events in memory; the first one has position `first`.
    events: VecDeque<Text>,
    first: usize,
    bytes: usize,
    spill: Option<Spill>,
    /// Ids that do not tell their own position: where the first event with that id is.
    named: HashMap<String, usize>,
    ended: bool,
    viewers: Vec<Weak<Outbox>>,
}

/// Events `0..ends.len()`, back to back in a file without a name.
#[derive(Debug)]
struct Spill {
    file: File,
    ends: Vec<u64>,
}

/// What a viewer reads from its position.
#[derive(Debug)]
pub struct Chunk {
    /// Frames in order.
    pub frames: Vec<Text>,
    /// The position after them.
    pub next: usize,
    /// Nothing will come after them.
    pub ended: bool,
}

impl TurnLog {
    /// A log that keeps at most about `budget` bytes of events in memory and moves older ones to a
    /// file in `spill_dir`.
    pub fn new(session_id: &str, budget: usize, spill_dir: &Path) -> Self {
        Self {
            suffix: format!(r#","session_id":{}}}"#, json(&session_id)),
            prefix: uuid::Uuid::new_v4().simple().to_string()[..12].to_owned(),
            budget,
            spill_dir: spill_dir.to_owned(),
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held leaves complete events behind: go on with them.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Append an event: an object with a `type`, to which `id`, `ts` and `session_id` are added
    /// (fact F36).
    ///
    /// `id: None` makes an id that is unique in the session; the same id may be given again to say
    /// that two events belong together.
    pub fn append(&self, event: &impl Serialize, id: Option<&str>) {
        let mut text = open_ended(event, self.suffix.len());
        let mut inner = self.lock();
        self.identify(&mut inner, &mut text, id);
        text.push_str(&self.suffix);
        self.push(&mut inner, text.into());
    }

    /// [`append`](Self::append), and give the event's id and its JSON without `session_id`, as the
    /// trace keeps it.
    pub fn append_traced(&self, event: &impl Serialize, id: Option<&str>) -> (String, String) {
        let mut text = open_ended(event, self.suffix.len());
        let mut inner = self.lock();
        let id = self.identify(&mut inner, &mut text, id);
        let traced = format!("{text}}}");
        text.push_str(&self.suffix);
        self.push(&mut inner, text.into());
        (id, traced)
    }

    /// Write the event's id and time; gives the id.
    fn identify(&self, inner: &mut Inner, text: &mut String, id: Option<&str>) -> String {
        let position = inner.first + inner.events.len();
        let id = match id {
            Some(id) => {
                if self.position_of(id).is_none() {
                    inner.named.entry(id.to_owned()).or_insert(position);
                }
                text.push_str(r#""id":"#);
                text.push_str(&json(&id));
                id.to_owned()
            }
            None => {
                let id = format!("{}-{position}", self.prefix);
                text.push_str(r#""id":""#);
                text.push_str(&id);
                text.push('"');
                id
            }
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        // Writing into a String cannot fail.
        let _ = write!(
            text,
            r#","ts":{}.{:06}"#,
            now.as_secs(),
            now.subsec_micros()
        );
        id
    }

    /// Append the turn's last frame, OUTPUT or ERROR. What comes later is not taken.
    pub fn end(&self, last: Text) {
        let mut inner = self.lock();
        self.push(&mut inner, last);
        inner.ended = true;
    }

    fn push(&self, inner: &mut Inner, frame: Text) {
        if inner.ended {
            return;
        }
        inner.bytes += frame.len() + OVERHEAD;
        inner.events.push_back(frame);
        if inner.bytes > self.budget && inner.events.len() > 1 {
            self.spill(inner);
        }
        inner.viewers.retain(|viewer| match viewer.upgrade() {
            Some(viewer) => {
                viewer.wake();
                true
            }
            None => false,
        });
    }

    /// Move the older half of what is in memory to the file. If there is no room on the disk the
    /// events stay in memory: a bound is worth less than an event.
    fn spill(&self, inner: &mut Inner) {
        let spill = match &mut inner.spill {
            Some(spill) => spill,
            empty => match tempfile::tempfile_in(&self.spill_dir) {
                Ok(file) => empty.insert(Spill {
                    file,
                    ends: Vec::new(),
                }),
                Err(failed) => {
                    tracing::warn!(%failed, dir = %self.spill_dir.display(), "a long turn stays in memory");
                    return;
                }
            },
        };
        let mut end = spill.ends.last().copied().unwrap_or(0);
        while inner.bytes > self.budget / 2 && inner.events.len() > 1 {
            let Some(frame) = inner.events.front() else {
                break;
            };
            if let Err(failed) = spill.file.write_all_at(frame.as_bytes(), end) {
                tracing::warn!(%failed, "a long turn stays in memory");
                return;
            }
            end += frame.len() as u64;
            spill.ends.push(end);
            inner.bytes -= frame.len() + OVERHEAD;
            inner.events.pop_front();
            inner.first += 1;
        }
    }

    /// Read at most about `budget` bytes from position `from`, at least one frame if there is one.
    pub fn read(&self, from: usize, budget: usize) -> Chunk {
        let inner = self.lock();
        let (mut frames, mut bytes, mut next) = (Vec::new(), 0, from);
        while bytes < budget {
            let frame = if next >= inner.first {
                match inner.events.get(next - inner.first) {
                    Some(frame) => frame.clone(),
                    None => break,
                }
            } else {
                match inner.spill.as_ref().map(|spill| spill.read(next)) {
                    Some(Ok(frame)) => frame,
                    Some(Err(failed)) => {
                        tracing::error!(%failed, "an event of a long turn cannot be read back");
                        Text::from(crate::wire::outbound::error(
                            "an event of this turn was lost: its file cannot be read",
                        ))
                    }
                    None => break,
                }
            };
            bytes += frame.len();
            frames.push(frame);
            next += 1;
        }
        let ended = inner.ended && next == inner.first + inner.events.len();
        Chunk {
            frames,
            next,
            ended,
        }
    }

    /// Whether there is something to read at `from`.
    pub fn has(&self, from: usize) -> bool {
        let inner = self.lock();
        from < inner.first + inner.events.len()
    }

    /// The position just after the first event with this id; 0, the whole turn, if the id is
    /// unknown or absent.
    pub fn position_after(&self, id: Option<&str>) -> usize {
        let Some(id) = id else { return 0 };
        let inner = self.lock();
        let end = inner.first + inner.events.len();
        match inner
            .named
            .get(id)
            .copied()
            .or_else(|| self.position_of(id))
        {
            Some(position) if position < end => position + 1,
            _ => 0,
        }
    }

    fn position_of(&self, id: &str) -> Option<usize> {
        id.strip_prefix(self.prefix.as_str())?
            .strip_prefix('-')?
            .parse()
            .ok()
    }

    /// Wake this viewer whenever something is appended.
    pub(super) fn watch(&self, viewer: &Arc<Outbox>) {
        self.lock().viewers.push(Arc::downgrade(viewer));
    }
}

impl Spill {
    fn read(&self, position: usize) -> std::io::Result<Text> {
        let start = match position {
            0 => 0,
            n => self.ends[n - 1],
        };
        let len = usize::try_from(self.ends[position] - start).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, start)?;
        String::from_utf8(bytes)
            .map(Text::from)
            .map_err(|bad| std::io::Error::new(std::io::ErrorKind::InvalidData, bad))
    }
}

/// An event's JSON up to where more members can be written; there is room for them, and for a
/// suffix of this length.
fn open_ended(event: &impl Serialize, suffix: usize) -> String {
    /// `"id":"…","ts":…` of an id that the log makes.
    const MEMBERS: usize = 64;
    let mut bytes = Vec::with_capacity(192 + MEMBERS + suffix);
    let text = match serde_json::to_writer(&mut bytes, event) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_default(),
        Err(_) => json(event),
    };
    let mut text = text;
    text.pop();
    if text.len() > 1 {
        text.push(',');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parsed(text: &Text) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_event_gets_an_id_a_time_and_the_session() {
        let dir = tempfile::tempdir().unwrap();
        let log = TurnLog::new("s", 1 << 20, dir.path());
        let (id, trace) = log.append_traced(&json!({"type": "thinking"}), None);
        let chunk = log.read(0, 1 << 20);
        let event = parsed(&chunk.frames[0]);
        assert_eq!(event["id"], id.as_str());
        assert_eq!(event["session_id"], "s");
        assert!(event["ts"].as_f64().unwrap() > 1e9);
        let trace: Value = serde_json::from_str(&trace).unwrap();
        assert_eq!(trace["id"], event["id"]);
        assert_eq!(trace.get("session_id"), None);
    }

    #[test]
    fn a_reader_resumes_after_the_event_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let log = TurnLog::new("s", 1 << 20, dir.path());
        let ids: Vec<String> = (0..5)
            .map(|i| log.append_traced(&json!({"type": "t", "i": i}), None).0)
            .collect();
        log.append(&json!({"type": "named"}), Some("mine"));
        log.append(&json!({"type": "named"}), Some("mine"));
        assert_eq!(log.position_after(Some(&ids[2])), 3);
        // A shared id resumes after its first event: an update seen twice is better than one lost.
        assert_eq!(log.position_after(Some("mine")), 6);
        assert_eq!(log.position_after(Some("unknown")), 0);
        assert_eq!(log.position_after(None), 0);
        let beyond = format!("{}9", ids[4]);
        assert_eq!(log.position_after(Some(&beyond)), 0);
        // A pair's second event does not move the place of the first.
        log.append(&json!({"type": "pair"}), Some(&ids[1]));
        assert_eq!(log.position_after(Some(&ids[1])), 2);
    }

    #[test]
    fn a_long_turn_is_read_whole_with_a_small_memory() {
        let dir = tempfile::tempdir().unwrap();
        let log = TurnLog::new("s", 64 << 10, dir.path());
        let filler = "x".repeat(1000);
        for i in 0..1000 {
            log.append(&json!({"type": "t", "i": i, "filler": filler}), None);
        }
        log.end("{}".into());
        assert!(log.lock().bytes <= 64 << 10);
        let (mut next, mut seen) = (0, 0);
        loop {
            let chunk = log.read(next, 10_000);
            for frame in &chunk.frames {
                if seen < 1000 {
                    assert_eq!(parsed(frame)["i"], seen);
                }
                seen += 1;
            }
            next = chunk.next;
            if chunk.ended {
                break;
            }
        }
        assert_eq!(seen, 1001);
    }

    #[test]
    fn without_a_place_to_spill_nothing_is_lost() {
        let log = TurnLog::new("s", 1000, Path::new("/nonexistent/oip"));
        for i in 0..100 {
            log.append(&json!({"type": "t", "i": i}), None);
        }
        assert_eq!(log.read(0, usize::MAX).frames.len(), 100);
    }

    #[test]
    fn nothing_comes_after_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = TurnLog::new("s", 1 << 20, dir.path());
        log.end("{\"type\":\"OUTPUT\"}".into());
        log.append(&json!({"type": "late"}), None);
        let chunk = log.read(0, 1 << 20);
        assert_eq!(chunk.frames.len(), 1);
        assert!(chunk.ended);
    }
}
