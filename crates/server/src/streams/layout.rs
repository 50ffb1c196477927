//! In which extended attributes of a file its alternate streams lie: the form of Samba's `streams_xattr`, so that a share
//! changes hands without losing any of them.
//!
//! A stream is the attribute `user.DosStream.NAME:$DATA`, its value the content and one byte 0 behind it. Without
//! `streams_xattr:store_stream_type` the attribute's name ends with the stream's. A stream that no attribute can hold has
//! `user.FrevoStream.NAME` instead, whose value names the file in the [store](super::store) that has the content.

use super::store;
use crate::name::fold_key;
use crate::vfs::Errno;

/// What the name of an overflown stream's attribute begins with.
pub(crate) const OVERFLOW: &str = "user.FrevoStream.";

/// The type that every alternate data stream has ([MS-FSCC] 2.1.5.4), as it is appended to a name.
pub(crate) const TYPE: &str = ":$DATA";

/// The longest name of an attribute on Linux, in bytes.
const LONGEST_NAME: usize = 255;

/// How streams are named in attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// `streams_xattr:prefix`: what the attribute's name begins with, its namespace included.
    pub prefix: String,
    /// `streams_xattr:store_stream_type`: whether `:$DATA` ends it.
    pub typed: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { prefix: "user.DosStream.".to_owned(), typed: true }
    }
}

/// A stream that a file has, by the attributes that say so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    /// The stream's name.
    pub(crate) name: String,
    /// The attribute that holds it; kept as it was found, for not every one of a foreign hand has `:$DATA` in it.
    pub(crate) inline: Option<String>,
    /// The attribute that says which file of the store holds it. Where there are both, this one counts.
    pub(crate) overflow: Option<String>,
}

impl Layout {
    /// The attribute that holds the stream `name`.
    pub(crate) fn inline(&self, name: &str) -> Result<String, Errno> {
        fitting(format!("{}{name}{}", self.prefix, if self.typed { TYPE } else { "" }))
    }

    /// The attribute that says where the overflown stream `name` is.
    pub(crate) fn overflow(name: &str) -> Result<String, Errno> {
        fitting(format!("{OVERFLOW}{name}"))
    }

    /// The streams that the attributes of these names make.
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
            let place = if overflow { &mut streams[at].overflow } else { &mut streams[at].inline };
            *place = Some(attribute);
        }
        streams
    }

    /// The name of the stream that `attribute` holds, where it holds one.
    fn name_of<'a>(&self, attribute: &'a str) -> Option<&'a str> {
        let name = attribute.strip_prefix(&self.prefix)?;
        let name = name.strip_suffix(TYPE).unwrap_or(name);
        // With a prefix as short as `user.`, attributes of others would look like streams.
        (!name.is_empty() && !name.contains(':') && !is_samba(attribute)).then_some(name)
    }

    /// Whether `attribute` is the server's business and none of a client's extended attributes.
    pub(crate) fn is_stream(&self, attribute: &str) -> bool {
        self.name_of(attribute).is_some()
    }
}

/// Whether the attribute holds state of Samba's or of this server's own, whatever the share's layout.
pub(crate) fn is_samba(attribute: &str) -> bool {
    let Some(name) = attribute.strip_prefix("user.") else { return true };
    let fixed =
        ["DOSATTRIB", "SAMBA_PAI", "SAMBA_STREAMS", "org.netatalk.Metadata", "NTACL", "FrevoObjectId", "SmbReparse"];
    let lower = name.to_ascii_lowercase();
    fixed.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) || lower.starts_with("frevostream.")
}

/// Which of a file's streams `wanted` means: the one of exactly that name, else one that differs in case only.
pub(crate) fn find(streams: Vec<Stored>, wanted: &str) -> Option<Stored> {
    let exact = streams.iter().position(|stream| stream.name == wanted);
    let key = fold_key(wanted.as_bytes());
    let found = exact.or_else(|| streams.iter().position(|stream| fold_key(stream.name.as_bytes()) == key));
    found.and_then(|at| streams.into_iter().nth(at))
}

/// Content as the value of an attribute.
pub(crate) fn value(content: &[u8]) -> Vec<u8> {
    [content, &[0]].concat()
}

/// The content that the value of an attribute holds.
pub(crate) fn content(mut value: Vec<u8>) -> Vec<u8> {
    value.pop();
    value
}

/// The largest content that an attribute can hold: Linux ends values at 65,536 bytes (XATTR_SIZE_MAX).
pub(crate) const LARGEST_INLINE: u64 = 65_535;

/// Whether a write of an attribute failed because there is no room for it there, which the store may have.
pub(crate) fn is_too_large(errno: Errno) -> bool {
    matches!(errno, Errno::TOOBIG | Errno::NOSPC | Errno::RANGE)
}

fn fitting(attribute: String) -> Result<String, Errno> {
    if attribute.len() <= LONGEST_NAME { Ok(attribute) } else { Err(Errno::NAMETOOLONG) }
}

/// Whether a path leads into a store, which no client sees. Shares may lie in each other, so it may lie anywhere.
pub(crate) fn is_store(path: &crate::vfs::RelPath) -> bool {
    path.components().any(is_store_name)
}

/// Whether a name is that of a store, or of what the file system below keeps for itself.
pub(crate) fn is_store_name(name: &[u8]) -> bool {
    [store::DIRECTORY, crate::vfs::LINKS].iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
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
    fn attributes_make_streams() {
        let samba = Layout::default();
        let plain = Layout { prefix: "user.".into(), typed: false };
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
