//! Controls of reparse points ([MS-FSA] 2.1.5.10.3, 2.1.5.10.14, 2.1.5.10.37).

use std::sync::atomic::Ordering;

use proto::dtyp::AccessMask;
use proto::fscc::{FileAttributes, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData};
use proto::smb2::change_notify::CompletionFilter;
use proto::status::Status;

use super::{Control, Output};
use crate::attributes;
use crate::command::{directory_lease, oplock_break};
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::information::ea;
use crate::reparse::{self, ATTRIBUTE};
use crate::request::Reply;
use crate::security::access;
use crate::state::open::FileOpen;
use crate::tree::Disk;
use crate::vfs::{Create, Kind, Metadata, SetMetadata, SetXattr};

/// Reserved tags, which cannot be set.
const RESERVED: [ReparseTag; 2] = [ReparseTag(0), ReparseTag(1)];

/// FSCTL_GET_REPARSE_POINT (2.1.5.10.14).
pub(super) async fn get(control: &Control<'_>) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    let metadata = file.shown_node().metadata(&file.op).await?;
    let buffer = present(file, disk, &metadata).await?.ok_or(Error::new(Status::NOT_A_REPARSE_POINT))?;
    let fixed = if reparse::tag(&buffer).is_microsoft() { 8 } else { 24 };
    control.need_room(fixed, Status::BUFFER_TOO_SMALL)?;
    let space = control.space().min(buffer.len());
    let status = if space < buffer.len() { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    Ok(Output::with(status, |out| out.bytes(&buffer[..space])))
}

/// Returns the file's reparse data.
async fn present(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> Result<Option<Vec<u8>>> {
    if file.posix && matches!(metadata.kind, Kind::Symlink | Kind::Special) {
        return reparse::posix::buffer(file.shown_node(), &file.op, metadata).await;
    }
    if metadata.kind == Kind::Symlink {
        return Ok(reparse::link_buffer(&file.node.read_link(&file.op).await?));
    }
    if !reparse::is_stored(&disk.share, metadata) {
        return Ok(None);
    }
    reparse::stored(&*file.node, &file.op).await
}

/// FSCTL_SET_REPARSE_POINT (2.1.5.10.37).
pub(super) async fn set(control: &Control<'_>, reply: &mut Reply) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    let invalid = || Error::new(Status::IO_REPARSE_DATA_INVALID);
    control.need_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_WRITE_ATTRIBUTES)?;
    let input = control.asked.input;
    let asked = ReparseDataBuffer::decode(input).map_err(|_| invalid())?;
    if input.len() > reparse::LONGEST {
        return Err(invalid());
    }
    if RESERVED.contains(&asked.reparse_tag()) {
        return Err(Error::new(Status::IO_REPARSE_TAG_INVALID));
    }
    if file.posix && asked.reparse_tag() == ReparseTag::NFS {
        return become_special(control, reply, file, disk, asked.data()).await;
    }
    let link = Some(&asked).filter(|asked| asked.reparse_tag() == ReparseTag::SYMLINK);
    let link = link.and_then(|asked| SymbolicLinkReparseData::decode(asked.data()).ok());
    if link.as_ref().is_some_and(|link| reparse::names_hidden(disk, link)) {
        return Err(Error::because(Status::ACCESS_DENIED, "the link's target matches `veto files`"));
    }
    take_alone(control, reply, file).await?;
    let metadata = file.node.metadata(&file.op).await?;
    check_kind(&asked, file, &metadata).await?;
    let old = present(file, disk, &metadata).await?;
    match &old {
        Some(old) => check_same(old, &asked)?,
        None if ea::size(file, disk).await > 0 => return Err(Error::new(Status::EAS_NOT_SUPPORTED)),
        None => {}
    }
    if metadata.kind == Kind::Symlink || !disk.share.attributes.store_dos_attributes {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the file is a Linux symbolic link, or `store dos attributes = no`",
        ));
    }
    // The attribute bit is set last; without it the extended attribute is ignored.
    file.node.set_xattr(&file.op, ATTRIBUTE, Some(input.to_vec()), SetXattr::Any).await?;
    if let Err(error) = mark(control, file, disk, &metadata, true).await {
        if old.is_none() {
            let _ = file.node.set_xattr(&file.op, ATTRIBUTE, None, SetXattr::Any).await;
        }
        return Err(error);
    }
    let may_settle = link.is_some() && control.open.granted.contains(AccessMask::DELETE);
    file.settles.store(may_settle, Ordering::Release);
    Ok(Output::new(|_| ()))
}

