//! Named pipes: their information classes ([MS-FSCC] 2.4.37 to 2.4.39) and the buffers of FSCTL_PIPE_PEEK and
//! FSCTL_PIPE_WAIT (2.3.46, 2.3.49).

use super::field::structures;
use super::name::decode_text;
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::values::values;

values! {
    /// Whether a pipe keeps message boundaries: its type, and its read mode.
    pub struct PipeMode(u32) {
        /// A stream of bytes.
        BYTE_STREAM = 0;
        /// A stream of messages.
        MESSAGE = 1;
    }

    /// Whether operations on a pipe block.
    pub struct PipeCompletionMode(u32) {
        /// They block.
        QUEUE_OPERATION = 0;
        /// They complete at once.
        COMPLETE_OPERATION = 1;
    }

    /// The direction of data flow.
    pub struct PipeConfiguration(u32) {
        /// To the server.
        INBOUND = 0;
        /// To the client.
        OUTBOUND = 1;
        /// Both ways.
        FULL_DUPLEX = 2;
    }

    /// The connection state of a pipe.
    pub struct PipeState(u32) {
        /// Not connected.
        DISCONNECTED = 1;
        /// Waiting for a client.
        LISTENING = 2;
        /// Connected.
        CONNECTED = 3;
        /// The other end has closed; data that was sent can still be read.
        CLOSING = 4;
    }

    /// The end of a pipe.
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
        /// The read mode.
        read_mode: PipeMode,
        /// Whether operations block.
        completion_mode: PipeCompletionMode,
    }

    /// FILE_PIPE_LOCAL_INFORMATION ([MS-FSCC] 2.4.38).
    FilePipeLocalInformation(40) {
        /// The type of the pipe.
        named_pipe_type: PipeMode,
        /// The direction of data flow.
        named_pipe_configuration: PipeConfiguration,
        /// The maximum number of instances.
        maximum_instances: u32,
        /// The number of instances.
        current_instances: u32,
        /// The size of the buffer towards the server, in bytes.
        inbound_quota: u32,
        /// The number of bytes available for reading.
        read_data_available: u32,
        /// The size of the buffer towards the client, in bytes.
        outbound_quota: u32,
        /// The number of bytes that can be written.
        write_quota_available: u32,
        /// The connection state.
        named_pipe_state: PipeState,
        /// This end of the pipe.
        named_pipe_end: PipeEnd,
    }

    /// FILE_PIPE_REMOTE_INFORMATION ([MS-FSCC] 2.4.39).
    FilePipeRemoteInformation(12) {
        /// The time for which data may be collected before it is sent, in units of 100 ns.
        collect_data_time: u64,
        /// The maximum number of bytes collected.
        maximum_collection_count: u32,
    }

    /// The fixed part of the response to FSCTL_PIPE_PEEK ([MS-FSCC] 2.3.46); the data follows.
    PipePeekReply(16) {
        /// The connection state.
        named_pipe_state: PipeState,
        /// The number of bytes available for reading.
        read_data_available: u32,
        /// The number of messages available for reading, if the pipe has messages.
        number_of_messages: u32,
        /// The length of the first message.
        message_length: u32,
    }
}

super::field::fields! { PipeMode PipeCompletionMode PipeConfiguration PipeState PipeEnd }

/// The input of FSCTL_PIPE_WAIT ([MS-FSCC] 2.3.49).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PipeWaitRequest<'a> {
    /// The time to wait in units of 100 ms, signed on the wire; `None` to wait indefinitely.
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
