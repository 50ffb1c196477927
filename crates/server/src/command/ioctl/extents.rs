//! Block cloning ([MS-FSA] 2.1.5.10.4, 2.1.5.10.5; [MS-SMB2] 3.3.5.15.17, 3.3.5.15.18).
//!
//! As on ReFS since Windows Server 2016 (notes 91, 92), byte-range locks are not checked. Data beyond the end of the
//! target is omitted, so the target's size does not change. The specification requires whole clusters, but any range is
//! accepted here: partial blocks are copied.

use proto::bytes::Reader;
use proto::dtyp::AccessMask;
use proto::fscc::{DuplicateExtentsData, DuplicateExtentsDataEx, FileAttributes};
use proto::smb2::FileId;
use proto::status::Status;

use super::{Control, Output, change};
use crate::attributes;
use crate::error::{Error, Result};
use crate::state::open::FileOpen;
use crate::vfs::{self, CopyRange, Errno, Kind};

/// The decoded request.
#[derive(Clone, Copy)]
struct Asked {
    source: FileId,
    source_offset: u64,
    target_offset: u64,
    length: u64,
}

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE (2.1.5.10.4).
pub(super) async fn duplicate(control: &Control<'_>) -> Result<Output> {
    let data = DuplicateExtentsData::decode(&mut Reader::new(control.asked.input))?;
    let asked = Asked {
        source: data.source_file_id,
        source_offset: data.source_file_offset,
        target_offset: data.target_file_offset,
        length: data.byte_count,
    };
    carry_out(control, asked).await
}

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE_EX (2.1.5.10.5). The kernel locks both files during the operation, as SOURCE_ATOMIC
/// requires.
pub(super) async fn duplicate_ex(control: &Control<'_>) -> Result<Output> {
    let data = DuplicateExtentsDataEx::decode(&mut Reader::new(control.asked.input))?;
    if data.structure_size != 0x30 {
        return Err(Error::because(Status::NOT_SUPPORTED, "unexpected structure size"));
    }
    let asked = Asked {
        source: data.source_file_id,
        source_offset: data.source_file_offset,
        target_offset: data.target_file_offset,
        length: data.byte_count,
    };
    carry_out(control, asked).await
}

async fn carry_out(control: &Control<'_>, asked: Asked) -> Result<Output> {
    let (target, disk) = (control.file()?, control.disk()?);
    if !disk.vfs.capabilities().features.clones {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the file system cannot share blocks"));
    }
    let source = control.request.session()?.open(asked.source.persistent, asked.source.volatile);
    let source = source.ok_or(Error::because(Status::INVALID_HANDLE, "the source is not open"))?;
    let Some(from) = source.file().filter(|from| from.kind == Kind::File) else {
        return Err(Error::because(Status::INVALID_PARAMETER, "the source is not a file"));
    };
    if target.kind != Kind::File {
        return Err(Error::because(Status::NOT_SUPPORTED, "the target is not a file"));
    }
    control.need_any(AccessMask::FILE_WRITE_DATA)?;
    if !source.granted.contains(AccessMask::FILE_READ_DATA | AccessMask::FILE_READ_ATTRIBUTES) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the source is not open for reading"));
    }
    let ends = [asked.source_offset, asked.target_offset].map(|offset| offset.checked_add(asked.length));
    if !ends.iter().all(|end| end.is_some_and(|end| i64::try_from(end).is_ok())) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the range exceeds the maximum file size"));
    }
    if asked.length > 0 {
        share_room(control, from, target, asked).await?;
    }
    Ok(Output::new(|_| ()).copied(asked.length))
}

