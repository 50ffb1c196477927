//! CREATE of the quota file of NTFS, by which clients query and set quotas ([MS-FSA] 2.1.5.1, phase 6). No such file
//! exists: the handle stands for the file system of the root of the share.

use std::sync::Arc;

use proto::bytes::utf16_units;
use proto::dtyp::{AccessMask, GenericMapping};
use proto::fscc::FileAttributes;
use proto::smb2::FileId;
use proto::smb2::OplockLevel;
use proto::smb2::create::{CreateAction, CreateDisposition, CreateRequest, CreateResponse, CreateResponseFlags};
use proto::status::Status;

use super::too_many_opens;
use crate::accounting::Resource;
use crate::error::{Error, Result};
use crate::request::{Reply, Request};
use crate::state::open::channel_sequence::ChannelSequence;
use crate::state::open::{Open, QuotaFile, Target};
use crate::tree::{Disk, Tree};
use crate::vfs::{Errno, Lookup, LookupOptions, RelPath, SymlinkPolicy};

/// The name of the file, in any case.
const NAME: &str = r"$Extend\$Quota:$Q:$INDEX_ALLOCATION";

/// The attributes that NTFS and Samba report for it. It has no times.
const SHOWN: FileAttributes = FileAttributes(
    FileAttributes::HIDDEN.0 | FileAttributes::SYSTEM.0 | FileAttributes::DIRECTORY.0 | FileAttributes::ARCHIVE.0,
);

/// Returns whether a client asks for the quota file.
pub(super) fn is_meant(name: &[u8]) -> bool {
    name.len() == 2 * NAME.len()
        && utf16_units(name).is_some_and(|units| String::from_utf16_lossy(&units).eq_ignore_ascii_case(NAME))
}

/// Opens the quota file. As in Samba, only users who act as root may.
pub(super) async fn open(
    request: &Request<'_>,
    reply: &mut Reply,
    tree: &Arc<Tree>,
    disk: &Disk,
    asked: &CreateRequest<'_>,
) -> Result<Status> {
    if disk.op.uid != 0 {
        return Err(Error::because(Status::ACCESS_DENIED, "only `admin users` of the share may open the quota file"));
    }
    match asked.create_disposition {
        CreateDisposition::OPEN | CreateDisposition::OPEN_IF => {}
        CreateDisposition::CREATE => return Err(Error::new(Status::OBJECT_NAME_COLLISION)),
        _ => return Err(Error::because(Status::ACCESS_DENIED, "the quota file cannot be overwritten")),
    }
    let all = AccessMask::FILE_GENERIC_READ | AccessMask::FILE_GENERIC_WRITE;
    let maximum = asked.desired_access & AccessMask::MAXIMUM_ALLOWED.0 != 0;
    let desired = AccessMask(asked.desired_access & !AccessMask::MAXIMUM_ALLOWED.0).expand(&GenericMapping::FILE);
    if desired.0 == 0 && !maximum || !disk.share_rights.contains(desired) {
        return Err(Error::because(Status::ACCESS_DENIED, "DesiredAccess"));
    }
    let granted = if maximum { all & disk.share_rights | desired } else { desired };
    let (server, session) = (&request.connection.server, request.session()?);
    if session.open_count() >= server.policy().limits.opens_per_session {
        return Err(too_many_opens());
    }
    let charge = session.payer().charge(Resource::Opens, 1)?;
    let root = LookupOptions::exact(SymlinkPolicy::NONE);
    let Lookup::Found { node, .. } = disk.vfs.lookup(&disk.op, &RelPath::root(), root).await? else {
        return Err(Errno::NOENT.into());
    };
    let file_id = FileId { persistent: server.next_open_id(), volatile: server.next_id() };
    let open = Arc::new(Open {
        persistent_id: file_id.persistent,
        volatile_id: file_id.volatile,
        session_id: session.id,
        tree: tree.clone(),
        granted,
        share: asked.share_access,
        created: server.environment.now(),
        sequence: ChannelSequence::new(request.header.channel_sequence()),
        target: Target::Quotas(Box::new(QuotaFile { node, op: disk.op.clone(), next: 0.into() })),
        charge,
    });
    if session.add_open(open).is_err() {
        return Err(Error::because(Status::USER_SESSION_DELETED, "the session ended while the file was opened"));
    }
    CreateResponse {
        oplock_level: OplockLevel::NONE,
        flags: CreateResponseFlags::NONE,
        create_action: CreateAction::OPENED,
        creation_time: 0,
        last_access_time: 0,
        last_write_time: 0,
        change_time: 0,
        allocation_size: 0,
        end_of_file: 0,
        file_attributes: SHOWN.0,
        file_id,
        create_contexts: Vec::new(),
    }
    .encode(&mut reply.body());
    reply.file_id = Some(file_id);
    Ok(Status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_recognized_in_any_case() {
        let is = |name: &str| is_meant(&proto::bytes::utf16_bytes(name));
        assert!(is(NAME) && is(r"$extend\$quota:$q:$index_allocation"));
        assert!(!is(r"$Extend\$Quota") && !is("") && !is_meant(b"odd"));
    }
}
