//! The connections of browsers, each with limits of number, time and size.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use crate::Console;
use crate::answer::{Arrival, answer};
use crate::guard::Hosts;
use crate::listen::{Listener, Socket};

/// Maximum number of connections. Others wait until one ends.
const CONNECTIONS: usize = 64;
/// The time limits for the handshake of TLS and for the head of a request, also of a further one.
const HEAD_TIME: Duration = Duration::from_secs(10);
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
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let hosts = Arc::new(listener.hosts);
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let client = Client { console: console.clone(), hosts: hosts.clone(), place };
        let accepted = match &listener.socket {
            Socket::Tcp(socket) => socket.accept().await.map(|(stream, from)| {
                let address = from.ip().to_canonical().to_string();
                match listener.tls.clone() {
                    None => drop(tokio::spawn(client.serve(stream, Arrival { address, is_secure: false }))),
                    Some(tls) => drop(tokio::spawn(async move {
                        match tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
                            Ok(Ok(stream)) => client.serve(stream, Arrival { address, is_secure: true }).await,
                            Ok(Err(error)) => debug!(%error, address, "console: TLS"),
                            Err(_) => debug!(address, "console: no TLS within the time limit"),
                        }
                    })),
                }
            }),
            Socket::Unix(socket, _) => socket.accept().await.map(|(stream, _)| {
                let arrival = Arrival { address: "unix".into(), is_secure: false };
                drop(tokio::spawn(client.serve(stream, arrival)));
            }),
        };
        if let Err(error) = accepted {
            // Most likely the process is out of descriptors. The connection stays queued.
            warn!(%error, "console");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

struct Client {
    console: Arc<Console>,
    hosts: Arc<Hosts>,
    place: OwnedSemaphorePermit,
}

impl Client {
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, arrival: Arrival) {
        let Client { console, hosts, place } = self;
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
        drop(place);
    }
}
