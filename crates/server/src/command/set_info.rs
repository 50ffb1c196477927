//! SET_INFO ([MS-SMB2] 3.3.5.21, [MS-FSA] 2.1.5.15 to 2.1.5.18).
//!
//! This module checks and dispatches. Renames and links, which affect names and other opens, are in `rename`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::bytes::Reader;
use proto::dtyp::{AccessMask, FileTime};
use proto::fscc::{
    DispositionFlags, FileAllocationInformation, FileAttributes, FileBasicInformation, FileDispositionInformation,
    FileDispositionInformationEx, FileEndOfFileInformation, FileInformationClass as Class, FileModeInformation,
    FilePositionInformation, FileValidDataLengthInformation, FsInformationClass,
};
use proto::mac::afp_info::AfpInfo;
use proto::smb2::InfoType;
use proto::smb2::change_notify::CompletionFilter;
use proto::smb2::create::CreateOptions;
use proto::smb2::set_info::{SetInfoRequest, SetInfoResponse};
use proto::status::Status;

use super::rename::NewName;
use super::{audit, directory_lease, oplock_break, print, rename, vetoed};
use crate::attributes;
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::information::{ea, pipe, quota, security};
use crate::reparse;
use crate::request::{Reply, Request};
use crate::state::durable;
use crate::state::open::{FileOpen, Open, StickyTimes, Target};
use crate::streams::mac::Role;
use crate::streams::{self, StreamNode};
use crate::tree::Disk;
use crate::vfs::{Extent, Kind, SetMetadata, Time};

pub(crate) async fn set_info(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = SetInfoRequest::decode(request.message)?;
    if request.connection.negotiated().is_some_and(|it| asked.buffer.len() > it.max_transact as usize) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the length exceeds MaxTransactSize"));
    }
    request.check_charge(asked.buffer.len())?;
    let open = request.open(asked.file_id, reply)?;
    let (file, disk) = match (&open.target, open.tree.disk()) {
        (Target::File(file), Some(disk)) => (file, disk),
        (Target::Pipe(target), _) => {
            pipe::set(&asked, &open, &**target)?;
            SetInfoResponse.encode(&mut reply.body());
            return Ok(Status::SUCCESS);
        }
        (Target::Job(job), _) => {
            print::set(request, job, &asked).await?;
            SetInfoResponse.encode(&mut reply.body());
            return Ok(Status::SUCCESS);
        }
        (Target::Quotas(quotas), Some(disk)) => {
            let done = quota::change(request, reply, &asked, (&open, quotas), disk).await;
            audit::quotas_set(disk, &asked, &done);
            done?;
            SetInfoResponse.encode(&mut reply.body());
            return Ok(Status::SUCCESS);
        }
        _ => return Err(Error::new(Status::INVALID_PARAMETER)),
    };
    let audited = audit::Change::begin(disk, file);
    let done = change(request, reply, &asked, &open, file, disk).await;
    if let Some(audited) = audited {
        audited.end(&asked, &done);
    }
    done
}

