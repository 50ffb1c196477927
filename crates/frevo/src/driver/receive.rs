//! Receives frames: the buffer, the transport header, and requests that are executed while they arrive.

use std::future::Future;
use std::io;
use std::task::Poll;

use bytes::{Buf, BufMut, BytesMut};
use proto::smb2::header::{Command, Header};
use server::frame::{Arrival, Start};
use tokio::io::AsyncReadExt;

use super::Driver;

/// Size of one read when the length of the incoming data is unknown. A request with 64 KiB of data, the most that one
/// credit pays for, arrives in one read.
const READ_AHEAD: usize = 66 * 1024;
/// Frames up to this length are copied out of the input buffer, so that a waiting request does not keep that buffer.
const SMALL: usize = 4 * 1024;
/// A longer frame is copied if the buffer is this many times as long, because only the frame is charged while its
/// request waits. Clients can make most requests wait, but a WRITE waits for the storage only, and many of them are
/// long. It stays in a buffer of the usual size.
const SPARSE: usize = 4;
const SPARSE_WRITE: usize = 16;

/// Message types of the transport ([MS-SMB2] 2.1, RFC 1002 4.3). Session requests are accepted on port 139 only.
const SESSION_MESSAGE: u8 = 0x00;
const SESSION_REQUEST: u8 = 0x81;
const POSITIVE_RESPONSE: [u8; 4] = [0x82, 0, 0, 0];
const KEEP_ALIVE: u8 = 0x85;

/// Waits until a request that is executed while it arrives wants more data.
pub(super) async fn awaited(arrival: Option<&Arrival>) {
    match arrival {
        Some(arrival) => arrival.awaited().await,
        None => std::future::pending().await,
    }
}

