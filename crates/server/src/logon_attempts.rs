//! Limits password attempts: after a few failures within two seconds, further proofs are refused without being checked.
//!
//! [`crate::logon_throttle`] delays the response to a failed logon. A client that does not wait for it could still make
//! the server compute any number of proofs. Attempts are therefore counted before the computation: for an account from
//! one address, and for an account from all addresses together. An address from which the account has logged on before
//! is neither counted nor refused, so that guessing by others does not lock a user out of the usual machine. A refusal
//! looks like a wrong password.
//!
//! Counters are indexed by keyed hashes of names and addresses. The tables are bounded; if one is full, a name or an
//! address that is not in it is not counted.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use parking_lot::Mutex;

use crate::address_bucket::AddressBucket;

/// How long a failure is counted.
const WINDOW: Duration = Duration::from_secs(2);
/// Maximum failures of an account from one address in that time.
const PER_ADDRESS: u32 = 4;
/// Maximum failures of an account from all addresses together in that time.
const PER_ACCOUNT: u32 = 64;
/// Maximum number of counters.
const COUNTS: usize = 16_384;
/// Maximum number of accounts whose addresses are stored.
const ACCOUNTS: usize = 16_384;
/// Maximum number of addresses stored for one account, the latest ones.
const ADDRESSES: usize = 16;
/// The number of characters of a name that are compared.
const NAME: usize = 64;

/// The attempts of the last two seconds, and the addresses that accounts are used from.
pub(crate) struct LogonAttempts {
    key: [u8; 16],
    open: Mutex<Counts>,
    /// The addresses of each account, most recent last.
    usual: Mutex<HashMap<u64, Vec<u64>>>,
}

#[derive(Default)]
struct Counts {
    by_key: HashMap<u64, Count>,
    /// When expired counters were last removed. Scanning them all for each attempt would cost too much.
    swept: Duration,
}

#[derive(Clone, Copy)]
struct Count {
    since: Duration,
    number: u32,
}

impl Counts {
    fn number(&self, key: u64, now: Duration) -> u32 {
        let count = self.by_key.get(&key).filter(|count| now < count.since + WINDOW);
        count.map_or(0, |count| count.number)
    }

    fn add(&mut self, key: u64, now: Duration) {
        if self.by_key.len() >= COUNTS && !self.by_key.contains_key(&key) {
            if now < self.swept + WINDOW {
                return;
            }
            self.swept = now;
            self.by_key.retain(|_, count| now < count.since + WINDOW);
            if self.by_key.len() >= COUNTS {
                return;
            }
        }
        let count = self.by_key.entry(key).or_insert(Count { since: now, number: 0 });
        if now >= count.since + WINDOW {
            *count = Count { since: now, number: 0 };
        }
        count.number += 1;
    }
}

impl LogonAttempts {
    /// Creates empty tables. `key` is random.
    pub(crate) fn new(key: [u8; 16]) -> LogonAttempts {
        LogonAttempts { key, open: Mutex::default(), usual: Mutex::default() }
    }

    fn hash(&self, of: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        of.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the keys of the account, of the address, and of the account at that address.
    fn keys(&self, name: &str, from: AddressBucket) -> (u64, u64, u64) {
        let name: String = name.chars().take(NAME).flat_map(char::to_lowercase).collect();
        (self.hash(&name), self.hash(from), self.hash((&name, from)))
    }

    /// Returns whether a password of `name` may be tried. If `count`, the attempt is counted as a failure until
    /// [`LogonAttempts::succeeded`] is called, because many attempts may arrive before the first result is known.
    pub(crate) fn begin(&self, name: &str, from: AddressBucket, now: Duration, count: bool) -> bool {
        let (account, address, both) = self.keys(name, from);
        if self.usual.lock().get(&account).is_some_and(|usual| usual.contains(&address)) {
            return true;
        }
        let mut open = self.open.lock();
        if open.number(both, now) >= PER_ADDRESS || open.number(account, now) >= PER_ACCOUNT {
            return false;
        }
        if count {
            open.add(both, now);
            open.add(account, now);
        }
        true
    }

    /// Records a successful proof for the account `name`.
    pub(crate) fn succeeded(&self, name: &str, from: AddressBucket) {
        let (account, address, both) = self.keys(name, from);
        self.open.lock().by_key.remove(&both);
        let mut accounts = self.usual.lock();
        if accounts.len() >= ACCOUNTS && !accounts.contains_key(&account) {
            let any = accounts.keys().next().copied();
            any.and_then(|any| accounts.remove(&any));
        }
        let usual = accounts.entry(account).or_default();
        if usual.last() == Some(&address) {
            return;
        }
        usual.retain(|other| *other != address);
        if usual.len() >= ADDRESSES {
            usual.remove(0);
        }
        usual.push(address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn address(number: u32) -> AddressBucket {
        IpAddr::from(number.to_be_bytes()).into()
    }

    /// Returns how many of `count` simultaneous attempts are admitted.
    fn tried(attempts: &LogonAttempts, name: &str, from: AddressBucket, count: usize, secs: u64) -> usize {
        (0..count).filter(|_| attempts.begin(name, from, Duration::from_secs(secs), true)).count()
    }

    #[test]
    fn attempts_are_bounded_for_an_account_at_an_address() {
        let attempts = LogonAttempts::new([1; 16]);
        assert_eq!(tried(&attempts, "alice", address(1), 100, 10), 4);
        assert_eq!(tried(&attempts, "ALICE", address(1), 100, 11), 0);
        assert_eq!(tried(&attempts, "bob", address(1), 100, 11), 4);
        assert_eq!(tried(&attempts, "alice", address(2), 1, 11), 1);
        assert_eq!(tried(&attempts, "alice", address(1), 100, 12), 4);
    }

    #[test]
    fn attempts_are_bounded_for_an_account_from_everywhere() {
        let attempts = LogonAttempts::new([1; 16]);
        let all: usize = (0..1000).map(|from| tried(&attempts, "alice", address(from), 1, 10)).sum();
        assert_eq!(all, 64);
        assert_eq!(tried(&attempts, "bob", address(1), 1, 10), 1);
    }

    #[test]
    fn an_address_where_the_account_was_used_is_never_refused() {
        let attempts = LogonAttempts::new([1; 16]);
        attempts.succeeded("Alice", address(1));
        (0..1000).for_each(|from| _ = tried(&attempts, "alice", address(from), 9, 10));
        assert_eq!(tried(&attempts, "alice", address(1), 100, 10), 100);
        assert_eq!(tried(&attempts, "bob", address(1), 100, 10), 4);
        (2..18).for_each(|from| attempts.succeeded("alice", address(from)));
        assert_eq!(tried(&attempts, "alice", address(1), 100, 10), 0, "the latest sixteen are kept");
    }

    #[test]
    fn stored_data_is_bounded() {
        let attempts = LogonAttempts::new([1; 16]);
        for number in 0..40_000 {
            attempts.begin(&number.to_string(), address(number), Duration::from_secs(10), true);
            attempts.succeeded(&format!("user {number}"), address(number));
        }
        assert!(attempts.open.lock().by_key.len() <= COUNTS && attempts.usual.lock().len() <= ACCOUNTS);
        assert_eq!(tried(&attempts, "later", address(1), 100, 13), 4, "expired records are replaced");
    }
}
