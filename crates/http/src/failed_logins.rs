//! Slows down guessing of API keys: the refusal of a wrong key waits, longer with each wrong key from one address.
//!
//! Valid keys never wait, so callers behind one proxy do not slow each other down. A process counts by itself.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_gateway::GatewayError;

use crate::error::ApiError;

/// Wrong keys of one address that are refused without a wait.
const FREE: u32 = 5;
/// The wait for the first wrong key after those. It doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// After this long without a wrong key an address begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// The most addresses that are remembered. When there are more, all of them are forgotten.
const MOST_ADDRESSES: usize = 4096;
/// The most refusals that wait at the same time. More are refused with 429 at once.
const MOST_WAITING: usize = 256;

/// The address of a request's client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl ClientAddress {
    pub(crate) fn of(address: SocketAddr) -> Self {
        Self(address.ip().to_canonical())
    }
}

/// The wrong keys that came lately, by address.
#[derive(Default)]
pub(crate) struct FailedLogins {
    addresses: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    waiting: AtomicUsize,
}

impl FailedLogins {
    /// Counts a wrong key and waits. Fails if too many refusals wait already. Cancel-safe.
    pub(crate) async fn slow_down(&self, address: IpAddr) -> Result<(), ApiError> {
        let wait = self.count(address, Instant::now());
        if wait.is_zero() {
            return Ok(());
        }
        let waiting = Waiting::begin(&self.waiting);
        if waiting.place >= MOST_WAITING {
            let message = format!("{MOST_WAITING} requests with wrong API keys wait for their answer, the limit");
            return Err(GatewayError::overloaded(message).into());
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Counts a wrong key. Says how long its refusal has to wait.
    fn count(&self, address: IpAddr, now: Instant) -> Duration {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= MOST_ADDRESSES && !addresses.contains_key(&address) {
            addresses.clear();
        }
        let (failures, last) = addresses.entry(address).or_insert((0, now));
        if now.saturating_duration_since(*last) > FORGOTTEN_AFTER {
            *failures = 0;
        }
        (*failures, *last) = (failures.saturating_add(1), now);
        match failures.checked_sub(FREE + 1) {
            None => Duration::ZERO,
            Some(doublings) => FIRST_WAIT.saturating_mul(1 << doublings.min(16)).min(LONGEST_WAIT),
        }
    }
}

/// A refusal that waits. Dropping it ends the wait.
struct Waiting<'a> {
    all: &'a AtomicUsize,
    place: usize,
}

impl<'a> Waiting<'a> {
    fn begin(all: &'a AtomicUsize) -> Self {
        Self { all, place: all.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn each_wrong_key_after_the_first_ones_waits_twice_as_long() {
        let (logins, now) = (FailedLogins::default(), Instant::now());
        let waits: Vec<_> = (0..14).map(|_| logins.count(HERE, now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        assert_eq!(logins.count(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), now), Duration::ZERO, "another address");
    }

    #[test]
    fn an_address_begins_anew_after_a_minute_without_a_wrong_key() {
        let (logins, now) = (FailedLogins::default(), Instant::now());
        for _ in 0..10 {
            logins.count(HERE, now);
        }
        assert!(!logins.count(HERE, now + Duration::from_secs(59)).is_zero());
        assert!(logins.count(HERE, now + Duration::from_secs(121)).is_zero());
    }

    #[tokio::test]
    async fn only_a_bounded_number_of_refusals_wait() {
        let (logins, now) = (FailedLogins::default(), Instant::now());
        for _ in 0..FREE {
            logins.count(HERE, now);
        }
        let waiting: Vec<_> = (0..MOST_WAITING).map(|_| Waiting::begin(&logins.waiting)).collect();
        let refused = logins.slow_down(HERE).await.unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.label()), (429, "overloaded"));
        drop(waiting);
        assert!(logins.slow_down(HERE).await.is_ok(), "there is room again");
    }
}
