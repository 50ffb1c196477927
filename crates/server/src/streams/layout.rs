//! The extended attributes that store the alternate streams of a file. The format is that of Samba's `streams_xattr`,
//! so that a share can be migrated in either direction without losing streams.
//!
//! A stream is stored in the attribute `user.DosStream.NAME:$DATA`, whose value is the content followed by a zero byte.
//! Without `streams_xattr:store_stream_type` the attribute's name has no `:$DATA`. A stream that does not fit in an
//! attribute has the attribute `user.FrevoStream.NAME` instead, whose value names the file with the content in the
//! [store](super::store). If there is no space for that attribute, the former's value is the name of the file.

use proto::mac::{AFP_INFO, AFP_RESOURCE};

use super::mac::{NETATALK, Role};
use super::store;
use crate::name::fold_key;
use crate::policy::MacStreams;
use crate::policy::stream_layout::Layout;
use crate::vfs::Errno;

/// Prefix of the attribute of an overflown stream.
pub(crate) const OVERFLOW: &str = "user.FrevoStream.";

/// The type of all alternate data streams ([MS-FSCC] 2.1.5.4), as a suffix of the name.
pub(crate) const TYPE: &str = ":$DATA";

/// Maximum length of an attribute's name on Linux in bytes.
const LONGEST_NAME: usize = 255;

/// A stream of a file, as found in its attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    /// The stream's name.
    pub(crate) name: String,
    /// The attribute that stores it, or that names its file in the store if there is no space for the other. Its name
    /// is kept as found, because attributes of other programs may lack `:$DATA`.
    pub(crate) inline: Option<String>,
    /// The attribute that names its file in the store. If neither is present, it is a resource fork that is in the file
    /// beside, if anywhere. If both are present, this one is valid.
    pub(crate) overflow: Option<String>,
}

impl Layout {
    /// Returns the attribute that stores the stream `name`.
    pub(crate) fn inline(&self, name: &str) -> Result<String, Errno> {
        if let Some(attribute) = self.mac.and_then(|mac| mac.attribute(name)) {
            return Ok(attribute.to_owned());
        }
        fitting(format!("{}{name}{}", self.prefix, if self.typed { TYPE } else { "" }))
    }

    /// Returns the attribute that names the file of the overflown stream `name`.
    pub(crate) fn overflow(name: &str) -> Result<String, Errno> {
        fitting(format!("{OVERFLOW}{name}"))
    }

    /// Returns the streams stored in the attributes of these names.
    pub(crate) fn streams(&self, attributes: Vec<String>) -> Vec<Stored> {
        let mut streams: Vec<Stored> = Vec::new();
        for attribute in attributes {
            let (name, overflow) = match attribute.strip_prefix(OVERFLOW) {
                Some(name) => (name, true),
                None => match self.name_of(&attribute) {
                    Some(name) => (name, false),
                    None => continue,
                },
            };
            let at = streams.iter().position(|known| known.name == name).unwrap_or_else(|| {
                streams.push(Stored { name: name.to_owned(), inline: None, overflow: None });
                streams.len() - 1
            });
            let stream = &mut streams[at];
            match overflow {
                true => stream.overflow = Some(attribute),
                // Finder info in an ordinary attribute counts only where Netatalk's is missing.
                false if stream.inline.as_deref() == Some(NETATALK) => {}
                false => stream.inline = Some(attribute),
            }
        }
        streams
    }

    /// Whether resource forks are stored in files beside the files.
    pub(super) fn has_files_beside(&self) -> bool {
        self.mac.is_some_and(MacStreams::has_files_beside)
    }

    /// Adds the resource fork to the streams of a file that are stored in attributes, if it may be in the file beside.
    pub(super) fn with_fork(&self, mut streams: Vec<Stored>) -> Vec<Stored> {
        if self.has_files_beside() && !streams.iter().any(|stream| Role::of(self, &stream.name) == Role::Fork) {
            streams.push(Stored { name: AFP_RESOURCE.to_owned(), inline: None, overflow: None });
        }
        streams
    }

    /// Returns the name of the stream stored in `attribute`, if it stores one.
    fn name_of<'a>(&self, attribute: &'a str) -> Option<&'a str> {
        if self.mac.is_some_and(|mac| mac.attribute(AFP_INFO).is_some_and(|own| own == attribute)) {
            return Some(AFP_INFO);
        }
        let name = attribute.strip_prefix(&self.prefix)?;
        let name = name.strip_suffix(TYPE).unwrap_or(name);
        if self.mac.is_some_and(|mac| mac.attribute(name).is_some()) {
            return Some(AFP_INFO);
        }
        // With a prefix as short as `user.`, other attributes would look like streams.
        let is_valid = self.has_colons || !name.contains(':');
        (!name.is_empty() && is_valid && !is_samba(attribute)).then_some(name)
    }

    /// Whether `attribute` stores one of the special streams of macOS, or names its file in the store.
    pub(super) fn is_of_mac(&self, attribute: &str) -> bool {
        let name = attribute.strip_prefix(OVERFLOW).or_else(|| self.name_of(attribute));
        name.is_some_and(|name| [AFP_INFO, AFP_RESOURCE].iter().any(|own| own.eq_ignore_ascii_case(name)))
    }

    /// Returns the ordinary attribute of a stream that is stored elsewhere. Macs may have stored it there while the
    /// share had no extensions.
    pub(super) fn ordinary(&self, name: &str) -> Result<String, Errno> {
        Layout { mac: None, ..self.clone() }.inline(name)
    }

    /// Whether `attribute` stores a stream and is not one of the client's extended attributes.
    pub(crate) fn is_stream(&self, attribute: &str) -> bool {
        self.name_of(attribute).is_some()
    }
}

