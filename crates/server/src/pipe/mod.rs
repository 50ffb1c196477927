//! Named pipes of IPC$ ([MS-SMB2] 3.3.5.9, [MS-RPCE]): a fixed list of services, each a function from a request to its
//! answer.
//!
//! Samba's CVE-2017-7494 and CVE-2023-3961: a pipe's name never reaches a file system, a library or a socket here.

mod srvsvc;

use std::collections::VecDeque;

use parking_lot::Mutex;
use proto::bytes::Writer;
use proto::rpc::pdu::{self, Bind, ContextResult, Header, PduFlags, PduType};
use proto::status::Status;

use crate::conn::Request;
use crate::error::{Error, Result};

/// How many bytes of one call's arguments a client may send.
const MAX_STUB: usize = 1024 * 1024;
/// How many answers may wait to be read.
const MAX_ANSWERS: usize = 64;

/// The services, by the name of their pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Service {
    Srvsvc,
}

impl Service {
    fn named(name: &str) -> Option<Service> {
        name.eq_ignore_ascii_case("srvsvc").then_some(Service::Srvsvc)
    }

    fn name(self) -> &'static str {
        match self {
            Service::Srvsvc => "srvsvc",
        }
    }

    fn interface(self) -> pdu::SyntaxId {
        match self {
            Service::Srvsvc => proto::rpc::srvsvc::INTERFACE,
        }
    }
}

/// One client's end of a pipe.
pub struct Pipe {
    service: Service,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A PDU that has not come whole yet.
    input: Vec<u8>,
    /// Arguments of a call whose last fragment is still to come.
    stub: Vec<u8>,
    /// The contexts that were bound.
    bound: Vec<u16>,
    max_fragment: u16,
    /// Answers, each a message of its own.
    output: VecDeque<Vec<u8>>,
}

impl Pipe {
    /// Opens the pipe called `name`; some clients write a backslash before it.
    pub(crate) fn open(_request: &Request<'_>, name: &str) -> Result<Pipe> {
        let name = name.strip_prefix('\\').unwrap_or(name);
        let service = Service::named(name)
            .ok_or_else(|| Error::because(Status::OBJECT_NAME_NOT_FOUND, format!("no pipe {name:?}")))?;
        Ok(Pipe { service, state: Mutex::default() })
    }

    /// The pipe's name.
    pub fn name(&self) -> &'static str {
        self.service.name()
    }

    /// Takes bytes from the client and executes the calls that are complete.
    pub(crate) fn write(&self, bytes: &[u8], request: &Request<'_>) -> Result<()> {
        let mut state = self.state.lock();
        if state.input.len() + bytes.len() > MAX_STUB || state.output.len() >= MAX_ANSWERS {
            return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too much for one pipe"));
        }
        state.input.extend_from_slice(bytes);
        while let Some(length) = whole_pdu(&state.input)? {
            let pdu: Vec<u8> = state.input.drain(..length).collect();
            self.execute(&pdu, &mut state, request)?;
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
            return Ok((now, Status::BUFFER_OVERFLOW));
        }
        Ok((state.output.pop_front().unwrap_or_default(), Status::SUCCESS))
    }

    fn execute(&self, bytes: &[u8], state: &mut State, request: &Request<'_>) -> Result<()> {
        let header = Header::decode(bytes)?;
        match header.kind {
            PduType::BIND | PduType::ALTER_CONTEXT => {
                let bind = Bind::decode(bytes)?;
                let results: Vec<_> = bind.contexts.iter().map(|context| self.bind(context, state)).collect();
                state.max_fragment = bind.max_recv_frag;
                let mut out = Vec::new();
                pdu::bind_ack(&header, &bind, self.name(), &results, &mut Writer::new(&mut out));
                state.output.push_back(out);
                Ok(())
            }
            PduType::REQUEST => {
                let call = pdu::Request::decode(&header, bytes)?;
                if header.flags.contains(PduFlags::FIRST_FRAG) {
                    state.stub.clear();
                }
                if state.stub.len() + call.stub.len() > MAX_STUB {
                    return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "arguments too long"));
                }
                state.stub.extend_from_slice(call.stub);
                if header.flags.contains(PduFlags::LAST_FRAG) {
                    let stub = std::mem::take(&mut state.stub);
                    let answer = self.call(&header, &call, &stub, state, request);
                    state.output.push_back(answer);
                }
                Ok(())
            }
            _ => Err(Error::because(Status::INVALID_PARAMETER, "no PDU that a client sends")),
        }
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
    fn call(
        &self,
        header: &Header,
        call: &pdu::Request<'_>,
        stub: &[u8],
        state: &State,
        request: &Request<'_>,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let answer = if state.bound.contains(&call.context_id) {
            match self.service {
                Service::Srvsvc => srvsvc::call(call.opnum, stub, request),
            }
        } else {
            Err(pdu::FAULT_UNKNOWN_INTERFACE)
        };
        match answer {
            Ok(stub) => pdu::response(header.call_id, call.context_id, &stub, state.max_fragment, &mut out),
            Err(status) => pdu::fault(header.call_id, call.context_id, status, &mut Writer::new(&mut out)),
        }
        out
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