async fn change(
    request: &Request<'_>,
    reply: &mut Reply,
    asked: &SetInfoRequest<'_>,
    open: &Arc<Open>,
    file: &FileOpen,
    disk: &Disk,
) -> Result<Status> {
    // Handles on a read-only share have no rights to change, but some changes need no right.
    if disk.read_only {
        return Err(disk.refusal());
    }
    file.not_replaced()?;
    match asked.info_type {
        InfoType::FILE => {
            set_file(request, reply, asked, open, file, disk).await?;
            // A persistent open's record includes the name and delete-on-close, which may have changed.
            durable::save_all(&request.connection.server, file.file).await?;
        }
        InfoType::SECURITY => {
            let now = request.connection.server.environment.now();
            let takes_mode = file.posix || request.shows_mode_to_mac();
            security::set(asked, open.granted, file, disk, now, takes_mode).await?;
            security::changed(file, disk).await;
            let change = Change::modified(CompletionFilter::SECURITY);
            request.connection.server.file_changed(disk, file, change);
            // Listings of POSIX clients show mode and owner.
            if request.connection.server.policy().smb3_unix_extensions {
                directory_lease::entry_of_changes(&request.connection.server, disk, file).await;
            }
        }
        InfoType::QUOTA => return Err(quota::other_handle()),
        InfoType::FILESYSTEM => return Err(quota::no_rules_here(FsInformationClass(asked.file_info_class))),
        _ => return Err(Error::new(Status::INVALID_PARAMETER)),
    }
    SetInfoResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

async fn set_file(
    request: &Request<'_>,
    reply: &mut Reply,
    asked: &SetInfoRequest<'_>,
    open: &Arc<Open>,
    file: &FileOpen,
    disk: &Disk,
) -> Result<()> {
    let class = Class(asked.file_info_class);
    let buffer = asked.buffer;
    let server = &request.connection.server;
    need(open, class)?;
    match class {
        Class::BASIC => {
            request.connection.server.opens.files.settle_write_time(file.file);
            let info = FileBasicInformation::decode(&mut Reader::new(buffer))?;
            set_basic(file, disk, open.granted, &info).await?;
            directory_lease::entry_of_changes(&request.connection.server, disk, file).await;
            server.file_changed(disk, file, Change::modified(basic_changes(&info)));
            Ok(())
        }
        Class::END_OF_FILE => {
            let size = FileEndOfFileInformation::decode(&mut Reader::new(buffer))?.end_of_file;
            check_finder_info(file, size)?;
            set_size(request, file, size).await?;
            if size == 0
                && request.is_of_mac()
                && disk.share.mac.is_some()
                && let Some(StreamNode { stream, file: base, .. }) = streams::of(&file.node)
            {
                stream.emptied_by_mac(base, &file.op).await?;
            }
            server.resized(disk, file);
            Ok(())
        }
        Class::ALLOCATION => {
            let size = FileAllocationInformation::decode(&mut Reader::new(buffer))?.allocation_size;
            set_allocation(request, file, disk, size).await?;
            server.resized(disk, file);
            Ok(())
        }
        Class::DISPOSITION => {
            let delete = FileDispositionInformation::decode(&mut Reader::new(buffer))?.delete_pending;
            set_disposition(request, reply, open, delete).await
        }
        Class::DISPOSITION_EX => {
            let flags = FileDispositionInformationEx::decode(&mut Reader::new(buffer))?.flags;
            set_disposition(request, reply, open, flags.contains(DispositionFlags::DELETE)).await
        }
        Class::RENAME => rename::name(request, reply, NewName::Instead, buffer, open, file, disk).await,
        Class::LINK => rename::name(request, reply, NewName::AsWell, buffer, open, file, disk).await,
        Class::FULL_EA => {
            // [MS-FSA] 2.1.5.15.6.
            if file.kind == Kind::Symlink || reparse::is_stored(&disk.share, &file.node.metadata(&file.op).await?) {
                return Err(Error::because(
                    Status::EAS_NOT_SUPPORTED,
                    "a reparse point cannot have extended attributes",
                ));
            }
            ea::Changes::decode(buffer)?.apply(&file.node, &file.op, disk).await?;
            server.file_changed(disk, file, Change::modified(CompletionFilter::EA | CompletionFilter::ATTRIBUTES));
            Ok(())
        }
        Class::MODE => set_mode(file, FileModeInformation::decode(&mut Reader::new(buffer))?.mode.0),
        Class::POSITION => {
            let position = FilePositionInformation::decode(&mut Reader::new(buffer))?.current_byte_offset;
            file.position.store(position, Ordering::Relaxed);
            Ok(())
        }
        Class::VALID_DATA_LENGTH => {
            let length = FileValidDataLengthInformation::decode(&mut Reader::new(buffer))?.valid_data_length;
            let size = file.node.metadata(&file.op).await?.size;
            if length > size { Err(Error::new(Status::INVALID_PARAMETER)) } else { Ok(()) }
        }
        Class::SHORT_NAME => Err(Error::because(Status::NOT_SUPPORTED, "short names cannot be set")),
        _ => Err(Error::new(Status::INVALID_INFO_CLASS)),
    }
}

/// Checks the access that each class needs (3.3.5.21.1).
fn need(open: &Open, class: Class) -> Result<()> {
    let needed = match class {
        Class::BASIC => AccessMask::FILE_WRITE_ATTRIBUTES,
        Class::END_OF_FILE | Class::ALLOCATION | Class::VALID_DATA_LENGTH => AccessMask::FILE_WRITE_DATA,
        Class::RENAME | Class::DISPOSITION | Class::DISPOSITION_EX | Class::SHORT_NAME => AccessMask::DELETE,
        Class::FULL_EA => AccessMask::FILE_WRITE_EA,
        _ => AccessMask(0),
    };
    if open.granted.contains(needed) { Ok(()) } else { Err(Error::new(Status::ACCESS_DENIED)) }
}

/// Refuses a size that Finder info cannot have, with the status of macOS.
fn check_finder_info(file: &FileOpen, size: u64) -> Result<()> {
    let is_info = streams::of(&file.node).is_some_and(|node| node.stream.role() == Role::Info);
    if is_info && size > AfpInfo::SIZE as u64 {
        return Err(Error::because(Status::ALLOTTED_SPACE_EXCEEDED, "Finder info has a fixed size"));
    }
    Ok(())
}

/// Sets times and attributes ([MS-FSA] 2.1.5.15.2). 0 leaves a time unchanged, -1 stops the handle's own I/O from
/// updating it, -2 resumes the updates.
async fn set_basic(file: &FileOpen, disk: &Disk, granted: AccessMask, info: &FileBasicInformation) -> Result<()> {
    let times = [info.creation_time, info.last_access_time, info.last_write_time, info.change_time];
    if times.iter().any(|time| !time.is_settable()) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the time is before 1601"));
    }
    let wanted = info.file_attributes.0;
    let directory = file.kind == Kind::Directory;
    if wanted & FileAttributes::DIRECTORY.0 != 0 && !directory {
        return Err(Error::because(Status::INVALID_PARAMETER, "DIRECTORY on a file"));
    }
    if wanted & FileAttributes::TEMPORARY.0 != 0 && directory {
        return Err(Error::because(Status::INVALID_PARAMETER, "TEMPORARY on a directory"));
    }
    let mut set = SetMetadata {
        created: moment(info.creation_time),
        accessed: moment(info.last_access_time),
        modified: moment(info.last_write_time),
        changed: moment(info.change_time),
        ..SetMetadata::default()
    };
    if file.kind == Kind::Symlink {
        // Linux stores neither attributes nor these times for a symbolic link.
        (set.created, set.changed) = (None, None);
    } else if wanted != 0 {
        let present = file.node.metadata(&file.op).await?;
        // SPARSE_FILE is changed only by its own FSCTL.
        let kept =
            present.dos_attributes.unwrap_or(0) & (FileAttributes::SPARSE_FILE.0 | FileAttributes::REPARSE_POINT.0);
        let bits = wanted & attributes::STORED & !FileAttributes::SPARSE_FILE.0 | kept;
        if disk.share.attributes.store_dos_attributes {
            set.dos_attributes = Some(bits);
        } else {
            set.mode = Some(mode_of(disk, bits, present.mode, directory));
        }
    }
    if set != SetMetadata::default() {
        let keeps = file.kind != Kind::Symlink && set.changed.is_none() && info.change_time.0 as i64 != -2;
        if keeps && (file.sticky.has(StickyTimes::CHANGED) || info.change_time.0 as i64 == -1) {
            set.changed = Some(file.node.metadata(&file.op).await?.changed);
        }
        crate::security::set::apply::set_attributes(disk, (&file.node, &file.op), granted, set).await?;
    }
    file.sticky.set(StickyTimes::CHANGED, info.change_time);
    file.sticky.set(StickyTimes::ACCESSED, info.last_access_time);
    file.sticky.set(StickyTimes::MODIFIED, info.last_write_time);
    Ok(())
}

