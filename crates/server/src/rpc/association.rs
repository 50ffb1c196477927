//! Processing of a client's PDUs: binds and fragmented calls ([MS-RPCE] 3.3.1.5, 3.3.3.5).

use std::sync::Arc;

use bytes::BytesMut;
use proto::bytes::Writer;
use proto::rpc::pdu::{self, Bind, ByteOrder, ContextResult, FragmentSizes, Fragments, Header, PduFlags, PduType};
use proto::status::Status;

use super::interface::{self, Call, Results};
use super::messages::Response;
use super::pipe::{RpcPipe, State};
use super::security_context::{UnknownProvider, Unprotected};
use crate::error::{Error, Result};
use crate::named_pipe::Caller;
use crate::state::Server;

/// A call of which only some fragments have arrived.
pub(super) struct PartialCall {
    id: u32,
    pub(super) stub: Vec<u8>,
}

/// The state of a call after a fragment.
enum Received {
    Whole(Arguments),
    Part,
    /// The fragment does not belong to the current call, or there is none.
    OutOfOrder,
}

/// The arguments of a complete call.
struct Arguments {
    stub: Vec<u8>,
    order: ByteOrder,
    bound: bool,
}

impl RpcPipe {
    /// Executes one PDU.
    pub(super) async fn execute(&self, bytes: BytesMut, server: &Arc<Server>, caller: &dyn Caller) -> Result<()> {
        let header = Header::decode(&bytes)?;
        match header.kind {
            PduType::BIND | PduType::ALTER_CONTEXT => self.associate(&header, &bytes, server),
            PduType::REQUEST => self.request(header, bytes.into(), server, caller).await,
            PduType::AUTH3 => self.security.finish(&header, &bytes, server, caller).await,
            // The call that they refer to has already been executed (C706 12.6.4.2, 12.6.4.8).
            PduType::CO_CANCEL | PduType::ORPHANED => Ok(()),
            _ => Err(Error::because(Status::INVALID_PARAMETER, "not a PDU that clients send")),
        }
    }

    fn associate(&self, header: &Header, bytes: &[u8], server: &Server) -> Result<()> {
        let mut state = self.state.lock();
        let bind = Bind::decode(bytes)?;
        let most = server.policy().limits.pipe_contexts;
        let results: Vec<_> = bind.contexts.iter().map(|context| self.bind(context, most, &mut state)).collect();
        if header.kind == PduType::BIND {
            state.sizes = Some(FragmentSizes::of(&bind));
        }
        let sizes = state.sizes.unwrap_or_default();
        let mut out = Vec::new();
        pdu::bind_ack(header, &bind, sizes, self.interface.pipe(), &results, &mut Writer::new(&mut out));
        if let Err(UnknownProvider) = self.security.begin(header, bytes, &mut out, server)? {
            out.clear();
            pdu::bind_nak(header.call_id, pdu::AUTHENTICATION_TYPE_NOT_RECOGNIZED, &mut Writer::new(&mut out));
        }
        state.push(Response::Pdu(out), &self.security);
        Ok(())
    }

    async fn request(
        &self,
        mut header: Header,
        mut bytes: Vec<u8>,
        server: &Arc<Server>,
        caller: &dyn Caller,
    ) -> Result<()> {
        let protected = self.security.open(&header, &mut bytes)?;
        header = Header::decode(&bytes)?;
        let call = pdu::Request::decode(&header, &bytes)?;
        if let Err(Unprotected) = protected {
            self.fault(&header, &call, pdu::FAULT_ACCESS_DENIED);
            return Ok(());
        }
        let arguments = match self.arguments(&header, &call, ByteOrder::of(&bytes))? {
            Received::Whole(arguments) => arguments,
            Received::Part => return Ok(()),
            Received::OutOfOrder => {
                self.fault(&header, &call, pdu::FAULT_PROTOCOL);
                return Ok(());
            }
        };
        let sent = self.state.lock().sizes.unwrap_or_default().sent;
        match self.call(&call, arguments, server, caller).await {
            Ok(results) => self.respond(&header, &call, results, sent),
            Err(status) => self.fault(&header, &call, status),
        }
        Ok(())
    }

