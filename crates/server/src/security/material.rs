//! What the file system has of a file's protection: the attribute that holds a descriptor and the POSIX lists, and which
//! descriptor counts by them.

use std::sync::Arc;

use proto::dtyp::SecurityDescriptor;
use proto::status::Status;

use super::bare::{default_descriptor, of_lists, shown};
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
    lists: Option<Posix>,
}

/// What follows from it.
pub(super) struct Found {
    pub(super) descriptor: SecurityDescriptor,
    /// It is a stored one whose condition holds, or what stands for it where POSIX lists do not count.
    pub(super) confirmed: bool,
    /// Clients see it as it is.
    pub(super) stored: bool,
    /// The lists that it was made of, where the file has none.
    pub(super) converted: Option<Posix>,
    /// The list by which the kernel decides, where it was read.
    pub(super) list: Option<PosixAcl>,
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
        let lists = match &share.acls {
            Some(acls) if acls.ignore_system_acls => None,
            _ => Some(posix(who, node, metadata).await?),
        };
        Ok(Material::new(metadata, value, lists))
    }

    /// That of the file of `metadata` with this attribute and these lists.
    pub(super) fn new(metadata: &Metadata, value: Option<Vec<u8>>, lists: Option<Posix>) -> Material {
        let &Metadata { kind, mode, uid, gid, .. } = metadata;
        Material { kind, mode, uid, gid, value, lists }
    }

    /// What Linux knows of the file's permissions, where that counts.
    pub(super) fn lists(&self) -> Option<&Posix> {
        self.lists.as_ref()
    }

    /// The lists that a file without a descriptor shows.
    pub(super) fn converted(&self) -> Option<&Posix> {
        self.lists().filter(|_| self.value.is_none())
    }

    /// Which descriptor counts.
    pub(super) fn resolve(self, share: &Share, metadata: &Metadata) -> Result<Found> {
        let acls = share.acls.as_ref();
        let is_bare = self.value.is_none();
        let stored = match (self.value, acls) {
            (Some(value), Some(acls)) => store::decode(&value).map_err(|_| damaged(acls))?,
            _ => None,
        };
        let Some(lists) = self.lists else {
            let is_stored = stored.is_some();
            let style = acls.map_or(AclStyle::Posix, |acls| acls.default_style);
            let descriptor = stored.map_or_else(|| default_descriptor(style, metadata), |stored| stored.descriptor);
            return Ok(Found { descriptor, confirmed: true, stored: is_stored, converted: None, list: None });
        };
        let list = Some(lists.access.clone());
        let counts = |condition| match condition {
            Condition::Always => true,
            Condition::SystemHash(hash) => hash == store::system_hash(metadata, &lists.access, lists.default.as_ref()),
            Condition::Unknown => false,
        };
        if let Some(Stored { descriptor, .. }) = stored.filter(|stored| counts(stored.condition)) {
            return Ok(Found { descriptor, confirmed: true, stored: true, converted: None, list });
        }
        let descriptor = if acls.is_some() { shown(share, &lists) } else { of_lists(share, &lists) };
        let converted = is_bare.then_some(lists);
        Ok(Found { descriptor, confirmed: false, stored: false, converted, list })
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
