//! CUPS, and other servers of IPP (RFC 8011).
//!
//! Each call has a connection of its own. Over the UNIX socket, calls about queues and all users' jobs are made as root
//! (`PeerCred`), and a job is submitted in the name of its owner, without authentication, as by Samba.

pub(crate) mod http;
mod ipp;
mod jobs;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use server::policy::limits::{LISTED_JOBS_MAX, QUEUES_MAX};
use server::printing::{NewJob, PrintError, QueueInfo, Result};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use self::http::{Failure, Post};
use self::ipp::{Operation, Request, Response, Syntax};

/// The socket of CUPS on this host.
const SOCKET: &str = "/run/cups/cups.sock";
/// The port of IPP.
const PORT: u16 = 631;
/// How long a step of a call may take: a client waits for it.
const STEP: Duration = Duration::from_secs(5);
/// How long CUPS may take over a job if `cups connection timeout` is 0.
const NO_LIMIT: Duration = Duration::from_secs(30);
/// How long to wait until CUPS accepts a connection, if its queue of them is full.
const PAUSE: Duration = Duration::from_millis(20);
/// The maximum number of bytes of a list, and of another response.
const LONGEST_LIST: usize = 8 << 20;
const LONGEST_RESPONSE: usize = 64 << 10;

/// `cups server`: where CUPS is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A UNIX socket.
    Socket(PathBuf),
    /// A host and a port.
    Host(String, u16),
}

impl Default for Address {
    fn default() -> Self {
        Address::Socket(SOCKET.into())
    }
}

impl Address {
    /// Parses a host, a host with a port, or the path of a socket; empty is the socket of this host. `None` if it is
    /// none of these.
    pub fn parse(text: &str) -> Option<Address> {
        if text.is_empty() || text.starts_with('/') {
            return Some(if text.is_empty() { Address::default() } else { Address::Socket(text.into()) });
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))?),
            None if text.matches(':').count() > 1 => (text, ""),
            None => text.split_once(':').unwrap_or((text, "")),
        };
        let port = if port.is_empty() { PORT } else { port.parse().ok().filter(|port| *port != 0)? };
        let is_host = |letter: char| letter.is_ascii_alphanumeric() || "-._:%".contains(letter);
        (!host.is_empty() && host.chars().all(is_host)).then(|| Address::Host(host.to_owned(), port))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Socket(path) => write!(out, "{}", path.display()),
            Address::Host(host, port) => write!(out, "{host}:{port}"),
        }
    }
}

/// A server of CUPS.
#[derive(Clone, Debug)]
pub(crate) struct Cups {
    pub(crate) address: Address,
    /// How long it may take to take over a job; zero means as long as by default.
    pub(crate) limit: Duration,
}

impl Cups {
    /// Returns the queues.
    pub(crate) async fn queues(&self) -> Result<Vec<QueueInfo>> {
        let request = Request::new(Operation::CupsGetPrinters)
            .text(Syntax::Name, "requesting-user-name", ADMINISTRATOR)
            .keywords("requested-attributes", &["printer-name", "printer-info", "printer-location"]);
        let response = self.call("/", request, true, None).await?;
        let text = |group: &ipp::Group, name| group.text(name).unwrap_or_default();
        let info = |group: &ipp::Group| {
            let name = group.text("printer-name")?;
            Some(QueueInfo {
                name,
                description: text(group, "printer-info"),
                location: text(group, "printer-location"),
            })
        };
        Ok(response.printers().filter_map(info).take(QUEUES_MAX).collect())
    }

    /// Returns the number of jobs that are not completed. At most `most` are counted.
    pub(crate) async fn job_count(&self, queue: &str, most: usize) -> Result<usize> {
        let request = Request::new(Operation::GetJobs)
            .text(Syntax::Uri, "printer-uri", &uri(queue))
            .text(Syntax::Name, "requesting-user-name", ADMINISTRATOR)
            .integer("limit", i32::try_from(most.min(LISTED_JOBS_MAX)).unwrap_or(i32::MAX))
            .text(Syntax::Keyword, "which-jobs", "not-completed")
            .keywords("requested-attributes", &["job-id"]);
        Ok(self.call("/", request, true, None).await?.jobs().count())
    }

