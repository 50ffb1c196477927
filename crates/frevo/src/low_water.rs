//! Lets the kernel collect a part of a long request before it wakes the connection's task (SO_RCVLOWAT).
//!
//! Otherwise a client and a server on different processors wake each other for every packet, which takes longer than to
//! move the data.

use std::io;
use std::os::fd::AsRawFd;

use tokio::net::TcpStream;

/// The most bytes that the kernel collects. It doubles them for the size of the socket's buffer.
const MOST: usize = 256 * 1024;
/// For fewer bytes than this the option is not worth its two system calls.
const WORTHWHILE: usize = 32 * 1024;

/// The number of received bytes at which the socket becomes readable.
pub(crate) struct LowWater(usize);

impl LowWater {
    /// That of a new socket.
    pub(crate) fn new() -> Self {
        LowWater(1)
    }

    /// Sets it for a task that needs `missing` more bytes. The end of the stream is reported at any number.
    pub(crate) fn set(&mut self, stream: &TcpStream, missing: usize) -> io::Result<()> {
        let bytes = if missing < WORTHWHILE { 1 } else { missing.min(MOST) };
        if bytes == self.0 {
            return Ok(());
        }
        self.0 = bytes;
        let value = bytes as libc::c_int;
        let length = size_of_val(&value) as libc::socklen_t;
        let option = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
        // SAFETY: the socket is open as long as `stream` is borrowed. The value is an int, and `length` is its size.
        match unsafe { libc::setsockopt(stream.as_raw_fd(), option.0, option.1, (&raw const value).cast(), length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the number of bytes that the kernel has collected.
    pub(crate) fn collected(&self, stream: &TcpStream) -> io::Result<usize> {
        if self.0 == 1 {
            return Ok(0);
        }
        Ok(rustix::io::ioctl_fionread(stream)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tokio::io::AsyncWriteExt;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a connection");
        (client, listener.accept().await.expect("a connection").0)
    }

    fn is_readable(stream: &TcpStream) -> bool {
        let mut polled = [PollFd::new(stream, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("a socket") > 0
    }

    /// Sends `count` bytes and waits until the kernel has `total`.
    async fn send(client: &mut TcpStream, count: usize, server: &TcpStream, total: u64) {
        client.write_all(&vec![1; count]).await.expect("it fits");
        while rustix::io::ioctl_fionread(server).expect("a socket") < total {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn it_is_readable_when_enough_has_arrived() {
        let (mut client, server) = connected().await;
        let mut low = LowWater::new();
        assert_eq!(low.collected(&server).expect("a socket"), 0);
        low.set(&server, 100_000).expect("a socket");
        send(&mut client, 99_999, &server, 99_999).await;
        assert!(!is_readable(&server));
        assert_eq!(low.collected(&server).expect("a socket"), 99_999);
        send(&mut client, 1, &server, 100_000).await;
        assert!(is_readable(&server));
    }

    #[tokio::test]
    async fn what_has_arrived_is_readable_if_less_is_missing_than_before() {
        let (mut client, server) = connected().await;
        let mut low = LowWater::new();
        low.set(&server, 1 << 20).expect("a socket");
        send(&mut client, 10, &server, 10).await;
        assert!(!is_readable(&server));
        low.set(&server, 10).expect("a socket");
        assert!(is_readable(&server));
    }

    #[tokio::test]
    async fn the_end_of_the_stream_is_readable() {
        let (mut client, server) = connected().await;
        LowWater::new().set(&server, 1 << 20).expect("a socket");
        send(&mut client, 10, &server, 10).await;
        drop(client);
        server.readable().await.expect("a socket");
        assert!(is_readable(&server));
    }
}
