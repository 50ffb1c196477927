//! Local administration of security descriptors: `frevo acl show`, `set`, `diff` and `convert`.
//!
//! There is no session, no open and no cache. Operations run as root on paths below the share's directory; symbolic
//! links are not followed, so they cannot leave the directory. The descriptors shown are those that a client would see,
//! computed by the same functions. Descriptors are set as by a client that may set everything.

mod restore;

use std::collections::BinaryHeap;
use std::sync::Arc;

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{Acl, FileTime, SecurityDescriptor, Sid};
use proto::status::Status;

use crate::accounts::{Authenticator, IdMap};
use crate::acl::cache::Cache;
use crate::acl::model::evaluate::Token;
use crate::acl::model::inherit;
use crate::acl::ntacl;
use crate::acl::ntacl::Condition;
use crate::acl::posix;
use crate::acl::posix::{Posix, UnixSids};
use crate::acl::sids;
use crate::acl::source::{damaged, look_up, posix, read_value};
use crate::acl::synthesized::shown;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::name::glob::Globs;
use crate::policy::{Share, StoredAcls};
use crate::security::set::apply;
use crate::security::write_back;
use crate::tree::Disk;
use crate::vfs::{
    AclKind, Errno, Kind, ListRequest, Lookup, LookupOptions, Metadata, Node, Page, RelPath, SERVER, SetXattr,
    SymlinkPolicy, Vfs,
};

/// Prefix of the server's own temporary files in a share. They are not users' files.
const OWN_NAMES: &[u8] = b".frevo-";

/// Number of entries listed at a time.
const LISTED: usize = 1024;

/// Maximum number of attempts to convert a file that keeps changing.
const RACES: usize = 4;

/// A share, for local administration.
pub struct AclAdmin {
    disk: Disk,
    environment: Arc<dyn Environment>,
}

/// A file or directory of the share.
pub struct Item {
    /// Path relative to the share's directory.
    pub path: RelPath,
    /// The metadata.
    pub metadata: Metadata,
    node: Arc<dyn Node>,
}

impl Item {
    /// Whether the item is a directory.
    pub fn is_directory(&self) -> bool {
        self.metadata.kind == Kind::Directory
    }

    /// Whether the item has a descriptor of its own. Symbolic links and devices have none.
    pub fn keeps_descriptor(&self) -> bool {
        matches!(self.metadata.kind, Kind::File | Kind::Directory)
    }
}

/// The security descriptor of a file and where it comes from. SIDs are as clients see them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    /// The effective descriptor, as a client sees it.
    pub descriptor: SecurityDescriptor,
    /// Where `descriptor` comes from.
    pub source: Source,
    /// The permission bits and POSIX ACLs.
    pub posix: Posix,
    /// The descriptor that a client would see if none were stored.
    pub converted: SecurityDescriptor,
}

/// Where a descriptor comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// It is stored, and valid.
    Stored,
    /// It is synthesized from the POSIX ACLs; none is stored.
    Converted,
    /// It is synthesized from the POSIX ACLs, because they changed since the given descriptor was stored.
    Outdated(SecurityDescriptor),
    /// It is synthesized from the POSIX ACLs, because the given stored descriptor has no hash that can be checked.
    Unsure(SecurityDescriptor),
    /// It is `acl_xattr:default acl style`; none is stored.
    Default,
    /// It is synthesized from the POSIX ACLs, because the share stores no descriptors.
    Posix,
}

/// Result of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The synthesized descriptor was stored.
    Stored,
    /// The synthesized descriptor replaced an outdated one.
    Replaced,
    /// A valid descriptor is stored already.
    Valid,
    /// A descriptor that is not valid is stored, and was kept.
    Kept,
    /// Skipped: it is neither a file nor a directory, or its POSIX ACL denies access that a stored descriptor would
    /// grant.
    Passed,
    /// It changed during each attempt.
    Changing,
}

/// Options of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conversion {
    /// Whether a stored descriptor is replaced if it is outdated because the POSIX ACLs changed since.
    pub replace: bool,
    /// Whether anything is written.
    pub write: bool,
}

