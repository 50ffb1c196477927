//! The requests of each user.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::policy::limits::MAX_COUNTED_USERS;

/// The name under which the requests of all other users are added up. A user cannot be called so.
const OTHERS: &str = "*";

/// The requests of the sessions that have ended, by user.
///
/// A session counts its own requests, so a request of one session writes to no memory of another.
#[derive(Default)]
pub(crate) struct Users(Mutex<HashMap<String, u64>>);

impl Users {
    /// Adds the requests of a session that has ended.
    pub(crate) fn add(&self, name: &str, requests: u64) {
        let mut users = self.0.lock();
        if let Some(sum) = users.get_mut(name) {
            *sum += requests;
            return;
        }
        if users.len() >= MAX_COUNTED_USERS {
            forget_half(&mut users);
        }
        users.insert(name.to_owned(), requests);
    }

    /// Returns the `most` users with the most requests, and the sum of the others. `current` are the requests of the
    /// sessions that exist.
    pub(crate) fn largest(&self, most: usize, current: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
        let mut sums = self.0.lock().clone();
        current.for_each(|(name, requests)| *sums.entry(name).or_default() += requests);
        let mut others = sums.remove(OTHERS).unwrap_or_default();
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by(|(one, left), (other, right)| right.cmp(left).then_with(|| one.cmp(other)));
        others += sums.split_off(most.min(sums.len())).into_iter().map(|(_, requests)| requests).sum::<u64>();
        if others > 0 {
            sums.push((OTHERS.to_owned(), others));
        }
        sums
    }
}

/// Adds the users with the fewest requests to the others.
fn forget_half(users: &mut HashMap<String, u64>) {
    let mut others = users.remove(OTHERS).unwrap_or_default();
    let mut sums: Vec<_> = users.drain().collect();
    sums.sort_unstable_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    others += sums.split_off(sums.len() / 2).into_iter().map(|(_, requests)| requests).sum::<u64>();
    users.extend(sums);
    users.insert(OTHERS.to_owned(), others);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_named_and_no_request_is_lost() {
        let users = Users::default();
        users.add("alice", 5);
        users.add("alice", 7);
        users.add("bob", 3);
        let current = [("carol".to_owned(), 20), ("bob".to_owned(), 1)];
        let largest = users.largest(2, current.into_iter());
        assert_eq!(largest, [("carol".to_owned(), 20), ("alice".to_owned(), 12), ("*".to_owned(), 4)]);
        assert_eq!(users.largest(2, std::iter::empty()), [("alice".to_owned(), 12), ("bob".to_owned(), 3)]);
    }

    #[test]
    fn many_users_are_bounded() {
        let users = Users::default();
        users.add("busy", 1_000_000);
        for number in 0..100_000 {
            users.add(&number.to_string(), 1);
        }
        assert!(users.0.lock().len() <= MAX_COUNTED_USERS);
        let largest = users.largest(1, std::iter::empty());
        assert_eq!(largest, [("busy".to_owned(), 1_000_000), ("*".to_owned(), 100_000)]);
    }
}