async fn share_room(control: &Control<'_>, from: &FileOpen, target: &FileOpen, asked: Asked) -> Result<()> {
    let disk = control.disk()?;
    let (source, present) = (from.node.metadata(&from.op).await?, target.node.metadata(&target.op).await?);
    let is_sparse = |metadata| attributes::file_attributes(disk, None, metadata).contains(FileAttributes::SPARSE_FILE);
    if is_sparse(&source) && !is_sparse(&present) {
        return Err(Error::because(Status::NOT_SUPPORTED, "the source is sparse, the target is not"));
    }
    if from.file == target.file && asked.source_offset.abs_diff(asked.target_offset) < asked.length {
        return Err(Error::because(Status::NOT_SUPPORTED, "the ranges overlap"));
    }
    let block = u64::from(target.node.space(&target.op).await?.block_size);
    // Clients round the source's end up to a whole cluster.
    if asked.source_offset + asked.length > source.size.next_multiple_of(block) {
        return Err(Error::because(Status::NOT_SUPPORTED, "the source ends before the requested range"));
    }
    let left = |size: u64, offset: u64| size.saturating_sub(offset);
    let length = asked.length.min(left(source.size, asked.source_offset)).min(left(present.size, asked.target_offset));
    if length == 0 {
        return Ok(());
    }
    let ends_both = asked.source_offset + length == source.size && asked.target_offset + length == present.size;
    let shared = if ends_both { length } else { length - length % block };
    change(control, || async {
        clone(from, target, Asked { length: shared, ..asked }).await?;
        let (rest, source, offset) = (length - shared, asked.source_offset + shared, asked.target_offset + shared);
        if rest > 0 {
            vfs::copy_range(&target.op, &from.node, source, &target.node, offset, rest).await?;
        }
        Ok(())
    })
    .await
}

