//! Announces the server on the networks that it serves.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use discovery::link::{Addresses, Link};
use discovery::{Announced, Links, llmnr, mdns, netbios, wsd};
use server::accounts::DomainSid;
use server::policy::{Policy, Share};
use smbconf::Daemon;
use smbconf::interfaces::{Interface, interfaces};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::notifications::{self, SETTLE};
use super::{NETBIOS_PORT, SMB_PORT};
use crate::network::Network;

/// When to list the interfaces again if the kernel does not report changes.
const POLL: Duration = Duration::from_secs(5);
/// How long the goodbye may take when the server stops.
const GOODBYE_TIME: Duration = Duration::from_secs(1);
/// The port of the record for Time Machine, which has no meaning. Macs expect this one.
const TIME_MACHINE_PORT: u16 = 9;
/// The most shares for Time Machine that one record names, so that it fits into a packet.
const MOST_TIME_MACHINES: usize = 8;

/// The announcements of the running server.
pub(super) struct Discovery {
    network: Arc<Network>,
    /// Identifies the server to clients of WS-Discovery, also after a restart.
    machine: DomainSid,
    /// Whether the process can serve NetBIOS names.
    has_netbios: bool,
    tasks: Mutex<Option<Tasks>>,
}

struct Tasks {
    announced: watch::Sender<Announced>,
    announcing: JoinHandle<()>,
    following: JoinHandle<()>,
}

impl Discovery {
    /// Starts to follow the interfaces. Nothing is announced yet. Without `binder`, NetBIOS names are never served.
    pub(super) fn start(network: Arc<Network>, machine: DomainSid, binder: Option<netbios::Binder>) -> Discovery {
        let has_netbios = binder.is_some();
        let (announced, links) = (watch::Sender::new(Announced::default()), watch::Sender::new(Links::new()));
        let announcing = tokio::spawn(discovery::announce(announced.subscribe(), links.subscribe(), binder));
        let following = tokio::spawn(follow(network.clone(), links));
        Discovery { network, machine, has_netbios, tasks: Mutex::new(Some(Tasks { announced, announcing, following })) }
    }

    /// Announces the server by this configuration.
    pub(super) fn configure(&self, policy: &Policy, daemon: &Daemon) {
        let new = self.announced_by(policy, daemon, &smbconf::host::host_name());
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tasks) = &*tasks else { return };
        tasks.announced.send_if_modified(|former| {
            let changed = *former != new;
            *former = new;
            changed
        });
    }

    /// Says goodbye and ends the announcements.
    pub(super) async fn stop(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Tasks { announced, announcing, following }) = tasks else { return };
        drop(announced);
        if tokio::time::timeout(GOODBYE_TIME, announcing).await.is_err() {
            tracing::debug!("the goodbye of the announcements took too long");
        }
        following.abort();
    }

    fn announced_by(&self, policy: &Policy, daemon: &Daemon, host_name: &str) -> Announced {
        let ports: Vec<u16> = self.network.bound().iter().map(SocketAddr::port).collect();
        let has_standard = ports.contains(&SMB_PORT);
        let has_netbios = self.has_netbios && (has_standard || ports.contains(&NETBIOS_PORT));
        let netbios = (daemon.netbios_name_service && has_netbios).then(|| netbios_names(policy, daemon));
        let llmnr = daemon.llmnr.then(|| link_local_names(policy, daemon, host_name));
        let port = ports.into_iter().find(|port| *port != NETBIOS_PORT);
        let port = if has_standard { Some(SMB_PORT) } else { port };
        let mdns = port.filter(|_| daemon.multicast_dns_register).map(|port| {
            let host = host_name.split('.').next().unwrap_or_default();
            let instance = if daemon.mdns_host_name { host } else { &policy.netbios_name };
            multicast_dns(host, instance, port, policy)
        });
        // WS-Discovery has no port, and Windows uses the standard one.
        let ws_discovery = (daemon.ws_discovery && has_standard).then(|| self.ws_discovery(policy)).flatten();
        Announced { mdns, ws_discovery, netbios, llmnr }
    }

    fn ws_discovery(&self, policy: &Policy) -> Option<wsd::Host> {
        let name = policy.netbios_name.clone();
        let group = match &policy.membership {
            Some(membership) => wsd::Group::Domain(membership.workgroup.clone()),
            None => wsd::Group::Workgroup(policy.workgroup.clone()),
        };
        let hash = digest(&SHA256, format!("WS-Discovery {} {name}", self.machine).as_bytes());
        let uuid = hash.as_ref().first_chunk().copied()?;
        match wsd::Host::new(name, group, uuid) {
            Ok(host) => Some(host),
            Err(error) => {
                tracing::warn!(?error, "WS-Discovery cannot announce `netbios name` or `workgroup`; change the name");
                None
            }
        }
    }
}

