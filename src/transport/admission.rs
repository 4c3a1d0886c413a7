//! How many connections one network address may open.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Counts connections by the address they come from. Loopback is exempt: whoever is there can do
/// worse than connect.
#[derive(Debug)]
pub struct Admission {
    rate: DefaultKeyedRateLimiter<IpAddr>,
    per_second: u32,
    unauthenticated: Mutex<HashMap<IpAddr, usize>>,
    limit: usize,
}

/// A place among the unauthenticated sockets of an address, given back when it is dropped.
#[derive(Debug)]
pub struct Unauthenticated {
    admission: Arc<Admission>,
    from: Option<IpAddr>,
}

impl Admission {
    /// At most `per_second` new connections a second and `limit` unauthenticated sockets at once,
    /// each by address.
    pub fn new(per_second: u32, limit: usize) -> Self {
        let rate = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
        Self {
            rate: RateLimiter::keyed(Quota::per_second(rate)),
            per_second: rate.get(),
            unauthenticated: Mutex::default(),
            limit,
        }
    }

    /// Let a new connection in.
    ///
    /// # Errors
    /// One line that says which limit it is over.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> Result<Unauthenticated, String> {
        let from = from.to_canonical();
        if from.is_loopback() {
            return Ok(Unauthenticated {
                admission: Arc::clone(self),
                from: None,
            });
        }
        if self.rate.check_key(&from).is_err() {
            return Err(format!(
                "too many connections: {} a second are allowed from one address",
                self.per_second
            ));
        }
        let mut counts = self
            .unauthenticated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(from).or_default();
        if *count >= self.limit {
            return Err(format!(
                "too many connections: {} without CONNECT are allowed from one address",
                self.limit
            ));
        }
        *count += 1;
        drop(counts);
        Ok(Unauthenticated {
            admission: Arc::clone(self),
            from: Some(from),
        })
    }

    /// Forget addresses that have been quiet.
    pub fn sweep(&self) {
        self.rate.retain_recent();
        self.rate.shrink_to_fit();
    }
}

impl Drop for Unauthenticated {
    fn drop(&mut self) {
        let Some(from) = self.from else { return };
        let mut counts = self
            .admission
            .unauthenticated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_rate_and_a_count_and_loopback_has_none() {
        let admission = Arc::new(Admission::new(3, 2));
        let far: IpAddr = "203.0.113.9".parse().unwrap();
        let one = admission.enter(far).unwrap();
        let _two = admission.enter(far).unwrap();
        let refused = admission.enter(far).unwrap_err();
        assert!(refused.contains("without CONNECT"), "{refused}");
        drop(one);
        let refused = admission.enter(far).unwrap_err();
        assert!(refused.contains("a second"), "{refused}");
        let mapped: IpAddr = "::ffff:203.0.113.9".parse().unwrap();
        assert!(admission.enter(mapped).is_err());
        let here: Vec<_> = (0..100)
            .map(|_| admission.enter("127.0.0.1".parse().unwrap()).unwrap())
            .collect();
        assert_eq!(here.len(), 100);
        admission.sweep();
    }
}
