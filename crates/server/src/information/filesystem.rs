//! File system information classes ([MS-FSCC] 2.5, [MS-FSA] 2.1.5.13).

use std::sync::Arc;

use proto::dtyp::{FileTime, Guid};
use proto::fscc::{
    DeviceCharacteristics, DeviceType, ExtendedInfo, FileFsAttributeInformation, FileFsDeviceInformation,
    FileFsFullSizeInformation, FileFsObjectIdInformation, FileFsSectorSizeInformation, FileFsSizeInformation,
    FileFsVolumeInformation, FileSystemAttributes, FsInformationClass as Class, SectorSizeFlags,
};
use proto::smb2::query_info::QueryInfoRequest;
use proto::status::Status;

use super::file::padded;
use super::{posix, quota, time_machine};
use crate::error::{Error, Result};
use crate::information::Answer;
use crate::information::encoded;
use crate::request::Request;
use crate::tree::Disk;
use crate::vfs::{Features, Node, Op, Space};

/// Sector size in bytes, the unit of allocation units.
const SECTOR: u32 = 512;
/// The attributes of every share.
const ATTRIBUTES: FileSystemAttributes = FileSystemAttributes(
    FileSystemAttributes::CASE_SENSITIVE_SEARCH.0
        | FileSystemAttributes::CASE_PRESERVED_NAMES.0
        | FileSystemAttributes::UNICODE_ON_DISK.0
        | FileSystemAttributes::PERSISTENT_ACLS.0
        | FileSystemAttributes::SUPPORTS_OBJECT_IDS.0
        | FileSystemAttributes::SUPPORTS_HARD_LINKS.0,
);

pub(crate) async fn query(
    request: &Request<'_>,
    asked: &QueryInfoRequest<'_>,
    node: &Arc<dyn Node>,
    op: &Op,
    disk: &Disk,
) -> Result<Answer> {
    let class = Class(asked.file_info_class);
    let space = match class {
        Class::SIZE | Class::FULL_SIZE | Class::POSIX => {
            let mut space = node.space_of_user(op).await?;
            if disk.share.mac.as_ref().is_some_and(|mac| mac.time_machine) {
                space = time_machine::bounded(request, disk, space).await;
            }
            bounded(space, request.connection.server.policy().max_disk_size)
        }
        _ => node.space(op).await?,
    };
    let answer = match class {
        Class::VOLUME => volume(request, disk, &space),
        Class::SIZE => Answer::fixed(encoded(|out| {
            FileFsSizeInformation {
                total_allocation_units: space.blocks,
                available_allocation_units: space.available,
                sectors_per_allocation_unit: sectors(&space),
                bytes_per_sector: SECTOR,
            }
            .encode(out);
        })),
        Class::DEVICE => Answer::fixed(encoded(|out| {
            let characteristics = DeviceCharacteristics::DEVICE_IS_MOUNTED;
            FileFsDeviceInformation { device_type: DeviceType::DISK, characteristics }.encode(out);
        })),
        Class::ATTRIBUTE => {
            let counted = quota::is_counted(node, op).await?;
            attribute(disk, disk.vfs.capabilities().features, counted)
        }
        Class::FULL_SIZE => Answer::fixed(encoded(|out| {
            FileFsFullSizeInformation {
                total_allocation_units: space.blocks,
                caller_available_allocation_units: space.available,
                actual_available_allocation_units: space.free,
                sectors_per_allocation_unit: sectors(&space),
                bytes_per_sector: SECTOR,
            }
            .encode(out);
        })),
        Class::OBJECT_ID => Answer::fixed(encoded(|out| object_id(request, &space).encode(out))),
        Class::SECTOR_SIZE => {
            let features = disk.vfs.capabilities().features;
            Answer::fixed(encoded(|out| sector_size(&space, features).encode(out)))
        }
        Class::POSIX => posix::filesystem(&space),
        Class::CONTROL => quota::control(&quota::rules(node, op).await?),
        _ if class.0 == 0 || class.0 > Class::SECTOR_SIZE.0 => return Err(Error::new(Status::INVALID_INFO_CLASS)),
        _ => return Err(Error::because(Status::NOT_SUPPORTED, format!("{class:?}"))),
    };
    Ok(answer)
}

/// Applies `max disk size`, in MiB.
fn bounded(space: Space, max_disk_size: u64) -> Space {
    let most = max_disk_size.saturating_mul(1 << 20) / u64::from(space.block_size.max(1));
    if most == 0 || space.blocks <= most {
        return space;
    }
    // As in Samba, a disk is not shown as empty.
    let bound = |blocks: u64| if blocks >= most { most - 1 } else { blocks };
    Space { blocks: most, free: bound(space.free), available: bound(space.available), ..space }
}