    /// Submits a job.
    pub(crate) async fn submit(&self, queue: &str, options: &[(String, String)], job: &NewJob) -> Result<()> {
        let is_raw = |(name, value): &(String, String)| name == "raw" && value == "true";
        let format = match options.iter().any(is_raw) {
            true => "application/vnd.cups-raw",
            false => "application/octet-stream",
        };
        let options: Vec<_> = options.iter().filter(|option| !is_raw(option)).cloned().collect();
        let request = Request::new(Operation::PrintJob)
            .text(Syntax::Uri, "printer-uri", &uri(queue))
            .text(Syntax::Name, "requesting-user-name", &job.user.name)
            .text(Syntax::Name, "job-name", &job.title)
            .text(Syntax::MimeType, "document-format", format)
            .text(Syntax::Name, "job-originating-host-name", &job.client)
            .options(&options);
        self.call(&path(queue), request, false, Some(job)).await.map(drop)
    }

    /// Makes a call. `privileged`: as root, where the server can verify that.
    async fn call(&self, path: &str, request: Request, privileged: bool, job: Option<&NewJob>) -> Result<Response> {
        let message = request.end();
        let limit = if self.limit.is_zero() { NO_LIMIT } else { self.limit };
        let step = STEP.min(limit);
        let (response, longest) = if job.is_some() { (limit, LONGEST_RESPONSE) } else { (step, LONGEST_LIST) };
        let local = matches!(self.address, Address::Socket(_)) && rustix::process::geteuid().is_root();
        let authorization = (privileged && local).then(|| format!("PeerCred {ADMINISTRATOR}"));
        let document = job.map(|job| (&job.spool, job.size));
        let post = Post { path, authorization, message: &message, document, step, response, longest };
        let exchanged = match &self.address {
            Address::Socket(path) => match connected(step, || UnixStream::connect(path)).await {
                Ok(stream) => http::post(stream, post).await,
                Err(error) => Err(error.into()),
            },
            Address::Host(host, port) => match connected(step, || TcpStream::connect((&**host, *port))).await {
                Ok(stream) => http::post(stream, post).await,
                Err(error) => Err(error.into()),
            },
        };
        let body = exchanged.map_err(|failure| self.failed(failure))?;
        let malformed = || PrintError::Unavailable(format!("CUPS at {} sent a malformed response", self.address));
        let response = Response::decode(&body).ok_or_else(malformed)?;
        match check(&response) {
            Some(error) => Err(error),
            None => Ok(response),
        }
    }

    fn failed(&self, failure: Failure) -> PrintError {
        let address = &self.address;
        match failure {
            Failure::Document(why) => PrintError::Refused(why),
            Failure::Status(401 | 403, line) => PrintError::NotPermitted(format!("CUPS at {address} answers {line:?}")),
            Failure::Status(426, _) => PrintError::Refused(format!(
                "CUPS at {address} requires TLS, which is not supported; set `DefaultEncryption IfRequested` there"
            )),
            Failure::Status(status @ 500.., line) => PrintError::Unavailable(format!(
                "CUPS at {address} answers {line:?} (HTTP status {status}); see its error log"
            )),
            Failure::Status(_, line) => PrintError::Refused(format!(
                "the server at {address} answers {line:?} instead of IPP; correct `cups server`, or see its error log"
            )),
            Failure::Connection(error) if error.kind() == io::ErrorKind::TimedOut => self.late(),
            Failure::Connection(error) => PrintError::Unavailable(format!(
                "CUPS at {address} cannot be reached ({error}); start it (`systemctl start cups`) or correct `cups \
                 server`"
            )),
        }
    }

    /// Returns the error that CUPS does not answer.
    pub(crate) fn late(&self) -> PrintError {
        PrintError::Unavailable(format!(
            "CUPS at {} does not answer in time; restart it (`systemctl restart cups`)",
            self.address
        ))
    }
}

/// The user in whose name calls about all users' jobs are made.
const ADMINISTRATOR: &str = "root";

/// Connects within the time of a step. If CUPS has many connections, those in its queue come first.
async fn connected<S, F: Future<Output = io::Result<S>>>(step: Duration, connect: impl Fn() -> F) -> io::Result<S> {
    let connecting = async {
        loop {
            match connect().await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
                connected => return connected,
            }
        }
    };
    timeout(step, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns the error of a response (RFC 8011 appendix B); `None` if it was successful.
fn check(response: &Response) -> Option<PrintError> {
    let message = response.message();
    let message = if message.is_empty() { format!("IPP status 0x{:04x}", response.status) } else { message };
    let why = format!("CUPS refused it: {message}");
    Some(match response.status {
        0..0x0100 => return None,
        0x0401..=0x0403 => PrintError::NotPermitted(why),
        0x0406 => PrintError::NoQueue(why),
        0x0502 | 0x0505 | 0x0507 => PrintError::Unavailable(why),
        _ => PrintError::Refused(why),
    })
}

/// Returns the path of a queue.
fn path(queue: &str) -> String {
    let mut path = "/printers/".to_owned();
    for byte in queue.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => path.push(byte.into()),
            other => _ = write!(path, "%{other:02X}"),
        }
    }
    path
}

