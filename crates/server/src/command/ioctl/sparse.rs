//! Sparse files ([MS-FSA] 2.1.5.10.22, 2.1.5.10.38, 2.1.5.10.39) and trimming (2.1.5.10.6).
//!
//! On Linux every file may have holes. For a file without the sparse attribute they are not reported: the whole file is
//! shown as allocated.

use std::sync::atomic::Ordering;

use proto::bytes::Reader;
use proto::dtyp::AccessMask;
use proto::fscc::{
    FileAllocatedRange, FileAttributes, FileLevelTrim, FileLevelTrimOutput, FileLevelTrimRange, FileZeroData,
    decode_set_sparse,
};
use proto::smb2::change_notify::CompletionFilter;
use proto::smb2::create::CreateOptions;
use proto::status::Status;

use super::{Control, Output, change};
use crate::attributes;
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::state::open::FileOpen;
use crate::vfs::{Access, DataRange, Errno, Extent, Kind, Metadata, SetMetadata};

/// `SystemPageSize`: partial pages are not trimmed.
const PAGE: u64 = 4096;

/// Bytes of zeros written at once if the file system cannot punch holes.
const WRITTEN_AT_ONCE: u64 = 256 << 20;

/// Returns whether the file has the sparse attribute.
fn is_sparse(control: &Control<'_>, metadata: &Metadata) -> Result<bool> {
    let shown = attributes::file_attributes(control.disk()?, None, metadata);
    Ok(shown.contains(FileAttributes::SPARSE_FILE))
}

/// FSCTL_SET_SPARSE (2.1.5.10.38). The first byte specifies whether to set or clear the attribute; without input it is
/// set.
pub(super) async fn set_sparse(control: &Control<'_>) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    if file.kind != Kind::File {
        return Err(Error::because(Status::INVALID_PARAMETER, "only files can be sparse"));
    }
    control.need_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_APPEND_DATA | AccessMask::FILE_WRITE_ATTRIBUTES)?;
    if !disk.share.attributes.store_dos_attributes {
        return Err(Error::because(
            Status::INVALID_DEVICE_REQUEST,
            "the sparse attribute cannot be stored with `store dos attributes = no`",
        ));
    }
    let metadata = file.node.metadata(&file.op).await?;
    let sparse = decode_set_sparse(control.asked.input);
    if is_sparse(control, &metadata)? != sparse {
        let shown = attributes::file_attributes(disk, None, &metadata).0 & attributes::KEPT;
        let bits = if sparse { shown | FileAttributes::SPARSE_FILE.0 } else { shown & !FileAttributes::SPARSE_FILE.0 };
        if !sparse {
            fill(file, &metadata).await?;
        }
        let set = SetMetadata { dos_attributes: Some(bits), ..SetMetadata::default() };
        file.node.set_metadata(&file.op, set).await?;
        let change = Change::modified(CompletionFilter::ATTRIBUTES);
        control.request.connection.server.file_changed(disk, file, change);
    }
    Ok(Output::new(|_| ()))
}

/// Allocates the space of all holes, if the file system can.
async fn fill(file: &FileOpen, metadata: &Metadata) -> Result<()> {
    let (op, node, size) = (&file.op, &file.node, metadata.size);
    // Checked first, because the file system would otherwise use up all free space before it fails.
    let space = node.space(op).await?;
    let free = space.available.saturating_mul(space.block_size.into());
    if size.saturating_sub(metadata.allocated) > free {
        return Err(Error::because(Status::DISK_FULL, "the holes exceed the free space"));
    }
    let filled = match node.set_extent(op, Extent::Reserve(size)).await {
        // The handle has no data access.
        Err(Errno::BADF) => match node.open(op, Access { read: false, write: true }).await {
            Ok(node) => node.set_extent(op, Extent::Reserve(size)).await,
            Err(error) => Err(error),
        },
        filled => filled,
    };
    match filled {
        Err(Errno::OPNOTSUPP) => Ok(()),
        filled => Ok(filled?),
    }
}

