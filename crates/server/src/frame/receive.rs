//! Turns a frame into a chain of requests: decryption, splitting, sequence numbers ([MS-SMB2] 3.3.5.2).

use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use proto::smb1;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::transform::TransformHeader;
use proto::smb2::write::WriteRequest;

use super::chain::{Chain, Element, Elements};
use crate::command::{negotiate, write};
use crate::error::Disconnect;
use crate::request::arrival::{self, Arrival};
use crate::state::connection::Connection;

/// How the request in a frame can be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// That is known when more of the frame has arrived.
    Unknown {
        /// The number of bytes of the frame that have to arrive.
        needed: usize,
    },
    /// When the whole frame has arrived.
    Whole,
    /// When all but the data has arrived, as a WRITE.
    Data {
        /// The number of bytes of the frame before the data.
        needed: usize,
    },
}

impl Connection {
    /// Processes one frame, without its transport header. Returns `None` if it was answered already (a multi-protocol
    /// negotiate). Frames must be passed in the order of their arrival.
    pub fn receive(self: &Arc<Self>, mut frame: BytesMut) -> Result<Option<Chain>, Disconnect> {
        if self.ended().is_some() {
            return Err(Disconnect("the connection has ended"));
        }
        match frame.first_chunk::<4>() {
            Some(b"\xfeSMB") => self.split(frame, None).map(Some),
            Some(b"\xfdSMB") => {
                let (session, plain) = self.open_transform(&mut frame)?;
                let mut message = frame.split_off(plain.start);
                message.truncate(plain.len());
                self.split(message, Some(session)).map(Some)
            }
            Some(b"\xffSMB") => {
                let dialects =
                    smb1::Smb1NegotiateRequest::decode(&frame).map_err(|_| Disconnect("not an SMB1 NEGOTIATE"))?;
                negotiate::multi_protocol(self, &dialects)?;
                Ok(None)
            }
            // Compression is not offered, so 0xFC 'S' 'M' 'B' is invalid too.
            _ => Err(Disconnect("not an SMB message")),
        }
    }

    /// Returns whether the request in a frame of `length` bytes, which begins with `start`, can be executed before all
    /// of it has arrived.
    pub fn start_of(&self, start: &[u8], length: usize) -> Start {
        if length < arrival::WORTHWHILE {
            return Start::Whole;
        }
        let needed = Header::SIZE + WriteRequest::SIZE;
        if start.len() < needed {
            return Start::Unknown { needed };
        }
        let Ok(header) = Header::decode(start) else { return Start::Whole };
        match write::takes_parts(self, &header, start, length) {
            Some(needed) => Start::Data { needed },
            None => Start::Whole,
        }
    }

    /// Processes the beginning of a frame up to its data ([`Start::Data`]), instead of [`Connection::receive`]. The
    /// frame has `length` bytes.
    pub fn receive_start(self: &Arc<Self>, start: BytesMut, length: usize) -> Result<(Chain, Arrival), Disconnect> {
        if self.ended().is_some() {
            return Err(Disconnect("the connection has ended"));
        }
        let position = WriteRequest::decode_start(&start).map_or(0, |(asked, _)| asked.offset);
        let (arrival, rest) = arrival::arrival(position, length.saturating_sub(start.len()));
        let mut chain = self.split(start, None)?;
        chain.follow(rest);
        Ok((chain, arrival))
    }

    /// Decrypts a frame ([MS-SMB2] 3.3.5.2.1.1). Returns the session and the range of the plaintext message.
    fn open_transform(&self, frame: &mut [u8]) -> Result<(u64, Range<usize>), Disconnect> {
        let header =
            TransformHeader::decode(frame).map_err(|_| Disconnect("the transform header cannot be decoded"))?;
        let channel = self.channel(header.session_id).ok_or(Disconnect("encrypted message for an unknown session"))?;
        let keys = channel.session.keys().ok_or(Disconnect("encrypted message before authentication"))?;
        let key = keys.client_to_server.as_ref().ok_or(Disconnect("encrypted message, but the session has no key"))?;
        let length = frame.len();
        let plain = key.open(frame).map_err(|_| Disconnect("an encrypted message does not authenticate"))?.len();
        channel.session.note_sealed();
        Ok((header.session_id, length - plain..length))
    }

    /// Splits a message into its requests and consumes their MessageIds.
    fn split(self: &Arc<Self>, mut message: BytesMut, sealed: Option<u64>) -> Result<Chain, Disconnect> {
        let mut elements = Elements::new();
        let limit = self.server.policy().limits.chain;
        loop {
            let header = Header::decode(&message).map_err(|_| Disconnect("the header cannot be decoded"))?;
            self.check_header(&header, elements.first().map(|first| &first.header), sealed)?;
            let next = header.next_command as usize;
            let length = if next == 0 { message.len() } else { next };
            if !next.is_multiple_of(8) || length < Header::SIZE || length > message.len() || elements.len() >= limit {
                return Err(Disconnect("compound with an invalid NextCommand"));
            }
            if header.command != Command::CANCEL {
                let charge = if self.negotiated().is_some_and(|it| it.multi_credit) { header.credit_charge } else { 1 };
                if !self.state.lock().window.charge(header.message_id, charge) {
                    return Err(Disconnect("MessageId outside the window"));
                }
            }
            if next == 0 {
                elements.push(Element { header, message, rest: None });
                return Ok(Chain::new(self.clone(), elements, sealed));
            }
            elements.push(Element { header, message: message.split_to(length), rest: None });
        }
    }

    /// Checks for errors that end the connection before a request is processed (3.3.5.2.1.1, 3.3.5.2.2, 3.3.5.2.6).
    fn check_header(&self, header: &Header, first: Option<&Header>, sealed: Option<u64>) -> Result<(), Disconnect> {
        // Deviates from [MS-SMB2] 3.3.5.2.6: within a chain the request is refused, so that the preceding ones are
        // answered.
        if header.command.0 > Command::OPLOCK_BREAK.0 && first.is_none() {
            return Err(Disconnect("unknown command"));
        }
        if header.flags.contains(Flags::SERVER_TO_REDIR) {
            return Err(Disconnect("the client sent a response"));
        }
        if self.negotiated().is_none() && header.command != Command::NEGOTIATE {
            return Err(Disconnect("request before NEGOTIATE"));
        }
        if let Some(session) = sealed {
            let related = header.flags.contains(Flags::RELATED_OPERATIONS);
            let foreign = header.session_id != session && !(first.is_some() && related);
            if foreign || (first.is_none() && related) {
                return Err(Disconnect("encrypted request of another session"));
            }
        }
        Ok(())
    }
}
