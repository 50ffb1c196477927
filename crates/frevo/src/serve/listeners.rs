//! The addresses on which the server listens. With `bind interfaces only` they follow the interfaces of the host.
//!
//! A thread of its own waits for changes, because only it keeps the capability to listen on privileged ports, and
//! because listing interfaces may block. It ends with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::notifications::{self, SETTLE};
use super::{Plan, SMB_PORT};
use crate::listen::{self, Change, Transport};
use crate::network::Network;
use crate::systemd;
use smbconf::interfaces::{Interface, interfaces};
use smbconf::{Daemon, InterfaceChoice};

/// The port to use if the standard one is not available.
const FALLBACK_PORT: u16 = 4450;
/// When to try again to listen on an address, such as one of IPv6 that is still being checked for duplicates.
const RETRY: Duration = Duration::from_secs(5);

/// The sockets of a server that starts.
pub(super) struct Listeners {
    pub(super) sockets: Vec<TcpListener>,
    /// Later changes of them.
    pub(super) changes: mpsc::Receiver<Change>,
    pub(super) interfaces: Interfaces,
}

/// The interfaces of the running server.
pub(super) struct Interfaces {
    pub(super) network: Arc<Network>,
    /// Wakes the thread that follows the interfaces, if there is one.
    wake: Option<Arc<OwnedFd>>,
}

impl Interfaces {
    /// Changes `interfaces`.
    pub(super) fn choose(&self, choices: &[InterfaceChoice]) {
        if self.network.choices() == choices {
            return;
        }
        self.network.choose(choices.to_vec());
        warn_of_absent(choices, &interfaces().unwrap_or_default());
        if let Some(wake) = &self.wake {
            // Fails only if the thread is to wake up in any case.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Listeners {
    /// Takes the sockets of the service manager. If there are none, binds the requested addresses. If no port was
    /// requested, binds port 445 if possible, else 4450. Must be called by the thread that confined the process.
    pub(super) fn start(plan: &Plan, daemon: &Daemon) -> Result<Listeners> {
        let transport = Transport { socket_options: daemon.socket_options.clone(), keepalive: daemon.keepalive };
        let chosen = match plan.args.port {
            Some(port) => vec![port],
            None => daemon.smb_ports.clone(),
        };
        let inherited = systemd::inherited()?;
        if !inherited.is_empty() {
            return Ok(Listeners::fixed(listen::adopt(inherited, &transport)?, daemon));
        }
        if plan.args.bind.is_empty() && daemon.bind_interfaces_only {
            return Listeners::following(daemon, chosen, transport);
        }
        let hosts = match &plan.args.bind[..] {
            [] => every_address(),
            hosts => hosts.to_vec(),
        };
        let asked = plan.args.port.is_some() || plan.config.is_some();
        let sockets = match listen::bind(&on_ports(&hosts, &chosen), &transport) {
            Err(error) if !asked && chosen.contains(&SMB_PORT) => {
                tracing::info!("cannot bind port {SMB_PORT} ({error:#}), using {FALLBACK_PORT}");
                listen::bind(&on_ports(&hosts, &[FALLBACK_PORT]), &transport)?
            }
            result => result?,
        };
        Ok(Listeners::fixed(sockets, daemon))
    }

    /// Returns sockets that stay until the server ends.
    fn fixed(sockets: Vec<TcpListener>, daemon: &Daemon) -> Listeners {
        let bound = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        let network = Arc::new(Network::new(daemon.interfaces.clone(), bound));
        Listeners { sockets, changes: mpsc::channel(1).1, interfaces: Interfaces { network, wake: None } }
    }

    /// Listens on the addresses of `interfaces`, and follows them.
    fn following(daemon: &Daemon, ports: Vec<u16>, transport: Transport) -> Result<Listeners> {
        let network = Arc::new(Network::new(daemon.interfaces.clone(), Vec::new()));
        // Before the first list, so that no change is missed.
        let notifications = notifications::open().inspect_err(|error| {
            tracing::error!(%error, "changes of network interfaces are noticed late: the kernel does not report them");
        });
        let all = interfaces().context("cannot list the network interfaces")?;
        warn_of_absent(&daemon.interfaces, &all);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, changes) = mpsc::channel(16);
        let mut follower = Follower {
            network: network.clone(),
            ports,
            transport,
            notifications: notifications.ok(),
            wake: wake.clone(),
            bound: BTreeMap::new(),
            refused: BTreeSet::new(),
            sender,
        };
        let mut sockets = Vec::new();
        for address in follower.wanted(&all) {
            match listen::bind_one(address, &follower.transport) {
                Ok(socket) => {
                    follower.bound.insert(address, socket.local_addr()?);
                    sockets.push(socket);
                }
                // It has gone, or cannot be used yet.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => follower.refuse(address, &error),
                Err(error) => return Err(error).with_context(|| listen::explain(address)),
            }
        }
        network.listen_on(follower.bound.values().copied().collect());
        let runtime = Handle::current();
        std::thread::Builder::new()
            .name("frevo-addresses".into())
            .spawn(move || {
                localfs::identity::keep_ports();
                let _context = runtime.enter();
                follower.run();
            })
            .context("cannot start a thread")?;
        Ok(Listeners { sockets, changes, interfaces: Interfaces { network, wake: Some(wake) } })
    }
}

/// The thread that follows the interfaces.
struct Follower {
    network: Arc<Network>,
    ports: Vec<u16>,
    transport: Transport,
    notifications: Option<OwnedFd>,
    wake: Arc<OwnedFd>,
    /// The addresses on which the server should listen, and those of its sockets, which differ for port 0.
    bound: BTreeMap<SocketAddr, SocketAddr>,
    /// Those on which it should and cannot, each logged once.
    refused: BTreeSet<SocketAddr>,
    sender: mpsc::Sender<Change>,
}

impl Follower {
    /// Runs until the server no longer accepts changes.
    fn run(mut self) {
        while self.wait().is_ok() && !self.sender.is_closed() {
            match interfaces() {
                Ok(all) => self.update(&all),
                Err(error) => tracing::warn!(%error, "cannot list the network interfaces"),
            }
        }
    }