/// FSCTL_SET_ZERO_DATA (2.1.5.10.39).
pub(super) async fn zero(control: &Control<'_>) -> Result<Output> {
    let file = control.file()?;
    let asked = FileZeroData::decode(&mut Reader::new(control.asked.input))?;
    let (Ok(from), Ok(to)) = (i64::try_from(asked.file_offset), i64::try_from(asked.beyond_final_zero)) else {
        return Err(Error::because(Status::INVALID_PARAMETER, "negative offset"));
    };
    if from > to || file.kind != Kind::File {
        return Err(Error::because(Status::INVALID_PARAMETER, "not a valid range of a file"));
    }
    control.need_any(AccessMask::FILE_WRITE_DATA)?;
    // Beyond the end of the file there are only zeros, and locks there do not matter.
    let end = asked.beyond_final_zero.min(file.node.metadata(&file.op).await?.size);
    if asked.file_offset < end {
        zero_range(control, file, asked.file_offset, end - asked.file_offset).await?;
        if file.options().contains(CreateOptions::NO_INTERMEDIATE_BUFFERING) {
            file.node.flush(&file.op).await?;
        }
    }
    Ok(Output::new(|_| ()))
}

/// Zeroes a range of the file. Its space is freed, except that with `strict allocate`, files without the sparse
/// attribute keep it.
async fn zero_range(control: &Control<'_>, file: &FileOpen, offset: u64, length: u64) -> Result<()> {
    control.check_write_lock(offset, length)?;
    let disk = control.disk()?;
    // Writing zeros takes long, so it is done in steps and stops if the handle is closed.
    let step = if disk.vfs.capabilities().features.punches { length } else { WRITTEN_AT_ONCE };
    change(control, || async {
        let mut done = 0;
        while done < length && !file.closed.load(Ordering::Acquire) {
            let count = step.min(length - done);
            file.node.set_extent(&file.op, Extent::Zero { offset: offset + done, length: count }).await?;
            done += count;
        }
        if done < length {
            return Err(Error::new(Status::FILE_CLOSED));
        }
        let metadata = file.node.metadata(&file.op).await?;
        if disk.share.sync.strict_allocate && !is_sparse(control, &metadata)? {
            fill(file, &metadata).await?;
        }
        Ok(())
    })
    .await
}

/// FSCTL_QUERY_ALLOCATED_RANGES (2.1.5.10.22).
pub(super) async fn allocated_ranges(control: &Control<'_>) -> Result<Output> {
    let file = control.file()?;
    let asked = FileAllocatedRange::decode(&mut Reader::new(control.asked.input))?;
    let end = asked.file_offset.checked_add(asked.length).filter(|&end| i64::try_from(end).is_ok());
    let (Some(end), Kind::File) = (end, file.kind) else {
        return Err(Error::because(Status::INVALID_PARAMETER, "not a valid range of a file"));
    };
    control.need_any(AccessMask::FILE_READ_DATA)?;
    let metadata = file.node.metadata(&file.op).await?;
    let end = end.min(metadata.size);
    let fit = control.space() / FileAllocatedRange::SIZE;
    let ranges = if asked.file_offset >= end {
        Vec::new()
    } else if is_sparse(control, &metadata)? {
        data_ranges(file, asked.file_offset, end, fit).await?
    } else {
        vec![DataRange { offset: asked.file_offset, length: end - asked.file_offset }]
    };
    let status = match ranges.len() {
        found if found <= fit => Status::SUCCESS,
        _ if fit == 0 => return Err(Error::new(Status::BUFFER_TOO_SMALL)),
        _ => Status::BUFFER_OVERFLOW,
    };
    Ok(Output::with(status, |out| {
        for range in ranges.iter().take(fit) {
            FileAllocatedRange { file_offset: range.offset, length: range.length }.encode(out);
        }
    }))
}

/// Returns the data ranges from `start` to `end`. More than `wanted` ranges mean that the answer does not fit.
async fn data_ranges(file: &FileOpen, start: u64, end: u64, wanted: usize) -> Result<Vec<DataRange>> {
    let (mut ranges, mut at) = (Vec::new(), start);
    while at < end && ranges.len() <= wanted {
        let more = file.node.data_ranges(&file.op, at, end - at).await?;
        let Some(last) = more.last() else { break };
        at = last.offset + last.length;
        ranges.extend(more);
    }
    Ok(ranges)
}

