//! Reparse points ([MS-FSCC] 2.1.2): data that clients store under a tag, and symbolic links of Linux. Clients see the
//! latter as reparse points if the server does not follow them, or if FILE_OPEN_REPARSE_POINT requests the link itself.
//! All operations of a handle that was opened with that option apply to the link.
//!
//! Reparse data is stored in an extended attribute, as in Samba 4.20 and later, together with
//! FILE_ATTRIBUTE_REPARSE_POINT. The file attribute is set after the extended attribute and cleared before it; either
//! one without the other has no effect. The server follows no stored reparse points. For a symbolic link, the client is
//! told its target ([MS-SMB2] 2.2.2.2.1).
//!
//! A stored symbolic link is converted to one of Linux when its creator closes it ([`settle`]), provided that no rename
//! of it or of a directory above can make it lead out of the share. This is the case if its target has no `..`. On a
//! share with `wide links` no links are converted.

pub(crate) mod posix;

use std::sync::Arc;

use proto::bytes::utf16_units;
use proto::dtyp::Guid;
use proto::fscc::{FileAttributes, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData};
use proto::smb2::error::{ErrorContext, SymbolicLinkError, SymlinkFlags};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::links::{self, Search};
use crate::name;
use crate::policy::{Share, dfs};
use crate::request::Request;
use crate::security::access;
use crate::state::Server;
use crate::state::open::FileOpen;
use crate::streams::layout::is_store_name;
use crate::tree::Disk;
use crate::vfs::xattr::DOSATTRIB;
use crate::vfs::{Access, Case, Errno, Kind, Lookup, Metadata, NewFile, Node, Op, RelPath, SERVER};

/// The extended attribute that stores reparse data: a whole REPARSE_DATA_BUFFER.
pub(crate) const ATTRIBUTE: &str = "user.SmbReparse";
/// Maximum size of the buffer in bytes ([MS-FSA] 2.1.5.10.37).
pub(crate) const LONGEST: usize = 16_384;

/// Whether a client has stored reparse data in the file.
pub(crate) fn is_stored(share: &Share, metadata: &Metadata) -> bool {
    let has = |bits: u32| bits & FileAttributes::REPARSE_POINT.0 != 0;
    share.attributes.store_dos_attributes && metadata.dos_attributes.is_some_and(has) && metadata.kind != Kind::Symlink
}

/// Returns the tag in a buffer.
pub(crate) fn tag(buffer: &[u8]) -> ReparseTag {
    ReparseDataBuffer::decode(buffer).map_or(ReparseTag(0), |buffer| buffer.reparse_tag())
}

/// Returns the reparse data of a file that has the file attribute; `None` if there is no data.
pub(crate) async fn stored(node: &dyn Node, op: &Op) -> Result<Option<Vec<u8>>> {
    match node.get_xattr(op, ATTRIBUTE).await {
        // A user who may not read the file may know that it is a reparse point.
        Err(Errno::ACCES | Errno::PERM) => Ok(node.get_xattr(&SERVER, ATTRIBUTE).await?),
        found => Ok(found?),
    }
}

/// Returns the tag of the reparse data of a file.
pub(crate) async fn stored_tag(node: &dyn Node, op: &Op) -> ReparseTag {
    match stored(node, op).await {
        Ok(Some(buffer)) => tag(&buffer),
        _ => ReparseTag(0),
    }
}

/// Returns the buffer of a symbolic link to `target`.
pub(crate) fn link_buffer(target: &[u8]) -> Option<Vec<u8>> {
    let (names, flags) = shown_target(target);
    let data = SymbolicLinkReparseData { substitute_name: &names, print_name: &names, flags }.to_bytes()?;
    let buffer = ReparseDataBuffer::new(ReparseTag::SYMLINK, Guid::NIL, &data)?;
    let mut bytes = Vec::new();
    buffer.encode(&mut proto::bytes::Writer::new(&mut bytes));
    Some(bytes)
}

