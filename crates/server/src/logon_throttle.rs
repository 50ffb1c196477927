//! Delays responses to failed logons, at the cost of a little memory per waiting client.
//!
//! A failed logon is answered two seconds after its request arrived, as by Windows Server 2025, or at a later multiple
//! of that interval if the account lookup took longer. Unknown names, wrong passwords and slow back ends therefore look
//! the same. The failures of one account, and of one address, are answered one after the other.
//!
//! A successful logon is never delayed, even while other clients guess, because only logons that have failed are
//! delayed or cut off. Clients that do not wait for the response are limited by [`crate::logon_attempts`] and by
//! lockout (an account policy).
//!
//! The tables have a fixed size and are indexed by keyed hashes of names and addresses. Two entries that collide delay
//! each other's failures and have no other effect, so filling the tables gives an attacker nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::address_bucket::AddressBucket;

/// Delay between a failed logon and its response, and between responses to two failures of one account.
const INTERVAL: Duration = Duration::from_secs(2);
/// Longest delay for an account's failures, because the waiting client may be the account's owner.
const LONGEST: Duration = Duration::from_secs(10);
/// Delay between responses to two failures of one address.
const ADDRESS_INTERVAL: Duration = Duration::from_millis(125);
/// Failures of one address that do not delay each other, because all users of a terminal server have the same address.
const ADDRESS_BURST: u32 = 16;
/// Maximum backlog of an address's failures, which is 64 of them; further ones are not delayed but cut off.
const ADDRESS_LONGEST: Duration = Duration::from_secs(8);
/// The number of characters of a name that are compared.
const NAME: usize = 64;
/// Slots in each table.
const PLACES: usize = 4096;
/// Memory for a waiting failure besides its request, in bytes.
pub(crate) const OVERHEAD: usize = 4096;

/// For each account and address, the time up to which responses to failures are scheduled, in `Environment::uptime`.
pub(crate) struct LogonThrottle {
    key: [u8; 16],
    accounts: Mutex<Box<[Duration]>>,
    addresses: Mutex<Box<[Duration]>>,
}

/// A failed logon.
#[derive(Clone, Copy)]
pub(crate) struct Guess<'a> {
    /// The name that was tried. Names without an account are treated alike, so that they cannot be distinguished.
    pub(crate) name: &'a str,
    /// The client's address.
    pub(crate) from: AddressBucket,
    /// When the request arrived.
    pub(crate) asked: Duration,
}

/// When to answer a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// At this time. `first`: no earlier failure of the account waits, so this one is logged.
    At { answer: Duration, first: bool },
    /// Too many failures of the address wait.
    TooMany,
}

impl LogonThrottle {
    /// Creates empty tables. `key` is random.
    pub(crate) fn new(key: [u8; 16]) -> LogonThrottle {
        let places = || Mutex::new(vec![Duration::ZERO; PLACES].into());
        LogonThrottle { key, accounts: places(), addresses: places() }
    }

    fn place(&self, of: impl Hash) -> usize {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        of.hash(&mut hasher);
        (hasher.finish() % PLACES as u64) as usize
    }

    /// Records a failed logon that was detected at `now`; returns when to answer it.
    pub(crate) fn failed(&self, guess: Guess<'_>, now: Duration) -> Verdict {
        let address = {
            let mut addresses = self.addresses.lock();
            let behind = &mut addresses[self.place(guess.from)];
            let next = (*behind).max(now) + ADDRESS_INTERVAL;
            if next > now + ADDRESS_LONGEST {
                return Verdict::TooMany;
            }
            *behind = next;
            next.saturating_sub(ADDRESS_INTERVAL * ADDRESS_BURST)
        };
        let name: String = guess.name.chars().take(NAME).flat_map(char::to_lowercase).collect();
        let mut accounts = self.accounts.lock();
        let last = &mut accounts[self.place(name)];
        let first = *last <= now;
        *last = (*last).max(now).saturating_add(INTERVAL).min(now + LONGEST);
        // A multiple of the interval after the request, so that the time for the account lookup does not show.
        let passed = now.saturating_sub(guess.asked).as_millis() / INTERVAL.as_millis() + 1;
        let whole = guess.asked + INTERVAL.saturating_mul(u32::try_from(passed).unwrap_or(u32::MAX));
        let answer = if first { whole } else { whole.max(*last) };
        Verdict::At { answer: answer.max(address), first }
    }
}

