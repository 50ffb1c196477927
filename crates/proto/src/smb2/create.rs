//! CREATE ([MS-SMB2] 2.2.13, 2.2.14). The data of create contexts is in [`super::create_context`].

use super::create_context::CreateContext;
use super::header::Header;
use super::{FileId, body, field, u16_of, u32_of};
use crate::bytes::{Malformed, Result, Writer};
use crate::flags::flags;
use crate::values::values;

pub use super::{LeaseState, OplockLevel};

values! {
    /// The impersonation level that the client allows ([MS-SMB2] 2.2.13).
    pub struct ImpersonationLevel(u32) {
        /// No identification.
        ANONYMOUS = 0;
        /// Identification only.
        IDENTIFICATION = 1;
        /// Impersonation on this machine.
        IMPERSONATION = 2;
        /// Impersonation on other machines as well.
        DELEGATE = 3;
    }

    /// What to do if the file exists, and if it does not ([MS-SMB2] 2.2.13).
    pub struct CreateDisposition(u32) {
        /// Replace it; create it.
        SUPERSEDE = 0;
        /// Open it; fail.
        OPEN = 1;
        /// Fail; create it.
        CREATE = 2;
        /// Open it; create it.
        OPEN_IF = 3;
        /// Overwrite it; fail.
        OVERWRITE = 4;
        /// Overwrite it; create it.
        OVERWRITE_IF = 5;
    }

    /// The action taken ([MS-SMB2] 2.2.14).
    pub struct CreateAction(u32) {
        /// The file was replaced.
        SUPERSEDED = 0;
        /// It was opened.
        OPENED = 1;
        /// It was created.
        CREATED = 2;
        /// It was overwritten.
        OVERWRITTEN = 3;
    }
}

flags! {
    /// The share mode: the access that other opens may have ([MS-SMB2] 2.2.13).
    pub struct ShareAccess(u32) {
        /// Read.
        READ = 1;
        /// Write.
        WRITE = 2;
        /// Delete and rename.
        DELETE = 4;
    }

    /// Create options ([MS-SMB2] 2.2.13).
    pub struct CreateOptions(u32) {
        /// It must be a directory.
        DIRECTORY_FILE = 0x0000_0001;
        /// Write data to disk before responding.
        WRITE_THROUGH = 0x0000_0002;
        /// Access is sequential.
        SEQUENTIAL_ONLY = 0x0000_0004;
        /// No caching on the server.
        NO_INTERMEDIATE_BUFFERING = 0x0000_0008;
        /// To be ignored.
        SYNCHRONOUS_IO_ALERT = 0x0000_0010;
        /// To be ignored.
        SYNCHRONOUS_IO_NONALERT = 0x0000_0020;
        /// It must not be a directory.
        NON_DIRECTORY_FILE = 0x0000_0040;
        /// To be ignored.
        COMPLETE_IF_OPLOCKED = 0x0000_0100;
        /// The client does not support extended attributes.
        NO_EA_KNOWLEDGE = 0x0000_0200;
        /// To be ignored.
        OPEN_REMOTE_INSTANCE = 0x0000_0400;
        /// Access is random.
        RANDOM_ACCESS = 0x0000_0800;
        /// Delete it with the last close.
        DELETE_ON_CLOSE = 0x0000_1000;
        /// The name is a file id; to be refused.
        OPEN_BY_FILE_ID = 0x0000_2000;
        /// For backup or restore.
        OPEN_FOR_BACKUP_INTENT = 0x0000_4000;
        /// Do not compress the file.
        NO_COMPRESSION = 0x0000_8000;
        /// To be ignored.
        OPEN_REQUIRING_OPLOCK = 0x0001_0000;
        /// To be ignored.
        DISALLOW_EXCLUSIVE = 0x0002_0000;
        /// To be refused.
        RESERVE_OPFILTER = 0x0010_0000;
        /// Open a reparse point itself, not its target.
        OPEN_REPARSE_POINT = 0x0020_0000;
        /// Do not fetch data from slow storage.
        OPEN_NO_RECALL = 0x0040_0000;
        /// To be ignored.
        OPEN_FOR_FREE_SPACE_QUERY = 0x0080_0000;
    }

    /// Flags of a CREATE response ([MS-SMB2] 2.2.14); 3.x only.
    pub struct CreateResponseFlags(u8) {
        /// The last part of the path is a reparse point.
        REPARSEPOINT = 0x01;
    }
}

