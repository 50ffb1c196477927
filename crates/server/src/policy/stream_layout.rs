//! The parameters of streams, as in Samba's module streams_xattr.

use super::mac::MacStreams;

/// The names of the attributes that store streams.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// `streams_xattr:prefix`: the prefix of the attribute's name, including its namespace.
    pub prefix: String,
    /// `streams_xattr:store_stream_type`: whether the name ends with `:$DATA`.
    pub typed: bool,
    /// `catia:mappings`, `fruit:encoding`: names of streams may contain a colon, which clients see as another
    /// character.
    pub has_colons: bool,
    /// `vfs objects = fruit`: the special streams of macOS; `None` if they are like all others.
    pub mac: Option<MacStreams>,
}

impl Default for Layout {
    fn default() -> Self {
        Layout { prefix: "user.DosStream.".to_owned(), typed: true, has_colons: false, mac: None }
    }
}
