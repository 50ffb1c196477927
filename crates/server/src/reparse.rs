//! Reparse points ([MS-FSCC] 2.1.2): symbolic links of Linux as Windows tells of them, and what clients store under tags
//! of their own.
//!
//! A link that the server follows shows as what it leads to. One that it does not follow, because it leads out of the
//! share or nowhere, shows as a reparse point of IO_REPARSE_TAG_SYMLINK. What a client stores lies in an extended
//! attribute, as in Samba 4.20 and later, under the attribute FILE_ATTRIBUTE_REPARSE_POINT; the server does nothing with
//! it. Only a relative symbolic link that stays in the share becomes a link of Linux.

use std::sync::Arc;

use proto::bytes::utf16_units;
use proto::dtyp::Guid;
use proto::fscc::{FileAttributes, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData};
use proto::smb2::error::{ErrorContext, SymbolicLinkError, SymlinkFlags};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use crate::conn::Request;
use crate::error::Error;
use crate::name;
use crate::policy::Share;
use crate::tree::Disk;
use crate::vfs::{Case, Identity, Kind, Links, Lookup, Metadata, Node, RelPath};

/// The attribute that keeps what clients store: a whole REPARSE_DATA_BUFFER.
pub(crate) const ATTRIBUTE: &str = "user.SmbReparse";
/// The longest buffer ([MS-FSA] 2.1.5.10.37), bytes.
pub(crate) const LONGEST: usize = 16_384;

/// Whether a client has stored reparse data in the file.
pub(crate) fn is_stored(share: &Share, metadata: &Metadata) -> bool {
    let has = |bits: u32| bits & FileAttributes::REPARSE_POINT.0 != 0;
    share.store_dos_attributes && metadata.dos_attributes.is_some_and(has) && metadata.kind != Kind::Symlink
}

/// The tag in a buffer.
pub(crate) fn tag(buffer: &[u8]) -> ReparseTag {
    ReparseDataBuffer::decode(buffer).map_or(ReparseTag(0), |buffer| buffer.reparse_tag())
}

/// The tag of what a client has stored in a file.
pub(crate) async fn stored_tag(node: &dyn Node, who: &Arc<Identity>) -> ReparseTag {
    match node.get_xattr(who, ATTRIBUTE).await {
        Ok(Some(buffer)) => tag(&buffer),
        _ => ReparseTag(0),
    }
}

/// The buffer of a link that leads to `target`.
pub(crate) fn link_buffer(target: &[u8]) -> Option<Vec<u8>> {
    let (names, flags) = shown_target(target);
    let data = SymbolicLinkReparseData { substitute_name: &names, print_name: &names, flags }.to_bytes()?;
    let buffer = ReparseDataBuffer::new(ReparseTag::SYMLINK, Guid::NIL, &data)?;
    let mut bytes = Vec::new();
    buffer.encode(&mut proto::bytes::Writer::new(&mut bytes));
    Some(bytes)
}

/// A target as clients see it. An absolute one is a path of the server's machine; for who resolves it, it is one
/// of the client's.
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

/// The answer to an open of `path`, which a link stops that the server does not follow: where it leads, so that the client
/// can go there itself ([MS-SMB2] 2.2.2.2.1). `None` where no link is in the way, or one that leads out of the share: that
/// is there for nobody.
pub(crate) async fn stopped(request: &Request<'_>, disk: &Disk, path: &RelPath) -> Option<Error> {
    if disk.share.follow_symlinks {
        return None;
    }
    let mut at = RelPath::root();
    let mut rest = path.components();
    while let Some(component) = rest.next() {
        at = at.join(component)?;
        let links = Links { follow: false, wide: false };
        match disk.vfs.lookup(&disk.identity, &at, Case::Insensitive, links).await {
            Ok(Lookup::Found { path, node, metadata }) if metadata.kind == Kind::Symlink => {
                let target = node.read_link().await.ok().filter(|target| stays(target, &path))?;
                let behind = rest.map(|name| 2 * (1 + name::to_wire(name).len())).sum();
                return Some(stopped_at(request, &target, behind));
            }
            Ok(Lookup::Found { path, .. }) => at = path,
            _ => return None,
        }
    }
    None
}

