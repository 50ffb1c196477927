//! Renames and hard links ([MS-FSA] 2.1.5.15.6, 2.1.5.15.11): new names for open files.

use std::sync::Arc;

use proto::bytes::Reader;
use proto::fscc::{FileLinkInformation, FileRenameInformation};
use proto::status::Status;

use crate::conn::Request;
use crate::error::{Error, Result};
use crate::name::{self, Stream};
use crate::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::vfs::{Case, FileId, Kind, Links, Lookup, Metadata, RelPath};

/// Gives the open file another name.
pub(crate) async fn rename(
    request: &Request<'_>,
    buffer: &[u8],
    open: &Arc<Open>,
    file: &FileOpen,
    disk: &Disk,
) -> Result<()> {
    let asked = FileRenameInformation::decode(&mut Reader::new(buffer))?;
    let files = &request.connection.server.files;
    let from = file.name.path.lock().clone();
    if from.is_root() {
        return Err(Error::because(Status::ACCESS_DENIED, "the share itself"));
    }
    if files.is_delete_pending(file.file) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let target = target(disk, asked.file_name, &from).await?;
    if directory(disk, &target.path).await?.is_some_and(|directory| !files.admits_new_name(directory)) {
        return Err(Error::because(Status::SHARING_VIOLATION, "the destination directory is open for deletion"));
    }
    if !files.shares_delete(file.file, open.persistent_id) {
        return Err(Error::because(Status::SHARING_VIOLATION, "another open does not share deletion"));
    }
    if file.kind == Kind::Directory {
        if files.is_open_beneath(disk.volume, &from) {
            return Err(Error::because(Status::ACCESS_DENIED, "something in the directory is open"));
        }
        if target.path.is_beneath(&from) {
            return Err(Error::because(Status::INVALID_PARAMETER, "a directory into itself"));
        }
    }
    let itself = target.existing.as_ref().is_some_and(|existing| existing.id == file.file);
    if let Some(existing) = target.existing.as_ref().filter(|_| !itself) {
        check_replaced(request, existing, asked.replace_if_exists)?;
    }
    if itself && target.path == from {
        return Ok(());
    }
    // Another name of the same file, or the same name in another case, needs no permission to replace.
    let replace = asked.replace_if_exists || itself;
    disk.vfs.rename(&file.identity, &from, file.file, &target.path, replace).await?;
    files.renamed(file.file, disk.volume, &from, &target.path);
    Ok(())
}

/// Gives the open file one more name.
pub(crate) async fn link(request: &Request<'_>, buffer: &[u8], file: &FileOpen, disk: &Disk) -> Result<()> {
    let asked = FileLinkInformation::decode(&mut Reader::new(buffer))?;
    if file.kind == Kind::Directory {
        return Err(Error::new(Status::FILE_IS_A_DIRECTORY));
    }
    let from = file.name.path.lock().clone();
    let target = target(disk, asked.file_name, &from).await?;
    if let Some(existing) = &target.existing {
        if existing.id == file.file && target.path == from {
            return Ok(());
        }
        check_replaced(request, existing, asked.replace_if_exists)?;
    }
    disk.vfs.link(&file.identity, &file.node, &target.path, asked.replace_if_exists).await?;
    Ok(())
}

/// Where a new name leads.
struct Target {
    path: RelPath,
    /// What has that name now.
    existing: Option<Metadata>,
}

async fn target(disk: &Disk, wire_name: &[u8], from: &RelPath) -> Result<Target> {
    // Some clients begin the new name with a backslash though it is relative to the share.
    let wire_name = wire_name.strip_prefix(b"\\\0").unwrap_or(wire_name);
    let name = name::parse(wire_name).map_err(|error| Error::new(error.status()))?;
    if name.stream != Stream::Unnamed {
        return Err(Error::because(Status::NOT_SUPPORTED, "renaming streams"));
    }
    if name.path.is_root() {
        return Err(Error::new(Status::OBJECT_NAME_INVALID));
    }
    if !disk.veto.is_empty() && name.path.components().any(|component| disk.veto.matches(component)) {
        return Err(Error::because(Status::ACCESS_DENIED, "veto files"));
    }
    let links = Links { follow: disk.share.follow_symlinks, wide: disk.share.wide_links };
    let case = if disk.share.case_sensitive { Case::Sensitive } else { Case::Insensitive };
    match disk.vfs.lookup(&disk.identity, &name.path, case, links).await? {
        Lookup::Missing { path } => Ok(Target { path, existing: None }),
        Lookup::NoParent => Err(Error::new(Status::OBJECT_PATH_NOT_FOUND)),
        Lookup::Found { path, metadata, .. } => {
            // The client's own spelling is the new one where only the case changes.
            let spelled = path.parent().zip(name.path.name()).and_then(|(parent, last)| parent.join(last));
            let same = path == *from;
            Ok(Target { path: if same { spelled.unwrap_or(path) } else { path }, existing: Some(metadata) })
        }
    }
}

/// The directory that `path` lies in.
async fn directory(disk: &Disk, path: &RelPath) -> Result<Option<FileId>> {
    let Some(parent) = path.parent() else { return Ok(None) };
    let links = Links { follow: disk.share.follow_symlinks, wide: disk.share.wide_links };
    match disk.vfs.lookup(&disk.identity, &parent, Case::Sensitive, links).await? {
        Lookup::Found { metadata, .. } => Ok(Some(metadata.id)),
        _ => Ok(None),
    }
}

/// Whether what has the new name now may go.
fn check_replaced(request: &Request<'_>, existing: &Metadata, replace: bool) -> Result<()> {
    if !replace {
        return Err(Error::new(Status::OBJECT_NAME_COLLISION));
    }
    if existing.kind == Kind::Directory {
        return Err(Error::because(Status::ACCESS_DENIED, "a directory is never replaced"));
    }
    if request.connection.server.files.is_open(existing.id) {
        return Err(Error::because(Status::ACCESS_DENIED, "what would be replaced is open"));
    }
    Ok(())
}
