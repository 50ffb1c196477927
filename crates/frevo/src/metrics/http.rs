//! The HTTP server of the metrics. It answers GET /metrics, to clients on this host only.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use server::state::Server;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::health::Health;
use crate::socket_file::SocketFile;

/// The name of the socket in the state directory.
pub const SOCKET: &str = "metrics.sock";
/// Maximum number of clients of a socket at a time. Others wait.
const CLIENTS: usize = 8;
/// The time limits for the head of a request, and for a connection, of which a client can make another one.
const HEAD_TIME: Duration = Duration::from_secs(5);
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// For how long the metrics are not read again.
const FRESH: Duration = Duration::from_millis(500);
/// Maximum bytes of a request's head. The smallest that the library permits.
const HEAD_SIZE: usize = 8 * 1024;
/// After an error, no connection is accepted for this long.
const PAUSE: Duration = Duration::from_millis(200);

/// Binds the port on the loopback interface, for both versions of IP if the host has them. Must be called within a
/// tokio runtime.
///
/// # Errors
/// The port is in use, or the host has no loopback interface.
pub fn loopback(port: u16) -> Result<Vec<TcpListener>> {
    let bind = |address: SocketAddr| -> std::io::Result<TcpListener> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    let four = bind((Ipv4Addr::LOCALHOST, port).into()).with_context(|| {
        format!("cannot listen on 127.0.0.1:{port} for metrics; choose another `frevo:metrics port`")
    })?;
    let six = bind((Ipv6Addr::LOCALHOST, port).into());
    if let Err(error) = &six
        && error.kind() != ErrorKind::AddrNotAvailable
    {
        warn!(%error, "cannot listen on [::1]:{port} for metrics; another program may answer there");
    }
    Ok([Some(four), six.ok()].into_iter().flatten().collect())
}

/// The HTTP server. Dropping it ends it.
pub struct MetricsServer(#[expect(dead_code, reason = "its tasks end when it is dropped")] JoinSet<()>);

impl MetricsServer {
    /// Serves the metrics of `server`.
    pub fn start(
        server: &Arc<Server>,
        health: &Arc<Health>,
        file: Option<SocketFile>,
        ports: Vec<TcpListener>,
    ) -> MetricsServer {
        let text = Arc::new(Text { server: server.clone(), health: health.clone(), latest: Mutex::new(None) });
        let mut tasks = JoinSet::new();
        for port in ports {
            let text = text.clone();
            tasks.spawn(async move {
                let mut clients = Clients::new(true, text);
                loop {
                    match port.accept().await {
                        Ok((stream, _)) => clients.add(stream).await,
                        Err(error) => pause(&error).await,
                    }
                }
            });
        }
        if let Some(file) = file {
            tasks.spawn(async move {
                let mut clients = Clients::new(false, text);
                loop {
                    match file.accept().await {
                        Ok(stream) => clients.add(stream).await,
                        Err(error) => pause(&error).await,
                    }
                }
            });
        }
        MetricsServer(tasks)
    }
}

/// Most likely the process is out of descriptors. The connection stays queued.
async fn pause(error: &io::Error) {
    warn!(%error, "metrics");
    tokio::time::sleep(PAUSE).await;
}

/// The metrics. Clients that ask often get the same text.
struct Text {
    server: Arc<Server>,
    health: Arc<Health>,
    latest: Mutex<Option<(Instant, Bytes)>>,
}

impl Text {
    fn get(&self) -> Bytes {
        let mut latest = self.latest.lock();
        match &*latest {
            Some((at, text)) if at.elapsed() < FRESH => text.clone(),
            _ => {
                let text = Bytes::from(super::of(&self.server, &self.health));
                *latest = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}

/// The clients of one listening socket.
struct Clients {
    /// Whether the host of a request is checked.
    checks_host: bool,
    text: Arc<Text>,
    tasks: JoinSet<()>,
}

impl Clients {
    fn new(checks_host: bool, text: Arc<Text>) -> Clients {
        Clients { checks_host, text, tasks: JoinSet::new() }
    }

    /// Serves a client. Waits for the end of another one if there are too many.
    async fn add(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= CLIENTS {
            self.tasks.join_next().await;
        }
        let (checks_host, text) = (self.checks_host, self.text.clone());
        self.tasks.spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request, checks_host, &text);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_SIZE);
            let connection = http.serve_connection(TokioIo::new(stream), answer);
            match tokio::time::timeout(CONNECTION_TIME, connection).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(error)) => debug!(%error, "metrics"),
            }
        });
    }
}

fn answer<B>(request: &Request<B>, checks_host: bool, text: &Text) -> Response<Full<Bytes>> {
    if checks_host && !is_loopback(request.headers().get(HOST)) {
        return refusal(StatusCode::FORBIDDEN, "use the address 127.0.0.1, [::1] or the name localhost\n");
    }
    if request.uri().path() != "/metrics" {
        return refusal(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refusal = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    let mut response = Response::new(Full::from(text.get()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(super::CONTENT_TYPE));
    response
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Returns whether a request is for a name or an address of the loopback interface. A web page may have its own name
/// resolve to 127.0.0.1 in order to read what is served there (DNS rebinding).
fn is_loopback(host: Option<&HeaderValue>) -> bool {
    // HTTP/1.0 requests have no host, and browsers do not send them.
    let Some(host) = host else { return true };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use server::testing::TestServer;

    use super::*;

    fn status(method: Method, uri: &str, host: Option<&str>) -> StatusCode {
        let server: Arc<Server> = TestServer::builder().start().clone();
        let text = Text { server, health: Arc::default(), latest: Mutex::new(None) };
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        answer(&request.body(()).expect("a request"), true, &text).status()
    }

    #[test]
    fn only_requests_for_the_loopback_interface_are_answered() {
        for host in [None, Some("localhost"), Some("LOCALHOST:9445"), Some("127.0.0.1:9445"), Some("[::1]:9445")] {
            assert_eq!(status(Method::GET, "/metrics", host), StatusCode::OK, "{host:?}");
        }
        for host in ["example.com", "localhost.example.com:9445", "127.0.0.1.example.com", "10.0.0.1", "", "a b", "@"] {
            assert_eq!(status(Method::GET, "/metrics", Some(host)), StatusCode::FORBIDDEN, "{host:?}");
        }
        assert_eq!(status(Method::GET, "/", None), StatusCode::NOT_FOUND);
        assert_eq!(status(Method::GET, "/metrics/../metrics", None), StatusCode::NOT_FOUND);
        assert_eq!(status(Method::POST, "/metrics", None), StatusCode::METHOD_NOT_ALLOWED);
    }
}
