//! Detects clients that no longer acknowledge what is sent to them. An oplock break that a client never receives must
//! be sent over another channel ([MS-SMB2] 3.3.4.6), and TCP itself gives up only after a quarter of an hour.
//!
//! The kernel tracks how much the other side has acknowledged. It is queried only while a break is in progress.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use server::state::connection::Connection;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How often the kernel is queried.
const INTERVAL: Duration = Duration::from_millis(100);
/// A client that has acknowledged nothing for this long is considered gone. TCP has retransmitted three times by then,
/// and most of the 35 seconds that the client has to answer a break are left.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of a break that is in progress.
pub(crate) struct Watch {
    next: Instant,
    /// The highest acknowledged byte count so far; `since` is the time at which it was reached.
    acknowledged: u64,
    since: Instant,
}

impl Watch {
    /// Starts watching, right after a break was sent.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Watch { next: now + INTERVAL, acknowledged: 0, since: now }
    }

    /// Returns the time of the next check.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Checks the progress of `connection`; `sent` bytes of its frames were given to `stream`. Returns `false` once all
    /// of them have been acknowledged.
    ///
    /// # Errors
    ///
    /// `TimedOut` if the client is gone and its sessions have other channels.
    pub(crate) fn look(&mut self, connection: &Connection, stream: &TcpStream, sent: u64) -> io::Result<bool> {
        let now = Instant::now();
        self.next = now + INTERVAL;
        let Some(acknowledged) = connection.acknowledge(sent.saturating_sub(unacknowledged(stream)?)) else {
            return Ok(false);
        };
        if acknowledged > self.acknowledged {
            (self.acknowledged, self.since) = (acknowledged, now);
        }
        if now.duration_since(self.since) >= PATIENCE && connection.is_dispensable() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client no longer acknowledges data"));
        }
        Ok(true)
    }
}

/// Returns the number of bytes that the kernel has queued for the other side and that are not yet acknowledged.
fn unacknowledged(stream: &TcpStream) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the socket is open as long as `stream` is borrowed. SIOCOUTQ, which has TIOCOUTQ's number, stores an int.
    if unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn the_kernel_reports_unacknowledged_bytes() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut other, _) = listener.accept().await.unwrap();
        assert_eq!(unacknowledged(&one).unwrap(), 0);
        // More than the buffers of both sides can hold.
        let flood = vec![0; 64 << 20];
        let taken = one.try_write(&flood).unwrap();
        let kept = unacknowledged(&one).unwrap();
        assert!(kept > 0 && kept <= taken as u64, "{kept} of {taken}");
        let mut received = vec![0; taken];
        other.read_exact(&mut received).await.unwrap();
        other.write_all(b"x").await.unwrap();
        one.read_exact(&mut [0]).await.unwrap();
        assert_eq!(unacknowledged(&one).unwrap(), 0, "the answer acknowledges all data");
    }
}
