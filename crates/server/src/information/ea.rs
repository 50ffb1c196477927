//! Extended attributes ([MS-FSCC] 2.4.16, [MS-SMB2] 3.3.5.20.1, [MS-FSA] 2.1.5.12.12, 2.1.5.15.6), stored in Linux's
//! `user.` namespace as in Samba. Attributes in which the server or Samba keeps internal data, streams in particular,
//! are hidden from clients.
//!
//! FILE_NEED_EA is not supported because Linux cannot store it. Requests for it are answered as if no attribute had it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::fscc::{EA_ALIGNMENT, EaFlags, EntryChain, FileFullEaInformation, FileGetEaInformation};
use proto::smb2::query_info::{QueryInfoFlags, QueryInfoRequest};
use proto::status::Status;

use crate::error::{Error, Result};
use crate::information::Answer;
use crate::information::encoded;
use crate::policy::Share;
use crate::policy::stream_layout::Layout;
use crate::state::open::FileOpen;
use crate::streams::layout::is_samba;
use crate::tree::Disk;
use crate::vfs::{Errno, Node, Op, SetXattr};

const NAMESPACE: &str = "user.";
/// The characters that a name must not contain, besides control characters.
const FORBIDDEN: &[u8] = b"\\/:*?\"<>|,+=[];";
/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 254;

/// A name without its namespace, and a value.
type Attribute = (String, Vec<u8>);

/// Returns the attributes that the request names, or those after the handle's current position, as many as fit
/// completely.
pub(crate) async fn query(asked: &QueryInfoRequest<'_>, file: &FileOpen, disk: &Disk) -> Result<Answer> {
    let present = list(file, disk).await?;
    if !asked.buffer.is_empty() {
        let named = named(asked.buffer, present)?;
        return Ok(page(&named, asked.output_buffer_length)?.0);
    }
    if present.is_empty() {
        return Err(Error::new(Status::NO_EAS_ON_FILE));
    }
    let by_index = asked.flags.contains(QueryInfoFlags::INDEX_SPECIFIED);
    let from = if by_index {
        // The index starts at 1.
        let index = (asked.additional_information as usize).checked_sub(1).filter(|&index| index < present.len());
        index.ok_or(Error::new(Status::NONEXISTENT_EA_ENTRY))?
    } else if asked.flags.contains(QueryInfoFlags::RESTART_SCAN) {
        0
    } else {
        file.ea_index.load(Ordering::Relaxed)
    };
    let rest = present.get(from..).filter(|rest| !rest.is_empty()).ok_or(Error::new(Status::NO_MORE_EAS))?;
    let single = asked.flags.contains(QueryInfoFlags::RETURN_SINGLE_ENTRY);
    let (answer, count) = page(if single { &rest[..1] } else { rest }, asked.output_buffer_length)?;
    if !by_index {
        file.ea_index.store(from + count, Ordering::Relaxed);
    }
    Ok(answer)
}

/// Encodes as many attributes as fit; returns their number, too.
fn page(list: &[Attribute], space: u32) -> Result<(Answer, usize)> {
    let mut count = 0;
    let bytes = encoded(|out| {
        let mut chain = EntryChain::new(out, EA_ALIGNMENT, space as usize);
        let mut fits = |name: &str, value| {
            let entry = FileFullEaInformation::new(EaFlags::NONE, name.as_bytes(), value);
            entry.is_some_and(|entry| entry.push(&mut chain, out))
        };
        count = list.iter().take_while(|(name, value)| fits(name, value)).count();
    });
    if count == 0 {
        return Err(Error::new(Status::BUFFER_TOO_SMALL));
    }
    Ok((Answer { bytes, fixed: 0, more: count < list.len() }, count))
}

/// Returns the attributes of the requested names, with an empty value for those that the file does not have.
fn named(input: &[u8], present: Vec<Attribute>) -> Result<Vec<Attribute>> {
    let mut list = Vec::new();
    for entry in FileGetEaInformation::list(input) {
        let entry = entry.map_err(|_| Error::new(Status::EA_LIST_INCONSISTENT))?;
        let name = check_name(entry.ea_name())?;
        let value = present.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        list.push((name.to_owned(), value.map(|(_, value)| value.clone()).unwrap_or_default()));
    }
    Ok(list)
}

/// Returns name and value of each attribute that is not hidden and that the structure can represent.
async fn list(file: &FileOpen, disk: &Disk) -> Result<Vec<Attribute>> {
    let mut list = Vec::new();
    if !disk.share.attributes.ea_support {
        return Ok(list);
    }
    for full in file.node.list_xattrs(&file.op).await? {
        let Some(name) = shown_name(&full, &disk.share) else { continue };
        if let Some(value) = file.node.get_xattr(&file.op, &full).await?
            && u16::try_from(value.len()).is_ok()
        {
            list.push((name.to_owned(), value));
        }
    }
    Ok(list)
}

/// Returns the name of the attribute `full` for clients; `None` if it is hidden or not representable.
fn shown_name<'a>(full: &'a str, share: &Share) -> Option<&'a str> {
    let name = full.strip_prefix(NAMESPACE)?;
    (!is_reserved(full, share) && check_name(name.as_bytes()).is_ok()).then_some(name)
}

/// `EaSize`: the size in bytes of a full EA list ([MS-FSCC] 2.4.12); 0 if there is none or it cannot be read.
pub(crate) async fn size(file: &FileOpen, disk: &Disk) -> u32 {
    match list(file, disk).await {
        Ok(list) if !list.is_empty() => {
            let sizes = list.iter().map(|(name, value)| 4 + 1 + name.len() + 1 + value.len());
            4 + sizes.sum::<usize>() as u32
        }
        _ => 0,
    }
}

