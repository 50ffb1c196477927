//! Assembles responses into frames: headers, credits, signatures, encryption ([MS-SMB2] 3.3.4.1 to 3.3.4.4).

use std::sync::Arc;

use proto::bytes::Writer;
use proto::crypto::sign::SigningKey;
use proto::smb2::error::ErrorResponse;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::Dialect;
use proto::smb2::transform::TransformHeader;
use proto::status::Status;
use smallvec::SmallVec;

use super::{Hash, Notifier, Request};
use crate::error::{Disconnect, Error};
use crate::state::connection::{Again, Connection, Frame};
use crate::state::session::Session;
use crate::vfs::{Payload, Pipe};

/// Size of the header before each message on TCP ([MS-SMB2] 2.1).
const TRANSPORT: usize = 4;
/// Maximum length of a message on the transport ([MS-SMB2] 2.1).
const LONGEST: usize = 0xff_ffff;
/// Offset of the first response, after the transport header and space for a transform header.
const FIRST: usize = TRANSPORT + TransformHeader::SIZE;

/// The frame under construction.
pub(crate) struct Outgoing {
    connection: Arc<Connection>,
    buffer: Vec<u8>,
    /// Data that follows the buffer: that of the current response, which is the only one of its frame.
    data: Option<Box<dyn Pipe>>,
    /// Finished responses of this frame.
    finished: SmallVec<[Finished; 1]>,
    /// The offset of the current response.
    start: usize,
    /// The session whose key encrypts the frame.
    seal_for: Option<Arc<Session>>,
    /// Oplocks granted by responses of this frame. Their breaks may be sent once the frame is sent.
    granted: Vec<Arc<Notifier>>,
}

struct Finished {
    start: usize,
    sign_with: Option<Arc<SigningKey>>,
}