fn uri(queue: &str) -> String {
    format!("ipp://localhost{}", path(queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports_or_sockets() {
        let host = |name: &str, port| Some(Address::Host(name.to_owned(), port));
        for (text, expected) in [
            ("", Some(Address::Socket(SOCKET.into()))),
            ("/tmp/x.sock", Some(Address::Socket("/tmp/x.sock".into()))),
            ("print.example", host("print.example", 631)),
            ("10.0.0.1:8631", host("10.0.0.1", 8631)),
            ("[::1]:8631", host("::1", 8631)),
            ("::1", host("::1", 631)),
            ("[::1]", host("::1", 631)),
            ("h:0", None),
            ("h:x", None),
            ("h:99999", None),
            ("a b", None),
            ("[::1]x", None),
        ] {
            assert_eq!(Address::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_queue_is_quoted_in_a_path() {
        assert_eq!(uri("laser 1/é\r\n"), "ipp://localhost/printers/laser%201%2F%C3%A9%0D%0A");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_an_error_with_a_remedy() {
        let address = Address::Socket("/nonexistent/cups.sock".into());
        let cups = Cups { address, limit: Duration::from_secs(30) };
        let error = cups.job_count("lp", 1000).await.expect_err("there is no server");
        assert!(matches!(&error, PrintError::Unavailable(why) if why.contains("start it")), "{error}");
    }

    fn socket(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("socket")
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_is_given_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let _listener = tokio::net::UnixListener::bind(socket(&directory)).expect("a socket");
        for limit in [Duration::from_millis(50), Duration::ZERO] {
            let cups = Cups { address: Address::Socket(socket(&directory)), limit };
            let error = cups.queues().await.expect_err("it does not answer");
            assert!(matches!(&error, PrintError::Unavailable(why) if why.contains("in time")), "{error}");
        }
    }

    #[tokio::test]
    async fn no_timeout_is_the_default_and_not_no_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = tokio::net::UnixListener::bind(socket(&directory)).expect("a socket");
        let cups = Cups { address: Address::Socket(socket(&directory)), limit: Duration::ZERO };
        let answers = async {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = vec![0; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await.expect("a request");
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n\x01\x01\0\0\0\0\0\x01\x02\x03";
            tokio::io::AsyncWriteExt::write_all(&mut stream, response).await.expect("it is received");
        };
        let (count, ()) = tokio::join!(cups.job_count("lp", 10), answers);
        assert_eq!(count, Ok(1));
    }

    #[tokio::test]
    async fn a_server_with_too_many_connections_is_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let address = rustix::net::SocketAddrUnix::new(socket(&directory)).expect("an address");
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let own = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket");
        bind(&own, &address).expect("it is bound");
        listen(&own, 0).expect("it listens");
        let listener = tokio::net::UnixListener::from_std(own.into()).expect("a listener");
        let path = socket(&directory);
        let first = UnixStream::connect(&path).await.expect("the queue has one place");
        assert_eq!(
            UnixStream::connect(&path).await.expect_err("it is taken").kind(),
            io::ErrorKind::WouldBlock,
            "CUPS is not reached"
        );
        let accepts = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            listener.accept().await.expect("the first one")
        };
        let (second, _) = tokio::join!(connected(STEP, || UnixStream::connect(&path)), accepts);
        second.expect("it gets the place");
        drop(first);
    }

    #[test]
    fn a_failure_names_its_reason() {
        let cups = Cups { address: Address::default(), limit: STEP };
        let status = |status, line: &str| cups.failed(Failure::Status(status, line.to_owned()));
        assert!(matches!(status(401, "Unauthorized"), PrintError::NotPermitted(_)));
        assert!(matches!(status(426, "Upgrade"), PrintError::Refused(why) if why.contains("TLS")));
        assert!(matches!(status(413, "Too Large"), PrintError::Refused(why) if why.contains("Too Large")));
        assert!(matches!(status(301, "Moved"), PrintError::Refused(_)));
        assert!(matches!(status(503, "Busy"), PrintError::Unavailable(why) if !why.contains("start it")));
        assert!(matches!(cups.failed(Failure::Document("gone".into())), PrintError::Refused(_)));
    }
}
