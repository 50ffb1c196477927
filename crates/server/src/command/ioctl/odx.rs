//! Offloaded copies (ODX, [MS-FSA] 2.1.5.10.20, 2.1.5.10.21): the client obtains a token for a range and writes it
//! elsewhere.
//!
//! The file system clones the blocks, or the kernel copies them, where the specification delegates to the storage.
//! [`state::odx`](crate::state::odx) has the tokens and the conditions under which they are valid.

use std::sync::Arc;
use std::time::Duration;

use proto::bytes::Reader;
use proto::dtyp::AccessMask;
use proto::fscc::{
    FileAttributes, OffloadReadFlags, OffloadReadInput, OffloadReadOutput, OffloadTokenType, OffloadWriteInput,
    OffloadWriteOutput, StorageOffloadToken,
};
use proto::status::Status;

use super::{Control, Output, change};
use crate::accounting::Resource;
use crate::attributes;
use crate::error::{Error, Result};
use crate::state::odx::{FileState, Secret, Token};
use crate::state::open::FileOpen;
use crate::vfs::{self, CopyRange, Extent, FileId, Kind, Metadata};

/// `LogicalBytesPerSector`: the alignment of offsets and lengths.
const SECTOR: u64 = 512;
/// Bytes copied by one request if blocks cannot be cloned. The client requests the rest again and can show progress.
const AT_ONCE: u64 = 64 << 20;
/// The type of this server's tokens: any number below the well-known ones.
const OURS: OffloadTokenType = OffloadTokenType(0x4672_6576);

/// FSCTL_OFFLOAD_READ (2.1.5.10.20).
pub(super) async fn read(control: &Control<'_>) -> Result<Output> {
    let file = control.file()?;
    let asked = OffloadReadInput::decode(&mut Reader::new(control.asked.input))
        .map_err(|_| Error::new(Status::BUFFER_TOO_SMALL))?;
    control.need_room(OffloadReadOutput::SIZE, Status::BUFFER_TOO_SMALL)?;
    check_size(asked.size, OffloadReadInput::SIZE)?;
    check_range(&[asked.file_offset, asked.copy_length], asked.file_offset, asked.copy_length)?;
    if asked.copy_length == 0 {
        return Ok(Output::new(|_| ()));
    }
    control.need_any(AccessMask::FILE_READ_DATA)?;
    let metadata = file.node.metadata(&file.op).await?;
    if !is_plain(control, file, &metadata)? {
        return Err(Error::new(Status::OFFLOAD_READ_FILE_NOT_SUPPORTED));
    }
    let server = &control.request.connection.server;
    if !control.open.may_read(server, asked.file_offset, asked.copy_length) {
        return Err(Error::new(Status::FILE_LOCK_CONFLICT));
    }
    let left = metadata.size.checked_sub(asked.file_offset).filter(|left| *left > 0);
    let left = left.ok_or(Error::because(Status::END_OF_FILE, "the range begins beyond the end of the file"))?;
    // The last sector is included as a whole; bytes beyond the end of the file are zeros.
    let to_the_end = left.next_multiple_of(SECTOR);
    let transfer_length = asked.copy_length.min(to_the_end);
    let reaches_end = asked.copy_length >= to_the_end;
    let token = issue(control, file, (asked.file_offset, transfer_length), &metadata, asked.token_time_to_live)?;
    let output = OffloadReadOutput {
        size: OffloadReadOutput::SIZE as u32,
        flags: if reaches_end { OffloadReadFlags::ALL_ZERO_BEYOND_CURRENT_RANGE } else { OffloadReadFlags::NONE },
        transfer_length,
        token,
    };
    Ok(Output::new(|out| output.encode(out)))
}

/// Issues a token. `life` is the requested lifetime in milliseconds; 0 selects the default.
fn issue(
    control: &Control<'_>,
    file: &FileOpen,
    range: (u64, u64),
    metadata: &Metadata,
    life: u32,
) -> Result<StorageOffloadToken> {
    let server = &control.request.connection.server;
    let limits = &server.policy().limits;
    let wish = if life == 0 { limits.offload_token_life } else { Duration::from_millis(life.into()) };
    let mut secret = Secret::default();
    server.environment.random(&mut secret);
    let now = server.environment.uptime();
    let session = control.request.session()?;
    let charge = session.payer().charge(Resource::OffloadTokens, 1).or_else(|_| {
        server.opens.offloads.remove_ended(now);
        session.payer().charge(Resource::OffloadTokens, 1)
    })?;
    let token = Token {
        source: Arc::downgrade(&control.open),
        offset: range.0,
        length: range.1,
        state: FileState::from(metadata),
        secret,
        session: session.id,
        _charge: Arc::new(charge),
        expires: now + wish.min(limits.offload_token_life),
    };
    server.opens.offloads.issue(file.file, token, limits);
    let FileId { device, inode, stream } = file.file;
    let mut token_id = [0; StorageOffloadToken::ID_SIZE];
    token_id[..16].copy_from_slice(&secret);
    for (bytes, number) in token_id[16..40].chunks_exact_mut(8).zip([device, inode, stream]) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    Ok(StorageOffloadToken { token_type: OURS, token_id })
}

