//! File information classes ([MS-FSCC] 2.4, [MS-FSA] 2.1.5.12).

use std::sync::atomic::Ordering;

use proto::dtyp::FileTime;
use proto::fscc::{
    CompressionFormat, FileAccessInformation, FileAlignmentInformation, FileAllInformation,
    FileAttributeTagInformation, FileBasicInformation, FileCompressionInformation, FileEaInformation,
    FileIdInformation, FileInformationClass as Class, FileInternalInformation, FileMode, FileModeInformation,
    FileNameInformation, FileNetworkOpenInformation, FilePositionInformation, FileStandardInformation, ReparseTag,
};
use proto::status::Status;

use super::{ea, posix, streams};
use crate::attributes;
use crate::error::{Error, Result};
use crate::files;
use crate::information::Answer;
use crate::information::encoded;
use crate::name::short::{is_short, mangle};
use crate::reparse;
use crate::state::Server;
use crate::state::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::vfs::{Kind, Metadata};

/// Answers a query of `class`. Extended attributes are handled by [`ea`](super::ea). With `hides_ids` the id of the
/// file is 0.
pub(crate) async fn query(
    server: &Server,
    class: Class,
    open: &Open,
    file: &FileOpen,
    disk: &Disk,
    hides_ids: bool,
) -> Result<Answer> {
    let metadata = server.opens.files.shown(file.shown_node().metadata(&file.op).await?, server.environment.uptime());
    let index_number = if hides_ids { 0 } else { metadata.file_id() };
    let files = &server.opens.files;
    let answer = match class {
        Class::BASIC => Answer::fixed(encoded(|out| basic(file, disk, &metadata).encode(out))),
        Class::STANDARD => Answer::fixed(encoded(|out| standard(files, file, &metadata).encode(out))),
        Class::INTERNAL => Answer::fixed(encoded(|out| FileInternalInformation { index_number }.encode(out))),
        Class::EA => {
            let ea_size = ea::size(file, disk).await;
            Answer::fixed(encoded(|out| FileEaInformation { ea_size }.encode(out)))
        }
        Class::ACCESS => Answer::fixed(encoded(|out| access(open).encode(out))),
        Class::POSITION => Answer::fixed(encoded(|out| position(file).encode(out))),
        Class::MODE => Answer::fixed(encoded(|out| mode(file).encode(out))),
        Class::ALIGNMENT => Answer::fixed(encoded(|out| ALIGNMENT.encode(out))),
        Class::ALL => {
            let ea_size = ea::size(file, disk).await;
            all(files, open, file, disk, &metadata, ea_size, index_number)
        }
        Class::NETWORK_OPEN => Answer::fixed(encoded(|out| network_open(file, disk, &metadata).encode(out))),
        Class::ATTRIBUTE_TAG => {
            let tag = reparse_tag(file, disk, &metadata).await;
            Answer::fixed(encoded(|out| attribute_tag(file, disk, &metadata, tag).encode(out)))
        }
        Class::COMPRESSION => Answer::fixed(encoded(|out| compression(&metadata).encode(out))),
        Class::STREAM => streams::query(server, file, disk).await?,
        Class::NORMALIZED_NAME => normalized_name(file, disk),
        Class::ID => Answer::fixed(encoded(|out| id(&metadata, index_number).encode(out))),
        Class::ALTERNATE_NAME => alternate_name(file, disk)?,
        Class::POSIX if file.posix => posix::query(file, disk, &metadata).await,
        _ if class.0 == 0 || class.0 > LAST => return Err(Error::new(Status::INVALID_INFO_CLASS)),
        _ => return Err(Error::because(Status::NOT_SUPPORTED, format!("{class:?}"))),
    };
    Ok(answer)
}

/// The highest class defined in [MS-FSCC] 2.4.
const LAST: u8 = Class::ID_ALL_EXTD_BOTH_DIRECTORY.0;

/// No alignment is required because the server copies the data.
const ALIGNMENT: FileAlignmentInformation = FileAlignmentInformation { alignment_requirement: 0 };

