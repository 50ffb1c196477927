//! One connection to a directory, shared by concurrent requests; each answer is delivered to its caller.
//!
//! The caller writes its request itself ([`crate::line`]); a separate task reads. A connection is closed if it delivers
//! invalid data, if it ends, or if a caller has waited too long. All callers that wait on it get the reason, and
//! [`crate::servers`] opens another connection.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use zeroize::Zeroizing;

use crate::ber::{LONGEST_MESSAGE, Malformed, SEQUENCE, whole_length};
use crate::line::Line;
use crate::message::{Outcome, Request, Response, ResultCode, SearchResultEntry, decode, envelope};
use crate::uri::Uri;

/// Maximum number of concurrent requests; further ones wait.
const AT_A_TIME: usize = 1024;
/// TCP keepalive: idle time, interval of probes, number of probes.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(10), 3);

/// The result of an operation.
pub struct Reply {
    /// The entries that a search found.
    pub found: Vec<SearchResultEntry>,
    /// How the operation ended.
    pub outcome: Outcome,
}

/// The connection is closed; the text is the reason.
#[derive(Clone, Debug)]
pub struct Closed(pub Arc<str>);

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Closed {}

/// A connection that is or was open.
pub struct Connection {
    line: Arc<Line>,
    turns: Semaphore,
    waiting: AtomicUsize,
    task: AbortHandle,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Parameters of a connection.
pub struct Way {
    /// Whether a plain connection is upgraded with StartTLS first.
    pub start_tls: bool,
    /// The TLS configuration, if TLS is used.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The bind DN and its password; `None` means anonymous, or SASL EXTERNAL on a local socket.
    pub bind: Option<(String, Zeroizing<String>)>,
    /// Time limit of the connection attempt.
    pub patience: Duration,
}

impl Connection {
    /// Connects and binds.
    pub async fn open(uri: &Uri, way: &Way) -> Result<Connection> {
        let stream: Box<dyn Stream> = match uri {
            Uri::Local(path) => Box::new(UnixStream::connect(path).await?),
            Uri::Tcp { host, port, tls } => {
                let connected = tokio::time::timeout(way.patience, connect(host, *port)).await;
                let stream = connected.map_err(|_| anyhow!("no connection within {:?}", way.patience))??;
                match (tls, way.start_tls) {
                    (true, _) => Box::new(secured(stream, host, way).await?),
                    (false, true) => Box::new(secured(ask_for_tls(stream).await?, host, way).await?),
                    (false, false) => Box::new(stream),
                }
            }
        };
        let connection = Connection::over(stream);
        let bind = match (&way.bind, uri) {
            (Some((dn, password)), _) => Request::Bind { dn, password },
            // The server takes the user from the socket.
            (None, Uri::Local(_)) => Request::BindExternal,
            (None, _) => Request::Bind { dn: "", password: "" },
        };
        let outcome = connection.ask(&bind).await?.outcome;
        match outcome.code {
            ResultCode::SUCCESS => Ok(connection),
            ResultCode::INVALID_CREDENTIALS => {
                bail!("it refuses `ldap admin dn` or its password: {outcome}; set it with `frevo user ldap-password`")
            }
            _ => bail!("it refuses the bind: {outcome}"),
        }
    }

    fn over(stream: Box<dyn Stream>) -> Connection {
        let (read, write) = tokio::io::split(stream);
        let line = Arc::new(Line::new(write));
        let task = tokio::spawn(Reader::new(read, line.clone()).run()).abort_handle();
        Connection { line, turns: Semaphore::new(AT_A_TIME), waiting: AtomicUsize::new(0), task }
    }

    /// Closes the connection for all callers that wait on it.
    pub fn close(&self) {
        self.line.close(&Closed("the connection was closed".into()));
        self.task.abort();
    }

    /// Returns whether the connection can no longer be used.
    pub fn is_closed(&self) -> bool {
        self.line.is_closed()
    }