/// Returns the token that the client presents, if it is valid now.
fn find(control: &Control<'_>, shown: &StorageOffloadToken) -> Result<Token> {
    let id = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| shown.token_id[at + byte]));
    let secret = std::array::from_fn(|byte| shown.token_id[byte]);
    let file = FileId { device: id(16), inode: id(24), stream: id(32) };
    let server = &control.request.connection.server;
    let session = control.request.session()?.id;
    let found = server.opens.offloads.find(file, &secret, session, server.environment.uptime());
    found.filter(|_| shown.token_type == OURS).ok_or(Error::new(Status::INVALID_TOKEN))
}

/// FSCTL_OFFLOAD_WRITE (2.1.5.10.21).
pub(super) async fn write(control: &Control<'_>) -> Result<Output> {
    let file = control.file()?;
    let asked = OffloadWriteInput::decode(&mut Reader::new(control.asked.input))
        .map_err(|_| Error::new(Status::BUFFER_TOO_SMALL))?;
    control.need_room(OffloadWriteOutput::SIZE, Status::BUFFER_TOO_SMALL)?;
    check_size(asked.size, OffloadWriteInput::SIZE)?;
    let aligned = [asked.file_offset, asked.copy_length, asked.transfer_offset];
    check_range(&aligned, asked.file_offset, asked.copy_length)?;
    if asked.copy_length == 0 {
        return Ok(Output::new(|_| ()));
    }
    control.need_any(AccessMask::FILE_WRITE_DATA)?;
    let metadata = file.node.metadata(&file.op).await?;
    if !is_plain(control, file, &metadata)? {
        return Err(Error::new(Status::OFFLOAD_WRITE_FILE_NOT_SUPPORTED));
    }
    let left = metadata.size.checked_sub(asked.file_offset).filter(|left| *left > 0);
    let left = left.ok_or(Error::because(Status::END_OF_FILE, "the range begins beyond the end of the file"))?;
    let wanted = asked.copy_length.min(left);
    let written = if asked.token.token_type == OffloadTokenType::ZERO_DATA {
        control.check_write_lock(asked.file_offset, wanted)?;
        change(control, || async {
            Ok(file.node.set_extent(&file.op, Extent::Zero { offset: asked.file_offset, length: wanted }).await?)
        })
        .await?;
        wanted
    } else {
        write_token(control, file, &asked, wanted).await?
    };
    // The last sector is included as a whole here too, although the file does not grow.
    let length_written = written.next_multiple_of(SECTOR);
    let output = OffloadWriteOutput { size: OffloadWriteOutput::SIZE as u32, length_written };
    Ok(Output::new(|out| output.encode(out)).copied(written))
}

/// Writes at most `wanted` bytes of a token's range; returns how many.
async fn write_token(control: &Control<'_>, target: &FileOpen, asked: &OffloadWriteInput, wanted: u64) -> Result<u64> {
    let gone = || Error::because(Status::INVALID_TOKEN, "the token is invalid because the file was changed or closed");
    let token = find(control, &asked.token)?;
    let source = token.source.upgrade().ok_or_else(gone)?;
    let from = source.file().ok_or_else(gone)?;
    let metadata = from.node.metadata(&from.op).await?;
    if FileState::from(&metadata) != token.state {
        return Err(gone());
    }
    let available = token.length.checked_sub(asked.transfer_offset).filter(|left| *left > 0);
    let available =
        available.ok_or(Error::because(Status::INVALID_PARAMETER, "the range begins beyond the data of the token"))?;
    let (offset, wanted) = (token.offset + asked.transfer_offset, wanted.min(available));
    if !source.may_read(&control.request.connection.server, offset, wanted) {
        return Err(Error::new(Status::FILE_LOCK_CONFLICT));
    }
    control.check_write_lock(asked.file_offset, wanted)?;
    let data = wanted.min(metadata.size.saturating_sub(offset));
    let write = || async {
        let copied = copy(control, from, offset, target, asked.file_offset, data).await?;
        if copied == data && data < wanted {
            let zero = Extent::Zero { offset: asked.file_offset + data, length: wanted - data };
            target.node.set_extent(&target.op, zero).await?;
        }
        Ok(copied)
    };
    let copied = change(control, write).await?;
    if copied < data {
        return Ok(copied);
    }
    // If the source was written during the copy, the copied data is not what the token represents.
    if from.file != target.file && FileState::from(&from.node.metadata(&from.op).await?) != token.state {
        return Err(gone());
    }
    Ok(wanted)
}