/// Returns the names of the server for the NetBIOS name service.
fn netbios_names(policy: &Policy, daemon: &Daemon) -> netbios::Host {
    let group = policy.membership.as_ref().map_or(&policy.workgroup, |membership| &membership.workgroup);
    let names: Vec<String> = std::iter::once(&policy.netbios_name).chain(&daemon.netbios_aliases).cloned().collect();
    let (host, refused) = netbios::Host::new(&names, group, &daemon.netbios_scope);
    for netbios::Refused { name, reason } in refused {
        tracing::warn!(name, reason, "a name cannot be registered by the NetBIOS name service; change it in smb.conf");
    }
    host
}

/// Returns the names of the server for LLMNR: the host's name first, which is the one of its addresses.
fn link_local_names(policy: &Policy, daemon: &Daemon, host_name: &str) -> llmnr::Host {
    let host = host_name.split('.').next().unwrap_or_default().to_owned();
    let names: Vec<String> =
        [host, policy.netbios_name.clone()].into_iter().chain(daemon.netbios_aliases.iter().cloned()).collect();
    let (host, refused) = llmnr::Host::new(&names);
    for name in refused {
        tracing::warn!(name, "LLMNR cannot answer for a name; a name has no dots and at most 63 bytes");
    }
    host
}

fn multicast_dns(host: &str, instance: &str, port: u16, policy: &Policy) -> mdns::Host {
    let service = |kind: &str, port, text: &[&str]| mdns::Service {
        kind: kind.to_owned(),
        port,
        text: text.iter().map(|text| (*text).to_owned()).collect(),
    };
    // macOS selects the icon of the server by the model.
    let model = format!("model={}", policy.mac.model);
    let mut services = vec![service("_smb._tcp", port, &[]), service("_device-info._tcp", 0, &[&model])];
    let disks = time_machines(policy);
    if !disks.is_empty() {
        let text = std::iter::once("sys=adVF=0x100".to_owned()).chain(disks).collect();
        services.push(mdns::Service { kind: "_adisk._tcp".to_owned(), port: TIME_MACHINE_PORT, text });
    }
    mdns::Host { name: host.to_owned(), instance: instance.to_owned(), services }
}

/// Returns the entries of the record by which Macs find the shares for Time Machine.
fn time_machines(policy: &Policy) -> Vec<String> {
    let is_one = |share: &Share| share.available && share.mac.as_ref().is_some_and(|mac| mac.time_machine);
    let names = policy.shares.values().filter(|share| is_one(share)).map(|share| share.name.as_str());
    let entry = |(number, name)| format!("dk{number}=adVN={name},adVF=0x82");
    names.take(MOST_TIME_MACHINES).enumerate().map(entry).collect()
}

/// Sends the links whenever they have changed.
async fn follow(network: Arc<Network>, links: watch::Sender<Links>) {
    let mut changes = network.changes();
    // The runtime has no type for this kind of datagram socket, and waits for all kinds in the same way.
    let notifications = notifications::open().and_then(|socket| UdpSocket::from_std(socket.into()));
    let notifications = notifications.inspect_err(|error| {
        tracing::warn!(%error, "changes of network interfaces are noticed late: the kernel does not report them");
    });
    let notifications = notifications.ok();
    loop {
        match tokio::task::spawn_blocking(interfaces).await {
            Ok(Ok(all)) => {
                let now = served_links(&network.served(&all), &all);
                links.send_if_modified(|former| {
                    let changed = *former != now;
                    *former = now;
                    changed
                });
            }
            Ok(Err(error)) => tracing::warn!(%error, "cannot list the network interfaces"),
            Err(_) => return,
        }
        tokio::select! {
            () = changed(notifications.as_ref()) => {}
            Ok(()) = changes.changed() => {}
        }
    }
}