/// FSCTL_FILE_LEVEL_TRIM (2.1.5.10.6 and [MS-SMB2] 3.3.5.15.14). Trimmed ranges read as zeros.
pub(super) async fn trim(control: &Control<'_>) -> Result<Output> {
    let (file, disk) = (control.file()?, control.disk()?);
    let asked = FileLevelTrim::decode(&mut Reader::new(control.asked.input))?;
    if asked.key != 0 || asked.ranges.is_empty() || file.kind != Kind::File {
        return Err(Error::because(Status::INVALID_PARAMETER, "nonzero key, no ranges, or not a file"));
    }
    if control.space() != 0 {
        control.need_room(FileLevelTrimOutput::SIZE, Status::INVALID_PARAMETER)?;
    }
    control.need_any(AccessMask::FILE_WRITE_DATA)?;
    if !disk.vfs.capabilities().features.punches {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the file system does not support holes"));
    }
    let mut num_ranges_processed = 0;
    for range in &asked.ranges {
        let (start, end) = whole_pages(range).ok_or(Error::new(Status::INTEGER_OVERFLOW))?;
        let end = end.min(file.node.metadata(&file.op).await?.size / PAGE * PAGE);
        if start < end {
            zero_range(control, file, start, end - start).await?;
        }
        num_ranges_processed += 1;
    }
    let has_room = control.space() != 0;
    Ok(Output::new(|out| {
        if has_room {
            FileLevelTrimOutput { num_ranges_processed }.encode(out);
        }
    }))
}

/// Returns the start and end of the whole pages within a range; `None` if its end overflows.
fn whole_pages(range: &FileLevelTrimRange) -> Option<(u64, u64)> {
    let end = range.offset.checked_add(range.length)?;
    Some((range.offset.checked_next_multiple_of(PAGE)?, end / PAGE * PAGE))
}

#[cfg(test)]
mod tests {
    use proto::bytes::Writer;
    use proto::smb2::FileId;
    use proto::smb2::ioctl::FsctlCode;
    use proto::smb2::lock::LockFlags;

    use super::*;
    use crate::command::ioctl::testing::{ALL, EVERYTHING, Fixture};
    use crate::vfs::Features;

    fn set_sparse(fixture: &mut Fixture, file: FileId, input: &[u8]) -> Status {
        fixture.control(file, FsctlCode::SET_SPARSE, input, 0).0
    }

    fn pair(first: u64, second: u64) -> Vec<u8> {
        [first.to_le_bytes(), second.to_le_bytes()].concat()
    }

    fn zero(fixture: &mut Fixture, file: FileId, from: u64, to: u64) -> Status {
        fixture.control(file, FsctlCode::SET_ZERO_DATA, &pair(from, to), 0).0
    }

    /// Returns the allocated ranges, at most `space` of them.
    fn ranges(fixture: &mut Fixture, file: FileId, offset: u64, length: u64, space: u32) -> (Status, Vec<(u64, u64)>) {
        let (status, output) =
            fixture.control(file, FsctlCode::QUERY_ALLOCATED_RANGES, &pair(offset, length), space * 16);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        (status, output.chunks(16).map(|range| (number(&range[..8]), number(&range[8..]))).collect())
    }

    fn is_sparse(fixture: &mut Fixture, file: FileId) -> bool {
        fixture.attributes(file).contains(FileAttributes::SPARSE_FILE)
    }