async fn clone(from: &FileOpen, target: &FileOpen, asked: Asked) -> Result<()> {
    let (source, offset) = (asked.source_offset, asked.target_offset);
    let range = CopyRange { source, offset, length: asked.length, share: true };
    match target.node.copy(&target.op, &from.node, range).await {
        Err(Errno::XDEV) => Err(Error::because(Status::INVALID_PARAMETER, "the source is on another volume")),
        Err(Errno::OPNOTSUPP) => {
            Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the file system cannot share blocks"))
        }
        Ok(_) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {

    use proto::bytes::Writer;
    use proto::fscc::{DuplicateExtentsFlags, FileSystemAttributes};
    use proto::smb2::ioctl::FsctlCode;
    use proto::smb2::lock::LockFlags;

    use super::*;
    use crate::command::ioctl::testing::{ALL, Fixture};
    use crate::vfs::Features;

    fn duplicate(fixture: &mut Fixture, from: FileId, to: FileId, source: u64, target: u64, length: u64) -> Status {
        let mut input = Vec::new();
        DuplicateExtentsData {
            source_file_id: from,
            source_file_offset: source,
            target_file_offset: target,
            byte_count: length,
        }
        .encode(&mut Writer::new(&mut input));
        fixture.control(to, FsctlCode::DUPLICATE_EXTENTS_TO_FILE, &input, 0).0
    }

    const PAGE: u64 = 4096;

    fn content(pages: &[u8]) -> Vec<u8> {
        pages.iter().flat_map(|&byte| vec![byte; PAGE as usize]).collect()
    }

    #[test]
    fn ranges_are_duplicated() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(b"abc")), fixture.file("to", &content(b"xyz")));
        assert_eq!(duplicate(&mut fixture, from, to, PAGE, 0, 2 * PAGE), Status::SUCCESS);
        assert_eq!(fixture.read(to), content(b"bcz"));
        assert_eq!(duplicate(&mut fixture, to, to, 0, 2 * PAGE, PAGE), Status::SUCCESS);
        assert_eq!(fixture.read(to), content(b"bcb"));
        assert_eq!(duplicate(&mut fixture, from, to, 0, 0, 0), Status::SUCCESS);
        assert_eq!(fixture.read(to), content(b"bcb"));
        assert_eq!(fixture.read(from), content(b"abc"));
    }

    #[test]
    fn the_target_keeps_its_size() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(b"ab")), fixture.file("to", b""));
        assert_eq!(duplicate(&mut fixture, from, to, 0, 0, 2 * PAGE), Status::SUCCESS);
        assert_eq!(fixture.read(to), b"");
        fixture.set_size(to, PAGE + 10);
        assert_eq!(fixture.read(to), vec![0; PAGE as usize + 10]);
        assert_eq!(duplicate(&mut fixture, from, to, 0, 0, 2 * PAGE), Status::SUCCESS);
        assert_eq!(fixture.read(to), content(b"ab")[..PAGE as usize + 10]);
    }

    #[test]
    fn the_last_cluster_is_a_whole_one() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", b"hello"), fixture.file("to", &content(b"xy")));
        assert_eq!(duplicate(&mut fixture, from, to, 0, 0, PAGE), Status::SUCCESS);
        assert_eq!(fixture.read(to)[..8], *b"helloxxx");
        assert_eq!(duplicate(&mut fixture, from, to, 0, 0, PAGE + 1), Status::NOT_SUPPORTED);
        let exact = fixture.file("exact", b"12345");
        assert_eq!(duplicate(&mut fixture, from, exact, 0, 0, PAGE), Status::SUCCESS);
        assert_eq!(fixture.read(exact), b"hello");
    }

    #[test]
    fn requests_that_are_refused() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(b"abcd")), fixture.file("to", &content(b"wxyz")));
        let closed = fixture.file("closed", b"");
        fixture.close(closed);
        let (reader, writer) = (fixture.open("from", 0x0012_0089), fixture.open("from", 0x0012_0116));
        let directory = fixture.directory("directory");
        let sparse = fixture.file("sparse", &content(b"s"));
        assert_eq!(fixture.control(sparse, FsctlCode::SET_SPARSE, &[], 0).0, Status::SUCCESS);
        for (why, source, target, source_offset, target_offset, length, expected) in [
            ("closed source", closed, to, 0, 0, PAGE, Status::INVALID_HANDLE),
            ("closed target", from, closed, 0, 0, PAGE, Status::FILE_CLOSED),
            ("source not for reading", writer, to, 0, 0, PAGE, Status::INVALID_PARAMETER),
            ("target not for writing", from, reader, 0, 2 * PAGE, PAGE, Status::ACCESS_DENIED),
            ("a directory as source", directory, to, 0, 0, PAGE, Status::INVALID_PARAMETER),
            ("a directory as target", from, directory, 0, 0, PAGE, Status::NOT_SUPPORTED),
            ("ranges that overlap", from, from, 0, PAGE, 2 * PAGE, Status::NOT_SUPPORTED),
            ("beyond the end of the source", from, to, 0, 0, 5 * PAGE, Status::NOT_SUPPORTED),
            ("beyond the maximum file size", from, to, 1 << 63, 0, PAGE, Status::INVALID_PARAMETER),
            ("the range overflows", from, to, PAGE, 0, u64::MAX, Status::INVALID_PARAMETER),
            ("odd offset", from, to, 1, 0, PAGE, Status::INVALID_PARAMETER),
            ("sparse to not sparse", sparse, to, 0, 0, PAGE, Status::NOT_SUPPORTED),
            ("not sparse to sparse", from, sparse, 0, 0, PAGE, Status::SUCCESS),
        ] {
            let status = duplicate(&mut fixture, source, target, source_offset, target_offset, length);
            assert_eq!(status, expected, "{why}");
        }
        assert_eq!(fixture.read(from), content(b"abcd"));
        assert_eq!(fixture.read(to), content(b"wxyz"));
        let short = fixture.control(to, FsctlCode::DUPLICATE_EXTENTS_TO_FILE, &[0; 39], 0);
        assert_eq!(short.0, Status::INVALID_PARAMETER);
    }

    #[test]
    fn locks_do_not_matter() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(b"a")), fixture.file("to", &content(b"x")));
        for name in ["from", "to"] {
            let other = fixture.open(name, ALL);
            fixture.lock(other, 0, PAGE, LockFlags::EXCLUSIVE_LOCK);
        }
        assert_eq!(duplicate(&mut fixture, from, to, 0, 0, PAGE), Status::SUCCESS);
    }

    #[test]
    fn the_extended_form() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(b"a")), fixture.file("to", &content(b"x")));
        for (structure_size, expected) in [(0x38, Status::NOT_SUPPORTED), (0x30, Status::SUCCESS)] {
            let mut input = Vec::new();
            DuplicateExtentsDataEx {
                structure_size,
                source_file_id: from,
                byte_count: PAGE,
                flags: DuplicateExtentsFlags::SOURCE_ATOMIC,
                ..DuplicateExtentsDataEx::default()
            }
            .encode(&mut Writer::new(&mut input));
            assert_eq!(fixture.control(to, FsctlCode::DUPLICATE_EXTENTS_TO_FILE_EX, &input, 0).0, expected);
        }
        assert_eq!(fixture.read(to), content(b"a"));
    }

    #[test]
    fn only_file_systems_that_share_blocks_announce_it() {
        for clones in [false, true] {
            let mut fixture = Fixture::with(Features { clones, ..Features::default() }, |_| ());
            let (from, to) = (fixture.file("from", &content(b"a")), fixture.file("to", &content(b"x")));
            let said = fixture.capabilities(from).contains(FileSystemAttributes::SUPPORTS_BLOCK_REFCOUNTING);
            assert_eq!(said, clones);
            let expected = if clones { Status::SUCCESS } else { Status::INVALID_DEVICE_REQUEST };
            assert_eq!(duplicate(&mut fixture, from, to, 0, 0, PAGE), expected);
        }
    }
}
