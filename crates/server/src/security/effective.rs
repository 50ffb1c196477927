//! The effective security descriptor of a file: stored, or synthesized from its mode and POSIX ACLs.
//!
//! A share with `vfs objects = acl_xattr` stores descriptors ([`crate::acl::ntacl`]), and
//! [`crate::security::set::apply`] sets them. A stored descriptor is valid while the POSIX ACLs of the file are those
//! that were set along with it. A change of them by another program overrides the stored descriptor.

use std::sync::Arc;

use proto::dtyp::{AccessMask, SecurityDescriptor};

use crate::acl::cache::{Descriptor, Validity};
use crate::acl::model::evaluate;
use crate::acl::model::evaluate::Token;
use crate::acl::ntacl;
use crate::acl::protection::{CachedAclSource, Protection};
use crate::acl::sids;
use crate::acl::sids::is_account;
use crate::acl::source::{AclInputs, AclSource, EffectiveDescriptor, read_value};
use crate::acl::synthesized;
use crate::error::Result;
use crate::policy::StoredAcls;
use crate::security::write_back;
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{DirectoryVersion, Metadata, Node};

/// The rights that a synthesized descriptor grants only to users who can write the file and to its owner.
const BY_WRITING: AccessMask = AccessMask(
    AccessMask::FILE_GENERIC_WRITE.0 & !(AccessMask::READ_CONTROL.0 | AccessMask::SYNCHRONIZE.0)
        | AccessMask::FILE_DELETE_CHILD.0
        | AccessMask::WRITE_DAC.0
        | AccessMask::WRITE_OWNER.0
        | AccessMask::DELETE.0,
);

impl Protection {
    /// Returns all rights of the user of `disk`.
    pub(crate) fn granted(&self, disk: &Disk) -> AccessMask {
        self.last.of(disk.token_id, || self.work_out(disk))
    }

    fn work_out(&self, disk: &Disk) -> AccessMask {
        let (who, cache) = (&disk.op, &disk.descriptors);
        let (uid, _) = self.owner;
        match &self.made {
            CachedAclSource::Descriptor(descriptor, _) => {
                let owns = self.owner_stands && who.uid == uid;
                cache.granted((self.by(), disk.token_id, owns), || match self.token(&disk.token, descriptor, owns) {
                    Some(token) => evaluate::granted(&token, descriptor),
                    None => evaluate::granted(&disk.token, descriptor),
                })
            }
            CachedAclSource::Lists(lists) => {
                let all = cache.granted((self.by(), disk.token_id, false), || {
                    evaluate::granted(&disk.token, &synthesized::synthesize(&disk.share, lists))
                });
                // The synthesized descriptor adds up the rights of several entries, while the kernel applies only one.
                // A user who therefore cannot write must not change the ACL either, which the server would do on their
                // behalf.
                let writes = who.uid == uid || !all.intersects(BY_WRITING);
                if writes || self.permits(who, 0o2) != Some(false) { all } else { all.without(BY_WRITING) }
            }
        }
    }

    /// Returns `token` extended for this file, if needed. A SID in the owner field that comes from another machine or
    /// from a former account database is taken as the file's owner, who can change the descriptor anyway. Such a SID in
    /// the group field matches no group, because the file's group in Linux may be any group of the user who set it.
    fn token(&self, token: &Token, descriptor: &Descriptor, owns: bool) -> Option<Token> {
        let owner = descriptor.owner.filter(|sid| owns && is_account(sid))?;
        let groups = token.groups.iter().copied().chain(Some(owner)).collect();
        Some(Token { groups, ..token.clone() })
    }
}

