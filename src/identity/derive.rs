//! From twelve words to a key: BIP-39, SLIP-0010 and the SLIP-0013 path of an account (F12).

use std::fmt;
use std::str::FromStr;

use bip39::{Language, Mnemonic};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};
use zeroize::{Zeroize, Zeroizing};

use super::Identity;

/// The identity every account key belongs to. A separator of domains, not a place on the network:
/// another text is another key for every phrase (F12).
const ACCOUNT_URI: &str = "https://oo.openonion.ai";
const CURVE: &[u8] = b"ed25519 seed";
const HARDENED: u32 = 1 << 31;

/// A BIP-39 recovery phrase in English. Wiped when dropped; its `Debug` shows no word.
#[derive(Clone)]
pub struct Phrase {
    words: Zeroizing<String>,
    seed: Zeroizing<[u8; 64]>,
}

/// Text that is no recovery phrase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhraseError {
    /// BIP-39 knows phrases of 12, 15, 18, 21 and 24 words.
    #[error("a recovery phrase has 12 words, this has {0}")]
    Words(usize),
    /// One word is not in the list; counted from 1. The word itself is not repeated.
    #[error("word {0} of the recovery phrase is not in the BIP-39 list")]
    Unknown(usize),
    /// The words are right, their order or choice is not.
    #[error("the recovery phrase does not add up: a word is wrong or in the wrong place")]
    Checksum,
}

impl Phrase {
    /// Twelve new words from the system's randomness.
    pub fn random() -> Result<Self, PhraseError> {
        let mut entropy = Zeroizing::new([0; 16]);
        rand_core::RngCore::fill_bytes(&mut rand_core::OsRng, entropy.as_mut_slice());
        let words = Mnemonic::from_entropy_in(Language::English, entropy.as_slice())
            .map_err(|_| PhraseError::Checksum)?;
        Ok(Self::of(&words))
    }

    fn of(words: &Mnemonic) -> Self {
        Self {
            words: Zeroizing::new(words.to_string()),
            seed: Zeroizing::new(words.to_seed_normalized("")),
        }
    }

    /// The words, one space between them.
    pub fn reveal(&self) -> &str {
        &self.words
    }

    /// The identity at the account's path.
    pub fn identity(&self) -> Identity {
        Identity::from_seed(&derive(self.seed.as_slice(), &account_path()))
    }
}

impl FromStr for Phrase {
    type Err = PhraseError;

    /// Case and the white space around and between words do not matter.
    fn from_str(text: &str) -> Result<Self, PhraseError> {
        let mut words = Zeroizing::new(String::with_capacity(text.len()));
        for word in text.split_whitespace() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
        }
        words.make_ascii_lowercase();
        match Mnemonic::parse_in_normalized(Language::English, &words) {
            Ok(words) => Ok(Self::of(&words)),
            Err(bip39::Error::BadWordCount(count)) => Err(PhraseError::Words(count)),
            Err(bip39::Error::UnknownWord(index)) => Err(PhraseError::Unknown(index + 1)),
            Err(_) => Err(PhraseError::Checksum),
        }
    }
}

impl fmt::Debug for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Phrase(hidden)")
    }
}

fn account_path() -> [u32; 5] {
    slip13_path(ACCOUNT_URI, 0)
}

/// SLIP-0013: the first 16 bytes of SHA-256(index ‖ uri) as four levels below `13'`. The `u32`s
/// have their hardened bit set.
fn slip13_path(uri: &str, index: u32) -> [u32; 5] {
    let digest = Sha256::new()
        .chain_update(index.to_le_bytes())
        .chain_update(uri)
        .finalize();
    let mut path = [13 | HARDENED; 5];
    for (level, bytes) in path[1..].iter_mut().zip(digest.chunks_exact(4)) {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        *level = u32::from_le_bytes(bytes) | HARDENED;
    }
    path
}

/// SLIP-0010 for Ed25519: the private seed at a path of hardened levels.
fn derive(seed: &[u8], path: &[u32]) -> Zeroizing<[u8; 32]> {
    let (mut key, mut chain) = split(CURVE, &[seed]);
    for level in path {
        let parent = (key, chain);
        (key, chain) = split(
            parent.1.as_slice(),
            &[&[0], parent.0.as_slice(), &level.to_be_bytes()],
        );
    }
    key
}