/// Returns a link target as clients see it. An absolute one is a path on the server's machine, but the client resolves
/// it as one of its own.
pub(crate) fn shown_target(target: &[u8]) -> (Vec<u8>, SymlinkFlags) {
    let mut units: Vec<u16> = Vec::new();
    for (index, component) in target.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            units.push(u16::from(b'\\'));
        }
        match component {
            b"." | b".." => units.extend(component.iter().copied().map(u16::from)),
            name => units.extend(name::to_wire(name)),
        }
    }
    let flags = if target.first() == Some(&b'/') { SymlinkFlags(0) } else { SymlinkFlags::RELATIVE };
    (units.into_iter().flat_map(u16::to_le_bytes).collect(), flags)
}

/// Refuses to open a reparse point unless it is requested itself ([MS-FSA] 2.1.5.1.2). A symbolic link out of the share
/// is reported as not found.
pub(crate) async fn check_open(
    request: &Request<'_>,
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<()> {
    match stop(request, disk, node, metadata, 0).await? {
        Some(stopped) => Err(stopped),
        None if metadata.kind == Kind::Symlink => {
            Err(Error::because(Status::OBJECT_NAME_NOT_FOUND, "the symbolic link leads out of the share"))
        }
        None => Ok(()),
    }
}

/// Returns the error for an open whose path leads to this file, with `behind` bytes of the path remaining. `None` if it
/// is not a reparse point, or is a Linux symbolic link out of the share.
async fn stop(
    request: &Request<'_>,
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    behind: usize,
) -> Result<Option<Error>> {
    if metadata.kind == Kind::Symlink {
        let Ok(target) = node.read_link(&disk.op).await else { return Ok(None) };
        let stays = node.location(&disk.op).await.is_ok_and(|location| stays(&target, &location));
        let (names, flags) = shown_target(&target);
        let link = SymbolicLinkReparseData { substitute_name: &names, print_name: &names, flags };
        return Ok(stays.then(|| stopped_at(request, &link, behind)));
    }
    if !is_stored(&disk.share, metadata) {
        return Ok(None);
    }
    let Some(buffer) = stored(&**node, &disk.op).await? else { return Ok(None) };
    let buffer = ReparseDataBuffer::decode(&buffer);
    let buffer = buffer.as_ref().ok().filter(|buffer| buffer.reparse_tag() == ReparseTag::SYMLINK);
    Ok(Some(match buffer.and_then(|buffer| SymbolicLinkReparseData::decode(buffer.data()).ok()) {
        Some(link) => stopped_at(request, &link, behind),
        None => Error::because(Status::IO_REPARSE_TAG_NOT_HANDLED, "the client must interpret the reparse point"),
    }))
}

/// Returns the error for an open of `path` whose lookup ended at a symbolic link, so that the client can follow it.
/// `None` if there is no such link, or it leads out of the share.
pub(crate) async fn stopped(request: &Request<'_>, disk: &Disk, path: &RelPath) -> Option<Error> {
    let (op, links, case) = (&disk.op, disk.share.links().to_last(), case(disk));
    let mut search = Search::new(path);
    while let Some(count) = search.next() {
        let part = links::prefix(path, count);
        let found = links::look_up_with(disk, op, &part, case, links, Access::default()).await;
        search.note(count, !matches!(found, Err(Errno::LOOP)));
    }
    let part = links::prefix(path, search.found);
    let found = links::look_up_with(disk, op, &part, case, links, Access::default()).await;
    let Ok(Lookup::Found { node, metadata, .. }) = found else { return None };
    stop(request, disk, &node, &metadata, behind(path, search.found)).await.ok()?
}

/// Returns the error for an open of `path` with a missing directory, because a reparse point is stored in its place.
/// `None` if that is not the case.
pub(crate) async fn stopped_by_stored(request: &Request<'_>, disk: &Disk, path: &RelPath) -> Option<Error> {
    let (op, case) = (&disk.op, case(disk));
    let mut search = Search::new(path);
    while let Some(count) = search.next() {
        let found = links::look_up(disk, op, &links::prefix(path, count), case).await;
        search.note(count, matches!(found, Ok(Lookup::Found { .. })));
    }
    let found = links::look_up(disk, op, &links::prefix(path, search.found), case).await;
    let Ok(Lookup::Found { node, metadata, .. }) = found else { return None };
    stop(request, disk, &node, &metadata, behind(path, search.found)).await.ok()?
}

fn case(disk: &Disk) -> Case {
    if disk.share.names.case_sensitive { Case::Sensitive } else { Case::Insensitive }
}

/// Returns the length in bytes, as sent on the wire, of the path after its first `count` components.
fn behind(path: &RelPath, count: usize) -> usize {
    path.components().skip(count).map(|name| 2 * (1 + name::to_wire(name).len())).sum()
}

fn stopped_at(request: &Request<'_>, link: &SymbolicLinkReparseData<'_>, behind: usize) -> Error {
    let data = SymbolicLinkError {
        unparsed_path_length: u16::try_from(behind).unwrap_or(u16::MAX),
        flags: link.flags,
        substitute_name: link.substitute_name,
        print_name: link.print_name,
    }
    .to_bytes();
    let context = ErrorContext { error_context_data: &data, ..ErrorContext::default() };
    let in_context = request.connection.dialect() == Dialect::SMB_3_1_1;
    let data = if in_context { ErrorContext::encode_list(&[context]) } else { data };
    Error { data, ..Error::because(Status::STOPPED_ON_SYMLINK, "the client must follow the link") }
}

/// Whether a Linux symbolic link leads to a directory; `None` if the server does not follow it.
pub(crate) async fn leads_to_directory(disk: &Disk, path: &RelPath) -> Option<bool> {
    match links::look_up(disk, &disk.op, path, Case::Sensitive).await {
        Ok(Lookup::Found { metadata, .. }) if metadata.kind != Kind::Symlink => Some(metadata.kind == Kind::Directory),
        _ => None,
    }
}

/// Replaces a file in which a client stored a symbolic link by one of Linux after the close, if that is possible
/// without losing data. Otherwise the file is left as it is.
pub(crate) async fn settle(server: &Server, disk: &Disk, file: &FileOpen) {
    let path = file.name.path.lock().clone();
    // The file has no opens, and cannot be opened meanwhile.
    let Ok(_replacement) = server.opens.files.begin_replacement(file.file, server.environment.uptime(), false) else {
        return;
    };
    let Ok(Some(target)) = convertible(disk, file, &path).await else { return };
    let link = NewFile::symlink(&target, Some(file.file));
    if let Err(errno) = disk.vfs.create(&file.op, &path, link).await {
        tracing::debug!(%path, ?errno, "cannot convert a client's link to a Linux symbolic link");
    }
}

/// Returns the target of the Linux symbolic link that a file can be converted to.
async fn convertible(disk: &Disk, file: &FileOpen, path: &RelPath) -> Result<Option<Vec<u8>>> {
    let metadata = file.node.metadata(&file.op).await?;
    let plain = match metadata.kind {
        Kind::File => metadata.size == 0 && metadata.links == 1,
        Kind::Directory => true,
        Kind::Symlink | Kind::Special => false,
    };
    if disk.share.names.wide_links || !plain || !is_stored(&disk.share, &metadata) {
        return Ok(None);
    }
    let Some(buffer) = stored(&*file.node, &file.op).await? else { return Ok(None) };
    let Ok(buffer) = ReparseDataBuffer::decode(&buffer) else { return Ok(None) };
    let link = Some(&buffer).filter(|buffer| buffer.reparse_tag() == ReparseTag::SYMLINK);
    let Some(link) = link.and_then(|buffer| SymbolicLinkReparseData::decode(buffer.data()).ok()) else {
        return Ok(None);
    };
    let Some(target) = target(&link) else { return Ok(None) };
    if has_more(file, &metadata).await? {
        return Ok(None);
    }
    access::may_name(disk, false, None, path, true).await?;
    Ok(Some(target))
}

/// Whether the file has DOS attributes, streams or extended attributes that a symbolic link or a special file would not
/// have.
pub(crate) async fn has_more(file: &FileOpen, metadata: &Metadata) -> Result<bool> {
    const LOST: u32 = FileAttributes::READONLY.0 | FileAttributes::HIDDEN.0 | FileAttributes::SYSTEM.0;
    if metadata.dos_attributes.is_some_and(|bits| bits & LOST != 0) {
        return Ok(true);
    }
    let kept = |name: &String| name.starts_with("user.") && name != ATTRIBUTE && name != DOSATTRIB;
    Ok(file.node.list_xattrs(&file.op).await?.iter().any(kept))
}

/// Whether the target of a link at the path `at` lies in the share, judged by the names alone.
fn stays(target: &[u8], at: &[u8]) -> bool {
    let components = at.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).count();
    let Some(mut depth) = components.checked_sub(1).filter(|_| at.first() != Some(&b'/')) else { return false };
    target.first() != Some(&b'/')
        && target.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").all(|part| {
            let next = if part == b".." { depth.checked_sub(1) } else { Some(depth + 1) };
            depth = next.unwrap_or_default();
            next.is_some()
        })
}