/// A CREATE request.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CreateRequest<'a> {
    /// The requested oplock level.
    pub requested_oplock_level: OplockLevel,
    /// The impersonation level.
    pub impersonation_level: ImpersonationLevel,
    /// The desired access, an access mask (2.2.13.1).
    pub desired_access: u32,
    /// Attributes of a new file, [MS-FSCC] 2.6.
    pub file_attributes: u32,
    /// The share mode.
    pub share_access: ShareAccess,
    /// What to do if the file exists, and if it does not.
    pub create_disposition: CreateDisposition,
    /// The create options.
    pub create_options: CreateOptions,
    /// The path, UTF-16LE; empty for the root of the share.
    pub name: &'a [u8],
    /// The create contexts, in the client's order.
    pub create_contexts: Vec<CreateContext<'a>>,
}

impl<'a> CreateRequest<'a> {
    const SIZE: usize = 56;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        // Deviates from [MS-SMB2] 3.3.5.9: a request that opens the root is accepted even without the one byte of
        // Buffer.
        let mut reader = body(message, 57)?;
        reader.skip(1)?;
        let requested_oplock_level = OplockLevel(reader.u8()?);
        let impersonation_level = ImpersonationLevel(reader.u32()?);
        reader.skip(16)?;
        let mut request = CreateRequest {
            requested_oplock_level,
            impersonation_level,
            desired_access: reader.u32()?,
            file_attributes: reader.u32()?,
            share_access: ShareAccess(reader.u32()?),
            create_disposition: CreateDisposition(reader.u32()?),
            create_options: CreateOptions(reader.u32()?),
            ..CreateRequest::default()
        };
        let (name_offset, name_length) = (reader.u16()?, reader.u16()?);
        if name_length % 2 != 0 {
            return Err(Malformed::Value);
        }
        request.name = field(message, name_offset, name_length, Self::SIZE)?;
        let (contexts_offset, contexts_length) = (reader.u32()?, reader.u32()?);
        let contexts = field(message, contexts_offset, contexts_length, Self::SIZE)?;
        request.create_contexts = CreateContext::decode_list(contexts)?;
        Ok(request)
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(57);
        out.u8(0);
        out.u8(self.requested_oplock_level.0);
        out.u32(self.impersonation_level.0);
        out.zeros(16);
        out.u32(self.desired_access);
        out.u32(self.file_attributes);
        out.u32(self.share_access.0);
        out.u32(self.create_disposition.0);
        out.u32(self.create_options.0);
        out.u16(u16_of(Header::SIZE + Self::SIZE));
        out.u16(u16_of(self.name.len()));
        out.zeros(8);
        out.bytes(self.name);
        if !self.create_contexts.is_empty() {
            encode_contexts(&self.create_contexts, out, Header::SIZE + 48);
        } else if self.name.is_empty() {
            out.u8(0);
        }
    }
}

