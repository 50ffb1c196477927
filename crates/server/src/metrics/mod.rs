//! Numbers for monitoring: requests with their times, logons, and connections that the server ends, since its start.
//!
//! A request adds to counters of its processor only, without a lock. The numbers of all processors are added up when
//! somebody asks for them. Presentation is left to the daemon.

mod requests;
mod shares;
mod tally;
mod users;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proto::smb2::header::Command;
use proto::status::Status;

use self::requests::Counters;
pub use self::requests::{BOUNDS, Requests};
pub(crate) use self::shares::ShareCounters;
pub use self::shares::{ShareNumbers, Shares};
use self::tally::Tally;
pub(crate) use self::users::Users;
use crate::per_processor::PerProcessor;

/// Number of commands that are counted on their own: those of [MS-SMB2] 2.2.1.
const COMMANDS: usize = 0x13;

/// The numbers of a server.
pub struct Metrics {
    requests: PerProcessor<[Counters; COMMANDS]>,
    /// The numbers of the shares.
    pub shares: Shares,
    logons: Tally<&'static str>,
    refused_logons: Tally<u32>,
    ended: Tally<&'static str>,
    connections: AtomicU64,
    breaks: AtomicU64,
}

/// The numbers at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    /// The requests of each command that has had any.
    pub requests: Vec<(Command, Requests)>,
    /// The numbers of each share that was connected to.
    pub shares: Vec<(String, ShareNumbers)>,
    /// Logons that succeeded, by kind of user: `user`, `guest`, `anonymous`.
    pub logons: Vec<(&'static str, u64)>,
    /// Logons that were refused, by status.
    pub refused_logons: Vec<(Status, u64)>,
    /// Connections that the server has ended, by reason.
    pub ended: Vec<(&'static str, u64)>,
    /// Connections that clients have made.
    pub connections: u64,
    /// Notifications of oplock and lease breaks.
    pub breaks: u64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            requests: PerProcessor::new(|_| Default::default()),
            shares: Shares::default(),
            logons: Tally::default(),
            refused_logons: Tally::default(),
            ended: Tally::default(),
            connections: AtomicU64::new(0),
            breaks: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// Adds a request that took this long.
    pub(crate) fn request(&self, command: Command, took: Duration, failed: bool) {
        if let Some(counters) = self.requests.own().get(usize::from(command.0)) {
            counters.add(took, failed);
        }
    }

    /// Adds a logon by this kind of user.
    pub(crate) fn logon(&self, kind: &'static str) {
        self.logons.add(kind);
    }

    /// Adds a logon that was refused with this status.
    pub(crate) fn refused_logon(&self, status: Status) {
        self.refused_logons.add(status.0);
    }

    /// Adds a connection that a client has made.
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a connection that the server has ended for this reason.
    pub(crate) fn ended(&self, reason: &'static str) {
        self.ended.add(reason);
    }

    /// Adds the notification of an oplock or lease break.
    pub(crate) fn broke(&self) {
        self.breaks.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds up the numbers. They may be of slightly different moments.
    pub fn numbers(&self) -> Numbers {
        let mut requests = Vec::new();
        for command in 0..COMMANDS {
            let mut sum = Requests::default();
            self.requests.iter().for_each(|processor| processor[command].add_to(&mut sum));
            if sum.count() > 0 {
                requests.push((Command(command as u16), sum));
            }
        }
        let statuses = self.refused_logons.counts();
        Numbers {
            requests,
            shares: self.shares.numbers(),
            logons: self.logons.counts(),
            refused_logons: statuses.into_iter().map(|(status, count)| (Status(status), count)).collect(),
            ended: self.ended.counts(),
            connections: self.connections.load(Ordering::Relaxed),
            breaks: self.breaks.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_threads_are_added_up() {
        let metrics = Metrics::default();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let metrics = &metrics;
                scope.spawn(move || {
                    for number in 0..100 {
                        metrics.request(Command::READ, Duration::from_micros(thread * 100), number % 10 == 0);
                        metrics.logon("user");
                    }
                    metrics.request(Command(0x7fff), Duration::ZERO, false);
                });
            }
        });
        metrics.refused_logon(Status::LOGON_FAILURE);
        metrics.ended("deadtime");
        let numbers = metrics.numbers();
        let [(Command::READ, reads)] = &numbers.requests[..] else { panic!("{:?}", numbers.requests) };
        assert_eq!((reads.count(), reads.failed), (400, 40));
        assert_eq!(reads.took, Duration::from_micros(100 * (100 + 200 + 300)));
        assert_eq!(numbers.logons, [("user", 400)]);
        assert_eq!(numbers.refused_logons, [(Status::LOGON_FAILURE, 1)]);
        assert_eq!(numbers.ended, [("deadtime", 1)]);
    }
}
