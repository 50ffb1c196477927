//! Accounting of everything that clients make the server hold: memory in bytes as allocated, and limited resources such
//! as open files.
//!
//! Every charge is made to several [`Account`]s at once: the server's, that of the client's address and that of its
//! user. The server's account has fixed bounds. An address and a user may hold a fraction of what is *free* in the
//! server's account, not of the whole: a single user gets a quarter of the memory, two get a fifth each. However many
//! users are at their bound, some memory stays free for the next one. Clients without a logged-on user share an account
//! with a small bound of its own.
//!
//! A [`Charge`] is released when it is dropped. A request that can be refused is charged before it is executed
//! ([`Payer::charge`]). Data that has already arrived is recorded ([`Charge::record`]), and its connection is not read
//! from while an account is over its bound ([`Payer::is_overdrawn`]).

mod payer;
mod report;
mod resource;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub use payer::{Charge, Full, Payer};
pub use report::{Report, Usage};
pub use resource::{Bounds, Resource, Unit};

use crate::address_bucket::AddressBucket;
use crate::user::User;
use resource::{Amounts, MEMORY};

/// The fraction of the free part of another account that one account may hold.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    numerator: usize,
    denominator: usize,
}

impl Fraction {
    const fn new(numerator: usize, denominator: usize) -> Fraction {
        Fraction { numerator, denominator }
    }

    fn of(self, amount: usize) -> usize {
        // Divided first, because the bounds may be near `usize::MAX`.
        (amount / self.denominator).saturating_mul(self.numerator)
    }
}

/// A user; a single one gets a quarter of the memory and half of other resources.
const USER: Shares = Shares { memory: Fraction::new(1, 3), others: Fraction::new(1, 1) };
/// An address (a /64 for IPv6), which may have many users; a single one gets half of the memory and three quarters of
/// other resources.
const ADDRESS: Shares = Shares { memory: Fraction::new(1, 1), others: Fraction::new(3, 1) };
/// An address without a logged-on user; a single one gets half of what all such addresses may hold.
const UNAUTHENTICATED_ADDRESS: Shares = Shares { memory: Fraction::new(1, 1), others: Fraction::new(1, 1) };
/// All clients without a logged-on user together get the server's bounds divided by this.
const UNAUTHENTICATED_PART: usize = 16;

/// The fractions of the free amounts that an account may hold.
#[derive(Clone, Copy, Debug)]
struct Shares {
    memory: Fraction,
    others: Fraction,
}

impl Shares {
    fn at(&self, index: usize) -> Fraction {
        if index == MEMORY { self.memory } else { self.others }
    }
}

/// What an address, a user or the server holds, and its bound.
struct Account {
    held: Amounts,
    bound: Bound,
    /// The name in reports.
    name: String,
}

enum Bound {
    Fixed(Amounts),
    /// A fraction of what is free in another account.
    Share(Arc<Account>, Shares),
}

impl Account {
    fn held(&self, index: usize) -> usize {
        self.held.get(index)
    }

    /// Returns how much the account may hold now.
    fn bound(&self, index: usize) -> usize {
        self.bound_after(index, 0)
    }

    /// Returns how much the account may hold once `more` is charged.
    fn bound_after(&self, index: usize, more: usize) -> usize {
        match &self.bound {
            Bound::Fixed(bounds) => bounds.get(index),
            Bound::Share(of, shares) => {
                shares.at(index).of(of.bound(index).saturating_sub(of.held(index).saturating_add(more)))
            }
        }
    }

    fn is_over(&self, index: usize) -> bool {
        self.held(index) > self.bound(index)
    }
}

/// Accounts that exist while a payer refers to them.
struct Accounts<K> {
    by_key: HashMap<K, Weak<Account>>,
    /// If there are more entries than this, those of dropped accounts are removed.
    purge_at: usize,
}

const PURGE_AT: usize = 64;

impl<K: Eq + Hash> Default for Accounts<K> {
    fn default() -> Self {
        Accounts { by_key: HashMap::new(), purge_at: PURGE_AT }
    }
}

impl<K: Eq + Hash> Accounts<K> {
    fn get(&mut self, key: K, make: impl FnOnce() -> Account) -> Arc<Account> {
        if let Some(account) = self.by_key.get(&key).and_then(Weak::upgrade) {
            return account;
        }
        if self.by_key.len() >= self.purge_at {
            self.by_key.retain(|_, account| account.strong_count() > 0);
            self.by_key.shrink_to(2 * self.by_key.len());
            self.purge_at = PURGE_AT.max(2 * self.by_key.len());
        }
        let account = Arc::new(make());
        self.by_key.insert(key, Arc::downgrade(&account));
        account
    }

