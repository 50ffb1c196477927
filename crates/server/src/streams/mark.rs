//! The mark of a file of the store: which file its stream belongs to.
//!
//! It is an attribute that only root can set (`trusted.*`), so it says more than the file's name does. The birth time tells
//! the owner from a later file with the same inode number. A server that is not root, or lacks CAP_SYS_ADMIN, or a file
//! system without such attributes has no marks: there the store's directory, which nobody else can reach into, is
//! all that is relied on. Files from before there were marks have none either, and get one when their owner is opened.

use std::sync::Arc;

use crate::vfs::{Errno, Identity, Metadata, Node, Result, Time};

const ATTRIBUTE: &str = "trusted.frevo.owner";

/// The version of the value.
const VERSION: &str = "1";

/// The file that a stream belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Its inode number.
    pub(super) inode: u64,
    /// When it was made, where its file system says.
    pub(super) born: Option<Time>,
}

impl Mark {
    pub(super) fn of(owner: &Metadata) -> Mark {
        Mark { inode: owner.id.inode, born: owner.born }
    }

    /// The mark of `node`; `None` where it has none, or marks cannot be read. `Errno::INVAL` for a value that is no mark.
    pub(super) async fn read(node: &Arc<dyn Node>, own: &Arc<Identity>) -> Result<Option<Mark>> {
        match node.get_xattr(own, ATTRIBUTE).await {
            Ok(Some(value)) => Mark::decode(&value).ok_or(Errno::INVAL).map(Some),
            Ok(None) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Marks `node`, where that is possible.
    pub(super) async fn write(&self, node: &Arc<dyn Node>, own: &Arc<Identity>) -> Result<()> {
        match node.set_xattr(own, ATTRIBUTE, Some(self.encode())).await {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES) => Ok(()),
            done => done,
        }
    }

    /// Whether `owner` is the file that the mark names, as far as the file system tells.
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
    fn marks_come_back_and_other_values_are_none() {
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
