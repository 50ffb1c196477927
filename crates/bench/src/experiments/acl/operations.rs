//! The operations of SPECsfs2008's NFS mix, their equivalents over SMB, and the choice of their files.
//!
//! NFS has no opens, so every request here opens, operates and closes in one round trip, and the server checks access
//! each time, like an NFS server. READLINK is an open of a name that could be a link, because links are not sent over
//! SMB.

use client::{Access, Client, Open};
use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::{AccessMask, FileTime};
use proto::fscc::{FileBasicInformation, FileInformationClass, FsInformationClass};
use proto::smb2::InfoType;
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::smb2::query_directory::QueryDirectoryRequest;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::set_info::SetInfoRequest;

use crate::random::Random;

/// Size of each file and of a READ, in bytes.
pub(super) const FILE_SIZE: u32 = 16 << 10;
/// Size of a WRITE, in bytes.
const WRITE_SIZE: u32 = 8 << 10;
/// Buffer size that suffices for a directory of the experiment.
const LISTING_SIZE: u32 = 64 << 10;

/// An NFS operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Lookup,
    Read,
    Write,
    GetAttr,
    ReadLink,
    ReadDir,
    Create,
    Remove,
    FsStat,
    SetAttr,
    ReadDirPlus,
    Access,
}

/// The operations with their shares, in percent.
pub(super) const MIX: [(Operation, u64); 12] = [
    (Operation::Lookup, 24),
    (Operation::Read, 18),
    (Operation::Write, 10),
    (Operation::GetAttr, 26),
    (Operation::ReadLink, 1),
    (Operation::ReadDir, 1),
    (Operation::Create, 1),
    (Operation::Remove, 1),
    (Operation::FsStat, 1),
    (Operation::SetAttr, 4),
    (Operation::ReadDirPlus, 2),
    (Operation::Access, 11),
];

impl Operation {
    /// Returns a random operation of the mix.
    pub(super) fn draw(random: &mut Random) -> Operation {
        let mut left = random.below(MIX.iter().map(|(_, share)| share).sum());
        for (operation, share) in MIX {
            if left < share {
                return operation;
            }
            left -= share;
        }
        Operation::Access
    }
}

/// The arguments of an operation.
pub(super) struct About<'a> {
    /// The file to operate on, create or remove.
    pub(super) file: &'a str,
    /// Its directory.
    pub(super) directory: &'a str,
    /// The content of a WRITE, at least [`WRITE_SIZE`] bytes.
    pub(super) content: &'a [u8],
}

/// Performs an operation and returns the number of payload bytes that it moved.
pub(super) async fn perform(client: &mut Client, operation: Operation, about: &About<'_>) -> client::Result<u64> {
    let existing = Open::existing(about.file);
    match operation {
        Operation::Lookup | Operation::ReadLink => client.touch(&existing.with_access(Access::ATTRIBUTES)).await?,
        Operation::Access => client.touch(&existing.with_access(AccessMask::MAXIMUM_ALLOWED.0)).await?,
        Operation::GetAttr => get_attributes(client, about.file).await?,
        Operation::SetAttr => set_attributes(client, about.file).await?,
        Operation::FsStat => file_system(client).await?,
        Operation::ReadDir => list(client, about.directory, FileInformationClass::NAMES).await?,
        Operation::ReadDirPlus => list(client, about.directory, FileInformationClass::ID_BOTH_DIRECTORY).await?,
        Operation::Create => client.touch(&Open::file(about.file).with_disposition(CreateDisposition::CREATE)).await?,
        Operation::Remove => client.delete(about.file).await?,
        Operation::Read => {
            let name = utf16_bytes(about.file);
            client.chain().create(&existing.request(&name))?.read(0, FILE_SIZE)?.close()?.run().await?;
            return Ok(FILE_SIZE.into());
        }
        Operation::Write => {
            let name = utf16_bytes(about.file);
            let data = &about.content[..WRITE_SIZE as usize];
            let open = existing.with_access(AccessMask::FILE_GENERIC_WRITE.0);
            client.chain().create(&open.request(&name))?.write(0, data)?.close()?.run().await?;
            return Ok(WRITE_SIZE.into());
        }
    }
    Ok(0)
}

async fn get_attributes(client: &mut Client, file: &str) -> client::Result<()> {
    let name = utf16_bytes(file);
    let query = QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::NETWORK_OPEN.0,
        output_buffer_length: 1024,
        ..QueryInfoRequest::default()
    };
    let open = Open::existing(file).with_access(Access::ATTRIBUTES);
    client.chain().create(&open.request(&name))?.query_info(&query)?.close()?.run().await
}

