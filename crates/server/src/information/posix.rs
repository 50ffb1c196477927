//! What clients with the POSIX extensions of SMB 3.1.1 see of a file and its file system.

use proto::dtyp::{FileTime, Sid};
use proto::fscc::{
    FileAttributes, FileFsPosixInformation, FilePosixInformation, PosixAttributes, ReparseTag, file_type,
};

use super::{Answer, encoded};
use crate::attributes;
use crate::reparse;
use crate::state::open::FileOpen;
use crate::tree::Disk;
use crate::vfs::{Kind, Metadata, Space, SpecialFile};

/// Size of a transfer that suits most file systems.
const OPTIMAL_TRANSFER_SIZE: u32 = 1 << 20;

/// Returns the tag of a file without stored reparse data: special files are shown as reparse points.
pub(crate) fn tag(metadata: &Metadata) -> ReparseTag {
    match metadata.kind {
        Kind::Symlink | Kind::Special => ReparseTag::NFS,
        Kind::File | Kind::Directory => ReparseTag(0),
    }
}

/// Returns the tag of a file.
pub(crate) async fn tag_of(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> ReparseTag {
    match reparse::is_stored(&disk.share, metadata) {
        true => reparse::stored_tag(&**file.shown_node(), &file.op).await,
        false => tag(metadata),
    }
}

/// Returns the mode, with the type of a special file. Linux up to 6.9 takes the type from the file attributes instead,
/// and does not understand that of a directory. Later versions understand a missing one.
fn mode(metadata: &Metadata) -> u32 {
    let kind = match (metadata.kind, metadata.special) {
        (Kind::File | Kind::Directory, _) => file_type::REGULAR,
        (Kind::Symlink, _) => file_type::SYMLINK,
        (Kind::Special, Some(SpecialFile::CharacterDevice(..))) => file_type::CHARACTER_DEVICE,
        (Kind::Special, Some(SpecialFile::BlockDevice(..))) => file_type::BLOCK_DEVICE,
        (Kind::Special, Some(SpecialFile::Socket)) => file_type::SOCKET,
        (Kind::Special, Some(SpecialFile::Fifo) | None) => file_type::FIFO,
    };
    kind << file_type::SHIFT | metadata.mode & 0o7777
}

/// Returns what the extensions add to the attributes of a file. Owner and group are SIDs of Linux ids, because clients
/// understand these without asking a domain.
pub(crate) fn attributes(metadata: &Metadata, tag: ReparseTag) -> PosixAttributes {
    PosixAttributes {
        inode: metadata.file_id(),
        // Clients use only the lower half, if any.
        device: metadata.id.device as u32,
        links: metadata.links,
        reparse_tag: tag.0,
        mode: mode(metadata),
        owner: Sid::unix_user(metadata.uid),
        group: Sid::unix_group(metadata.gid),
    }
}

/// Returns the file attributes that such a client sees.
pub(crate) fn file_attributes(shown: FileAttributes, tag: ReparseTag) -> FileAttributes {
    match tag {
        ReparseTag(0) => shown,
        _ => FileAttributes(shown.0 & !FileAttributes::NORMAL.0) | FileAttributes::REPARSE_POINT,
    }
}

/// Returns the size in bytes: that of a symbolic link is the length of its target.
pub(crate) fn end_of_file(metadata: &Metadata) -> u64 {
    if metadata.kind == Kind::Symlink { metadata.size } else { attributes::end_of_file(metadata) }
}

/// Answers FilePosixInformation.
pub(super) async fn query(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> Answer {
    let tag = tag_of(file, disk, metadata).await;
    let information = FilePosixInformation {
        creation_time: FileTime::from(metadata.created),
        last_access_time: FileTime::from(metadata.accessed),
        last_write_time: FileTime::from(metadata.modified),
        change_time: FileTime::from(metadata.changed),
        end_of_file: end_of_file(metadata),
        allocation_size: metadata.allocated,
        file_attributes: file_attributes(attributes::of_open(disk, file, metadata), tag),
        posix: attributes(metadata, tag),
    };
    Answer::fixed(encoded(|out| information.encode(out)))
}

/// Answers FileFsPosixInformation. The numbers of inodes are unknown.
pub(super) fn filesystem(space: &Space) -> Answer {
    let information = FileFsPosixInformation {
        optimal_transfer_size: OPTIMAL_TRANSFER_SIZE,
        block_size: space.block_size,
        total_blocks: space.blocks,
        blocks_avail: space.free,
        user_blocks_avail: space.available,
        total_file_nodes: u64::MAX,
        free_file_nodes: u64::MAX,
        file_sys_identifier: space.id,
    };
    Answer::fixed(encoded(|out| information.encode(out)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::metadata;

    #[test]
    fn only_special_files_have_a_type_in_the_mode() {
        let (own, none) = ((0, 0), None);
        for (kind, special, expected) in [
            (Kind::File, none, 0o4755),
            (Kind::Directory, none, 0o4755),
            (Kind::Symlink, none, 0o24755),
            (Kind::Special, Some(SpecialFile::CharacterDevice(1, 3)), 0o34755),
            (Kind::Special, Some(SpecialFile::BlockDevice(8, 0)), 0o44755),
            (Kind::Special, Some(SpecialFile::Fifo), 0o54755),
            (Kind::Special, Some(SpecialFile::Socket), 0o64755),
        ] {
            let found = Metadata { special, ..metadata(kind, 0o4755, own) };
            assert_eq!(mode(&found), expected, "{kind:?} {special:?}");
            let is_special = matches!(kind, Kind::Symlink | Kind::Special);
            assert_eq!(tag(&found) == ReparseTag::NFS, is_special);
        }
    }

    #[test]
    fn a_reparse_point_is_not_a_normal_file() {
        let normal = FileAttributes::NORMAL;
        assert_eq!(file_attributes(normal, ReparseTag(0)), normal);
        assert_eq!(file_attributes(normal, ReparseTag::NFS), FileAttributes::REPARSE_POINT);
    }
}
