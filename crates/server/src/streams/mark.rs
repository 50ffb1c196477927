//! The owner mark of a file in the store, which identifies the file that its stream belongs to.
//!
//! The mark is an attribute that only root can set (`trusted.*`), so it is more reliable than the file's name. The
//! birth time distinguishes the owner from a later file with the same inode number. Marks are not available if the
//! server is not root, if it lacks CAP_SYS_ADMIN, or if the file system does not support such attributes. Only the
//! permissions of the store's directory protect the streams then. Files created before marks were introduced get one
//! when their owner is opened.

use std::sync::Arc;

use crate::vfs::{Errno, Metadata, Node, Op, Result, SetXattr, Time};

const ATTRIBUTE: &str = "trusted.frevo.owner";

/// The version of the value.
const VERSION: &str = "1";

/// The file that a stream belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Its inode number.
    pub(super) inode: u64,
    /// Its birth time, if the file system provides one.
    pub(super) born: Option<Time>,
}

impl Mark {
    pub(super) fn of(owner: &Metadata) -> Mark {
        Mark { inode: owner.id.inode, born: owner.born }
    }

    /// Reads the mark of `node`; `None` if it has none, or marks are not available. `Errno::INVAL` for a malformed
    /// value.
    pub(super) async fn read(node: &Arc<dyn Node>, own: &Op) -> Result<Option<Mark>> {
        match node.get_xattr(own, ATTRIBUTE).await {
            Ok(Some(value)) => Mark::decode(&value).ok_or(Errno::INVAL).map(Some),
            Ok(None) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Writes the mark of `node`, if marks are available.
    pub(super) async fn write(&self, node: &Arc<dyn Node>, own: &Op) -> Result<()> {
        match node.set_xattr(own, ATTRIBUTE, Some(self.encode()), SetXattr::Any).await {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES) => Ok(()),
            done => done,
        }
    }

    /// Whether the mark identifies `owner`, as far as the file system provides the data.
    pub(super) fn names(&self, owner: &Metadata) -> bool {
        let same_birth = match (self.born, owner.born) {
            (Some(born), Some(present)) => born == present,
            _ => true,
        };
        self.inode == owner.id.inode && same_birth
    }

    fn encode(self) -> Vec<u8> {
        let born = self.born.map_or_else(|| "-".to_owned(), |born| format!("{}.{:09}", born.secs, born.nanos));
        format!("{VERSION} {:x} {born}", self.inode).into_bytes()
    }

    fn decode(value: &[u8]) -> Option<Mark> {
        let mut parts = std::str::from_utf8(value).ok()?.split(' ');
        let (version, inode, born) = (parts.next()?, parts.next()?, parts.next()?);
        if version != VERSION || parts.next().is_some() {
            return None;
        }
        let born = match born {
            "-" => None,
            born => {
                let (secs, nanos) = born.split_once('.')?;
                Some(Time { secs: secs.parse().ok()?, nanos: nanos.parse().ok()? })
            }
        };
        Some(Mark { inode: u64::from_str_radix(inode, 16).ok()?, born })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_round_trip_and_other_values_are_not_marks() {
        for born in [None, Some(Time { secs: 1_700_000_000, nanos: 5 }), Some(Time { secs: -3, nanos: 999_999_999 })] {
            let mark = Mark { inode: 0x1f, born };
            assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        }
        for wrong in ["", "1", "1 1f", "2 1f -", "1 1f 5", "1 xx -", "1 1f - -"] {
            assert_eq!(Mark::decode(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(Mark::decode(&[0xff]), None);
    }
}
