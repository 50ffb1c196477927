//! A pipe as its client has opened it: data that arrives, complete PDUs that are executed, and READs.

use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use proto::fscc::{FilePipeInformation, FilePipeLocalInformation, PipeConfiguration, PipeEnd, PipeMode, PipePeekReply};
use proto::rpc::pdu::{self, FragmentSizes, Header};
use proto::status::Status;

use super::association::PartialCall;
use super::context_handles::ContextHandles;
use super::documents::Documents;
use super::interface::Interface;
use super::memory::MemoryCharge;
use super::messages::{MessageQueue, Response, WaitingRead};
use super::security_context::SecurityContext;
use crate::accounting::Payer;
use crate::answer::yield_now;
use crate::error::{Error, Result};
use crate::named_pipe::{BoxFuture, Caller, Message, NamedPipe, PipeRead, Spool};
use crate::state::Server;

/// PDUs of one WRITE that are executed before the task yields.
const PDUS_AT_A_TIME: usize = 256;

/// A client's open of a pipe.
pub(super) struct RpcPipe {
    pub(super) interface: &'static dyn Interface,
    server: Weak<Server>,
    pub(super) state: Mutex<State>,
    pub(super) handles: Mutex<ContextHandles>,
    pub(super) documents: Mutex<Documents>,
    pub(super) security: SecurityContext,
}

pub(super) struct State {
    /// A call is being executed; data that arrives meanwhile waits in `input`.
    busy: bool,
    /// Received data that is not executed yet.
    input: BytesMut,
    /// The call whose last fragment has not arrived yet.
    pub(super) call: Option<PartialCall>,
    /// Bytes of the arguments of the call that is being executed.
    pub(super) executed: usize,
    /// The bound presentation contexts.
    pub(super) bound: Vec<u16>,
    pub(super) sizes: Option<FragmentSizes>,
    output: MessageQueue,
    /// The charge for the memory of `input`, `call`, `executed` and `output`.
    pub(super) memory: MemoryCharge,
}

impl State {
    fn new(memory: MemoryCharge) -> State {
        State {
            busy: false,
            input: BytesMut::new(),
            call: None,
            executed: 0,
            bound: Vec::new(),
            sizes: None,
            output: MessageQueue::default(),
            memory,
        }
    }

    /// Ends the association, with everything that was not executed.
    fn give_up(&mut self) {
        self.input = BytesMut::new();
        self.call = None;
        self.executed = 0;
        self.output.end(Status::PIPE_BROKEN);
        self.count();
    }

    /// Checks whether `more` bytes, and a response, fit within the limits.
    fn check_space(&self, more: usize, server: &Server) -> Result<()> {
        let limits = &server.policy().limits;
        if self.input.len() + more > limits.pipe_input
            || self.output.answers() >= limits.pipe_answers
            || !self.memory.may_take(more)
        {
            return Err(Error::because(
                Status::INSUFFICIENT_RESOURCES,
                "the limit of data in this pipe, or in all pipes, is reached",
            ));
        }
        Ok(())
    }

    pub(super) fn count(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        let stub = self.call.as_ref().map_or(0, |call| call.stub.capacity());
        // A call that is executed has its arguments twice: encoded and decoded.
        self.memory.set(self.input.capacity() + stub + 2 * self.executed + self.output.allocated());
    }

    pub(super) fn push(&mut self, answer: Response, security: &SecurityContext) {
        self.output.push(answer, security);
        self.executed = 0;
        self.count();
    }
}

impl RpcPipe {
    /// Opens the pipe of `interface`; its memory is charged to `payer`.
    pub(super) fn new(interface: &'static dyn Interface, server: &Arc<Server>, payer: &Arc<Payer>) -> RpcPipe {
        RpcPipe {
            interface,
            server: Arc::downgrade(server),
            state: Mutex::new(State::new(MemoryCharge::nothing(payer))),
            handles: Mutex::default(),
            documents: Mutex::default(),
            security: SecurityContext::default(),
        }
    }

    /// Takes data from the client and executes the complete calls, one after another.
    async fn write(&self, bytes: &[u8], caller: &dyn Caller) -> Result<()> {
        // A connection keeps the server alive while it executes a request.
        let server = self.server.upgrade().ok_or_else(|| Error::because(Status::PIPE_BROKEN, "the server ends"))?;
        {
            let mut state = self.state.lock();
            if let Some(status) = state.output.ended() {
                return Err(Error::because(status, "the association has ended"));
            }
            state.check_space(bytes.len(), &server)?;
            state.input.extend_from_slice(bytes);
            state.count();
            if std::mem::replace(&mut state.busy, true) {
                return Ok(());
            }
        }
        self.execute_all(&server, caller).await.inspect_err(|_| self.fail())
    }