/// Changes of attributes requested by a client, checked, with Linux names. An empty value removes an attribute.
pub(crate) struct Changes(Vec<(String, Vec<u8>)>);

impl Changes {
    /// Decodes a list of FILE_FULL_EA_INFORMATION.
    pub(crate) fn decode(buffer: &[u8]) -> Result<Changes> {
        let mut changes = Vec::new();
        for entry in FileFullEaInformation::list(buffer) {
            let entry = entry.map_err(|_| Error::new(Status::EA_LIST_INCONSISTENT))?;
            if entry.flags().0 & !EaFlags::NEED_EA.0 != 0 {
                return Err(Error::because(Status::INVALID_EA_NAME, "the entry has unknown flags"));
            }
            let name = format!("{NAMESPACE}{}", check_name(entry.ea_name())?);
            changes.push((name, entry.ea_value().to_vec()));
        }
        Ok(Changes(changes))
    }

    /// Returns the names of the attributes.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Refuses attributes that files of the share cannot have.
    pub(crate) fn check(&self, disk: &Disk) -> Result<()> {
        if !disk.share.attributes.ea_support && !self.0.is_empty() {
            return Err(Error::because(
                Status::EAS_NOT_SUPPORTED,
                "extended attributes are disabled (`ea support = no`)",
            ));
        }
        if self.0.iter().any(|(name, _)| is_reserved(name, &disk.share)) {
            return Err(Error::because(Status::ACCESS_DENIED, "the attribute name is reserved for the server"));
        }
        Ok(())
    }

    /// Applies the changes. A name that differs only in case from an existing one refers to that one.
    pub(crate) async fn apply(&self, node: &Arc<dyn Node>, op: &Op, disk: &Disk) -> Result<()> {
        self.check(disk)?;
        if self.0.is_empty() {
            return Ok(());
        }
        let present = node.list_xattrs(op).await?;
        for (name, value) in &self.0 {
            let known = present.iter().find(|known| known.eq_ignore_ascii_case(name)).unwrap_or(name);
            let value = (!value.is_empty()).then(|| value.clone());
            match node.set_xattr(op, known, value, SetXattr::Any).await {
                // Removed already.
                Ok(()) | Err(Errno::NODATA) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Whether the attribute `full` holds internal data of the server or Samba.
fn is_reserved(full: &str, share: &Share) -> bool {
    let samba = Layout::default().prefix;
    let starts = |prefix: &str| full.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    is_samba(full)
        || starts(&samba)
        || share.streams.as_ref().is_some_and(|streams| streams.is_stream(full))
        || share.acls.stored.as_ref().is_some_and(|acls| acls.attribute.eq_ignore_ascii_case(full))
}

/// Checks a name according to [MS-FSCC] 2.4.16. Names on Linux are UTF-8, so they are not restricted to ASCII.
fn check_name(name: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(name).ok();
    let legal = |name: &&str| {
        !name.is_empty()
            && name.len() <= LONGEST_NAME
            && name.bytes().all(|byte| byte >= b' ' && !FORBIDDEN.contains(&byte))
    };
    text.filter(legal).ok_or(Error::new(Status::INVALID_EA_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, length: usize) -> Attribute {
        (name.to_owned(), vec![7; length])
    }

    #[track_caller]
    fn check_page(lengths: &[usize], space: u32, expected: std::result::Result<(usize, bool), Status>) {
        let list: Vec<Attribute> = lengths.iter().map(|&length| attribute("x", length)).collect();
        let found = page(&list, space).map(|(answer, count)| {
            assert_eq!(FileFullEaInformation::list(&answer.bytes).filter_map(|entry| entry.ok()).count(), count);
            (count, answer.more)
        });
        assert_eq!(found.map_err(|error| error.status), expected, "{lengths:?} in {space}");
    }

    #[test]
    fn only_whole_attributes_are_answered() {
        // Eight bytes, the name with its NUL, and the value; the next one is aligned to 4 bytes.
        check_page(&[2], 12, Ok((1, false)));
        check_page(&[2], 11, Err(Status::BUFFER_TOO_SMALL));
        check_page(&[2, 2], 24, Ok((2, false)));
        check_page(&[2, 2], 23, Ok((1, true)));
        check_page(&[3, 2, 2], 28, Ok((2, true)));
        check_page(&[2], 0, Err(Status::BUFFER_TOO_SMALL));
        // After an entry that does not fit, a shorter one must not be returned out of order.
        check_page(&[2, 100, 2], 40, Ok((1, true)));
    }

    #[test]
    fn names_that_are_attributes() {
        for (name, legal) in
            [("a", true), ("a b.c", true), ("ä", true), ("", false), ("a:b", false), ("a\u{1f}", false)]
        {
            assert_eq!(check_name(name.as_bytes()).is_ok(), legal, "{name:?}");
        }
        assert!(check_name(&[b'a'; 254]).is_ok() && check_name(&[b'a'; 255]).is_err() && check_name(&[0xff]).is_err());
    }

    #[test]
    fn reserved_attributes_are_not_shown() {
        let share = |streams| Share { streams, ..Share::new("x", "/") };
        let plain = share(Some(Layout { prefix: "user.own.".into(), typed: false, has_colons: false, mac: None }));
        let (samba, none) = (share(Some(Layout::default())), share(None));
        let shown = |full, share| shown_name(full, share).is_some();
        assert!(shown("user.a", &samba) && shown("user.a", &none) && shown("user.a", &plain));
        assert!(shown("user.own.a", &samba) && !shown("user.own.a", &plain));
        for hidden in
            ["user.DosStream.a:$DATA", "user.dosstream.b", "user.DOSATTRIB", "user.FrevoStream.a", "security.a"]
        {
            for share in [&none, &samba, &plain] {
                assert!(!shown(hidden, share), "{hidden}");
            }
        }
    }
}
