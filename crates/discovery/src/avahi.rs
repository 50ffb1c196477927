//! The multicast DNS daemon avahi, through D-Bus. Where it runs, it answers for all programs of the host.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use tokio::sync::watch;
use zbus::fdo::DBusProxy;
use zbus::{Connection, OwnedObjectPath, Proxy};

use crate::announce::Links;
use crate::mdns::Host;

/// Avahi's name on the bus, and its interfaces.
const AVAHI: &str = "org.freedesktop.Avahi";
const SERVER: &str = "org.freedesktop.Avahi.Server";
const ENTRY_GROUP: &str = "org.freedesktop.Avahi.EntryGroup";
/// The values of AvahiProtocol.
const PROTOCOL_V4: i32 = 0;
const PROTOCOL_V6: i32 = 1;
/// The values of AvahiEntryGroupState at which the names are in use by another host, and at which something failed.
const COLLISION: i32 = 3;
const FAILURE: i32 = 4;
/// The value of AvahiServerState at which the host has a name.
const RUNNING: i32 = 2;
/// The error if another program of this host has registered the name.
const LOCAL_COLLISION: &str = "org.freedesktop.Avahi.CollisionError";
/// The names that are tried.
const MAX_NAMES: u32 = 15;
/// When to try again to reach the bus, or avahi after an error.
const RETRY: Duration = Duration::from_secs(30);

/// Returns whether avahi runs, which is kept up to date by a task.
pub(crate) fn presence() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        while !sender.is_closed() {
            tokio::select! {
                result = observe(&sender) => if let Err(error) = result {
                    tracing::debug!(%error, "cannot ask D-Bus about avahi");
                },
                () = sender.closed() => return,
            }
            sender.send_replace(false);
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = sender.closed() => return,
            }
        }
    });
    receiver
}

/// Sends whether avahi runs, until the connection to the bus ends.
async fn observe(present: &watch::Sender<bool>) -> zbus::Result<()> {
    let connection = Connection::system().await?;
    let bus = DBusProxy::new(&connection).await?;
    let mut changes = bus.receive_name_owner_changed_with_args(&[(0, AVAHI)]).await?;
    present.send_replace(bus.name_has_owner(AVAHI.try_into()?).await?);
    while let Some(change) = changes.next().await {
        present.send_replace(change.args()?.new_owner.is_some());
    }
    Ok(())
}

/// Keeps the services registered on the links until `until` has passed. Then avahi withdraws them.
pub(crate) async fn register(host: &Host, mut links: watch::Receiver<Links>, until: impl Future<Output = ()>) {
    let registering = async {
        let (mut number, mut logged) = (1, String::new());
        loop {
            let ended = match number {
                1..=MAX_NAMES => register_once(host, number, &mut links).await,
                _ => Err(zbus::Error::Failure("other services have the name".into())),
            };
            match ended {
                Ok(Ended::NameTaken) => number += 1,
                Ok(Ended::Changed) => {}
                Err(error) => {
                    let error = error.to_string();
                    if error != logged {
                        tracing::warn!(error, "cannot register with avahi; the server tries again");
                        logged = error;
                    }
                    number = 1;
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    };
    tokio::select! {
        () = until => {}
        () = registering => {}
    }
}

/// Why services are registered anew.
enum Ended {
    /// Another service has the name.
    NameTaken,
    /// The links have changed, or the name of the host.
    Changed,
}

/// Registers the services under the `number`th name, until the links or the name must change. The services are
/// withdrawn when the connection ends.
async fn register_once(host: &Host, number: u32, links: &mut watch::Receiver<Links>) -> zbus::Result<Ended> {
    let connection = Connection::system().await?;
    let server = Proxy::new(&connection, AVAHI, "/", SERVER).await?;
    let mut server_states = server.receive_signal("StateChanged").await?;
    let mut states = SelectAll::new();
    let name = match number {
        1 => host.instance.clone(),
        more => format!("{} #{more}", host.instance),
    };
    let places = places(&links.borrow_and_update());
    // A group has a limited number of entries, which one for all links would exceed.
    for &(index, protocol) in &places {
        let path: OwnedObjectPath = server.call("EntryGroupNew", &()).await?;
        let group = Proxy::new(&connection, AVAHI, path, ENTRY_GROUP).await?;
        states.push(group.receive_signal("StateChanged").await?);
        for service in &host.services {
            let text: Vec<&[u8]> = service.text.iter().map(String::as_bytes).collect();
            // Interface, protocol, flags, name, type, domain, host, port, text. Empty texts are avahi's defaults.
            let entry = (index, protocol, 0_u32, &name, &service.kind, "", "", service.port, text);
            match group.call::<_, _, ()>("AddService", &entry).await {
                Err(zbus::Error::MethodError(error, ..)) if error.as_str() == LOCAL_COLLISION => {
                    return Ok(Ended::NameTaken);
                }
                added => added?,
            }
        }
        group.call::<_, _, ()>("Commit", &()).await?;
    }
    loop {
        tokio::select! {
            state = states.next(), if !places.is_empty() => {
                let Some(state) = state else { return Err(zbus::Error::Failure("the connection has ended".into())) };
                let (state, error): (i32, String) = state.body().deserialize()?;
                match state {
                    COLLISION => return Ok(Ended::NameTaken),
                    FAILURE => return Err(zbus::Error::Failure(error)),
                    _ => {}
                }
            }
            Some(state) = server_states.next() => {
                let (state, _): (i32, String) = state.body().deserialize()?;
                // The services still have the former name of the host.
                if state == RUNNING {
                    return Ok(Ended::Changed);
                }
            }
            changed = links.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await;
                }
                if self::places(&links.borrow_and_update()) != places {
                    return Ok(Ended::Changed);
                }
            }
        }
    }
}

/// Returns the interfaces by index, with the versions of IP that are served there.
fn places(links: &Links) -> BTreeSet<(i32, i32)> {
    let of_link = |(link, addresses): (&crate::link::Link, &crate::link::Addresses)| {
        let index = i32::try_from(link.index).ok();
        let protocols: Vec<i32> = addresses.served.iter().map(|network| protocol(network.address.is_ipv4())).collect();
        protocols.into_iter().filter_map(move |protocol| Some((index?, protocol)))
    };
    links.iter().flat_map(of_link).collect()
}

fn protocol(v4: bool) -> i32 {
    if v4 { PROTOCOL_V4 } else { PROTOCOL_V6 }
}
