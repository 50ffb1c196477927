//! The security descriptor of a file: stored, or made from what Linux knows.
//!
//! A share with `vfs objects = acl_xattr` stores descriptors ([`super::store`]), and [`super::placing`] puts them in place. A
//! stored descriptor counts as long as the POSIX lists beneath are as they were left: who changes them past the server has
//! made a new decision.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use proto::dtyp::AccessMask;

use super::cache::{Descriptor, Seen};
use super::evaluate::{self, Token};
use super::material::{Found, Material};
use super::posix_acl::PosixAcl;
use super::sids::{self, is_account};
use super::storing;
use crate::error::Result;
use crate::held;
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{Identity, Metadata, Node, Watched};

/// The server itself, for what no user may do: writing the attribute that holds a descriptor, and what a descriptor
/// grants to somebody other than the owner. Nothing that a client names is ever touched with it.
pub(super) static SERVER: LazyLock<Arc<Identity>> =
    LazyLock::new(|| Arc::new(Identity { uid: 0, gid: 0, groups: Box::new([]) }));

/// What a file without a stored descriptor grants to who may write it, and to nobody else but its owner.
const BY_WRITING: AccessMask = AccessMask(
    AccessMask::FILE_GENERIC_WRITE.0 & !(AccessMask::READ_CONTROL.0 | AccessMask::SYNCHRONIZE.0)
        | AccessMask::FILE_DELETE_CHILD.0
        | AccessMask::WRITE_DAC.0
        | AccessMask::WRITE_OWNER.0
        | AccessMask::DELETE.0,
);

/// What somebody was granted, and by which token.
#[derive(Default)]
struct LastGrant(Mutex<Option<(u64, AccessMask)>>);

impl LastGrant {
    /// What the token `token` is granted: as known, or as `work_out` says.
    fn of(&self, token: u64, work_out: impl FnOnce() -> AccessMask) -> AccessMask {
        let last = *self.0.lock();
        match last {
            Some((last, granted)) if last == token => granted,
            _ => {
                let granted = work_out();
                *self.0.lock() = Some((token, granted));
                granted
            }
        }
    }
}

/// A descriptor, and whose SID its owner is.
pub(crate) struct Protection {
    /// What counts.
    pub(crate) descriptor: Arc<Descriptor>,
    /// The file's owner and group as Linux knows them.
    owner: (u32, u32),
    /// It was stored, and its condition holds.
    confirmed: bool,
    /// It is a stored one, which clients see as it is: in others the ids of Linux stand for accounts.
    pub(crate) stored: bool,
    /// The SID in the owner's place is nobody else's here, so it is that of the file's owner.
    owner_stands: bool,
    /// The list by which the kernel decides; `None` where it was not read.
    list: Option<PosixAcl>,
    /// What the kernel hands on to new files keeps somebody out whom what the descriptor hands on would let in.
    pub(crate) keeps_heirs_out: bool,
    /// What it granted last, for who asks again.
    last: LastGrant,
    /// What all of this was made of: [`Cache::print`](super::cache::Cache::print).
    pub(super) print: u64,
}

impl Protection {
    /// That of the file of `metadata` by `descriptor`, which was made of what has the print `print`.
    pub(super) fn new(descriptor: Arc<Descriptor>, metadata: &Metadata, confirmed: bool, print: u64) -> Self {
        Protection {
            descriptor,
            owner: (metadata.uid, metadata.gid),
            confirmed,
            stored: confirmed,
            owner_stands: false,
            list: None,
            keeps_heirs_out: false,
            last: LastGrant::default(),
            print,
        }
    }

    /// The same where the kernel decides by `list`.
    pub(super) fn beside(self, list: PosixAcl) -> Self {
        Protection { list: Some(list), ..self }
    }

    /// The bytes that it takes besides the descriptor.
    pub(super) fn bytes(&self) -> usize {
        held::shared::<Self>() + self.list.as_ref().map_or(0, PosixAcl::bytes)
    }

    /// Whether the kernel gives the `rwx` bits `wanted` to `who`, who is not root; `None` where the list is not known.
    pub(super) fn permits(&self, who: &Identity, wanted: u8) -> Option<bool> {
        let (uid, gid) = self.owner;
        self.list.as_ref().map(|list| list.permits(who, uid, gid, wanted))
    }

    /// All rights that the user of `disk` has by it.
    pub(crate) fn granted(&self, disk: &Disk) -> AccessMask {
        self.last.of(disk.token_id, || self.work_out(disk))
    }

