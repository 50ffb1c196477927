//! A client's end of a pipe, for tests of the services.

use proto::bytes::Writer;
use proto::dtyp::AccessMask;
use proto::rpc::pdu::{self, Bind, Context, Header, PduFlags, PduType};
use proto::smb2::FileId;
use proto::smb2::header::Command;
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::WriteRequest;
use proto::status::Status;

use crate::rpc::services;
use crate::testing::{TestClient, status};

/// An open pipe, usually pipe to its service.
pub(in crate::rpc) struct PipeClient {
    pub(in crate::rpc) client: TestClient,
    file_id: FileId,
}

impl PipeClient {
    /// Opens the pipe called `name`.
    pub(in crate::rpc) fn open(mut client: TestClient, name: &str) -> PipeClient {
        assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
        let file_id = client.open(name, AccessMask(0x0012_019f));
        PipeClient { client, file_id }
    }

    /// Opens the pipe called `name` and binds to its service.
    pub(in crate::rpc) fn new(client: TestClient, name: &str) -> PipeClient {
        let mut pipe = PipeClient::open(client, name);
        assert_eq!(pipe.write(&bind(name)), Status::SUCCESS);
        pipe.read();
        pipe
    }

    pub(in crate::rpc) fn write(&mut self, bytes: &[u8]) -> Status {
        let write = WriteRequest {
            length: bytes.len() as u32,
            file_id: self.file_id,
            buffer: bytes,
            ..WriteRequest::default()
        };
        status(&self.client.request(Command::WRITE, |out| write.encode(out)))
    }

    pub(in crate::rpc) fn read(&mut self) -> Vec<u8> {
        let read = ReadRequest { length: 65_536, file_id: self.file_id, ..ReadRequest::default() };
        let response = self.client.request(Command::READ, |out| read.encode(out));
        ReadResponse::decode(&response).expect("an answer").buffer.to_vec()
    }

    /// Returns whether a call is still unanswered after it has been run once.
    pub(in crate::rpc) fn waits_for(&mut self, opnum: u16, stub: &[u8]) -> bool {
        let mut answered = true;
        for bytes in fragments(opnum, stub) {
            assert!(answered, "only the last part of a call waits");
            let write = WriteRequest {
                length: bytes.len() as u32,
                file_id: self.file_id,
                buffer: &bytes,
                ..WriteRequest::default()
            };
            let message = self.client.compose(Command::WRITE, |out| write.encode(out));
            answered = !self.client.send(&message).is_empty();
        }
        !answered
    }

    /// Sends a call that fits into one fragment, and returns the server's messages.
    pub(in crate::rpc) fn post(&mut self, opnum: u16, stub: &[u8]) -> Vec<Vec<u8>> {
        let bytes = fragments(opnum, stub).concat();
        let write = WriteRequest {
            length: bytes.len() as u32,
            file_id: self.file_id,
            buffer: &bytes,
            ..WriteRequest::default()
        };
        let message = self.client.compose(Command::WRITE, |out| write.encode(out));
        self.client.send(&message)
    }

    /// Executes a call and returns its results.
    pub(in crate::rpc) fn call(&mut self, opnum: u16, stub: &[u8]) -> Vec<u8> {
        for bytes in fragments(opnum, stub) {
            assert_eq!(self.write(&bytes), Status::SUCCESS);
        }
        let mut bytes;
        let (mut results, mut last) = (Vec::new(), false);
        while !last {
            bytes = self.read();
            let mut rest = &bytes[..];
            while let Ok(header) = Header::decode(rest) {
                assert_eq!(header.kind, PduType::RESPONSE, "call {opnum}");
                let (one, others) = rest.split_at(usize::from(header.frag_length));
                results.extend_from_slice(&one[24..]);
                (rest, last) = (others, header.flags.contains(PduFlags::LAST_FRAG));
            }
        }
        results
    }
}

/// Encodes a call in as many fragments as needed.
pub(in crate::rpc) fn fragments(opnum: u16, stub: &[u8]) -> Vec<Vec<u8>> {
    let count = stub.chunks(4000).count().max(1);
    let part = |index: usize| stub.chunks(4000).nth(index).unwrap_or_default();
    let flags = |index: usize| {
        let first = if index == 0 { PduFlags::FIRST_FRAG } else { PduFlags::NONE };
        first | if index + 1 == count { PduFlags::LAST_FRAG } else { PduFlags::NONE }
    };
    let request = |index| {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        Header { kind: PduType::REQUEST, flags: flags(index), frag_length: 0, auth_length: 0, call_id: 1 }
            .encode(&mut out);
        out.u32(part(index).len() as u32);
        out.u16(0);
        out.u16(opnum);
        out.bytes(part(index));
        pdu::finish(&mut out);
        bytes
    };
    (0..count).map(request).collect()
}

/// Returns a PDU with this body.
pub(in crate::rpc) fn pdu_of(kind: PduType, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
    Header { kind, flags, frag_length: 0, auth_length: 0, call_id: 1 }.encode(&mut out);
    body(&mut out);
    pdu::finish(&mut out);
    bytes
}

/// Returns a bind to the service of that pipe.
pub(in crate::rpc) fn bind(name: &str) -> Vec<u8> {
    let interface = services::find(name).expect("a service").syntax();
    let contexts = vec![Context { id: 0, interface, transfer_syntaxes: vec![pdu::NDR] }];
    let bind = Bind { max_xmit_frag: 4280, max_recv_frag: 4280, assoc_group_id: 0, contexts };
    pdu_of(PduType::BIND, |out| bind.encode(out))
}
