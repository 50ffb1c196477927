//! Integrity streams ([MS-FSA] 2.1.5.10.10, 2.1.5.10.33, 2.1.5.10.34).
//!
//! Linux has no per-file checksums that a client could configure. A client nevertheless queries them before cloning
//! blocks, because both files must have the same setting, and for the cluster size. If the file system supports block
//! cloning, the answer is that there are no checksums, and a client may set that. Otherwise the controls are refused,
//! as on NTFS.

use proto::bytes::Reader;
use proto::dtyp::AccessMask;
use proto::fscc::{
    ChecksumAlgorithm, GetIntegrityInformation, IntegrityFlags, SetIntegrityInformation, SetIntegrityInformationEx,
};
use proto::status::Status;

use super::{Control, Output};
use crate::error::{Error, Result};

/// Refuses the control if the file system does not support block cloning.
async fn check(control: &Control<'_>) -> Result<()> {
    control.file()?;
    if !control.disk()?.vfs.capabilities().features.clones {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the file system keeps no checksums"));
    }
    Ok(())
}

/// FSCTL_GET_INTEGRITY_INFORMATION (2.1.5.10.10).
pub(super) async fn get(control: &Control<'_>) -> Result<Output> {
    check(control).await?;
    control.need_room(GetIntegrityInformation::SIZE, Status::INVALID_PARAMETER)?;
    let file = control.file()?;
    let space = file.node.space(&file.op).await?;
    let answer = GetIntegrityInformation {
        checksum_algorithm: ChecksumAlgorithm::NONE,
        flags: IntegrityFlags::NONE,
        checksum_chunk_size_in_bytes: 0,
        cluster_size_in_bytes: space.block_size,
    };
    Ok(Output::new(|out| answer.encode(out)))
}

/// FSCTL_SET_INTEGRITY_INFORMATION (2.1.5.10.33).
pub(super) async fn set(control: &Control<'_>) -> Result<Output> {
    check(control).await?;
    let asked = SetIntegrityInformation::decode(&mut Reader::new(control.asked.input))?;
    control.need_any(AccessMask::FILE_WRITE_DATA)?;
    let known =
        [ChecksumAlgorithm::NONE, ChecksumAlgorithm::UNCHANGED, ChecksumAlgorithm::CRC32, ChecksumAlgorithm::CRC64];
    if !known.contains(&asked.checksum_algorithm) {
        return Err(Error::because(Status::INVALID_PARAMETER, "unknown checksum algorithm"));
    }
    let wants = matches!(asked.checksum_algorithm, ChecksumAlgorithm::CRC32 | ChecksumAlgorithm::CRC64);
    answer(wants, asked.flags)
}

/// FSCTL_SET_INTEGRITY_INFORMATION_EX (2.1.5.10.34).
pub(super) async fn set_ex(control: &Control<'_>) -> Result<Output> {
    check(control).await?;
    let asked = SetIntegrityInformationEx::decode(&mut Reader::new(control.asked.input))?;
    control.need_any(AccessMask::FILE_WRITE_DATA)?;
    if asked.version != 1 {
        return Err(Error::because(Status::INVALID_PARAMETER, "unsupported version"));
    }
    answer(asked.enable_integrity && !asked.keep_integrity_state_unchanged, asked.flags)
}

/// Accepts only the setting without checksums.
fn answer(wants: bool, flags: IntegrityFlags) -> Result<Output> {
    if flags != IntegrityFlags::NONE {
        return Err(Error::because(
            Status::INVALID_PARAMETER,
            "the flags require checksums, which the file system does not keep",
        ));
    }
    if wants {
        return Err(Error::because(Status::NOT_SUPPORTED, "the file system keeps no checksums of files"));
    }
    Ok(Output::new(|_| ()))
}

#[cfg(test)]
mod tests {
    use proto::smb2::ioctl::FsctlCode;

    use super::*;
    use crate::command::ioctl::testing::Fixture;
    use crate::vfs::Features;

    #[test]
    fn there_are_no_checksums() {
        let mut fixture = Fixture::new();
        let file = fixture.file("file", b"");
        let (status, output) = fixture.control(file, FsctlCode::GET_INTEGRITY_INFORMATION, &[], 16);
        let told = GetIntegrityInformation::decode(&mut Reader::new(&output));
        let expected = GetIntegrityInformation { cluster_size_in_bytes: 4096, ..GetIntegrityInformation::default() };
        assert_eq!((status, told), (Status::SUCCESS, Ok(expected)));
        let short = fixture.control(file, FsctlCode::GET_INTEGRITY_INFORMATION, &[], 15);
        assert_eq!(short.0, Status::INVALID_PARAMETER);
        for (algorithm, flags, expected) in [
            (0u16, 0u32, Status::SUCCESS),
            (0xffff, 0, Status::SUCCESS),
            (1, 0, Status::NOT_SUPPORTED),
            (2, 0, Status::NOT_SUPPORTED),
            (3, 0, Status::INVALID_PARAMETER),
            (0, 1, Status::INVALID_PARAMETER),
        ] {
            let input = [&algorithm.to_le_bytes()[..], &[0; 2], &flags.to_le_bytes()].concat();
            let (status, _) = fixture.control(file, FsctlCode::SET_INTEGRITY_INFORMATION, &input, 0);
            assert_eq!(status, expected, "{algorithm} {flags}");
        }
        for (enable, keep, version, expected) in [
            (0, 0, 1, Status::SUCCESS),
            (1, 1, 1, Status::SUCCESS),
            (1, 0, 1, Status::NOT_SUPPORTED),
            (0, 0, 2, Status::INVALID_PARAMETER),
        ] {
            let mut input = [0; 16];
            (input[0], input[1], input[8]) = (enable, keep, version);
            let (status, _) = fixture.control(file, FsctlCode::SET_INTEGRITY_INFORMATION_EX, &input, 0);
            assert_eq!(status, expected, "{enable} {keep} {version}");
        }
    }

    #[test]
    fn file_systems_without_shared_blocks_have_no_integrity_information() {
        let mut fixture = Fixture::with(Features::default(), |_| ());
        let file = fixture.file("file", b"");
        for code in [FsctlCode::GET_INTEGRITY_INFORMATION, FsctlCode::SET_INTEGRITY_INFORMATION] {
            assert_eq!(fixture.control(file, code, &[0; 8], 16).0, Status::INVALID_DEVICE_REQUEST, "{code:?}");
        }
    }
}
