//! Conversion between Linux metadata and Windows file attributes ([MS-FSCC] 2.6).

use proto::dtyp::FileTime;
use proto::fscc::FileAttributes;
use proto::smb2::close::{CloseFlags, CloseResponse};

use crate::policy::Share;
use crate::state::open::FileOpen;
use crate::tree::Disk;
use crate::vfs::{Kind, Metadata, Time};

/// The attributes that a client may set, stored in `user.DOSATTRIB`.
pub(crate) const STORED: u32 = FileAttributes::READONLY.0
    | FileAttributes::HIDDEN.0
    | FileAttributes::SYSTEM.0
    | FileAttributes::ARCHIVE.0
    | FileAttributes::SPARSE_FILE.0;

/// The attributes read from `user.DOSATTRIB`: also the one that marks stored reparse data.
pub(crate) const KEPT: u32 = STORED | FileAttributes::REPARSE_POINT.0;

/// Returns the attributes of a file called `name`.
pub(crate) fn file_attributes(disk: &Disk, name: Option<&[u8]>, metadata: &Metadata) -> FileAttributes {
    let share = &disk.share;
    let mut bits = match metadata.dos_attributes {
        Some(stored) if share.attributes.store_dos_attributes => stored & KEPT,
        _ => from_mode(share, metadata),
    };
    let name = name.unwrap_or_default();
    let dot_file = share.names.hide_dot_files && name.first() == Some(&b'.') && !matches!(name, b"." | b"..");
    if dot_file || (!disk.hide.is_empty() && disk.hide.matches(name)) {
        bits |= FileAttributes::HIDDEN.0;
    }
    if metadata.compressed {
        bits |= FileAttributes::COMPRESSED.0;
    }
    match metadata.kind {
        Kind::Directory => bits = (bits | FileAttributes::DIRECTORY.0) & !FileAttributes::SPARSE_FILE.0,
        Kind::Symlink => bits |= FileAttributes::REPARSE_POINT.0,
        Kind::File | Kind::Special => {}
    }
    FileAttributes(if bits == 0 { FileAttributes::NORMAL.0 } else { bits })
}

/// Returns the attributes that are stored for a file.
pub(crate) fn stored(disk: &Disk, metadata: &Metadata) -> u32 {
    metadata.dos_attributes.filter(|_| disk.share.attributes.store_dos_attributes).unwrap_or(0) & KEPT
}

/// Returns the attributes of an open file.
pub(crate) fn of_open(disk: &Disk, file: &FileOpen, metadata: &Metadata) -> FileAttributes {
    let shown = file_attributes(disk, file.name.path.lock().name(), metadata);
    // Such clients see special files as reparse points.
    if file.posix && metadata.kind == Kind::Special {
        return FileAttributes(shown.0 & !FileAttributes::NORMAL.0) | FileAttributes::REPARSE_POINT;
    }
    if file.leads_to_directory { shown | FileAttributes::DIRECTORY } else { shown }
}

/// Returns the attributes of a file without stored ones, from its permission bits: `map archive`, `map system`, `map
/// hidden`, `map read only`.
fn from_mode(share: &Share, metadata: &Metadata) -> u32 {
    if metadata.kind == Kind::Directory {
        return 0;
    }
    let mapped = [
        (share.attributes.map_archive && metadata.mode & 0o100 != 0, FileAttributes::ARCHIVE),
        (share.attributes.map_system && metadata.mode & 0o010 != 0, FileAttributes::SYSTEM),
        (share.attributes.map_hidden && metadata.mode & 0o001 != 0, FileAttributes::HIDDEN),
        (share.attributes.map_read_only && metadata.mode & 0o200 == 0, FileAttributes::READONLY),
    ];
    mapped.iter().filter(|(set, _)| *set).map(|(_, attribute)| attribute.0).sum()
}

/// Converts a time to the wire format.
pub(crate) fn file_time(time: Time) -> u64 {
    FileTime::from(time).0
}

/// The usual allocation unit of Linux file systems in bytes.
const PAGE: u64 = 4096;

/// `AllocationSize`: the space that the file's content takes on disk, at least what its opener asked to reserve. Blocks
/// beyond the rounded size are not counted. They hold extended attributes (a stored ACL is too long for most inodes)
/// and file system metadata.
pub(crate) fn allocation_size(metadata: &Metadata, asked: u64) -> u64 {
    match metadata.kind {
        Kind::Directory => 0,
        _ if metadata.size == 0 => asked,
        _ => metadata.allocated.min(metadata.size.next_multiple_of(PAGE)).max(asked),
    }
}

/// `EndOfFile`: 0 except for regular files.
pub(crate) fn end_of_file(metadata: &Metadata) -> u64 {
    if metadata.kind == Kind::File { metadata.size } else { 0 }
}

/// Returns the attributes for a CLOSE response that requests them ([MS-SMB2] 2.2.16).
pub(crate) fn close_response(disk: &Disk, file: &FileOpen, metadata: &Metadata) -> CloseResponse {
    CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: file_time(metadata.created),
        last_access_time: file_time(metadata.accessed),
        last_write_time: file_time(metadata.modified),
        change_time: file_time(metadata.changed),
        allocation_size: allocation_size(metadata, file.asked_allocation()),
        end_of_file: end_of_file(metadata),
        file_attributes: of_open(disk, file, metadata).0,
    }
}
