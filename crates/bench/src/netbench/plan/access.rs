//! Which access an open asks for: the load does not say, but it says what is done with the handle.

use std::collections::HashMap;

use proto::dtyp::AccessMask;
use proto::smb2::create::{CreateDisposition, CreateOptions};

use super::Message;
use super::tree::Node;
use crate::netbench::load::{Load, Operation, TextId};

/// To learn of a name, and to give it up.
pub(super) const LOOK: AccessMask = AccessMask(AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::SYNCHRONIZE.0);

/// To list a directory.
pub(super) const LIST: AccessMask = AccessMask(AccessMask::FILE_LIST_DIRECTORY.0 | LOOK.0);

/// To delete or rename.
pub(super) const DELETE: AccessMask = AccessMask(AccessMask::DELETE.0 | LOOK.0);

/// The rights that an `NTCreateX` asks for with these options, when `uses` are needed until its `Close`.
pub(super) fn wanted(options: CreateOptions, uses: AccessMask) -> AccessMask {
    let least = match options {
        _ if options.contains(CreateOptions::DIRECTORY_FILE) => LIST,
        _ if options.contains(CreateOptions::NON_DIRECTORY_FILE) => AccessMask::FILE_GENERIC_READ,
        _ => LOOK,
    };
    let writes = uses.contains(AccessMask::FILE_WRITE_DATA);
    least | uses | if writes { AccessMask::FILE_GENERIC_WRITE } else { AccessMask::NONE }
}

/// A CREATE that only opens.
pub(super) fn open(path: Option<TextId>, access: AccessMask, options: CreateOptions) -> Message {
    Message::Create { path, access, disposition: CreateDisposition::OPEN, options }
}

/// The rights that the lines between `NTCreateX` and `Close` need, by the index of the `NTCreateX`.
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
            // A byte range is locked by who may read or write; what was written is flushed by who may write.
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

/// How a node is opened that is to be deleted.
pub(super) fn kind_of(node: Node) -> CreateOptions {
    if node.directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions::NON_DIRECTORY_FILE }
}