impl AclAdmin {
    /// Returns the kind of ACL that files have beside their permission bits.
    fn kind(&self) -> AclKind {
        self.disk.vfs.capabilities().acls
    }

    /// Creates the administration of `share`, whose directory is `vfs`. Share paths that depend on the session are not
    /// supported. Without an `authenticator`, the groups of users are not known.
    pub fn new(
        share: Arc<Share>,
        vfs: Arc<dyn Vfs>,
        ids: Arc<dyn IdMap>,
        authenticator: Option<Arc<dyn Authenticator>>,
        environment: Arc<dyn Environment>,
    ) -> AclAdmin {
        let descriptors = Arc::new(Cache::new(environment.clone(), 0));
        let token = Token {
            user: Sid::unix_user(0),
            groups: [Sid::EVERYONE, Sid::BUILTIN_ADMINISTRATORS].into(),
            security: true,
            take_ownership: true,
        };
        let globs = |patterns: &[String]| Globs::new(patterns.iter().map(String::as_str), !share.names.case_sensitive);
        let disk = Disk {
            op: SERVER.clone(),
            token_id: descriptors.token(&SERVER, &token),
            token: Arc::new(token),
            place: descriptors.place(0, &share),
            descriptors,
            ids,
            authenticator,
            counters: Arc::default(),
            read_only: false,
            share_rights: Disk::ALL_RIGHTS,
            encrypt_data: false,
            is_dfs: false,
            hide: globs(&[]),
            veto: globs(&share.names.veto_files),
            veto_oplocks: globs(&[]),
            snapshot: None,
            bin: None,
            audit: None,
            _wide_links: None,
            volume: 0,
            share,
            vfs,
        };
        AclAdmin { disk, environment }
    }