/// Returns the notification filter for a change by FileBasicInformation. The change time has no flag.
fn basic_changes(info: &FileBasicInformation) -> CompletionFilter {
    let changed = [
        (info.file_attributes.0 != 0, CompletionFilter::ATTRIBUTES),
        (info.creation_time.is_time(), CompletionFilter::CREATION),
        (info.last_access_time.is_time(), CompletionFilter::LAST_ACCESS),
        (info.last_write_time.is_time(), CompletionFilter::LAST_WRITE),
    ];
    changed.iter().filter(|(is, _)| *is).fold(CompletionFilter::NONE, |all, (_, one)| all | *one)
}

/// Converts a file time; 0, -1 and -2 are not times.
fn moment(time: FileTime) -> Option<Time> {
    time.is_time().then(|| {
        let (secs, nanos) = time.to_unix();
        Time { secs, nanos }
    })
}

/// Returns the mode with attributes mapped by `map archive`, `map system`, `map hidden` and `map read only`.
fn mode_of(disk: &Disk, bits: u32, mode: u32, directory: bool) -> u32 {
    if directory {
        return mode;
    }
    let share = &disk.share;
    let mapped = [
        (share.attributes.map_archive, FileAttributes::ARCHIVE, 0o100),
        (share.attributes.map_system, FileAttributes::SYSTEM, 0o010),
        (share.attributes.map_hidden, FileAttributes::HIDDEN, 0o001),
    ];
    let mut mode = mode;
    for (enabled, attribute, bit) in mapped {
        if enabled {
            mode = if bits & attribute.0 != 0 { mode | bit } else { mode & !bit };
        }
    }
    if share.attributes.map_read_only {
        let readonly = bits & FileAttributes::READONLY.0 != 0;
        mode = if readonly { mode & !0o222 } else { mode | 0o200 };
    }
    mode
}

