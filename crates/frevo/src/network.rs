//! The network interfaces that are reported to clients, which can open channels over several of them.
//!
//! Speed and number of queues come from the kernel (`/sys/class/net`) unless `interfaces` in smb.conf sets them.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use server::interfaces::{Interface, Interfaces};

use smbconf::InterfaceChoice;
use smbconf::interfaces::{self, serving};

/// How long a list of interfaces is cached, because clients may query it as often as they like.
const FRESH: Duration = Duration::from_secs(5);
/// Assumed speed in bits per second of interfaces that do not report one, such as loopback or a bridge. Samba assumes
/// the same.
pub(crate) const UNKNOWN_SPEED: u64 = 1_000_000_000;

/// The served interfaces.
pub(crate) struct Network {
    /// `interfaces`; empty means all.
    choices: Vec<InterfaceChoice>,
    /// The addresses on which the server listens.
    bound: Vec<SocketAddr>,
    last: Mutex<Option<(Instant, Vec<Interface>)>>,
}

impl Network {
    /// Creates the value for a server that listens on `bound`.
    pub(crate) fn new(choices: Vec<InterfaceChoice>, bound: Vec<SocketAddr>) -> Self {
        Network { choices, bound, last: Mutex::new(None) }
    }

    fn look(&self) -> Vec<Interface> {
        let all = interfaces::interfaces().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the network interfaces");
            Vec::new()
        });
        let served = serving(&self.bound, &all);
        served.into_iter().filter_map(|interface| self.describe(interface)).collect()
    }

    /// Describes an interface; `None` if `interfaces` excludes it.
    fn describe(&self, interface: &interfaces::Interface) -> Option<Interface> {
        let matches = |choice: &&InterfaceChoice| choice.pattern.matches(&interface.name, interface.address);
        let choice = self.choices.iter().find(matches);
        if choice.is_none() && !self.choices.is_empty() {
            return None;
        }
        let kernel = std::path::Path::new("/sys/class/net").join(&interface.name);
        let speed = choice.and_then(|choice| choice.speed);
        let rss = choice.and_then(|choice| choice.rss);
        Some(Interface {
            index: choice.and_then(|choice| choice.index).unwrap_or(interface.index),
            address: interface.address,
            speed: speed.or_else(|| link_speed(&kernel)).unwrap_or(UNKNOWN_SPEED),
            rss: rss.unwrap_or_else(|| receive_queues(&kernel) > 1),
        })
    }
}

impl Interfaces for Network {
    fn list(&self) -> Vec<Interface> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((when, list)) if when.elapsed() < FRESH => list.clone(),
            _ => {
                let list = self.look();
                *last = Some((Instant::now(), list.clone()));
                list
            }
        }
    }
}

/// Reads the speed in bits per second. The file contains megabits per second, or -1 (or an error) if the driver does
/// not report it.
pub(crate) fn link_speed(kernel: &std::path::Path) -> Option<u64> {
    let text = std::fs::read_to_string(kernel.join("speed")).ok()?;
    text.trim().parse::<u64>().ok().filter(|speed| *speed > 0)?.checked_mul(1_000_000)
}

/// Counts the receive queues of an interface.
pub(crate) fn receive_queues(kernel: &std::path::Path) -> usize {
    let Ok(queues) = std::fs::read_dir(kernel.join("queues")) else { return 0 };
    queues.flatten().filter(|queue| queue.file_name().as_encoded_bytes().starts_with(b"rx-")).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use smbconf::InterfacePattern;

    #[test]
    fn speed_and_queues_are_read_from_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let kernel = directory.path();
        assert_eq!((link_speed(kernel), receive_queues(kernel)), (None, 0));
        for queue in ["rx-0", "rx-1", "tx-0"] {
            std::fs::create_dir_all(kernel.join("queues").join(queue)).unwrap();
        }
        for (text, expected) in [("2500\n", Some(2_500_000_000)), ("-1\n", None), ("0\n", None), ("", None)] {
            std::fs::write(kernel.join("speed"), text).unwrap();
            assert_eq!(link_speed(kernel), expected, "{text:?}");
        }
        assert_eq!(receive_queues(kernel), 2);
    }

    #[test]
    fn the_configuration_selects_and_overrides_interfaces() {
        let bound = vec!["127.0.0.1:445".parse().unwrap()];
        let choice = |name: &str| InterfaceChoice {
            pattern: InterfacePattern::Name(name.into()),
            speed: Some(7),
            rss: Some(true),
            index: Some(9),
        };
        assert_eq!(Network::new(vec![choice("no-such")], bound.clone()).list(), []);
        let address = "127.0.0.1".parse().unwrap();
        let described = Interface { index: 9, address, speed: 7, rss: true };
        assert_eq!(Network::new(vec![choice("no-such"), choice("lo")], bound.clone()).list(), [described]);
        let plain = Network::new(Vec::new(), bound).list();
        assert!(
            plain.iter().all(|interface| interface.address == address && interface.index > 0 && interface.speed > 0)
        );
        assert_eq!(plain.len(), 1);
    }
}