/// Writes the contexts at the next multiple of 8, and their offset and length at `position`.
fn encode_contexts(contexts: &[CreateContext<'_>], out: &mut Writer<'_>, position: usize) {
    out.pad_to(8);
    let offset = out.position();
    CreateContext::encode_list(contexts, out);
    out.patch_u32(position, u32_of(offset));
    out.patch_u32(position + 4, u32_of(out.position() - offset));
}

/// A CREATE response. Times are FILETIMEs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CreateResponse<'a> {
    /// The granted oplock level.
    pub oplock_level: OplockLevel,
    /// The flags.
    pub flags: CreateResponseFlags,
    /// The action taken.
    pub create_action: CreateAction,
    /// When the file was created.
    pub creation_time: u64,
    /// When it was last accessed.
    pub last_access_time: u64,
    /// When data was last written.
    pub last_write_time: u64,
    /// When anything about it last changed.
    pub change_time: u64,
    /// Bytes allocated.
    pub allocation_size: u64,
    /// Length in bytes.
    pub end_of_file: u64,
    /// Attributes, [MS-FSCC] 2.6.
    pub file_attributes: u32,
    /// The open.
    pub file_id: FileId,
    /// The create contexts of the response.
    pub create_contexts: Vec<CreateContext<'a>>,
}