/// The largest file size on Linux.
const MAX_SIZE: u64 = i64::MAX as u64;

async fn set_size(request: &Request<'_>, file: &FileOpen, size: u64) -> Result<()> {
    check_size(file, size)?;
    let _change = file.begin_change(&request.connection.server)?;
    request.connection.server.opens.files.settle_write_time(file.file);
    let held = file.hold_times().await?;
    file.node.set_extent(&file.op, Extent::Size(size)).await?;
    file.restore_times(held).await
}

fn check_size(file: &FileOpen, size: u64) -> Result<()> {
    if size > MAX_SIZE || file.kind != Kind::File {
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    Ok(())
}

/// Sets the allocation size ([MS-FSA] 2.1.5.15.1): a smaller one truncates the file, a larger one reserves space.
async fn set_allocation(request: &Request<'_>, file: &FileOpen, disk: &Disk, size: u64) -> Result<()> {
    check_size(file, size)?;
    let _change = file.begin_change(&request.connection.server)?;
    request.connection.server.opens.files.settle_write_time(file.file);
    if size < file.node.metadata(&file.op).await?.size {
        let held = file.hold_times().await?;
        file.node.set_extent(&file.op, Extent::Size(size)).await?;
        file.restore_times(held).await?;
    } else if disk.share.sync.strict_allocate {
        file.node.set_extent(&file.op, Extent::Reserve(size)).await?;
    }
    file.asked_allocation.store(size, Ordering::Relaxed);
    Ok(())
}

/// Sets or clears delete pending ([MS-FSA] 2.1.5.15.3).
async fn set_disposition(request: &Request<'_>, reply: &mut Reply, open: &Open, delete: bool) -> Result<()> {
    let (Some(file), Some(disk)) = (open.file(), open.tree.disk()) else { return Ok(()) };
    let files = &request.connection.server.opens.files;
    if !delete {
        files.set_delete_pending(file.file, false);
        file.delete_on_close.store(false, Ordering::Release);
        return Ok(());
    }
    let path = file.name.path.lock().clone();
    if path.is_root() && streams::of(&file.node).is_none() {
        return Err(Error::because(Status::CANNOT_DELETE, "not permitted for the share's root"));
    }
    let metadata = file.node.metadata(&file.op).await?;
    let shown = match file.posix {
        true => FileAttributes(attributes::stored(disk, &metadata)),
        false => attributes::file_attributes(disk, path.name(), &metadata),
    };
    if shown.contains(FileAttributes::READONLY) && !disk.share.attributes.delete_readonly {
        return Err(Error::because(Status::CANNOT_DELETE, "the file is READONLY"));
    }
    if file.kind == Kind::Directory {
        Box::pin(vetoed::check(&request.connection.server, disk, (&file.node, &path))).await?;
    }
    // Cached handles of other clients would prevent the deletion.
    let now = request.connection.server.environment.uptime();
    if let Some(wait) = files.name_changes(file.file, open.persistent_id, file.lease_id(), false, now) {
        oplock_break::wait(request, reply, file.file, wait).await?;
        file.still_open()?;
    }
    if file.posix {
        // The name is removed when the handle is closed, although others may be open.
        file.delete_on_close.store(true, Ordering::Release);
        return Ok(());
    }
    files.set_doom(file.file, file.doom());
    files.set_delete_pending(file.file, true);
    request.connection.server.doomed(disk, file);
    Ok(())
}

/// Sets the mode ([MS-FSA] 2.1.5.15.8). Only options that are meaningful after CREATE can change.
fn set_mode(file: &FileOpen, mode: u32) -> Result<()> {
    const CHANGEABLE: u32 = CreateOptions::WRITE_THROUGH.0
        | CreateOptions::SEQUENTIAL_ONLY.0
        | CreateOptions::SYNCHRONOUS_IO_ALERT.0
        | CreateOptions::SYNCHRONOUS_IO_NONALERT.0;
    let both = CreateOptions::SYNCHRONOUS_IO_ALERT.0 | CreateOptions::SYNCHRONOUS_IO_NONALERT.0;
    if mode & !CHANGEABLE != 0 || mode & both == both {
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    let kept = file.options().0 & !CHANGEABLE;
    file.options.store(kept | mode, Ordering::Relaxed);
    Ok(())
}
