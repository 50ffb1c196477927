//! Create contexts ([MS-SMB2] 2.2.13.2, 3.3.5.9.1 to 3.3.5.9.13).

use proto::dtyp::{AccessMask, SecurityDescriptor};
use proto::mac::aapl::{self, ServerQuery};
use proto::smb2::create::CreateRequest;
use proto::smb2::create_context::{
    self, CreateContext, Lease, PosixRequest, QueryMaximalAccessResponse, QueryOnDiskIdResponse,
};
use proto::status::Status;

use super::{durable, instance, posix};
use crate::error::Result;
use crate::information::ea;
use crate::vfs::Metadata;

/// The decoded contexts of a request.
#[derive(Default)]
pub(super) struct Contexts {
    /// `AlSi`: bytes to reserve for a new file.
    pub(super) allocation_size: Option<u64>,
    /// `MxAc`: the response must contain the user's maximal access.
    pub(super) query_maximal_access: bool,
    /// `TWrp`: the time of a snapshot, FILETIME.
    pub(super) timewarp: Option<u64>,
    /// `SecD`: the security descriptor of a new file.
    pub(super) security_descriptor: Option<SecurityDescriptor>,
    /// `ExtA`: the extended attributes of a new or overwritten file.
    pub(super) extended_attributes: Option<ea::Changes>,
    /// `RqLs`: the requested lease.
    pub(super) lease: Option<Lease>,
    /// `QFid`: the response must contain the file's id.
    pub(super) query_on_disk_id: bool,
    /// `AAPL`: the query of a Mac, or why it is malformed.
    pub(super) mac: Option<proto::bytes::Result<ServerQuery>>,
    /// The open has POSIX semantics.
    pub(super) posix: Option<posix::PosixOpen>,
    /// `DHnQ`, `DHnC`, `DH2Q`, `DH2C`.
    pub(super) durable: durable::RequestedDurability,
    /// The application instance.
    pub(super) instance: instance::RequestedInstance,
}

impl Contexts {
    /// Decodes the contexts. `takes_posix`: the POSIX extensions were negotiated.
    pub(super) fn decode(asked: &CreateRequest<'_>, takes_posix: bool) -> Result<Self> {
        let mut contexts = Contexts::default();
        for context in &asked.create_contexts {
            contexts.take(context, takes_posix)?;
            contexts.durable.take(context)?;
            contexts.instance.take(context)?;
        }
        contexts.durable.check()?;
        if let Some(posix) = &mut contexts.posix {
            posix.take_mode(&mut contexts.security_descriptor);
        }
        Ok(contexts)
    }

    fn take(&mut self, context: &CreateContext<'_>, takes_posix: bool) -> Result<()> {
        match &*context.name {
            create_context::name::ALLOCATION_SIZE => {
                self.allocation_size = Some(create_context::AllocationSize::decode(&context.data)?.allocation_size);
            }
            create_context::name::SD_BUFFER => {
                self.security_descriptor = Some(SecurityDescriptor::decode(&context.data)?);
            }
            create_context::name::QUERY_MAXIMAL_ACCESS => self.query_maximal_access = true,
            create_context::name::QUERY_ON_DISK_ID => self.query_on_disk_id = true,
            create_context::name::TIMEWARP_TOKEN => {
                self.timewarp = Some(create_context::TimewarpToken::decode(&context.data)?.timestamp);
            }
            create_context::name::REQUEST_LEASE => self.lease = Some(Lease::decode(&context.data)?),
            aapl::NAME => self.mac = Some(ServerQuery::decode(&context.data)),
            create_context::name::POSIX if takes_posix => {
                self.posix = Some(posix::PosixOpen::new(PosixRequest::decode(&context.data)?));
            }
            create_context::name::EA_BUFFER => self.extended_attributes = Some(ea::Changes::decode(&context.data)?),
            _ => {}
        }
        Ok(())
    }

    /// Returns the key of the requested lease.
    pub(super) fn lease_key(&self) -> Option<[u8; 16]> {
        self.lease.map(|lease| match lease {
            Lease::V1(lease) => lease.lease_key,
            Lease::V2(lease) => lease.lease_key,
        })
    }

    /// Returns the contexts of the response, encoded.
    pub(super) fn answer(
        &self,
        metadata: &Metadata,
        maximal: Option<std::result::Result<AccessMask, Status>>,
        hides_ids: bool,
    ) -> Vec<CreateContext<'static>> {
        let mut list = Vec::new();
        if let Some(maximal) = maximal {
            let (query_status, maximal_access) = match maximal {
                Ok(access) => (Status::SUCCESS, access.0),
                Err(status) => (status, 0),
            };
            list.push(QueryMaximalAccessResponse { query_status, maximal_access }.to_context());
        }
        if self.query_on_disk_id {
            let disk_file_id = if hides_ids { 0 } else { metadata.file_id() };
            let volume_id = metadata.id.device;
            list.push(QueryOnDiskIdResponse { disk_file_id, volume_id }.to_context());
        }
        if self.posix.is_some() {
            list.push(posix::response(metadata));
        }
        list
    }
}
