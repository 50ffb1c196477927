//! What a new file inherits, worked out before it is made, so that the file system puts it in place together with the
//! file. Where owner or mode turn out otherwise, [`super::placing::inherit`] does it afterwards.

use proto::dtyp::FileTime;

use super::descriptor::Protection;
use super::placing::{inherited, lists_for};
use super::posix::{Duty, Posix};
use super::posix_acl::{self, PosixAcl};
use super::store;
use crate::policy::InheritOwner;
use crate::tree::Disk;
use crate::vfs::{Guard, Kind, Time, Watched};

/// What the user's new file or `directory` has from `parent`, which protects the directory `watched`; `None` where that
/// hands nothing on, or where it takes knowing the file. `mode` is what it would have without.
pub(crate) async fn foresee(
    disk: &Disk,
    now: Time,
    parent: &Protection,
    watched: &Watched,
    mode: u32,
    directory: bool,
) -> Option<Guard> {
    let acls = disk.share.acls.as_ref()?;
    if disk.share.inherit_owner != InheritOwner::No {
        return None;
    }
    let hands_group_on = watched.mode & 0o2000 != 0;
    let (uid, gid) = (disk.identity.uid, if hands_group_on { watched.gid } else { disk.identity.gid });
    let descriptor = inherited(disk, parent, uid, gid, directory).await?;
    let (lists, mode, value) = if acls.ignore_system_acls {
        (Vec::new(), None, store::encode_unconditional(&descriptor))
    } else {
        let before = Posix { directory, uid, gid, access: PosixAcl::of_mode(0), default: None };
        let lists = lists_for(disk, &before, &descriptor, Duty::Beneath, false).await.ok()?;
        let lists = if directory || mode & 0o111 != 0 { lists } else { lists.not_executable() };
        let mode = lists.access.mode() | if directory && hands_group_on { 0o2000 } else { 0 };
        let kind = if directory { Kind::Directory } else { Kind::File };
        let hash = store::hash_of(kind, (uid, gid), mode, &lists.access, lists.default.as_ref());
        (placed(&lists), Some(mode), store::encode(&descriptor, hash, FileTime::from(now)))
    };
    let fits = value.len() <= store::LONGEST;
    fits.then(|| Guard { owner: (uid, gid), mode, lists, descriptor: (acls.attribute.to_string(), value) })
}

/// The attributes that hold the lists. A directory may have got a default list from its own, so it is told to have none.
fn placed(lists: &Posix) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let default = lists.directory.then(|| (posix_acl::DEFAULT, lists.default.as_ref().map(PosixAcl::encode)));
    [(posix_acl::ACCESS, Some(lists.access.encode()))].into_iter().chain(default).collect()
}
