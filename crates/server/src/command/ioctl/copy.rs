//! Server-side copy ([MS-SMB2] 3.3.5.15.5, 3.3.5.15.6). The client identifies a source by the resume key of its open
//! and supplies ranges; the data does not leave the server.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::smb2::ioctl::{CopyChunk, CopyChunkCopy, CopyChunkResponse, FsctlCode, RequestResumeKeyResponse};
use proto::status::Status;

use super::{Control, Output, change, copyfile};
use crate::error::{Error, Result};
use crate::request::Reply;
use crate::state::open::{FileOpen, Open};
use crate::vfs::{self, Kind};

/// `ServerSideCopyMaxNumberofChunks`, `ServerSideCopyMaxChunkSize` and `ServerSideCopyMaxDataSize` (3.3.3), with the
/// values of Windows and Samba, because clients rely on them without querying.
const LIMITS: CopyChunkResponse =
    CopyChunkResponse { chunks_written: 256, chunk_bytes_written: 1 << 20, total_bytes_written: 16 << 20 };
/// The offset that means appending.
const END_OF_FILE: u64 = u64::MAX;

/// Returns the resume key (3.3.5.15.5), which is valid in this session only. It begins with the ids of the open, by
/// which the open is found. The rest is random, so that keys are unique even if ids repeat.
pub(super) fn resume_key(control: &Control<'_>) -> Result<Output> {
    let file = control.file()?;
    control.need_room(RequestResumeKeyResponse::SIZE, Status::INVALID_PARAMETER)?;
    let resume_key = *file.resume_key.get_or_init(|| {
        let mut key = [0; 24];
        key[..8].copy_from_slice(&control.open.persistent_id.to_le_bytes());
        key[8..16].copy_from_slice(&control.open.volatile_id.to_le_bytes());
        control.request.connection.server.environment.random(&mut key[16..]);
        key
    });
    Ok(Output::new(|out| RequestResumeKeyResponse { resume_key }.encode(out)))
}

/// Returns the open of this session with the resume key `key`.
fn source(control: &Control<'_>, key: &[u8; 24]) -> Result<Arc<Open>> {
    let id = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| key[at + byte]));
    let open = control.request.session()?.open(id(0), id(8));
    let named = |open: &Arc<Open>| open.file().is_some_and(|file| file.resume_key.get() == Some(key));
    open.filter(named).ok_or(Error::because(Status::OBJECT_NAME_NOT_FOUND, "no open has this resume key"))
}

/// Copies chunks (3.3.5.15.6).
pub(super) async fn copy_chunks(control: &Control<'_>, reply: &mut Reply) -> Result<Output> {
    let target = control.file()?;
    control.need_room(CopyChunkResponse::SIZE, Status::INVALID_PARAMETER)?;
    let Ok(copy) = CopyChunkCopy::decode(control.asked.input) else { return Ok(beyond_limits()) };
    let source = source(control, &copy.source_key)?;
    let Some(from) = source.file() else { return Ok(beyond_limits()) };
    if !within_limits(&copy.chunks) {
        return Ok(beyond_limits());
    }
    check_access(control, &source)?;
    if from.kind != Kind::File || target.kind != Kind::File {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "only files can be copied"));
    }
    let mut written = CopyChunkResponse::default();
    let outcome = match check_locks(control, &source, &copy.chunks) {
        Ok(()) if copy.chunks.is_empty() && copyfile::is_asked_for(control) => {
            let copied = copyfile::copy(control, reply, &source, from).await;
            copied.map(|copied| written.total_bytes_written = u32::try_from(copied).unwrap_or(u32::MAX))
        }
        Ok(()) if copy.chunks.is_empty() => Ok(()),
        Ok(()) => change(control, || copy_all(control, &source, from, &copy.chunks, &mut written)).await,
        Err(error) => Err(error),
    };
    // 3.3.5.15.6.1: an error response contains how much was copied.
    let status = outcome.map_or_else(|error| error.status, |()| Status::SUCCESS);
    Ok(Output::with(status, |out| written.encode(out)).copied(written.total_bytes_written.into()))
}

/// Returns the response to a request above the limits, which contains them (3.3.5.15.6.2).
fn beyond_limits() -> Output {
    Output::with(Status::INVALID_PARAMETER, |out| LIMITS.encode(out))
}

fn within_limits(chunks: &[CopyChunk]) -> bool {
    let fits = |chunk: &CopyChunk| {
        let reaches = |offset: u64| i64::try_from(offset).is_ok_and(|at| at.checked_add(chunk.length.into()).is_some());
        (1..=LIMITS.chunk_bytes_written).contains(&chunk.length)
            && (chunk.target_offset == END_OF_FILE || reaches(chunk.target_offset))
    };
    let total: u64 = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
    chunks.len() <= LIMITS.chunks_written as usize
        && total <= u64::from(LIMITS.total_bytes_written)
        && chunks.iter().all(fits)
}

