//! Determines the access that an open requests. The load does not contain it, but the operations on the handle imply
//! it.

use std::collections::HashMap;

use proto::dtyp::AccessMask;
use proto::smb2::create::{CreateDisposition, CreateOptions};

use super::Message;
use super::tree::Node;
use crate::netbench::load::{Load, Operation, TextId};

/// For looking up a name, and for releasing it.
pub(super) const LOOK: AccessMask = AccessMask(AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::SYNCHRONIZE.0);

/// For listing a directory.
pub(super) const LIST: AccessMask = AccessMask(AccessMask::FILE_LIST_DIRECTORY.0 | LOOK.0);

/// For deleting or renaming.
pub(super) const DELETE: AccessMask = AccessMask(AccessMask::DELETE.0 | LOOK.0);

/// Returns the access that an `NTCreateX` with these options requests if `uses` are needed until its `Close`.
pub(super) fn wanted(options: CreateOptions, uses: AccessMask) -> AccessMask {
    let least = match options {
        _ if options.contains(CreateOptions::DIRECTORY_FILE) => LIST,
        _ if options.contains(CreateOptions::NON_DIRECTORY_FILE) => AccessMask::FILE_GENERIC_READ,
        _ => LOOK,
    };
    let writes = uses.contains(AccessMask::FILE_WRITE_DATA);
    least | uses | if writes { AccessMask::FILE_GENERIC_WRITE } else { AccessMask::NONE }
}

/// Returns a CREATE that only opens existing files.
pub(super) fn open(path: Option<TextId>, access: AccessMask, options: CreateOptions) -> Message {
    Message::Create { path, access, disposition: CreateDisposition::OPEN, options }
}

/// Returns the rights that the lines between `NTCreateX` and `Close` need, by the index of the `NTCreateX`.
pub(super) fn uses(load: &Load) -> HashMap<usize, AccessMask> {
    let mut uses = HashMap::new();
    let mut opened = HashMap::new();
    for (index, line) in load.lines.iter().enumerate() {
        let (handle, right) = match line.operation {
            Operation::NtCreateX { handle, .. } if !line.status.is_error() => {
                opened.insert(handle, index);
                continue;
            }
            Operation::ReadX { handle, .. } => (handle, AccessMask::FILE_READ_DATA),
            // A byte-range lock needs the right to read or write, a flush the right to write.
            Operation::LockX { handle, .. } | Operation::UnlockX { handle, .. } => (handle, AccessMask::FILE_READ_DATA),
            Operation::WriteX { handle, .. } | Operation::Flush { handle } => (handle, AccessMask::FILE_WRITE_DATA),
            Operation::QueryFile { handle, .. } => (handle, AccessMask::FILE_READ_ATTRIBUTES),
            Operation::SetFile { handle, .. } => (handle, AccessMask::FILE_WRITE_ATTRIBUTES),
            _ => continue,
        };
        if let Some(index) = opened.get(&handle) {
            *uses.entry(*index).or_insert(AccessMask::NONE) |= right;
        }
    }
    uses
}

/// Returns the options for opening a node that will be deleted.
pub(super) fn kind_of(node: Node) -> CreateOptions {
    if node.directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions::NON_DIRECTORY_FILE }
}
