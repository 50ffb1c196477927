//! Charges and the accounts that they are made to.

use std::fmt;
use std::sync::Arc;

use super::resource::MEMORY;
use super::{Account, Resource};
use crate::error::Error;
use proto::status::Status;

/// The accounts that are charged for one client. The first one is the server's.
pub struct Payer {
    accounts: Box<[Arc<Account>]>,
}

/// A charge was refused because an account is at its bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Full {
    /// The name of that account.
    pub account: String,
    /// The resource that was charged.
    pub resource: Resource,
    /// Whether total memory was the reason, not the amount of this resource.
    pub memory: bool,
}

/// An account of the client is at its bound.
impl From<Full> for Error {
    fn from(full: Full) -> Self {
        Error::because(Status::INSUFFICIENT_RESOURCES, full.to_string())
    }
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

    /// Charges `amount` of a resource and the memory that it takes, unless an account would then exceed its bound.
    pub fn charge(self: &Arc<Self>, resource: Resource, amount: usize) -> Result<Charge, Full> {
        let mut charge = Charge::nothing(self, resource);
        charge.grow(amount)?;
        Ok(charge)
    }

    /// Returns whether an account exceeds its memory bound; then no further input is read for this payer.
    pub fn is_overdrawn(&self) -> bool {
        self.accounts.iter().any(|account| account.is_over(MEMORY))
    }

    /// Returns whether `more` of a resource could be charged now.
    fn has_room_for(&self, resource: Resource, more: usize) -> bool {
        let index = resource.index();
        let few = |account: &Arc<Account>| account.held(index).saturating_add(more) <= account.bound_after(index, more);
        self.accounts.iter().all(few) && self.has_room(resource.bytes(more))
    }

    /// Checks whether these accounts may take over `amount` of a resource that those of `other` hold now. The limit is
    /// half of the server's bound, whatever is free, so that unauthenticated clients cannot keep others out.
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

    /// Returns whether `more` bytes could be charged now.
    pub fn has_room(&self, more: usize) -> bool {
        self.accounts
            .iter()
            .all(|account| account.held(MEMORY).saturating_add(more) <= account.bound_after(MEMORY, more))
    }

    /// Returns whether the server as a whole exceeds its memory bound.
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

    /// Adds `amount`, and undoes that if an account then exceeds a bound.
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
    /// Creates an empty charge.
    pub fn nothing(payer: &Arc<Payer>, resource: Resource) -> Charge {
        Charge { payer: payer.clone(), resource, amount: 0 }
    }

    /// Creates a charge for an amount that is held already and cannot be refused.
    pub fn recorded(payer: &Arc<Payer>, resource: Resource, amount: usize) -> Charge {
        let mut charge = Charge::nothing(payer, resource);
        charge.record(amount);
        charge
    }

    /// Returns the charged amount.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Returns the payer.
    pub fn payer(&self) -> &Arc<Payer> {
        &self.payer
    }

    /// Sets the charge to `amount`. An increase may be refused; then the charge is unchanged.
    pub fn grow(&mut self, amount: usize) -> Result<(), Full> {
        if amount > self.amount {
            self.payer.try_add(self.resource, amount - self.amount)?;
            self.amount = amount;
        } else {
            self.record(amount);
        }
        Ok(())
    }

    /// Returns whether the charge could grow by `more` now.
    pub fn may_add(&self, more: usize) -> bool {
        self.payer.has_room_for(self.resource, more)
    }

    /// Sets the charge to `amount`, which is held already and cannot be refused.
    pub fn record(&mut self, amount: usize) {
        match amount.checked_sub(self.amount) {
            Some(0) => {}
            Some(more) => self.payer.add(self.resource, more),
            None => self.payer.subtract(self.resource, self.amount - amount),
        }
        self.amount = amount;
    }

    /// Moves the charge to another payer.
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
