//! Who speaks: addresses, keys on disk, signing and verifying.

mod address;
mod signing;

pub use address::{Address, AddressError};
pub use signing::Identity;