fn shown_attributes(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> proto::fscc::FileAttributes {
    attributes::of_open(disk, file, metadata)
}

fn basic(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> FileBasicInformation {
    FileBasicInformation {
        creation_time: FileTime::from(metadata.created),
        last_access_time: FileTime::from(metadata.accessed),
        last_write_time: FileTime::from(metadata.modified),
        change_time: FileTime::from(metadata.changed),
        file_attributes: shown_attributes(file, disk, metadata),
    }
}

fn standard(files: &files::Table, file: &FileOpen, metadata: &Metadata) -> FileStandardInformation {
    let delete_pending = files.is_delete_pending(file.file);
    FileStandardInformation {
        allocation_size: attributes::allocation_size(metadata, file.asked_allocation()),
        end_of_file: attributes::end_of_file(metadata),
        // [MS-FSA] 2.1.5.12.28: a name to be deleted is not counted.
        number_of_links: metadata.links.max(1).saturating_sub(u32::from(delete_pending)),
        delete_pending,
        directory: metadata.kind == Kind::Directory || file.leads_to_directory,
    }
}

fn access(open: &Open) -> FileAccessInformation {
    FileAccessInformation { access_flags: open.granted }
}

fn position(file: &FileOpen) -> FilePositionInformation {
    FilePositionInformation { current_byte_offset: file.position.load(Ordering::Relaxed) }
}

fn mode(file: &FileOpen) -> FileModeInformation {
    use proto::smb2::create::CreateOptions as Options;
    // [MS-FSCC] 2.4.31: the CREATE options that are modes.
    let shown = Options::WRITE_THROUGH.0
        | Options::SEQUENTIAL_ONLY.0
        | Options::NO_INTERMEDIATE_BUFFERING.0
        | Options::SYNCHRONOUS_IO_ALERT.0
        | Options::SYNCHRONOUS_IO_NONALERT.0
        | Options::DELETE_ON_CLOSE.0;
    FileModeInformation { mode: FileMode(file.options().0 & shown) }
}

fn network_open(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> FileNetworkOpenInformation {
    FileNetworkOpenInformation {
        creation_time: FileTime::from(metadata.created),
        last_access_time: FileTime::from(metadata.accessed),
        last_write_time: FileTime::from(metadata.modified),
        change_time: FileTime::from(metadata.changed),
        allocation_size: attributes::allocation_size(metadata, file.asked_allocation()),
        end_of_file: attributes::end_of_file(metadata),
        file_attributes: shown_attributes(file, disk, metadata),
    }
}

fn attribute_tag(
    file: &FileOpen,
    disk: &Disk,
    metadata: &Metadata,
    reparse_tag: ReparseTag,
) -> FileAttributeTagInformation {
    FileAttributeTagInformation { file_attributes: shown_attributes(file, disk, metadata), reparse_tag }
}

/// Returns the tag of a reparse point; 0 for other files.
async fn reparse_tag(file: &FileOpen, disk: &Disk, metadata: &Metadata) -> ReparseTag {
    match metadata.kind {
        _ if file.posix => posix::tag_of(file, disk, metadata).await,
        Kind::Symlink => ReparseTag::SYMLINK,
        _ if reparse::is_stored(&disk.share, metadata) => reparse::stored_tag(&*file.node, &file.op).await,
        _ => ReparseTag(0),
    }
}

fn compression(metadata: &Metadata) -> FileCompressionInformation {
    FileCompressionInformation {
        compressed_file_size: attributes::end_of_file(metadata),
        compression_format: if metadata.compressed { CompressionFormat::LZNT1.0 } else { CompressionFormat::NONE.0 },
        ..Default::default()
    }
}

/// [MS-FSCC] 2.4.2. The name is the full path from the share's root, with a leading backslash.
fn all(
    files: &files::Table,
    open: &Open,
    file: &FileOpen,
    disk: &Disk,
    metadata: &Metadata,
    ea_size: u32,
    index_number: u64,
) -> Answer {
    let name = wire_path(file, disk, true);
    let information = FileAllInformation {
        basic: basic(file, disk, metadata),
        standard: standard(files, file, metadata),
        internal: FileInternalInformation { index_number },
        ea: FileEaInformation { ea_size },
        access: access(open),
        position: position(file),
        mode: mode(file),
        alignment: ALIGNMENT,
        name: FileNameInformation { file_name: &name },
    };
    Answer::variable(encoded(|out| information.encode(out)), padded(FileAllInformation::FIXED_SIZE + 2, 8))
}

/// Returns the minimum size in bytes of a structure, as declared: with one character of its name, and padded to its
/// alignment. Servers compare `OutputBufferLength` with it ([MS-SMB2] 3.3.5.20.1).
pub(super) const fn padded(size: usize, alignment: usize) -> usize {
    size.next_multiple_of(alignment)
}

/// Returns the path in the form sent to clients, in UTF-16LE.
fn wire_path(file: &FileOpen, disk: &Disk, absolute: bool) -> Vec<u8> {
    let path = disk.shown(&file.name.path.lock());
    let mut units: Vec<u16> = Vec::new();
    for component in path.components() {
        if absolute || !units.is_empty() {
            units.push(u16::from(b'\\'));
        }
        match file.posix {
            true => units.extend(crate::name::to_wire_posix(component)),
            false => units.extend(disk.share.names.characters.to_wire(component)),
        }
    }
    if absolute && units.is_empty() {
        units.push(u16::from(b'\\'));
    }
    units.extend(streams::suffix(file, disk));
    units.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// [MS-FSCC] 2.4.35: relative to the share, without a leading backslash.
fn normalized_name(file: &FileOpen, disk: &Disk) -> Answer {
    let name = wire_path(file, disk, false);
    Answer::variable(
        encoded(|out| FileNameInformation { file_name: &name }.encode(out)),
        padded(FileNameInformation::FIXED_SIZE + 2, 4),
    )
}

/// Returns the 8.3 name. A valid 8.3 name is its own ([MS-FSA] 2.1.5.12.5); others have one with `mangled names`.
fn alternate_name(file: &FileOpen, disk: &Disk) -> Result<Answer> {
    let path = file.name.path.lock().clone();
    let short = match path.name() {
        Some(name) if is_short(name) => disk.share.names.characters.to_wire(name),
        Some(name) if disk.share.names.mangled_names => mangle(name).encode_utf16().collect(),
        _ => return Err(Error::new(Status::OBJECT_NAME_NOT_FOUND)),
    };
    let name: Vec<u8> = short.into_iter().flat_map(u16::to_le_bytes).collect();
    let bytes = encoded(|out| FileNameInformation { file_name: &name }.encode(out));
    Ok(Answer::variable(bytes, padded(FileNameInformation::FIXED_SIZE + 2, 4)))
}

fn id(metadata: &Metadata, index_number: u64) -> FileIdInformation {
    let mut file_id = [0; 16];
    file_id[..8].copy_from_slice(&index_number.to_le_bytes());
    FileIdInformation { volume_serial_number: metadata.id.device, file_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_8_3_form() {
        for short in ["a", "hello.txt", "README", "12345678.abc", "x~1"] {
            assert!(is_short(short.as_bytes()), "{short}");
        }
        for long in ["", ".a", "a.", "a.b.c", "123456789", "a.text", "a b", "gr\u{fc}n"] {
            assert!(!is_short(long.as_bytes()), "{long}");
        }
    }
}
