//! Named pipes of IPC$ ([MS-SMB2] 3.3.5.9, [MS-RPCE]): a fixed list of services, each a function from a request to its
//! answer.
//!
//! Samba's CVE-2017-7494 and CVE-2023-3961: a pipe's name never reaches a file system, a library or a socket here.

#[cfg(test)]
mod bed;
mod calls;
mod guessed;
mod handles;
mod lsarpc;
mod output;
mod room;
mod samr;
mod security;
mod srvsvc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use proto::fscc::{FilePipeInformation, FilePipeLocalInformation, PipeConfiguration, PipeEnd, PipeMode, PipePeekReply};
use proto::rpc::pdu::{self, FragmentSizes, Header};
use proto::status::Status;

use crate::conn::{Reply, Request};
use crate::error::{Error, Result};
use calls::Call;
use handles::Handles;
use output::{Answer, Output, Place};
use room::Held;
use security::Security;

/// How many PDUs of one WRITE are executed before other requests have their turn.
const PDUS_AT_A_TIME: usize = 256;

/// The services, by the name of their pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Service {
    Srvsvc,
    Lsarpc,
    Samr,
}

impl Service {
    fn named(name: &str) -> Option<Service> {
        let all = [("srvsvc", Service::Srvsvc), ("lsarpc", Service::Lsarpc), ("samr", Service::Samr)];
        all.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, service)| service)
    }

    fn name(self) -> &'static str {
        match self {
            Service::Srvsvc => "srvsvc",
            Service::Lsarpc => "lsarpc",
            Service::Samr => "samr",
        }
    }

    /// How many bytes the arguments of one call may have: the longest are lists of SIDs to look up, all others are short.
    fn max_stub(self) -> usize {
        match self {
            Service::Srvsvc | Service::Samr => 64 * 1024,
            Service::Lsarpc => 1024 * 1024,
        }
    }

    fn interface(self) -> pdu::SyntaxId {
        match self {
            Service::Srvsvc => proto::rpc::srvsvc::INTERFACE,
            Service::Lsarpc => proto::rpc::lsarpc::INTERFACE,
            Service::Samr => proto::rpc::samr::INTERFACE,
        }
    }
}

/// One client's end of a pipe.
pub struct Pipe {
    service: Service,
    state: Mutex<State>,
    handles: Mutex<Handles>,
    security: Security,
}

struct State {
    /// A call is being executed; what comes meanwhile waits in `input`.
    busy: bool,
    /// A PDU that has not come whole yet.
    input: BytesMut,
    /// The call whose last fragment is still to come.
    call: Option<Call>,
    /// The contexts that were bound.
    bound: Vec<u16>,
    sizes: Option<FragmentSizes>,
    output: Output,
    /// Bytes of all of that.
    held: Held,
}

impl State {
    fn new(held: Held) -> State {
        State {
            busy: false,
            input: BytesMut::new(),
            call: None,
            bound: Vec::new(),
            sizes: None,
            output: Output::default(),
            held,
        }
    }

    /// Whether `more` bytes may come, and an answer.
    fn check_room(&self, more: usize, request: &Request<'_>) -> Result<()> {
        let limits = &request.connection.server.policy().limits;
        if self.input.len() + more > limits.pipe_input
            || self.output.answers() >= limits.pipe_answers
            || !self.held.may_take(more)
        {
            return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too much for one pipe, or for all"));
        }
        Ok(())
    }

    fn count(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        let stub = self.call.as_ref().map_or(0, |call| call.stub.capacity());
        self.held.set(self.input.capacity() + stub + self.output.allocated());
    }

    fn push(&mut self, answer: Answer, security: &Security) {
        self.output.push(answer, security);
        self.count();
    }
}

impl Pipe {
    /// Opens the pipe called `name`; some clients write a backslash before it.
    pub(crate) fn open(request: &Request<'_>, name: &str) -> Result<Pipe> {
        let service = Service::named(name.strip_prefix('\\').unwrap_or(name))
            .ok_or_else(|| Error::because(Status::OBJECT_NAME_NOT_FOUND, format!("no pipe {name:?}")))?;
        let state = State::new(Held::nothing(&request.session()?.payer()));
        Ok(Pipe { service, state: Mutex::new(state), handles: Mutex::default(), security: Security::default() })
    }

    /// Whether there is a pipe called `name`. An instance of each is always to be had.
    pub(crate) fn exists(name: &str) -> bool {
        Service::named(name).is_some()
    }

