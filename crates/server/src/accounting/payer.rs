//! Charges, and the accounts that pay for them.

use std::fmt;
use std::sync::Arc;

use super::resource::MEMORY;
use super::{Account, Resource};

/// The accounts that pay for what one client does. The first is the server's.
pub struct Payer {
    accounts: Box<[Arc<Account>]>,
}

/// A charge was refused: an account holds as much as it may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Full {
    /// Whose account.
    pub account: String,
    /// The resource that was charged.
    pub resource: Resource,
    /// Whether memory as a whole was the reason, not the number of this resource.
    pub memory: bool,
}

impl fmt::Display for Full {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.memory { "memory" } else { self.resource.name() };
        write!(out, "no {what} left for {}", self.account)
    }
}

impl Payer {
    pub(super) fn new(accounts: impl Into<Box<[Arc<Account>]>>) -> Payer {
        Payer { accounts: accounts.into() }
    }

    /// Charges `amount` of a resource, and the memory that it takes, unless an account would then hold more than it may.
    pub fn charge(self: &Arc<Self>, resource: Resource, amount: usize) -> Result<Charge, Full> {
        let mut charge = Charge::nothing(self, resource);
        charge.grow(amount)?;
        Ok(charge)
    }

    /// Whether an account holds more memory than it may: then nothing further is read for this payer.
    pub fn is_overdrawn(&self) -> bool {
        self.accounts.iter().any(|account| account.is_over(MEMORY))
    }

    /// Whether `more` of a resource could be charged now.
    fn has_room_for(&self, resource: Resource, more: usize) -> bool {
        let index = resource.index();
        let few = |account: &Arc<Account>| account.held(index).saturating_add(more) <= account.bound_after(index, more);
        self.accounts.iter().all(few) && self.has_room(resource.bytes(more))
    }

    /// Whether these accounts may hold `amount` of a resource that those of `other` hold now: half of the server's bound at
    /// most, whatever is free. Those whom nobody knows must not keep others out.
    pub fn may_take_over(&self, other: &Payer, resource: Resource, amount: usize) -> Result<(), Full> {
        let index = resource.index();
        let pays_already = |account: &Arc<Account>| other.accounts.iter().any(|it| Arc::ptr_eq(it, account));
        let most = self.accounts.first().map_or(0, |server| server.bound(index) / 2);
        let is_full = |account: &&Arc<Account>| account.held(index).saturating_add(amount) > most;
        match self.accounts.iter().filter(|account| !pays_already(account)).find(is_full) {
            Some(account) => Err(Full { account: account.name.clone(), resource, memory: false }),
            None => Ok(()),
        }
    }

    /// Whether `more` bytes could be charged now.
    pub fn has_room(&self, more: usize) -> bool {
        self.accounts
            .iter()
            .all(|account| account.held(MEMORY).saturating_add(more) <= account.bound_after(MEMORY, more))
    }

    /// Whether the server as a whole holds more memory than it may.
    pub fn is_server_overdrawn(&self) -> bool {
        self.accounts.first().is_some_and(|server| server.is_over(MEMORY))
    }

    fn add(&self, resource: Resource, amount: usize) {
        for account in &self.accounts {
            account.held.add(resource.index(), amount);
            account.held.add(MEMORY, resource.bytes(amount));
        }
    }

    fn subtract(&self, resource: Resource, amount: usize) {
        for account in &self.accounts {
            account.held.subtract(resource.index(), amount);
            account.held.subtract(MEMORY, resource.bytes(amount));
        }
    }

    /// Adds, and takes it back where an account then holds more than it may.
    fn try_add(&self, resource: Resource, amount: usize) -> Result<(), Full> {
        self.add(resource, amount);
        for account in &self.accounts {
            let (many, large) = (account.is_over(resource.index()), account.is_over(MEMORY));
            if many || large {
                self.subtract(resource, amount);
                return Err(Full { account: account.name.clone(), resource, memory: !many });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Payer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.accounts.iter().map(|account| &account.name)).finish()
    }
}

/// An amount of a resource that is held until this is dropped.
#[derive(Debug)]
pub struct Charge {
    payer: Arc<Payer>,
    resource: Resource,
    amount: usize,
}

impl Charge {
    /// Nothing yet.
    pub fn nothing(payer: &Arc<Payer>, resource: Resource) -> Charge {
        Charge { payer: payer.clone(), resource, amount: 0 }
    }

    /// An amount that is there already and cannot be refused.
    pub fn recorded(payer: &Arc<Payer>, resource: Resource, amount: usize) -> Charge {
        let mut charge = Charge::nothing(payer, resource);
        charge.record(amount);
        charge
    }

    /// How much is charged.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Who pays.
    pub fn payer(&self) -> &Arc<Payer> {
        &self.payer
    }

    /// Makes it `amount`. More than before may be refused; then it stays as it is.
    pub fn grow(&mut self, amount: usize) -> Result<(), Full> {
        if amount > self.amount {
            self.payer.try_add(self.resource, amount - self.amount)?;
            self.amount = amount;
        } else {
            self.record(amount);
        }
        Ok(())
    }

    /// Whether it could grow by `more` now.
    pub fn may_add(&self, more: usize) -> bool {
        self.payer.has_room_for(self.resource, more)
    }

    /// Makes it `amount`, which is held already and cannot be refused.
    pub fn record(&mut self, amount: usize) {
        match amount.checked_sub(self.amount) {
            Some(0) => {}
            Some(more) => self.payer.add(self.resource, more),
            None => self.payer.subtract(self.resource, self.amount - amount),
        }
        self.amount = amount;
    }

    /// From now on another payer pays.
    pub fn transfer(&mut self, payer: &Arc<Payer>) {
        payer.add(self.resource, self.amount);
        self.payer.subtract(self.resource, self.amount);
        self.payer = payer.clone();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.payer.subtract(self.resource, self.amount);
    }
}
