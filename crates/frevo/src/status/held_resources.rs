//! The resources that the server holds for clients, in their JSON form.

use serde::{Deserialize, Serialize};
use server::accounting::{self, Report, Unit};

use super::show::size;

/// The resources that the server holds for clients.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct HeldResources {
    /// Total memory, bytes.
    pub memory: Bytes,
    /// Memory of connections on which no user has logged on, bytes.
    pub before_logon: Bytes,
    /// The individual resources.
    pub resources: Vec<Usage>,
    /// The users that hold the most memory.
    pub users: Vec<Share>,
    /// The client addresses that hold the most memory.
    pub addresses: Vec<Share>,
}

impl HeldResources {
    /// Returns the current amount of a resource; `None` if there is none with this name.
    pub fn total(&self, name: &str) -> Option<u64> {
        self.resources.iter().find(|usage| usage.name == name).map(|usage| usage.held)
    }
}

/// An amount of memory and its limit, in bytes.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Bytes {
    /// Current amount.
    pub held: u64,
    /// The limit.
    pub bound: u64,
}

/// A resource.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Usage {
    /// The resource's name.
    pub name: String,
    /// `bytes` or `count`.
    pub unit: String,
    /// Current amount.
    pub held: u64,
    /// The limit; null if only the memory limit applies.
    pub bound: Option<u64>,
}

/// The memory of one user or address, in bytes.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Share {
    /// The user, or the address.
    pub name: String,
    /// Current amount.
    pub held: u64,
    /// The current limit.
    pub bound: u64,
}

impl Usage {
    /// Formats an amount of the resource.
    pub(super) fn shown(&self, amount: u64) -> String {
        if self.unit == "bytes" { size(amount) } else { amount.to_string() }
    }
}

impl From<Report> for HeldResources {
    fn from(report: Report) -> HeldResources {
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
        HeldResources {
            memory: report.memory.into(),
            before_logon: report.unauthenticated.into(),
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
