//! Named pipes of IPC$ ([MS-SMB2] 3.3.5.9, [MS-RPCE]): a fixed list of services, each a function from a request to its
//! answer.
//!
//! Samba's CVE-2017-7494 and CVE-2023-3961: a pipe's name never reaches a file system, a library or a socket here.

#[cfg(test)]
mod bed;
mod guessed;
mod handles;
mod lsarpc;
mod room;
mod samr;
mod security;
mod srvsvc;

use std::collections::VecDeque;

use parking_lot::Mutex;
use proto::bytes::Writer;
use proto::rpc::pdu::{self, Bind, ContextResult, Header, PduFlags, PduType};
use proto::status::Status;

use crate::conn::Request;
use crate::error::{Error, Result};
use handles::Handles;
pub(crate) use room::Held;
use security::{Security, Unprotected};

/// How many bytes a client may send before they are executed.
const MAX_INPUT: usize = 1024 * 1024;
/// How many answers may wait to be read.
const MAX_ANSWERS: usize = 64;

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

#[derive(Default)]
struct State {
    /// A call is being executed; what comes meanwhile waits in `input`.
    busy: bool,
    /// A PDU that has not come whole yet.
    input: Vec<u8>,
    /// Arguments of a call whose last fragment is still to come.
    stub: Vec<u8>,
    /// The contexts that were bound.
    bound: Vec<u16>,
    max_fragment: u16,
    /// Answers, each a message of its own.
    output: VecDeque<Vec<u8>>,
    /// Bytes of all of that.
    held: room::OfOne,
}

impl State {
    /// Whether `more` bytes may come, and an answer.
    fn check_room(&self, more: usize, request: &Request<'_>) -> Result<()> {
        let limit = request.connection.server.policy().limits.pipe_bytes;
        if self.input.len() + more > MAX_INPUT || self.output.len() >= MAX_ANSWERS || !self.held.may_take(more, limit) {
            return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too much for one pipe, or for all"));
        }
        Ok(())
    }

    fn count(&mut self) {
        let answers: usize = self.output.iter().map(Vec::len).sum();
        self.held.set(self.input.len() + self.stub.len() + answers);
    }
}

impl Pipe {
    /// Opens the pipe called `name`; some clients write a backslash before it.
    pub(crate) fn open(request: &Request<'_>, name: &str) -> Result<Pipe> {
        let name = name.strip_prefix('\\').unwrap_or(name);
        let service = Service::named(name)
            .ok_or_else(|| Error::because(Status::OBJECT_NAME_NOT_FOUND, format!("no pipe {name:?}")))?;
        let held = request.connection.server.pipes.of_one();
        let state = State { held, ..State::default() };
        Ok(Pipe { service, state: Mutex::new(state), handles: Mutex::default(), security: Security::default() })
    }