type Half = Zeroizing<[u8; 32]>;

/// HMAC-SHA-512 cut in two: the key and the chain code. `key` is at most one block long; zeros up
/// to the block are what HMAC itself would add.
fn split(key: &[u8], parts: &[&[u8]]) -> (Half, Half) {
    let mut block = Zeroizing::new([0; 128]);
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha512>::new(block.as_slice().into());
    for part in parts {
        mac.update(part);
    }
    let mut bytes = mac.finalize().into_bytes();
    let (mut left, mut right) = (Half::default(), Half::default());
    left.copy_from_slice(&bytes[..32]);
    right.copy_from_slice(&bytes[32..]);
    bytes.as_mut_slice().zeroize();
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../fixtures/identity.json");

    fn text(path: &[u32]) -> String {
        path.iter().fold("m".to_string(), |text, level| {
            format!("{text}/{}'", level & !HARDENED)
        })
    }

    #[test]
    fn the_published_vector() {
        let phrase: Phrase = format!("{}about", "abandon ".repeat(11)).parse().unwrap();
        assert_eq!(
            text(&account_path()),
            "m/13'/2107038128'/851645955'/1509754396'/381167091'"
        );
        assert_eq!(
            phrase.identity().address().to_string(),
            "0x54ff7e165926bca30e8b1535f22c053a0e0e2ca6d5a445a149bde23d90c6ee1e"
        );
    }

    /// Test vector 1 of SLIP-0010 for Ed25519, chain m/0'/1'/2'/2'/1000000000'.
    #[test]
    fn the_vector_of_slip_0010() {
        let seed = hex::decode("000102030405060708090a0b0c0d0e0f").unwrap();
        let path = [0, 1, 2, 2, 1_000_000_000].map(|level| level | HARDENED);
        assert_eq!(
            hex::encode(derive(&seed, &path)),
            "8f94d394a8e8fd6b1bc2f3f49f5c47e385281d5c17e65324b0f62483e37e8793"
        );
    }

    #[test]
    fn phrases_and_paths_of_the_reference() {
        let fixture: serde_json::Value = serde_json::from_str(FIXTURE).unwrap();
        let phrases = fixture["phrases"].as_array().unwrap();
        assert!(phrases.len() >= 12);
        for one in phrases {
            let phrase: Phrase = one["phrase"].as_str().unwrap().parse().unwrap();
            assert_eq!(
                phrase.identity().address().to_string(),
                one["address"].as_str().unwrap()
            );
        }
        for one in fixture["paths"].as_array().unwrap() {
            let index = u32::try_from(one["index"].as_u64().unwrap()).unwrap();
            let path = slip13_path(one["uri"].as_str().unwrap(), index);
            assert_eq!(text(&path), one["path"].as_str().unwrap());
            let phrase: Phrase = one["phrase"].as_str().unwrap().parse().unwrap();
            assert_eq!(
                hex::encode(derive(phrase.seed.as_slice(), &path)),
                one["key"].as_str().unwrap()
            );
        }
    }

    #[test]
    fn a_phrase_is_checked_and_hidden() {
        let good = format!("{}about", "abandon ".repeat(11));
        let spaced = format!("  {}\n", good.to_uppercase().replace(' ', " \t "));
        let phrase: Phrase = spaced.parse().unwrap();
        assert_eq!(phrase.reveal(), good);
        assert_eq!(format!("{phrase:?}"), "Phrase(hidden)");
        let error = |text: &str| text.parse::<Phrase>().unwrap_err();
        assert_eq!(error(""), PhraseError::Words(0));
        assert_eq!(error("abandon abandon"), PhraseError::Words(2));
        assert_eq!(
            error(&good.replace("about", "onion")),
            PhraseError::Checksum
        );
        assert_eq!(
            error(&good.replacen("abandon", "abandoned", 1)),
            PhraseError::Unknown(1)
        );
    }

    #[test]
    fn new_phrases_have_twelve_words_and_differ() {
        let (one, two) = (Phrase::random().unwrap(), Phrase::random().unwrap());
        assert_eq!(one.reveal().split(' ').count(), 12);
        assert_ne!(one.reveal(), two.reveal());
        assert_eq!(
            one.reveal().parse::<Phrase>().unwrap().identity().address(),
            one.identity().address()
        );
    }
}