fn sectors(space: &Space) -> u32 {
    (space.block_size / SECTOR).max(1)
}

fn volume(request: &Request<'_>, disk: &Disk, space: &Space) -> Answer {
    let share = &disk.share;
    let label = if share.volume.is_empty() { &share.name } else { &share.volume };
    let label = proto::bytes::utf16_bytes(label);
    let information = FileFsVolumeInformation {
        volume_creation_time: FileTime::from(request.connection.created),
        volume_serial_number: serial_number(space),
        supports_objects: false,
        volume_label: &label,
    };
    Answer::variable(encoded(|out| information.encode(out)), padded(FileFsVolumeInformation::FIXED_SIZE + 2, 8))
}

fn serial_number(space: &Space) -> u32 {
    (space.id ^ (space.id >> 32)) as u32
}

/// Returns the attributes of this share: those of every share, and those that depend on its file system and
/// configuration.
fn attributes(disk: &Disk, features: Features, quotas: bool) -> FileSystemAttributes {
    let added = [
        (disk.share.attributes.store_dos_attributes, FileSystemAttributes::SUPPORTS_SPARSE_FILES),
        (disk.share.attributes.store_dos_attributes, FileSystemAttributes::SUPPORTS_REPARSE_POINTS),
        (disk.share.streams.is_some(), FileSystemAttributes::NAMED_STREAMS),
        (quotas, FileSystemAttributes::VOLUME_QUOTAS),
        (features.clones, FileSystemAttributes::SUPPORTS_BLOCK_REFCOUNTING),
        (features.compresses, FileSystemAttributes::FILE_COMPRESSION),
    ];
    let without =
        if disk.share.acls.nt_acl_support { FileSystemAttributes(0) } else { FileSystemAttributes::PERSISTENT_ACLS };
    let all = added.iter().filter(|(has, _)| *has).fold(ATTRIBUTES, |all, (_, attribute)| all | *attribute);
    all.without(without)
}

fn attribute(disk: &Disk, features: Features, quotas: bool) -> Answer {
    let name = proto::bytes::utf16_bytes(if disk.share.fstype.is_empty() { "NTFS" } else { &disk.share.fstype });
    let information = FileFsAttributeInformation {
        file_system_attributes: attributes(disk, features, quotas),
        maximum_component_name_length: 255,
        file_system_name: &name,
    };
    Answer::variable(encoded(|out| information.encode(out)), padded(FileFsAttributeInformation::FIXED_SIZE + 2, 4))
}

fn object_id(request: &Request<'_>, space: &Space) -> FileFsObjectIdInformation {
    FileFsObjectIdInformation { object_id: volume_id(request, space), extended_info: ExtendedInfo::default() }
}

/// Returns a globally unique volume id.
pub(crate) fn volume_id(request: &Request<'_>, space: &Space) -> Guid {
    let mut id = request.connection.server.guid.0;
    id[..8].copy_from_slice(&space.id.to_le_bytes());
    Guid(id)
}

/// Partition and sectors are reported as aligned. No seek penalty is reported because the device is unknown. Trimming
/// punches holes.
fn sector_size(space: &Space, features: Features) -> FileFsSectorSizeInformation {
    let aligned = SectorSizeFlags::ALIGNED_DEVICE | SectorSizeFlags::PARTITION_ALIGNED_ON_DEVICE;
    FileFsSectorSizeInformation {
        logical_bytes_per_sector: SECTOR,
        physical_bytes_per_sector_for_atomicity: space.block_size.min(4096),
        physical_bytes_per_sector_for_performance: space.block_size.min(4096),
        file_system_effective_physical_bytes_per_sector_for_atomicity: space.block_size.min(4096),
        flags: if features.punches { aligned | SectorSizeFlags::TRIM_ENABLED } else { aligned },
        byte_offset_for_sector_alignment: 0,
        byte_offset_for_partition_alignment: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_disk_may_be_limited() {
        let disk = |blocks, free, available| Space { block_size: 4096, blocks, free, available, id: 1 };
        let large = disk(1 << 30, 1 << 20, 100);
        assert_eq!(bounded(large, 0), large);
        assert_eq!(bounded(large, 1), disk(256, 255, 100));
        assert_eq!(bounded(disk(1 << 30, 1 << 20, 256), 1), disk(256, 255, 255));
        assert_eq!(bounded(disk(256, 256, 256), 1), disk(256, 256, 256));
        assert_eq!(bounded(large, u64::MAX), large);
    }
}