fn check_access(control: &Control<'_>, source: &Open) -> Result<()> {
    if let Some(target) = control.open.file() {
        target.not_replaced()?;
    }
    // As for READ, execution includes reading. SRV_COPYCHUNK also requires the right to read the target.
    let reads = source.granted.0 & (AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0) != 0;
    let writes = control.open.granted.0 & (AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0) != 0;
    let reads_back = control.open.granted.0 & AccessMask::FILE_READ_DATA.0 != 0;
    let must_read_back = control.asked.ctl_code == FsctlCode::SRV_COPYCHUNK;
    if reads && writes && (reads_back || !must_read_back) { Ok(()) } else { Err(Error::new(Status::ACCESS_DENIED)) }
}

/// Checks locks on all chunks, so that nothing is copied if any of them is locked.
fn check_locks(control: &Control<'_>, source: &Open, chunks: &[CopyChunk]) -> Result<()> {
    let server = &control.request.connection.server;
    let permits = |chunk: &CopyChunk| {
        let length = u64::from(chunk.length);
        source.may_read(server, chunk.source_offset, length)
            && (chunk.target_offset == END_OF_FILE || control.open.may_write(server, chunk.target_offset, length))
    };
    if chunks.iter().all(permits) { Ok(()) } else { Err(Error::new(Status::FILE_LOCK_CONFLICT)) }
}

