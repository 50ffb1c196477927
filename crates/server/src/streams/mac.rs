//! The special streams of macOS, as in Samba's module fruit: `AFP_AfpInfo` with the Finder info, and `AFP_Resource`
//! with the resource fork.
//!
//! Neither exists without content. A stream that a client creates is stored when the client writes to it. A resource
//! fork that is truncated to zero bytes, and Finder info without information, are removed. A deletion of the resource
//! fork is ignored. Macs rely on all of this.
//!
//! The Finder info is either stored as other streams are, or in Netatalk's attribute, which contains AppleDouble data.
//! Data there that cannot be understood is neither shown nor changed, and other information there is kept. Where
//! Netatalk's attribute is missing, Finder info that is stored as other streams are counts.

use std::sync::Arc;

use proto::mac::afp_info::{AfpInfo, FinderInfo};
use proto::mac::apple_double::{self, AppleDouble, id};
use proto::mac::{AFP_INFO, AFP_RESOURCE};

use crate::name::fold_key;
use crate::policy::stream_layout::Layout;
use crate::policy::{MacStreams, MetadataPlace};
use crate::vfs::{Errno, Node, Op, Result, SetXattr};

/// Netatalk's attribute.
pub(crate) const NETATALK: &str = "user.org.netatalk.Metadata";

/// What a stream is for macOS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A stream as any other.
    Plain,
    /// The Finder info.
    Info,
    /// The resource fork.
    Fork,
}

impl Role {
    /// Returns the role of the stream `name`.
    pub(crate) fn of(layout: &Layout, name: &str) -> Role {
        let is = |special: &str| fold_key(special.as_bytes()) == fold_key(name.as_bytes());
        match () {
            () if layout.mac.is_none() => Role::Plain,
            () if is(AFP_INFO) => Role::Info,
            () if is(AFP_RESOURCE) => Role::Fork,
            () => Role::Plain,
        }
    }
}

impl MacStreams {
    /// Returns the attribute that stores the stream `name` instead of that of other streams.
    pub(super) fn attribute(self, name: &str) -> Option<&'static str> {
        let netatalk = self.metadata == MetadataPlace::Netatalk;
        (netatalk && fold_key(name.as_bytes()) == fold_key(AFP_INFO.as_bytes())).then_some(NETATALK)
    }
}

/// Returns the content of the stream that an attribute's value stores; `None` if the value cannot be understood.
pub(super) fn content(value: &[u8]) -> Option<Vec<u8>> {
    let double = AppleDouble::decode(value, value.len() as u64).ok()?;
    let finder = double.finder_info(value)?;
    Some(AfpInfo::of(finder).encode().to_vec())
}

/// Returns the Finder info of a content that Macs see. Invalid content, and one without information, does not exist for
/// them.
pub(super) fn shown(content: &[u8]) -> Option<FinderInfo> {
    AfpInfo::decode(content).ok().filter(|info| !info.is_empty()).map(|info| info.finder)
}

/// Removes the Finder info from Netatalk's attribute. The attribute stays if it has other information, or cannot be
/// understood.
pub(super) async fn clear(file: &Arc<dyn Node>, op: &Op) -> Result<()> {
    let Some(mut value) = file.get_xattr(op, NETATALK).await? else { return Ok(()) };
    let Ok(double) = AppleDouble::decode(&value, value.len() as u64) else { return Ok(()) };
    let Some(entry) = double.entry(id::FINDER_INFO).filter(|entry| entry.length >= 32) else { return Ok(()) };
    let created = proto::mac::date(file.metadata(op).await?.created.secs);
    let kept = double.has_more_than_finder_info(&value, created).then(|| {
        value[entry.offset..entry.offset + 32].fill(0);
        value
    });
    match file.set_xattr(op, NETATALK, kept, SetXattr::Any).await {
        Err(Errno::NODATA) => Ok(()),
        done => done,
    }
}

/// Sets Netatalk's attribute to this content of the stream. The other entries of the attribute are kept.
pub(super) async fn put(file: &Arc<dyn Node>, op: &Op, content: &[u8]) -> Result<()> {
    let info = AfpInfo::decode(content).map_err(|_| Errno::INVAL)?;
    let value = match file.get_xattr(op, NETATALK).await? {
        Some(mut value) => {
            let double = AppleDouble::decode(&value, value.len() as u64).map_err(|_| Errno::IO)?;
            let entry = double.entry(id::FINDER_INFO).filter(|entry| entry.length >= 32).ok_or(Errno::IO)?;
            value[entry.offset..entry.offset + 32].copy_from_slice(&info.finder);
            value
        }
        None => {
            let metadata = file.metadata(op).await?;
            apple_double::metadata(&info.finder, metadata.created.secs, metadata.modified.secs)
        }
    };
    match file.set_xattr(op, NETATALK, Some(value), SetXattr::Any).await {
        Err(Errno::TOOBIG | Errno::RANGE) => Err(Errno::NOSPC),
        done => done,
    }
}

