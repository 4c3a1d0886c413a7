//! Checking signatures: singly, and many at once.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use ed25519_dalek::{Signature as Ed25519, Verifier, VerifyingKey};
use sha2::{Digest, Sha256};

use super::Address;
use crate::wire::json::{FORMS, Value, canonical, to_python};

/// The 64 bytes of an Ed25519 signature. Parses from 128 hex digits in either case, with or without
/// `0x` (F2).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature([u8; 64]);

/// Text that is no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a signature: 128 hex digits, with or without 0x, are one")]
pub struct SignatureError;

impl Signature {
    /// The signature made of these bytes. Whether it fits anything is for [`verify`] to say.
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// The 64 bytes.
    pub const fn to_bytes(&self) -> [u8; 64] {
        self.0
    }

    /// The ledger's key: SHA-256 over `hex:` and the 64 bytes, the same for every spelling (F2).
    pub fn digest(&self) -> [u8; 32] {
        Sha256::new()
            .chain_update(b"hex:")
            .chain_update(self.0)
            .finalize()
            .into()
    }
}

impl FromStr for Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .unwrap_or(text);
        let mut bytes = [0; 64];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| SignatureError)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({}...)", hex::encode(&self.0[..4]))
    }
}

/// One signature to check: did `signer` sign `payload`?
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// Who is said to have signed.
    pub signer: Address,
    /// What was signed, as received.
    pub payload: &'a Value<'a>,
    /// The signature.
    pub signature: Signature,
}

/// Whether `signature` is `signer`'s over exactly these bytes.
///
/// A `signer` that is no curve point, or one of the few of small order, for which anybody can make
/// signatures, has signed nothing.
pub fn verify_bytes(signer: &Address, message: &[u8], signature: &Signature) -> bool {
    signer_key(signer).is_some_and(|key| fits(&key, message, signature))
}

/// Whether `signature` is `signer`'s over any byte form of `payload` that the peers sign (F3, F4).
///
/// A good signature mostly costs one verification; a bad one costs one for every form whose bytes
/// differ, which is one for most payloads and at most as many as there are [`FORMS`].
pub fn verify(signer: &Address, payload: &Value<'_>, signature: &Signature) -> bool {
    signer_key(signer).is_some_and(|key| fits_any_form(&key, payload, signature))
}

