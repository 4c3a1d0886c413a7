//! Who speaks: addresses, keys on disk, signing and verifying.

mod address;

pub use address::{Address, AddressError};
