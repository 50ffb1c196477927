//! Connections without a logged-on user: their limits, and which one is closed when a limit is exceeded.
//!
//! Each unauthenticated connection costs the server a file descriptor and some memory, so their number is bounded, for
//! each address and in total. A connection above the limit is accepted, and the oldest one of the address that has the
//! most is closed. A flood of connections thus only displaces connections from its own address. `Limits::logon_time`
//! closes the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Weak;

use crate::address_bucket::AddressBucket;

/// The unauthenticated connections of each address, by their ids. Ids increase, so the first is the oldest.
pub(crate) struct Unauthenticated<C> {
    by_address: HashMap<AddressBucket, BTreeMap<u64, Weak<C>>>,
    /// The last entry has the most connections; among equals, the one with the oldest connection is last.
    ranking: BTreeSet<(usize, Reverse<u64>, AddressBucket)>,
    count: usize,
}

impl<C> Default for Unauthenticated<C> {
    fn default() -> Self {
        Unauthenticated { by_address: HashMap::new(), ranking: BTreeSet::new(), count: 0 }
    }
}

impl<C> Unauthenticated<C> {
    /// Runs `change` on the connections of an address and updates the ranking.
    fn change<T>(&mut self, from: AddressBucket, change: impl FnOnce(&mut BTreeMap<u64, Weak<C>>) -> T) -> T {
        let rank =
            |those: &BTreeMap<u64, _>| those.first_key_value().map(|(&oldest, _)| (those.len(), Reverse(oldest), from));
        let those = self.by_address.entry(from).or_default();
        if let Some(rank) = rank(those) {
            self.ranking.remove(&rank);
            self.count -= those.len();
        }
        let done = change(those);
        self.count += those.len();
        match rank(those) {
            Some(rank) => _ = self.ranking.insert(rank),
            None => _ = self.by_address.remove(&from),
        }
        done
    }

    /// Adds a connection.
    pub(crate) fn add(&mut self, from: AddressBucket, id: u64, connection: Weak<C>) {
        self.change(from, |those| those.insert(id, connection));
    }

    /// Removes a connection that has logged on or was closed.
    pub(crate) fn remove(&mut self, from: AddressBucket, id: u64) {
        if self.by_address.contains_key(&from) {
            self.change(from, |those| those.remove(&id));
        }
    }

    /// Returns the connection to close so that one more from `from` fits within `limit` and `per_address`.
    pub(crate) fn make_room(&mut self, from: AddressBucket, limit: usize, per_address: usize) -> Option<Weak<C>> {
        if self.by_address.get(&from).is_some_and(|those| those.len() >= per_address) {
            return self.take_oldest(from);
        }
        if self.count >= limit { self.take() } else { None }
    }

    /// Removes and returns the oldest connection of the address that has the most.
    pub(crate) fn take(&mut self) -> Option<Weak<C>> {
        let &(_, _, largest) = self.ranking.last()?;
        self.take_oldest(largest)
    }

    fn take_oldest(&mut self, from: AddressBucket) -> Option<Weak<C>> {
        self.change(from, |those| those.pop_first()).map(|(_, oldest)| oldest)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn address(host: u8) -> AddressBucket {
        IpAddr::from([192, 0, 2, host]).into()
    }

    /// Adds the given number of connections of each host in turn, then takes them all and checks their hosts.
    #[track_caller]
    fn check(come: &[(u8, u64)], expected: &[u8]) {
        let mut unauthenticated = Unauthenticated::<()>::default();
        for &(host, id) in come {
            unauthenticated.add(address(host), id, Weak::new());
        }
        let mut taken = Vec::new();
        while let Some(&(_, Reverse(oldest), from)) = unauthenticated.ranking.last() {
            assert!(unauthenticated.take().is_some());
            let (host, _) = come.iter().find(|(_, id)| *id == oldest).expect("it was added");
            assert_eq!(address(*host), from);
            taken.push(*host);
        }
        assert_eq!((taken.as_slice(), unauthenticated.count, unauthenticated.by_address.len()), (expected, 0, 0));
    }

    #[test]
    fn the_oldest_connection_of_the_busiest_address_is_dropped_first() {
        check(&[(1, 1), (2, 2), (2, 3), (2, 4)], &[2, 2, 1, 2]);
        check(&[(3, 1), (2, 2), (1, 3)], &[3, 2, 1]);
        check(&[], &[]);
    }

    #[test]
    fn another_connection_always_fits() {
        let mut unauthenticated = Unauthenticated::<()>::default();
        for id in 1..=100 {
            assert_eq!(unauthenticated.make_room(address(1), 10, 5).is_some(), id > 5, "{id}");
            unauthenticated.add(address(1), id, Weak::new());
        }
        for (host, id) in (2..=6).zip(101..) {
            assert!(unauthenticated.make_room(address(host), 10, 5).is_none(), "{host}");
            unauthenticated.add(address(host), id, Weak::new());
        }
        assert!(unauthenticated.make_room(address(7), 10, 5).is_some());
        assert_eq!((unauthenticated.count, unauthenticated.by_address[&address(1)].len()), (9, 4));
        unauthenticated.remove(address(1), 99);
        unauthenticated.remove(address(1), 99);
        unauthenticated.remove(address(99), 1);
        assert_eq!(unauthenticated.count, 8);
    }
}