/// Waits until interfaces may have changed.
async fn changed(notifications: Option<&UdpSocket>) {
    let Some(notifications) = notifications else { return tokio::time::sleep(POLL).await };
    // An error means that the kernel had to drop some notifications.
    let _ = notifications.recv(&mut [0; 64]).await;
    tokio::time::sleep(SETTLE).await;
    notifications::read(notifications);
}

/// Returns the links of the served addresses. The loopback interface is not one, and packets on an interface without
/// multicast would reach no host.
fn served_links(served: &[&Interface], all: &[Interface]) -> Links {
    let own: Arc<[IpAddr]> = all.iter().map(|interface| interface.address).collect();
    let mut links = BTreeMap::new();
    for interface in served.iter().filter(|interface| interface.multicast && !interface.loopback) {
        // An address with a label, such as `eth0:1`, is one of the interface.
        let name = interface.name.split(':').next().unwrap_or_default().to_owned();
        let link = Link { name, index: interface.index };
        let addresses = links.entry(link).or_insert_with(|| Addresses { served: Vec::new(), own: own.clone() });
        addresses.served.push(discovery::link::Network { address: interface.address, prefix: interface.prefix });
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::policy::MacPolicy;
    use smbconf::{InterfaceChoice, InterfacePattern};

    fn interface(name: &str, index: u32, address: &str) -> Interface {
        let (loopback, multicast) = (name == "lo", name != "tun0");
        Interface {
            name: name.into(),
            index,
            address: address.parse().unwrap(),
            prefix: 24,
            loopback,
            up: true,
            multicast,
        }
    }

    fn bound(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn a_link_has_its_own_served_addresses() {
        let all = [
            interface("lo", 1, "127.0.0.1"),
            interface("eth0", 2, "192.0.2.5"),
            interface("eth0:1", 2, "192.0.2.6"),
            interface("docker0", 3, "172.17.0.1"),
            interface("tun0", 4, "10.0.0.1"),
        ];
        let links = |bound_to: &[&str], choices: &[&str]| -> Vec<(String, Vec<String>)> {
            let choice = |name: &&str| InterfaceChoice {
                pattern: InterfacePattern::Name((*name).into()),
                speed: None,
                rss: None,
                index: None,
            };
            let network = Network::new(choices.iter().map(choice).collect(), bound(bound_to));
            let shown = |addresses: &Addresses| {
                assert_eq!(addresses.own.len(), all.len());
                addresses.served.iter().map(|network| network.address.to_string()).collect()
            };
            let links = served_links(&network.served(&all), &all);
            links.iter().map(|(link, addresses)| (link.name.clone(), shown(addresses))).collect()
        };
        let eth0 = ("eth0".to_owned(), vec!["192.0.2.5".to_owned(), "192.0.2.6".to_owned()]);
        let docker0 = ("docker0".to_owned(), vec!["172.17.0.1".to_owned()]);
        assert_eq!(links(&["0.0.0.0:445"], &[]), [docker0, eth0.clone()]);
        assert_eq!(links(&["0.0.0.0:445"], &["eth0*"]), [eth0]);
        assert_eq!(links(&["192.0.2.6:445"], &[]), [("eth0".to_owned(), vec!["192.0.2.6".to_owned()])]);
        assert_eq!(links(&["127.0.0.1:445"], &[]), []);
    }

    #[tokio::test]
    async fn the_configuration_says_what_is_announced() {
        let daemon = Daemon { multicast_dns_register: true, ws_discovery: true, ..Daemon::default() };
        let policy = Policy { netbios_name: "FILES".into(), workgroup: "HOME".into(), ..Policy::default() };
        let announced = |bound_to: &[&str], policy: &Policy, daemon: &Daemon| {
            let network = Arc::new(Network::new(Vec::new(), bound(bound_to)));
            Discovery::start(network, DomainSid([1, 2, 3]), None).announced_by(policy, daemon, "files1.example.org")
        };
        let both = announced(&["192.0.2.5:139", "192.0.2.5:4450", "192.0.2.5:445"], &policy, &daemon);
        let mdns = both.mdns.as_ref().expect("multicast DNS");
        assert_eq!((mdns.name.as_str(), mdns.instance.as_str(), mdns.services[0].port), ("files1", "FILES", 445));
        assert!(both.ws_discovery.is_some());
        assert_eq!(
            announced(&["192.0.2.5:139", "192.0.2.5:445"], &policy, &daemon),
            both,
            "it is the same at each start"
        );
        let other = announced(&["192.0.2.5:445"], &Policy { netbios_name: "OTHER".into(), ..policy.clone() }, &daemon);
        assert_ne!(other.ws_discovery, both.ws_discovery);
        let own_port = announced(&["192.0.2.5:4450"], &policy, &daemon);
        assert_eq!((own_port.mdns.map(|host| host.services[0].port), own_port.ws_discovery), (Some(4450), None));
        let host_name = announced(&["192.0.2.5:445"], &policy, &Daemon { mdns_host_name: true, ..daemon.clone() });
        assert_eq!(host_name.mdns.map(|host| host.instance), Some("files1".to_owned()));
        assert_eq!(announced(&["192.0.2.5:445"], &policy, &Daemon::default()), Announced::default());
        let mut backups = Share::new("Backups", "/srv");
        backups.mac = Some(Arc::new(MacPolicy { time_machine: true, ..MacPolicy::default() }));
        let shares = BTreeMap::from([("backups".to_owned(), Arc::new(backups))]);
        let host = announced(&["192.0.2.5:445"], &Policy { shares, ..policy.clone() }, &daemon).mdns.expect("it is on");
        let disks = host.services.iter().find(|service| service.kind == "_adisk._tcp").expect("a disk is announced");
        assert_eq!((disks.port, disks.text.join(" ")), (9, "sys=adVF=0x100 dk0=adVN=Backups,adVF=0x82".to_owned()));
        let illegal = Policy { netbios_name: "A/B".into(), ..policy };
        assert_eq!(announced(&["192.0.2.5:445"], &illegal, &daemon).ws_discovery, None);
    }

    #[tokio::test]
    async fn the_names_of_old_protocols_are_announced_only_on_request() {
        let policy = Policy { netbios_name: "FILES".into(), workgroup: "HOME".into(), ..Policy::default() };
        let announced = |bound_to: &str, daemon: &Daemon, binder: Option<netbios::Binder>| {
            let network = Arc::new(Network::new(Vec::new(), bound(&[bound_to])));
            Discovery::start(network, DomainSid([1, 2, 3]), binder).announced_by(&policy, daemon, "files1.example.org")
        };
        let binder = || Some(netbios::Binder::new().0);
        let on = Daemon {
            netbios_name_service: true,
            llmnr: true,
            netbios_aliases: vec!["OLD".into(), "ÄLTER".into()],
            ..Daemon::default()
        };
        assert_eq!(announced("192.0.2.5:445", &Daemon::default(), binder()), Announced::default());
        let all = announced("192.0.2.5:445", &on, binder());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(all.netbios, Some(netbios::Host::new(&names(&["FILES", "OLD"]), "HOME", "").0));
        assert_eq!(all.llmnr, Some(llmnr::Host::new(&names(&["files1", "FILES", "OLD", "ÄLTER"])).0));
        assert_eq!(announced("192.0.2.5:139", &on, binder()).netbios, all.netbios);
        assert_eq!(announced("192.0.2.5:4450", &on, binder()).netbios, None, "clients would not find the port");
        assert_eq!(announced("192.0.2.5:445", &on, None).netbios, None, "the port needs a privilege");
    }
}
