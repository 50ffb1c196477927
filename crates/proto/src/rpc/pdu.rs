//! Protocol data units: bind, alter context, request, response, fault (C706 12.6.4, [MS-RPCE] 2.2.2).

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::Guid;

/// Size of the header that all PDUs begin with.
pub const HEADER: usize = 16;
/// Size of a request's and a response's header.
const CALL_HEADER: usize = 24;
/// The largest fragment that is sent and received: Windows's own figure.
pub const MAX_FRAGMENT: u16 = 4280;

crate::flags::flags! {
    /// `pfc_flags`.
    pub struct PduFlags(u8) {
        /// First fragment of a call.
        FIRST_FRAG = 0x01;
        /// Last fragment of a call.
        LAST_FRAG = 0x02;
        /// The request names an object.
        OBJECT_UUID = 0x80;
    }
}

/// `PTYPE`: what a PDU is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PduType(pub u8);

#[allow(missing_docs, reason = "the names are DCE's own")]
impl PduType {
    pub const REQUEST: PduType = PduType(0);
    pub const RESPONSE: PduType = PduType(2);
    pub const FAULT: PduType = PduType(3);
    pub const BIND: PduType = PduType(11);
    pub const BIND_ACK: PduType = PduType(12);
    pub const BIND_NAK: PduType = PduType(13);
    pub const ALTER_CONTEXT: PduType = PduType(14);
    pub const ALTER_CONTEXT_RESPONSE: PduType = PduType(15);
    pub const AUTH3: PduType = PduType(16);
}

/// `nca_s_fault_access_denied`: the call needs an authentication that was not given, or its signature is wrong.
pub const FAULT_ACCESS_DENIED: u32 = 0x0000_0005;
/// `nca_s_op_rng_error`: the interface has no such call.
pub const FAULT_OP_RANGE: u32 = 0x1c01_0002;
/// `nca_s_unk_if`: nothing was bound under that context.
pub const FAULT_UNKNOWN_INTERFACE: u32 = 0x1c01_0003;
/// `RPC_X_BAD_STUB_DATA`: the arguments do not decode.
pub const FAULT_BAD_STUB: u32 = 0x0000_06f7;

/// The header that all PDUs begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: PduType,
    /// First and last fragment.
    pub flags: PduFlags,
    /// Bytes of the whole fragment.
    pub frag_length: u16,
    /// Bytes of the authentication trailer.
    pub auth_length: u16,
    /// Which call it belongs to.
    pub call_id: u32,
}

impl Header {
    /// Reads it.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        let mut reader = Reader::new(bytes);
        let version = (reader.u8()?, reader.u8()?);
        let (kind, flags) = (PduType(reader.u8()?), PduFlags(reader.u8()?));
        let representation = reader.array::<4>()?;
        if version.0 != 5 || version.1 > 1 || representation[0] != 0x10 {
            return Err(Malformed::Structure);
        }
        let header =
            Header { kind, flags, frag_length: reader.u16()?, auth_length: reader.u16()?, call_id: reader.u32()? };
        if usize::from(header.frag_length) < HEADER {
            return Err(Malformed::Value);
        }
        Ok(header)
    }

    /// Writes it; `frag_length` is patched by [`finish`].
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&[5, 0, self.kind.0, self.flags.0]);
        out.bytes(&[0x10, 0, 0, 0]);
        out.u16(self.frag_length);
        out.u16(self.auth_length);
        out.u32(self.call_id);
    }
}

/// An interface or transfer syntax and its version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyntaxId {
    /// Which.
    pub uuid: Guid,
    /// Its version, major in the low half.
    pub version: u32,
}

/// 8a885d04-1ceb-11c9-9fe8-08002b104860: NDR, version 2.
pub const NDR: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x8a88_5d04, 0x1ceb, 0x11c9, [0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60]),
    version: 2,
};

impl SyntaxId {
    fn decode(reader: &mut Reader<'_>) -> Result<SyntaxId> {
        Ok(SyntaxId { uuid: Guid::decode(reader)?, version: reader.u32()? })
    }

    fn encode(&self, out: &mut Writer<'_>) {
        self.uuid.encode(out);
        out.u32(self.version);
    }
}

/// One presentation context of a bind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    /// The number that requests name it by.
    pub id: u16,
    /// The interface.
    pub interface: SyntaxId,
    /// How arguments may be encoded.
    pub transfer_syntaxes: Vec<SyntaxId>,
}

/// BIND and ALTER_CONTEXT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// The largest fragment that the client sends.
    pub max_xmit_frag: u16,
    /// The largest that it takes.
    pub max_recv_frag: u16,
    /// 0 for a new association.
    pub assoc_group_id: u32,
    /// The interfaces.
    pub contexts: Vec<Context>,
}

impl Bind {
    /// Reads the body of `pdu`, which begins with its header.
    pub fn decode(pdu: &[u8]) -> Result<Bind> {
        let mut reader = Reader::new(pdu);
        reader.skip(HEADER)?;
        let (max_xmit_frag, max_recv_frag, assoc_group_id) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let count = reader.u8()?;
        reader.skip(3)?;
        let mut contexts = Vec::new();
        for _ in 0..count {
            let id = reader.u16()?;
            let syntaxes = reader.u8()?;
            reader.skip(1)?;
            let interface = SyntaxId::decode(&mut reader)?;
            let transfer_syntaxes = (0..syntaxes).map(|_| SyntaxId::decode(&mut reader)).collect::<Result<Vec<_>>>()?;
            contexts.push(Context { id, interface, transfer_syntaxes });
        }
        Ok(Bind { max_xmit_frag, max_recv_frag, assoc_group_id, contexts })
    }

