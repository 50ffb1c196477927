//! Frames on TCP ([MS-SMB2] 2.1), with as few system calls and copies as possible.
//!
//! An idle transport holds no buffer after [`Transport::rest`], because thousands may be open.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

use crate::{Error, Result};

/// The longest frame accepted from a server, in bytes: a READ of 8 MiB and space for its headers.
const LONGEST: usize = 8 * 1024 * 1024 + 64 * 1024;
/// The minimum size of the receive buffer, in bytes.
const PIECE: usize = 16 * 1024;

/// Connects to `address`, from `source` if it is set.
async fn dial(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(source) = source else { return TcpStream::connect(address).await };
    let socket = if source.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind((source, 0).into())?;
    socket.connect(address).await
}

/// A connection that carries frames.
pub(crate) struct Transport {
    stream: TcpStream,
    timeout: Duration,
    /// `pending` is the range of the received bytes that were not taken yet; the frame returned last is before it.
    buffer: Vec<u8>,
    pending: Range<usize>,
}

impl Transport {
    /// Connects to the first of `addresses` that answers, from `source` if it is set.
    pub(crate) async fn connect(
        addresses: &[SocketAddr],
        source: Option<IpAddr>,
        timeout: Duration,
    ) -> Result<Transport> {
        let mut refused = Error::Io(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        for address in addresses {
            match tokio::time::timeout(timeout, dial(*address, source)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(Transport { stream, timeout, buffer: Vec::new(), pending: 0..0 });
                }
                Ok(Err(error)) => refused = Error::Io(error),
                Err(_) => refused = Error::Timeout { after: timeout, waiting_for: "the connection".into() },
            }
        }
        Err(refused)
    }

    /// Returns the socket. Received bytes that were not taken are lost.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends `head` and, without copying it, `payload`.
    pub(crate) async fn send(&mut self, head: &[u8], payload: &[u8]) -> Result<()> {
        let sending = async {
            let (mut head, mut payload) = (head, payload);
            while !head.is_empty() || !payload.is_empty() {
                let sent = match self.stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(payload)]) {
                    Ok(sent) => sent,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.stream.writable().await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let of_head = sent.min(head.len());
                head = &head[of_head..];
                payload = &payload[sent - of_head..];
            }
            Ok(())
        };
        match tokio::time::timeout(self.timeout, sending).await {
            Ok(sent) => Ok(sent?),
            Err(_) => {
                let waiting_for = "the server to accept the data".into();
                Err(Error::Timeout { after: self.timeout, waiting_for })
            }
        }
    }

    /// Receives one frame and returns the range of its content in [`Transport::bytes`], valid until the next call.
    pub(crate) async fn receive(&mut self) -> Result<Range<usize>> {
        if let Some(frame) = self.buffered()? {
            return Ok(frame);
        }
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, self.fill()).await {
            Ok(frame) => frame,
            Err(_) => Err(Error::Timeout { after: timeout, waiting_for: "a response".into() }),
        }
    }

    /// The received bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Frees the buffer if it has no pending bytes.
    pub(crate) fn rest(&mut self) {
        if self.pending.is_empty() {
            self.buffer = Vec::new();
            self.pending = 0..0;
        }
    }

    /// The length of the frame that `pending` begins with.
    fn announced(&self) -> Result<Option<usize>> {
        let Some(head) = self.buffer[self.pending.clone()].first_chunk::<4>() else { return Ok(None) };
        let length = (u32::from_be_bytes(*head) & 0x00ff_ffff) as usize;
        if head[0] != 0 || length > LONGEST {
            return Err(Error::Protocol("it sent a message that is not an SMB frame"));
        }
        Ok(Some(length))
    }

    /// Takes a frame that is complete in the buffer.
    fn buffered(&mut self) -> Result<Option<Range<usize>>> {
        let Some(length) = self.announced()? else { return Ok(None) };
        if self.pending.len() < 4 + length {
            return Ok(None);
        }
        let start = self.pending.start + 4;
        self.pending.start = start + length;
        Ok(Some(start..start + length))
    }

    async fn fill(&mut self) -> Result<Range<usize>> {
        loop {
            self.make_room()?;
            self.stream.readable().await?;
            match self.stream.try_read(&mut self.buffer[self.pending.end..]) {
                Ok(0) => return Err(Error::Closed),
                Ok(count) => self.pending.end += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            }
            if let Some(frame) = self.buffered()? {
                return Ok(frame);
            }
        }
    }

    /// Makes space for the rest of the current frame and at least `PIECE` bytes in total.
    fn make_room(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            self.pending = 0..0;
        }
        let wanted = 4 + self.announced()?.unwrap_or(0);
        if self.pending.start > 0 && self.pending.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        let needed = (self.pending.start + wanted).max(self.pending.end + 1).max(PIECE);
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        Ok(())
    }
}