    fn live(&self) -> impl Iterator<Item = Arc<Account>> {
        self.by_key.values().filter_map(Weak::upgrade)
    }
}

/// The key of a user's account.
#[derive(Clone, PartialEq, Eq, Hash)]
enum UserKey {
    /// A user with a user account: its name, and the domain or server that it belongs to.
    Named { domain: String, name: String },
    /// Guest users of one address, who may be different people.
    Guests(AddressBucket),
}

/// All accounts of a server.
pub struct Accounting {
    server: Arc<Account>,
    unauthenticated: Arc<Account>,
    addresses: Mutex<Accounts<AddressBucket>>,
    users: Mutex<Accounts<UserKey>>,
    unauthenticated_by_address: Mutex<Accounts<AddressBucket>>,
}

impl Accounting {
    /// Creates the accounts; nothing is held yet.
    pub fn new(bounds: &Bounds) -> Accounting {
        let account = |name: &str| {
            let bound = Bound::Fixed(Amounts::default());
            Arc::new(Account { held: Amounts::default(), bound, name: name.to_owned() })
        };
        let accounting = Accounting {
            server: account("server"),
            unauthenticated: account("clients that have not logged on"),
            addresses: Mutex::default(),
            users: Mutex::default(),
            unauthenticated_by_address: Mutex::default(),
        };
        accounting.set_bounds(bounds);
        accounting
    }

    /// Replaces the bounds. Existing charges stay.
    pub fn set_bounds(&self, bounds: &Bounds) {
        for (account, divisor) in [(&self.server, 1), (&self.unauthenticated, UNAUTHENTICATED_PART)] {
            if let Bound::Fixed(fixed) = &account.bound {
                bounds.each().for_each(|(index, bound)| fixed.set(index, bound / divisor));
            }
        }
    }

    /// Returns the payer for a connection from `address` without a logged-on user, and for anonymous users.
    pub fn unauthenticated(&self, address: AddressBucket) -> Arc<Payer> {
        let of_address = self.unauthenticated_by_address.lock().get(address, || Account {
            held: Amounts::default(),
            bound: Bound::Share(self.unauthenticated.clone(), UNAUTHENTICATED_ADDRESS),
            name: address.to_string(),
        });
        Arc::new(Payer::new([self.server.clone(), self.unauthenticated.clone(), self.address(address), of_address]))
    }

    /// Returns the payer for what `user` does over connections from `address`.
    pub fn user(&self, user: &User, address: AddressBucket) -> Arc<Payer> {
        if user.anonymous {
            return self.unauthenticated(address);
        }
        let (key, name) = if user.guest {
            (UserKey::Guests(address), format!("guests of {address}"))
        } else {
            let key = UserKey::Named { domain: user.domain.to_lowercase(), name: user.name.to_lowercase() };
            (key, format!("{}\\{}", user.domain, user.name))
        };
        let account = self.user_account(key, || name);
        Arc::new(Payer::new([self.server.clone(), self.address(address), account]))
    }

    fn user_account(&self, key: UserKey, name: impl FnOnce() -> String) -> Arc<Account> {
        self.users.lock().get(key, || Account {
            held: Amounts::default(),
            bound: Bound::Share(self.server.clone(), USER),
            name: name(),
        })
    }

    fn address(&self, address: AddressBucket) -> Arc<Account> {
        self.addresses.lock().get(address, || Account {
            held: Amounts::default(),
            bound: Bound::Share(self.server.clone(), ADDRESS),
            name: address.to_string(),
        })
    }

    /// Returns the payer for what a user holds without being connected.
    pub fn absent_user(&self, domain: &str, name: &str) -> Arc<Payer> {
        let key = UserKey::Named { domain: domain.to_lowercase(), name: name.to_lowercase() };
        let account = self.user_account(key, || format!("{domain}\\{name}"));
        Arc::new(Payer::new([self.server.clone(), account]))
    }

    /// Returns the total amount of a resource that is held.
    pub fn held(&self, resource: Resource) -> usize {
        self.server.held(resource.index())
    }

    /// Returns the bytes of memory held on behalf of all clients.
    pub fn memory(&self) -> usize {
        self.server.held(MEMORY)
    }
}

#[cfg(test)]
mod tests;