    /// Returns the number of pending requests.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Sends a request and waits for the answer.
    pub async fn ask(&self, request: &Request<'_>) -> Result<Reply, Closed> {
        let _waits = Waits::new(&self.waiting);
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        let question = self.line.ask(&request.encode())?;
        question.answered().await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

/// Counts a pending request.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Waits(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connect(host: &str, port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let (idle, interval, count) = KEEPALIVE;
    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(&stream, idle)?;
    rustix::net::sockopt::set_tcp_keepintvl(&stream, interval)?;
    rustix::net::sockopt::set_tcp_keepcnt(&stream, count)?;
    Ok(stream)
}

/// Requests TLS on a plain connection (RFC 4511, 4.14): sends the request and reads only its answer. Additional
/// unprotected data ends the connection (RFC 4513, 3.1.1 forbids outstanding operations).
async fn ask_for_tls(mut stream: TcpStream) -> Result<TcpStream> {
    stream.write_all(&envelope(1, &Request::StartTls.encode())).await?;
    let mut bytes = Vec::new();
    let length = loop {
        if let Some(length) = whole_length(&bytes)?
            && length <= bytes.len()
        {
            break length;
        }
        if bytes.len() > LONGEST_MESSAGE || stream.read_buf(&mut bytes).await? == 0 {
            bail!("it ends the connection instead of starting TLS");
        }
    };
    match decode(&bytes)? {
        (1, Response::Done(outcome)) if outcome.code == ResultCode::SUCCESS && length == bytes.len() => Ok(stream),
        (1, Response::Done(outcome)) if length == bytes.len() => {
            bail!("it refuses StartTLS, which `ldap ssl = start tls` requires: {outcome}")
        }
        _ => bail!("it sends data after the answer to StartTLS and before TLS"),
    }
}

async fn secured(stream: TcpStream, host: &str, way: &Way) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let configuration = way.tls.clone().context("TLS is not set up")?;
    let name = ServerName::try_from(host.to_owned())
        .with_context(|| format!("{host:?} is not a valid name for a certificate"))?;
    let refused = "its certificate or TLS is refused; set its CA with `tls cafile` or TLS_CACERT of ldap.conf";
    tokio_rustls::TlsConnector::from(configuration).connect(name, stream).await.context(refused)
}

/// The reading task of a connection.
struct Reader {
    read: ReadHalf<Box<dyn Stream>>,
    line: Arc<Line>,
    /// Bytes that were read and are not yet a complete message.
    bytes: Zeroizing<Vec<u8>>,
}

impl Reader {
    fn new(read: ReadHalf<Box<dyn Stream>>, line: Arc<Line>) -> Reader {
        // The buffer is grown explicitly, so that old content never stays in freed memory.
        Reader { read, line, bytes: Zeroizing::new(Vec::with_capacity(64 << 10)) }
    }

    async fn run(mut self) {
        let Err(why) = self.turn().await;
        self.line.close(&Closed(format!("{why:#}").into()));
    }

    async fn turn(&mut self) -> Result<std::convert::Infallible> {
        let line = self.line.clone();
        loop {
            self.make_room()?;
            tokio::select! {
                // Data that could not be written at once is written concurrently with reading, because a server may
                // require that.
                Err(failed) = poll_fn(|context| line.poll_unwritten(context)) => return Err(failed),
                read = self.read.read_buf(&mut *self.bytes) => {
                    if read.context("cannot read")? == 0 {
                        bail!("it has closed the connection");
                    }
                    self.take_messages()?;
                }
            }
        }
    }

    /// Grows the buffer explicitly, because automatic growth would leave hashes in freed memory.
    fn make_room(&mut self) -> Result<()> {
        if self.bytes.len() < self.bytes.capacity() {
            return Ok(());
        }
        anyhow::ensure!(self.bytes.len() < LONGEST_MESSAGE, "it sends a message of more than {LONGEST_MESSAGE} bytes");
        let mut larger = Zeroizing::new(Vec::with_capacity(self.bytes.capacity() * 2));
        larger.extend_from_slice(&self.bytes);
        self.bytes = larger;
        Ok(())
    }

    fn take_messages(&mut self) -> Result<()> {
        let mut taken = 0;
        while let Some(length) = whole_length(&self.bytes[taken..])? {
            // Another protocol would otherwise never yield a complete message.
            anyhow::ensure!(self.bytes[taken] == SEQUENCE, Malformed);
            anyhow::ensure!(length <= LONGEST_MESSAGE, "it sends a message of {length} bytes");
            let Some(message) = self.bytes.get(taken..taken + length) else { break };
            let (id, response) = decode(message)?;
            taken += length;
            self.line.take(id, response)?;
        }
        self.bytes.copy_within(taken.., 0);
        let left = self.bytes.len() - taken;
        self.bytes.truncate(left);
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Also if the task was aborted, because no task reads answers then.
        self.line.close(&Closed("the connection was closed".into()));
    }
}
