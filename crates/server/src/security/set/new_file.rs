//! The initial security descriptor of a new file, computed before the file is created so that the file system can set
//! it atomically. If owner or mode turn out to be different, [`crate::security::set::apply::inherit`] sets it
//! afterwards.
//!
//! Clients often create many files that inherit the same ACEs, so the last results are cached for a few seconds.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use proto::dtyp::acl::Ace;
use proto::dtyp::{Acl, FileTime};

use crate::accounts::principals::UnixId;
use crate::policy::limits::CACHED_INITIAL_ACL_BYTES;
use crate::policy::limits::CACHED_INITIAL_ACLS;
use crate::policy::{InheritOwner, StoredAcls};
use crate::security::effective::Protection;
use crate::security::effective::cache::{By, Place};
use crate::security::model::posix_acl;
use crate::security::model::posix_acl::PosixAcl;
use crate::security::posix::{Duty, Posix};
use crate::security::set::apply::{inherited, lists_for};
use crate::security::sids;
use crate::security::stored::ntacl;
use crate::tree::Disk;
use crate::vfs::{DirectoryVersion, Guard, Kind, Time};

/// Returns the security attributes of the user's new file or `directory` in the directory `watched`, which is protected
/// by `parent`. `None` if the parent has no inheritable ACEs or if they depend on the file's actual owner. `mode` is
/// the mode of the file without inheritance.
pub(crate) async fn foresee(
    disk: &Disk,
    now: Time,
    parent: &Protection,
    watched: &DirectoryVersion,
    mode: u32,
    directory: bool,
) -> Option<Guard> {
    let acls = disk.share.acls.as_ref()?;
    if disk.share.inherit_owner != InheritOwner::No {
        return None;
    }
    let hands_group_on = watched.mode & 0o2000 != 0;
    let gid = if hands_group_on { watched.gid } else { disk.identity.gid };
    let new = New { gid, directory, executable: mode & 0o111 != 0, hands_group_on };
    let heir = Heir { from: parent.by(), stored: parent.stored, place: disk.place, token: disk.token_id, new };
    let heirs = disk.descriptors.heirs();
    let uptime = disk.descriptors.uptime();
    let mut guard = match heirs.and_then(|heirs| heirs.find(&heir, uptime)) {
        Some(known) => known,
        None => {
            let guard = work_out(disk, acls, parent, new).await;
            if let Some(heirs) = heirs
                && are_all_known(disk, parent, gid).await
            {
                heirs.keep(heir, uptime, guard.clone());
            }
            guard
        }
    }?;
    if !acls.ignore_system_acls {
        ntacl::set_time(&mut guard.descriptor.1, FileTime::from(now));
    }
    Some(guard)
}

/// Computes the same, with a time stamp of zero.
async fn work_out(disk: &Disk, acls: &StoredAcls, parent: &Protection, new: New) -> Option<Guard> {
    let New { gid, directory, executable, hands_group_on } = new;
    let uid = disk.identity.uid;
    let descriptor = inherited(disk, parent, uid, gid, directory).await?;
    let (lists, mode, value) = if acls.ignore_system_acls {
        (Vec::new(), None, ntacl::encode_unconditional(&descriptor))
    } else {
        let before = Posix { directory, uid, gid, access: PosixAcl::of_mode(0), default: None };
        let lists = lists_for(disk, &before, &descriptor, Duty::Beneath, false).await.ok()?;
        let lists = if directory || executable { lists } else { lists.not_executable() };
        let mode = lists.access.mode() | if directory && hands_group_on { 0o2000 } else { 0 };
        let kind = if directory { Kind::Directory } else { Kind::File };
        let hash = ntacl::hash_of(kind, (uid, gid), mode, &lists.access, lists.default.as_ref());
        (placed(&lists), Some(mode), ntacl::encode(&descriptor, hash, FileTime::default()))
    };
    let fits = value.len() <= ntacl::LONGEST;
    fits.then(|| Guard { owner: (uid, gid), mode, lists, descriptor: (acls.attribute.to_string(), value) })
}

/// Whether all SIDs that affect inheritance from `parent` can be resolved now. If not, the file is created with what is
/// known, but the result is not cached for later files.
async fn are_all_known(disk: &Disk, parent: &Protection, gid: u32) -> bool {
    let accounts = &*disk.accounts;
    for id in [UnixId::User(disk.identity.uid), UnixId::Group(gid)] {
        if accounts.sid_of(id).await.is_err() {
            return false;
        }
    }
    let Ok(descriptor) = sids::shown(accounts, parent.descriptor(&disk.share).into_owned()).await else { return false };
    for (_, sid) in descriptor.dacl.iter().flat_map(Acl::aces).filter_map(Ace::trustee) {
        if sids::id_of(accounts, sid).await.is_err() {
            return false;
        }
    }
    true
}