/// [`verify`] for each of `checks`, in their order; for many at once at about half the price.
///
/// All are first taken as Python's form and checked together. Only when that fails is each looked at
/// on its own. Checked together, a signature may pass that would fail alone: one whose maker put a
/// point of small order into `R` or into the key. Only the holder of the private key can make
/// that, who could as well have signed properly, and every spelling of a signature is still one
/// entry of the ledger; nobody else can turn a good signature into a second one. So accepting it is
/// safe. Keys of small order alone, for which that argument fails, are refused on both ways.
pub fn verify_batch(checks: &[Check<'_>]) -> Vec<bool> {
    let keys = signer_keys(checks);
    if checks.len() >= WORTH_A_BATCH && all_fit(checks, &keys) {
        return vec![true; checks.len()];
    }
    let alone = |(check, key): (&Check<'_>, &Option<VerifyingKey>)| {
        key.as_ref()
            .is_some_and(|key| fits_any_form(key, check.payload, &check.signature))
    };
    checks.iter().zip(&keys).map(alone).collect()
}

/// Below this many the batch equation saves less than a failed attempt at it costs.
const WORTH_A_BATCH: usize = 4;

fn all_fit(checks: &[Check<'_>], keys: &[Option<VerifyingKey>]) -> bool {
    let Some(keys) = keys.iter().copied().collect::<Option<Vec<_>>>() else {
        return false;
    };
    let messages: Vec<Vec<u8>> = checks
        .iter()
        .map(|check| to_python(check.payload))
        .collect();
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let signatures: Vec<Ed25519> = checks
        .iter()
        .map(|check| Ed25519::from_bytes(&check.signature.0))
        .collect();
    ed25519_dalek::verify_batch(&messages, &signatures, &keys).is_ok()
}

/// The keys of all signers. Unpacking one takes a tenth of a verification, and frames that wait
/// together mostly come from one signer, so a run of equal signers unpacks once.
fn signer_keys(checks: &[Check<'_>]) -> Vec<Option<VerifyingKey>> {
    let mut keys: Vec<Option<VerifyingKey>> = Vec::with_capacity(checks.len());
    for (at, check) in checks.iter().enumerate() {
        let key = match at.checked_sub(1) {
            Some(before) if checks[before].signer == check.signer => keys[before],
            _ => signer_key(&check.signer),
        };
        keys.push(key);
    }
    keys
}

fn signer_key(signer: &Address) -> Option<VerifyingKey> {
    VerifyingKey::from_bytes(signer.as_bytes())
        .ok()
        .filter(|key| !key.is_weak())
}

fn fits(key: &VerifyingKey, message: &[u8], signature: &Signature) -> bool {
    key.verify(message, &Ed25519::from_bytes(&signature.0))
        .is_ok()
}

fn fits_any_form(key: &VerifyingKey, payload: &Value<'_>, signature: &Signature) -> bool {
    // Hashes, not the messages: a stranger's payload may be large, and there are many forms.
    let hasher = RandomState::new();
    let mut tried: Vec<u64> = Vec::new();
    FORMS.iter().any(|&form| {
        let message = canonical(payload, form);
        let hash = hasher.hash_one(&message);
        if tried.contains(&hash) {
            return false;
        }
        tried.push(hash);
        fits(key, &message, signature)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::wire::json::Raw;

    fn value(text: &str) -> Value<'_> {
        Raw::parse(text).unwrap().value()
    }

    #[test]
    fn every_spelling_is_one_signature() {
        let lower = "ab".repeat(64);
        let one: Signature = lower.parse().unwrap();
        for text in [
            lower.to_uppercase(),
            format!("0x{lower}"),
            format!("0X{}", lower.to_uppercase()),
        ] {
            let other: Signature = text.parse().unwrap();
            assert_eq!(other.digest(), one.digest());
        }
        assert_eq!(one.to_string(), lower);
        assert_eq!(format!("{one:?}"), "Signature(abababab...)");
        let mut tagged = b"hex:".to_vec();
        tagged.extend(one.to_bytes());
        assert_eq!(one.digest()[..], Sha256::digest(tagged)[..]);
        for text in ["", "00", "0x", &lower[1..], &format!("{lower}0"), "zz"] {
            assert_eq!(text.parse::<Signature>(), Err(SignatureError));
        }
    }

    #[test]
    fn every_form_verifies_and_no_other_bytes_do() {
        let identity = Identity::from_seed(&[1; 32]);
        let payload = value(r#"{"z":{"b":1e-7,"a":"é"},"\ue000":1,"😀":2}"#);
        for &form in FORMS {
            let message = canonical(&payload, form);
            let signature = Signature(identity.sign(&message));
            assert!(
                verify(&identity.address(), &payload, &signature),
                "{form:?}"
            );
        }
        let signature = Signature(identity.sign(b"{}"));
        assert!(!verify(&identity.address(), &payload, &signature));
        assert!(verify_bytes(&identity.address(), b"{}", &signature));
        assert!(!verify_bytes(&identity.address(), b"[]", &signature));
    }

    /// The neutral point as key and as R, S = 0: fits every message unless such keys are refused.
    #[test]
    fn a_key_of_small_order_has_signed_nothing() {
        let mut point = [0; 32];
        point[0] = 1;
        let signer = Address::from_bytes(point);
        let mut bytes = [0; 64];
        bytes[0] = 1;
        let signature = Signature(bytes);
        let key = VerifyingKey::from_bytes(&point).unwrap();
        assert!(fits(&key, b"anything", &signature), "the attack is real");
        assert!(!verify_bytes(&signer, b"anything", &signature));
        let payload = value("{}");
        assert!(!verify(&signer, &payload, &signature));
        let check = Check {
            signer,
            payload: &payload,
            signature,
        };
        assert_eq!(verify_batch(&[check; 8]), [false; 8]);
    }

    #[test]
    fn bytes_that_are_no_point_have_signed_nothing() {
        let mut bytes = [0; 32];
        bytes[0] = 2;
        let signer = Address::from_bytes(bytes);
        assert!(signer_key(&signer).is_none());
        assert!(!verify(&signer, &value("{}"), &Signature([0; 64])));
    }

    #[test]
    fn a_batch_marks_exactly_the_bad_ones() {
        let people: Vec<_> = (0..3).map(|n| Identity::from_seed(&[n; 32])).collect();
        let texts: Vec<_> = (0..12)
            .map(|n| format!("{{\"n\":{n},\"a\":{{}}}}"))
            .collect();
        let payloads: Vec<_> = texts.iter().map(|text| value(text)).collect();
        let mut checks: Vec<_> = payloads
            .iter()
            .enumerate()
            .map(|(n, payload)| Check {
                signer: people[n / 4].address(),
                payload,
                signature: Signature(people[n / 4].sign(&to_python(payload))),
            })
            .collect();
        for count in 0..=checks.len() {
            assert_eq!(verify_batch(&checks[..count]), vec![true; count]);
        }
        checks[3].signature.0[5] ^= 1;
        checks[7].payload = &payloads[6];
        checks[8].signer = people[0].address();
        let wrong = [3, 7, 8];
        for (n, good) in verify_batch(&checks).into_iter().enumerate() {
            assert_eq!(good, !wrong.contains(&n), "check {n}");
        }
    }
}