impl<'a> CreateResponse<'a> {
    const SIZE: usize = 88;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 89)?;
        let mut response = CreateResponse {
            oplock_level: OplockLevel(reader.u8()?),
            flags: CreateResponseFlags(reader.u8()?),
            create_action: CreateAction(reader.u32()?),
            creation_time: reader.u64()?,
            last_access_time: reader.u64()?,
            last_write_time: reader.u64()?,
            change_time: reader.u64()?,
            allocation_size: reader.u64()?,
            end_of_file: reader.u64()?,
            file_attributes: reader.u32()?,
            ..CreateResponse::default()
        };
        reader.skip(4)?;
        response.file_id = FileId::decode(&mut reader)?;
        let (contexts_offset, contexts_length) = (reader.u32()?, reader.u32()?);
        let contexts = field(message, contexts_offset, contexts_length, Self::SIZE)?;
        response.create_contexts = CreateContext::decode_list(contexts)?;
        Ok(response)
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(89);
        out.u8(self.oplock_level.0);
        out.u8(self.flags.0);
        out.u32(self.create_action.0);
        out.u64(self.creation_time);
        out.u64(self.last_access_time);
        out.u64(self.last_write_time);
        out.u64(self.change_time);
        out.u64(self.allocation_size);
        out.u64(self.end_of_file);
        out.u32(self.file_attributes);
        out.u32(0);
        self.file_id.encode(out);
        out.zeros(8);
        if !self.create_contexts.is_empty() {
            encode_contexts(&self.create_contexts, out, Header::SIZE + 80);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::create_context::{AllocationSize, QueryOnDiskIdResponse};
    use super::*;
    use crate::smb2::testing::{Source, golden, message, round_trips};

    // 2.2.13: StructureSize, SecurityFlags, RequestedOplockLevel, ImpersonationLevel, SmbCreateFlags, Reserved,
    // DesiredAccess, FileAttributes, ShareAccess, CreateDisposition, CreateOptions, NameOffset, NameLength,
    // CreateContextsOffset, CreateContextsLength, Buffer.
    const REQUEST: &str = "3900 00 09 02000000 0000000000000000 0000000000000000 89001200 80000000 07000000 01000000
         40000000 7800 0200 80000000 20000000 6100 000000000000
         00000000 1000 0400 0000 1800 08000000 416c5369 00000000 0010000000000000";

    fn request() -> CreateRequest<'static> {
        CreateRequest {
            requested_oplock_level: OplockLevel::BATCH,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: 0x0012_0089,
            file_attributes: 0x80,
            share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            create_disposition: CreateDisposition::OPEN,
            create_options: CreateOptions::NON_DIRECTORY_FILE,
            name: b"a\0",
            create_contexts: vec![AllocationSize { allocation_size: 4096 }.to_context()],
        }
    }

    #[test]
    fn the_request() {
        golden!(CreateRequest, request(), REQUEST);
    }

    #[test]
    fn the_root_of_the_share_has_no_name() {
        let body = "3900 00 00 00000000 0000000000000000 0000000000000000 00000000 00000000 00000000 00000000 00000000
             7800 0000 00000000 00000000";
        golden!(CreateRequest, CreateRequest::default(), &format!("{body} 00"));
        for body in [body.to_owned(), body.replace("7800 0000", "0000 0000"), body.replace("7800 0000", "ffff 0000")] {
            assert_eq!(CreateRequest::decode(&message(&body)), Ok(CreateRequest::default()), "{body}");
        }
    }

    #[test]
    fn broken_requests_are_refused() {
        for (good, bad, error) in [
            ("3900 00", "3800 00", Malformed::Structure),
            ("7800 0200", "7800 0300", Malformed::Value),
            ("7800 0200", "7700 0200", Malformed::Offset),
            ("7800 0200", "7800 feff", Malformed::Offset),
            ("80000000 20000000", "70000000 20000000", Malformed::Offset),
            ("80000000 20000000", "80000000 21000000", Malformed::Offset),
            ("80000000 20000000", "80000000 0f000000", Malformed::Truncated),
            ("80000000 20000000", "80000000 ffffffff", Malformed::Offset),
        ] {
            let body = REQUEST.replace(good, bad);
            assert_ne!(body, REQUEST);
            assert_eq!(CreateRequest::decode(&message(&body)), Err(error), "{bad}");
        }
    }

    // 2.2.14: StructureSize, OplockLevel, Flags, CreateAction, four times, AllocationSize, EndofFile, FileAttributes,
    // Reserved2, FileId, CreateContextsOffset, CreateContextsLength, Buffer.
    #[test]
    fn the_response() {
        let response = CreateResponse {
            oplock_level: OplockLevel::LEASE,
            flags: CreateResponseFlags::REPARSEPOINT,
            create_action: CreateAction::CREATED,
            creation_time: 1,
            last_access_time: 2,
            last_write_time: 3,
            change_time: 4,
            allocation_size: 4096,
            end_of_file: 5,
            file_attributes: 0x20,
            file_id: FileId { persistent: 6, volatile: 7 },
            create_contexts: vec![],
        };
        let fixed = "5900 ff 01 02000000 0100000000000000 0200000000000000 0300000000000000 0400000000000000
             0010000000000000 0500000000000000 20000000 00000000 0600000000000000 0700000000000000";
        golden!(CreateResponse, response.clone(), &format!("{fixed} 00000000 00000000"));
        let disk_id = QueryOnDiskIdResponse { disk_file_id: 8, volume_id: 9 };
        golden!(
            CreateResponse,
            CreateResponse { create_contexts: vec![disk_id.to_context()], ..response },
            &format!(
                "{fixed} 98000000 38000000 00000000 1000 0400 0000 1800 20000000 51466964 00000000
                 0800000000000000 0900000000000000 00000000000000000000000000000000"
            )
        );
    }

    fn contexts<'a>(source: &mut Source<'a>) -> Vec<CreateContext<'a>> {
        source.list(|s| CreateContext::new(s.array::<5>().to_vec(), s.slice()))
    }

    round_trips! {
        requests_round_trip: CreateRequest<'_> = |s| CreateRequest {
            requested_oplock_level: OplockLevel(s.u8()),
            impersonation_level: ImpersonationLevel(s.u32()),
            desired_access: s.u32(),
            file_attributes: s.u32(),
            share_access: ShareAccess(s.u32()),
            create_disposition: CreateDisposition(s.u32()),
            create_options: CreateOptions(s.u32()),
            name: s.utf16(),
            create_contexts: contexts(s),
        };
        responses_round_trip: CreateResponse<'_> = |s| CreateResponse {
            oplock_level: OplockLevel(s.u8()),
            flags: CreateResponseFlags(s.u8()),
            create_action: CreateAction(s.u32()),
            creation_time: s.u64(),
            last_access_time: s.u64(),
            last_write_time: s.u64(),
            change_time: s.u64(),
            allocation_size: s.u64(),
            end_of_file: s.u64(),
            file_attributes: s.u32(),
            file_id: s.file_id(),
            create_contexts: contexts(s),
        };
    }
}