/// Replaces the empty file that a POSIX client has created by the special file that it declares it to be. The open then
/// shows the special file.
async fn become_special(
    control: &Control<'_>,
    reply: &mut Reply,
    file: &FileOpen,
    disk: &Disk,
    data: &[u8],
) -> Result<Output> {
    take_alone(control, reply, file).await?;
    let metadata = file.node.metadata(&file.op).await?;
    let is_replaceable = metadata.kind == Kind::File && metadata.size == 0 && metadata.links == 1;
    // The handle would delete only the file that is replaced.
    let is_deleted = file.delete_on_close.load(Ordering::Acquire);
    if !is_replaceable || is_deleted || file.file.stream != 0 {
        return Err(Error::because(Status::IO_REPARSE_DATA_INVALID, "only a new file becomes a special file"));
    }
    let server = &control.request.connection.server;
    // Until it is replaced, no other client may open the file, which is deleted then.
    let Some(_replacement) = server.opens.files.begin_replacement_by(file.file, control.open.persistent_id) else {
        return Err(Error::because(Status::SHARING_VIOLATION, "another client has the file open"));
    };
    if !server.opens.streams.open(file.file).is_empty() || reparse::has_more(file, &metadata).await? {
        return Err(Error::because(Status::IO_REPARSE_DATA_INVALID, "the file has attributes or streams"));
    }
    let new = reparse::posix::new_file(disk, data, file.file, reparse::posix::mode(disk, file, &metadata).await?)?;
    if matches!(new.kind, Create::Symlink { .. }) && reparse::posix::may_lead_out(server, &disk.share) {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the server might follow the link out of the share, because of `wide links`, `include` with variables, or \
             another share inside",
        ));
    }
    let path = file.name.path.lock().clone();
    access::may_name(disk, false, None, &path, true).await?;
    let (node, _) = disk.vfs.create(&file.op, &path, new).await?.opened();
    let _ = file.became.set(node);
    let change = Change::modified(CompletionFilter::ATTRIBUTES);
    server.file_changed(disk, file, change);
    // Clients may have cached the entry of a regular file.
    directory_lease::entry_of_changes(server, disk, file).await;
    Ok(Output::new(|_| ()))
}

/// How often clients are asked to close cached handles.
const ATTEMPTS: usize = 16;

/// Refuses the request if another open has access to the file's content, because a reparse point hides it, even though
/// no share mode was requested.
async fn take_alone(control: &Control<'_>, reply: &mut Reply, file: &FileOpen) -> Result<()> {
    let (request, open) = (control.request, &control.open);
    let server = &request.connection.server;
    for _ in 0..ATTEMPTS {
        let now = server.environment.uptime();
        match server.opens.files.name_changes(file.file, open.persistent_id, file.lease_id(), true, now) {
            Some(wait) => oplock_break::wait(request, reply, file.file, wait).await?,
            None if server.opens.files.is_used_by_others(file.file, open.persistent_id) => break,
            None => return Ok(()),
        }
        file.still_open()?;
    }
    Err(Error::because(Status::SHARING_VIOLATION, "another client has the file open"))
}

