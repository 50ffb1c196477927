//! What the file system has of a file's protection: the attribute that holds a descriptor and the POSIX lists, and which
//! descriptor counts by them.

use std::sync::Arc;

use proto::dtyp::SecurityDescriptor;
use proto::status::Status;

use super::bare::{default_descriptor, made_of};
use super::descriptor::SERVER;
use super::posix::Posix;
use super::posix_acl::{self, PosixAcl};
use super::store::{self, Condition, Stored};
use crate::error::{Error, Result};
use crate::policy::{AclStyle, Share, StoredAcls};
use crate::vfs::{Errno, Identity, Kind, Metadata, Node};

/// All that makes a file's descriptor on a share: where it is equal, so is the descriptor.
#[derive(Hash)]
pub(super) struct Material {
    kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
    /// The attribute; `None` where there is none, and on a share that keeps none.
    value: Option<Vec<u8>>,
    /// The lists; `None` on a share that ignores them.
    lists: Option<Lists>,
}

/// The POSIX lists of a file as the kernel hands them over. Most files are made of the same as when they were looked at
/// last, and then nobody needs to know what their lists say.
#[derive(Hash)]
struct Lists {
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

/// What follows from it.
pub(super) struct Found {
    pub(super) basis: Basis,
    /// The descriptor is a stored one, which clients see as it is.
    pub(super) stored: bool,
    /// There is a stored one that does not count.
    pub(super) outdated: bool,
}

/// What says who may do what.
pub(super) enum Basis {
    /// A stored descriptor whose condition holds, or what stands for it where POSIX lists do not count; and the list by
    /// which the kernel decides, where it was read.
    Descriptor(SecurityDescriptor, Option<PosixAcl>),
    /// POSIX lists, of which a descriptor can be made.
    Lists(Posix),
}

impl Found {
    /// Whether a stored descriptor counts, or what stands for it.
    pub(super) fn confirmed(&self) -> bool {
        matches!(self.basis, Basis::Descriptor(..))
    }

    /// The descriptor.
    pub(super) fn descriptor(self, share: &Share) -> SecurityDescriptor {
        match self.basis {
            Basis::Descriptor(descriptor, _) => descriptor,
            Basis::Lists(lists) => made_of(share, &lists),
        }
    }
}

impl Material {
    /// That of the file of `metadata`.
    pub(super) async fn read(
        share: &Share,
        who: &Arc<Identity>,
        node: &Arc<dyn Node>,
        metadata: &Metadata,
    ) -> Result<Material> {
        let value = match &share.acls {
            Some(acls) => read_value(who, acls, node).await?,
            None => None,
        };
        Material::beside(value, share, who, node, metadata).await
    }

    /// The same where the attribute is known to be `value`.
    pub(super) async fn beside(
        value: Option<Vec<u8>>,
        share: &Share,
        who: &Arc<Identity>,
        node: &Arc<dyn Node>,
        metadata: &Metadata,
    ) -> Result<Material> {
        let lists = match &share.acls {
            Some(acls) if acls.ignore_system_acls => None,
            _ => Some(Lists::read(who, node, metadata.kind).await?),
        };
        Ok(Material::new(metadata, value, lists))
    }

    fn new(metadata: &Metadata, value: Option<Vec<u8>>, lists: Option<Lists>) -> Material {
        let &Metadata { kind, mode, uid, gid, .. } = metadata;
        Material { kind, mode, uid, gid, value, lists }
    }

    /// That of the file of `metadata`, whose lists are `lists`, once it has the attribute `value`.
    pub(super) fn stored(metadata: &Metadata, value: Option<Vec<u8>>, lists: &Posix) -> Material {
        // A list that says no more than the mode is none to the kernel.
        let access = (!lists.access.is_minimal()).then(|| lists.access.encode());
        let default = lists.default.as_ref().map(PosixAcl::encode);
        Material::new(metadata, value, Some(Lists { access, default }))
    }

    /// How many entries the lists have that a file without a descriptor shows.
    pub(super) fn converted_entries(&self) -> Option<usize> {
        let lists = self.lists.as_ref().filter(|_| self.value.is_none())?;
        let default = lists.default.as_ref().map_or(0, |value| posix_acl::entries_in(value));
        Some(lists.access.as_ref().map_or(posix_acl::CLASSES, |value| posix_acl::entries_in(value)) + default)
    }

