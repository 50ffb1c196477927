//! How a new file is created and what is set on it afterwards ([MS-FSA] 2.1.5.1.1). This is decided from the request,
//! the share and the directory, without access to the volume.

use proto::dtyp::AccessMask;
use proto::dtyp::security_descriptor::Control;
use proto::fscc::FileAttributes;
use proto::smb2::create::CreateOptions;
use proto::status::Status;

use super::contexts::Contexts;
use super::parameters::Parameters;
use crate::error::{Error, Result};
use crate::name::{Name, Stream};
use crate::policy::{InheritOwner, Share};
use crate::vfs::{Access, Create, Metadata};

const READING: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;

/// The properties of the directory that a new file depends on.
#[derive(Clone, Copy, Default)]
pub(super) struct ParentDirectory<'a> {
    /// Its owner and mode, if the share has new files inherit any of them.
    pub(super) metadata: Option<&'a Metadata>,
    /// Whether its default ACL denies new files access that ACEs inherited from its descriptor would grant. `None` if
    /// the share stores no descriptors.
    pub(super) default_acl_denies: Option<bool>,
}

/// Where the DACL of a new file comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DaclSource {
    /// The mode and the directory's default ACL, which the kernel applies.
    Kernel,
    /// The request.
    Request,
    /// The directory's descriptor. If it has no inheritable ACEs, the mode applies.
    Directory,
}

/// How a new file is created, and what is set on it afterwards.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct NewFilePlan {
    /// The access that the open gets.
    pub(super) granted: AccessMask,
    /// What is created.
    pub(super) kind: Create,
    /// The mode of the file, unless an inherited ACL determines it.
    pub(super) mode: u32,
    /// The mode with which it is created. Only the owner has access to the file until its ACL is set.
    pub(super) initial_mode: u32,
    /// The attributes to store.
    pub(super) dos_attributes: Option<u32>,
    /// The source of its DACL.
    pub(super) dacl: DaclSource,
    /// Whether the volume can set the inherited descriptor when it creates the file, because the request has none.
    pub(super) acl_at_creation: bool,
    /// The owner, if it is not the creator.
    pub(super) owner: Option<u32>,
    /// Whether the file is not compressed, even in a compressed directory.
    pub(super) uncompressed: bool,
    /// The number of bytes to allocate.
    pub(super) allocation: Option<u64>,
}

impl NewFilePlan {
    /// Decides about a file, or with `directory` about a directory.
    pub(super) fn new(
        share: &Share,
        parameters: &Parameters,
        contexts: &Contexts,
        directory: bool,
        parent: ParentDirectory<'_>,
    ) -> NewFilePlan {
        let granted = parameters.granted_on_new();
        let asked = parameters.posix.and_then(|posix| posix.mode);
        let mode = asked.unwrap_or_else(|| mode(share, directory, parent.metadata));
        let dacl = DaclSource::new(contexts, parent);
        let sets_posix_acl = share.acls.stored.as_ref().is_some_and(|acls| !acls.ignore_system_acls);
        let attributes = parameters.attributes | if directory { 0 } else { FileAttributes::ARCHIVE.0 };
        let owner = parent.metadata.filter(|_| share.acls.inherit_owner != InheritOwner::No).map(|parent| parent.uid);
        NewFilePlan {
            granted,
            kind: kind(directory, granted),
            mode,
            initial_mode: if sets_posix_acl && dacl != DaclSource::Kernel { mode & 0o7700 } else { mode },
            dos_attributes: share.attributes.store_dos_attributes.then_some(attributes),
            dacl,
            acl_at_creation: dacl == DaclSource::Directory && contexts.security_descriptor.is_none(),
            owner,
            uncompressed: parameters.options.contains(CreateOptions::NO_COMPRESSION),
            allocation: contexts.allocation_size.filter(|_| share.sync.strict_allocate && !directory),
        }
    }
}

impl DaclSource {
    fn new(contexts: &Contexts, parent: ParentDirectory<'_>) -> DaclSource {
        let given = contexts.security_descriptor.as_ref();
        if given.is_some_and(|given| given.control.contains(Control::DACL_PRESENT)) {
            return DaclSource::Request;
        }
        match parent.default_acl_denies {
            Some(false) => DaclSource::Directory,
            Some(true) | None => DaclSource::Kernel,
        }
    }
}

/// Checks whether the request may create the file, and returns whether it creates a directory.
pub(super) fn check(share: &Share, name: &Name, parameters: &Parameters) -> Result<bool> {
    let directory = parameters.wants_directory() || name.stream == Stream::Index;
    if name.trailing_backslash && !directory {
        return Err(Error::new(Status::OBJECT_NAME_INVALID));
    }
    let readonly = parameters.attributes & FileAttributes::READONLY.0 != 0;
    let deletes = parameters.options.contains(CreateOptions::DELETE_ON_CLOSE);
    if readonly && deletes && !share.attributes.delete_readonly {
        return Err(Error::because(Status::CANNOT_DELETE, "a READONLY file cannot be opened for delete-on-close"));
    }
    Ok(directory)
}

