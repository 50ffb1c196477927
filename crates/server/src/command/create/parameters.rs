//! Checks of a CREATE request's fields that do not need the file system ([MS-SMB2] 3.3.5.9, [MS-FSA] 2.1.5.1).

use proto::dtyp::{AccessMask, GenericMapping};
use proto::fscc::FileAttributes;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::status::Status;

use super::posix::PosixOpen;
use crate::attributes;
use crate::error::{Error, Result};
use crate::files::{LeaseId, OpenLease};
use crate::tree::Disk;
use crate::vfs::Access;

/// Checked parameters, with generic rights expanded.
#[derive(Clone)]
pub(super) struct Parameters {
    pub(super) desired_access: AccessMask,
    pub(super) maximum_allowed: bool,
    /// The rights that the open can have at most.
    pub(super) share_rights: AccessMask,
    pub(super) share_access: ShareAccess,
    pub(super) disposition: CreateDisposition,
    pub(super) options: CreateOptions,
    /// The attributes of a new file that are stored: bits of [`attributes::STORED`].
    pub(super) attributes: u32,
    /// The lease of the open.
    pub(super) lease: Option<OpenLease>,
    /// The open has POSIX semantics.
    pub(super) posix: Option<PosixOpen>,
}

/// Options reserved by [MS-SMB2] 2.2.13 that are refused with NOT_SUPPORTED.
const NOT_SUPPORTED: u32 =
    CREATE_TREE_CONNECTION | CreateOptions::OPEN_BY_FILE_ID.0 | CreateOptions::RESERVE_OPFILTER.0;
/// FILE_CREATE_TREE_CONNECTION, which SMB 2 does not define.
const CREATE_TREE_CONNECTION: u32 = 0x0000_0080;
const UNKNOWN_OPTIONS: u32 = 0xff00_0000;
/// All attributes of [MS-FSCC] 2.6 that a client may set.
const KNOWN_ATTRIBUTES: u32 = 0x0000_7fb7;
/// Rights that [MS-SMB2] 2.2.13.1 defines.
const KNOWN_RIGHTS: u32 = 0xf31f_01ff;
const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0
    | AccessMask::FILE_APPEND_DATA.0
    | AccessMask::FILE_WRITE_EA.0
    | AccessMask::FILE_WRITE_ATTRIBUTES.0
    | AccessMask::FILE_DELETE_CHILD.0
    | AccessMask::DELETE.0
    | AccessMask::WRITE_DAC.0
    | AccessMask::WRITE_OWNER.0;

impl Parameters {
    pub(super) fn check(asked: &CreateRequest<'_>, disk: &Disk) -> Result<Parameters> {
        if asked.impersonation_level.0 > ImpersonationLevel::DELEGATE.0 {
            return Err(Error::new(Status::BAD_IMPERSONATION_LEVEL));
        }
        if asked.create_disposition.0 > CreateDisposition::OVERWRITE_IF.0 || asked.share_access.0 > 7 {
            return Err(Error::because(Status::INVALID_PARAMETER, "invalid CreateDisposition or ShareAccess"));
        }
        // Windows checks DesiredAccess first.
        if asked.desired_access == 0 || asked.desired_access & !KNOWN_RIGHTS != 0 {
            return Err(Error::because(Status::ACCESS_DENIED, "DesiredAccess"));
        }
        if asked.file_attributes & !KNOWN_ATTRIBUTES != 0 {
            return Err(Error::because(Status::INVALID_PARAMETER, "FileAttributes"));
        }
        Self::check_options(asked)?;
        // [MS-FSA] 2.1.5.1.2.1: access to the SACL requires SeSecurityPrivilege, which only root has.
        if asked.desired_access & AccessMask::ACCESS_SYSTEM_SECURITY.0 != 0 && disk.op.uid != 0 {
            return Err(Error::new(Status::PRIVILEGE_NOT_HELD));
        }
        let maximum_allowed = asked.desired_access & AccessMask::MAXIMUM_ALLOWED.0 != 0;
        let mut desired_access =
            AccessMask(asked.desired_access & !AccessMask::MAXIMUM_ALLOWED.0).expand(&GenericMapping::FILE);
        if asked.create_options.contains(CreateOptions::NO_INTERMEDIATE_BUFFERING) {
            desired_access.0 &= !AccessMask::FILE_APPEND_DATA.0;
        }
        let deletes = asked.create_options.contains(CreateOptions::DELETE_ON_CLOSE);
        if deletes && !maximum_allowed && desired_access.0 & AccessMask::DELETE.0 == 0 {
            return Err(Error::because(Status::ACCESS_DENIED, "DELETE_ON_CLOSE without DELETE access"));
        }
        let needed = if deletes { desired_access | AccessMask::DELETE } else { desired_access };
        if !disk.share_rights.contains(needed) {
            return Err(Error::because(Status::ACCESS_DENIED, "the ACL of the share does not grant the access"));
        }
        let parameters = Parameters {
            desired_access,
            maximum_allowed,
            share_rights: disk.share_rights,
            share_access: asked.share_access,
            disposition: asked.create_disposition,
            options: asked.create_options,
            attributes: asked.file_attributes & attributes::STORED & !FileAttributes::SPARSE_FILE.0,
            lease: None,
            posix: None,
        };
        // A file in a snapshot can be opened with any access that its ACL grants, as on Windows; changes are refused
        // later.
        let changes = deletes || parameters.overwrites();
        let may_change = disk.snapshot.is_none() && desired_access.0 & WRITING != 0;
        if disk.read_only && (changes || may_change) {
            return Err(disk.refusal());
        }
        Ok(parameters)
    }

