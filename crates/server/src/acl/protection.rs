//! The effective security descriptor of a file as the cache keeps it.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::dtyp::{AccessMask, SecurityDescriptor};

use crate::acl::cache::{By, Descriptor};
use crate::acl::model::posix_acl::PosixAcl;
use crate::acl::posix::Posix;
use crate::acl::synthesized;
use crate::heap_size;
use crate::policy::Share;
use crate::vfs::{Identity, Metadata};

/// The rights granted last, with the token that they were granted to.
#[derive(Default)]
pub(crate) struct LastGrant(Mutex<Option<(u64, AccessMask)>>);

impl LastGrant {
    /// Returns the rights of the token `token`, from this cache or from `work_out`.
    pub(crate) fn of(&self, token: u64, work_out: impl FnOnce() -> AccessMask) -> AccessMask {
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

/// The effective security descriptor of a file, in compact form.
pub(crate) struct Protection {
    pub(crate) made: CachedAclSource,
    /// The file's owner and group in Linux.
    pub(crate) owner: (u32, u32),
    /// The descriptor is a stored one, shown to clients as it is. In other descriptors, SIDs of Linux ids are replaced
    /// by account SIDs when they are shown.
    pub(crate) stored: bool,
    /// The SID in the descriptor's owner field belongs to no other user of this server, so it is taken as the file's
    /// owner.
    pub(crate) owner_stands: bool,
    /// The default POSIX ACL denies new files access that ACEs inherited from the descriptor would grant.
    pub(crate) default_acl_denies: bool,
    /// The result of the last access check.
    pub(crate) last: LastGrant,
    /// Hash of the inputs: [`Cache::inputs_hash`](crate::acl::cache::Cache::inputs_hash).
    pub(crate) inputs_hash: u64,
}

/// As [`AclSource`](crate::acl::source::AclSource), but for the cache. POSIX ACLs take a tenth of the space of the
/// descriptor synthesized from them.
pub(crate) enum CachedAclSource {
    Descriptor(Arc<Descriptor>, Option<PosixAcl>),
    Lists(Posix),
}

impl Protection {
    /// Creates the protection of the file of `metadata` by a stored `descriptor`; `inputs_hash` is the hash of its
    /// inputs.
    pub(crate) fn by_descriptor(descriptor: Arc<Descriptor>, metadata: &Metadata, inputs_hash: u64) -> Self {
        Protection::new(CachedAclSource::Descriptor(descriptor, None), true, metadata, inputs_hash)
    }

    /// Creates the protection of the file of `metadata`.
    pub(crate) fn new(made: CachedAclSource, stored: bool, metadata: &Metadata, inputs_hash: u64) -> Self {
        let default = if let CachedAclSource::Lists(lists) = &made { lists.default.as_ref() } else { None };
        let default_acl_denies = default.is_some_and(PosixAcl::keeps_out);
        let owner = (metadata.uid, metadata.gid);
        Protection {
            made,
            owner,
            stored,
            owner_stands: false,
            default_acl_denies,
            last: LastGrant::default(),
            inputs_hash,
        }
    }

    /// Adds the POSIX ACL that the kernel enforces.
    pub(crate) fn beside(self, list: PosixAcl) -> Self {
        match self.made {
            CachedAclSource::Descriptor(descriptor, _) => {
                Protection { made: CachedAclSource::Descriptor(descriptor, Some(list)), ..self }
            }
            CachedAclSource::Lists(_) => self,
        }
    }

    /// Returns the descriptor of a file of `share`.
    pub(crate) fn descriptor(&self, share: &Share) -> Cow<'_, SecurityDescriptor> {
        match &self.made {
            CachedAclSource::Descriptor(descriptor, _) => Cow::Borrowed(descriptor),
            CachedAclSource::Lists(lists) => Cow::Owned(synthesized::synthesize(share, lists)),
        }
    }

    /// Identifies the descriptor, for caches of access rights and inheritance.
    pub(crate) fn by(&self) -> By {
        match &self.made {
            CachedAclSource::Descriptor(descriptor, _) => By::Descriptor(descriptor.id()),
            CachedAclSource::Lists(_) => By::AclInputs(self.inputs_hash),
        }
    }

    /// Returns the bytes that this takes besides a descriptor.
    pub(crate) fn bytes(&self) -> usize {
        let lists = match &self.made {
            CachedAclSource::Descriptor(_, list) => [list.as_ref(), None],
            CachedAclSource::Lists(lists) => [Some(&lists.access), lists.default.as_ref()],
        };
        heap_size::shared::<Self>() + lists.into_iter().flatten().map(PosixAcl::bytes).sum::<usize>()
    }

    /// Whether the kernel gives the `rwx` bits `wanted` to `who`, who is not root. `None` if the POSIX ACL is not
    /// known.
    pub(crate) fn permits(&self, who: &Identity, wanted: u8) -> Option<bool> {
        let (uid, gid) = self.owner;
        let list = match &self.made {
            CachedAclSource::Descriptor(_, list) => list.as_ref()?,
            CachedAclSource::Lists(lists) => &lists.access,
        };
        Some(list.permits(who, uid, gid, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_grant_belongs_to_its_token() {
        let last = LastGrant::default();
        let of = |token, rights| last.of(token, || AccessMask(rights)).0;
        assert_eq!((of(0, 7), of(0, 1)), (7, 7));
        assert_eq!((of(1, 3), of(1, 1), of(0, 1)), (3, 3, 1), "only the last grant is cached");
    }
}
