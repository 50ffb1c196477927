//! CUPS, and other servers of IPP (RFC 8011).
//!
//! Each call has a connection of its own. Over the UNIX socket, calls about queues and all users' jobs are made as root
//! (`PeerCred`), and a job is submitted in the name of its owner, without authentication, as by Samba.

mod http;
mod ipp;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use server::policy::limits::{LISTED_JOBS_MAX, QUEUES_MAX};
use server::printing::{NewJob, PrintError, QueueInfo, Result};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use self::http::Post;
use self::ipp::{Operation, Request, Response, Syntax};

/// The socket of CUPS on this host.
const SOCKET: &str = "/run/cups/cups.sock";
/// The port of IPP.
const PORT: u16 = 631;
/// How long a step of a call may take: a client waits for it.
const STEP: Duration = Duration::from_secs(5);

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
    /// How long it may take to take over a job.
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

    /// Returns the number of jobs that are not completed.
    pub(crate) async fn job_count(&self, queue: &str) -> Result<usize> {
        let request = Request::new(Operation::GetJobs)
            .text(Syntax::Uri, "printer-uri", &uri(queue))
            .text(Syntax::Name, "requesting-user-name", ADMINISTRATOR)
            .integer("limit", i32::try_from(LISTED_JOBS_MAX).unwrap_or(i32::MAX))
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
        let step = STEP.min(self.limit);
        let response = if job.is_some() { self.limit } else { step };
        let local = matches!(self.address, Address::Socket(_)) && rustix::process::geteuid().is_root();
        let authorization = (privileged && local).then(|| format!("PeerCred {ADMINISTRATOR}"));
        let document = job.map(|job| (&job.spool, job.size));
        let post = Post { path, authorization, message: &message, document, step, response };
        let exchanged = match &self.address {
            Address::Socket(path) => match connected(step, UnixStream::connect(path)).await {
                Ok(stream) => http::post(stream, post).await,
                Err(error) => Err(error),
            },
            Address::Host(host, port) => match connected(step, TcpStream::connect((&**host, *port))).await {
                Ok(stream) => http::post(stream, post).await,
                Err(error) => Err(error),
            },
        };
        let body = exchanged.map_err(|error| self.unavailable(&error))?;
        let malformed = || PrintError::Unavailable(format!("CUPS at {} sent a malformed response", self.address));
        let response = Response::decode(&body).ok_or_else(malformed)?;
        match check(&response) {
            Some(error) => Err(error),
            None => Ok(response),
        }
    }

    fn unavailable(&self, error: &io::Error) -> PrintError {
        let address = &self.address;
        match error.kind() {
            io::ErrorKind::PermissionDenied => PrintError::NotPermitted(format!("CUPS at {address}: {error}")),
            io::ErrorKind::TimedOut => PrintError::Unavailable(format!(
                "CUPS at {address} does not answer in time; restart it (`systemctl restart cups`)"
            )),
            _ => PrintError::Unavailable(format!(
                "CUPS at {address} cannot be reached ({error}); start it (`systemctl start cups`) or correct `cups \
                 server`"
            )),
        }
    }
}

/// The user in whose name calls about all users' jobs are made.
const ADMINISTRATOR: &str = "root";

async fn connected<S>(step: Duration, connecting: impl Future<Output = io::Result<S>>) -> io::Result<S> {
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
        let error = cups.job_count("lp").await.expect_err("there is no server");
        assert!(matches!(&error, PrintError::Unavailable(why) if why.contains("start it")), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_hangs_is_given_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let _listener = tokio::net::UnixListener::bind(&path).expect("a socket");
        let cups = Cups { address: Address::Socket(path), limit: Duration::from_millis(50) };
        let error = cups.queues().await.expect_err("it does not answer");
        assert!(matches!(&error, PrintError::Unavailable(why) if why.contains("in time")), "{error}");
    }
}
