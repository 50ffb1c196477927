//! Synthesized descriptors, for files without a valid stored descriptor.

use proto::dtyp::acl::{Ace, AceBody, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};

use crate::acl::model::inherit;
use crate::acl::posix;
use crate::acl::posix::{Posix, Sids, UnixSids};
use crate::policy::{AclStyle, Share};
use crate::vfs::{Kind, Metadata};

/// Returns the descriptor of a file with the POSIX ACLs `lists` that has no valid stored descriptor.
pub(crate) fn synthesize(share: &Share, lists: &Posix) -> SecurityDescriptor {
    if share.acls.stored.is_some() { shown(share, lists) } else { of_lists(share, lists) }
}

/// Returns the descriptor that clients see on a share that stores no descriptors.
fn of_lists(share: &Share, lists: &Posix) -> SecurityDescriptor {
    let descriptor = with_full_control(share, posix::to_descriptor(lists, &UnixSids), lists.directory);
    if share.acls.dos_filemode { changed_by_writers(descriptor) } else { descriptor }
}

/// Returns the descriptor of a file without a stored one on a share that stores them. As in Samba, a directory gets
/// inheritable ACEs from the masks of the share, the DACL is not protected, and users who can write may change it.
pub(crate) fn shown(share: &Share, lists: &Posix) -> SecurityDescriptor {
    let mut descriptor = posix::to_descriptor(lists, &UnixSids);
    descriptor.control = descriptor.control.without(Control::DACL_PROTECTED);
    if lists.directory && !inherit::is_inheritable(&descriptor) {
        let directories = 0o777 & share.modes.directory_mask | share.modes.force_directory_mode;
        let mode = directories | 0o666 & share.modes.create_mask | share.modes.force_create_mode;
        let flags = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT | AceFlags::INHERIT_ONLY;
        let handed_on = [(Sid::CREATOR_OWNER, 6), (Sid::CREATOR_GROUP, 3), (Sid::EVERYONE, 0)]
            .map(|(sid, shift)| Ace::allow(sid, posix::rights((mode >> shift & 7) as u8, true), flags));
        let aces = descriptor.dacl.take().map(Acl::into_aces).unwrap_or_default();
        descriptor.dacl = Acl::new(Acl::REVISION, aces.into_iter().chain(handed_on).collect()).or(Some(Acl::empty()));
    }
    changed_by_writers(with_full_control(share, descriptor, lists.directory))
}

/// Returns the rights that [`shown`] grants to the owner at least, computed from the mode alone, and whether they are
/// all of the owner's rights. They are all if no group or other bit exceeds the owner's, because entries for groups,
/// for everyone, or for the owner by name cannot exceed those bits. The rights apply even if the POSIX ACL is too long
/// to be converted, in which case other users have none.
pub(crate) fn owner_rights_from_mode(share: &Share, metadata: &Metadata) -> Option<(AccessMask, bool)> {
    let directory = match metadata.kind {
        Kind::File => false,
        Kind::Directory => true,
        Kind::Symlink | Kind::Special => return None,
    };
    let (own, others) = (metadata.mode >> 6 & 7, (metadata.mode >> 3 | metadata.mode) & 7);
    let mask = for_writers(as_configured(share, posix::rights(own as u8, directory), directory));
    Some((mask | AccessMask::READ_CONTROL | AccessMask::WRITE_DAC, others & !own == 0))
}

/// Applies `acl map full control`: without it, `rwx` is shown as no more than reading, writing and executing.
fn with_full_control(share: &Share, descriptor: SecurityDescriptor, directory: bool) -> SecurityDescriptor {
    if share.acls.acl_map_full_control {
        return descriptor;
    }
    with_rights(descriptor, |mask| as_configured(share, mask, directory))
}

/// Applies [`with_full_control`] to the rights of one ACE.
fn as_configured(share: &Share, mask: AccessMask, directory: bool) -> AccessMask {
    if share.acls.acl_map_full_control || !mask.contains(posix::rights(7, directory)) {
        return mask;
    }
    [4, 2, 1].into_iter().fold(AccessMask::NONE, |all, bit| all | posix::rights(bit, directory))
}

