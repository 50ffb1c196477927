//! Requests to the issuer: HTTP/1.1, a connection each, with limits of time and size. Redirections are not followed,
//! because they could lead to hosts that the issuer has not named.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::uri::Scheme;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Maximum bytes of an answer, and of its head.
const SIZE: usize = 256 * 1024;
const HEAD_SIZE: usize = 32 * 1024;
/// Look-ups of names at the same time. One that hangs occupies its thread longer than its request.
const LOOKUPS: usize = 4;
/// The part of the time limit after which the next address is tried.
const ADDRESSES: u32 = 3;
/// Maximum characters of an error code that the issuer returns.
const ERROR_CODE: usize = 64;

/// A URL of the issuer.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    uri: Uri,
    host: String,
    port: u16,
    is_secure: bool,
}

impl Endpoint {
    /// Returns a URL with TLS; without it, if `may_be_plain`, one of the loopback interface. `None` if it is not such a
    /// one.
    pub(super) fn parse(url: &str, may_be_plain: bool) -> Option<Endpoint> {
        let uri: Uri = url.parse().ok()?;
        let authority = uri.authority().filter(|it| !it.as_str().contains('@'))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_secure = uri.scheme() == Some(&Scheme::HTTPS);
        let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
        let is_plain = may_be_plain && is_loopback && uri.scheme() == Some(&Scheme::HTTP);
        if !is_secure && !is_plain {
            return None;
        }
        let port = authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        Some(Endpoint { host, port, is_secure, uri })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.is_secure
    }
}

/// Without the query, which may have what is not shown.
impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(out, "{scheme}://{}{}", self.uri.authority().map_or("", |it| it.as_str()), self.uri.path())
    }
}

/// A request.
pub(super) enum Call {
    /// For what the issuer publishes.
    Get,
    /// With a form, and the value of `Authorization`.
    Form { body: String, authorization: Option<String> },
}

/// Why there is no answer.
pub(super) struct Failed {
    why: String,
    /// The issuer did not accept how the console has authenticated itself (RFC 6749 5.2).
    pub(super) is_invalid_client: bool,
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed { why, is_invalid_client: false }
    }
}

/// The text is shown.
impl From<Failed> for String {
    fn from(failed: Failed) -> String {
        failed.why
    }
}

/// Makes requests.
pub(super) struct Client {
    limit: Duration,
    tls: OnceCell<TlsConnector>,
    lookups: Arc<Semaphore>,
}

impl Client {
    /// `limit` is that of the time of a request.
    pub(super) fn new(limit: Duration) -> Client {
        Client { limit, tls: OnceCell::new(), lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }

    /// Returns the body of a successful answer.
    ///
    /// # Errors
    /// There is no such answer.
    pub(super) async fn fetch(&self, endpoint: &Endpoint, call: Call) -> Result<Bytes, Failed> {
        match timeout(self.limit, self.answer(endpoint, call)).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(failed)) => Err(Failed { why: format!("{endpoint}: {}", failed.why), ..failed }),
            Err(_) => Err(format!("{endpoint} does not answer within {} s", self.limit.as_secs_f64()).into()),
        }
    }

    async fn answer(&self, endpoint: &Endpoint, call: Call) -> Result<Bytes, Failed> {
        let stream = self.connect(endpoint).await?;
        if !endpoint.is_secure {
            return exchange(stream, endpoint, call).await;
        }
        let name = ServerName::try_from(endpoint.host.clone()).map_err(|_| "its host has no valid name".to_owned())?;
        let tls = self.tls.get_or_try_init(connector).await?;
        let stream = tls.connect(name, stream).await.map_err(|error| format!("no TLS: {error}"))?;
        exchange(stream, endpoint, call).await
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<TcpStream, String> {
        let lookup = self.lookups.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let (host, port) = (endpoint.host.clone(), endpoint.port);
        let addresses = spawn_blocking(move || {
            let _lookup = lookup;
            (host, port).to_socket_addrs().map(Iterator::collect::<Vec<SocketAddr>>)
        });
        let addresses = addresses.await.map_err(|error| error.to_string())?;
        let addresses = addresses.map_err(|error| format!("its host cannot be looked up: {error}"))?;
        let mut why = "its host has no address".to_owned();
        // A name of the loopback interface may resolve elsewhere.
        for address in addresses.iter().filter(|it| endpoint.is_secure || it.ip().is_loopback()) {
            match timeout(self.limit / ADDRESSES, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => why = format!("cannot connect to {address}: {error}"),
                Err(_) => why = format!("{address} does not answer"),
            }
        }
        Err(why)
    }
}