    /// The pipe's name.
    pub fn name(&self) -> &'static str {
        self.service.name()
    }

    /// Takes bytes from the client and executes the calls that are complete, one after another.
    pub(crate) async fn write(&self, bytes: &[u8], request: &Request<'_>) -> Result<()> {
        {
            let mut state = self.state.lock();
            if let Some(status) = state.output.ended() {
                return Err(Error::because(status, "the association has ended"));
            }
            state.check_room(bytes.len(), request)?;
            state.input.extend_from_slice(bytes);
            state.count();
            if std::mem::replace(&mut state.busy, true) {
                return Ok(());
            }
        }
        self.execute_all(request).await.inspect_err(|_| self.fail())
    }

    async fn execute_all(&self, request: &Request<'_>) -> Result<()> {
        let mut turn = Turn { state: &self.state, over: false };
        let mut executed: usize = 0;
        while let Some(pdu) = turn.next()? {
            self.state.lock().check_room(0, request)?;
            self.execute(pdu, request).await?;
            self.state.lock().count();
            executed += 1;
            if executed.is_multiple_of(PDUS_AT_A_TIME) {
                pause().await;
            }
        }
        Ok(())
    }

    /// Nothing more is executed after a PDU that was refused ([MS-RPCE] 3.3.3.5.7): a client that waits for its answer
    /// would wait for ever.
    fn fail(&self) {
        let mut state = self.state.lock();
        state.input = BytesMut::new();
        state.call = None;
        state.output.end(Status::PIPE_BROKEN);
        state.count();
    }

    /// The pipe was closed, or its tree connect or session has ended: READs that wait end.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.input = BytesMut::new();
        state.call = None;
        state.output.close(Status::FILE_CLOSED);
        state.count();
    }

    /// Up to `room` bytes for the client; BUFFER_OVERFLOW where the message is longer. Waits for a message where there is
    /// none, unless the pipe is in non-blocking mode.
    pub(crate) async fn read(&self, room: usize, request: &Request<'_>, reply: &mut Reply) -> Result<(Bytes, Status)> {
        let waiting = {
            let mut state = self.state.lock();
            if let Some(taken) = state.output.take(room, None, &self.security) {
                state.count();
                return taken;
            }
            Waiting { place: state.output.wait(), pipe: self }
        };
        request.check_last()?;
        let pending = reply.go_async(request)?;
        let taken = pending.wait(waiting.take(room)).await;
        taken.unwrap_or_else(|_| Err(Error::new(self.ended().unwrap_or(Status::CANCELLED))))
    }

    fn ended(&self) -> Option<Status> {
        self.state.lock().output.ended()
    }

    /// FSCTL_PIPE_TRANSCEIVE ([MS-FSCC] 2.3.47, 2.3.48).
    pub(crate) async fn transceive(
        &self,
        bytes: &[u8],
        room: usize,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<(Bytes, Status)> {
        {
            let state = self.state.lock();
            if state.output.mode().read_mode != PipeMode::MESSAGE {
                return Err(Error::because(Status::INVALID_PIPE_STATE, "PIPE_TRANSCEIVE in byte stream mode"));
            }
            if state.output.answers() > 0 {
                return Err(Error::because(Status::PIPE_BUSY, "PIPE_TRANSCEIVE before all answers were read"));
            }
        }
        self.write(bytes, request).await?;
        self.read(room, request, reply).await
    }

    /// FSCTL_PIPE_PEEK ([MS-FSCC] 2.3.46): the state of the pipe, and the beginning of the first message where `room` has
    /// place for it.
    pub(crate) fn peek(&self, room: usize) -> Result<(PipePeekReply, Bytes)> {
        let state = self.state.lock();
        let (messages, bytes) = state.output.available();
        if let Some(status) = state.output.ended().filter(|_| messages == 0) {
            return Err(Error::new(status));
        }
        let first = state.output.first();
        let data = first.slice(..first.len().min(room));
        let reply = PipePeekReply {
            named_pipe_state: state.output.state(),
            read_data_available: size(bytes),
            number_of_messages: size(messages),
            message_length: size(first.len()),
        };
        Ok((reply, data))
    }

    /// FilePipeInformation ([MS-FSCC] 2.4.37).
    pub(crate) fn mode(&self) -> FilePipeInformation {
        self.state.lock().output.mode()
    }

    /// Sets it.
    pub(crate) fn set_mode(&self, mode: FilePipeInformation) -> Result<()> {
        self.state.lock().output.set_mode(mode)
    }

    /// FilePipeLocalInformation ([MS-FSCC] 2.4.38), where `quota` is what the pipe takes of a client before it is
    /// executed.
    pub(crate) fn local_information(&self, quota: usize) -> FilePipeLocalInformation {
        let state = self.state.lock();
        FilePipeLocalInformation {
            named_pipe_type: PipeMode::MESSAGE,
            named_pipe_configuration: PipeConfiguration::FULL_DUPLEX,
            maximum_instances: u32::MAX,
            current_instances: 1,
            inbound_quota: size(quota),
            read_data_available: size(state.output.available().1),
            outbound_quota: size(quota),
            write_quota_available: size(quota.saturating_sub(state.input.len())),
            named_pipe_state: state.output.state(),
            named_pipe_end: PipeEnd::CLIENT,
        }
    }
}

/// A size or a number for a 32-bit field.
fn size(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Lets other requests have their turn.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// A READ that waits, until it is dropped.
struct Waiting<'a> {
    place: Place,
    pipe: &'a Pipe,
}

impl Waiting<'_> {
    /// Waits for its turn and a message.
    async fn take(&self, room: usize) -> Result<(Bytes, Status)> {
        loop {
            self.place.notified().await;
            let mut state = self.pipe.state.lock();
            if let Some(taken) = state.output.take(room, Some(&self.place), &self.pipe.security) {
                state.count();
                return taken;
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.pipe.state.lock().output.leave(&self.place);
    }
}

/// The right to execute what has come, until it is dropped.
struct Turn<'a> {
    state: &'a Mutex<State>,
    over: bool,
}

impl Turn<'_> {
    /// The next PDU that has come whole; the turn ends in the same moment where there is none.
    fn next(&mut self) -> Result<Option<BytesMut>> {
        let mut state = self.state.lock();
        let whole = whole_pdu(&state.input)?;
        self.over = whole.is_none();
        state.busy = !self.over;
        Ok(whole.map(|length| state.input.split_to(length)))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.state.lock().busy = false;
        }
    }
}

/// Whether the caller has an account: anonymous callers and guests learn nothing about accounts through pipes.
fn has_account(request: &Request<'_>) -> bool {
    let user = request.session().ok().and_then(|session| session.user());
    user.is_some_and(|user| !user.anonymous && !user.guest)
}

/// The length of the first PDU of `input`, if it is there whole.
fn whole_pdu(input: &[u8]) -> Result<Option<usize>> {
    if input.len() < pdu::HEADER {
        return Ok(None);
    }
    let length = usize::from(Header::decode(input)?.frag_length);
    Ok((input.len() >= length).then_some(length))
}