/// Returns the protection of a file. A stream has that of its file.
pub(crate) async fn of(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Arc<Protection>> {
    match streams::file_of(node) {
        Some(file) => of_file(disk, file, &file.metadata(&disk.op).await?).await,
        None => of_file(disk, node, metadata).await,
    }
}

/// Returns the protection of the file of `metadata`, which is not a stream, if it is cached.
pub(crate) fn known(disk: &Disk, metadata: &Metadata) -> Option<Arc<Protection>> {
    disk.descriptors.find(disk.place, metadata)
}

/// Returns all rights that the descriptor of a file, or of the file of a stream, grants to the user of `disk`. May
/// return a subset that contains `enough` if that is found first.
pub(in crate::security) async fn granted(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    enough: AccessMask,
) -> Result<AccessMask> {
    match streams::file_of(node) {
        Some(file) => granted_on_file(disk, file, &file.metadata(&disk.op).await?, enough).await,
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
    if lacks_descriptor(disk, acls, metadata) {
        return Ok(own);
    }
    if let Some(known) = known(disk, metadata) {
        return Ok(known.granted(disk));
    }
    let settled = disk.descriptors.is_settled(metadata, disk.vfs.capabilities().changes.granularity(metadata.stamped));
    if let Some(value) = read_value(&disk.op, acls, node).await? {
        return Ok(read(disk, node, metadata, None, settled, Some(value)).await?.granted(disk));
    }
    Ok(own)
}

/// Returns the rights of the user on the file of `metadata` if it has no descriptor stored, the user owns it, and the
/// mode shows that the rights contain `enough` or are complete.
pub(in crate::security) fn owner_rights(disk: &Disk, metadata: &Metadata, enough: AccessMask) -> Option<AccessMask> {
    own(disk, metadata, enough).filter(|(acls, _)| lacks_descriptor(disk, acls, metadata)).map(|(_, own)| own)
}

/// Whether the metadata of a file show that it has no descriptor stored.
fn lacks_descriptor(disk: &Disk, acls: &StoredAcls, metadata: &Metadata) -> bool {
    disk.vfs.capabilities().attributes.has(&acls.attribute, metadata.absent)
}

/// As [`owner_rights`], provided that no descriptor is stored. For the owner the mode usually suffices, so the POSIX
/// ACLs need not be read.
fn own<'a>(disk: &'a Disk, metadata: &Metadata, enough: AccessMask) -> Option<(&'a StoredAcls, AccessMask)> {
    let share = &disk.share;
    let by_lists = |acls: &&StoredAcls| !acls.ignore_system_acls && acls.attribute == ntacl::ATTRIBUTE;
    let acls = share.acls.stored.as_ref().filter(by_lists)?;
    // The write-back needs the POSIX ACLs.
    if disk.op.uid != metadata.uid || !share.acls.acl_store.entries().is_none() {
        return None;
    }
    let (own, is_all) = synthesized::owner_rights_from_mode(share, metadata)?;
    (is_all || own.contains(enough)).then_some((acls, own))
}

async fn of_file(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Arc<Protection>> {
    match known(disk, metadata) {
        Some(known) => Ok(known),
        None => of_watched(disk, node, metadata, None).await,
    }
}

/// Returns the protection of a directory that is not in the cache. `metadata` is newer than `watched`, so that a change
/// in between shows in the next lookup.
pub(in crate::security) async fn of_watched(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    watched: Option<&DirectoryVersion>,
) -> Result<Arc<Protection>> {
    // Taken before the file is read, so that any later change shows.
    let settled = disk.descriptors.is_settled(metadata, disk.vfs.capabilities().changes.granularity(metadata.stamped));
    read(disk, node, metadata, watched, settled, None).await
}

/// As [`of_watched`], where the attribute may have been read already (`value`) and `settled` was computed before that.
async fn read(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    watched: Option<&DirectoryVersion>,
    settled: bool,
    value: Option<Vec<u8>>,
) -> Result<Arc<Protection>> {
    let state = watched.filter(|watched| watched.id == metadata.id).map(|watched| watched.state);
    let seen = Validity { changed: settled.then_some(metadata.stamped), state };
    let (share, kind, who) = (&disk.share, disk.vfs.capabilities().acls, &disk.op);
    let material = match value {
        Some(_) => AclInputs::beside(value, share, kind, who, node, metadata).await?,
        None => AclInputs::read(share, kind, who, node, metadata).await?,
    };
    let inputs_hash = disk.descriptors.inputs_hash(disk.place, &material);
    // A descriptor that is due for write-back is read again.
    let due = write_back::is_due(disk, metadata, &material);
    if !due && let Some(same) = disk.descriptors.renew(disk.place, metadata.id, seen, inputs_hash) {
        return Ok(same);
    }
    let EffectiveDescriptor { basis, stored, .. } = material.resolve(share, metadata)?;
    let (made, owner_stands) = match basis {
        AclSource::Descriptor(descriptor, list) => {
            let stands = owner_stands(disk, &descriptor, metadata.uid).await;
            (CachedAclSource::Descriptor(disk.descriptors.share(descriptor), list), stands)
        }
        AclSource::Lists(lists) => (CachedAclSource::Lists(lists), false),
    };
    let protection = Arc::new(Protection { owner_stands, ..Protection::new(made, stored, metadata, inputs_hash) });
    disk.descriptors.keep(disk.place, metadata.id, seen, protection.clone());
    if let CachedAclSource::Lists(lists) = &protection.made
        && due
    {
        write_back::offer(disk, node, metadata, lists.clone(), &synthesized::synthesize(share, lists)).await;
    }
    Ok(protection)
}

/// Whether the SID in the owner field of a file of `uid` belongs to no other user of this server.
async fn owner_stands(disk: &Disk, descriptor: &SecurityDescriptor, uid: u32) -> bool {
    let Some(owner) = descriptor.owner.filter(is_account) else { return false };
    // The caller is usually the owner.
    let is_known = disk.op.uid == uid && disk.token.contains(&owner);
    is_known || sids::stands_for(&*disk.ids, &owner, uid).await
}
