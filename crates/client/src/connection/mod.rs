//! One connection: MessageIds and credits ([MS-SMB2] 3.2.4.1), requests in flight, and the matching of responses to
//! them.
//!
//! Requests are queued, flushed together and answered in any order. There is no background task, so an idle connection
//! does no work. A connection has one session and one tree connect.

use std::ops::Range;

use proto::bytes::Writer;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::Dialect;
use proto::smb2::oplock_break::{
    LeaseBreak, LeaseBreakFlags, OplockBreak, OplockBreakAcknowledgment, OplockBreakNotification,
};
use proto::smb2::transform::TransformHeader;
use proto::smb2::write::WriteRequest;
use proto::status::Status;
use tokio::net::TcpStream;

use crate::negotiate::Agreed;
use crate::protection::Protection;
use crate::transport::Transport;
use crate::{Error, Result};

/// A request that waits for its response.
struct InFlight {
    message_id: u64,
    command: Command,
    tag: u64,
    /// The response is discarded.
    unheeded: bool,
    /// The server has sent an interim response.
    pending: bool,
}

/// A response, valid until the next one is received.
#[derive(Debug)]
pub struct Response<'a> {
    /// Its header.
    pub header: Header,
    /// The whole message from the header on.
    pub message: &'a [u8],
    /// The tag that its request was queued with.
    pub tag: u64,
}

impl Response<'_> {
    /// Returns an error if the server refused the request. A response truncated to the buffer length is not an error.
    pub fn succeeded(&self) -> Result<()> {
        let fine = self.header.status.0 >> 30 == 0 || self.header.status == Status::BUFFER_OVERFLOW;
        if fine { Ok(()) } else { Err(self.refused()) }
    }

    /// The error for a refused request.
    pub(crate) fn refused(&self) -> Error {
        Error::Refused { command: self.header.command, status: self.header.status }
    }
}

/// A connection for hand-made frames; nothing is signed or sealed.
#[derive(Debug)]
pub struct Raw {
    /// The socket.
    pub stream: TcpStream,
    /// The session id; 0 before the logon.
    pub session_id: u64,
    /// The tree connect id; 0 without one.
    pub tree_id: u32,
    /// The MessageId of the next request.
    pub next_message: u64,
    /// The credits left.
    pub credits: u32,
}

/// A connection.
pub(crate) struct Connection {
    transport: Transport,
    pub(crate) agreed: Agreed,
    pub(crate) protection: Option<Protection>,
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    next_message: u64,
    credits: u32,
    wanted: u32,
    in_flight: Vec<InFlight>,
    /// The queued frames; each begins with its length.
    out: Vec<u8>,
    /// Where the last frame and its last message begin in `out`.
    frame: usize,
    last: usize,
    /// The rest of a received compound, and whether it was sealed.
    chain: Range<usize>,
    opened: bool,
}

impl Connection {
    pub(crate) fn new(transport: Transport, credits: u16) -> Connection {
        Connection {
            transport,
            agreed: Agreed::nothing(),
            protection: None,
            session_id: 0,
            tree_id: 0,
            next_message: 0,
            credits: 1,
            wanted: credits.into(),
            in_flight: Vec::new(),
            out: Vec::new(),
            frame: 0,
            last: 0,
            chain: 0..0,
            opened: false,
        }
    }

    /// Returns to the state before the logon.
    pub(crate) fn forget_session(&mut self) {
        self.protection = None;
        self.session_id = 0;
        self.tree_id = 0;
    }

    /// Returns the socket and the state needed to continue on it.
    pub(crate) fn into_raw(self) -> Raw {
        Raw {
            stream: self.transport.into_stream(),
            session_id: self.session_id,
            tree_id: self.tree_id,
            next_message: self.next_message,
            credits: self.credits,
        }
    }