/// `behind`: bytes of the request's path that come after the link.
fn stopped_at(request: &Request<'_>, target: &[u8], behind: usize) -> Error {
    let (names, flags) = shown_target(target);
    let unparsed_path_length = u16::try_from(behind).unwrap_or(u16::MAX);
    let data =
        SymbolicLinkError { unparsed_path_length, flags, substitute_name: &names, print_name: &names }.to_bytes();
    let context = ErrorContext { error_context_data: &data, ..ErrorContext::default() };
    let in_context = request.connection.dialect() == Dialect::SMB_3_1_1;
    let data = if in_context { ErrorContext::encode_list(&[context]) } else { data };
    Error { data, ..Error::because(Status::STOPPED_ON_SYMLINK, "follow symlinks = no") }
}

/// Whether what a link at `at` names lies in the share, as far as the names say.
fn stays(target: &[u8], at: &RelPath) -> bool {
    let Some(mut depth) = at.components().count().checked_sub(1) else { return false };
    target.first() != Some(&b'/')
        && target.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").all(|part| {
            let next = if part == b".." { depth.checked_sub(1) } else { Some(depth + 1) };
            depth = next.unwrap_or_default();
            next.is_some()
        })
}

/// The target of a link of Linux at `at` that does what a client's link there does; `None` where none could do that
/// within the share: it is not relative, climbs out, or names what no file is called.
pub(crate) fn target(link: &SymbolicLinkReparseData<'_>, at: &RelPath) -> Option<Vec<u8>> {
    if link.flags != SymlinkFlags::RELATIVE {
        return None;
    }
    let units = utf16_units(link.substitute_name)?;
    let mut depth = at.components().count().checked_sub(1)?;
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for component in units.split(|&unit| unit == u16::from(b'\\')) {
        let part = name::from_wire(component);
        match &*part {
            b"." => {}
            b".." => depth = depth.checked_sub(1)?,
            _ => {
                // An empty component, or one with a slash, makes another path of it.
                RelPath::root().join(&part)?;
                depth += 1;
            }
        }
        parts.push(part);
    }
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use proto::bytes::utf16_bytes as wire;

    use super::*;

    #[track_caller]
    fn check(at: &str, substitute: &str, flags: SymlinkFlags, expected: Option<&str>) {
        let mut path = RelPath::root();
        assert!(at.split('/').all(|name| path.push(name.as_bytes())));
        let substitute_name = wire(substitute);
        let link = SymbolicLinkReparseData { substitute_name: &substitute_name, print_name: &[], flags };
        assert_eq!(target(&link, &path), expected.map(|text| text.as_bytes().to_vec()), "{substitute}");
    }

    #[test]
    fn only_what_stays_in_the_share_becomes_a_link_of_linux() {
        let relative = SymlinkFlags::RELATIVE;
        check("link", "file", relative, Some("file"));
        check("a/link", r"..\b\file", relative, Some("../b/file"));
        check("a/b/link", r"..\..\file", relative, Some("../../file"));
        check("a/link", r".\file", relative, Some("./file"));
        check("link", r"..\file", relative, None);
        check("a/link", r"..\..\file", relative, None);
        check("a/link", r"b\..\..\..\file", relative, None);
        check("link", r"\file", relative, None);
        check("link", r"a\\b", relative, None);
        check("link", "a/b", relative, None);
        check("link", "", relative, None);
        check("link", r"\??\C:\file", SymlinkFlags(0), None);
    }

    #[test]
    fn links_that_stay() {
        let at = |text: &str| {
            text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).expect("a name"))
        };
        for (place, target, expected) in [
            ("link", "file", true),
            ("a/link", "../b//c/./d", true),
            ("a/link", "../../b", false),
            ("a/link", "b/../../../c", false),
            ("link", "/etc", false),
        ] {
            assert_eq!(stays(target.as_bytes(), &at(place)), expected, "{place} {target}");
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