    #[test]
    fn the_sparse_attribute_is_set_and_removed_and_persists() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", b"x");
        for (input, sparse) in [(&[][..], true), (&[0][..], false), (&[0xff; 100][..], true), (&[0; 100][..], false)] {
            assert_eq!(set_sparse(&mut fixture, file, input), Status::SUCCESS);
            assert_eq!(is_sparse(&mut fixture, file), sparse, "{input:?}");
        }
        assert_eq!(set_sparse(&mut fixture, file, &[1]), Status::SUCCESS);
        fixture.close(file);
        let again = fixture.open("file", ALL);
        assert!(is_sparse(&mut fixture, again));
        let directory = fixture.directory("directory");
        assert_eq!(set_sparse(&mut fixture, directory, &[]), Status::INVALID_PARAMETER);
    }

    #[test]
    fn rights_that_are_required() {
        // The right, and whether it permits setting the attribute, zeroing, and querying ranges.
        for (right, marks, zeroes, asks) in [
            (AccessMask::FILE_READ_DATA, false, false, true),
            (AccessMask::FILE_WRITE_DATA, true, true, false),
            (AccessMask::FILE_APPEND_DATA, true, false, false),
            (AccessMask::FILE_WRITE_ATTRIBUTES, true, false, false),
            (AccessMask::FILE_READ_ATTRIBUTES, false, false, false),
        ] {
            let mut fixture = Fixture::new();
            let made = fixture.file("file", &[1; 8192]);
            fixture.close(made);
            let file = fixture.open("file", right.0);
            let status = |allowed| if allowed { Status::SUCCESS } else { Status::ACCESS_DENIED };
            assert_eq!(set_sparse(&mut fixture, file, &[1]), status(marks), "{right:?} marks");
            assert_eq!(set_sparse(&mut fixture, file, &[0]), status(marks), "{right:?} unmarks");
            assert_eq!(zero(&mut fixture, file, 0, 10), status(zeroes), "{right:?} zeroes");
            assert_eq!(ranges(&mut fixture, file, 0, 10, 1).0, status(asks), "{right:?} queries");
        }
    }

    #[test]
    fn a_share_without_attributes_has_no_sparse_files() {
        let mut fixture = Fixture::with(EVERYTHING, |share| share.attributes.store_dos_attributes = false);
        let file = fixture.file("file", b"x");
        assert_eq!(set_sparse(&mut fixture, file, &[]), Status::INVALID_DEVICE_REQUEST);
    }

    #[test]
    fn zeros() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", &[1; 10_000]);
        for (from, to, expected) in [
            (5, 4, Status::INVALID_PARAMETER),
            (1 << 63, u64::MAX, Status::INVALID_PARAMETER),
            (0, 1 << 63, Status::INVALID_PARAMETER),
            (20_000, 30_000, Status::SUCCESS),
            (4, 4, Status::SUCCESS),
            (10, 5_000, Status::SUCCESS),
            (9_000, i64::MAX as u64, Status::SUCCESS),
        ] {
            assert_eq!(zero(&mut fixture, file, from, to), expected, "{from} to {to}");
        }
        let content = fixture.read(file);
        assert_eq!(content.len(), 10_000, "the size does not change");
        let zeroed = |at: usize| (10..5_000).contains(&at) || at >= 9_000;
        assert!(content.iter().enumerate().all(|(at, &byte)| (byte == 0) == zeroed(at)));
        assert_eq!(fixture.control(file, FsctlCode::SET_ZERO_DATA, &[0; 15], 0).0, Status::INVALID_PARAMETER);
    }

    #[test]
    fn locks_block_zeroing_and_trimming_but_not_queries() {
        let mut fixture = Fixture::new();
        let (file, other) = (fixture.file("file", &[1; 8192]), fixture.open("file", ALL));
        fixture.lock(other, 0, 4096, LockFlags::EXCLUSIVE_LOCK);
        assert_eq!(zero(&mut fixture, file, 4000, 5000), Status::FILE_LOCK_CONFLICT);
        assert_eq!(zero(&mut fixture, file, 4096, 5000), Status::SUCCESS);
        assert_eq!(trim(&mut fixture, file, 0, &[(0, 8192)], 4).0, Status::FILE_LOCK_CONFLICT);
        assert_eq!(set_sparse(&mut fixture, file, &[1]), Status::SUCCESS);
        assert_eq!(ranges(&mut fixture, file, 0, 4096, 1), (Status::SUCCESS, vec![(0, 4096)]));
        // A lock beyond the end of the file does not matter.
        fixture.lock(other, 8192, 100, LockFlags::EXCLUSIVE_LOCK);
        assert_eq!(zero(&mut fixture, file, 8192, 9000), Status::SUCCESS);
    }

    #[test]
    fn a_file_without_the_sparse_attribute_shows_no_holes() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", &[1; 12_288]);
        assert_eq!(zero(&mut fixture, file, 4096, 8192), Status::SUCCESS);
        assert_eq!(ranges(&mut fixture, file, 1, 20_000, 4), (Status::SUCCESS, vec![(1, 12_287)]));
        assert_eq!(set_sparse(&mut fixture, file, &[1]), Status::SUCCESS);
        let holey = (Status::SUCCESS, vec![(1, 4095), (8192, 4096)]);
        assert_eq!(ranges(&mut fixture, file, 1, 20_000, 4), holey);
        assert_eq!(set_sparse(&mut fixture, file, &[0]), Status::SUCCESS);
        assert_eq!(ranges(&mut fixture, file, 1, 20_000, 4), (Status::SUCCESS, vec![(1, 12_287)]));
    }

    #[test]
    fn files_that_cannot_be_filled_stay_sparse() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", b"x");
        assert_eq!(set_sparse(&mut fixture, file, &[1]), Status::SUCCESS);
        fixture.set_size(file, 1 << 40);
        assert_eq!(set_sparse(&mut fixture, file, &[0]), Status::DISK_FULL);
        assert!(is_sparse(&mut fixture, file));
        let other = fixture.file("other", &[1; 4096]);
        assert_eq!(fixture.read(other).len(), 4096, "space is left for other files");
    }

    #[test]
    fn ranges_that_do_not_fit() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", b"");
        assert_eq!(set_sparse(&mut fixture, file, &[1]), Status::SUCCESS);
        assert_eq!(ranges(&mut fixture, file, 0, 1024, 0), (Status::SUCCESS, vec![]), "no space is left");
        for at in 0..3 {
            fixture.write(file, at * 8192, &[1; 4096]);
        }
        assert_eq!(ranges(&mut fixture, file, 0, 1 << 20, 0), (Status::BUFFER_TOO_SMALL, vec![]));
        let (first, second, third) = ((0, 4096), (8192, 4096), (16_384, 4096));
        assert_eq!(ranges(&mut fixture, file, 0, 1 << 20, 2), (Status::BUFFER_OVERFLOW, vec![first, second]));
        assert_eq!(ranges(&mut fixture, file, 0, 1 << 20, 3), (Status::SUCCESS, vec![first, second, third]));
        assert_eq!(ranges(&mut fixture, file, 4096, 4096, 3), (Status::SUCCESS, vec![]), "a hole");
        assert_eq!(ranges(&mut fixture, file, 20_480, 10, 3), (Status::SUCCESS, vec![]), "beyond the end");
        assert_eq!(ranges(&mut fixture, file, 0, 0, 3), (Status::SUCCESS, vec![]));
        for (offset, length) in [(512, u64::MAX), (1 << 63, 0), (i64::MAX as u64, 1)] {
            assert_eq!(ranges(&mut fixture, file, offset, length, 3).0, Status::INVALID_PARAMETER, "{offset}");
        }
        let twice = [pair(0, 10), pair(0, 10)].concat();
        assert_eq!(fixture.control(file, FsctlCode::QUERY_ALLOCATED_RANGES, &twice, 64).0, Status::SUCCESS);
        let none = fixture.control(file, FsctlCode::QUERY_ALLOCATED_RANGES, &[], 64);
        assert_eq!(none.0, Status::INVALID_PARAMETER);
    }

    fn trim(fixture: &mut Fixture, file: FileId, key: u32, ranges: &[(u64, u64)], space: u32) -> (Status, Vec<u8>) {
        let ranges = ranges.iter().map(|&(offset, length)| FileLevelTrimRange { offset, length }).collect();
        let mut input = Vec::new();
        FileLevelTrim { key, ranges }.encode(&mut Writer::new(&mut input));
        fixture.control(file, FsctlCode::FILE_LEVEL_TRIM, &input, space)
    }

    #[test]
    fn whole_pages_are_trimmed() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", &[1; 20_000]);
        let done = |count: u32| (Status::SUCCESS, count.to_le_bytes().to_vec());
        assert_eq!(trim(&mut fixture, file, 0, &[(100, 10_000), (10, 20)], 4), done(2));
        let trimmed = |at: usize| (4096..8192).contains(&at);
        assert!(fixture.read(file).iter().enumerate().all(|(at, &byte)| (byte == 0) == trimmed(at)));
        assert_eq!(trim(&mut fixture, file, 0, &[(1 << 40, 1 << 40)], 0), (Status::SUCCESS, vec![]));
        for (key, ranges, space, expected) in [
            (1, &[(0, 4096)][..], 4, Status::INVALID_PARAMETER),
            (0, &[], 4, Status::INVALID_PARAMETER),
            (0, &[(0, 4096)], 3, Status::INVALID_PARAMETER),
            (0, &[(4096, u64::MAX)], 4, Status::INTEGER_OVERFLOW),
        ] {
            assert_eq!(trim(&mut fixture, file, key, ranges, space).0, expected, "{key} {ranges:?} {space}");
        }
        let mut fixture = Fixture::with(Features::default(), |_| ());
        let file = fixture.file("file", &[1; 8192]);
        assert_eq!(trim(&mut fixture, file, 0, &[(0, 8192)], 4).0, Status::INVALID_DEVICE_REQUEST);
        assert_eq!(fixture.read(file), [1; 8192]);
    }
}
