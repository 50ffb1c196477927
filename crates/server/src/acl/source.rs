//! The inputs of a file's security descriptor as read from the file system, namely the attribute that stores a
//! descriptor and the POSIX ACLs, and which descriptor is in force by them.

use std::sync::Arc;

use proto::dtyp::SecurityDescriptor;
use proto::status::Status;

use crate::acl::model::posix_acl;
use crate::acl::model::posix_acl::PosixAcl;
use crate::acl::ntacl;
use crate::acl::ntacl::{Condition, Stored};
use crate::acl::posix::Posix;
use crate::acl::synthesized::{default_descriptor, synthesize};
use crate::error::{Error, Result};
use crate::policy::{AclStyle, Share, StoredAcls};
use crate::vfs::{AclKind, Errno, Kind, Metadata, Node, Op, SERVER};

/// All inputs of a file's descriptor on a share. Equal inputs give equal descriptors.
#[derive(Hash)]
pub(crate) struct AclInputs {
    kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
    /// The attribute; `None` if the file has none or the share stores none.
    value: Option<Vec<u8>>,
    /// The POSIX ACLs; `None` on a share that ignores them.
    lists: Option<Lists>,
}

/// The POSIX ACLs of a file in the kernel's encoding. They are not decoded yet because the inputs of most files have
/// not changed since they were last read.
#[derive(Hash)]
struct Lists {
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

/// The descriptor in force.
pub(crate) struct EffectiveDescriptor {
    pub(crate) basis: AclSource,
    /// The descriptor is a stored one, shown to clients as it is.
    pub(crate) stored: bool,
    /// A descriptor is stored but not valid.
    pub(crate) outdated: bool,
}

/// The source of the descriptor in force.
pub(crate) enum AclSource {
    /// A stored descriptor whose condition holds, or the default one where POSIX ACLs are ignored; and the POSIX ACL
    /// that the kernel enforces, if it was read.
    Descriptor(SecurityDescriptor, Option<PosixAcl>),
    /// POSIX ACLs from which a descriptor can be synthesized.
    Lists(Posix),
}

impl EffectiveDescriptor {
    /// Whether a valid descriptor is stored, or a default one replaces it.
    pub(crate) fn confirmed(&self) -> bool {
        matches!(self.basis, AclSource::Descriptor(..))
    }

    /// Returns the descriptor.
    pub(crate) fn descriptor(self, share: &Share) -> SecurityDescriptor {
        match self.basis {
            AclSource::Descriptor(descriptor, _) => descriptor,
            AclSource::Lists(lists) => synthesize(share, &lists),
        }
    }
}

impl AclInputs {
    /// Reads the inputs of the file of `metadata`.
    pub(crate) async fn read(
        share: &Share,
        kind: AclKind,
        op: &Op,
        node: &Arc<dyn Node>,
        metadata: &Metadata,
    ) -> Result<AclInputs> {
        let value = match &share.acls.stored {
            Some(acls) => read_value(op, acls, node).await?,
            None => None,
        };
        AclInputs::beside(value, share, kind, op, node, metadata).await
    }

    /// Reads the inputs of a file whose attribute has the `value`.
    pub(crate) async fn beside(
        value: Option<Vec<u8>>,
        share: &Share,
        kind: AclKind,
        op: &Op,
        node: &Arc<dyn Node>,
        metadata: &Metadata,
    ) -> Result<AclInputs> {
        let lists = match &share.acls.stored {
            Some(acls) if acls.ignore_system_acls => None,
            _ => Some(Lists::read(kind, op, node, metadata.kind).await?),
        };
        Ok(AclInputs::new(metadata, value, lists))
    }

    fn new(metadata: &Metadata, value: Option<Vec<u8>>, lists: Option<Lists>) -> AclInputs {
        let &Metadata { kind, mode, uid, gid, .. } = metadata;
        AclInputs { kind, mode, uid, gid, value, lists }
    }

    /// Returns the inputs of the file of `metadata` with the POSIX ACLs `lists` after its attribute was set to `value`.
    pub(crate) fn stored(metadata: &Metadata, value: Option<Vec<u8>>, lists: &Posix) -> AclInputs {
        // The kernel does not store an ACL that is equivalent to the mode.
        let access = (!lists.access.is_minimal()).then(|| lists.access.encode());
        let default = lists.default.as_ref().map(PosixAcl::encode);
        AclInputs::new(metadata, value, Some(Lists { access, default }))
    }

