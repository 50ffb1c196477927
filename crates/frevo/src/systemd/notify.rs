//! Messages to the service manager.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The maximum time for which a message waits while the service manager does not read its socket.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends messages to the service manager. Without a service manager, messages are dropped.
#[derive(Clone, Default)]
pub struct Notifier(Option<Arc<Manager>>);

struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Notifier {
    /// Returns a notifier for the socket that `NOTIFY_SOCKET` names. If the socket cannot be used, the error is logged,
    /// because the server works without a service manager.
    pub fn of_process() -> Notifier {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Notifier::default();
        };
        Notifier::to(&name).unwrap_or_else(|error| {
            tracing::error!(socket = %name.display(), %error, "cannot notify the service manager");
            Notifier::default()
        })
    }

    /// Returns a notifier for a socket: an absolute path, or `@` and an abstract name.
    ///
    /// # Errors
    /// If `name` is neither, or no socket can be created.
    pub fn to(name: &OsStr) -> io::Result<Notifier> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "the socket is not of the UNIX family")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Notifier(Some(Arc::new(Manager { socket, address }))))
    }

    /// Returns whether there is a service manager.
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Reports that the server serves, after its start or a reload.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Reports that a reload begins. The time lets the service manager tell this reload from earlier ones.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=reading the configuration"));
    }

    /// Reports that the server stops.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing the requests in progress");
    }

    /// Sets the text that `systemctl status` shows.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    /// Restarts the time of the watchdog.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        let Some(manager) = &self.0 else { return };
        if let Err(error) = manager.socket.send_to_addr(message.as_bytes(), &manager.address) {
            let first = message.lines().next().unwrap_or_default();
            tracing::warn!(%error, message = first, "the service manager does not receive a message");
        }
    }
}

/// Makes one line of a text, because a line break ends a value.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}