/// Whether the attribute holds internal state of Samba or of this server, regardless of the share's layout.
pub(crate) fn is_samba(attribute: &str) -> bool {
    let Some(name) = attribute.strip_prefix("user.") else { return true };
    let fixed = [
        "DOSATTRIB",
        "SAMBA_PAI",
        "SAMBA_STREAMS",
        "org.netatalk.Metadata",
        "NTACL",
        "FrevoObjectId",
        "FrevoRecycle",
        "SmbReparse",
    ];
    let lower = name.to_ascii_lowercase();
    fixed.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) || lower.starts_with("frevostream.")
}

/// Returns the stream of exactly the name `wanted`, otherwise one whose name differs only in case.
pub(crate) fn find(streams: Vec<Stored>, wanted: &str) -> Option<Stored> {
    let exact = streams.iter().position(|stream| stream.name == wanted);
    let key = fold_key(wanted.as_bytes());
    let found = exact.or_else(|| streams.iter().position(|stream| fold_key(stream.name.as_bytes()) == key));
    found.and_then(|at| streams.into_iter().nth(at))
}

/// Returns the attribute value for a content.
pub(crate) fn value(content: &[u8]) -> Vec<u8> {
    [content, &[0]].concat()
}

/// Returns the content stored in an attribute value.
pub(crate) fn content(mut value: Vec<u8>) -> Vec<u8> {
    value.pop();
    value
}

/// Maximum size in bytes of a content stored in an attribute: Linux limits values to 65,536 bytes (XATTR_SIZE_MAX).
pub(crate) const LARGEST_INLINE: u64 = 65_535;

/// Whether writing an attribute failed for lack of space, so that the content should go to the store.
pub(crate) fn is_too_large(errno: Errno) -> bool {
    matches!(errno, Errno::TOOBIG | Errno::NOSPC | Errno::RANGE)
}

fn fitting(attribute: String) -> Result<String, Errno> {
    if attribute.len() <= LONGEST_NAME { Ok(attribute) } else { Err(Errno::NAMETOOLONG) }
}

/// Whether a path leads into a store, which is hidden from clients. Shares may be nested, so a store may be at any
/// depth.
pub(crate) fn is_store(path: &crate::vfs::RelPath) -> bool {
    path.components().any(is_store_name)
}

/// Whether a name is that of a store, of an internal directory of the file system back end, or of a directory for
/// measurements.
pub(crate) fn is_store_name(name: &[u8]) -> bool {
    let trial = crate::vfs::TRIAL.as_bytes();
    [store::DIRECTORY, crate::vfs::LINKS].iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
        || name.get(..trial.len()).is_some_and(|start| start.eq_ignore_ascii_case(trial))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, inline: Option<&str>, overflow: Option<&str>) -> Stored {
        Stored { name: name.into(), inline: inline.map(str::to_owned), overflow: overflow.map(str::to_owned) }
    }

    #[track_caller]
    fn check(layout: &Layout, attributes: &[&str], expected: &[Stored]) {
        assert_eq!(layout.streams(attributes.iter().map(|&name| name.to_owned()).collect()), expected);
    }

    #[test]
    fn directories_of_the_server_are_recognized_in_any_case() {
        for name in [".frevo-streams", ".Frevo-Links", ".frevo-trial", ".FREVO-TRIAL-12"] {
            assert!(is_store_name(name.as_bytes()), "{name}");
        }
        for name in ["", ".frevo", ".frevo-tria", "x.frevo-trial", ".frevo-streams2", ".frevo-\u{17f}treams"] {
            assert!(!is_store_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn attributes_make_streams() {
        let samba = Layout::default();
        let plain = Layout { prefix: "user.".into(), typed: false, has_colons: false, mac: None };
        assert_eq!(samba.inline("Zone.Identifier").unwrap(), "user.DosStream.Zone.Identifier:$DATA");
        assert_eq!(plain.inline("x").unwrap(), "user.x");
        let all = ["user.DOSATTRIB", "user.DosStream.a:$DATA", "user.DosStream.b", "security.NTACL", "user.other"];
        let a = stored("a", Some("user.DosStream.a:$DATA"), None);
        check(&samba, &all, &[a.clone(), stored("b", Some("user.DosStream.b"), None)]);
        check(&plain, &["user.DOSATTRIB", "user.x", "security.y"], &[stored("x", Some("user.x"), None)]);
        let both = Some("user.FrevoStream.a");
        check(
            &samba,
            &["user.FrevoStream.a", "user.DosStream.a:$DATA"],
            &[stored("a", Some("user.DosStream.a:$DATA"), both)],
        );
        check(&samba, &["user.DosStream.:$DATA", "user.DosStream.a:b:$DATA"], &[]);
        assert_eq!(samba.inline(&"x".repeat(235)), Err(Errno::NAMETOOLONG));
        assert!(samba.inline(&"x".repeat(234)).is_ok());
    }

    #[test]
    fn the_exact_name_comes_before_one_in_another_case() {
        let streams = || vec![stored("A", None, None), stored("a", None, None), stored("Ä", None, None)];
        for (wanted, found) in [("a", Some("a")), ("A", Some("A")), ("ä", Some("Ä")), ("b", None)] {
            assert_eq!(find(streams(), wanted).map(|stream| stream.name), found.map(str::to_owned), "{wanted}");
        }
    }

    #[test]
    fn values_end_with_one_byte_zero() {
        assert_eq!(value(b"ab"), b"ab\0");
        assert_eq!(content(value(b"ab\0")), b"ab\0");
        assert_eq!(content(value(b"")), b"");
        assert_eq!(content(Vec::new()), b"");
    }
}
