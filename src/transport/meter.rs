//! How much an unauthenticated peer may make the host hold.
//!
//! The WebSocket library's own limit is set once, for authenticated peers. Before that the bytes are
//! counted where they come in, so that neither one frame nor all sockets together get past theirs.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that all unauthenticated sockets hold together.
#[derive(Debug)]
pub struct Budget {
    held: AtomicUsize,
    limit: usize,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            held: AtomicUsize::new(0),
            limit,
        }
    }

    /// Bytes held now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Counts the bytes of one socket's unfinished message.
#[derive(Debug)]
pub struct Meter {
    pending: AtomicUsize,
    frame_limit: usize,
    budget: Arc<Budget>,
    authenticated: AtomicBool,
    over: AtomicUsize,
}

const WITHIN: usize = 0;
const FRAME: usize = 1;
const TOTAL: usize = 2;

impl Meter {
    /// A meter that allows `frame_limit` bytes a message out of `budget`.
    pub fn new(frame_limit: usize, budget: Arc<Budget>) -> Self {
        Self {
            pending: AtomicUsize::new(0),
            frame_limit,
            budget,
            authenticated: AtomicBool::new(false),
            over: AtomicUsize::new(WITHIN),
        }
    }

    /// Count `bytes` more; an error ends reading.
    fn count(&self, bytes: usize) -> io::Result<()> {
        if self.authenticated.load(Ordering::Relaxed) {
            return Ok(());
        }
        let pending = self.pending.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let held = self.budget.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let over = if pending > self.frame_limit {
            FRAME
        } else if held > self.budget.limit {
            TOTAL
        } else {
            return Ok(());
        };
        self.over.store(over, Ordering::Relaxed);
        Err(io::Error::other("over the limit before authentication"))
    }

    /// A message is complete: what comes now is the next one's.
    pub fn complete(&self) {
        let pending = self.pending.swap(0, Ordering::Relaxed);
        self.budget.held.fetch_sub(pending, Ordering::Relaxed);
    }

    /// Stop counting.
    pub fn authenticated(&self) {
        self.authenticated.store(true, Ordering::Relaxed);
        self.complete();
    }

    /// Which limit was passed, if one was.
    pub fn over(&self) -> Option<String> {
        match self.over.load(Ordering::Relaxed) {
            FRAME => Some(format!(
                "message too large: {} bytes are allowed before CONNECT",
                self.frame_limit
            )),
            TOTAL => Some(
                "message too large: the host holds too much from unauthenticated connections"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.complete();
    }
}

/// A byte stream whose incoming side is counted.
#[derive(Debug)]
pub(super) struct Metered<T> {
    inner: T,
    meter: Arc<Meter>,
}

impl<T> Metered<T> {
    pub(super) const fn new(inner: T, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => Poll::Ready(self.meter.count(buf.filled().len() - before)),
            other => other,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_and_all_frames_together_have_limits() {
        let budget = Arc::new(Budget::new(100));
        let one = Meter::new(60, Arc::clone(&budget));
        let two = Meter::new(60, Arc::clone(&budget));
        one.count(60).unwrap();
        two.count(40).unwrap();
        assert!(two.count(1).is_err());
        assert!(two.over().unwrap().contains("unauthenticated"));
        drop(two);
        assert!(one.count(1).is_err());
        assert!(one.over().unwrap().contains("60 bytes"));
        one.complete();
        assert_eq!(budget.held(), 0);
        one.authenticated();
        one.count(1 << 30).unwrap();
        assert_eq!(budget.held(), 0);
    }
}