/// Returns the attributes that hold the POSIX ACLs. For a directory the default ACL is always set or removed, because
/// the new directory may have inherited one from its parent.
fn placed(lists: &Posix) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let default = lists.directory.then(|| (posix_acl::DEFAULT, lists.default.as_ref().map(PosixAcl::encode)));
    [(posix_acl::ACCESS, Some(lists.access.encode()))].into_iter().chain(default).collect()
}

/// The new file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct New {
    gid: u32,
    directory: bool,
    executable: bool,
    /// The directory passes its group on to new files (setgid).
    hands_group_on: bool,
}

/// Key of a cached result: all inputs except the mapping of SIDs to ids.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Heir {
    from: By,
    stored: bool,
    place: Place,
    token: u64,
    new: New,
}

/// The results computed last.
#[derive(Default)]
pub(in crate::security) struct InitialAcls {
    /// The latest is last.
    known: Mutex<VecDeque<(Heir, Duration, Option<Guard>)>>,
}

impl InitialAcls {
    /// Lifetime of a result. After the SID of an account changes, new files get the old one for at most this long.
    const LIFE: Duration = Duration::from_secs(5);

    /// Returns the result cached at most [`InitialAcls::LIFE`] before `uptime`. `Some(None)` if nothing is inherited.
    fn find(&self, heir: &Heir, uptime: Duration) -> Option<Option<Guard>> {
        let known = self.known.lock();
        let (_, since, guard) = known.iter().find(|(known, ..)| known == heir)?;
        (uptime.saturating_sub(*since) < InitialAcls::LIFE).then(|| guard.clone())
    }

    fn keep(&self, heir: Heir, uptime: Duration, guard: Option<Guard>) {
        let length = |guard: &Guard| {
            let lists = guard.lists.iter().filter_map(|(_, value)| value.as_ref());
            guard.descriptor.1.len() + lists.map(Vec::len).sum::<usize>()
        };
        if guard.as_ref().map_or(0, length) > CACHED_INITIAL_ACL_BYTES {
            return;
        }
        let mut known = self.known.lock();
        known.retain(|(known, ..)| *known != heir);
        if known.len() == CACHED_INITIAL_ACLS {
            known.pop_front();
        }
        known.push_back((heir, uptime, guard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn guard(length: usize) -> Guard {
        Guard { owner: (1, 1), mode: None, lists: Vec::new(), descriptor: (String::new(), vec![0; length]) }
    }

    fn heir(print: u64) -> Heir {
        let new = New { gid: 1, directory: false, executable: false, hands_group_on: false };
        Heir { from: By::AclInputs(print), stored: false, place: Place::default(), token: 1, new }
    }

    #[test]
    fn cached_guards_are_valid_for_the_same_input_and_a_limited_time() {
        let heirs = InitialAcls::default();
        assert_eq!(heirs.find(&heir(1), at(9)), None);
        heirs.keep(heir(1), at(9), Some(guard(1)));
        heirs.keep(heir(2), at(9), None);
        assert_eq!(heirs.find(&heir(1), at(9)), Some(Some(guard(1))));
        assert_eq!(heirs.find(&heir(2), at(13)), Some(None));
        assert_eq!(heirs.find(&heir(1), at(14)), None, "the entry is outdated");
        let other = |change: fn(&mut Heir)| {
            let mut heir = heir(1);
            change(&mut heir);
            heirs.find(&heir, at(9))
        };
        for change in [
            |heir: &mut Heir| heir.from = By::Descriptor(1),
            |heir: &mut Heir| heir.stored = true,
            |heir: &mut Heir| heir.token = 2,
            |heir: &mut Heir| heir.new.gid = 2,
            |heir: &mut Heir| heir.new.directory = true,
            |heir: &mut Heir| heir.new.executable = true,
            |heir: &mut Heir| heir.new.hands_group_on = true,
        ] {
            assert_eq!(other(change), None);
        }
        heirs.keep(heir(1), at(14), Some(guard(2)));
        assert_eq!(heirs.find(&heir(1), at(14)), Some(Some(guard(2))), "the newer entry is valid");
    }

    #[test]
    fn few_guards_are_cached_and_no_long_ones() {
        let heirs = InitialAcls::default();
        heirs.keep(heir(0), at(0), Some(guard(CACHED_INITIAL_ACL_BYTES + 1)));
        assert_eq!(heirs.find(&heir(0), at(0)), None);
        (0..100).for_each(|print| heirs.keep(heir(print), at(0), Some(guard(CACHED_INITIAL_ACL_BYTES))));
        let known = (0..100).filter(|&print| heirs.find(&heir(print), at(0)).is_some()).count();
        assert_eq!((known, heirs.find(&heir(99), at(0)).is_some()), (CACHED_INITIAL_ACLS, true));
    }
}
