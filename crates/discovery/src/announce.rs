//! Announces the server on its links, and follows them.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::link::{Addresses, Link};
use crate::{avahi, llmnr, mdns, netbios, wsd};

/// The links with their addresses.
pub type Links = BTreeMap<Link, Addresses>;

/// How long to wait after an error, such as that another program uses a port.
const RETRY: Duration = Duration::from_secs(30);

/// The protocols in use, each with the names that it announces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Announced {
    /// Multicast DNS.
    pub mdns: Option<mdns::Host>,
    /// WS-Discovery.
    pub ws_discovery: Option<wsd::Host>,
    /// The NetBIOS name service.
    pub netbios: Option<netbios::Host>,
    /// LLMNR.
    pub llmnr: Option<llmnr::Host>,
}

/// Announces the server on `links` until the sender of `announced` is dropped. Then it says goodbye. Without `binder`,
/// there is no NetBIOS name service.
pub async fn announce(
    mut announced: watch::Receiver<Announced>,
    links: watch::Receiver<Links>,
    binder: Option<netbios::Binder>,
) {
    loop {
        let now = announced.borrow_and_update().clone();
        let (active, ending) = watch::channel(());
        let mut protocols = JoinSet::new();
        if let Some(host) = now.mdns {
            protocols.spawn(multicast_dns(host, links.clone(), ending.clone()));
        }
        if let Some(host) = now.ws_discovery {
            protocols.spawn(ws_discovery(host, links.clone(), ending.clone()));
        }
        if let Some((host, binder)) = now.netbios.zip(binder.clone()) {
            protocols.spawn(netbios_names(host, binder, links.clone(), ending.clone()));
        }
        if let Some(host) = now.llmnr {
            protocols.spawn(link_local_names(host, links.clone(), ending));
        }
        let changed = announced.changed().await;
        drop(active);
        while protocols.join_next().await.is_some() {}
        if changed.is_err() {
            return;
        }
    }
}

/// Waits until the sender of `ending` is dropped.
pub(crate) async fn ended(ending: &mut watch::Receiver<()>) {
    while ending.changed().await.is_ok() {}
}

async fn ws_discovery(host: wsd::Host, links: watch::Receiver<Links>, mut ending: watch::Receiver<()>) {
    let start = |link: Link, addresses| {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // The number of the instance has 32 bits.
        wsd::serve(link, host.clone(), seconds as u32, addresses)
    };
    on_links("WS-Discovery", links, ended(&mut ending), start).await;
}

async fn netbios_names(
    host: netbios::Host,
    binder: netbios::Binder,
    links: watch::Receiver<Links>,
    mut ending: watch::Receiver<()>,
) {
    let start = |link: Link, addresses| netbios::serve(link, host.clone(), binder.clone(), addresses);
    on_links("the NetBIOS name service", links, ended(&mut ending), start).await;
}

async fn link_local_names(host: llmnr::Host, links: watch::Receiver<Links>, mut ending: watch::Receiver<()>) {
    let start = |link: Link, addresses| llmnr::serve(link, host.clone(), addresses);
    on_links("LLMNR", links, ended(&mut ending), start).await;
}

/// Registers the services with avahi while it runs, and otherwise answers for them.
async fn multicast_dns(host: mdns::Host, links: watch::Receiver<Links>, mut ending: watch::Receiver<()>) {
    let mut some = links.clone();
    tokio::select! {
        // A server for this host alone has nothing to ask avahi.
        _ = some.wait_for(|links| !links.is_empty()) => {}
        () = ended(&mut ending) => return,
    }
    drop(some);
    let mut avahi = avahi::presence();
    loop {
        let present = *avahi.borrow_and_update();
        let changed = async { avahi.changed().await.is_err() };
        let mut ended_too = ending.clone();
        let until = async {
            tokio::select! {
                // The task that looks for avahi has ended, so the server answers itself.
                lost = changed => if lost { ended(&mut ended_too).await },
                () = ended(&mut ending) => {}
            }
        };
        if present {
            avahi::register(&host, links.clone(), until).await;
        } else {
            let start = |link: Link, addresses| mdns::serve(link, host.clone(), addresses);
            on_links("multicast DNS", links.clone(), until, start).await;
        }
        if ending.has_changed().is_err() {
            return;
        }
    }
}

/// Runs a protocol's task on each link until `until` has passed.
async fn on_links<S, T>(
    protocol: &'static str,
    mut links: watch::Receiver<Links>,
    until: impl Future<Output = ()>,
    start: S,
) where
    S: Fn(Link, watch::Receiver<Addresses>) -> T + Clone + Send + Sync,
    T: Future<Output = io::Result<()>> + Send,
{
    tokio::pin!(until);
    let mut running: BTreeMap<Link, watch::Sender<Addresses>> = BTreeMap::new();
    let mut tasks = futures_util::stream::FuturesUnordered::new();
    loop {
        let now = links.borrow_and_update().clone();
        running.retain(|link, _| now.contains_key(link));
        for (link, addresses) in now {
            match running.get(&link) {
                Some(sender) => {
                    sender.send_if_modified(|former| {
                        let changed = *former != addresses;
                        *former = addresses;
                        changed
                    });
                }
                None => {
                    let (sender, receiver) = watch::channel(addresses);
                    running.insert(link.clone(), sender);
                    tasks.push(keep(protocol, link, receiver, start.clone()));
                }
            }
        }
        let changed = async {
            if links.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::pin!(changed);
        loop {
            tokio::select! {
                () = &mut changed => break,
                Some(()) = futures_util::StreamExt::next(&mut tasks) => {}
                () = &mut until => {
                    running.clear();
                    while futures_util::StreamExt::next(&mut tasks).await.is_some() {}
                    return;
                }
            }
        }
    }
}

/// Runs a protocol's task on a link, again after each error, until the sender of `addresses` is dropped.
async fn keep<S, T>(protocol: &str, link: Link, mut addresses: watch::Receiver<Addresses>, start: S)
where
    S: Fn(Link, watch::Receiver<Addresses>) -> T,
    T: Future<Output = io::Result<()>>,
{
    let mut logged = String::new();
    while let Err(error) = start(link.clone(), addresses.clone()).await {
        let error = error.to_string();
        if error != logged {
            tracing::warn!(link = link.name, error, "{protocol} does not announce the server; the server tries again");
            logged = error;
        }
        let gone = async { while addresses.changed().await.is_ok() {} };
        if tokio::time::timeout(RETRY, gone).await.is_ok() {
            return;
        }
    }
}