/// Clones as many blocks as possible and copies the rest, or a part of it that does not take long.
async fn copy(
    control: &Control<'_>,
    from: &FileOpen,
    source: u64,
    target: &FileOpen,
    offset: u64,
    length: u64,
) -> Result<u64> {
    let (vfs, op) = (&control.disk()?.vfs, &target.op);
    let mut done = 0;
    if vfs.capabilities().features.clones {
        let block = u64::from(target.node.space(op).await?.block_size);
        let whole = length - length % block;
        let range = CopyRange { source, offset, length: whole, share: true };
        let shared = target.node.copy(op, &from.node, range).await;
        done = if shared.is_ok() { whole } else { 0 };
    }
    let rest = (length - done).min(AT_ONCE);
    if rest > 0 {
        done += vfs::copy_range(op, &from.node, source + done, &target.node, offset + done, rest).await?;
    }
    Ok(done)
}

fn check_size(said: u32, size: usize) -> Result<()> {
    if said as usize == size {
        Ok(())
    } else {
        Err(Error::because(Status::INVALID_PARAMETER, "unexpected structure size"))
    }
}

/// Checks that all numbers are sector-aligned, and that the range fits into the largest possible file.
fn check_range(aligned: &[u64], offset: u64, length: u64) -> Result<()> {
    let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
    if end.is_none() || !aligned.iter().all(|number| number.is_multiple_of(SECTOR)) {
        return Err(Error::because(
            Status::INVALID_PARAMETER,
            "the range is not sector-aligned or exceeds the maximum file size",
        ));
    }
    Ok(())
}

/// Returns whether offloaded copies support the file: not a directory, not sparse, not compressed.
fn is_plain(control: &Control<'_>, file: &FileOpen, metadata: &Metadata) -> Result<bool> {
    let shown = attributes::file_attributes(control.disk()?, None, metadata);
    Ok(file.kind == Kind::File && shown.0 & (FileAttributes::SPARSE_FILE.0 | FileAttributes::COMPRESSED.0) == 0)
}

#[cfg(test)]
mod tests {
    use proto::bytes::Writer;
    use proto::smb2::ioctl::FsctlCode;
    use proto::smb2::lock::LockFlags;

    use super::*;
    use crate::command::ioctl::testing::{ALL, EVERYTHING, Fixture};
    use crate::vfs::Features;

    type Handle = proto::smb2::FileId;
    /// An action that invalidates a token.
    type Spoil = fn(&mut Fixture, Handle);

    /// Requests a token; returns the number of bytes, whether zeros follow, and the token.
    fn read(fixture: &mut Fixture, file: Handle, offset: u64, length: u64) -> (Status, u64, bool, StorageOffloadToken) {
        read_for(fixture, file, offset, length, 0)
    }

    fn read_for(
        fixture: &mut Fixture,
        file: Handle,
        file_offset: u64,
        copy_length: u64,
        token_time_to_live: u32,
    ) -> (Status, u64, bool, StorageOffloadToken) {
        let mut input = Vec::new();
        OffloadReadInput { size: 32, token_time_to_live, file_offset, copy_length }
            .encode(&mut Writer::new(&mut input));
        let (status, output) = fixture.control(file, FsctlCode::OFFLOAD_READ, &input, 528);
        let read = OffloadReadOutput::decode(&mut Reader::new(&output)).unwrap_or_default();
        let zeros = read.flags.contains(OffloadReadFlags::ALL_ZERO_BEYOND_CURRENT_RANGE);
        (status, read.transfer_length, zeros, read.token)
    }

    fn token(fixture: &mut Fixture, file: Handle, offset: u64, length: u64) -> StorageOffloadToken {
        let (status, _, _, token) = read(fixture, file, offset, length);
        assert_eq!(status, Status::SUCCESS);
        token
    }

