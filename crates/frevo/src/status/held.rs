//! What clients make the server hold, as JSON has it.

use serde::{Deserialize, Serialize};
use server::accounting::{self, Report, Unit};

use super::show::size;

/// What clients make the server hold.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Held {
    /// Memory in all, bytes.
    pub memory: Bytes,
    /// That of connections on which no user has logged on, bytes.
    pub before_logon: Bytes,
    /// Each resource.
    pub resources: Vec<Usage>,
    /// The users that hold most memory.
    pub users: Vec<Share>,
    /// The client addresses that hold most memory.
    pub addresses: Vec<Share>,
}

/// An amount of memory and its limit, bytes.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Bytes {
    /// Held now.
    pub held: u64,
    /// The limit.
    pub bound: u64,
}

/// A resource.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Usage {
    /// What it is.
    pub name: String,
    /// `bytes` or `count`.
    pub unit: String,
    /// How much is held.
    pub held: u64,
    /// The limit; null where memory alone is the limit.
    pub bound: Option<u64>,
}

/// The memory of one user or address, bytes.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Share {
    /// The user, or the address.
    pub name: String,
    /// Held now.
    pub held: u64,
    /// What it may hold at this moment.
    pub bound: u64,
}

impl Usage {
    /// An amount of it for a person.
    pub(super) fn shown(&self, amount: u64) -> String {
        if self.unit == "bytes" { size(amount) } else { amount.to_string() }
    }
}

impl From<Report> for Held {
    fn from(report: Report) -> Held {
        let resource = |(resource, usage): (accounting::Resource, accounting::Usage)| Usage {
            name: resource.name().into(),
            unit: if resource.unit() == Unit::Bytes { "bytes" } else { "count" }.into(),
            held: usage.held as u64,
            bound: (usage.bound != usize::MAX).then_some(usage.bound as u64),
        };
        let share = |(name, usage): (String, accounting::Usage)| Share {
            name,
            held: usage.held as u64,
            bound: usage.bound as u64,
        };
        Held {
            memory: report.memory.into(),
            before_logon: report.newcomers.into(),
            resources: report.resources.into_iter().map(resource).collect(),
            users: report.users.into_iter().map(share).collect(),
            addresses: report.addresses.into_iter().map(share).collect(),
        }
    }
}

impl From<accounting::Usage> for Bytes {
    fn from(usage: accounting::Usage) -> Bytes {
        Bytes { held: usage.held as u64, bound: usage.bound as u64 }
    }
}
