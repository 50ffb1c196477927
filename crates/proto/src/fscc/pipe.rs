//! Named pipes: their information classes ([MS-FSCC] 2.4.37 to 2.4.39) and the buffers of FSCTL_PIPE_PEEK and
//! FSCTL_PIPE_WAIT (2.3.46, 2.3.49).

use super::field::structures;
use super::name::decode_text;
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::values::values;

values! {
    /// Whether a pipe keeps the borders of messages: its type, and how it is read.
    pub struct PipeMode(u32) {
        /// A stream of bytes.
        BYTE_STREAM = 0;
        /// A stream of messages.
        MESSAGE = 1;
    }

    /// Whether calls on a pipe wait.
    pub struct PipeCompletionMode(u32) {
        /// They wait.
        QUEUE_OPERATION = 0;
        /// They end at once.
        COMPLETE_OPERATION = 1;
    }

    /// Which way data flows.
    pub struct PipeConfiguration(u32) {
        /// To the server.
        INBOUND = 0;
        /// To the client.
        OUTBOUND = 1;
        /// Both ways.
        FULL_DUPLEX = 2;
    }

    /// Whether somebody is at the other end.
    pub struct PipeState(u32) {
        /// Nobody.
        DISCONNECTED = 1;
        /// Somebody is waited for.
        LISTENING = 2;
        /// Somebody.
        CONNECTED = 3;
        /// Nobody any more; what was sent can still be read.
        CLOSING = 4;
    }

    /// Which end of a pipe it is.
    pub struct PipeEnd(u32) {
        /// The client's.
        CLIENT = 0;
        /// The server's.
        SERVER = 1;
    }
}

structures! {
    /// FILE_PIPE_INFORMATION ([MS-FSCC] 2.4.37).
    FilePipeInformation(8) {
        /// How the pipe is read.
        read_mode: PipeMode,
        /// Whether calls wait.
        completion_mode: PipeCompletionMode,
    }

    /// FILE_PIPE_LOCAL_INFORMATION ([MS-FSCC] 2.4.38).
    FilePipeLocalInformation(40) {
        /// What the pipe is.
        named_pipe_type: PipeMode,
        /// Which way data flows.
        named_pipe_configuration: PipeConfiguration,
        /// How many instances there may be.
        maximum_instances: u32,
        /// How many instances there are.
        current_instances: u32,
        /// Bytes of the buffer towards the server.
        inbound_quota: u32,
        /// The number of bytes available for reading.
        read_data_available: u32,
        /// Bytes of the buffer towards the client.
        outbound_quota: u32,
        /// Bytes that can be written.
        write_quota_available: u32,
        /// Whether somebody is at the other end.
        named_pipe_state: PipeState,
        /// Which end this is.
        named_pipe_end: PipeEnd,
    }

    /// FILE_PIPE_REMOTE_INFORMATION ([MS-FSCC] 2.4.39).
    FilePipeRemoteInformation(12) {
        /// How long data may be collected before it is sent, in units of 100 ns.
        collect_data_time: u64,
        /// How many bytes may be collected.
        maximum_collection_count: u32,
    }

    /// The fixed part of the answer to FSCTL_PIPE_PEEK ([MS-FSCC] 2.3.46); the data follows.
    PipePeekReply(16) {
        /// Whether somebody is at the other end.
        named_pipe_state: PipeState,
        /// The number of bytes available for reading.
        read_data_available: u32,
        /// Messages that can be read, if the pipe has messages.
        number_of_messages: u32,
        /// Length of the first of them.
        message_length: u32,
    }
}

super::field::fields! { PipeMode PipeCompletionMode PipeConfiguration PipeState PipeEnd }

/// The input of FSCTL_PIPE_WAIT ([MS-FSCC] 2.3.49).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PipeWaitRequest<'a> {
    /// How long to wait in units of 100 ms, signed on the wire; `None` to wait for ever.
    pub timeout: Option<u64>,
    /// The pipe's name in UTF-16LE.
    pub name: &'a [u8],
}

impl<'a> PipeWaitRequest<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 14;

    /// Reads the structure.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let timeout = reader.u64()?;
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        let timeout_specified = reader.u8()? != 0;
        reader.skip(1)?;
        Ok(PipeWaitRequest { timeout: timeout_specified.then_some(timeout), name: decode_text(reader, length)? })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u64(self.timeout.unwrap_or(0));
        out.u32(u32::try_from(self.name.len()).expect("a name is far shorter than 4 GiB"));
        out.u8(u8::from(self.timeout.is_some()));
        out.u8(0);
        out.bytes(self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting() {
        for (request, wire) in [
            (PipeWaitRequest { timeout: Some(5), name: &[97, 0] }, [5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 97, 0]),
            (PipeWaitRequest { timeout: None, name: &[97, 0] }, [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 97, 0]),
        ] {
            let mut out = Vec::new();
            request.encode(&mut Writer::new(&mut out));
            assert_eq!(out, wire);
            assert_eq!(PipeWaitRequest::decode(&mut Reader::new(&wire)), Ok(request));
            assert_eq!(PipeWaitRequest::decode(&mut Reader::new(&wire[..15])), Err(Malformed::Truncated));
        }
    }
}