/// Returns the components of a client's relative link in Linux form; `None` for an absolute one.
fn relative_target(link: &SymbolicLinkReparseData<'_>) -> Option<Vec<Vec<u8>>> {
    if link.flags != SymlinkFlags::RELATIVE {
        return None;
    }
    let units = utf16_units(link.substitute_name)?;
    Some(units.split(|&unit| unit == u16::from(b'\\')).map(name::from_wire).collect())
}

/// Returns the target of the Linux symbolic link equivalent to a client's link. `None` if it could lead out of the
/// share after a rename: it is not relative, has `..`, or has a component that is not a valid name. `None` also for
/// what would be a link of a DFS namespace, because clients must not lead others to other servers.
fn target(link: &SymbolicLinkReparseData<'_>) -> Option<Vec<u8>> {
    let parts = relative_target(link)?;
    // An empty component, or one with a slash, would change the path. `..` is not a valid component of a `RelPath`.
    let goes_down = parts.iter().all(|part| part == b"." || RelPath::root().join(part).is_some());
    let target = parts.join(&b'/');
    (goes_down && !dfs::is_link(&target)).then_some(target)
}

/// Whether a client's link names a file that is hidden by `veto files`, or an internal one of the server.
pub(crate) fn names_hidden(disk: &Disk, link: &SymbolicLinkReparseData<'_>) -> bool {
    let hidden = |name: &Vec<u8>| disk.veto.matches(name) || is_store_name(name);
    relative_target(link).is_some_and(|parts| parts.iter().any(hidden))
}

