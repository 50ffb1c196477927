//! The security descriptor of a file: stored, or made from what Linux knows.
//!
//! A share with `vfs objects = acl_xattr` stores descriptors ([`store`]), and [`super::placing`] puts them in place. A
//! stored descriptor counts as long as the POSIX lists beneath are as they were left: who changes them past the server has
//! made a new decision.

use std::sync::{Arc, LazyLock};

use proto::dtyp::acl::{Ace, AceBody, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};
use proto::status::Status;

use super::cache::{Descriptor, Seen};
use super::evaluate::{self, Token};
use super::inherit;
use super::posix::{self, Posix, Sids, UnixSids};
use super::posix_acl::{self, PosixAcl};
use super::sids::{self, is_account};
use super::store::{self, Condition, Stored};
use super::storing;
use crate::error::{Error, Result};
use crate::held;
use crate::policy::{AclStyle, Share, StoredAcls};
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{Errno, Identity, Kind, Metadata, Node, Watched};

/// The server itself, for what no user may do: writing the attribute that holds a descriptor, and what a descriptor
/// grants to somebody other than the owner. Nothing that a client names is ever touched with it.
pub(super) static SERVER: LazyLock<Arc<Identity>> =
    LazyLock::new(|| Arc::new(Identity { uid: 0, gid: 0, groups: Box::new([]) }));

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
}

impl Protection {
    /// What `descriptor` protects, which is a file of the owner and group `owner`.
    pub(super) fn new(descriptor: Arc<Descriptor>, owner: (u32, u32), confirmed: bool) -> Self {
        Protection { descriptor, owner, confirmed, stored: confirmed, owner_stands: false, list: None }
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
        let who = &disk.identity;
        let (uid, _) = self.owner;
        let owns = self.confirmed && self.owner_stands && who.uid == uid;
        disk.descriptors.granted((self.descriptor.id(), disk.token_id, owns), || match self.token(&disk.token, owns) {
            Some(token) => evaluate::granted(&token, &self.descriptor),
            None => evaluate::granted(&disk.token, &self.descriptor),
        })
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
    let settled = disk.descriptors.is_settled(metadata);
    let Found { descriptor, confirmed, stored, converted, list } =
        look_up(&disk.share, &disk.identity, node, metadata).await?;
    let descriptor = disk.descriptors.share(descriptor);
    let protection = Protection::new(descriptor, (metadata.uid, metadata.gid), confirmed);
    let owner_stands = confirmed && owner_stands(disk, &protection).await;
    let protection = Arc::new(Protection { stored, list, owner_stands, ..protection });
    let state = watched.filter(|watched| watched.id == metadata.id).map(|watched| watched.state);
    if settled || state.is_some() {
        let changed = settled.then_some(metadata.stamped);
        disk.descriptors.keep(disk.place, metadata.id, Seen { changed, state }, protection.clone());
    }
    if let Some(lists) = converted {
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

/// What the file system says.
pub(super) struct Found {
    pub(super) descriptor: SecurityDescriptor,
    pub(super) confirmed: bool,
    /// Clients see it as it is.
    pub(super) stored: bool,
    /// What it was made of, where the share stores descriptors and this file has none.
    pub(super) converted: Option<Posix>,
    /// The list by which the kernel decides, where it was read.
    list: Option<PosixAcl>,
}

pub(super) async fn look_up(
    share: &Share,
    who: &Arc<Identity>,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<Found> {
    let Some(acls) = &share.acls else {
        let lists = posix(who, node, metadata).await?;
        let descriptor = posix::to_descriptor(&lists, &UnixSids);
        let descriptor = with_full_control(share, descriptor, lists.directory);
        let descriptor = if share.dos_filemode { changed_by_writers(descriptor) } else { descriptor };
        let list = Some(lists.access);
        return Ok(Found { descriptor, confirmed: false, stored: false, converted: None, list });
    };
    let value = read(who, acls, node).await?;
    let is_bare = value.is_none();
    let stored = match value {
        None => None,
        Some(value) => store::decode(&value)
            .map_err(|_| Error::because(Status::ACCESS_DENIED, format!("{} of the file is damaged", acls.attribute)))?,
    };
    if acls.ignore_system_acls {
        let is_stored = stored.is_some();
        let descriptor = match stored {
            Some(stored) => stored.descriptor,
            None => default_descriptor(acls.default_style, metadata),
        };
        return Ok(Found { descriptor, confirmed: true, stored: is_stored, converted: None, list: None });
    }
    let lists = posix(who, node, metadata).await?;
    let counts = |condition| match condition {
        Condition::Always => true,
        Condition::SystemHash(hash) => hash == store::system_hash(metadata, &lists.access, lists.default.as_ref()),
        Condition::Unknown => false,
    };
    let list = Some(lists.access.clone());
    Ok(match stored.filter(|stored| counts(stored.condition)) {
        Some(Stored { descriptor, .. }) => Found { descriptor, confirmed: true, stored: true, converted: None, list },
        None => {
            let descriptor = shown(share, &lists);
            Found { descriptor, confirmed: false, stored: false, converted: is_bare.then_some(lists), list }
        }
    })
}

/// The attribute, read as the user where any user may read it.
pub(super) async fn read(who: &Arc<Identity>, acls: &StoredAcls, node: &Arc<dyn Node>) -> Result<Option<Vec<u8>>> {
    let public = acls.attribute.starts_with("security.");
    let who = if public { who } else { &*SERVER };
    match node.get_xattr(who, &acls.attribute).await {
        Ok(value) => Ok(value),
        // Links, devices and file systems without attributes have none.
        Err(Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// What Linux knows of the file's permissions: its lists where it has any, else its permission bits. A list that cannot be
/// read is not none: what is made of the bits alone may grant more, and is kept.
pub(crate) async fn posix(who: &Arc<Identity>, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Posix> {
    let list = async |name| match node.get_xattr(who, name).await {
        Ok(value) => Ok(value.and_then(|value| PosixAcl::decode(&value).ok())),
        // File systems without lists have none.
        Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES) => Ok(None),
        Err(errno) => Err(Error::from(errno)),
    };
    let directory = metadata.kind == Kind::Directory;
    Ok(Posix {
        directory,
        uid: metadata.uid,
        gid: metadata.gid,
        access: list(posix_acl::ACCESS).await?.unwrap_or_else(|| PosixAcl::of_mode(metadata.mode)),
        default: if directory { list(posix_acl::DEFAULT).await? } else { None },
    })
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
fn default_descriptor(style: AclStyle, metadata: &Metadata) -> SecurityDescriptor {
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
