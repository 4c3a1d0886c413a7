//! The ledger for `replay: memory`.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use super::{Claim, Claimed};

/// Digests and when they expire, and the same by expiry.
#[derive(Default)]
pub(super) struct MemoryLedger {
    used: HashMap<[u8; 32], f64>,
    queue: BinaryHeap<Reverse<Expiry>>,
}

impl MemoryLedger {
    /// Claims in order. What has expired before `now` is forgotten first.
    pub(super) fn claim(&mut self, claims: &[Claim], now: f64) -> Vec<Claimed> {
        while let Some(Reverse(first)) = self.queue.peek()
            && first.at < now
        {
            self.used.remove(&first.digest);
            self.queue.pop();
        }
        claims
            .iter()
            .map(|claim| self.claim_one(claim.digest, claim.expiry(now)))
            .collect()
    }

    fn claim_one(&mut self, digest: [u8; 32], at: f64) -> Claimed {
        if self.used.contains_key(&digest) {
            return Claimed::AlreadyUsed;
        }
        self.used.insert(digest, at);
        self.queue.push(Reverse(Expiry { at, digest }));
        Claimed::Fresh
    }
}

struct Expiry {
    at: f64,
    digest: [u8; 32],
}

impl Ord for Expiry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at)
    }
}

impl PartialOrd for Expiry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Expiry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Expiry {}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(first: u8, expires_at: f64) -> Claim {
        Claim {
            digest: [first; 32],
            expires_at,
        }
    }

    #[test]
    fn a_digest_is_kept_until_it_expires_and_no_longer() {
        let mut ledger = MemoryLedger::default();
        let calls = [claim(1, 20.0), claim(2, 10.0), claim(1, 30.0)];
        let answers = ledger.claim(&calls, 0.0);
        assert_eq!(
            answers,
            [Claimed::Fresh, Claimed::Fresh, Claimed::AlreadyUsed]
        );
        assert_eq!(
            ledger.claim(&[claim(2, 10.0)], 10.0),
            [Claimed::AlreadyUsed]
        );
        assert_eq!(ledger.claim(&[claim(3, 90.0)], 20.5), [Claimed::Fresh]);
        assert_eq!(ledger.used.len(), 1, "what expired takes no memory");
        assert_eq!(ledger.queue.len(), 1);
        assert_eq!(ledger.claim(&[claim(1, 90.0)], 20.5), [Claimed::Fresh]);
    }
}