    /// Writes the body.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(self.max_xmit_frag);
        out.u16(self.max_recv_frag);
        out.u32(self.assoc_group_id);
        out.u8(self.contexts.len() as u8);
        out.zeros(3);
        for context in &self.contexts {
            out.u16(context.id);
            out.u8(context.transfer_syntaxes.len() as u8);
            out.u8(0);
            context.interface.encode(out);
            for syntax in &context.transfer_syntaxes {
                syntax.encode(out);
            }
        }
    }
}

/// What became of one context: `result` and `reason` of a `p_result_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextResult {
    /// Bound, with NDR.
    Accepted,
    /// The pipe does not offer the interface.
    UnknownInterface,
    /// The client offers no NDR.
    UnknownTransferSyntax,
    /// A feature negotiation ([MS-RPCE] 2.2.2.14), with the features agreed to: none here.
    NegotiateAck,
}

/// Writes BIND_ACK or ALTER_CONTEXT_RESPONSE, header included, answering `bind`.
pub fn bind_ack(header: &Header, bind: &Bind, pipe: &str, results: &[ContextResult], out: &mut Writer<'_>) {
    let kind = if header.kind == PduType::BIND { PduType::BIND_ACK } else { PduType::ALTER_CONTEXT_RESPONSE };
    let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
    Header { kind, flags, frag_length: 0, auth_length: 0, call_id: header.call_id }.encode(out);
    out.u16(bind.max_recv_frag.min(MAX_FRAGMENT));
    out.u16(bind.max_xmit_frag.min(MAX_FRAGMENT));
    // One association per pipe; clients only want it not to be 0.
    out.u32(if bind.assoc_group_id == 0 { 0x53f0 } else { bind.assoc_group_id });
    let address = format!("\\PIPE\\{pipe}\0");
    out.u16(address.len() as u16);
    out.bytes(address.as_bytes());
    out.pad_to(4);
    out.u8(results.len() as u8);
    out.zeros(3);
    for result in results {
        let (result, reason) = match result {
            ContextResult::Accepted => (0, 0),
            ContextResult::UnknownInterface => (2, 1),
            ContextResult::UnknownTransferSyntax => (2, 2),
            ContextResult::NegotiateAck => (3, 0),
        };
        out.u16(result);
        out.u16(reason);
        let syntax = if result == 0 { NDR } else { SyntaxId { uuid: Guid::NIL, version: 0 } };
        syntax.encode(out);
    }
    finish(out);
}

/// A request's own header and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Which bound interface.
    pub context_id: u16,
    /// Which of its calls.
    pub opnum: u16,
    /// The arguments.
    pub stub: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the body of `pdu`, which begins with its header and ends where the fragment ends.
    pub fn decode(header: &Header, pdu: &'a [u8]) -> Result<Request<'a>> {
        let mut reader = Reader::new(pdu);
        // `alloc_hint` is a hint.
        reader.skip(HEADER + 4)?;
        let (context_id, opnum) = (reader.u16()?, reader.u16()?);
        if header.flags.contains(PduFlags::OBJECT_UUID) {
            reader.skip(16)?;
        }
        let trailer = match header.auth_length {
            0 => 0,
            length => usize::from(length) + 8,
        };
        let length = reader.remaining().checked_sub(trailer).ok_or(Malformed::Truncated)?;
        Ok(Request { context_id, opnum, stub: reader.take(length)? })
    }
}

/// Writes the response to a call, in as many fragments as it takes.
pub fn response(call_id: u32, context_id: u16, stub: &[u8], max_fragment: u16, out: &mut Vec<u8>) {
    let room = usize::from(max_fragment.clamp(CALL_HEADER as u16 + 8, MAX_FRAGMENT)) - CALL_HEADER;
    // Fragments carry multiples of 8 bytes so that alignment goes on across them.
    let room = room & !7;
    let mut rest = stub;
    let mut flags = PduFlags::FIRST_FRAG;
    loop {
        let (now, later) = rest.split_at(rest.len().min(room));
        if later.is_empty() {
            flags |= PduFlags::LAST_FRAG;
        }
        let mut writer = Writer::new(out);
        Header { kind: PduType::RESPONSE, flags, frag_length: 0, auth_length: 0, call_id }.encode(&mut writer);
        writer.u32(rest.len() as u32);
        writer.u16(context_id);
        writer.u16(0);
        writer.bytes(now);
        finish(&mut writer);
        if later.is_empty() {
            return;
        }
        rest = later;
        flags = PduFlags::NONE;
    }
}

/// Writes a fault: the call failed before or outside the called function.
pub fn fault(call_id: u32, context_id: u16, status: u32, out: &mut Writer<'_>) {
    let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
    Header { kind: PduType::FAULT, flags, frag_length: 0, auth_length: 0, call_id }.encode(out);
    out.u32(0);
    out.u16(context_id);
    out.u16(0);
    out.u32(status);
    out.u32(0);
    finish(out);
}

/// Sets `frag_length` of the PDU that `out` began with.
pub fn finish(out: &mut Writer<'_>) {
    let length = out.position() as u16;
    out.patch_u16(8, length);
}