    /// Returns the number of entries of the POSIX ACLs from which a descriptor is synthesized; `None` if the attribute
    /// is set.
    pub(crate) fn converted_entries(&self) -> Option<usize> {
        let lists = self.lists.as_ref().filter(|_| self.value.is_none())?;
        let default = lists.default.as_ref().map_or(0, |value| posix_acl::entries_in(value));
        Some(lists.access.as_ref().map_or(posix_acl::CLASSES, |value| posix_acl::entries_in(value)) + default)
    }

    /// Returns the permissions of the file of `metadata` in Linux; `None` on a share that ignores POSIX ACLs.
    pub(crate) fn posix(&self, metadata: &Metadata) -> Option<Posix> {
        self.lists.as_ref().map(|lists| lists.decode(metadata))
    }

    /// Determines which descriptor is in force.
    pub(crate) fn resolve(self, share: &Share, metadata: &Metadata) -> Result<EffectiveDescriptor> {
        let acls = share.acls.stored.as_ref();
        let (has_one, lists) = (self.value.is_some(), self.posix(metadata));
        let stored = match (self.value, acls) {
            (Some(value), Some(acls)) => ntacl::decode(&value).map_err(|_| damaged(acls))?,
            _ => None,
        };
        let Some(lists) = lists else {
            let is_stored = stored.is_some();
            let style = acls.map_or(AclStyle::Posix, |acls| acls.default_style);
            let descriptor = stored.map_or_else(|| default_descriptor(style, metadata), |stored| stored.descriptor);
            return Ok(EffectiveDescriptor {
                basis: AclSource::Descriptor(descriptor, None),
                stored: is_stored,
                outdated: false,
            });
        };
        let counts = |condition| match condition {
            Condition::Always => true,
            Condition::SystemHash(hash) => hash == ntacl::system_hash(metadata, &lists.access, lists.default.as_ref()),
            Condition::Unknown => false,
        };
        Ok(match stored.filter(|stored| counts(stored.condition)) {
            Some(Stored { descriptor, .. }) => EffectiveDescriptor {
                basis: AclSource::Descriptor(descriptor, Some(lists.access)),
                stored: true,
                outdated: false,
            },
            None => EffectiveDescriptor { basis: AclSource::Lists(lists), stored: false, outdated: has_one },
        })
    }
}

/// Determines which descriptor is in force for the file of `metadata`.
pub(crate) async fn look_up(
    share: &Share,
    kind: AclKind,
    op: &Op,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
) -> Result<EffectiveDescriptor> {
    AclInputs::read(share, kind, op, node, metadata).await?.resolve(share, metadata)
}

/// Error for an attribute that cannot be decoded. Access is denied because the attribute may deny rights that the POSIX
/// ACL grants.
pub(crate) fn damaged(acls: &StoredAcls) -> Error {
    Error::because(
        Status::ACCESS_DENIED,
        format!("{} of the file is damaged; delete the attribute or set new permissions", acls.attribute),
    )
}

/// Reads the attribute: as the user if any user may read it, otherwise as the server.
pub(crate) async fn read_value(op: &Op, acls: &StoredAcls, node: &Arc<dyn Node>) -> Result<Option<Vec<u8>>> {
    // An attribute that any user can write is not trusted on another user's file.
    if let Some(owner) = acls.of_owner
        && node.metadata(op).await?.uid != owner
    {
        return Ok(None);
    }
    let public = acls.attribute.starts_with("security.");
    let op = if public { op } else { &*SERVER };
    match node.get_xattr(op, &acls.attribute).await {
        Ok(value) => Ok(value),
        // Symbolic links, devices and file systems without extended attributes have none.
        Err(Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

impl Lists {
    async fn read(acls: AclKind, op: &Op, node: &Arc<dyn Node>, kind: Kind) -> Result<Lists> {
        if acls == AclKind::None {
            return Ok(Lists { access: None, default: None });
        }
        let list = async |name| match node.get_xattr(op, name).await {
            Ok(value) => Ok(value),
            // File systems without POSIX ACLs have none.
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES) => Ok(None),
            Err(errno) => Err(Error::from(errno)),
        };
        let access = list(posix_acl::ACCESS).await?;
        let default = if kind == Kind::Directory { list(posix_acl::DEFAULT).await? } else { None };
        Ok(Lists { access, default })
    }

    /// Decodes the POSIX ACLs, or uses the mode if there are none.
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

/// Returns the file's permissions in Linux: its POSIX ACLs if it has any, otherwise its permission bits. An I/O error
/// while reading an ACL is returned, because a descriptor synthesized from the bits alone may grant more, and would be
/// cached.
pub(crate) async fn posix(kind: AclKind, op: &Op, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Posix> {
    Ok(Lists::read(kind, op, node, metadata.kind).await?.decode(metadata))
}
