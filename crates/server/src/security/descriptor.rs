//! The security descriptor of a file: stored, or made from what Linux knows.
//!
//! A share with `vfs objects = acl_xattr` stores descriptors ([`super::store`]), and [`super::placing`] puts them in place. A
//! stored descriptor counts as long as the POSIX lists beneath are as they were left: who changes them past the server has
//! made a new decision.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use proto::dtyp::{AccessMask, SecurityDescriptor};

use super::bare;
use super::cache::{By, Descriptor, Seen};
use super::evaluate::{self, Token};
use super::material::{Basis, Found, Material, read_value};
use super::posix::Posix;
use super::posix_acl::PosixAcl;
use super::sids::{self, is_account};
use super::store;
use super::storing;
use crate::error::Result;
use crate::held;
use crate::policy::{Share, StoredAcls};
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{Identity, Metadata, Node, Watched};

/// The server itself, for what no user may do: writing the attribute that holds a descriptor, and what a descriptor
/// grants to somebody other than the owner. Nothing that a client names is ever touched with it.
pub(crate) static SERVER: LazyLock<Arc<Identity>> =
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

/// What protects a file.
pub(crate) struct Protection {
    made: Made,
    /// The file's owner and group as Linux knows them.
    owner: (u32, u32),
    /// The descriptor is a stored one, which clients see as it is: in others the ids of Linux stand for accounts.
    pub(crate) stored: bool,
    /// The SID in the owner's place is nobody else's here, so it is that of the file's owner.
    owner_stands: bool,
    /// What the kernel hands on to new files keeps somebody out whom what the descriptor hands on would let in.
    pub(crate) keeps_heirs_out: bool,
    /// What it granted last, for who asks again.
    last: LastGrant,
    /// What all of this was made of: [`Cache::print`](super::cache::Cache::print).
    pub(super) print: u64,
}

/// As [`Basis`], but to be kept: lists take a tenth of the room that the descriptor does which is made of them.
enum Made {
    Descriptor(Arc<Descriptor>, Option<PosixAcl>),
    Lists(Posix),
}

impl Protection {
    /// That of the file of `metadata` by a stored `descriptor`; `print` is that of what it was made of.
    pub(super) fn by_descriptor(descriptor: Arc<Descriptor>, metadata: &Metadata, print: u64) -> Self {
        Protection::new(Made::Descriptor(descriptor, None), true, metadata, print)
    }

    fn new(made: Made, stored: bool, metadata: &Metadata, print: u64) -> Self {
        let default = if let Made::Lists(lists) = &made { lists.default.as_ref() } else { None };
        let keeps_heirs_out = default.is_some_and(PosixAcl::keeps_out);
        let owner = (metadata.uid, metadata.gid);
        Protection { made, owner, stored, owner_stands: false, keeps_heirs_out, last: LastGrant::default(), print }
    }

    /// The same where the kernel decides by `list`.
    pub(super) fn beside(self, list: PosixAcl) -> Self {
        match self.made {
            Made::Descriptor(descriptor, _) => Protection { made: Made::Descriptor(descriptor, Some(list)), ..self },
            Made::Lists(_) => self,
        }
    }