    fn work_out(&self, disk: &Disk) -> AccessMask {
        let who = &disk.identity;
        let (uid, _) = self.owner;
        let owns = self.confirmed && self.owner_stands && who.uid == uid;
        let grant = (self.descriptor.id(), disk.token_id, owns);
        let all = disk.descriptors.granted(grant, || match self.token(&disk.token, owns) {
            Some(token) => evaluate::granted(&token, &self.descriptor),
            None => evaluate::granted(&disk.token, &self.descriptor),
        });
        // What is made of a list adds up what several entries grant, and the kernel looks at one. Whom that keeps from
        // writing must not change the list either, which the server would do for him.
        let writes = self.confirmed || who.uid == uid || !all.intersects(BY_WRITING);
        if writes || self.permits(who, 0o2) != Some(false) { all } else { all.without(BY_WRITING) }
    }

    /// `token` for this file, where it is another. A SID of another machine or of an earlier database of accounts that
    /// stands in the owner's place is that of the file's owner, who can change what protects the file anyhow. One in the
    /// group's place is nobody's: the file's group in Linux may be whichever whoever set it was in.
    fn token(&self, token: &Token, owns: bool) -> Option<Token> {
        let owner = self.descriptor.owner.filter(|sid| owns && is_account(sid))?;
        let groups = token.groups.iter().copied().chain(Some(owner)).collect();
        Some(Token { groups, ..token.clone() })
    }
}

/// What protects a file. A stream has what its file has.
pub(crate) async fn of(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Arc<Protection>> {
    match streams::file_of(node) {
        Some(file) => of_file(disk, file, &file.metadata().await?).await,
        None => of_file(disk, node, metadata).await,
    }
}

/// What protects the file of `metadata`, which is no stream's, where that is known without asking the file system.
pub(crate) fn known(disk: &Disk, metadata: &Metadata) -> Option<Arc<Protection>> {
    disk.descriptors.find(disk.place, metadata)
}

async fn of_file(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Arc<Protection>> {
    match known(disk, metadata) {
        Some(known) => Ok(known),
        None => of_watched(disk, node, metadata, None).await,
    }
}

/// What protects a directory of which the cache knows nothing. `metadata` is newer than `watched`, so that a change in
/// between shows in the next look-up.
pub(super) async fn of_watched(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    watched: Option<&Watched>,
) -> Result<Arc<Protection>> {
    // What was seen before the file is read shows whatever is changed after.
    let settled = disk.descriptors.is_settled(metadata, disk.vfs.tick(metadata.stamped));
    let state = watched.filter(|watched| watched.id == metadata.id).map(|watched| watched.state);
    let seen = Seen { changed: settled.then_some(metadata.stamped), state };
    let material = Material::read(&disk.share, &disk.identity, node, metadata).await?;
    let print = disk.descriptors.print(&material);
    // What is to be stored and was not is looked at anew.
    let due = storing::is_due(disk, metadata, &material);
    let default = material.lists().and_then(|lists| lists.default.as_ref());
    let kernel_keeps_out = default.is_some_and(PosixAcl::keeps_out);
    let same = disk.descriptors.find_made_of(disk.place, metadata.id, print);
    if let Some(same) = same.filter(|_| !due) {
        disk.descriptors.keep(disk.place, metadata.id, seen, same.clone());
        return Ok(same);
    }
    let Found { descriptor, confirmed, stored, converted, list } = material.resolve(&disk.share, metadata)?;
    let descriptor = disk.descriptors.share(descriptor);
    let protection = Protection::new(descriptor, metadata, confirmed, print);
    let owner_stands = confirmed && owner_stands(disk, &protection).await;
    let keeps_heirs_out = kernel_keeps_out && !confirmed;
    let protection = Arc::new(Protection { stored, list, owner_stands, keeps_heirs_out, ..protection });
    disk.descriptors.keep(disk.place, metadata.id, seen, protection.clone());
    if let Some(lists) = converted.filter(|_| due) {
        storing::offer(disk, node, metadata, lists, &protection.descriptor).await;
    }
    Ok(protection)
}

/// Whether the SID in the owner's place is nobody else's here.
async fn owner_stands(disk: &Disk, protection: &Protection) -> bool {
    let Some(owner) = protection.descriptor.owner.filter(is_account) else { return false };
    let (uid, _) = protection.owner;
    // Who asks is mostly the owner.
    let is_known = disk.identity.uid == uid && disk.token.contains(&owner);
    is_known || sids::stands_for(&*disk.accounts, &owner, uid).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_granted_last_is_that_token_s() {
        let last = LastGrant::default();
        let of = |token, rights| last.of(token, || AccessMask(rights)).0;
        assert_eq!((of(0, 7), of(0, 1)), (7, 7));
        assert_eq!((of(1, 3), of(1, 1), of(0, 1)), (3, 3, 1), "one is kept");
    }
}