    async fn execute_all(&self, server: &Arc<Server>, caller: &dyn Caller) -> Result<()> {
        let mut turn = Turn { state: &self.state, over: false };
        let mut executed: usize = 0;
        while let Some(pdu) = turn.next()? {
            self.state.lock().check_space(0, server)?;
            self.execute(pdu, server, caller).await?;
            self.state.lock().count();
            executed += 1;
            if executed.is_multiple_of(PDUS_AT_A_TIME) {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Ends the association after a refused PDU ([MS-RPCE] 3.3.3.5.7), because a client that waits for the response
    /// would wait for ever.
    fn fail(&self) {
        self.state.lock().give_up();
    }
}

impl NamedPipe for RpcPipe {
    fn write<'a>(&'a self, bytes: &'a [u8], caller: &'a dyn Caller) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.write(bytes, caller))
    }

    fn read(&self, space: usize) -> PipeRead<'_> {
        let mut state = self.state.lock();
        if let Some(taken) = state.output.take(space, None, &self.security) {
            state.count();
            return PipeRead::Ready(taken);
        }
        let waiting = Waiting { place: state.output.wait(), pipe: self };
        PipeRead::Waiting(Box::pin(async move { waiting.take(space).await }))
    }

    fn check_transceive(&self) -> Result<()> {
        let state = self.state.lock();
        if state.output.mode().read_mode != PipeMode::MESSAGE {
            return Err(Error::because(Status::INVALID_PIPE_STATE, "PIPE_TRANSCEIVE in byte stream mode"));
        }
        if state.output.answers() > 0 {
            return Err(Error::because(Status::PIPE_BUSY, "PIPE_TRANSCEIVE before all answers were read"));
        }
        Ok(())
    }

    fn peek(&self, space: usize) -> Result<(PipePeekReply, Bytes)> {
        let state = self.state.lock();
        let (messages, bytes) = state.output.available();
        if let Some(status) = state.output.ended().filter(|_| messages == 0) {
            return Err(Error::new(status));
        }
        let first = state.output.first();
        let data = first.slice(..first.len().min(space));
        let reply = PipePeekReply {
            named_pipe_state: state.output.state(),
            read_data_available: size(bytes),
            number_of_messages: size(messages),
            message_length: size(first.len()),
        };
        Ok((reply, data))
    }

    fn mode(&self) -> FilePipeInformation {
        self.state.lock().output.mode()
    }

    fn set_mode(&self, mode: FilePipeInformation) -> Result<()> {
        self.state.lock().output.set_mode(mode)
    }

    fn local_information(&self, quota: usize) -> FilePipeLocalInformation {
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

    fn ended(&self) -> Option<Status> {
        self.state.lock().output.ended()
    }

    fn close(&self) -> Vec<Arc<Spool>> {
        let mut state = self.state.lock();
        state.input = BytesMut::new();
        state.call = None;
        state.output.close(Status::FILE_CLOSED);
        state.count();
        self.documents.lock().end()
    }
}

/// Converts a size or number for a 32-bit field, saturating.
fn size(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A waiting READ, removed from the queue on drop.
struct Waiting<'a> {
    place: WaitingRead,
    pipe: &'a RpcPipe,
}

impl Waiting<'_> {
    /// Waits for its turn and a message.
    async fn take(&self, space: usize) -> Result<Message> {
        loop {
            self.place.notified().await;
            let mut state = self.pipe.state.lock();
            if let Some(taken) = state.output.take(space, Some(&self.place), &self.pipe.security) {
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

/// The exclusive right to execute the pipe's input, released on drop.
struct Turn<'a> {
    state: &'a Mutex<State>,
    over: bool,
}

impl Turn<'_> {
    /// Returns the next complete PDU. If there is none, the turn ends atomically.
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
            // A call was given up, with its connection or because of an error. Nobody would execute those behind it.
            let mut state = self.state.lock();
            state.busy = false;
            state.give_up();
        }
    }
}

/// Returns the length of the first PDU of `input` if it is complete.
fn whole_pdu(input: &[u8]) -> Result<Option<usize>> {
    if input.len() < pdu::HEADER {
        return Ok(None);
    }
    let length = usize::from(Header::decode(input)?.frag_length);
    Ok((input.len() >= length).then_some(length))
}