    /// Writes a token's data from `transfer_offset` on; returns the number of bytes written.
    fn write(
        fixture: &mut Fixture,
        file: Handle,
        (file_offset, copy_length, transfer_offset): (u64, u64, u64),
        token: StorageOffloadToken,
    ) -> (Status, u64) {
        let mut input = Vec::new();
        OffloadWriteInput { size: 544, file_offset, copy_length, transfer_offset, token }
            .encode(&mut Writer::new(&mut input));
        let (status, output) = fixture.control(file, FsctlCode::OFFLOAD_WRITE, &input, 16);
        (status, OffloadWriteOutput::decode(&mut Reader::new(&output)).unwrap_or_default().length_written)
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 253) as u8 + 1).collect()
    }

    #[test]
    fn a_token_is_copied_with_and_without_shared_blocks() {
        for features in [EVERYTHING, Features::default()] {
            let mut fixture = Fixture::with(features, |_| ());
            let from = fixture.file("from", &content(10_000));
            let to = fixture.file("to", b"");
            fixture.set_size(to, 10_000);
            let (status, length, zeros, token) = read(&mut fixture, from, 0, 1 << 20);
            assert_eq!((status, length, zeros), (Status::SUCCESS, 10_240, true), "whole sectors");
            assert_eq!(write(&mut fixture, to, (0, 4096, 0), token), (Status::SUCCESS, 4096));
            assert_eq!(write(&mut fixture, to, (4096, 1 << 20, 4096), token), (Status::SUCCESS, 6144));
            assert!(fixture.read(to) == content(10_000));
        }
    }

    #[test]
    fn data_beyond_the_end_of_the_source_is_zeros() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(700)), fixture.file("to", &[9; 2048]));
        let (_, length, zeros, token) = read(&mut fixture, from, 512, 512);
        assert_eq!((length, zeros), (512, true));
        assert_eq!(write(&mut fixture, to, (512, 1024, 0), token), (Status::SUCCESS, 512));
        let expected = [&[9; 512][..], &content(700)[512..], &[0; 324], &[9; 1024]].concat();
        assert!(fixture.read(to) == expected);
    }

    #[test]
    fn the_token_for_zeros_need_not_be_issued_by_the_server() {
        let mut fixture = Fixture::new();
        let to = fixture.file("to", &[9; 2000]);
        let zeros = StorageOffloadToken { token_type: OffloadTokenType::ZERO_DATA, token_id: [3; 504] };
        assert_eq!(write(&mut fixture, to, (1024, 4096, 512), zeros), (Status::SUCCESS, 1024));
        assert!(fixture.read(to) == [&[9; 1024][..], &[0; 976]].concat());
    }

    #[test]
    fn a_token_ends_when_its_data_changes() {
        let spoil: [(&str, Spoil); 4] = [
            ("a write", |fixture, from| fixture.write(from, 5000, b"x")),
            ("a truncation", |fixture, from| fixture.set_size(from, 100)),
            ("a close", |fixture, from| fixture.close(from)),
            ("a change by another user", |fixture, _| fixture.write_locally("from", b"y")),
        ];
        for (why, spoil) in spoil {
            let mut fixture = Fixture::new();
            let (from, to) = (fixture.file("from", &content(8192)), fixture.file("to", &[9; 8192]));
            let token = token(&mut fixture, from, 0, 8192);
            spoil(&mut fixture, from);
            assert_eq!(write(&mut fixture, to, (0, 4096, 0), token).0, Status::INVALID_TOKEN, "{why}");
            assert!(fixture.read(to) == [9; 8192], "{why}");
        }
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(8192)), fixture.file("to", &[9; 8192]));
        let (.., token) = read_for(&mut fixture, from, 0, 8192, 1);
        // The tests' clock advances with each open.
        fixture.file("another", b"");
        assert_eq!(write(&mut fixture, to, (0, 4096, 0), token).0, Status::INVALID_TOKEN, "the token has expired");
    }

    #[test]
    fn a_token_is_valid_for_its_session_and_cannot_be_guessed() {
        let mut fixture = Fixture::new();
        let from = fixture.file("from", &content(4096));
        let good = token(&mut fixture, from, 0, 4096);
        let mut other = fixture.another("bob");
        let theirs = other.file("theirs", &[9; 4096]);
        assert_eq!(write(&mut other, theirs, (0, 4096, 0), good).0, Status::INVALID_TOKEN);
        let to = fixture.file("to", &[9; 4096]);
        for at in [0, 15, 16, 24, 32] {
            let mut guessed = good;
            guessed.token_id[at] ^= 1;
            assert_eq!(write(&mut fixture, to, (0, 4096, 0), guessed).0, Status::INVALID_TOKEN, "{at}");
        }
        let of_another_kind = StorageOffloadToken { token_type: OffloadTokenType(7), ..good };
        assert_eq!(write(&mut fixture, to, (0, 4096, 0), of_another_kind).0, Status::INVALID_TOKEN);
        assert_eq!(write(&mut fixture, to, (0, 4096, 0), good).0, Status::SUCCESS);
    }

    #[test]
    fn the_tokens_of_an_open_are_bounded() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(4096)), fixture.file("to", &[9; 4096]));
        let limit = fixture.server.policy().limits.offload_tokens_per_open;
        let tokens: Vec<_> = (0..=limit).map(|_| token(&mut fixture, from, 0, 4096)).collect();
        assert_eq!(
            write(&mut fixture, to, (0, 512, 0), tokens[0]).0,
            Status::INVALID_TOKEN,
            "the oldest token was dropped"
        );
        for token in &tokens[1..] {
            assert_eq!(write(&mut fixture, to, (0, 512, 0), *token).0, Status::SUCCESS);
        }
    }

    #[test]
    fn requests_that_are_refused() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(8192)), fixture.file("to", &[9; 8192]));
        for (offset, length, expected) in [
            (1, 512, Status::INVALID_PARAMETER),
            (0, 513, Status::INVALID_PARAMETER),
            (0, u64::MAX - 511, Status::INVALID_PARAMETER),
            (8192, 512, Status::END_OF_FILE),
            (0, 0, Status::SUCCESS),
        ] {
            assert_eq!(read(&mut fixture, from, offset, length).0, expected, "{offset} {length}");
        }
        let token = token(&mut fixture, from, 0, 4096);
        for (range, expected) in [
            ((1, 512, 0), Status::INVALID_PARAMETER),
            ((0, 513, 0), Status::INVALID_PARAMETER),
            ((0, 512, 1), Status::INVALID_PARAMETER),
            ((0, 512, 4096), Status::INVALID_PARAMETER),
            ((8192, 512, 0), Status::END_OF_FILE),
            ((0, 0, 0), Status::SUCCESS),
        ] {
            assert_eq!(write(&mut fixture, to, range, token).0, expected, "{range:?}");
        }
        for (code, size) in [(FsctlCode::OFFLOAD_READ, 32), (FsctlCode::OFFLOAD_WRITE, 544)] {
            assert_eq!(fixture.control(to, code, &vec![0; size - 1], 528).0, Status::BUFFER_TOO_SMALL);
            assert_eq!(fixture.control(to, code, &vec![0; size], 15).0, Status::BUFFER_TOO_SMALL);
            assert_eq!(fixture.control(to, code, &vec![0; size], 528).0, Status::INVALID_PARAMETER);
        }
        let (reader, writer) = (fixture.open("from", 0x0012_0089), fixture.open("from", 0x0012_0116));
        assert_eq!(read(&mut fixture, writer, 0, 512).0, Status::ACCESS_DENIED);
        assert_eq!(write(&mut fixture, reader, (0, 512, 0), token).0, Status::ACCESS_DENIED);
        let sparse = fixture.file("sparse", &content(4096));
        assert_eq!(fixture.control(sparse, FsctlCode::SET_SPARSE, &[], 0).0, Status::SUCCESS);
        let directory = fixture.directory("directory");
        for handle in [sparse, directory] {
            assert_eq!(read(&mut fixture, handle, 0, 512).0, Status::OFFLOAD_READ_FILE_NOT_SUPPORTED);
            assert_eq!(write(&mut fixture, handle, (0, 512, 0), token).0, Status::OFFLOAD_WRITE_FILE_NOT_SUPPORTED);
        }
    }

    #[test]
    fn locks_on_both_sides_are_honoured() {
        let mut fixture = Fixture::new();
        let (from, to) = (fixture.file("from", &content(4096)), fixture.file("to", &[9; 4096]));
        let before = token(&mut fixture, from, 0, 4096);
        let other = fixture.open("to", ALL);
        fixture.lock(other, 100, 1, LockFlags::EXCLUSIVE_LOCK);
        assert_eq!(write(&mut fixture, to, (0, 512, 0), before).0, Status::FILE_LOCK_CONFLICT);
        assert_eq!(write(&mut fixture, to, (512, 512, 0), before).0, Status::SUCCESS);
        let other = fixture.open("from", ALL);
        fixture.lock(other, 100, 1, LockFlags::EXCLUSIVE_LOCK);
        assert_eq!(read(&mut fixture, from, 0, 512).0, Status::FILE_LOCK_CONFLICT);
        assert_eq!(read(&mut fixture, from, 512, 512).0, Status::SUCCESS);
    }
}
