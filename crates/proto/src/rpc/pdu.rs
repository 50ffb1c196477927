//! Protocol data units: bind, alter context, request, response, fault (C706 12.6.4, [MS-RPCE] 2.2.2).

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::Guid;

/// The size of the common header of all PDUs.
pub const HEADER: usize = 16;
/// The size of the header of a request or response.
const CALL_HEADER: usize = 24;
/// The largest fragment that is sent and received; the value that Windows uses.
pub const MAX_FRAGMENT: u16 = 4280;
/// `MustRecvFragSize`: the fragment that every implementation must be able to receive (C706 12.6.3.2).
pub const MUST_RECEIVE: u16 = 1432;

crate::flags::flags! {
    /// `pfc_flags`.
    pub struct PduFlags(u8) {
        /// First fragment of a call.
        FIRST_FRAG = 0x01;
        /// Last fragment of a call.
        LAST_FRAG = 0x02;
        /// The request contains an object UUID.
        OBJECT_UUID = 0x80;
    }
}

/// `PTYPE`: the type of a PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PduType(pub u8);

#[allow(missing_docs, reason = "the names are those of DCE")]
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
    pub const CO_CANCEL: PduType = PduType(18);
    pub const ORPHANED: PduType = PduType(19);
}

/// `nca_s_fault_access_denied`: the call requires authentication that is missing, or its signature is wrong.
pub const FAULT_ACCESS_DENIED: u32 = 0x0000_0005;
/// `nca_s_op_rng_error`: the interface has no such call.
pub const FAULT_OP_RANGE: u32 = 0x1c01_0002;
/// `nca_s_unk_if`: no interface is bound to that context.
pub const FAULT_UNKNOWN_INTERFACE: u32 = 0x1c01_0003;
/// `nca_s_proto_error`: a PDU breaks the rules of the protocol ([MS-RPCE] 3.3.3.5.7).
pub const FAULT_PROTOCOL: u32 = 0x1c01_000b;
/// `nca_s_fault_remote_no_memory`: the server does not have enough memory for the response.
pub const FAULT_NO_MEMORY: u32 = 0x1c00_001b;
/// nca_s_fault_context_mismatch: the context handle is unknown.
pub const FAULT_CONTEXT_MISMATCH: u32 = 0x1c00_001a;
/// `RPC_X_BAD_STUB_DATA`: the arguments do not decode.
pub const FAULT_BAD_STUB: u32 = 0x0000_06f7;

/// The order of the bytes of numbers and characters in a PDU (C706 14.1): a receiver accepts both orders. Responses are
/// always little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ByteOrder {
    /// The lowest byte is first.
    #[default]
    Little,
    /// The highest byte is first.
    Big,
}

impl ByteOrder {
    /// Where the header has the data representation, whose high half-byte is the order of integers.
    const POSITION: usize = 4;

    /// Returns the order of `pdu`, which begins with its header.
    pub fn of(pdu: &[u8]) -> ByteOrder {
        if pdu.get(Self::POSITION).is_some_and(|byte| byte >> 4 == 0) { ByteOrder::Big } else { ByteOrder::Little }
    }

    /// Converts the bytes of a number that was read as little-endian, and back.
    pub fn u16(self, read: u16) -> u16 {
        if self == ByteOrder::Big { read.swap_bytes() } else { read }
    }

    /// Converts the bytes of a number that was read as little-endian, and back.
    pub fn u32(self, read: u32) -> u32 {
        if self == ByteOrder::Big { read.swap_bytes() } else { read }
    }

    /// Converts the numbers in a UUID that was read as little-endian.
    pub fn uuid(self, mut read: [u8; 16]) -> [u8; 16] {
        if self == ByteOrder::Big {
            read[..4].reverse();
            read[4..6].reverse();
            read[6..8].reverse();
        }
        read
    }
}

/// Reads the fields of a PDU's own structures.
struct Fields<'a> {
    reader: Reader<'a>,
    order: ByteOrder,
}

