//! Symbolic links, FIFOs, sockets and devices of Linux as clients with the POSIX extensions of SMB 3.1.1 see them: as
//! reparse points of NFS servers ([MS-FSCC] 2.1.2.6).
//!
//! These clients resolve links themselves, on their own machine. They are told any target, also one outside the share,
//! to which the server does not go.

use std::sync::Arc;

use proto::dtyp::Guid;
use proto::fscc::{NfsReparseData, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData};
use proto::smb2::error::SymlinkFlags;
use proto::status::Status;

use super::{is_stored, stop, stopped_at};
use crate::acl::model::posix_acl;
use crate::error::{Error, Result};
use crate::links::{self, Search};
use crate::name;
use crate::policy::{Share, dfs};
use crate::request::Request;
use crate::state::open::FileOpen;
use crate::state::{Server, directories_overlap};
use crate::streams::layout::is_store_name;
use crate::tree::Disk;
use crate::vfs::{
    Access, Case, Create, Errno, FileId, Kind, Lookup, Metadata, NewFile, Node, Op, RelPath, SERVER, SpecialFile,
    SymlinkPolicy,
};

/// The longest target of a symbolic link, in bytes: PATH_MAX without the NUL.
const TARGET: usize = 4095;

/// Refuses to open a reparse point unless it is requested itself.
pub(crate) async fn check_open(
    request: &Request<'_>,
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<()> {
    match metadata.kind {
        Kind::Symlink => Err(stopped_by(request, disk, node, 0).await?),
        Kind::Special => {
            Err(Error::because(Status::IO_REPARSE_TAG_NOT_HANDLED, "the client must interpret the special file"))
        }
        Kind::File | Kind::Directory if is_stored(&disk.share, metadata) => {
            stop(request, disk, node, metadata, 0).await?.map_or(Ok(()), Err)
        }
        Kind::File | Kind::Directory => Ok(()),
    }
}

/// Returns the error for an open of `path` whose lookup ended at a symbolic link. `None` if there is no such link.
pub(crate) async fn stopped(request: &Request<'_>, disk: &Disk, path: &RelPath) -> Option<Error> {
    let (op, none) = (&disk.op, SymlinkPolicy::NONE);
    let mut search = Search::new(path);
    while let Some(count) = search.next() {
        let part = links::prefix(path, count);
        let found = links::look_up_with(disk, op, &part, Case::Sensitive, none, Access::default()).await;
        search.note(count, !matches!(found, Err(Errno::LOOP)));
    }
    let part = links::prefix(path, search.found);
    let found = links::look_up_with(disk, op, &part, Case::Sensitive, none, Access::default()).await;
    let Ok(Lookup::Found { node, metadata, .. }) = found else { return None };
    if metadata.kind != Kind::Symlink {
        return None;
    }
    let behind = path.components().skip(search.found).map(|name| 2 * (1 + name::to_wire_posix(name).len())).sum();
    stopped_by(request, disk, &node, behind).await.ok()
}

/// Returns the error for a symbolic link, with `behind` bytes of the path remaining.
async fn stopped_by(request: &Request<'_>, disk: &Disk, node: &Arc<dyn Node>, behind: usize) -> Result<Error> {
    let target = node.read_link(&disk.op).await?;
    // The structure is one of Windows, and so is its separator.
    let names = shown(&target, '\\');
    let flags = if target.first() == Some(&b'/') { SymlinkFlags(0) } else { SymlinkFlags::RELATIVE };
    let link = SymbolicLinkReparseData { substitute_name: &names, print_name: &names, flags };
    Ok(stopped_at(request, &link, behind))
}

/// Returns a target in UTF-16LE.
fn shown(target: &[u8], separator: char) -> Vec<u8> {
    let mut units: Vec<u16> = Vec::with_capacity(target.len());
    for (index, component) in target.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            units.extend_from_slice(separator.encode_utf16(&mut [0; 2]));
        }
        units.extend(name::to_wire_posix(component));
    }
    units.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// Returns the reparse buffer of a special file; `None` for other files.
