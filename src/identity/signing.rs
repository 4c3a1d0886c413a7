//! The private half of an address.

use std::fmt;

use ed25519_dalek::{Signer, SigningKey};
use rand_core::OsRng;

use super::Address;

/// Who this process is: an Ed25519 key pair. Its `Debug` shows the address only.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    address: Address,
}

impl Identity {
    /// The identity whose private key is this 32-byte seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self::from_key(SigningKey::from_bytes(seed))
    }

    /// A new identity that exists in memory only.
    pub fn random() -> Self {
        Self::from_key(SigningKey::generate(&mut OsRng))
    }

    fn from_key(key: SigningKey) -> Self {
        let address = Address::from_bytes(key.verifying_key().to_bytes());
        Self { key, address }
    }

    /// The public half.
    pub const fn address(&self) -> Address {
        self.address
    }

    /// The 64 bytes of an Ed25519 signature over `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }

    /// The private seed, for the file it is kept in.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.address.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let identity = Identity::from_seed(&[7; 32]);
        assert_eq!(format!("{identity:?}"), "Identity(0xea4a...d22c)");
        assert_eq!(identity.seed(), &[7; 32]);
    }
}