impl<'a> Fields<'a> {
    /// Starts at the beginning of `pdu`.
    fn of(pdu: &'a [u8]) -> Fields<'a> {
        Fields { reader: Reader::new(pdu), order: ByteOrder::of(pdu) }
    }

    fn u8(&mut self) -> Result<u8> {
        self.reader.u8()
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(self.order.u16(self.reader.u16()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(self.order.u32(self.reader.u32()?))
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        self.reader.skip(count)
    }
}

/// The common header of all PDUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The PDU type.
    pub kind: PduType,
    /// First-fragment and last-fragment flags.
    pub flags: PduFlags,
    /// The size of the whole fragment in bytes.
    pub frag_length: u16,
    /// The size of the authentication trailer's value in bytes.
    pub auth_length: u16,
    /// The call that the PDU belongs to.
    pub call_id: u32,
}

impl Header {
    /// Decodes the header.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        let mut fields = Fields::of(bytes);
        let version = (fields.u8()?, fields.u8()?);
        let (kind, flags) = (PduType(fields.u8()?), PduFlags(fields.u8()?));
        // Characters are in ASCII.
        if version.0 != 5 || version.1 > 1 || !matches!(fields.u8()?, 0x00 | 0x10) {
            return Err(Malformed::Structure);
        }
        fields.skip(3)?;
        let header =
            Header { kind, flags, frag_length: fields.u16()?, auth_length: fields.u16()?, call_id: fields.u32()? };
        if usize::from(header.frag_length) < HEADER {
            return Err(Malformed::Value);
        }
        Ok(header)
    }

    /// Encodes the header. [`finish`] sets `frag_length`.
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
    /// The UUID.
    pub uuid: Guid,
    /// The version, major in the low half.
    pub version: u32,
}

/// 8a885d04-1ceb-11c9-9fe8-08002b104860: NDR, version 2.
pub const NDR: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x8a88_5d04, 0x1ceb, 0x11c9, [0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60]),
    version: 2,
};

impl SyntaxId {
    fn decode(fields: &mut Fields<'_>) -> Result<SyntaxId> {
        Ok(SyntaxId { uuid: Guid(fields.order.uuid(fields.reader.array()?)), version: fields.u32()? })
    }

    fn encode(&self, out: &mut Writer<'_>) {
        self.uuid.encode(out);
        out.u32(self.version);
    }
}

/// One presentation context of a bind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    /// The number by which requests refer to the context.
    pub id: u16,
    /// The interface.
    pub interface: SyntaxId,
    /// The supported encodings of arguments.
    pub transfer_syntaxes: Vec<SyntaxId>,
}

/// BIND and ALTER_CONTEXT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// The largest fragment that the client sends.
    pub max_xmit_frag: u16,
    /// The largest fragment that the client accepts.
    pub max_recv_frag: u16,
    /// 0 for a new association.
    pub assoc_group_id: u32,
    /// The interfaces.
    pub contexts: Vec<Context>,
}

impl Bind {
    /// Decodes the body of `pdu`, which begins with its header.
    pub fn decode(pdu: &[u8]) -> Result<Bind> {
        let mut fields = Fields::of(pdu);
        fields.skip(HEADER)?;
        let (max_xmit_frag, max_recv_frag, assoc_group_id) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let count = fields.u8()?;
        fields.skip(3)?;
        let mut contexts = Vec::new();
        for _ in 0..count {
            let id = fields.u16()?;
            let syntaxes = fields.u8()?;
            fields.skip(1)?;
            let interface = SyntaxId::decode(&mut fields)?;
            let transfer_syntaxes = (0..syntaxes).map(|_| SyntaxId::decode(&mut fields)).collect::<Result<Vec<_>>>()?;
            contexts.push(Context { id, interface, transfer_syntaxes });
        }
        Ok(Bind { max_xmit_frag, max_recv_frag, assoc_group_id, contexts })
    }

    /// Encodes the body.
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

/// The outcome for one context: `result` and `reason` of a `p_result_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextResult {
    /// Bound, with NDR.
    Accepted,
    /// The pipe does not offer the interface.
    UnknownInterface,
    /// The client does not offer NDR.
    UnknownTransferSyntax,
    /// The association has reached its maximum number of contexts.
    TooMany,
    /// A feature negotiation ([MS-RPCE] 2.2.2.14) with the agreed features; here there are none.
    NegotiateAck,
}

