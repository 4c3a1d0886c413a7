//! Frames as types, canonical JSON and error codes. No behaviour, no I/O.

pub mod json;
