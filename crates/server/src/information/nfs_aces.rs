//! The UNIX owner, group and mode of a file as entries of its DACL, by which Macs query and set the mode
//! (`fruit:nfs_aces`), and Linux clients with the POSIX extensions set it. They grant and deny nothing, and are never
//! stored.

use proto::dtyp::acl::{Ace, AceFlags, Acl};
use proto::dtyp::{AccessMask, SecurityDescriptor, Sid};

use crate::vfs::{Kind, Metadata};

/// The authorities of these SIDs, `S-1-5-88-KIND-VALUE`.
const NT_AUTHORITY: u64 = 5;
const NFS: u32 = 88;
const OWNER: u32 = 1;
const GROUP: u32 = 2;
const MODE: u32 = 3;

/// Returns the kind and the value of such a SID.
fn parts(sid: &Sid) -> Option<(u32, u32)> {
    match *sid.sub_authorities() {
        [NFS, kind @ OWNER..=MODE, value] if sid.authority() == NT_AUTHORITY => Some((kind, value)),
        _ => None,
    }
}

/// Adds the entries to a DACL that was requested.
pub(super) fn add(descriptor: &mut SecurityDescriptor, metadata: &Metadata) {
    let Some(dacl) = &descriptor.dacl else { return };
    let (revision, mut aces) = (dacl.revision(), dacl.aces().to_vec());
    let kind = if metadata.kind == Kind::Directory { 0o040_000 } else { 0o100_000 };
    for (kind, value) in [(OWNER, metadata.uid), (GROUP, metadata.gid), (MODE, metadata.mode | kind)] {
        let sid = Sid::of(NT_AUTHORITY, [NFS, kind, value]);
        aces.push(Ace::deny(sid, AccessMask::NONE, AceFlags::NONE));
    }
    // A list of the greatest length is shown without them.
    if let Some(longer) = Acl::new(revision, aces) {
        descriptor.dacl = Some(longer);
    }
}

/// What a descriptor that a client sets contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taken {
    /// The requested mode, possibly with the type of the file.
    pub(crate) mode: Option<u32>,
    /// The DACL had no other entries, so it is not one to set.
    pub(crate) was_all: bool,
}

/// Removes the entries from a descriptor that a client sets.
pub(crate) fn take(descriptor: &mut SecurityDescriptor) -> Taken {
    let Some(dacl) = &descriptor.dacl else { return Taken::default() };
    let (revision, mut aces) = (dacl.revision(), dacl.aces().to_vec());
    let mut taken = Taken::default();
    let before = aces.len();
    aces.retain(|ace| match ace.trustee().and_then(|(_, sid)| parts(sid)) {
        Some((MODE, mode)) => {
            taken.mode = Some(mode);
            false
        }
        Some(_) => false,
        None => true,
    });
    taken.was_all = before > 0 && aces.is_empty();
    // The list has become shorter, so it is valid.
    descriptor.dacl = Acl::new(revision, aces).or(descriptor.dacl.take());
    taken
}

/// Replaces an owner and a group that are given as such SIDs by those of Linux.
pub(crate) fn take_owners(descriptor: &mut SecurityDescriptor) {
    if let Some((OWNER, uid)) = descriptor.owner.as_ref().and_then(parts) {
        descriptor.owner = Some(Sid::unix_user(uid));
    }
    if let Some((GROUP, gid)) = descriptor.group.as_ref().and_then(parts) {
        descriptor.group = Some(Sid::unix_group(gid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(aces: Vec<Ace>) -> SecurityDescriptor {
        SecurityDescriptor { dacl: Acl::new(Acl::REVISION, aces), ..SecurityDescriptor::default() }
    }

    fn nfs(kind: u32, value: u32) -> Ace {
        Ace::deny(Sid::of(5, [88, kind, value]), AccessMask::NONE, AceFlags::NONE)
    }

    #[test]
    fn owners_become_those_of_linux() {
        let mut given = SecurityDescriptor {
            owner: Some(Sid::of(5, [88, 1, 1000])),
            group: Some(Sid::of(5, [88, 2, 100])),
            ..SecurityDescriptor::default()
        };
        take_owners(&mut given);
        assert_eq!((given.owner, given.group), (Some(Sid::unix_user(1000)), Some(Sid::unix_group(100))));
        // Each kind has its own field.
        let mut swapped = SecurityDescriptor { owner: Some(Sid::of(5, [88, 2, 1])), ..SecurityDescriptor::default() };
        take_owners(&mut swapped);
        assert_eq!(swapped.owner, Some(Sid::of(5, [88, 2, 1])));
    }

    #[test]
    fn the_mode_is_taken_and_other_entries_stay() {
        let other = Ace::allow(Sid::EVERYONE, AccessMask::READ_CONTROL, AceFlags::NONE);
        let mut given = descriptor(vec![other.clone(), nfs(1, 0), nfs(2, 0), nfs(3, 0o104_755)]);
        assert_eq!(take(&mut given), Taken { mode: Some(0o104_755), was_all: false });
        assert_eq!(given, descriptor(vec![other]));
        let mut only = descriptor(vec![nfs(3, 0o600)]);
        assert_eq!(take(&mut only), Taken { mode: Some(0o600), was_all: true });
        for none in [descriptor(vec![]), SecurityDescriptor::default(), descriptor(vec![nfs(4, 1)])] {
            assert_eq!(take(&mut none.clone()), Taken::default());
        }
    }
}