    fn respond(&self, header: &Header, call: &pdu::Request<'_>, results: Vec<u8>, sent: u16) {
        let overhead = self.security.overhead();
        let most = sent.saturating_sub(overhead.unwrap_or(0));
        let fragments = Fragments::new(header.call_id, call.context_id, results, most);
        let answer = Response::Results { fragments, protected: overhead.is_some() };
        let mut state = self.state.lock();
        if state.memory.may_take(answer.allocated()) {
            state.push(answer, &self.security);
        } else {
            drop(state);
            self.fault(header, call, pdu::FAULT_NO_MEMORY);
        }
    }

    fn fault(&self, header: &Header, call: &pdu::Request<'_>, status: u32) {
        let mut out = Vec::new();
        pdu::fault(header.call_id, call.context_id, status, &mut Writer::new(&mut out));
        self.state.lock().push(Response::Pdu(out), &self.security);
    }

    /// Returns the arguments of a call if this is its last fragment ([MS-RPCE] 3.3.3.5.2: all fragments have one
    /// call_id).
    fn arguments(&self, header: &Header, call: &pdu::Request<'_>, order: ByteOrder) -> Result<Received> {
        let mut state = self.state.lock();
        let mut whole = match state.call.take() {
            _ if header.flags.contains(PduFlags::FIRST_FRAG) => PartialCall { id: header.call_id, stub: Vec::new() },
            Some(begun) if begun.id == header.call_id => begun,
            _ => return Ok(Received::OutOfOrder),
        };
        if whole.stub.len() + call.stub.len() > self.interface.max_stub() {
            return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "the arguments are too long"));
        }
        whole.stub.extend_from_slice(call.stub);
        if !header.flags.contains(PduFlags::LAST_FRAG) {
            state.call = Some(whole);
            return Ok(Received::Part);
        }
        state.executed = whole.stub.capacity();
        state.count();
        Ok(Received::Whole(Arguments { stub: whole.stub, order, bound: state.bound.contains(&call.context_id) }))
    }

    fn bind(&self, context: &pdu::Context, most: usize, state: &mut State) -> ContextResult {
        // [MS-RPCE] 3.3.1.5.3: 6cb71c2c-9812-4540-... negotiates features; none is supported.
        const FEATURES: [u8; 8] = [0x2c, 0x1c, 0xb7, 0x6c, 0x12, 0x98, 0x40, 0x45];
        if context.transfer_syntaxes.iter().any(|syntax| syntax.uuid.0.starts_with(&FEATURES)) {
            return ContextResult::NegotiateAck;
        }
        if context.interface != self.interface.syntax() {
            return ContextResult::UnknownInterface;
        }
        if !context.transfer_syntaxes.contains(&pdu::NDR) {
            return ContextResult::UnknownTransferSyntax;
        }
        if !state.bound.contains(&context.id) {
            if state.bound.len() >= most {
                return ContextResult::TooMany;
            }
            state.bound.push(context.id);
        }
        ContextResult::Accepted
    }

    /// Executes a call and returns its results, or the status of a fault.
    async fn call(
        &self,
        call: &pdu::Request<'_>,
        with: Arguments,
        server: &Arc<Server>,
        caller: &dyn Caller,
    ) -> Results {
        if !with.bound {
            return Err(pdu::FAULT_UNKNOWN_INTERFACE);
        }
        let payer = &self.state.lock().memory.payer().clone();
        let context = Call {
            server,
            caller,
            handles: &self.handles,
            documents: &self.documents,
            security: &self.security,
            payer,
            order: with.order,
        };
        interface::execute(self.interface, call.opnum, &with.stub, &context).await
    }
}