    /// The number of requests whose response a caller waits for.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.iter().filter(|it| !it.unheeded).count()
    }

    /// Receives and discards the responses to all requests in flight, so that the next caller does not get them.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        while self.in_flight() > 0 {
            self.receive().await?;
        }
        Ok(())
    }

    /// Returns whether a request of `charge` credits can be queued now.
    pub(crate) fn affords(&self, charge: u16) -> bool {
        self.credits >= u32::from(charge.max(1))
    }

    /// Frees the buffers that only a busy connection needs.
    pub(crate) fn rest(&mut self) {
        self.transport.rest();
        self.out = Vec::new();
        self.in_flight.shrink_to_fit();
    }

    /// Queues a request in a frame of its own.
    pub(crate) fn queue(&mut self, command: Command, charge: u16, encode: impl FnOnce(&mut Writer<'_>)) -> Result<()> {
        self.queue_tagged(command, charge, 0, encode)
    }

    /// Queues a request in a frame of its own. Its response carries `tag`.
    pub(crate) fn queue_tagged(
        &mut self,
        command: Command,
        charge: u16,
        tag: u64,
        encode: impl FnOnce(&mut Writer<'_>),
    ) -> Result<()> {
        self.begin_frame();
        self.append(command, charge, tag, Flags::NONE, encode)?;
        self.end_frame(0);
        Ok(())
    }

    /// Queues a request that may have been executed before.
    pub(crate) fn queue_again(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Result<()> {
        self.begin_frame();
        self.append(command, 1, 0, Flags::REPLAY_OPERATION, encode)?;
        self.end_frame(0);
        Ok(())
    }

    /// Begins a frame that may hold several requests.
    pub(crate) fn begin_frame(&mut self) {
        self.frame = self.out.len();
        let space = 4 + self.protection.as_ref().map_or(0, Protection::space);
        self.out.resize(self.frame + space, 0);
        self.last = self.out.len();
    }

    /// Appends a request to the current frame.
    pub(crate) fn append(
        &mut self,
        command: Command,
        charge: u16,
        tag: u64,
        flags: Flags,
        encode: impl FnOnce(&mut Writer<'_>),
    ) -> Result<()> {
        let charge = charge.max(1);
        let short = Error::Protocol("it grants too few credits");
        self.credits = self.credits.checked_sub(charge.into()).ok_or(short)?;
        self.end_element();
        self.last = self.out.len();
        let mut header = Header::request(command, self.next_message).with_tree_id(self.tree_id);
        header.session_id = self.session_id;
        header.flags = flags;
        header.credit_charge = if self.agreed.dialect == Dialect::SMB_2_0_2 { 0 } else { charge };
        let missing = self.wanted.saturating_sub(self.credits).max(u32::from(charge));
        header.credits = u16::try_from(missing).unwrap_or(u16::MAX);
        self.in_flight.push(InFlight { message_id: self.next_message, command, tag, unheeded: false, pending: false });
        self.next_message += u64::from(charge);
        let mut out = Writer::from(&mut self.out, self.last);
        header.encode(&mut out);
        encode(&mut out);
        Ok(())
    }

    /// Pads and signs the last request of a compound before another one follows it.
    fn end_element(&mut self) {
        if self.out.len() == self.last {
            return;
        }
        let mut out = Writer::from(&mut self.out, self.last);
        out.pad_to(8);
        let length = out.position() as u32;
        out.patch_u32(Header::NEXT_COMMAND_POSITION, length);
        self.sign_last();
    }

    /// Signs the last request if requests are signed.
    fn sign_last(&mut self) {
        let Some(protection) = &self.protection else { return };
        let message = &mut self.out[self.last..];
        // 3.2.4.1.1: in 3.1.1, a TREE_CONNECT is signed even if other messages are not.
        let tree_connect = message[12..14] == Command::TREE_CONNECT.0.to_le_bytes();
        let must = protection.signs || (self.agreed.dialect == Dialect::SMB_3_1_1 && tree_connect);
        if must && !protection.seals {
            protection.sign(message);
        }
    }

    /// Ends a frame. Its last `behind` bytes are sent from another buffer.
    fn end_frame(&mut self, behind: usize) {
        self.sign_last();
        let start = self.frame + 4;
        if let Some(protection) = self.protection.as_ref().filter(|it| it.seals) {
            protection.seal(self.session_id, &mut self.out[start..]);
        }
        let length = (self.out.len() - start + behind) as u32;
        self.out[self.frame..start].copy_from_slice(&length.to_be_bytes());
    }

    /// Ends a compound frame.
    pub(crate) fn end_chain(&mut self) {
        self.end_frame(0);
    }

    /// Signs the last queued message with the keys of another connection.
    pub(crate) fn sign_queued(&mut self, protection: &Protection) {
        protection.sign(&mut self.out[self.last..]);
    }

    /// The last queued message.
    pub(crate) fn queued(&self) -> &[u8] {
        &self.out[self.last..]
    }

    /// Sends the queued frames.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.flush_with(&[]).await
    }

    async fn flush_with(&mut self, payload: &[u8]) -> Result<()> {
        let sent = self.transport.send(&self.out, payload).await;
        self.out.clear();
        sent
    }

    /// Sends a WRITE. Its data is copied only where it must be signed or sealed.
    pub(crate) async fn send_write(&mut self, charge: u16, tag: u64, request: &WriteRequest<'_>) -> Result<()> {
        let protects = self.protection.as_ref().is_some_and(|it| it.signs || it.seals);
        if protects || request.buffer.len() < 4096 {
            self.queue_tagged(Command::WRITE, charge, tag, |out| request.encode(out))?;
            return self.flush().await;
        }
        self.begin_frame();
        let empty = WriteRequest { buffer: &[], ..*request };
        self.append(Command::WRITE, charge, tag, Flags::NONE, |out| empty.encode(out))?;
        self.end_frame(request.buffer.len());
        self.flush_with(request.buffer).await
    }

    /// Returns the next final response to any request, in the order of arrival.
    pub(crate) async fn next(&mut self) -> Result<Response<'_>> {
        let (header, range, tag) = self.receive().await?;
        Ok(Response { header, message: &self.transport.bytes()[range], tag })
    }

    async fn receive(&mut self) -> Result<(Header, Range<usize>, u64)> {
        loop {
            if self.chain.is_empty() {
                self.receive_frame().await?;
            }
            let (header, range) = self.element()?;
            if header.message_id == Header::UNSOLICITED {
                self.unsolicited(header, range).await?;
                continue;
            }
            let position = self.in_flight.iter().position(|it| it.message_id == header.message_id);
            let position = position.ok_or(Error::Protocol("it answered a request that was never sent"))?;
            if self.in_flight[position].command != header.command {
                return Err(Error::Protocol("it answered with another command than the request's"));
            }
            self.credits = self.credits.saturating_add(header.credits.into());
            if header.status == Status::PENDING && header.is_async() {
                // Each interim response restarts the timeout, and 3.3.4.2 allows only one.
                if std::mem::replace(&mut self.in_flight[position].pending, true) {
                    return Err(Error::Protocol("it sent a second interim response to one request"));
                }
                continue;
            }
            if let Some(protection) = self.protection.as_ref().filter(|_| !self.opened) {
                protection.verify(&mut self.transport.bytes()[range.clone()], &header)?;
            }
            let answered = self.in_flight.remove(position);
            if !answered.unheeded {
                return Ok((header, range, answered.tag));
            }
        }
    }

    async fn receive_frame(&mut self) -> Result<()> {
        let frame = self.transport.receive().await.map_err(|error| self.name_what_is_waited_for(error))?;
        let bytes = &mut self.transport.bytes()[frame.clone()];
        let seals = self.protection.as_ref().is_some_and(|it| it.seals);
        self.opened = bytes.starts_with(&TransformHeader::PROTOCOL_ID);
        self.chain = frame;
        if self.opened {
            let protection =
                self.protection.as_ref().ok_or(Error::Protocol("it sent an encrypted response before the logon"))?;
            protection.open(bytes)?;
            self.chain.start += TransformHeader::SIZE;
        } else if seals {
            return Err(Error::Protocol("it sent an unencrypted response to an encrypted request"));
        }
        Ok(())
    }

    fn name_what_is_waited_for(&self, error: Error) -> Error {
        match (error, self.in_flight.first()) {
            (Error::Timeout { after, .. }, Some(first)) => {
                Error::Timeout { after, waiting_for: format!("the response to {:?}", first.command) }
            }
            (error, _) => error,
        }
    }

    /// Takes the next response from the received compound.
    fn element(&mut self) -> Result<(Header, Range<usize>)> {
        let message = &self.transport.bytes()[self.chain.clone()];
        let header = Header::decode(message)?;
        let length = match header.next_command as usize {
            0 => message.len(),
            next if next % 8 == 0 && next >= Header::SIZE && next <= message.len() => next,
            _ => return Err(Error::Protocol("it sent a malformed chain of responses")),
        };
        if !header.is_response() {
            return Err(Error::Protocol("it sent a request"));
        }
        let range = self.chain.start..self.chain.start + length;
        self.chain.start = range.end;
        Ok((header, range))
    }

    /// Gives up an oplock or a lease that the server breaks ([MS-SMB2] 3.2.5.19). There is no cached data to write
    /// back.
    async fn unsolicited(&mut self, header: Header, range: Range<usize>) -> Result<()> {
        if header.command != Command::OPLOCK_BREAK {
            return Ok(());
        }
        let message = &self.transport.bytes()[range];
        let acknowledgment = match OplockBreakNotification::decode(message)? {
            // A level II oplock is broken without an acknowledgment. An unneeded one is refused and the refusal is
            // discarded.
            OplockBreakNotification::Oplock(OplockBreak { oplock_level, file_id }) => {
                OplockBreakAcknowledgment::Oplock(OplockBreak { oplock_level, file_id })
            }
            OplockBreakNotification::Lease(lease) if lease.flags.contains(LeaseBreakFlags::ACK_REQUIRED) => {
                let (lease_key, lease_state) = (lease.lease_key, lease.new_lease_state);
                OplockBreakAcknowledgment::Lease(LeaseBreak { lease_key, lease_state })
            }
            OplockBreakNotification::Lease(_) => return Ok(()),
        };
        self.queue(Command::OPLOCK_BREAK, 1, |out| acknowledgment.encode(out))?;
        if let Some(last) = self.in_flight.last_mut() {
            last.unheeded = true;
        }
        self.flush().await
    }
}

#[cfg(test)]
mod tests;
