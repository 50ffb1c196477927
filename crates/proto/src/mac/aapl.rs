//! The create context `AAPL`, by which a client and a server learn of each other's extensions.

use crate::bytes::{Malformed, Reader, Result, Writer, utf16_bytes};
use crate::flags::flags;
use crate::smb2::create_context::CreateContext;

/// The name of the context.
pub const NAME: &[u8] = b"AAPL";

/// The command that asks for what the server supports.
pub const SERVER_QUERY: u32 = 1;
/// The command that asks for the path of a file id.
pub const RESOLVE_ID: u32 = 2;

/// The size of a server query in bytes.
const QUERY_SIZE: usize = 24;

flags! {
    /// The parts of a response that a client asks for.
    pub struct Parts(u64) {
        /// What the server supports.
        SERVER_CAPABILITIES = 1;
        /// What the volume supports.
        VOLUME_CAPABILITIES = 2;
        /// The model of the server, which selects its icon.
        MODEL_INFO = 4;
    }

    /// What a client or a server supports.
    pub struct ServerCapabilities(u64) {
        /// Entries of listings with Finder info.
        READ_DIR_ATTR = 1;
        /// Copies of whole files by FSCTL_SRV_COPYCHUNK without chunks.
        OSX_COPYFILE = 2;
        /// Files have UNIX modes.
        UNIX_BASED = 4;
        /// Modes are queried and set as entries of security descriptors.
        NFS_ACE = 8;
    }

    /// What a volume supports.
    pub struct VolumeCapabilities(u64) {
        /// [`RESOLVE_ID`].
        RESOLVE_ID = 1;
        /// Names that differ only in case are different.
        CASE_SENSITIVE = 2;
        /// A FLUSH can write all caches down to the disk; Time Machine needs this.
        FULL_SYNC = 4;
    }
}

/// A server query.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ServerQuery {
    /// The requested parts.
    pub parts: Parts,
    /// What the client supports.
    pub client: ServerCapabilities,
}

impl ServerQuery {
    /// Reads the data of a context. Other commands are `Malformed::Value`.
    pub fn decode(data: &[u8]) -> Result<Self> {
        if data.len() != QUERY_SIZE {
            return Err(Malformed::Structure);
        }
        let mut reader = Reader::new(data);
        if reader.u32()? != SERVER_QUERY {
            return Err(Malformed::Value);
        }
        reader.skip(4)?;
        Ok(ServerQuery { parts: Parts(reader.u64()?), client: ServerCapabilities(reader.u64()?) })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        let mut data = Vec::with_capacity(QUERY_SIZE);
        let mut out = Writer::new(&mut data);
        out.u32(SERVER_QUERY);
        out.u32(0);
        out.u64(self.parts.0);
        out.u64(self.client.0);
        CreateContext::new(NAME, data)
    }
}

/// The response to a server query. A part that was not requested is `None`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ServerAnswer {
    /// What the server supports.
    pub server: Option<ServerCapabilities>,
    /// What the volume supports.
    pub volume: Option<VolumeCapabilities>,
    /// The model of the server.
    pub model: Option<String>,
}

impl ServerAnswer {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        if reader.u32()? != SERVER_QUERY {
            return Err(Malformed::Value);
        }
        reader.skip(4)?;
        let parts = Parts(reader.u64()?);
        let mut answer = ServerAnswer::default();
        if parts.contains(Parts::SERVER_CAPABILITIES) {
            answer.server = Some(ServerCapabilities(reader.u64()?));
        }
        if parts.contains(Parts::VOLUME_CAPABILITIES) {
            answer.volume = Some(VolumeCapabilities(reader.u64()?));
        }
        if parts.contains(Parts::MODEL_INFO) {
            reader.skip(4)?;
            let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
            let units = crate::bytes::utf16_units(reader.take(length)?).ok_or(Malformed::Value)?;
            answer.model = Some(String::from_utf16_lossy(&units));
        }
        Ok(answer)
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        let part = |is_there: bool, part: Parts| if is_there { part } else { Parts::NONE };
        let parts = part(self.server.is_some(), Parts::SERVER_CAPABILITIES)
            | part(self.volume.is_some(), Parts::VOLUME_CAPABILITIES)
            | part(self.model.is_some(), Parts::MODEL_INFO);
        let mut data = Vec::new();
        let mut out = Writer::new(&mut data);
        out.u32(SERVER_QUERY);
        out.u32(0);
        out.u64(parts.0);
        if let Some(server) = self.server {
            out.u64(server.0);
        }
        if let Some(volume) = self.volume {
            out.u64(volume.0);
        }
        if let Some(model) = &self.model {
            let model = utf16_bytes(model);
            out.u32(0);
            out.u32(u32::try_from(model.len()).unwrap_or(0));
            out.bytes(&model);
        }
        CreateContext::new(NAME, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::hex;

    #[test]
    fn a_query_is_24_bytes_of_the_command_1() {
        let bytes = hex("01000000 00000000 0700000000000000 0100000000000000");
        let all = Parts::SERVER_CAPABILITIES | Parts::VOLUME_CAPABILITIES | Parts::MODEL_INFO;
        let query = ServerQuery { parts: all, client: ServerCapabilities::READ_DIR_ATTR };
        assert_eq!(ServerQuery::decode(&bytes), Ok(query));
        assert_eq!(*query.to_context().data, bytes);
        assert_eq!(ServerQuery::decode(&bytes[..23]), Err(Malformed::Structure));
        let resolve = hex("02000000 00000000 0700000000000000 0100000000000000");
        assert_eq!(ServerQuery::decode(&resolve), Err(Malformed::Value));
    }

    #[test]
    fn an_answer_has_the_requested_parts() {
        let whole = ServerAnswer {
            server: Some(ServerCapabilities::READ_DIR_ATTR | ServerCapabilities::UNIX_BASED),
            volume: Some(VolumeCapabilities::FULL_SYNC),
            model: Some("Mac".into()),
        };
        let bytes = hex("01000000 00000000 0700000000000000 0500000000000000 0400000000000000 00000000 06000000 \
                         4d0061006300");
        assert_eq!(*whole.to_context().data, bytes);
        assert_eq!(ServerAnswer::decode(&bytes), Ok(whole.clone()));
        for end in 0..bytes.len() {
            assert!(ServerAnswer::decode(&bytes[..end]).is_err(), "{end}");
        }
        let part = ServerAnswer { server: None, ..whole };
        assert_eq!(ServerAnswer::decode(&part.to_context().data), Ok(part));
    }
}
