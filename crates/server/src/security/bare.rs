//! What a file shows that has no stored descriptor.

use proto::dtyp::acl::{Ace, AceBody, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};

use super::inherit;
use super::posix::{self, Posix, Sids, UnixSids};
use crate::policy::{AclStyle, Share};
use crate::vfs::Metadata;

/// What a file shows on a share that stores no descriptors.
pub(super) fn of_lists(share: &Share, lists: &Posix) -> SecurityDescriptor {
    let descriptor = with_full_control(share, posix::to_descriptor(lists, &UnixSids), lists.directory);
    if share.dos_filemode { changed_by_writers(descriptor) } else { descriptor }
}

/// What a file without a stored descriptor shows on a share that stores them: as Samba, a directory hands on what the
/// masks of the share allow, its list is not protected, and who may write may change it.
pub(super) fn shown(share: &Share, lists: &Posix) -> SecurityDescriptor {
    let mut descriptor = posix::to_descriptor(lists, &UnixSids);
    descriptor.control = descriptor.control.without(Control::DACL_PROTECTED);
    if lists.directory && !inherit::is_inheritable(&descriptor) {
        let directories = 0o777 & share.directory_mask | share.force_directory_mode;
        let mode = directories | 0o666 & share.create_mask | share.force_create_mode;
        let flags = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT | AceFlags::INHERIT_ONLY;
        let handed_on = [(Sid::CREATOR_OWNER, 6), (Sid::CREATOR_GROUP, 3), (Sid::EVERYONE, 0)]
            .map(|(sid, shift)| Ace::allow(sid, posix::rights((mode >> shift & 7) as u8, true), flags));
        let aces = descriptor.dacl.take().map(Acl::into_aces).unwrap_or_default();
        descriptor.dacl = Acl::new(Acl::REVISION, aces.into_iter().chain(handed_on).collect()).or(Some(Acl::empty()));
    }
    changed_by_writers(with_full_control(share, descriptor, lists.directory))
}

/// `acl map full control`: without it, `rwx` is shown as no more than reading, writing and executing.
fn with_full_control(share: &Share, mut descriptor: SecurityDescriptor, directory: bool) -> SecurityDescriptor {
    if share.acl_map_full_control {
        return descriptor;
    }
    let full = posix::rights(7, directory);
    let plain = [4, 2, 1].into_iter().fold(AccessMask::NONE, |all, bit| all | posix::rights(bit, directory));
    let aces = descriptor.dacl.take().map(Acl::into_aces).unwrap_or_default();
    let aces = aces.into_iter().map(|ace| match ace.body {
        AceBody::Trustee { mask, sid } if mask.contains(full) => {
            Ace { body: AceBody::Trustee { mask: plain, sid }, ..ace }
        }
        _ => ace,
    });
    descriptor.dacl = Acl::new(Acl::REVISION, aces.collect()).or(Some(Acl::empty()));
    descriptor
}

/// What counts for a file without a stored descriptor where POSIX lists do not: `acl_xattr:default acl style`.
pub(super) fn default_descriptor(style: AclStyle, metadata: &Metadata) -> SecurityDescriptor {
    let all = AccessMask::FILE_ALL_ACCESS;
    let (owner, group) = (UnixSids.user(metadata.uid), UnixSids.group(metadata.gid));
    let read = AccessMask::FILE_GENERIC_READ | AccessMask::FILE_EXECUTE;
    let own = match metadata.mode >> 6 & 6 {
        6 => all,
        4 => read,
        2 => AccessMask::FILE_GENERIC_WRITE | AccessMask::DELETE,
        _ => AccessMask::NONE,
    };
    let rules = match style {
        AclStyle::Windows => vec![(owner, own), (Sid::SYSTEM, all)],
        AclStyle::Everyone => vec![(Sid::EVERYONE, all)],
        AclStyle::Posix => {
            let bits = |shift: u32| {
                let bit = |bit, rights| if metadata.mode >> shift & bit != 0 { rights } else { AccessMask::NONE };
                bit(4, read) | bit(2, AccessMask::FILE_GENERIC_WRITE)
            };
            let others = [(group, bits(3)), (Sid::EVERYONE, bits(0))];
            let others = others.into_iter().filter(|(_, rights)| *rights != AccessMask::NONE);
            [(owner, own)].into_iter().chain(others).chain([(Sid::SYSTEM, all)]).collect()
        }
    };
    let aces = rules.into_iter().map(|(sid, mask)| Ace::allow(sid, mask, AceFlags::NONE)).collect();
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        owner: Some(owner),
        group: Some(group),
        dacl: Some(Acl::new(Acl::REVISION, aces).unwrap_or(Acl::empty())),
        ..SecurityDescriptor::default()
    }
}

/// Who may write a file may change what protects it, and delete it: `dos filemode`, which stored descriptors bring along
/// in Samba.
fn changed_by_writers(mut descriptor: SecurityDescriptor) -> SecurityDescriptor {
    const MORE: AccessMask = AccessMask(AccessMask::WRITE_DAC.0 | AccessMask::WRITE_OWNER.0 | AccessMask::DELETE.0);
    let aces = descriptor.dacl.take().map(Acl::into_aces).unwrap_or_default();
    let aces = aces.into_iter().map(|ace| match ace.body {
        AceBody::Trustee { mask, sid } if mask.contains(AccessMask::FILE_WRITE_DATA) => {
            Ace { body: AceBody::Trustee { mask: mask | MORE, sid }, ..ace }
        }
        _ => ace,
    });
    descriptor.dacl = Acl::new(Acl::REVISION, aces.collect()).or(Some(Acl::empty()));
    descriptor
}