    fn check_options(asked: &CreateRequest<'_>) -> Result<()> {
        let options = asked.create_options;
        if options.0 & UNKNOWN_OPTIONS != 0 {
            return Err(Error::because(Status::INVALID_PARAMETER, "CreateOptions"));
        }
        if options.0 & NOT_SUPPORTED != 0 {
            return Err(Error::because(Status::NOT_SUPPORTED, "CreateOptions"));
        }
        let directory = options.contains(CreateOptions::DIRECTORY_FILE);
        if directory && options.contains(CreateOptions::NON_DIRECTORY_FILE) {
            return Err(Error::because(
                Status::INVALID_PARAMETER,
                "DIRECTORY_FILE and NON_DIRECTORY_FILE exclude each other",
            ));
        }
        let replaces = matches!(
            asked.create_disposition,
            CreateDisposition::SUPERSEDE | CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF
        );
        // [MS-FSA] 2.1.5.1: directories are opened or created, never overwritten.
        if directory && replaces {
            return Err(Error::because(Status::INVALID_PARAMETER, "a directory cannot be overwritten"));
        }
        Ok(())
    }

    /// Returns the rights that an open of a new file has.
    pub(super) fn granted_on_new(&self) -> AccessMask {
        let all = if self.maximum_allowed { AccessMask::FILE_ALL_ACCESS } else { AccessMask::NONE };
        all & self.share_rights | self.desired_access
    }

    /// Returns the id of the open's lease.
    pub(super) fn lease_id(&self) -> Option<LeaseId> {
        self.lease.map(|lease| lease.id)
    }

    /// Returns whether a missing file is created.
    pub(super) fn creates(&self) -> bool {
        !matches!(self.disposition, CreateDisposition::OPEN | CreateDisposition::OVERWRITE)
    }

    /// Returns whether an existing file is overwritten.
    pub(super) fn overwrites(&self) -> bool {
        matches!(
            self.disposition,
            CreateDisposition::SUPERSEDE | CreateDisposition::OVERWRITE | CreateDisposition::OVERWRITE_IF
        )
    }

    /// Returns the data access with which an existing file is opened, as far as is known before the look-up. With
    /// `kernel oplocks`, opening a file would break the server's own kernel lease on it.
    pub(super) fn data_access(&self, disk: &Disk) -> Access {
        const READING: AccessMask = AccessMask(AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0);
        const WRITING: AccessMask = AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0);
        let opens = matches!(self.disposition, CreateDisposition::OPEN | CreateDisposition::OPEN_IF);
        if !opens || self.maximum_allowed || disk.share.caching.kernel_oplocks {
            return Access::default();
        }
        let writes = self.desired_access.intersects(WRITING) && disk.snapshot.is_none();
        Access { read: self.desired_access.intersects(READING), write: writes }
    }

    /// Makes it a POSIX open. Such a client derives the attributes from the mode, which says the same.
    pub(super) fn set_posix(&mut self, posix: PosixOpen) {
        self.posix = Some(posix);
        self.attributes = 0;
    }

    /// Returns whether the open must be of a directory.
    pub(super) fn wants_directory(&self) -> bool {
        self.options.contains(CreateOptions::DIRECTORY_FILE)
    }
}