/// What a write of Finder info does.
pub(super) enum Written {
    /// It reaches only the part before the Finder info, which is fixed.
    Nothing,
    /// The content is stored.
    Store(Vec<u8>),
    /// It has no information, so the stream is removed.
    Remove,
}

/// The offset of the Finder info in the content.
const FINDER: usize = 16;

/// Returns what a write of `written` at `offset` to the Finder info does, which has the content `before`. As in Samba,
/// the data must begin with the signature. The offset of a write of the whole content is ignored, and so is what is
/// behind the content.
pub(super) fn write_info(offset: u64, written: &[u8], before: &[u8]) -> Result<Written> {
    let is_whole = written.len() >= AfpInfo::SIZE;
    if offset != 0 && !is_whole || !written.starts_with(b"AFP") {
        return Err(Errno::INVAL);
    }
    if written.len() <= FINDER {
        return Ok(Written::Nothing);
    }
    let mut content = no_info();
    if before.len() == content.len() {
        content.copy_from_slice(before);
    }
    let count = written.len().min(content.len());
    content[..count].copy_from_slice(&written[..count]);
    let info = AfpInfo::decode(&content).map_err(|_| Errno::INVAL)?;
    Ok(if info.is_empty() { Written::Remove } else { Written::Store(content) })
}

/// Returns the part of the Finder info that a client gets which reads at `offset`. Macs read at other offsets than
/// zero, and expect the whole content.
pub(super) fn read_offset(offset: u64) -> Option<u64> {
    (offset <= AfpInfo::SIZE as u64).then_some(0)
}

/// Returns the content of a stream with Finder info that was never written.
pub(super) fn no_info() -> Vec<u8> {
    AfpInfo::of([0; 32]).encode().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(first: u8) -> Vec<u8> {
        let mut finder = [0; 32];
        finder[0] = first;
        AfpInfo::of(finder).encode().to_vec()
    }

    #[test]
    fn finder_info_is_written_as_a_whole() {
        let stored = |written: &[u8], before: &[u8]| match write_info(0, written, before) {
            Ok(Written::Store(content)) => Some(content),
            _ => None,
        };
        assert_eq!(stored(&info(1), &[]), Some(info(1)));
        assert_eq!(stored(&[info(1), vec![9; 5]].concat(), &[]), Some(info(1)));
        assert_eq!(stored(&info(1)[..20], &info(2)), Some(info(1)));
        assert!(matches!(write_info(0, &info(1)[..16], &[]), Ok(Written::Nothing)));
        assert!(matches!(write_info(0, &info(0), &info(1)), Ok(Written::Remove)));
        for wrong in [&b"AF"[..], b"", &[0; 60], &[b"AFP", &[7; 57][..]].concat()] {
            assert!(write_info(0, wrong, &[]).is_err(), "{wrong:?}");
        }
        assert!(write_info(1, &info(1)[..59], &[]).is_err());
        assert!(matches!(write_info(1, &info(1), &[]), Ok(Written::Store(content)) if content == info(1)));
    }

    #[test]
    fn an_attribute_that_is_not_understood_is_not_shown() {
        let value = apple_double::metadata(&[7; 32], 0, 0);
        assert_eq!(content(&value), Some(AfpInfo::of([7; 32]).encode().to_vec()));
        assert_eq!(content(&value[..100]), None);
        assert_eq!(content(b"x"), None);
    }

    #[test]
    fn names_have_roles_on_shares_for_macs_only() {
        let mac = Layout { mac: Some(MacStreams::default()), ..Layout::default() };
        assert_eq!(Role::of(&mac, "AFP_AfpInfo"), Role::Info);
        assert_eq!(Role::of(&mac, "afp_resource"), Role::Fork);
        assert_eq!(Role::of(&mac, "other"), Role::Plain);
        assert_eq!(Role::of(&Layout::default(), "AFP_AfpInfo"), Role::Plain);
        assert_eq!(mac.inline("AFP_AfpInfo").as_deref(), Ok(NETATALK));
        let names: Vec<_> = mac
            .streams(vec![NETATALK.to_owned(), "user.DosStream.AFP_AfpInfo:$DATA".to_owned()])
            .into_iter()
            .map(|stream| (stream.name, stream.inline))
            .collect();
        assert_eq!(names, [("AFP_AfpInfo".to_owned(), Some(NETATALK.to_owned()))]);
    }
}