impl Outgoing {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Outgoing {
            connection,
            buffer: Vec::new(),
            data: None,
            finished: SmallVec::new(),
            start: FIRST,
            seal_for: None,
            granted: Vec::new(),
        }
    }

    /// Begins a response after those already in the frame, with space for its header.
    pub(crate) fn begin(&mut self) {
        if self.buffer.len() < FIRST {
            self.buffer = self.connection.server.buffers.take();
            self.buffer.resize(FIRST, 0);
        }
        if let Some(last) = self.finished.last() {
            let mut writer = Writer::from(&mut self.buffer, last.start);
            writer.pad_to(8);
            let next = writer.position();
            writer.patch_u32(Header::NEXT_COMMAND_POSITION, next as u32);
        }
        self.start = self.buffer.len();
        self.buffer.resize(self.start + Header::SIZE, 0);
    }

    /// Sends the finished responses in a frame of their own if a response of `length` bytes would make the frame longer
    /// than `limit` (3.3.4.1.3 leaves the choice to the server). Call it between two responses.
    pub(crate) fn limit_frame(&mut self, length: usize, limit: usize) {
        if !self.finished.is_empty() && self.buffer.len() + length > limit {
            self.send();
        }
    }

    /// Returns whether the frame has no response yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.finished.is_empty()
    }

    pub(crate) fn body(&mut self) -> Writer<'_> {
        Writer::from(&mut self.buffer, self.start)
    }

    /// Takes the whole buffer, for a command that lets the file system append to it.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Returns the buffer from [`Outgoing::take_buffer`].
    pub(crate) fn put_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Ends the current response with data in a pipe, if [`Outgoing::may_pipe`].
    pub(crate) fn put_data(&mut self, data: Box<dyn Pipe>) {
        self.data = Some(data);
    }

    /// Returns the length in bytes of the current response, including its header.
    pub(crate) fn position(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Truncates the current response to `position` bytes.
    pub(crate) fn truncate(&mut self, position: usize) {
        self.buffer.truncate(self.start + position);
    }

    pub(crate) fn replace_body_by_error(&mut self, error: &Error) {
        self.data = None;
        self.truncate(Header::SIZE);
        let in_context = error.status == Status::STOPPED_ON_SYMLINK && self.connection.dialect() == Dialect::SMB_3_1_1;
        ErrorResponse { error_context_count: in_context.into(), error_data: &error.data }.encode(&mut self.body());
    }

    #[allow(clippy::too_many_arguments, reason = "each is one field of the response's header")]
    pub(crate) fn finish(
        &mut self,
        request: &Request<'_>,
        async_id: Option<u64>,
        status: Status,
        session_id: Option<u64>,
        tree_id: Option<u32>,
        sign_with: Option<Arc<SigningKey>>,
        hash: Hash,
    ) {
        let sign_with = self.signer(request, sign_with);
        let seals = self.must_seal(request);
        if sign_with.is_some() || seals {
            self.copy_data();
        }
        let mut header = response_header(request, async_id, status, session_id, tree_id);
        // An asynchronous request's credits were granted by its interim response.
        header.credits = if async_id.is_some() { 0 } else { self.grant(request) };
        if sign_with.is_some() {
            header.flags |= Flags::SIGNED;
        }
        self.write_header(&header);
        if seals {
            self.seal_for = request.channel.as_ref().map(|channel| channel.session.clone());
        }
        // The hash includes the signature, because it is of the bytes that the client receives. Signing again on
        // sending gives the same bytes.
        if let (Hash::Session(_), Some(key)) = (&hash, &sign_with) {
            key.sign(&mut self.buffer[self.start..]);
        }
        let response = &self.buffer[self.start..];
        match hash {
            Hash::Nobody => {}
            Hash::Connection(mut negotiated) => {
                if let Some(preauth) = &mut negotiated.preauth {
                    preauth.update(response);
                }
                self.connection.settle(*negotiated);
            }
            Hash::Session(channel) => {
                if let Some(preauth) = &mut *channel.preauth.lock() {
                    preauth.update(response);
                }
            }
        }
        self.finished.push(Finished { start: self.start, sign_with });
    }

    /// Copies data in a pipe to the buffer, because the session began to encrypt after the data was read.
    fn copy_data(&mut self) {
        let Some(data) = self.data.take() else { return };
        match Payload::Pipe(data).into_memory() {
            Ok(data) => self.buffer.extend_from_slice(&data),
            Err(_) => self.connection.end(Disconnect("a pipe has less data than it should")),
        }
    }

    /// 3.3.4.1.1: signed requests get signed responses. Encrypted responses need no signature; [`Outgoing::send`] omits
    /// it.
    fn signer(&self, request: &Request<'_>, forced: Option<Arc<SigningKey>>) -> Option<Arc<SigningKey>> {
        if forced.is_some() {
            return forced;
        }
        let signed = request.header.flags.contains(Flags::SIGNED) && !request.sealed;
        if signed { request.channel.as_ref().and_then(|channel| channel.signing()) } else { None }
    }

    /// Returns whether the data of the response may be in a pipe: it goes to the client as it is, neither signed nor
    /// encrypted, and at the end of a frame without padding.
    pub(crate) fn may_pipe(&self, request: &Request<'_>) -> bool {
        let is_alone = self.finished.is_empty() && request.last;
        is_alone && self.signer(request, None).is_none() && !self.must_seal(request)
    }

    /// Returns whether the response must be encrypted (3.3.4.1.4).
    fn must_seal(&self, request: &Request<'_>) -> bool {
        let Some(channel) = &request.channel else { return false };
        if channel.session.keys().is_none_or(|keys| keys.server_to_client.is_none()) {
            return false;
        }
        let setting_up = matches!(request.header.command, Command::NEGOTIATE | Command::SESSION_SETUP);
        let session = channel.session.encrypt_data.load(std::sync::atomic::Ordering::Relaxed);
        let share = request.tree.as_ref().is_some_and(|tree| tree.encrypts());
        request.sealed || (!setting_up && (session || share))
    }

    /// Grants the requested credits, within the window's bound (3.3.4.1.2).
    fn grant(&self, request: &Request<'_>) -> u16 {
        let charge = request.header.credit_charge.max(1);
        self.connection.state.lock().window.grant(request.header.credits.max(charge))
    }

    fn write_header(&mut self, header: &Header) {
        self.buffer[self.start..self.start + Header::SIZE].copy_from_slice(&header.to_bytes());
    }

    /// Sends the finished responses, then an interim response for the current request, whose final response is then
    /// alone at the beginning of a new frame (3.3.4.2).
    pub(crate) fn send_interim(&mut self, request: &Request<'_>, async_id: u64) {
        self.buffer.truncate(self.start);
        if let Some(last) = self.finished.last() {
            // It is now the last response of its frame.
            Writer::from(&mut self.buffer, last.start).patch_u32(Header::NEXT_COMMAND_POSITION, 0);
        }
        let seal_for = self.seal_for.clone();
        self.send();
        self.begin();
        ErrorResponse { error_context_count: 0, error_data: &[] }.encode(&mut self.body());
        let mut header = response_header(request, Some(async_id), Status::PENDING, None, None);
        header.credits = self.grant(request);
        self.write_header(&header);
        self.seal_for = if self.must_seal(request) {
            request.channel.as_ref().map(|channel| channel.session.clone())
        } else {
            seal_for
        };
        self.finished.push(Finished { start: self.start, sign_with: None });
        self.send();
        self.begin();
    }

    /// Signs or encrypts the frame and queues it. Does nothing if the frame is empty.
    pub(crate) fn send(&mut self) {
        if let Some(frame) = self.complete() {
            self.connection.outbox.push(frame);
            for notifier in self.granted.drain(..) {
                notifier.announce();
            }
        }
    }

    /// Signs or encrypts the frame and begins another; returns `None` if there is nothing to send.
    fn complete(&mut self) -> Option<Frame> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let finished = std::mem::take(&mut self.finished);
        let seal_for = self.seal_for.take();
        let data = self.data.take();
        self.start = FIRST;
        match &*finished {
            [] => return None,
            [_] => {}
            // 3.3.4.1.3: the last of several responses is padded, too.
            [.., last] => Writer::from(&mut buffer, last.start).pad_to(8),
        }
        let begin = match seal_for {
            Some(session) => match seal(&session, &mut buffer) {
                Ok(()) => 0,
                Err(reason) => {
                    self.connection.end(reason);
                    return None;
                }
            },
            None => {
                sign(&finished, &mut buffer);
                TransformHeader::SIZE
            }
        };
        let data_length = data.as_ref().map_or(0, |data| data.length());
        let length = buffer.len() - begin - TRANSPORT + data_length;
        // The bits above the 24-bit length are the message type.
        if length > LONGEST {
            self.connection.end(Disconnect("a response is longer than the transport's limit"));
            return None;
        }
        buffer[begin..begin + TRANSPORT].copy_from_slice(&(length as u32).to_be_bytes());
        Some(Frame::new(buffer, begin).followed_by(data))
    }

    /// Records that the current response grants an oplock.
    pub(crate) fn grants(&mut self, notifier: Arc<Notifier>) {
        self.granted.push(notifier);
    }

    /// Sends a notification: `header` and the body that `body` writes, encrypted for `seal_for` (3.3.4.6). `again` is
    /// called if the connection ends before delivery. Returns `false` if the connection has already ended; then `again`
    /// is not called.
    pub(crate) fn unsolicited(
        connection: &Arc<Connection>,
        header: &Header,
        seal_for: Option<Arc<Session>>,
        again: Again,
        body: impl FnOnce(&mut Writer<'_>),
    ) -> bool {
        let mut outgoing = Outgoing::new(connection.clone());
        outgoing.begin();
        body(&mut outgoing.body());
        outgoing.write_header(header);
        outgoing.seal_for = seal_for;
        outgoing.finished.push(Finished { start: outgoing.start, sign_with: None });
        let Some(frame) = outgoing.complete() else { return false };
        connection.deliveries.send(&connection.outbox, frame, again)
    }
}