fn kind(directory: bool, granted: AccessMask) -> Create {
    match directory {
        true => Create::Directory,
        false => Create::File(Access { read: granted.0 & READING != 0, write: granted.0 & WRITING != 0 }),
    }
}

/// Returns the mode: `create mask` and `force create mode` or the directory equivalents, or with `inherit permissions`
/// the mode of `parent`. The kernel applies default ACLs on top.
fn mode(share: &Share, directory: bool, parent: Option<&Metadata>) -> u32 {
    let parent = parent.filter(|_| share.modes.inherit_permissions);
    if directory {
        let masked = (0o777 & share.modes.directory_mask) | share.modes.force_directory_mode;
        return parent.map_or(masked, |parent| parent.mode & 0o3777);
    }
    let masked = (0o666 & share.modes.create_mask) | share.modes.force_create_mode;
    parent.map_or(masked, |parent| parent.mode & 0o666)
}

#[cfg(test)]
mod tests {
    use proto::dtyp::SecurityDescriptor;
    use proto::smb2::create::{CreateDisposition, ShareAccess};

    use super::*;
    use crate::command::create::posix::PosixOpen;
    use crate::policy::StoredAcls;
    use crate::testing::{metadata, stored_acls};
    use crate::vfs::{Kind, RelPath};

    /// A share on which files are created with the mode 0664, or 0664 and the bits of a directory.
    fn share(acls: Option<StoredAcls>) -> Share {
        let mut share = Share::new("share", "/share");
        (share.modes.create_mask, share.modes.directory_mask) = (0o664, 0o775);
        share.acls.stored = acls;
        share
    }

    fn parameters(desired_access: AccessMask) -> Parameters {
        Parameters {
            desired_access,
            maximum_allowed: false,
            share_rights: AccessMask::FILE_ALL_ACCESS,
            share_access: ShareAccess(7),
            disposition: CreateDisposition::CREATE,
            options: CreateOptions(0),
            attributes: 0,
            lease: None,
            posix: None,
        }
    }

    fn with_descriptor(control: Control) -> Contexts {
        let descriptor = SecurityDescriptor { control, ..SecurityDescriptor::default() };
        Contexts { security_descriptor: Some(descriptor), ..Contexts::default() }
    }

    fn plan(share: &Share, contexts: &Contexts, default_acl_denies: Option<bool>) -> NewFilePlan {
        let parent = ParentDirectory { default_acl_denies, metadata: None };
        NewFilePlan::new(share, &parameters(AccessMask::FILE_READ_DATA), contexts, false, parent)
    }

    #[test]
    fn the_dacl_is_that_of_the_request_else_of_the_directory_else_of_the_kernel() {
        let (none, dacl, owner) =
            (Contexts::default(), with_descriptor(Control::DACL_PRESENT), with_descriptor(Control::NONE));
        for (contexts, default_acl_denies, expected, acl_at_creation) in [
            (&none, None, DaclSource::Kernel, false),
            (&none, Some(true), DaclSource::Kernel, false),
            (&none, Some(false), DaclSource::Directory, true),
            (&owner, Some(false), DaclSource::Directory, false),
            (&owner, Some(true), DaclSource::Kernel, false),
            (&dacl, Some(false), DaclSource::Request, false),
            (&dacl, Some(true), DaclSource::Request, false),
            (&dacl, None, DaclSource::Request, false),
        ] {
            let acls = default_acl_denies.map(|_| stored_acls());
            let plan = plan(&share(acls), contexts, default_acl_denies);
            assert_eq!((plan.dacl, plan.acl_at_creation), (expected, acl_at_creation), "{default_acl_denies:?}");
        }
    }

    #[test]
    fn only_the_owner_has_access_until_the_acl_is_set() {
        let ignoring = StoredAcls { ignore_system_acls: true, ..stored_acls() };
        for (acls, default_acl_denies, expected) in [
            (None, None, 0o664),
            (Some(stored_acls()), Some(false), 0o600),
            (Some(stored_acls()), Some(true), 0o664),
            (Some(ignoring), Some(false), 0o664),
        ] {
            let plan = plan(&share(acls), &Contexts::default(), default_acl_denies);
            assert_eq!((plan.mode, plan.initial_mode), (0o664, expected), "{default_acl_denies:?}");
        }
    }

