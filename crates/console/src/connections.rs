//! The connections of browsers, each with limits of number, time and size.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use crate::Console;
use crate::answer::{Arrival, answer};
use crate::guard::Hosts;
use crate::listen::{Listener, Socket, is_trusted, tls};
use crate::source::Source;

/// Maximum number of connections of a listener. Others wait until one ends.
const CONNECTIONS: usize = 64;
/// Maximum number of them from one source, and from the loopback interface, where a proxy may be. Others are closed.
const OF_ONE: usize = 16;
const OF_LOOPBACK: usize = 48;
/// The time limits for the handshake of TLS and for the head of a request, also of a further one.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// The time after which a connection gets no further request.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
/// How long its last request and response may take then.
const GRACE: Duration = Duration::from_secs(60);
/// Maximum bytes of a request's head.
const HEAD_SIZE: usize = 16 * 1024;
/// After an error, no connection is accepted for this long.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves the console until the future is dropped.
pub async fn serve(console: Arc<Console>, listener: Listener) {
    let places = Arc::new(Places { all: Arc::new(Semaphore::new(CONNECTIONS)), taken: Mutex::default() });
    let hosts = Arc::new(listener.hosts);
    loop {
        let Ok(permit) = places.all.clone().acquire_owned().await else { return };
        let client = |from: Option<IpAddr>| {
            let place = places.take(Source::of(from), permit)?;
            Some(Client { console: console.clone(), hosts: hosts.clone(), _place: place })
        };
        let accepted = match &listener.socket {
            Socket::Tcp(socket) => socket.accept().await.map(|(stream, from)| {
                let address = Some(from.ip().to_canonical());
                let Some(client) = client(address) else { return };
                match listener.tls.clone() {
                    None => drop(tokio::spawn(client.serve(stream, Arrival { address, is_secure: false }))),
                    Some(tls) => drop(tokio::spawn(async move {
                        match tokio::time::timeout(HEAD_TIME, tls::accept(&tls, stream)).await {
                            Ok(Ok(Some(stream))) => client.serve(stream, Arrival { address, is_secure: true }).await,
                            Ok(Ok(None)) => debug!(?address, "console: HTTP without TLS was refused"),
                            Ok(Err(error)) => debug!(%error, ?address, "console: TLS"),
                            Err(_) => debug!(?address, "console: no TLS within the time limit"),
                        }
                    })),
                }
            }),
            Socket::Unix(socket, _) => socket.accept().await.map(|(stream, _)| {
                // The mode of the socket is checked when a client connects; this holds for all that ever did.
                if !stream.peer_cred().is_ok_and(|peer| is_trusted(peer.uid())) {
                    return debug!("console: a user without rights was refused at the UNIX socket");
                }
                let Some(client) = client(None) else { return };
                drop(tokio::spawn(client.serve(stream, Arrival { address: None, is_secure: false })));
            }),
        };
        if let Err(error) = accepted {
            // Most likely the process is out of descriptors. The connection stays queued.
            warn!(%error, "console");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The places of a listener.
struct Places {
    all: Arc<Semaphore>,
    /// The connections of each source that has some.
    taken: Mutex<HashMap<Source, usize>>,
}

impl Places {
    /// Takes a place for a connection; `None` if its source has too many.
    fn take(self: &Arc<Self>, source: Source, permit: OwnedSemaphorePermit) -> Option<Place> {
        let most = match source {
            Source::Unix => CONNECTIONS,
            Source::Loopback => OF_LOOPBACK,
            Source::Network(_) => OF_ONE,
        };
        let mut taken = self.taken.lock();
        let count = taken.get(&source).copied().unwrap_or(0);
        if count >= most {
            debug!(?source, "console: too many connections");
            return None;
        }
        taken.insert(source, count + 1);
        Some(Place { places: self.clone(), source, _permit: permit })
    }
}

/// The place of a connection, which becomes free with the value.
struct Place {
    places: Arc<Places>,
    source: Source,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(count) = taken.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.source);
            }
        }
    }
}

struct Client {
    console: Arc<Console>,
    hosts: Arc<Hosts>,
    _place: Place,
}

impl Client {
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, arrival: Arrival) {
        let Client { console, hosts, _place } = self;
        let arrival = Arc::new(arrival);
        let service = service_fn(move |request: Request<Incoming>| {
            let (console, hosts, arrival) = (console.clone(), hosts.clone(), arrival.clone());
            async move { Ok::<_, Infallible>(answer(&console, &hosts, &arrival, request).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_SIZE);
        let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
        let ended = match tokio::time::timeout(CONNECTION_TIME, connection.as_mut()).await {
            Ok(ended) => Some(ended),
            Err(_) => {
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(GRACE, connection).await.ok()
            }
        };
        if let Some(Err(error)) = ended {
            debug!(%error, "console");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_does_not_take_all_places() {
        let all = Arc::new(Semaphore::new(CONNECTIONS));
        let places = Arc::new(Places { all, taken: Mutex::default() });
        let take = |address: [u8; 4]| {
            let permit = places.all.clone().try_acquire_owned().expect("there is a place");
            places.take(Source::of(Some(IpAddr::from(address))), permit)
        };
        let mut held: Vec<_> = (0..100).filter_map(|_| take([10, 0, 0, 1])).collect();
        assert_eq!(held.len(), OF_ONE);
        assert!(take([10, 0, 0, 2]).is_some(), "another one is served");
        held.pop();
        assert!(take([10, 0, 0, 1]).is_some());
        drop(held);
        let local: Vec<_> = (0..100).filter_map(|number| take([127, 0, 0, number])).collect();
        assert_eq!(local.len(), OF_LOOPBACK);
        drop(local);
        assert!(places.taken.lock().is_empty() && places.all.available_permits() == CONNECTIONS);
    }
}