    /// Waits for a change, or until it is time to try again.
    fn wait(&self) -> io::Result<()> {
        let again = self.notifications.is_none() || !self.refused.is_empty();
        let timeout = again.then(|| Timespec::try_from(RETRY)).and_then(Result::ok);
        let mut sources = vec![PollFd::new(&*self.wake, PollFlags::IN)];
        sources.extend(self.notifications.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        match poll(&mut sources, timeout.as_ref()) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(SETTLE);
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        let Some(socket) = &self.notifications else { return Ok(()) };
        notifications::read(socket);
        Ok(())
    }

    fn wanted(&self, all: &[Interface]) -> BTreeSet<SocketAddr> {
        on_ports(&addresses(&self.network.choices(), all), &self.ports).into_iter().collect()
    }

    fn update(&mut self, all: &[Interface]) {
        let wanted = self.wanted(all);
        self.refused.retain(|address| wanted.contains(address));
        let mut changed = false;
        let (bound, gone) = std::mem::take(&mut self.bound).into_iter().partition(|(key, _)| wanted.contains(key));
        self.bound = bound;
        let gone: BTreeMap<SocketAddr, SocketAddr> = gone;
        for address in gone.into_values() {
            changed = true;
            tracing::info!(%address, "no longer listening: the address has gone, or is not in `interfaces`");
            let _ = self.sender.blocking_send(Change::Remove(address));
        }
        for address in wanted {
            if self.bound.contains_key(&address) {
                continue;
            }
            match listen::bind_one(address, &self.transport) {
                Ok(socket) => {
                    changed = true;
                    self.bound.insert(address, socket.local_addr().unwrap_or(address));
                    self.refused.remove(&address);
                    tracing::info!(%address, "listening");
                    let _ = self.sender.blocking_send(Change::Add(socket));
                }
                Err(error) => self.refuse(address, &error),
            }
        }
        if changed {
            self.network.listen_on(self.bound.values().copied().collect());
        }
    }

    fn refuse(&mut self, address: SocketAddr, error: &io::Error) {
        if self.refused.insert(address) {
            tracing::warn!(%address, %error, "cannot listen on an address yet; the server tries again");
        }
    }
}

/// Returns the addresses of `interfaces` in `all`. As in Samba, those of the loopback interface are among them, for
/// local tools.
fn addresses(choices: &[InterfaceChoice], all: &[Interface]) -> Vec<IpAddr> {
    let chosen = |interface: &&Interface| {
        interface.loopback || choices.is_empty() || choices.iter().any(|choice| choice.matches(interface))
    };
    let link_local = |address: IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let up = all.iter().filter(|interface| interface.up && !link_local(interface.address));
    up.filter(chosen).map(|interface| interface.address).collect()
}

/// Names the elements of `interfaces` that match nothing. An interface may appear later.
fn warn_of_absent(choices: &[InterfaceChoice], all: &[Interface]) {
    for choice in choices.iter().filter(|choice| !all.iter().any(|interface| choice.matches(interface))) {
        let missing = &choice.pattern;
        tracing::warn!(%missing, "an element of `interfaces` matches no address; the server waits for one");
    }
}

fn every_address() -> Vec<IpAddr> {
    let v6 = std::path::Path::new("/proc/net/if_inet6").exists();
    let mut all = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    all.extend(v6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
    all
}

fn on_ports(hosts: &[IpAddr], ports: &[u16]) -> Vec<SocketAddr> {
    ports.iter().flat_map(|&port| hosts.iter().map(move |&host| SocketAddr::new(host, port))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use smbconf::InterfacePattern;

    #[test]
    fn the_addresses_are_those_of_chosen_interfaces_and_of_loopback() {
        let interface = |name: &str, address: &str, up| Interface {
            name: name.into(),
            index: 1,
            address: address.parse().unwrap(),
            prefix: 24,
            loopback: name == "lo",
            up,
            multicast: true,
        };
        let all = [
            interface("lo", "127.0.0.1", true),
            interface("eth0", "192.0.2.5", true),
            interface("eth0", "fe80::1", true),
            interface("eth1", "198.51.100.5", true),
            interface("eth2", "203.0.113.5", false),
        ];
        let check = |names: &[&str], expected: &[&str]| {
            let choice = |name: &&str| InterfaceChoice {
                pattern: InterfacePattern::Name((*name).into()),
                speed: None,
                rss: None,
                index: None,
            };
            let choices: Vec<_> = names.iter().map(choice).collect();
            let found: Vec<String> = addresses(&choices, &all).iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected, "{names:?}");
        };
        check(&[], &["127.0.0.1", "192.0.2.5", "198.51.100.5"]);
        check(&["eth0"], &["127.0.0.1", "192.0.2.5"]);
        check(&["eth2", "absent"], &["127.0.0.1"]);
    }
}
