//! Who speaks: addresses, keys on disk, signing and verifying.

mod address;
mod derive;
pub mod keys;
mod signing;
mod verify;

pub use address::{Address, AddressError};
pub use derive::{Phrase, PhraseError};
pub use signing::Identity;
pub use verify::{Check, Signature, SignatureError, verify, verify_batch, verify_bytes};