#[cfg(test)]
mod tests {
    use proto::bytes::utf16_bytes as wire;

    use super::*;

    #[track_caller]
    fn check(substitute: &str, flags: SymlinkFlags, expected: Option<&str>) {
        let substitute_name = wire(substitute);
        let link = SymbolicLinkReparseData { substitute_name: &substitute_name, print_name: &[], flags };
        assert_eq!(target(&link), expected.map(|text| text.as_bytes().to_vec()), "{substitute}");
    }

    #[test]
    fn only_links_that_always_stay_in_the_share_become_linux_links() {
        let relative = SymlinkFlags::RELATIVE;
        check("file", relative, Some("file"));
        check(r"b\file", relative, Some("b/file"));
        check(r".\file", relative, Some("./file"));
        check(r"..\file", relative, None);
        check(r"b\..\file", relative, None);
        check(r"b\..\..\..\file", relative, None);
        check(r"\file", relative, None);
        check(r"a\\b", relative, None);
        check("a/b", relative, None);
        check(r"MSDFS:a\b", relative, None);
        check(r"a\msdfs:b", relative, Some("a/msdfs:b"));
        check("", relative, None);
        check(r"\??\C:\file", SymlinkFlags(0), None);
    }

    #[test]
    fn links_that_stay() {
        for (place, target, expected) in [
            ("link", "file", true),
            ("a/link", "../b//c/./d", true),
            ("a/link", "../../b", false),
            ("a/link", "b/../../../c", false),
            ("link", "/etc", false),
            ("/elsewhere/link", "file", false),
        ] {
            assert_eq!(stays(target.as_bytes(), place.as_bytes()), expected, "{place} {target}");
        }
    }

    #[test]
    fn a_link_shows_its_target() {
        let buffer = link_buffer(b"../a/b").expect("short");
        let decoded = ReparseDataBuffer::decode(&buffer).expect("a buffer");
        let link = SymbolicLinkReparseData::decode(decoded.data()).expect("a link");
        assert_eq!((tag(&buffer), link.flags), (ReparseTag::SYMLINK, SymlinkFlags::RELATIVE));
        assert_eq!((link.substitute_name, link.print_name), (&*wire(r"..\a\b"), &*wire(r"..\a\b")));
        assert_eq!(shown_target(b"/etc"), (wire(r"\etc"), SymlinkFlags(0)));
    }
}