    /// Returns the share.
    pub fn share(&self) -> &Share {
        &self.disk.share
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns the administration of the same share in a snapshot.
    pub(crate) fn in_snapshot(&self, snapshot: Disk) -> AclAdmin {
        AclAdmin { disk: snapshot, environment: self.environment.clone() }
    }

    /// Looks up the file at `path`, case-sensitively. Fails with `Errno::LOOP` if the path contains a symbolic link.
    pub async fn item(&self, path: &RelPath) -> Result<Item> {
        let links = SymlinkPolicy::NONE;
        match self.disk.vfs.lookup(&SERVER, path, LookupOptions::exact(links)).await? {
            Lookup::Found { path, node, metadata } => Ok(Item { path, metadata, node }),
            Lookup::Missing { .. } | Lookup::NoParent => Err(Errno::NOENT.into()),
        }
    }

    /// Returns the names in the directory `item` in byte order, without those that clients never see.
    pub async fn names(&self, item: &Item) -> Result<Vec<Box<[u8]>>> {
        let mut names = Vec::new();
        self.each_name(item, |name| names.push(name)).await?;
        names.sort_unstable();
        Ok(names)
    }

    /// Returns how many such names there are, and the first `count` of them, without keeping the others.
    pub async fn first_names(&self, item: &Item, count: usize) -> Result<(usize, Vec<Box<[u8]>>)> {
        let (mut total, mut first) = (0, BinaryHeap::new());
        let keep = |name: Box<[u8]>| {
            total += 1;
            if first.len() < count {
                first.push(name);
            } else if let Some(mut last) = first.peek_mut()
                && name < *last
            {
                *last = name;
            }
        };
        self.each_name(item, keep).await?;
        Ok((total, first.into_sorted_vec()))
    }

    async fn each_name(&self, item: &Item, mut keep: impl FnMut(Box<[u8]>)) -> Result<()> {
        let mut cursor = 0;
        loop {
            let Page { entries, next, .. } =
                item.node.list(&SERVER, ListRequest { cursor, count: LISTED, metadata: false }).await?;
            if entries.is_empty() {
                return Ok(());
            }
            cursor = next;
            let seen = |name: &[u8]| !name.starts_with(OWN_NAMES) && !self.disk.veto.matches(name);
            entries.into_iter().map(|entry| entry.name).filter(|name| seen(name)).for_each(&mut keep);
        }
    }

    /// Returns the security descriptor of `item` and where it comes from.
    pub async fn look(&self, item: &Item) -> Result<Look> {
        let metadata = item.node.metadata(&SERVER).await?;
        let share = &self.disk.share;
        let posix = posix(self.kind(), &SERVER, &item.node, &metadata).await?;
        let found = look_up(share, self.kind(), &SERVER, &item.node, &metadata).await?;
        let source = match &share.acls.stored {
            None => Source::Posix,
            Some(acls) => match stored(acls, &item.node).await? {
                None if acls.ignore_system_acls => Source::Default,
                None => Source::Converted,
                Some(_) if found.confirmed() => Source::Stored,
                Some(stored) => {
                    let descriptor = stored.descriptor;
                    match stored.condition {
                        Condition::Unknown => Source::Unsure(descriptor),
                        _ => Source::Outdated(descriptor),
                    }
                }
            },
        };
        let converted = match &share.acls.stored {
            None => posix::to_descriptor(&posix, &UnixSids),
            Some(_) => shown(share, &posix),
        };
        let converted = self.as_shown(converted).await?;
        let is_stored = found.stored;
        let descriptor = found.descriptor(share);
        let descriptor = if is_stored { descriptor } else { self.as_shown(descriptor).await? };
        Ok(Look { descriptor, source, posix, converted })
    }

    async fn as_shown(&self, descriptor: SecurityDescriptor) -> Result<SecurityDescriptor> {
        sids::shown(&*self.disk.ids, descriptor).await
    }

    /// Sets the parts that are present in `given`.
    ///
    /// # Errors
    ///
    /// `STATUS_INVALID_OWNER` if the owner is not a user of this machine. Over the network, the caller becomes the
    /// owner in Linux in this case, which should not happen to root by accident.
    pub async fn set(&self, item: &Item, given: &SecurityDescriptor) -> Result<()> {
        let node = &item.node;
        if let Some(owner) = given.owner {
            let id = sids::id_of(&*self.disk.ids, &owner).await?;
            let metadata = node.metadata(&SERVER).await?;
            let present = look_up(&self.disk.share, self.kind(), &SERVER, node, &metadata).await.ok();
            let present = match present {
                Some(present) if present.stored => present.descriptor(&self.disk.share).owner,
                Some(present) => self.as_shown(present.descriptor(&self.disk.share)).await?.owner,
                None => None,
            };
            if id.and_then(|id| id.uid()).is_none() && present != Some(owner) {
                return Err(Error::because(Status::INVALID_OWNER, format!("{owner} is not a user of this machine")));
            }
        }
        apply::give(&self.disk, (item.metadata.id, node), self.environment.now(), given).await
    }

    /// Stores the synthesized descriptor of `item` if no valid one is stored.
    pub async fn convert(&self, item: &Item, how: Conversion) -> Result<Outcome> {
        let Some(acls) = self.disk.share.acls.stored.as_ref().filter(|acls| !acls.ignore_system_acls) else {
            return Err(Error::because(
                Status::NOT_SUPPORTED,
                "the share does not store synthesized security descriptors",
            ));
        };
        if !item.keeps_descriptor() {
            return Ok(Outcome::Passed);
        }
        for _ in 0..RACES {
            if let Some(outcome) = self.try_to_convert(acls, &item.node, how).await? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Changing)
    }

    /// Makes one attempt. `None` if the file changed meanwhile.
    async fn try_to_convert(
        &self,
        acls: &StoredAcls,
        node: &Arc<dyn Node>,
        how: Conversion,
    ) -> Result<Option<Outcome>> {
        let share = &self.disk.share;
        let metadata = node.metadata(&SERVER).await?;
        let before = stored_value(acls, node).await?;
        if look_up(share, self.kind(), &SERVER, node, &metadata).await?.confirmed() {
            return Ok(Some(Outcome::Valid));
        }
        // Descriptor and hash must come from the same POSIX ACLs. Otherwise a descriptor synthesized from other ones
        // could be valid.
        let lists = posix(self.kind(), &SERVER, node, &metadata).await?;
        if !write_back::is_faithful(&lists) {
            return Ok(Some(Outcome::Passed));
        }
        let descriptor = sids::by_account(&*self.disk.ids, &shown(share, &lists)).await;
        let now = FileTime::from(self.environment.now());
        let Some(value) = before else {
            let done = !how.write || write_back::put(share, node, &metadata, &lists, &descriptor, now).await?.is_some();
            return Ok(done.then_some(Outcome::Stored));
        };
        let outdated = matches!(decoded(acls, &value)?.condition, Condition::SystemHash(_));
        if !outdated || !how.replace {
            return Ok(Some(Outcome::Kept));
        }
        if how.write {
            let hash = ntacl::system_hash(&metadata, &lists.access, lists.default.as_ref());
            let new = ntacl::encode(&descriptor, hash, now);
            // Checked last, so that a descriptor stored by a client meanwhile is kept.
            let unchanged = node.metadata(&SERVER).await?.stamped == metadata.stamped;
            if !unchanged || stored_value(acls, node).await? != Some(value) {
                return Ok(None);
            }
            node.set_xattr(&SERVER, &acls.attribute, Some(new), SetXattr::Any).await?;
        }
        Ok(Some(Outcome::Replaced))
    }
}

async fn stored_value(acls: &StoredAcls, node: &Arc<dyn Node>) -> Result<Option<Vec<u8>>> {
    read_value(&SERVER, acls, node).await
}

async fn stored(acls: &StoredAcls, node: &Arc<dyn Node>) -> Result<Option<ntacl::Stored>> {
    stored_value(acls, node).await?.map(|value| decoded(acls, &value)).transpose()
}

/// Decodes a value. One of an unknown version is returned with `Condition::Unknown`.
fn decoded(acls: &StoredAcls, value: &[u8]) -> Result<ntacl::Stored> {
    let unknown = || ntacl::Stored { descriptor: SecurityDescriptor::default(), condition: Condition::Unknown };
    Ok(ntacl::decode(value).map_err(|_| damaged(acls))?.unwrap_or_else(unknown))
}

/// Returns the descriptor that `child`, which has `present`, has after inheritance from a directory with `parent`
/// ([MS-DTYP] 2.5.3.4): its own ACEs, then the inherited ones. `None` if it is protected from inheritance; then
/// everything below it is, too.
pub fn propagated(
    parent: &SecurityDescriptor,
    present: &SecurityDescriptor,
    directory: bool,
) -> Option<SecurityDescriptor> {
    const ASKED: Control = Control(
        Control::DACL_PRESENT.0 | Control::DACL_AUTO_INHERITED.0 | Control::DACL_COMPUTED_INHERITANCE_REQUIRED.0,
    );
    if present.control.contains(Control::DACL_PROTECTED) {
        return None;
    }
    let (owner, group) = (present.owner.unwrap_or(Sid::NULL), present.group.unwrap_or(Sid::NULL));
    // All inherited ACEs are marked as inherited, so that the next propagation replaces them.
    let from = SecurityDescriptor { control: parent.control | Control::DACL_AUTO_INHERITED, ..parent.clone() };
    let inherited = inherit::child(&from, owner, group, directory).and_then(|child| child.dacl);
    let own = present.dacl.iter().flat_map(Acl::aces).filter(|ace| !ace.ace_flags.contains(AceFlags::INHERITED));
    let aces: Vec<Ace> = own.cloned().chain(inherited.into_iter().flat_map(Acl::into_aces)).collect();
    let revision = present.dacl.as_ref().map_or(Acl::REVISION, Acl::revision);
    Some(SecurityDescriptor {
        control: Control::SELF_RELATIVE | ASKED,
        // An ACL that is too long is replaced by an empty one, which grants nothing.
        dacl: Some(Acl::new(revision, aces).unwrap_or(Acl::empty())),
        ..SecurityDescriptor::default()
    })
}

#[cfg(test)]
mod tests;