    /// The descriptor that a file of `share` has by it.
    pub(crate) fn descriptor(&self, share: &Share) -> Cow<'_, SecurityDescriptor> {
        match &self.made {
            Made::Descriptor(descriptor, _) => Cow::Borrowed(descriptor),
            Made::Lists(lists) => Cow::Owned(bare::made_of(share, lists)),
        }
    }

    /// What says what it grants, and what it hands on.
    pub(super) fn by(&self) -> By {
        match &self.made {
            Made::Descriptor(descriptor, _) => By::Descriptor(descriptor.id()),
            Made::Lists(_) => By::Material(self.print),
        }
    }

    /// The bytes that it takes besides a descriptor.
    pub(super) fn bytes(&self) -> usize {
        let lists = match &self.made {
            Made::Descriptor(_, list) => [list.as_ref(), None],
            Made::Lists(lists) => [Some(&lists.access), lists.default.as_ref()],
        };
        held::shared::<Self>() + lists.into_iter().flatten().map(PosixAcl::bytes).sum::<usize>()
    }

    /// Whether the kernel gives the `rwx` bits `wanted` to `who`, who is not root; `None` where the list is not known.
    pub(super) fn permits(&self, who: &Identity, wanted: u8) -> Option<bool> {
        let (uid, gid) = self.owner;
        let list = match &self.made {
            Made::Descriptor(_, list) => list.as_ref()?,
            Made::Lists(lists) => &lists.access,
        };
        Some(list.permits(who, uid, gid, wanted))
    }

    /// All rights that the user of `disk` has by it.
    pub(crate) fn granted(&self, disk: &Disk) -> AccessMask {
        self.last.of(disk.token_id, || self.work_out(disk))
    }

    fn work_out(&self, disk: &Disk) -> AccessMask {
        let (who, cache) = (&disk.identity, &disk.descriptors);
        let (uid, _) = self.owner;
        match &self.made {
            Made::Descriptor(descriptor, _) => {
                let owns = self.owner_stands && who.uid == uid;
                cache.granted((self.by(), disk.token_id, owns), || match self.token(&disk.token, descriptor, owns) {
                    Some(token) => evaluate::granted(&token, descriptor),
                    None => evaluate::granted(&disk.token, descriptor),
                })
            }
            Made::Lists(lists) => {
                let all = cache.granted((self.by(), disk.token_id, false), || {
                    evaluate::granted(&disk.token, &bare::made_of(&disk.share, lists))
                });
                // What is made of a list adds up what several entries grant, and the kernel looks at one. Whom that keeps
                // from writing must not change the list either, which the server would do for him.
                let writes = who.uid == uid || !all.intersects(BY_WRITING);
                if writes || self.permits(who, 0o2) != Some(false) { all } else { all.without(BY_WRITING) }
            }
        }
    }

    /// `token` for this file, where it is another. A SID of another machine or of an earlier database of accounts that
    /// stands in the owner's place is that of the file's owner, who can change what protects the file anyhow. One in the
    /// group's place is nobody's: the file's group in Linux may be whichever whoever set it was in.
    fn token(&self, token: &Token, descriptor: &Descriptor, owns: bool) -> Option<Token> {
        let owner = descriptor.owner.filter(|sid| owns && is_account(sid))?;
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

/// All rights that the user of `disk` has on a file by what protects it, or its file where it is a stream. Not all, if the
/// ones that are found first contain those that are `enough`.
pub(super) async fn granted(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    enough: AccessMask,
) -> Result<AccessMask> {
    match streams::file_of(node) {
        Some(file) => granted_on_file(disk, file, &file.metadata().await?, enough).await,
        None => granted_on_file(disk, node, metadata, enough).await,
    }
}

async fn granted_on_file(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    enough: AccessMask,
) -> Result<AccessMask> {
    let Some((acls, own)) = own(disk, metadata, enough) else {
        return Ok(of_file(disk, node, metadata).await?.granted(disk));
    };
    if metadata.bare {
        return Ok(own);
    }
    if let Some(known) = known(disk, metadata) {
        return Ok(known.granted(disk));
    }
    let settled = disk.descriptors.is_settled(metadata, disk.vfs.tick(metadata.stamped));
    if let Some(value) = read_value(&disk.identity, acls, node).await? {
        return Ok(read(disk, node, metadata, None, settled, Some(value)).await?.granted(disk));
    }
    if settled {
        node.note_bare(metadata.stamped);
    }
    Ok(own)
}

/// What the user has on the file of `metadata` if that is [`Metadata::bare`] and his, and the mode tells that it is `enough`
/// or all.
pub(super) fn own_if_bare(disk: &Disk, metadata: &Metadata, enough: AccessMask) -> Option<AccessMask> {
    own(disk, metadata, enough).filter(|_| metadata.bare).map(|(_, own)| own)
}

/// The same if nothing is stored for it: on his own files the mode mostly tells, and nobody needs to look at the lists.
fn own<'a>(disk: &'a Disk, metadata: &Metadata, enough: AccessMask) -> Option<(&'a StoredAcls, AccessMask)> {
    let share = &disk.share;
    let by_lists = |acls: &&StoredAcls| !acls.ignore_system_acls && acls.attribute == store::ATTRIBUTE;
    let acls = share.acls.as_ref().filter(by_lists)?;
    // What is to be stored is made of the lists.
    if disk.identity.uid != metadata.uid || !share.acl_store.entries().is_none() {
        return None;
    }
    let (own, is_all) = bare::owner_s(share, metadata)?;
    (is_all || own.contains(enough)).then_some((acls, own))
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
    read(disk, node, metadata, watched, settled, None).await
}

/// The same where the attribute was found to be `value`, and it was known before whether the change time is `settled`.
async fn read(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    watched: Option<&Watched>,
    settled: bool,
    value: Option<Vec<u8>>,
) -> Result<Arc<Protection>> {
    let state = watched.filter(|watched| watched.id == metadata.id).map(|watched| watched.state);
    let seen = Seen { changed: settled.then_some(metadata.stamped), state };
    let (share, who) = (&disk.share, &disk.identity);
    let material = match value {
        Some(_) => Material::beside(value, share, who, node, metadata).await?,
        None => Material::read(share, who, node, metadata).await?,
    };
    let print = disk.descriptors.print(disk.place, &material);
    // What is to be stored and was not is looked at anew.
    let due = storing::is_due(disk, metadata, &material);
    if !due && let Some(same) = disk.descriptors.renew(disk.place, metadata.id, seen, print) {
        return Ok(same);
    }
    let Found { basis, stored, .. } = material.resolve(share, metadata)?;
    let (made, owner_stands) = match basis {
        Basis::Descriptor(descriptor, list) => {
            let stands = owner_stands(disk, &descriptor, metadata.uid).await;
            (Made::Descriptor(disk.descriptors.share(descriptor), list), stands)
        }
        Basis::Lists(lists) => (Made::Lists(lists), false),
    };
    let protection = Arc::new(Protection { owner_stands, ..Protection::new(made, stored, metadata, print) });
    disk.descriptors.keep(disk.place, metadata.id, seen, protection.clone());
    if let Made::Lists(lists) = &protection.made
        && due
    {
        storing::offer(disk, node, metadata, lists.clone(), &bare::made_of(share, lists)).await;
    }
    Ok(protection)
}

/// Whether the SID in the owner's place of a file of `uid` is nobody else's here.
async fn owner_stands(disk: &Disk, descriptor: &SecurityDescriptor, uid: u32) -> bool {
    let Some(owner) = descriptor.owner.filter(is_account) else { return false };
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