/// Replaces the access mask of each ACE of `descriptor`.
fn with_rights(mut descriptor: SecurityDescriptor, other: impl Fn(AccessMask) -> AccessMask) -> SecurityDescriptor {
    let aces = descriptor.dacl.take().map(Acl::into_aces).unwrap_or_default();
    let aces = aces.into_iter().map(|ace| match ace.body {
        AceBody::Trustee { mask, sid } => Ace { body: AceBody::Trustee { mask: other(mask), sid }, ..ace },
        AceBody::Raw(_) => ace,
    });
    descriptor.dacl = Acl::new(Acl::REVISION, aces.collect()).or(Some(Acl::empty()));
    descriptor
}

/// Returns the effective descriptor of a file without a stored one where POSIX ACLs are ignored: `acl_xattr:default acl
/// style`.
pub(crate) fn default_descriptor(style: AclStyle, metadata: &Metadata) -> SecurityDescriptor {
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

/// Lets users who can write a file change its security descriptor and delete it. This is `dos filemode`, which Samba
/// implies where descriptors are stored.
fn changed_by_writers(descriptor: SecurityDescriptor) -> SecurityDescriptor {
    with_rights(descriptor, for_writers)
}

/// Applies [`changed_by_writers`] to the rights of one ACE.
fn for_writers(mask: AccessMask) -> AccessMask {
    const MORE: AccessMask = AccessMask(AccessMask::WRITE_DAC.0 | AccessMask::WRITE_OWNER.0 | AccessMask::DELETE.0);
    if mask.contains(AccessMask::FILE_WRITE_DATA) { mask | MORE } else { mask }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::acl::model::evaluate::{Token, granted};
    use crate::acl::model::posix_acl::{Entry, PosixAcl, Tag};
    use crate::testing::{metadata, stored_acls};

    const OWNER: u32 = 10;
    const GROUP: u32 = 20;

    fn list() -> impl Strategy<Value = PosixAcl> {
        let named = prop::collection::vec((any::<bool>(), 9_u32..13, 19_u32..23, 0_u8..8), 0..4);
        let classes = (0_u8..8, 0_u8..8, 0_u8..8);
        (classes, named, prop::option::of(0_u8..8)).prop_map(|((owner, group, other), named, mask)| {
            let entry = |tag, permissions| Entry { tag, permissions };
            let mut entries = vec![entry(Tag::Owner, owner), entry(Tag::OwningGroup, group), entry(Tag::Other, other)];
            for (user, uid, gid, permissions) in named {
                let tag = if user { Tag::User(uid) } else { Tag::Group(gid) };
                if entries.iter().all(|entry| entry.tag != tag) {
                    entries.push(entry(tag, permissions));
                }
            }
            entries.extend(mask.map(|mask| entry(Tag::Mask, mask)));
            PosixAcl::new(entries)
        })
    }

    proptest! {
        /// The rights that the mode alone gives to the owner never exceed those granted by the synthesized descriptor.
        #[test]
        fn rights_in_the_mode_are_granted(
            access in list(),
            default in prop::option::of(list()),
            directory in any::<bool>(),
            full_control in any::<bool>(),
            gids in prop::collection::vec(19_u32..23, 0..3),
        ) {
            let mut share = Share::new("s", "/s");
            share.acls.stored = Some(stored_acls());
            share.acls.acl_map_full_control = full_control;
            let kind = if directory { Kind::Directory } else { Kind::File };
            let metadata = metadata(kind, access.mode(), (OWNER, GROUP));
            let groups = gids.into_iter().map(Sid::unix_group).chain([Sid::EVERYONE]).collect();
            let token = Token { user: Sid::unix_user(OWNER), groups, security: false, take_ownership: false };
            let default = default.filter(|_| directory);
            let posix = Posix { directory, uid: OWNER, gid: GROUP, access, default };
            let all = granted(&token, &synthesize(&share, &posix));
            let (own, is_all) = owner_rights_from_mode(&share, &metadata).expect("a file or directory");
            prop_assert!(all.contains(own), "{all:?} {own:?}");
            prop_assert!(!is_all || all == own, "{all:?} {own:?}");
        }
    }

    #[test]
    fn rights_that_the_mode_cannot_express() {
        let share = Share::new("s", "/s");
        let is_all = |mode| {
            owner_rights_from_mode(&share, &metadata(Kind::File, mode, (OWNER, GROUP))).map(|(_, is_all)| is_all)
        };
        assert_eq!((is_all(0o640), is_all(0o4755)), (Some(true), Some(true)));
        assert_eq!((is_all(0o674), is_all(0o641), is_all(0o004)), (Some(false), Some(false), Some(false)));
        assert_eq!(owner_rights_from_mode(&share, &metadata(Kind::Symlink, 0o777, (OWNER, GROUP))), None);
    }
}