/// Checks whether this kind of file can be a reparse point with that tag.
async fn check_kind(asked: &ReparseDataBuffer<'_>, file: &FileOpen, metadata: &Metadata) -> Result<()> {
    match metadata.kind {
        Kind::Directory if !crate::vfs::is_empty(&file.node, &file.op).await? => {
            Err(Error::new(Status::DIRECTORY_NOT_EMPTY))
        }
        Kind::File if asked.reparse_tag() == ReparseTag::MOUNT_POINT => Err(Error::new(Status::NOT_A_DIRECTORY)),
        Kind::File if asked.reparse_tag() == ReparseTag::SYMLINK && metadata.size > 0 => {
            Err(Error::new(Status::IO_REPARSE_DATA_INVALID))
        }
        Kind::Special => Err(Error::new(Status::ACCESS_DENIED)),
        _ if file.file.stream != 0 => Err(Error::because(Status::INVALID_PARAMETER, "not permitted for a stream")),
        _ => Ok(()),
    }
}

/// Refuses to replace a reparse point of another owner.
fn check_same(old: &[u8], asked: &ReparseDataBuffer<'_>) -> Result<()> {
    if reparse::tag(old) != asked.reparse_tag() {
        return Err(Error::new(Status::IO_REPARSE_TAG_MISMATCH));
    }
    let guid = ReparseDataBuffer::decode(old).map(|old| old.reparse_guid());
    if !asked.reparse_tag().is_microsoft() && guid != Ok(asked.reparse_guid()) {
        return Err(Error::new(Status::REPARSE_ATTRIBUTE_CONFLICT));
    }
    Ok(())
}

/// FSCTL_DELETE_REPARSE_POINT (2.1.5.10.3).
pub(super) async fn delete(control: &Control<'_>, reply: &mut Reply) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    control.need_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_WRITE_ATTRIBUTES)?;
    let invalid = |_| Error::new(Status::IO_REPARSE_DATA_INVALID);
    let asked = ReparseDataBuffer::decode(control.asked.input).map_err(invalid)?;
    if RESERVED.contains(&asked.reparse_tag()) {
        return Err(Error::new(Status::IO_REPARSE_TAG_INVALID));
    }
    if !asked.data().is_empty() {
        return Err(Error::new(Status::IO_REPARSE_DATA_INVALID));
    }
    take_alone(control, reply, file).await?;
    let metadata = file.node.metadata(&file.op).await?;
    let old = present(file, disk, &metadata).await?.ok_or(Error::new(Status::NOT_A_REPARSE_POINT))?;
    check_same(&old, &asked)?;
    if matches!(metadata.kind, Kind::Symlink | Kind::Special) {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the reparse point of a Linux symbolic link or special file cannot be removed",
        ));
    }
    mark(control, file, disk, &metadata, false).await?;
    file.settles.store(false, Ordering::Release);
    // Without the attribute bit the data is ignored; if its removal fails, the next reparse point replaces it.
    if let Err(errno) = file.node.set_xattr(&file.op, ATTRIBUTE, None, SetXattr::Any).await {
        tracing::debug!(?errno, "cannot remove the data of a deleted reparse point");
    }
    Ok(Output::new(|_| ()))
}

/// Sets or clears FILE_ATTRIBUTE_REPARSE_POINT.
async fn mark(control: &Control<'_>, file: &FileOpen, disk: &Disk, metadata: &Metadata, is_point: bool) -> Result<()> {
    let mut bits = attributes::file_attributes(disk, None, metadata).0 & attributes::KEPT;
    bits &= !FileAttributes::REPARSE_POINT.0;
    if is_point {
        bits |= FileAttributes::REPARSE_POINT.0;
    }
    if metadata.kind == Kind::File {
        bits |= FileAttributes::ARCHIVE.0;
    }
    let set = SetMetadata { dos_attributes: Some(bits), ..SetMetadata::default() };
    file.node.set_metadata(&file.op, set).await?;
    let change = Change::modified(CompletionFilter::ATTRIBUTES);
    control.request.connection.server.file_changed(disk, file, change);
    Ok(())
}
