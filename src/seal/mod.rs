//! The sealed channel: what the frames of one socket look like to everybody but its two ends.
//!
//! Three things are had by it, also over plain `ws://` and through a relay that ends TLS:
//! 1. the two ends know each other: each signs its half of the handshake with the key that its
//!    address is;
//! 2. nobody else can read a frame, now or later: the keys are made for this one channel and
//!    forgotten with it;
//! 3. a captured frame is of no use: the other end's key is new, and within the channel the counter
//!    only goes up.
//!
//! ```text
//! client                                       host
//!   SEAL {to, from, ephemeral, timestamp}  -->         hello, accept
//!   <--  SEALED_OK {to, from, ephemeral, client_ephemeral}   finish
//!   SEALED {n, c}  <->  SEALED {n, c}                  Sealer, Opener
//! ```
//! No I/O and no clock: frames go in as parsed objects and come out as text (protocol section SEAL,
//! facts F20 to F25).

mod channel;
mod handshake;
#[cfg(test)]
mod tests;

pub use channel::{Channel, Opener, SealError, Sealer};
pub use handshake::{Accepted, Hello, SealRefused, accept, hello};
#[doc(hidden)]
pub use handshake::{accept_with, hello_with};