async fn copy_all(
    control: &Control<'_>,
    source: &Open,
    from: &FileOpen,
    chunks: &[CopyChunk],
    written: &mut CopyChunkResponse,
) -> Result<()> {
    let target = control.file()?;
    for chunk in chunks {
        let length = u64::from(chunk.length);
        let size = from.node.metadata(&from.op).await?.size;
        if chunk.source_offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::because(Status::INVALID_VIEW_SIZE, "the source ends before the requested range"));
        }
        let mut appends = None;
        let offset = match chunk.target_offset {
            END_OF_FILE => {
                appends = Some(control.request.connection.server.opens.appends.take(target.file).await);
                target.node.metadata(&target.op).await?.size
            }
            offset => offset,
        };
        // Checked again, because a lock may have been set meanwhile.
        check_locks(control, source, &[CopyChunk { target_offset: offset, ..*chunk }])?;
        let copied = vfs::copy_range(&target.op, &from.node, chunk.source_offset, &target.node, offset, length);
        let copied = copied.await?;
        drop(appends);
        written.total_bytes_written += copied as u32;
        if copied < length {
            written.chunk_bytes_written = copied as u32;
            return Err(Error::because(Status::INVALID_VIEW_SIZE, "the source was truncated during the copy"));
        }
        written.chunks_written += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proto::bytes::Writer;
    use proto::smb2::FileId;
    use proto::smb2::lock::LockFlags;

    use super::*;
    use crate::command::ioctl::testing::{ALL, Fixture};

    fn key(fixture: &mut Fixture, file: FileId) -> [u8; 24] {
        let (status, output) = fixture.control(file, FsctlCode::SRV_REQUEST_RESUME_KEY, &[], 32);
        assert_eq!((status, output.len()), (Status::SUCCESS, 32));
        RequestResumeKeyResponse::decode(&output).expect("the buffer is long enough").resume_key
    }

    fn chunk(source_offset: u64, target_offset: u64, length: u32) -> CopyChunk {
        CopyChunk { source_offset, target_offset, length }
    }

    fn input(source_key: [u8; 24], chunks: &[CopyChunk]) -> Vec<u8> {
        let mut input = Vec::new();
        CopyChunkCopy { source_key, chunks: chunks.to_vec() }.encode(&mut Writer::new(&mut input));
        input
    }

    /// Copies; returns the status, the number of chunks, the bytes of the last chunk and the total bytes.
    fn copy(fixture: &mut Fixture, key: [u8; 24], to: FileId, chunks: &[CopyChunk]) -> (Status, [u32; 3]) {
        let (status, output) = fixture.control(to, FsctlCode::SRV_COPYCHUNK, &input(key, chunks), 12);
        let written = CopyChunkResponse::decode(&output).unwrap_or_default();
        (status, [written.chunks_written, written.chunk_bytes_written, written.total_bytes_written])
    }

    const NAMES_LIMITS: (Status, [u32; 3]) = (Status::INVALID_PARAMETER, [256, 1 << 20, 16 << 20]);

    #[test]
    fn chunks_are_copied_in_their_order() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", b"0123456789"), fixture.file("to", b"abc"));
        let key = key(&mut fixture, from);
        let chunks = [chunk(0, 1, 4), chunk(8, 2, 2), chunk(5, END_OF_FILE, 1)];
        assert_eq!(copy(&mut fixture, key, to, &chunks), (Status::SUCCESS, [3, 0, 7]));
        assert_eq!(fixture.read(to), b"a08935");
    }

    #[test]
    fn requests_over_the_limits_are_answered_with_the_limits() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &[7; 4096]), fixture.file("to", b""));
        let key = key(&mut fixture, from);
        for chunks in [
            vec![chunk(0, 0, (1 << 20) + 1)],
            vec![chunk(0, 0, 0)],
            vec![chunk(0, 0, 1); 257],
            vec![chunk(0, 0, 1 << 20); 17],
            vec![chunk(0, 1 << 63, 1)],
            vec![chunk(0, i64::MAX as u64, 1)],
        ] {
            assert_eq!(copy(&mut fixture, key, to, &chunks), NAMES_LIMITS, "{:?}", chunks.first());
        }
        let whole = input(key, &[chunk(0, 0, 1); 2]);
        let cut = fixture.control(to, FsctlCode::SRV_COPYCHUNK, &whole[..whole.len() - 1], 12);
        assert_eq!((cut.0, cut.1.len()), (Status::INVALID_PARAMETER, 12));
        let no_room = fixture.control(to, FsctlCode::SRV_COPYCHUNK, &whole, 11);
        assert_eq!(no_room, (Status::INVALID_PARAMETER, Vec::new()));
        assert_eq!(fixture.read(to), b"");
    }

    #[test]
    fn a_source_that_ends_early_returns_the_copied_length() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", b"0123456789"), fixture.file("to", b""));
        let key = key(&mut fixture, from);
        let chunks = [chunk(0, 0, 4), chunk(7, 4, 4), chunk(0, 8, 1)];
        assert_eq!(copy(&mut fixture, key, to, &chunks), (Status::INVALID_VIEW_SIZE, [1, 0, 4]));
        assert_eq!(fixture.read(to), b"0123");
        let far = [chunk(u64::MAX - 2, 0, 4)];
        assert_eq!(copy(&mut fixture, key, to, &far), (Status::INVALID_VIEW_SIZE, [0, 0, 0]));
    }

    #[test]
    fn a_resume_key_is_valid_for_its_open_and_session() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", b"secret"), fixture.file("to", b""));
        let good = key(&mut fixture, from);
        assert_eq!(key(&mut fixture, from), good, "requested again");
        let check = |key: [u8; 24], fixture: &mut Fixture, to: FileId| {
            assert_eq!(copy(fixture, key, to, &[chunk(0, 0, 6)]), (Status::OBJECT_NAME_NOT_FOUND, [0; 3]));
        };
        let mut guessed = good;
        guessed[23] ^= 1;
        check(guessed, &mut fixture, to);
        check([0; 24], &mut fixture, to);
        let mut other = fixture.another("bob");
        let theirs = other.file("theirs", b"");
        check(good, &mut other, theirs);
        fixture.close(from);
        check(good, &mut fixture, to);
    }

    #[test]
    fn rights_are_needed_on_both_sides() {
        const READ: u32 = 0x0012_0089;
        const WRITE: u32 = 0x0012_0196;
        const EXECUTE: u32 = 0x0012_00a0;
        let check = |source: u32, target: u32, code: FsctlCode, expected: Status| {
            let mut fixture = Fixture::new();
            let (made, _) = (fixture.file("from", b"x"), fixture.file("to", b""));
            fixture.close(made);
            let (from, to) = (fixture.open("from", source), fixture.open("to", target));
            let key = key(&mut fixture, from);
            let (status, _) = fixture.control(to, code, &input(key, &[chunk(0, 0, 1)]), 12);
            assert_eq!(status, expected, "{source:#x} {target:#x} {code:?}");
        };
        for (source, target, copies, copies_to_write) in [
            (READ, ALL, Status::SUCCESS, Status::SUCCESS),
            (EXECUTE, ALL, Status::SUCCESS, Status::SUCCESS),
            (WRITE, ALL, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
            (READ, READ, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
            (READ, WRITE, Status::ACCESS_DENIED, Status::SUCCESS),
        ] {
            check(source, target, FsctlCode::SRV_COPYCHUNK, copies);
            check(source, target, FsctlCode::SRV_COPYCHUNK_WRITE, copies_to_write);
        }
    }

    #[test]
    fn a_lock_on_either_side_stops_all_of_it() {
        for locked in ["from", "to"] {
            let mut fixture = Fixture::new();
            let (from, to) = (fixture.file("from", b"0123456789"), fixture.file("to", b""));
            let key = key(&mut fixture, from);
            let other = fixture.open(locked, ALL);
            fixture.lock(other, 5, 1, LockFlags::EXCLUSIVE_LOCK);
            let chunks = [chunk(0, 0, 5), chunk(5, 5, 5)];
            assert_eq!(copy(&mut fixture, key, to, &chunks), (Status::FILE_LOCK_CONFLICT, [0; 3]), "{locked}");
            fixture.lock(other, 5, 1, LockFlags::UNLOCK);
            assert_eq!(copy(&mut fixture, key, to, &chunks), (Status::SUCCESS, [2, 0, 10]), "{locked}");
        }
    }
}
