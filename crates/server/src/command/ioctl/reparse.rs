//! Controls of reparse points ([MS-FSA] 2.1.5.10.3, 2.1.5.10.14, 2.1.5.10.37).

use proto::dtyp::AccessMask;
use proto::fscc::{FileAttributes, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData};
use proto::smb2::change_notify::CompletionFilter;
use proto::status::Status;

use super::{Control, Output};
use crate::attributes;
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::open::FileOpen;
use crate::reparse::{self, ATTRIBUTE};
use crate::tree::Disk;
use crate::vfs::{Case, Create, Kind, Links, Lookup, Metadata, SetMetadata};

/// Tags that nobody can have.
const RESERVED: [ReparseTag; 2] = [ReparseTag(0), ReparseTag(1)];

/// 2.1.5.10.14.
pub(super) async fn get(control: &Control<'_>) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    let metadata = file.node.metadata().await?;
    let buffer = present(file, disk, &metadata).await?.ok_or(Error::new(Status::NOT_A_REPARSE_POINT))?;
    let fixed = if reparse::tag(&buffer).is_microsoft() { 8 } else { 24 };
    control.need_room(fixed, Status::BUFFER_TOO_SMALL)?;
    let room = control.room().min(buffer.len());
    let status = if room < buffer.len() { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    Ok(Output::with(status, |out| out.bytes(&buffer[..room])))
}

/// The reparse data that a file has.
async fn present(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> Result<Option<Vec<u8>>> {
    if metadata.kind == Kind::Symlink {
        return Ok(reparse::link_buffer(&file.node.read_link().await?));
    }
    if !reparse::is_stored(&disk.share, metadata) {
        return Ok(None);
    }
    Ok(file.node.get_xattr(&file.identity, ATTRIBUTE).await?)
}

/// 2.1.5.10.37.
pub(super) async fn set(control: &Control<'_>) -> Result<Output> {
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
    let metadata = file.node.metadata().await?;
    check_kind(&asked, file, &metadata).await?;
    if let Some(old) = present(file, disk, &metadata).await? {
        check_same(&old, &asked)?;
    }
    if asked.reparse_tag() == ReparseTag::SYMLINK
        && metadata.kind != Kind::Symlink
        && let Ok(link) = SymbolicLinkReparseData::decode(asked.data())
        && become_link(control, file, disk, &metadata, &link).await?
    {
        return Ok(Output::new(|_| ()));
    }
    if metadata.kind == Kind::Symlink || !disk.share.store_dos_attributes {
        return Err(Error::because(Status::ACCESS_DENIED, "a link of Linux, or `store dos attributes = no`"));
    }
    file.node.set_xattr(&file.identity, ATTRIBUTE, Some(input.to_vec())).await?;
    mark(control, file, disk, &metadata, true).await?;
    Ok(Output::new(|_| ()))
}

/// What can be a reparse point of that tag.
async fn check_kind(asked: &ReparseDataBuffer<'_>, file: &FileOpen, metadata: &Metadata) -> Result<()> {
    match metadata.kind {
        Kind::Directory if !file.node.is_empty().await? => Err(Error::new(Status::DIRECTORY_NOT_EMPTY)),
        Kind::File if asked.reparse_tag() == ReparseTag::MOUNT_POINT => Err(Error::new(Status::NOT_A_DIRECTORY)),
        Kind::File if asked.reparse_tag() == ReparseTag::SYMLINK && metadata.size > 0 => {
            Err(Error::new(Status::IO_REPARSE_DATA_INVALID))
        }
        Kind::Special => Err(Error::new(Status::ACCESS_DENIED)),
        _ if file.file.stream != 0 => Err(Error::because(Status::INVALID_PARAMETER, "a stream")),
        _ => Ok(()),
    }
}

/// Another owner's reparse point stays.
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

/// Puts a link of Linux in place of the empty file or directory, where one can be made that leads where the client wants
/// and does not lead out of the share. The directories on the way to it must be none that a link has led to: `..` would
/// be another directory for who follows it.
async fn become_link(
    control: &Control<'_>,
    file: &FileOpen,
    disk: &Disk,
    metadata: &Metadata,
    link: &SymbolicLinkReparseData<'_>,
) -> Result<bool> {
    let path = file.name.path.lock().clone();
    let Some(target) = reparse::target(link, &path) else { return Ok(false) };
    let plain = Links { follow: false, wide: false };
    match disk.vfs.lookup(&file.identity, &path, Case::Sensitive, plain).await {
        Ok(Lookup::Found { metadata: here, .. }) if here.id == file.file => {}
        _ => return Ok(false),
    }
    disk.vfs.unlink(&file.identity, &path, file.file, metadata.kind).await?;
    if let Err(errno) = disk.vfs.make_link(&file.identity, &path, &target).await {
        let again = match metadata.kind {
            Kind::Directory => Create::Directory,
            _ => Create::File(crate::vfs::Access::default()),
        };
        let _ = disk.vfs.create(&file.identity, &path, again, metadata.mode & 0o7777, metadata.dos_attributes).await;
        return Err(errno.into());
    }
    control.request.connection.server.changed(disk, &path, Change::modified(CompletionFilter::ATTRIBUTES));
    Ok(true)
}

/// 2.1.5.10.3.
pub(super) async fn delete(control: &Control<'_>) -> Result<Output> {
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
    let metadata = file.node.metadata().await?;
    let old = present(file, disk, &metadata).await?.ok_or(Error::new(Status::NOT_A_REPARSE_POINT))?;
    check_same(&old, &asked)?;
    if metadata.kind == Kind::Symlink {
        return Err(Error::because(Status::ACCESS_DENIED, "a link of Linux is nothing else without its target"));
    }
    mark(control, file, disk, &metadata, false).await?;
    file.node.set_xattr(&file.identity, ATTRIBUTE, None).await?;
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
    file.node.set_metadata(&file.identity, set).await?;
    let change = Change::modified(CompletionFilter::ATTRIBUTES);
    control.request.connection.server.file_changed(disk, file, change);
    Ok(())
}