/// If the connection is lost before the responses are sent, breaks that wait for them are sent over another one.
impl Drop for Outgoing {
    fn drop(&mut self) {
        for notifier in self.granted.drain(..) {
            notifier.announce();
        }
    }
}

fn response_header(
    request: &Request<'_>,
    async_id: Option<u64>,
    status: Status,
    session_id: Option<u64>,
    tree_id: Option<u32>,
) -> Header {
    let header = request.header.response(status);
    let header = Header { session_id: session_id.unwrap_or(header.session_id), ..header };
    match (async_id, tree_id) {
        (Some(id), _) => header.with_async_id(id),
        (None, Some(id)) => header.with_tree_id(id),
        (None, None) => header,
    }
}

fn sign(finished: &[Finished], buffer: &mut [u8]) {
    for (index, response) in finished.iter().enumerate() {
        let end = finished.get(index + 1).map_or(buffer.len(), |next| next.start);
        if let Some(key) = &response.sign_with {
            key.sign(&mut buffer[response.start..end]);
        }
    }
}

fn seal(session: &Session, buffer: &mut [u8]) -> Result<(), Disconnect> {
    let keys = session.keys().ok_or(Disconnect("session ended before its response was encrypted"))?;
    let key = keys.server_to_client.as_ref().ok_or(Disconnect("session without an encryption key"))?;
    let nonce = session.next_nonce().ok_or(Disconnect("the session's nonces are used up"))?;
    key.seal(session.id, nonce, &mut buffer[TRANSPORT..]);
    Ok(())
}
