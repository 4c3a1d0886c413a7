//! An address is an Ed25519 public key, spelled `0x` and 64 lower-case hex digits.

use std::fmt;
use std::str::FromStr;

/// The address of a person, an agent or a host: the 32 bytes of an Ed25519 public key.
///
/// Parsing normalises: any case, with or without `0x`, is the same address, so nothing that
/// compares addresses can be passed by with another spelling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address([u8; 32]);

/// Text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an address: 64 hex digits, with or without 0x, are one")]
pub struct AddressError;

impl Address {
    /// The address whose public key is `bytes`. Whether they are a curve point is found out when
    /// something is verified against them.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the public key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// `0x3d40...660c`: enough for a person to recognise, not to identify.
    pub fn short(&self) -> String {
        let full = self.to_string();
        format!("{}...{}", &full[..6], &full[62..])
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .unwrap_or(text);
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| AddressError)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 64];
        hex::encode_to_slice(self.0, &mut digits).map_err(|_| fmt::Error)?;
        f.write_str("0x")?;
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl serde::Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOWER: &str = "0x54ff7e165926bca30e8b1535f22c053a0e0e2ca6d5a445a149bde23d90c6ee1e";

    #[test]
    fn every_spelling_is_one_address() {
        let one: Address = LOWER.parse().unwrap();
        for text in [
            LOWER.to_uppercase(),
            LOWER[2..].to_string(),
            LOWER[2..].to_uppercase(),
        ] {
            assert_eq!(text.parse::<Address>().unwrap(), one);
        }
        assert_eq!(one.to_string(), LOWER);
        assert_eq!(one.short(), "0x54ff...ee1e");
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "0x", "0x12", &LOWER[..65], &format!("{LOWER}0"), "0xé"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError), "{text}");
        }
    }
}