async fn set_attributes(client: &mut Client, file: &str) -> client::Result<()> {
    let name = utf16_bytes(file);
    let mut buffer = Vec::new();
    // 2011-01-01. The value does not matter, only that it is set.
    let last_write_time = FileTime(129_383_136_000_000_000);
    FileBasicInformation { last_write_time, ..FileBasicInformation::default() }.encode(&mut Writer::new(&mut buffer));
    let set = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::BASIC.0,
        buffer: &buffer,
        ..SetInfoRequest::default()
    };
    let wanted = AccessMask::FILE_WRITE_ATTRIBUTES | AccessMask::FILE_READ_ATTRIBUTES | AccessMask::SYNCHRONIZE;
    let open = Open::existing(file).with_access(wanted.0);
    client.chain().create(&open.request(&name))?.set_info(&set)?.close()?.run().await
}

async fn file_system(client: &mut Client) -> client::Result<()> {
    let query = QueryInfoRequest {
        info_type: InfoType::FILESYSTEM,
        file_info_class: FsInformationClass::FULL_SIZE.0,
        output_buffer_length: 1024,
        ..QueryInfoRequest::default()
    };
    let open = Open { options: CreateOptions::NONE, ..Open::existing("") }.with_access(Access::ATTRIBUTES);
    client.chain().create(&open.request(b""))?.query_info(&query)?.close()?.run().await
}

async fn list(client: &mut Client, directory: &str, class: FileInformationClass) -> client::Result<()> {
    let (name, pattern) = (utf16_bytes(directory), utf16_bytes("*"));
    let query = QueryDirectoryRequest {
        file_information_class: class.0,
        file_name: &pattern,
        output_buffer_length: LISTING_SIZE.min(client.agreed().max_transact_size),
        ..QueryDirectoryRequest::default()
    };
    let open = Open::directory(directory);
    client.chain().create(&open.request(&name))?.query_directory(&query)?.close()?.run().await
}

/// The requests of a round: operations on a random part of the files.
pub(super) struct Requests {
    /// Each operation with the number of its file.
    pub(super) list: Vec<(Operation, usize)>,
}

/// The fraction of the files that is accessed.
const TOUCHED: f64 = 0.3;
/// Mean number of accesses to an accessed file.
const ACCESSES: usize = 4;

impl Requests {
    /// Returns requests for 30 % of `files`, with about 4 accesses each. Many independent Poisson processes together
    /// form one Poisson process, in which each access is to any of the files with equal probability.
    pub(super) fn draw(files: usize, random: &mut Random) -> Requests {
        let mut numbers: Vec<usize> = (0..files).collect();
        random.shuffle(&mut numbers);
        numbers.truncate(((files as f64 * TOUCHED) as usize).max(1));
        let count = numbers.len() * ACCESSES;
        let draw = |_| (Operation::draw(random), numbers[random.below(numbers.len() as u64) as usize]);
        Requests { list: (0..count).map(draw).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_mix_has_the_specified_proportions() {
        let mut random = Random::new(1);
        let draws = 100_000;
        let mut counts = [0u64; MIX.len()];
        for _ in 0..draws {
            let drawn = Operation::draw(&mut random);
            counts[MIX.iter().position(|(operation, _)| *operation == drawn).unwrap()] += 1;
        }
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<u64>(), 100);
        for ((operation, percent), count) in MIX.iter().zip(counts) {
            let (expected, share) = (*percent as f64 / 100.0, count as f64 / f64::from(draws));
            assert!((share - expected).abs() < 0.005, "{operation:?}: {share} instead of {expected}");
        }
    }

    #[test]
    fn a_part_of_the_files_is_accessed_a_few_times() {
        let requests = Requests::draw(20_000, &mut Random::new(1));
        assert_eq!(requests.list.len(), 24_000);
        let mut accesses: HashMap<usize, usize> = HashMap::new();
        for (_, file) in &requests.list {
            *accesses.entry(*file).or_default() += 1;
        }
        assert!(accesses.len() <= 6_000 && accesses.len() > 5_700, "{}", accesses.len());
        assert!(accesses.values().any(|count| *count > 8), "a Poisson process is not uniform");
        assert_eq!(Requests::draw(1, &mut Random::new(1)).list.len(), 4);
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let draw = |seed| Requests::draw(1000, &mut Random::new(seed)).list;
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