    /// The pipe's name.
    pub fn name(&self) -> &'static str {
        self.service.name()
    }

    /// Takes bytes from the client and executes the calls that are complete, one after another.
    pub(crate) async fn write(&self, bytes: &[u8], request: &Request<'_>) -> Result<()> {
        {
            let mut state = self.state.lock();
            state.check_room(bytes.len(), request)?;
            state.input.extend_from_slice(bytes);
            state.count();
            if std::mem::replace(&mut state.busy, true) {
                return Ok(());
            }
        }
        let mut turn = Turn { state: &self.state, over: false };
        while let Some(pdu) = turn.next()? {
            self.state.lock().check_room(0, request)?;
            let executed = self.execute(pdu, request).await;
            self.state.lock().count();
            executed?;
        }
        Ok(())
    }

    /// Up to `room` bytes for the client; BUFFER_OVERFLOW where the message is longer.
    pub(crate) fn read(&self, room: usize) -> Result<(Vec<u8>, Status)> {
        let mut state = self.state.lock();
        let Some(message) = state.output.front_mut() else { return Err(Error::new(Status::PIPE_EMPTY)) };
        if message.len() > room {
            let rest = message.split_off(room);
            let now = std::mem::replace(message, rest);
            state.count();
            return Ok((now, Status::BUFFER_OVERFLOW));
        }
        let message = state.output.pop_front().unwrap_or_default();
        state.count();
        Ok((message, Status::SUCCESS))
    }

    async fn execute(&self, mut bytes: Vec<u8>, request: &Request<'_>) -> Result<()> {
        let mut header = Header::decode(&bytes)?;
        match header.kind {
            PduType::BIND | PduType::ALTER_CONTEXT => {
                let mut state = self.state.lock();
                let bind = Bind::decode(&bytes)?;
                let results: Vec<_> = bind.contexts.iter().map(|context| self.bind(context, &mut state)).collect();
                state.max_fragment = bind.max_recv_frag;
                let mut out = Vec::new();
                pdu::bind_ack(&header, &bind, self.name(), &results, &mut Writer::new(&mut out));
                self.security.begin(&header, &bytes, &mut out, request)?;
                state.output.push_back(out);
                Ok(())
            }
            PduType::REQUEST => {
                let protected = self.security.open(&header, &mut bytes)?;
                header = Header::decode(&bytes)?;
                let call = pdu::Request::decode(&header, &bytes)?;
                if let Err(Unprotected) = protected {
                    let mut out = Vec::new();
                    let status = pdu::FAULT_ACCESS_DENIED;
                    pdu::fault(header.call_id, call.context_id, status, &mut Writer::new(&mut out));
                    self.state.lock().output.push_back(out);
                    return Ok(());
                }
                let Some(arguments) = self.arguments(&header, &call)? else { return Ok(()) };
                let answer = self.call(&header, &call, arguments, request).await;
                self.state.lock().output.push_back(answer);
                Ok(())
            }
            PduType::AUTH3 => self.security.finish(&header, &bytes, request).await,
            _ => Err(Error::because(Status::INVALID_PARAMETER, "no PDU that a client sends")),
        }
    }

    /// The arguments of a call whose last fragment has come.
    fn arguments(&self, header: &Header, call: &pdu::Request<'_>) -> Result<Option<Arguments>> {
        let mut state = self.state.lock();
        if header.flags.contains(PduFlags::FIRST_FRAG) {
            state.stub.clear();
        }
        if state.stub.len() + call.stub.len() > self.service.max_stub() {
            return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "arguments too long"));
        }
        state.stub.extend_from_slice(call.stub);
        if !header.flags.contains(PduFlags::LAST_FRAG) {
            return Ok(None);
        }
        let stub = std::mem::take(&mut state.stub);
        Ok(Some(Arguments { stub, bound: state.bound.contains(&call.context_id), max_fragment: state.max_fragment }))
    }

    fn bind(&self, context: &pdu::Context, state: &mut State) -> ContextResult {
        // [MS-RPCE] 3.3.1.5.3: 6cb71c2c-9812-4540-... asks for features; none is agreed to.
        const FEATURES: [u8; 8] = [0x2c, 0x1c, 0xb7, 0x6c, 0x12, 0x98, 0x40, 0x45];
        if context.transfer_syntaxes.iter().any(|syntax| syntax.uuid.0.starts_with(&FEATURES)) {
            return ContextResult::NegotiateAck;
        }
        if context.interface != self.service.interface() {
            return ContextResult::UnknownInterface;
        }
        if !context.transfer_syntaxes.contains(&pdu::NDR) {
            return ContextResult::UnknownTransferSyntax;
        }
        if !state.bound.contains(&context.id) {
            state.bound.push(context.id);
        }
        ContextResult::Accepted
    }

    /// The answer to one call.
    async fn call(&self, header: &Header, call: &pdu::Request<'_>, with: Arguments, request: &Request<'_>) -> Vec<u8> {
        let answer = match self.service {
            _ if !with.bound => Err(pdu::FAULT_UNKNOWN_INTERFACE),
            Service::Srvsvc => srvsvc::call(call.opnum, &with.stub, request).await,
            Service::Lsarpc => lsarpc::call(call.opnum, &with.stub, &self.handles, request).await,
            Service::Samr => samr::call(call.opnum, &with.stub, &self.handles, request).await,
        };
        let mut out = Vec::new();
        match answer {
            Ok(stub) => {
                let most = with.max_fragment.saturating_sub(self.security.overhead());
                pdu::response(header.call_id, call.context_id, &stub, most, &mut out);
                out = self.security.close(out);
            }
            Err(status) => pdu::fault(header.call_id, call.context_id, status, &mut Writer::new(&mut out)),
        }
        out
    }
}

/// What a call was made with.
struct Arguments {
    stub: Vec<u8>,
    bound: bool,
    max_fragment: u16,
}

/// The right to execute what has come, until it is dropped.
struct Turn<'a> {
    state: &'a Mutex<State>,
    over: bool,
}

impl Turn<'_> {
    /// The next PDU that has come whole; the turn ends in the same moment where there is none.
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut state = self.state.lock();
        let whole = whole_pdu(&state.input)?;
        self.over = whole.is_none();
        state.busy = !self.over;
        Ok(whole.map(|length| state.input.drain(..length).collect()))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.state.lock().busy = false;
        }
    }
}

/// The length of the first PDU of `input`, if it is there whole.
fn whole_pdu(input: &[u8]) -> Result<Option<usize>> {
    if input.len() < pdu::HEADER {
        return Ok(None);
    }
    let length = usize::from(Header::decode(input)?.frag_length);
    Ok((input.len() >= length).then_some(length))
}