/// Returns the settings of TLS. The authorities are those of the host.
async fn connector() -> Result<TlsConnector, String> {
    let made = spawn_blocking(|| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this host has no certification authorities; install ca-certificates".to_owned());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let settings = builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(settings)))
    });
    made.await.map_err(|error| error.to_string())?
}

async fn exchange<S>(stream: S, endpoint: &Endpoint, call: Call) -> Result<Bytes, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let text = |error: hyper::Error| error.to_string();
    let path = endpoint.uri.path_and_query().map_or("/", |path| path.as_str());
    let host = endpoint.uri.authority().map_or("", |it| it.as_str());
    let request = Request::builder().uri(path).header(HOST, host).header(ACCEPT, "application/json");
    let request = match call {
        Call::Get => request.body(Full::default()),
        Call::Form { body, authorization } => {
            let mut request = request.method(Method::POST).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            if let Some(authorization) = authorization {
                request = request.header(AUTHORIZATION, authorization);
            }
            request.body(Full::from(body))
        }
    };
    let request = request.map_err(|error| error.to_string())?;
    let mut http = hyper::client::conn::http1::Builder::new();
    let (mut sender, connection) =
        http.max_buf_size(HEAD_SIZE).handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.map_err(text)?;
    // The connection ends with the set.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let answer = sender.send_request(request).await.map_err(text)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), SIZE).collect().await;
    let body = body.map_err(|error| format!("its answer is incomplete or larger than {SIZE} bytes: {error}"))?;
    let body = body.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        status if status.is_redirection() => Err(format!("it answers {status}; redirections are not followed").into()),
        status => {
            let code = error_code(&body);
            let is_invalid_client = code.as_deref() == Some("invalid_client");
            let code = code.map_or_else(String::new, |code| format!(", {code}"));
            Err(Failed { why: format!("it answers {status}{code}"), is_invalid_client })
        }
    }
}

/// Returns the error code of an answer (RFC 6749 5.2), if it has one that can be shown.
fn error_code(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Failure {
        error: String,
    }
    let code = serde_json::from_slice(body).ok().map(|Failure { error }| error);
    let is_plain =
        |code: &String| code.len() <= ERROR_CODE && code.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
    code.filter(is_plain)
}

/// Returns pairs as in a form, which is also the form of a query.
pub(super) fn encoded(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
    pairs.join("&")
}

/// Returns a text in which only unreserved characters of URLs (RFC 3986 2.3) are as they are.
pub(super) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_tls_except_on_the_loopback_interface() {
        let parsed = |url: &str, may_be_plain| Endpoint::parse(url, may_be_plain).map(|it| it.to_string());
        assert_eq!(parsed("https://id.example/token?x=1", false).as_deref(), Some("https://id.example/token"));
        assert_eq!(parsed("http://[::1]:80/x", true).as_deref(), Some("http://[::1]:80/x"));
        assert!(parsed("http://127.0.0.1/x", false).is_none(), "an issuer with TLS leads to no host without it");
        for wrong in ["http://id.example/", "ftp://localhost/", "/x", "localhost", "https://ann@id.example/", ""] {
            assert!(parsed(wrong, true).is_none(), "{wrong}");
        }
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(encoded(&[("a", "b c&d=\u{e4}"), ("x", "-._~")]), "a=b%20c%26d%3D%C3%A4&x=-._~");
    }

    #[test]
    fn only_plain_error_codes_are_shown() {
        let answer = br#"{"error":"invalid_grant","error_description":"x"}"#;
        assert_eq!(error_code(answer).as_deref(), Some("invalid_grant"));
        for wrong in [&br#"{"error":"<b>"}"#[..], b"{}", b"no"] {
            assert_eq!(error_code(wrong), None);
        }
    }
}
