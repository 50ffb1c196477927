//! The accounts as `frevo status` shows them.

use super::resource::MEMORY;
use super::{Account, Accounting, Resource};

/// How much of a resource is held, and its bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Held now.
    pub held: usize,
    /// The bound.
    pub bound: usize,
}

impl Usage {
    fn of(account: &Account, index: usize) -> Usage {
        Usage { held: account.held(index), bound: account.bound(index) }
    }
}

/// What the server holds on behalf of clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Total memory in bytes.
    pub memory: Usage,
    /// Memory of clients that have not logged on.
    pub unauthenticated: Usage,
    /// Usage of each resource.
    pub resources: Vec<(Resource, Usage)>,
    /// Memory of the users that hold the most.
    pub users: Vec<(String, Usage)>,
    /// Memory of the addresses that hold the most.
    pub addresses: Vec<(String, Usage)>,
}

/// The number of users and addresses in a report.
const NAMED: usize = 20;

impl Accounting {
    /// Returns current usage.
    pub fn report(&self) -> Report {
        let users = self.users.lock().live().collect();
        let addresses = self.addresses.lock().live().collect();
        Report {
            memory: Usage::of(&self.server, MEMORY),
            unauthenticated: Usage::of(&self.unauthenticated, MEMORY),
            resources: Resource::ALL.iter().map(|&it| (it, Usage::of(&self.server, it.index()))).collect(),
            users: largest(users),
            addresses: largest(addresses),
        }
    }
}

fn largest(accounts: Vec<std::sync::Arc<Account>>) -> Vec<(String, Usage)> {
    let usage = |account: &std::sync::Arc<Account>| (account.name.clone(), Usage::of(account, MEMORY));
    let mut all: Vec<_> = accounts.iter().map(usage).collect();
    all.sort_by(|(one, left), (two, right)| right.held.cmp(&left.held).then_with(|| one.cmp(two)));
    all.truncate(NAMED);
    all
}