    /// What Linux knows of the permissions of the file, which is that of `metadata`, where that counts.
    pub(super) fn posix(&self, metadata: &Metadata) -> Option<Posix> {
        self.lists.as_ref().map(|lists| lists.decode(metadata))
    }

    /// Which descriptor counts.
    pub(super) fn resolve(self, share: &Share, metadata: &Metadata) -> Result<Found> {
        let acls = share.acls.as_ref();
        let (has_one, lists) = (self.value.is_some(), self.posix(metadata));
        let stored = match (self.value, acls) {
            (Some(value), Some(acls)) => store::decode(&value).map_err(|_| damaged(acls))?,
            _ => None,
        };
        let Some(lists) = lists else {
            let is_stored = stored.is_some();
            let style = acls.map_or(AclStyle::Posix, |acls| acls.default_style);
            let descriptor = stored.map_or_else(|| default_descriptor(style, metadata), |stored| stored.descriptor);
            return Ok(Found { basis: Basis::Descriptor(descriptor, None), stored: is_stored, outdated: false });
        };
        let counts = |condition| match condition {
            Condition::Always => true,
            Condition::SystemHash(hash) => hash == store::system_hash(metadata, &lists.access, lists.default.as_ref()),
            Condition::Unknown => false,
        };
        Ok(match stored.filter(|stored| counts(stored.condition)) {
            Some(Stored { descriptor, .. }) => {
                Found { basis: Basis::Descriptor(descriptor, Some(lists.access)), stored: true, outdated: false }
            }
            None => Found { basis: Basis::Lists(lists), stored: false, outdated: has_one },
        })
    }
}

/// Which descriptor counts for the file of `metadata`.
pub(super) async fn look_up(
    share: &Share,
    who: &Arc<Identity>,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<Found> {
    Material::read(share, who, node, metadata).await?.resolve(share, metadata)
}

/// Nobody gets at a file whose attribute cannot be understood: it may deny what the lists grant.
pub(super) fn damaged(acls: &StoredAcls) -> Error {
    Error::because(Status::ACCESS_DENIED, format!("{} of the file is damaged", acls.attribute))
}

/// The attribute, read as the user where any user may read it.
pub(super) async fn read_value(
    who: &Arc<Identity>,
    acls: &StoredAcls,
    node: &Arc<dyn Node>,
) -> Result<Option<Vec<u8>>> {
    // An attribute that any user can write proves nothing on another user's file.
    if let Some(owner) = acls.of_owner
        && node.metadata().await?.uid != owner
    {
        return Ok(None);
    }
    let public = acls.attribute.starts_with("security.");
    let who = if public { who } else { &*SERVER };
    match node.get_xattr(who, &acls.attribute).await {
        Ok(value) => Ok(value),
        // Links, devices and file systems without attributes have none.
        Err(Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

impl Lists {
    async fn read(who: &Arc<Identity>, node: &Arc<dyn Node>, kind: Kind) -> Result<Lists> {
        let list = async |name| match node.get_xattr(who, name).await {
            Ok(value) => Ok(value),
            // File systems without lists have none.
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES) => Ok(None),
            Err(errno) => Err(Error::from(errno)),
        };
        let access = list(posix_acl::ACCESS).await?;
        let default = if kind == Kind::Directory { list(posix_acl::DEFAULT).await? } else { None };
        Ok(Lists { access, default })
    }

    /// What they say, and what the mode says where there is none.
    fn decode(&self, metadata: &Metadata) -> Posix {
        Posix {
            directory: metadata.kind == Kind::Directory,
            uid: metadata.uid,
            gid: metadata.gid,
            access: decode(&self.access).unwrap_or_else(|| PosixAcl::of_mode(metadata.mode)),
            default: decode(&self.default),
        }
    }
}

fn decode(value: &Option<Vec<u8>>) -> Option<PosixAcl> {
    value.as_ref().and_then(|value| PosixAcl::decode(value).ok())
}

/// What Linux knows of the file's permissions: its lists where it has any, else its permission bits. A list that cannot be
/// read is not none: what is made of the bits alone may grant more, and is kept.
pub(crate) async fn posix(who: &Arc<Identity>, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Posix> {
    Ok(Lists::read(who, node, metadata.kind).await?.decode(metadata))
}