/// The fragment sizes of an association ([MS-RPCE] 3.3.1.5.2, C706 12.6.3.5). A BIND determines them; an ALTER_CONTEXT
/// does not change them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentSizes {
    /// The largest fragment that the server sends.
    pub sent: u16,
    /// The largest fragment that the client may send.
    pub received: u16,
}

impl FragmentSizes {
    /// The sizes that both the server and the sender of `bind` support.
    pub fn of(bind: &Bind) -> FragmentSizes {
        let common = |size: u16| size.clamp(MUST_RECEIVE, MAX_FRAGMENT);
        FragmentSizes { sent: common(bind.max_recv_frag), received: common(bind.max_xmit_frag) }
    }
}

impl Default for FragmentSizes {
    fn default() -> Self {
        FragmentSizes { sent: MUST_RECEIVE, received: MUST_RECEIVE }
    }
}

/// `provider_reject_reason` of a BIND_NAK: the security provider is unknown ([MS-RPCE] 2.2.2.5, 3.3.3.5.3).
pub const AUTHENTICATION_TYPE_NOT_RECOGNIZED: u16 = 8;

/// Encodes a BIND_NAK, including the header ([MS-RPCE] 2.2.2.9).
pub fn bind_nak(call_id: u32, reason: u16, out: &mut Writer<'_>) {
    let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
    Header { kind: PduType::BIND_NAK, flags, frag_length: 0, auth_length: 0, call_id }.encode(out);
    out.u16(reason);
    // One protocol version is supported: 5.0.
    out.bytes(&[1, 5, 0]);
    finish(out);
}

/// Encodes a BIND_ACK or ALTER_CONTEXT_RESPONSE to `bind`, including the header.
pub fn bind_ack(
    header: &Header,
    bind: &Bind,
    sizes: FragmentSizes,
    pipe: &str,
    results: &[ContextResult],
    out: &mut Writer<'_>,
) {
    let kind = if header.kind == PduType::BIND { PduType::BIND_ACK } else { PduType::ALTER_CONTEXT_RESPONSE };
    let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
    Header { kind, flags, frag_length: 0, auth_length: 0, call_id: header.call_id }.encode(out);
    out.u16(sizes.sent);
    out.u16(sizes.received);
    // There is one association per pipe; clients only require a non-zero value.
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
            ContextResult::TooMany => (2, 3),
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
    /// The bound interface.
    pub context_id: u16,
    /// The number of the call.
    pub opnum: u16,
    /// The arguments.
    pub stub: &'a [u8],
}

impl<'a> Request<'a> {
    /// Decodes the body of `pdu`, which begins with its header and ends with the fragment.
    pub fn decode(header: &Header, pdu: &'a [u8]) -> Result<Request<'a>> {
        let mut fields = Fields::of(pdu);
        // `alloc_hint` is only a hint and is skipped.
        fields.skip(HEADER + 4)?;
        let (context_id, opnum) = (fields.u16()?, fields.u16()?);
        if header.flags.contains(PduFlags::OBJECT_UUID) {
            fields.skip(16)?;
        }
        let mut reader = fields.reader;
        let trailer = match header.auth_length {
            0 => 0,
            length => usize::from(length) + 8,
        };
        let length = reader.remaining().checked_sub(trailer).ok_or(Malformed::Truncated)?;
        Ok(Request { context_id, opnum, stub: reader.take(length)? })
    }
}

/// The response to a call, produced one fragment at a time.
#[derive(Debug)]
pub struct Fragments {
    call_id: u32,
    context_id: u16,
    stub: Vec<u8>,
    /// The number of bytes of `stub` written so far.
    written: usize,
    /// The number of bytes of `stub` that one fragment carries.
    space: usize,
    finished: bool,
}

impl Fragments {
    /// Splits the results `stub` into fragments of at most `max_fragment` bytes.
    pub fn new(call_id: u32, context_id: u16, stub: Vec<u8>, max_fragment: u16) -> Fragments {
        // Fragments carry multiples of 8 bytes so that alignment continues across them.
        let space = usize::from(max_fragment).clamp(CALL_HEADER + 8, usize::from(MAX_FRAGMENT)) - CALL_HEADER;
        Fragments { call_id, context_id, stub, written: 0, space: space & !7, finished: false }
    }