    #[test]
    fn mode_and_owner_come_from_the_directory_if_the_share_says_so() {
        let found = metadata(Kind::Directory, 0o2751, (7, 8));
        for (inherit_permissions, inherit_owner, directory, mode, owner) in [
            (false, InheritOwner::No, false, 0o664, None),
            (false, InheritOwner::No, true, 0o775, None),
            (true, InheritOwner::No, false, 0o640, None),
            (true, InheritOwner::No, true, 0o2751, None),
            (false, InheritOwner::WindowsAndUnix, false, 0o664, Some(7)),
            (false, InheritOwner::UnixOnly, true, 0o775, Some(7)),
        ] {
            let mut share = share(None);
            share.modes.inherit_permissions = inherit_permissions;
            share.acls.inherit_owner = inherit_owner;
            let parent = ParentDirectory { metadata: Some(&found), default_acl_denies: None };
            let parameters = parameters(AccessMask::NONE);
            let plan = NewFilePlan::new(&share, &parameters, &Contexts::default(), directory, parent);
            assert_eq!((plan.mode, plan.owner), (mode, owner), "{inherit_owner:?}");
        }
    }

    #[test]
    fn a_posix_open_gives_the_exact_mode() {
        for directory in [false, true] {
            let mut share = share(None);
            (share.modes.create_mask, share.modes.force_directory_mode) = (0o600, 0o2000);
            share.modes.inherit_permissions = true;
            let found = metadata(Kind::Directory, 0o2751, (7, 8));
            let parent = ParentDirectory { metadata: Some(&found), default_acl_denies: None };
            for (mode, expected) in [(Some(0o4711), 0o4711), (Some(0), 0)] {
                let parameters = Parameters { posix: Some(PosixOpen { mode }), ..parameters(AccessMask::NONE) };
                let plan = NewFilePlan::new(&share, &parameters, &Contexts::default(), directory, parent);
                assert_eq!((plan.mode, plan.initial_mode), (expected, expected));
            }
        }
    }

    #[test]
    fn a_file_is_opened_for_the_data_access_that_is_granted() {
        for (access, read, write) in [
            (AccessMask::FILE_READ_ATTRIBUTES, false, false),
            (AccessMask::FILE_EXECUTE, true, false),
            (AccessMask::FILE_APPEND_DATA, false, true),
            (AccessMask::FILE_ALL_ACCESS, true, true),
        ] {
            let none = ParentDirectory::default();
            let plan = NewFilePlan::new(&share(None), &parameters(access), &Contexts::default(), false, none);
            assert_eq!((plan.kind, plan.granted), (Create::File(Access { read, write }), access));
        }
        let maximum = Parameters { maximum_allowed: true, ..parameters(AccessMask::NONE) };
        let none = ParentDirectory::default();
        let plan = NewFilePlan::new(&share(None), &maximum, &Contexts::default(), false, none);
        assert_eq!(plan.granted, AccessMask::FILE_ALL_ACCESS);
    }

    #[test]
    fn files_get_the_archive_attribute_and_their_allocation_and_directories_do_not() {
        let mut share = share(None);
        (share.attributes.store_dos_attributes, share.sync.strict_allocate) = (true, true);
        let contexts = Contexts { allocation_size: Some(9), ..Contexts::default() };
        let plan = |share: &Share, directory| {
            let parent = ParentDirectory::default();
            let plan = NewFilePlan::new(share, &parameters(AccessMask::NONE), &contexts, directory, parent);
            (plan.dos_attributes, plan.allocation)
        };
        assert_eq!(plan(&share, false), (Some(FileAttributes::ARCHIVE.0), Some(9)));
        assert_eq!(plan(&share, true), (Some(0), None));
        (share.attributes.store_dos_attributes, share.sync.strict_allocate) = (false, false);
        assert_eq!(plan(&share, false), (None, None));
    }

    #[test]
    fn requests_that_create_nothing() {
        let name = |stream, trailing_backslash| Name { path: RelPath::root(), stream, trailing_backslash };
        let file = parameters(AccessMask::NONE);
        let status = |share: &Share, name: Name, parameters: &Parameters| {
            check(share, &name, parameters).map_err(|error| error.status)
        };
        let mut share = share(None);
        assert_eq!(status(&share, name(Stream::Unnamed, true), &file), Err(Status::OBJECT_NAME_INVALID));
        assert_eq!(status(&share, name(Stream::Unnamed, false), &file), Ok(false));
        assert_eq!(status(&share, name(Stream::Index, true), &file), Ok(true));
        let options = CreateOptions::DELETE_ON_CLOSE;
        let readonly = Parameters { options, attributes: FileAttributes::READONLY.0, ..file };
        assert_eq!(status(&share, name(Stream::Unnamed, false), &readonly), Err(Status::CANNOT_DELETE));
        share.attributes.delete_readonly = true;
        assert_eq!(status(&share, name(Stream::Unnamed, false), &readonly), Ok(false));
    }
}
