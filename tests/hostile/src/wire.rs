//! A connection on which anything can be sent. Frames are built here; credits are counted but not enforced.
//!
//! Responses are read piecewise and only their headers are examined, so memory does not grow with the amount of data
//! received.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Raw};
use proto::bytes::Writer;
use proto::smb2::header::{Command, Flags, Header};
use proto::status::Status;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// How long the server may accept no bytes before a sender closes the connection.
const STALLED: Duration = Duration::from_secs(60);
/// Bytes read from the socket at a time.
const PIECE: usize = 64 * 1024;
/// Credits that each request asks for in addition to its charge.
const GREED: u16 = 512;

/// A raw connection.
pub(crate) struct Wire {
    stream: TcpStream,
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) next_message: u64,
    pub(crate) credits: u32,
    out: Vec<u8>,
    answers: Answers,
    refusals: Refusals,
}

/// Number of responses per error status, shared by all connections of an attack.
pub(crate) type Refusals = Rc<RefCell<BTreeMap<Status, u64>>>;

impl Wire {
    /// Connects without sending anything.
    pub(crate) async fn connect(address: SocketAddr, source: IpAddr, refusals: Refusals) -> Result<Wire> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let stream = timeout(Duration::from_secs(5), socket.connect(address)).await.context("no connection")??;
        Ok(Wire::new(Raw { stream, session_id: 0, tree_id: 0, next_message: 0, credits: 1 }, refusals))
    }

    /// Continues a client's connection as a raw one.
    pub(crate) fn of(client: Client, refusals: Refusals) -> Result<Wire> {
        let (signed, sealed) = client.protected();
        ensure!(!signed && !sealed, "the server requires signatures, which raw frames do not have");
        Ok(Wire::new(client.into_raw(), refusals))
    }

    fn new(raw: Raw, refusals: Refusals) -> Wire {
        let Raw { stream, session_id, tree_id, next_message, credits } = raw;
        let (out, answers) = (Vec::new(), Answers::default());
        Wire { stream, session_id, tree_id, next_message, credits, out, answers, refusals }
    }

    /// Returns the next received response, including interim and unsolicited ones.
    fn arrived(&mut self) -> Option<Header> {
        let answer = self.answers.next()?;
        self.credits += u32::from(answer.credits);
        let status = answer.status;
        if status.0 >> 30 == 3 && status != Status::MORE_PROCESSING_REQUIRED {
            *self.refusals.borrow_mut().entry(status).or_default() += 1;
        }
        Some(answer)
    }

    /// Returns whether the server has granted at least `charge` credits.
    pub(crate) fn affords(&self, charge: u16) -> bool {
        self.credits >= u32::from(charge)
    }

    /// Queues raw bytes, without a length prefix.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Queues a frame with this content.
    pub(crate) fn frame(&mut self, content: &[u8]) {
        self.bytes(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
        self.bytes(content);
    }

    /// Queues a single request in its own frame and returns its MessageId.
    pub(crate) fn queue(&mut self, command: Command, charge: u16, encode: impl FnOnce(&mut Writer<'_>)) -> u64 {
        let message_id = self.next_message;
        let mut chain = self.chain();
        chain.push(command, charge, Flags::NONE, encode);
        chain.end();
        message_id
    }

    /// Starts a frame of several requests.
    pub(crate) fn chain(&mut self) -> Chain<'_> {
        let start = self.out.len();
        self.bytes(&[0; 4]);
        Chain { start, last: self.out.len(), wire: self }
    }

    /// Queues a CANCEL of a request.
    pub(crate) fn cancel(&mut self, message_id: u64) {
        let mut content = Vec::new();
        let mut out = Writer::new(&mut content);
        let mut header = Header::request(Command::CANCEL, message_id).with_tree_id(self.tree_id);
        header.session_id = self.session_id;
        header.encode(&mut out);
        out.u16(4);
        out.u16(0);
        self.frame(&content);
    }

    /// Sends the queued bytes.
    pub(crate) async fn send(&mut self) -> Result<()> {
        let sent = timeout(STALLED, self.stream.write_all(&self.out)).await;
        self.out.clear();
        sent.context("the server accepts no data")??;
        // Other connections of the attack run on the same thread.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Sends the queued bytes while reading responses, for a flood whose responses must be read.
    pub(crate) async fn exchange(&mut self) -> Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            match self.stream.try_write(&self.out[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.take()?;
                    let both = tokio::io::Interest::READABLE | tokio::io::Interest::WRITABLE;
                    timeout(STALLED, self.stream.ready(both)).await.context("the server accepts no data")??;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.take()?;
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Returns the next final response.
    pub(crate) async fn answer(&mut self) -> Result<Header> {
        loop {
            while let Some(answer) = self.arrived() {
                if answer.status != Status::PENDING && answer.message_id != Header::UNSOLICITED {
                    return Ok(answer);
                }
            }
            self.stream.readable().await?;
            self.fill(PIECE)?;
        }
    }

    /// Reads the available responses and returns the number of final ones.
    pub(crate) fn take(&mut self) -> Result<usize> {
        let mut count = 0;
        loop {
            while let Some(answer) = self.arrived() {
                count += usize::from(answer.status != Status::PENDING);
            }
            if self.fill(PIECE)? == 0 {
                return Ok(count);
            }
        }
    }

    /// Waits for data and reads at most `most` bytes.
    pub(crate) async fn sip(&mut self, most: usize) -> Result<()> {
        self.stream.readable().await?;
        self.fill(most)?;
        while self.arrived().is_some() {}
        Ok(())
    }

    /// Waits for the end of the connection without reading anything.
    pub(crate) async fn hold(&self) -> Result<()> {
        self.stream.ready(tokio::io::Interest::ERROR).await?;
        bail!("the server closed the connection")
    }

    fn fill(&mut self, most: usize) -> Result<usize> {
        let mut piece = [0; PIECE];
        match self.stream.try_read(&mut piece[..most.min(PIECE)]) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(count) => {
                self.answers.feed(&piece[..count]);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// A frame under construction.
pub(crate) struct Chain<'a> {
    wire: &'a mut Wire,
    start: usize,
    last: usize,
}

impl Chain<'_> {
    /// Appends a request.
    pub(crate) fn push(&mut self, command: Command, charge: u16, flags: Flags, encode: impl FnOnce(&mut Writer<'_>)) {
        let wire = &mut *self.wire;
        if wire.out.len() > self.last {
            let mut out = Writer::from(&mut wire.out, self.last);
            out.pad_to(8);
            let length = u32::try_from(out.position()).unwrap_or(u32::MAX);
            out.patch_u32(Header::NEXT_COMMAND_POSITION, length);
            self.last = wire.out.len();
        }
        let mut header = Header::request(command, wire.next_message).with_tree_id(wire.tree_id);
        header.session_id = wire.session_id;
        header.flags = flags;
        header.credit_charge = charge;
        header.credits = charge.saturating_add(GREED);
        wire.next_message += u64::from(charge.max(1));
        wire.credits = wire.credits.saturating_sub(charge.max(1).into());
        let mut out = Writer::from(&mut wire.out, self.last);
        header.encode(&mut out);
        encode(&mut out);
    }

    /// Ends the frame.
    pub(crate) fn end(self) {
        let length = u32::try_from(self.wire.out.len() - self.start - 4).unwrap_or(u32::MAX);
        self.wire.out[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Extracts the headers of responses from a stream of bytes.
#[derive(Default)]
struct Answers {
    /// Bytes received and not examined yet.
    bytes: Vec<u8>,
    /// Remaining bytes of the frame.
    frame: usize,
    /// Remaining bytes, which are skipped, of the response returned last.
    skip: usize,
}

impl Answers {
    fn feed(&mut self, mut bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.frame -= skipped;
        bytes = &bytes[skipped..];
        self.bytes.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<Header> {
        if self.skip > 0 {
            return None;
        }
        if self.frame == 0 {
            // All 32 bits are used as the length, to follow even a server that sends more than 24 bits can express.
            let length = *self.bytes.first_chunk::<4>()?;
            self.bytes.drain(..4);
            self.frame = u32::from_be_bytes(length) as usize;
        }
        let whole = self.frame;
        let header = match self.bytes.get(..Header::SIZE.min(whole))? {
            bytes if bytes.len() == Header::SIZE => Header::decode(bytes).ok(),
            _ => None,
        };
        let length = match header.map(|header| header.next_command as usize) {
            Some(next) if next >= Header::SIZE && next < whole => next,
            _ => whole,
        };
        let there = length.min(self.bytes.len());
        self.bytes.drain(..there);
        self.frame -= there;
        self.skip = length - there;
        header.or_else(|| self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(frames: &[&[(Command, usize)]]) -> Vec<u8> {
        let mut all = Vec::new();
        for frame in frames {
            let mut content = Vec::new();
            for (index, (command, body)) in frame.iter().enumerate() {
                let mut header = Header::request(*command, 7);
                let last = index + 1 == frame.len();
                header.next_command = if last { 0 } else { (Header::SIZE + body) as u32 };
                header.encode(&mut Writer::from(&mut content, 0));
                content.resize(content.len() + body, 0);
            }
            all.extend_from_slice(&(content.len() as u32).to_be_bytes());
            all.extend_from_slice(&content);
        }
        all
    }

    #[test]
    fn answers_are_found_in_pieces_of_any_size() {
        let bytes = stream(&[
            &[(Command::ECHO, 4)],
            &[(Command::READ, 100_000), (Command::CLOSE, 60)],
            &[(Command::WRITE, 16)],
        ]);
        for piece in [1, 7, 64, 4096, bytes.len()] {
            let mut answers = Answers::default();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                answers.feed(part);
                while let Some(answer) = answers.next() {
                    found.push(answer.command);
                }
                assert!(answers.bytes.len() <= Header::SIZE + piece);
            }
            let expected = [Command::ECHO, Command::READ, Command::CLOSE, Command::WRITE];
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }
}