impl Driver {
    /// Reads the available bytes and executes complete frames. Returns `false` at the end of the stream.
    pub(super) async fn receive(&mut self) -> io::Result<bool> {
        let (wanted, most) = self.wanted()?;
        if self.input.is_empty() {
            // A part of a request goes where the one before it was, which is in the processor's cache.
            let _ = self.input.try_reclaim(self.input_size);
        }
        let space = self.input.capacity() - self.input.len();
        // A buffer that has space for the frame is not replaced by a larger one, and one for parts serves them all.
        let (enough, needed) = if self.arrival.is_some() { (most, Arrival::MEMORY) } else { (wanted, most) };
        if space < enough && !self.make_room(needed) && space < wanted {
            self.starved = true;
            return Ok(true);
        }
        let mut space = (&mut self.input).limit(most);
        // Polled once. Unlike `try_read_buf`, it treats a short read as having emptied the socket, which saves a second
        // system call.
        let mut read = std::pin::pin!(self.stream.read_buf(&mut space));
        match std::future::poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
            Poll::Ready(Ok(0)) => return Ok(false),
            Poll::Ready(Ok(_)) | Poll::Pending => {}
            Poll::Ready(Err(error)) => return Err(error),
        }
        self.execute_all().await?;
        Ok(true)
    }

    /// Returns whether a complete frame has been received.
    pub(super) fn has_frame(&self) -> io::Result<bool> {
        Ok(self.header()?.is_some_and(|(_, length)| self.input.len() >= 4 + length))
    }

    /// Returns whether something can be executed without receiving more.
    pub(super) fn is_ready(&self) -> io::Result<bool> {
        match &self.arrival {
            Some(arrival) => Ok(arrival.is_awaited() && arrival.count(self.input.len()) > 0),
            None => Ok(self.has_frame()? || matches!(self.start, Some(Start::Data { .. }))),
        }
    }

    /// Returns the number of bytes of the current frame that have been received.
    pub(super) fn received(&self) -> usize {
        self.input.len() + self.arrival.as_ref().map_or(0, Arrival::passed)
    }

    /// Returns the length of the current frame if its request can be executed before all of it has arrived.
    pub(super) fn start(&mut self) -> io::Result<Option<usize>> {
        let Some((SESSION_MESSAGE, length)) = self.header()? else { return Ok(None) };
        if matches!(self.start, None | Some(Start::Unknown { .. })) {
            self.start = Some(self.connection.start_of(&self.input[4..], length));
        }
        Ok(matches!(self.start, Some(Start::Data { .. })).then_some(length))
    }

    /// Executes the request at the beginning of a frame of `length` bytes, whose data will be passed as it arrives.
    pub(super) async fn begin(&mut self, length: usize) -> Result<(), server::error::Disconnect> {
        let Some(Start::Data { needed }) = self.start.take() else { return Ok(()) };
        self.input.advance(4);
        let start = BytesMut::from(&self.input[..needed]);
        self.input.advance(needed);
        let (chain, arrival) = self.connection.receive_start(start, length)?;
        self.arrival = Some(arrival);
        self.execute_chain(chain).await;
        Ok(())
    }

    /// Passes the received data to the request that is executed while it arrives. Returns `false` if it has to wait.
    pub(super) fn pass_part(&mut self) -> bool {
        let Some(arrival) = self.arrival.as_mut().filter(|arrival| arrival.is_awaited()) else { return false };
        let count = arrival.count(self.input.len());
        if count > 0 && arrival.pass(self.input.split_to(count)) {
            self.arrival = None;
            self.frames += 1;
        }
        count > 0
    }

    /// Provides space for `space` more bytes of input. Returns `false` if the memory budgets have no capacity now. The
    /// budgets are charged first because many connections may learn the length of their frames at the same time.
    fn make_room(&mut self, space: usize) -> bool {
        if self.input.try_reclaim(space) {
            return true;
        }
        if !self.connection.reserve_input(self.transit(), self.input.len() + space) {
            return false;
        }
        let mut larger = self.inputs.take(self.input.len() + space);
        let size = std::mem::replace(&mut self.input_size, larger.capacity());
        larger.extend_from_slice(&self.input);
        self.inputs.park(std::mem::replace(&mut self.input, larger), size);
        true
    }

    /// Returns how many bytes are missing from the current frame, from the part of it that can be executed, or from its
    /// header, and how many to receive at most.
    fn wanted(&self) -> io::Result<(usize, usize)> {
        if let Some(arrival) = &self.arrival {
            let (least, most, is_last) = arrival.wanted();
            let missing = |count: usize| count.saturating_sub(self.input.len()).max(1);
            return Ok((missing(least), if is_last { (missing(most) + 1).max(READ_AHEAD) } else { missing(most) }));
        }
        let length = match (self.header()?, self.start) {
            (_, Some(Start::Unknown { needed })) => needed,
            (header, _) => header.map_or(0, |(_, length)| length),
        };
        // One byte more than expected, so that reading everything results in a short read.
        let wanted = (4 + length).saturating_sub(self.input.len()).max(1) + 1;
        Ok((wanted, wanted.max(READ_AHEAD)))
    }

    /// Returns how many bytes are worth waiting for: the rest of the current frame, of the part of it that is received
    /// next, or of what shows how to execute it. Before a user has logged on, the kernel keeps no more for a connection
    /// than usual, and this is 0.
    pub(super) fn missing(&self) -> io::Result<usize> {
        match &self.arrival {
            Some(arrival) => Ok(arrival.wanted().1.saturating_sub(self.input.len())),
            None if self.connection.is_logged_on() => Ok(self.wanted()?.0 - 1),
            None => Ok(0),
        }
    }

    /// Parses the transport header of the current frame: its type and the number of bytes that follow.
    pub(super) fn header(&self) -> io::Result<Option<(u8, usize)>> {
        let Some(&[kind, a, b, c]) = self.input.first_chunk::<4>() else { return Ok(None) };
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let limits = &self.connection.server.policy().limits;
        if length > if self.connection.is_logged_on() { limits.frame } else { limits.frame_before_logon } {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client sent a frame longer than the limit"));
        }
        Ok(Some((kind, length)))
    }

    /// Takes the next complete frame out of the input.
    pub(super) fn next_frame(&mut self) -> io::Result<Option<BytesMut>> {
        while let Some((kind, length)) = self.header()? {
            if self.input.len() < 4 + length {
                return Ok(None);
            }
            self.start = None;
            self.frames += 1;
            self.input.advance(4);
            let frame = if length <= SMALL || self.is_sparse(length) {
                let small = BytesMut::from(&self.input[..length]);
                self.input.advance(length);
                small
            } else {
                self.input.split_to(length)
            };
            if kind == SESSION_MESSAGE {
                return Ok(Some(frame));
            }
            self.transport_message(kind)?;
        }
        Ok(None)
    }

    /// Returns whether the frame of `length` bytes at the beginning of the input is short compared with its buffer,
    /// so that it is copied.
    fn is_sparse(&self, length: usize) -> bool {
        if length.saturating_mul(SPARSE) > self.input_size {
            return false;
        }
        let is_write = Header::decode(&self.input)
            .is_ok_and(|header| header.command == Command::WRITE && header.next_command == 0);
        !is_write || length.saturating_mul(SPARSE_WRITE).max(2 * READ_AHEAD) <= self.input_size
    }

    /// Makes the capacity of the input, which the connection is charged for, include what complete frames have left of
    /// the buffer. If a waiting request uses that, the input is moved to a buffer of its own.
    pub(super) fn compact(&mut self) {
        if self.input.capacity() >= self.input_size / 2 || self.arrival.is_some() {
            return;
        }
        if self.input.try_reclaim(self.input_size - self.input.len()) {
            return;
        }
        // The new buffer has no free space, so it is replaced when more is received. A short one is not worth parking.
        let rest = BytesMut::from(&self.input[..]);
        let size = if rest.len() > READ_AHEAD { rest.capacity() } else { 0 };
        let size = std::mem::replace(&mut self.input_size, size);
        self.inputs.park(std::mem::replace(&mut self.input, rest), size);
    }

    /// Handles a transport message other than a session message. Such messages are normally sent only on port 139.
    fn transport_message(&mut self, kind: u8) -> io::Result<()> {
        let netbios = self.connection.peer.local.port() == 139;
        match kind {
            SESSION_REQUEST if netbios => match self.stream.try_write(&POSITIVE_RESPONSE) {
                Ok(4) => Ok(()),
                Ok(_) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) => Err(error),
            },
            KEEP_ALIVE => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the client sent an unknown transport message")),
        }
    }
}
