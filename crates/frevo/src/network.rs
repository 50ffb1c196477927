//! The network interfaces that are reported to clients, which can open channels over several of them.
//!
//! Speed and number of queues come from the kernel (`/sys/class/net`) unless `interfaces` in smb.conf sets them.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use server::interfaces::{Interface, Interfaces};
use tokio::sync::watch;

use smbconf::InterfaceChoice;
use smbconf::interfaces::{self, serving};

/// How long a list of interfaces is cached, because clients may query it as often as they like.
const FRESH: Duration = Duration::from_secs(5);
/// Assumed speed in bits per second of interfaces that do not report one, such as loopback or a bridge. Samba assumes
/// the same.
pub(crate) const UNKNOWN_SPEED: u64 = 1_000_000_000;

/// The served interfaces.
pub(crate) struct Network {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

struct State {
    /// `interfaces`; empty means all.
    choices: Vec<InterfaceChoice>,
    /// The addresses on which the server listens.
    bound: Vec<SocketAddr>,
    last: Option<(Instant, Vec<Interface>)>,
}

impl Network {
    /// Creates the value for a server that listens on `bound`.
    pub(crate) fn new(choices: Vec<InterfaceChoice>, bound: Vec<SocketAddr>) -> Self {
        Network { state: Mutex::new(State { choices, bound, last: None }), changed: watch::Sender::new(()) }
    }

    /// Changes `interfaces`.
    pub(crate) fn choose(&self, choices: Vec<InterfaceChoice>) {
        let mut state = self.state();
        *state = State { choices, bound: std::mem::take(&mut state.bound), last: None };
        self.changed.send_replace(());
    }

    /// Changes the addresses on which the server listens.
    pub(crate) fn listen_on(&self, bound: Vec<SocketAddr>) {
        let mut state = self.state();
        *state = State { choices: std::mem::take(&mut state.choices), bound, last: None };
        self.changed.send_replace(());
    }

    /// Returns a receiver that reports changes of `interfaces` and of the addresses on which the server listens.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns the addresses on which the server listens.
    pub(crate) fn bound(&self) -> Vec<SocketAddr> {
        self.state().bound.clone()
    }

    /// Returns the served addresses among `all`, with their interfaces.
    pub(crate) fn served<'i>(&self, all: &'i [interfaces::Interface]) -> Vec<&'i interfaces::Interface> {
        let state = self.state();
        serving(&state.bound, all).into_iter().filter(|interface| state.admits(interface)).collect()
    }

    /// Returns `interfaces`.
    pub(crate) fn choices(&self) -> Vec<InterfaceChoice> {
        self.state().choices.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn look(&self) -> Vec<Interface> {
        let all = interfaces::interfaces().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the network interfaces");
            Vec::new()
        });
        let served = serving(&self.bound, &all);
        served
            .into_iter()
            .filter(|interface| self.admits(interface))
            .map(|interface| self.describe(interface))
            .collect()
    }

    fn choice(&self, interface: &interfaces::Interface) -> Option<&InterfaceChoice> {
        self.choices.iter().find(|choice| choice.pattern.matches(&interface.name, interface.address))
    }

    /// Returns whether `interfaces` admits an interface.
    fn admits(&self, interface: &interfaces::Interface) -> bool {
        self.choices.is_empty() || self.choice(interface).is_some()
    }

    fn describe(&self, interface: &interfaces::Interface) -> Interface {
        let choice = self.choice(interface);
        let kernel = std::path::Path::new("/sys/class/net").join(&interface.name);
        let speed = choice.and_then(|choice| choice.speed);
        let rss = choice.and_then(|choice| choice.rss);
        Interface {
            index: choice.and_then(|choice| choice.index).unwrap_or(interface.index),
            address: interface.address,
            speed: speed.or_else(|| link_speed(&kernel)).unwrap_or(UNKNOWN_SPEED),
            rss: rss.unwrap_or_else(|| receive_queues(&kernel) > 1),
        }
    }
}

impl Interfaces for Network {
    fn list(&self) -> Vec<Interface> {
        let mut state = self.state();
        match &state.last {
            Some((when, list)) if when.elapsed() < FRESH => list.clone(),
            _ => {
                let list = state.look();
                state.last = Some((Instant::now(), list.clone()));
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

    #[test]
    fn a_change_is_visible_at_once() {
        let network = Network::new(Vec::new(), vec!["127.0.0.1:445".parse().unwrap()]);
        assert_eq!(network.list().len(), 1);
        network.listen_on(Vec::new());
        assert_eq!(network.list(), []);
        network.listen_on(vec!["127.0.0.1:445".parse().unwrap()]);
        assert_eq!(network.list().len(), 1);
        let pattern = InterfacePattern::Name("no-such".into());
        network.choose(vec![InterfaceChoice { pattern, speed: None, rss: None, index: None }]);
        assert_eq!(network.list(), []);
    }
}
