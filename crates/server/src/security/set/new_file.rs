//! The initial security descriptor of a new file, computed before the file is created so that the file system can set
//! it atomically. If owner or mode turn out to be different, [`crate::security::set::apply::inherit`] sets it
//! afterwards.
//!
//! Clients often create many files that inherit the same ACEs, so the last results are cached for a few seconds.

use proto::dtyp::acl::Ace;
use proto::dtyp::{Acl, FileTime};

use crate::accounts::principals::UnixId;
use crate::acl::initial::{InitialAclKey, New};
use crate::acl::model::posix_acl;
use crate::acl::model::posix_acl::PosixAcl;
use crate::acl::ntacl;
use crate::acl::posix::{Duty, Posix};
use crate::acl::protection::Protection;
use crate::acl::sids;
use crate::policy::{InheritOwner, StoredAcls};
use crate::security::set::apply::{inherited, lists_for};
use crate::tree::Disk;
use crate::vfs::{InitialAcl, Kind, Time};

/// Returns the [`InitialAcl`] of a new file or `directory` of the user in a directory with the mode and group `above`,
/// which is protected by `parent`. `None` if the parent has no inheritable ACEs or if they depend on the file's actual
/// owner. `mode` is the mode of the file without inheritance.
pub(crate) async fn predict_acl(
    disk: &Disk,
    now: Time,
    parent: &Protection,
    above: (u32, u32),
    mode: u32,
    directory: bool,
) -> Option<InitialAcl> {
    let acls = disk.share.acls.stored.as_ref()?;
    if disk.share.acls.inherit_owner != InheritOwner::No {
        return None;
    }
    let (above_mode, above_gid) = above;
    let hands_group_on = above_mode & 0o2000 != 0;
    let gid = if hands_group_on { above_gid } else { disk.op.gid };
    let new = New { gid, directory, executable: mode & 0o111 != 0, hands_group_on };
    let key = InitialAclKey { from: parent.by(), stored: parent.stored, place: disk.place, token: disk.token_id, new };
    let initial_acls = disk.descriptors.initial_acls();
    let uptime = disk.descriptors.uptime();
    let mut initial = match initial_acls.and_then(|initial_acls| initial_acls.find(&key, uptime)) {
        Some(known) => known,
        None => {
            let initial = work_out(disk, acls, parent, new).await;
            if let Some(initial_acls) = initial_acls
                && are_all_known(disk, parent, gid).await
            {
                initial_acls.keep(key, uptime, initial.clone());
            }
            initial
        }
    }?;
    if !acls.ignore_system_acls {
        ntacl::set_time(&mut initial.descriptor.1, FileTime::from(now));
    }
    Some(initial)
}

/// Computes the result of [`predict_acl`], with a time stamp of zero.
async fn work_out(disk: &Disk, acls: &StoredAcls, parent: &Protection, new: New) -> Option<InitialAcl> {
    let New { gid, directory, executable, hands_group_on } = new;
    let uid = disk.op.uid;
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
    fits.then(|| InitialAcl { owner: (uid, gid), mode, lists, descriptor: (acls.attribute.to_string(), value) })
}

/// Whether all SIDs that affect inheritance from `parent` can be resolved now. If not, the file is created with what is
/// known, but the result is not cached for later files.
async fn are_all_known(disk: &Disk, parent: &Protection, gid: u32) -> bool {
    let ids = &*disk.ids;
    for id in [UnixId::User(disk.op.uid), UnixId::Group(gid)] {
        if ids.sid_of(id).await.is_err() {
            return false;
        }
    }
    let Ok(descriptor) = sids::shown(ids, parent.descriptor(&disk.share).into_owned()).await else { return false };
    for (_, sid) in descriptor.dacl.iter().flat_map(Acl::aces).filter_map(Ace::trustee) {
        if sids::id_of(ids, sid).await.is_err() {
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