    /// Returns whether all fragments were produced.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The memory that the results occupy, in bytes.
    pub fn allocated(&self) -> usize {
        self.stub.capacity()
    }

    /// The number of remaining fragments and their total size, if a fragment of `n` bytes is sent as `length(n)` bytes.
    pub fn remaining(&self, length: impl Fn(usize) -> usize) -> (usize, usize) {
        if self.finished {
            return (0, 0);
        }
        let rest = self.stub.len() - self.written;
        let full = rest.saturating_sub(1) / self.space;
        let last = rest - full * self.space;
        (full + 1, full * length(CALL_HEADER + self.space) + length(CALL_HEADER + last))
    }
}

impl Iterator for Fragments {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.finished {
            return None;
        }
        let rest = &self.stub[self.written..];
        let now = &rest[..rest.len().min(self.space)];
        self.finished = now.len() == rest.len();
        let mut flags = if self.written == 0 { PduFlags::FIRST_FRAG } else { PduFlags::NONE };
        if self.finished {
            flags |= PduFlags::LAST_FRAG;
        }
        let mut bytes = Vec::with_capacity(CALL_HEADER + now.len() + usize::from(super::auth::OVERHEAD));
        let mut out = Writer::new(&mut bytes);
        let kind = PduType::RESPONSE;
        Header { kind, flags, frag_length: 0, auth_length: 0, call_id: self.call_id }.encode(&mut out);
        // [MS-RPCE] 2.2.2.6: `alloc_hint`, the size of the results in this and all later fragments.
        out.u32(rest.len() as u32);
        out.u16(self.context_id);
        out.u16(0);
        out.bytes(now);
        finish(&mut out);
        self.written += now.len();
        Some(bytes)
    }
}

/// Encodes a fault: the call failed before or outside the called function.
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

/// Sets `frag_length` of the PDU at the start of `out`.
pub fn finish(out: &mut Writer<'_>) {
    let length = out.position() as u16;
    out.patch_u16(8, length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_sent_in_fragments_that_the_client_accepts() {
        let stub: Vec<u8> = (0..10_000_u32).map(|byte| byte as u8).collect();
        for (length, max_fragment) in [(0, 4280), (1, 4280), (4256, 4280), (4257, 4280), (10_000, 4280), (10_000, 1432)]
        {
            let mut fragments = Fragments::new(7, 3, stub[..length].to_vec(), max_fragment);
            let (mut count, mut bytes) = fragments.remaining(|length| length);
            let mut joined = Vec::new();
            while let Some(fragment) = fragments.next() {
                let header = Header::decode(&fragment).expect("a header");
                assert_eq!(usize::from(header.frag_length), fragment.len());
                assert!(fragment.len() <= usize::from(max_fragment));
                assert_eq!(header.flags.contains(PduFlags::FIRST_FRAG), joined.is_empty());
                assert_eq!(header.flags.contains(PduFlags::LAST_FRAG), fragments.is_finished());
                let hint = u32::from_le_bytes(fragment[16..20].try_into().expect("four bytes"));
                assert_eq!(hint as usize, length - joined.len());
                joined.extend_from_slice(&fragment[CALL_HEADER..]);
                (count, bytes) = (count - 1, bytes - fragment.len());
                assert_eq!(fragments.remaining(|length| length), (count, bytes));
            }
            assert_eq!((count, bytes, &joined[..]), (0, 0, &stub[..length]), "{length} in {max_fragment}");
        }
    }

    #[test]
    fn fragment_sizes_are_the_common_ones_and_not_below_the_required_minimum() {
        for (client, expected) in [(5840, 4280), (4280, 4280), (2000, 2000), (100, 1432), (0, 1432)] {
            let bind = Bind { max_xmit_frag: client, max_recv_frag: client, assoc_group_id: 0, contexts: Vec::new() };
            assert_eq!(FragmentSizes::of(&bind), FragmentSizes { sent: expected, received: expected });
        }
    }
}