/// The failures of one connection that wait for their responses.
#[derive(Default)]
pub(crate) struct Failures {
    waiting: AtomicUsize,
    pub(crate) left: Notify,
}

impl Failures {
    /// Ends all waits, because the connection has ended.
    pub(crate) fn leave(&self) {
        self.left.notify_waiters();
    }

    /// Takes a slot; `None` if `limit` failures wait already.
    pub(crate) fn join(&self, limit: usize) -> Option<WaitingSlot<'_>> {
        let take = |waiting: usize| (waiting < limit).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| WaitingSlot(self))
    }
}

/// The slot of one waiting failure.
pub(crate) struct WaitingSlot<'a>(&'a Failures);

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn at(millis: u64) -> Duration {
        START + Duration::from_millis(millis)
    }

    /// A failure of `name` from the address that ends in `host`. The request arrives `asked` ms after the start, and
    /// the failure is detected after `known` ms. `expected` is the time of the response in ms after the start.
    #[track_caller]
    fn check(throttle: &LogonThrottle, (name, host): (&str, u8), (asked, known): (u64, u64), expected: Option<u128>) {
        let from = IpAddr::from([192, 0, 2, host]).into();
        let answered = match throttle.failed(Guess { name, from, asked: at(asked) }, at(known)) {
            Verdict::At { answer, .. } => Some((answer - START).as_millis()),
            Verdict::TooMany => None,
        };
        assert_eq!(answered, expected, "{name} from {host} at {asked}");
    }

    #[test]
    fn failures_of_one_account_are_answered_one_at_a_time() {
        let throttle = LogonThrottle::new([1; 16]);
        check(&throttle, ("alice", 1), (0, 0), Some(2_000));
        check(&throttle, ("Alice", 2), (0, 0), Some(4_000));
        check(&throttle, ("bob", 1), (0, 0), Some(2_000));
        for expected in [6_000, 8_000, 10_000, 10_000, 10_000] {
            check(&throttle, ("alice", 3), (0, 0), Some(expected));
        }
        check(&throttle, ("alice", 1), (90_000, 90_000), Some(92_000));
    }

    #[test]
    fn the_time_of_the_account_lookup_is_not_revealed() {
        let throttle = LogonThrottle::new([1; 16]);
        for (index, (known, expected)) in [(0, 2_000), (1, 2_000), (1_999, 2_000), (2_500, 4_000)].iter().enumerate() {
            check(&throttle, (&format!("user {index}"), 1), (0, *known), Some(*expected));
        }
    }

    #[test]
    fn an_address_gets_a_burst_then_a_limited_rate_then_nothing() {
        let throttle = LogonThrottle::new([1; 16]);
        let names: Vec<String> = (0..64).map(|number| format!("user {number}")).collect();
        for (number, name) in (0..).zip(&names) {
            let paced = (number + 1) * 125_u64;
            check(&throttle, (name, 1), (0, 0), Some(u128::from(paced.saturating_sub(2_000).max(2_000))));
        }
        check(&throttle, ("one more", 1), (0, 0), None);
        check(&throttle, ("one more", 2), (0, 0), Some(2_000));
        check(&throttle, ("later", 1), (1_000, 1_000), Some(6_125));
    }

    #[test]
    fn waiting_requests_are_bounded() {
        let failures = Failures::default();
        let first = failures.join(1);
        assert!(first.is_some() && failures.join(1).is_none());
        drop(first);
        assert!(failures.join(1).is_some());
    }
}