pub(crate) async fn buffer(node: &Arc<dyn Node>, op: &Op, metadata: &Metadata) -> Result<Option<Vec<u8>>> {
    let target;
    let data = match (metadata.kind, metadata.special) {
        (Kind::Symlink, _) => {
            target = shown(&node.read_link(op).await?, '/');
            NfsReparseData::SymbolicLink(&target)
        }
        (Kind::Special, Some(SpecialFile::CharacterDevice(major, minor))) => {
            NfsReparseData::CharacterDevice(major, minor)
        }
        (Kind::Special, Some(SpecialFile::BlockDevice(major, minor))) => NfsReparseData::BlockDevice(major, minor),
        (Kind::Special, Some(SpecialFile::Socket)) => NfsReparseData::Socket,
        (Kind::Special, Some(SpecialFile::Fifo) | None) => NfsReparseData::Fifo,
        (Kind::File | Kind::Directory, _) => return Ok(None),
    };
    let data = data.to_bytes();
    let Some(buffer) = ReparseDataBuffer::new(ReparseTag::NFS, Guid::NIL, &data) else { return Ok(None) };
    let mut bytes = Vec::new();
    buffer.encode(&mut proto::bytes::Writer::new(&mut bytes));
    Ok(Some(bytes))
}

/// Returns the file that replaces the empty file `replaced` with this mode, because its client declares it to be a
/// special file.
pub(crate) fn new_file(disk: &Disk, data: &[u8], replaced: FileId, mode: u32) -> Result<NewFile> {
    let invalid = |_| Error::new(Status::IO_REPARSE_DATA_INVALID);
    let special = |file| Ok(NewFile::new(Create::Special { file, replaces: Some(replaced) }, mode));
    match NfsReparseData::decode(data).map_err(invalid)? {
        NfsReparseData::Fifo => special(SpecialFile::Fifo),
        NfsReparseData::Socket => special(SpecialFile::Socket),
        NfsReparseData::CharacterDevice(..) | NfsReparseData::BlockDevice(..) => {
            Err(Error::because(Status::ACCESS_DENIED, "clients cannot create devices on the server"))
        }
        NfsReparseData::SymbolicLink(target) => {
            let target = target_of(disk, target)?;
            Ok(NewFile::symlink(&target, Some(replaced)))
        }
    }
}

/// Returns whether the server might follow a link in the share that leads out of it: a share has `wide links`, had it
/// when a client connected that still is, or may have it by a file that is included for some sessions only. Or a link
/// could take the place of the directory of another share, which is opened by its path.
pub(crate) fn may_lead_out(server: &Server, share: &Share) -> bool {
    let policy = server.policy();
    let is_inside = |other: &Share| other.path_template.is_some() || directories_overlap(share, other);
    policy.wide_links
        || policy.sessions.is_some()
        || share.names.wide_links
        || policy.shares.values().any(|other| is_inside(other))
        || server.share_uses.has_wide_links()
}

/// Returns the permission bits of the special file that replaces the file. With an ACL the group's bits are not the
/// group's rights.
pub(crate) async fn mode(disk: &Disk, file: &FileOpen, metadata: &Metadata) -> Result<u32> {
    let names = file.node.list_xattrs(&SERVER).await?;
    let is_acl = |name: &String| {
        name == posix_acl::ACCESS || disk.share.acls.stored.as_ref().is_some_and(|acls| *acls.attribute == **name)
    };
    Ok(if names.iter().any(is_acl) { metadata.mode & 0o700 } else { metadata.mode })
}

/// Returns the target of a symbolic link that a client creates. It may lead anywhere, because the server does not
/// follow it out of the share.
fn target_of(disk: &Disk, target: &[u8]) -> Result<Vec<u8>> {
    let units = proto::bytes::utf16_units(target).ok_or(Error::new(Status::IO_REPARSE_DATA_INVALID))?;
    let target = name::from_wire(&units);
    if target.len() > TARGET || target.contains(&0) {
        return Err(Error::because(Status::IO_REPARSE_DATA_INVALID, "the target is not a path of Linux"));
    }
    if dfs::is_link(&target) {
        return Err(Error::because(Status::ACCESS_DENIED, "clients do not create links of a DFS namespace"));
    }
    if target.split(|&byte| byte == b'/').any(|part| disk.veto.matches(part) || is_store_name(part)) {
        return Err(Error::because(Status::ACCESS_DENIED, "the link's target matches `veto files`"));
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_keeps_its_characters() {
        let text =
            |bytes: Vec<u8>| String::from_utf16(&proto::bytes::utf16_units(&bytes).expect("even")).expect("text");
        assert_eq!(text(shown(b"../a:b/c. ", '/')), "../a:b/c. ");
        assert_eq!(text(shown(b"/etc/passwd", '\\')), r"\etc\passwd");
        assert_eq!(text(shown(br"a\b", '/')), "a\u{f026}b");
    }
}
