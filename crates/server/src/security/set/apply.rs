//! Setting a security descriptor: owner and group, the POSIX ACLs, and the descriptor itself where the share stores it.
//!
//! Together with a stored descriptor, POSIX ACLs are set with which the kernel, which still has the last word, permits
//! what the descriptor grants.

use std::borrow::Cow;
use std::sync::Arc;

use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, FileTime, SecurityDescriptor, Sid};
use proto::smb2::SecurityInformation;
use proto::status::Status;

use crate::accounts::principals::UnixId;
use crate::acl::model::inherit;
use crate::acl::model::posix_acl;
use crate::acl::model::posix_acl::PosixAcl;
use crate::acl::ntacl;
use crate::acl::posix;
use crate::acl::posix::{Duty, Inexpressible, Posix};
use crate::acl::protection::Protection;
use crate::acl::sids;
use crate::acl::sids::FileSids;
use crate::acl::source::posix;
use crate::acl::synthesized::shown;
use crate::error::{Error, Result};
use crate::policy::{InheritOwner, StoredAcls};
use crate::security::access;
use crate::security::effective::of;
use crate::security::set::merge::{OF_SACL, Parts, merge};
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{Errno, FileId, Kind, Metadata, Node, Op, SERVER, SetMetadata, SetXattr, Time};

/// Sets the descriptor that a new file inherits from `parent`, the descriptor of its directory. Returns `false` if
/// nothing is inherited or the file system cannot store descriptors.
pub(crate) async fn inherit(
    disk: &Disk,
    node: &Arc<dyn Node>,
    now: Time,
    parent: &Protection,
    metadata: &Metadata,
    executable: bool,
) -> Result<bool> {
    let directory = metadata.kind == Kind::Directory;
    let of_maker = disk.share.acls.inherit_owner == InheritOwner::UnixOnly;
    let uid = if of_maker { disk.op.uid } else { metadata.uid };
    let Some(acls) = &disk.share.acls.stored else { return Ok(false) };
    let Some(descriptor) = inherited(disk, parent, uid, metadata.gid, directory).await else { return Ok(false) };
    let value = if acls.ignore_system_acls {
        ntacl::encode_unconditional(&descriptor)
    } else {
        let before = posix(disk.vfs.capabilities().acls, &disk.op, node, metadata).await?;
        let after = lists_for(disk, &before, &descriptor, Duty::Beneath, false).await?;
        // Full control of a file includes execution, but the client did not declare it to be a program.
        let after = if directory || executable { after } else { after.not_executable() };
        apply(maker(disk, metadata), node, metadata, &before, &after).await?;
        let metadata = keep_setgid(node, metadata).await?;
        ntacl::encode(&descriptor, hash(disk, node, &metadata).await?, FileTime::from(now))
    };
    match write(acls, node, value).await {
        Err(error) if error.status == Status::NOT_SUPPORTED => Ok(false),
        done => done.map(|()| true),
    }
}

/// Returns the descriptor of a file of user `uid` and group `gid` created in a directory with the protection `parent`.
/// `None` if nothing is inherited. Also `None` if the directory has no stored descriptor, but a default POSIX ACL that
/// cannot be expressed by allow rules; the kernel applies that one then.
pub(in crate::security) async fn inherited(
    disk: &Disk,
    parent: &Protection,
    uid: u32,
    gid: u32,
    directory: bool,
) -> Option<SecurityDescriptor> {
    let own = parent.descriptor(&disk.share);
    if !inherit::is_inheritable(&own) || parent.default_acl_denies {
        return None;
    }
    let owner = sids::of_account(&*disk.ids, UnixId::User(uid)).await;
    let group = sids::of_account(&*disk.ids, UnixId::Group(gid)).await;
    let parent = as_kept(disk, own, parent.stored).await;
    inherit::child(&parent, owner, group, directory)
}

/// Returns the descriptor as it would be stored. In a synthesized one, SIDs of Linux ids are replaced by account SIDs.
async fn as_kept<'a>(
    disk: &Disk,
    descriptor: Cow<'a, SecurityDescriptor>,
    stored: bool,
) -> Cow<'a, SecurityDescriptor> {
    match stored || disk.share.acls.stored.is_none() {
        true => descriptor,
        false => Cow::Owned(sids::by_account(&*disk.ids, &descriptor).await),
    }
}

/// Makes the owner of the directory the owner of a new file (`inherit owner`).
pub(crate) async fn give_to(node: &Arc<dyn Node>, uid: u32) -> Result<()> {
    Ok(node.set_metadata(&SERVER, SetMetadata { uid: Some(uid), ..SetMetadata::default() }).await?)
}

/// Changes the permission bits of a new file from those in `present` to `mode`.
pub(crate) async fn give_mode(disk: &Disk, node: &Arc<dyn Node>, present: &Metadata, mode: u32) -> Result<()> {
    let mode = present.mode & 0o7000 | mode & 0o777;
    if mode == present.mode {
        return Ok(());
    }
    let set = SetMetadata { mode: Some(mode), ..SetMetadata::default() };
    node.set_metadata(maker(disk, present), set).await?;
    if present.mode & SETGID != 0 {
        keep_setgid(node, present).await?;
    }
    Ok(())
}

/// The mode bit of a directory that passes its group on to new files.
const SETGID: u32 = 0o2000;

/// Restores the setgid bit that a new directory had when it was `made`. Linux clears the bit when a user who is not in
/// the group changes the mode or POSIX ACL. Returns the new metadata.
async fn keep_setgid(node: &Arc<dyn Node>, made: &Metadata) -> Result<Metadata> {
    let present = node.metadata(&SERVER).await?;
    if made.kind != Kind::Directory || made.mode & SETGID == 0 || present.mode & SETGID != 0 {
        return Ok(present);
    }
    let set = SetMetadata { mode: Some(present.mode | SETGID), ..SetMetadata::default() };
    node.set_metadata(&SERVER, set).await?;
    Ok(node.metadata(&SERVER).await?)
}

/// Returns the context for changes of a new file: its creator, or the server if the file already belongs to the
/// directory's owner.
fn maker<'a>(disk: &'a Disk, file: &Metadata) -> &'a Op {
    if file.uid == disk.op.uid { &disk.op } else { &SERVER }
}

/// Sets the descriptor that the client sent with CREATE. If it has no DACL, the inherited one, which was set before, is
/// kept ([MS-DTYP] 2.5.3.4.1).
pub(crate) async fn give(
    disk: &Disk,
    file: (FileId, &Arc<dyn Node>),
    now: Time,
    given: &SecurityDescriptor,
) -> Result<()> {
    let parts = Parts {
        owner: given.owner.is_some(),
        group: given.group.is_some(),
        dacl: given.control.contains(Control::DACL_PRESENT),
        sacl: if given.sacl.is_some() { OF_SACL } else { SecurityInformation::NONE },
        mode: None,
    };
    if !parts.sacl.is_empty() && !disk.token.security {
        return Err(Error::new(Status::PRIVILEGE_NOT_HELD));
    }
    if parts.is_empty() || !disk.share.acls.nt_acl_support {
        return Ok(());
    }
    set(disk, file, now, &as_stored(disk, given.clone()), parts, Authority { write_dac: true, write_owner: true }).await
}

/// Returns a descriptor in the form in which it is stored: generic rights are expanded, and the AUTO_INHERITED flags
/// are set only if the client also requested computed inheritance (`acl flag inherited canonicalization`).
pub(crate) fn as_stored(disk: &Disk, given: SecurityDescriptor) -> SecurityDescriptor {
    const DACL: Control = Control(Control::DACL_AUTO_INHERITED.0 | Control::DACL_COMPUTED_INHERITANCE_REQUIRED.0);
    const SACL: Control = Control(Control::SACL_AUTO_INHERITED.0 | Control::SACL_COMPUTED_INHERITANCE_REQUIRED.0);
    let expand = |acl: Option<Acl>| {
        let acl = acl?;
        let revision = acl.revision();
        Acl::new(revision, acl.into_aces().into_iter().map(inherit::expanded).collect())
    };
    let mut control = given.control;
    if disk.share.acls.acl_flag_inherited_canonicalization {
        let flag = |asked, flag| if control.contains(asked) { flag } else { Control::NONE };
        let inherited = flag(DACL, Control::DACL_AUTO_INHERITED) | flag(SACL, Control::SACL_AUTO_INHERITED);
        control = control.without(DACL | SACL) | inherited;
    }
    SecurityDescriptor { control, dacl: expand(given.dacl), sacl: expand(given.sacl), ..given }
}

/// Changes times and attributes of an open file. If a stored descriptor grants the user FILE_WRITE_ATTRIBUTES, neither
/// `w` nor ownership is needed. If attributes map to permission bits, the kernel alone decides, because changing the
/// bits invalidates the descriptor, and the one synthesized from the bits may grant more.
pub(crate) async fn set_attributes(
    disk: &Disk,
    (node, op): (&Arc<dyn Node>, &Op),
    granted: AccessMask,
    set: SetMetadata,
) -> Result<()> {
    let harmless = |acls: &StoredAcls| set.mode.is_none() || acls.ignore_system_acls;
    match node.set_metadata(op, set).await {
        Err(Errno::PERM | Errno::ACCES)
            if disk.share.acls.stored.as_ref().is_some_and(harmless)
                && granted.contains(AccessMask::FILE_WRITE_ATTRIBUTES) =>
        {
            Ok(node.set_metadata(&SERVER, set).await?)
        }
        done => Ok(done?),
    }
}

/// The rights of the user who sets a descriptor, in addition to those that the kernel gives.
#[derive(Clone, Copy)]
pub(crate) struct Authority {
    /// Change the ACL of a file of another user.
    pub(crate) write_dac: bool,
    /// Take ownership.
    pub(crate) write_owner: bool,
}

/// Maximum number of attempts to change a descriptor that another program changes concurrently.
const RACES: usize = 4;

/// Sets the `parts` of `new`: owner and group, the POSIX ACLs, and the descriptor itself where the share stores it.
/// `node` is the file `id` or a stream of it. Concurrent calls for the same file are serialized.
pub(crate) async fn set(
    disk: &Disk,
    (id, node): (FileId, &Arc<dyn Node>),
    now: Time,
    new: &SecurityDescriptor,
    parts: Parts,
    authority: Authority,
) -> Result<()> {
    let node = streams::file_of(node).unwrap_or(node);
    let _turn = disk.descriptors.turns.take(id).await;
    for _ in 0..RACES {
        let before = Snapshot::of(disk, node, parts.dacl).await?;
        let metadata = before.metadata;
        let (stored, lists) = (false, None);
        let mut change = Change { disk, node, now, new, parts, authority, before, metadata, stored, lists };
        if change.attempt().await? {
            return Ok(());
        }
    }
    Err(Error::because(Status::SHARING_VIOLATION, "another program keeps changing the file's descriptor"))
}

/// A change of a file's descriptor: what is to be set, the file as it was before, and what was changed so far.
struct Change<'a> {
    disk: &'a Disk,
    node: &'a Arc<dyn Node>,
    now: Time,
    new: &'a SecurityDescriptor,
    parts: Parts,
    authority: Authority,
    before: Snapshot,
    /// The file's metadata, with its new owner and group after [`Change::ownership`].
    metadata: Metadata,
    /// The stored descriptor was replaced and must be restored.
    stored: bool,
    /// The POSIX ACLs that must be restored, after some of them may have been changed.
    lists: Option<Posix>,
}

/// The file before a change.
struct Snapshot {
    metadata: Metadata,
    /// The stored value; `None` if there is none or the share stores none.
    value: Option<Vec<u8>>,
    /// The descriptor in force.
    descriptor: SecurityDescriptor,
}

impl Snapshot {
    /// Reads the file. A damaged descriptor is accepted if `replaced`, because it may be replaced as a whole.
    async fn of(disk: &Disk, node: &Arc<dyn Node>, replaced: bool) -> Result<Snapshot> {
        // Read first, so that all data read later is at least as new.
        let value = match &disk.share.acls.stored {
            Some(acls) => value(acls, node).await?,
            None => None,
        };
        let metadata = node.metadata(&disk.op).await?;
        let descriptor = match of(disk, node, &metadata).await {
            Ok(present) => as_kept(disk, present.descriptor(&disk.share), present.stored).await.into_owned(),
            Err(_) if replaced => {
                shown(&disk.share, &posix(disk.vfs.capabilities().acls, &disk.op, node, &metadata).await?)
            }
            Err(error) => return Err(error),
        };
        Ok(Snapshot { metadata, value, descriptor })
    }
}

impl Change<'_> {
    /// Makes one attempt. Returns `false`, with nothing changed, if another program changed the stored descriptor
    /// meanwhile.
    async fn attempt(&mut self) -> Result<bool> {
        self.ownership().await?;
        let done = match &self.disk.share.acls.stored {
            // A symbolic link has only an owner and a group.
            _ if self.metadata.kind == Kind::Symlink => Ok(true),
            Some(acls) => self.commit(acls).await,
            None if self.parts.dacl || self.parts.mode.is_some() => self.posix().await.map(|()| true),
            None => Ok(true),
        };
        if !matches!(done, Ok(true)) {
            self.rollback().await?;
        }
        done
    }

    /// Sets owner and group if they change. As in Samba, on shares that store descriptors a SID that is not a user of
    /// this machine makes the caller the owner in Linux, and a SID that is not a group makes the caller's group the
    /// file's group. This does not make the members of that group members of the SID: ACEs for it match no group.
    async fn ownership(&mut self) -> Result<()> {
        let (disk, node, new, parts) = (self.disk, self.node, self.new, self.parts);
        let (metadata, present) = (&self.before.metadata, &self.before.descriptor);
        let op = &disk.op;
        let stores = disk.share.acls.stored.is_some();
        let forced = stores || disk.share.acls.force_unknown_acl_user;
        let owner = new.owner.filter(|sid| parts.owner && present.owner != Some(*sid));
        let uid = match owner {
            Some(sid) => {
                let id = sids::id_of(&*disk.ids, &sid).await?.and_then(UnixId::uid);
                let uid = id.or(forced.then_some(op.uid)).ok_or_else(|| nobody(sid))?;
                Some(uid).filter(|&uid| uid != metadata.uid)
            }
            None => None,
        };
        let group = new.group.filter(|sid| parts.group && present.group != Some(*sid));
        let gid = match group {
            Some(sid) => {
                let id = sids::id_of(&*disk.ids, &sid).await?.and_then(UnixId::gid);
                let known = id.or((forced || stores).then_some(op.gid));
                let gid = if stores { known } else { Some(known.ok_or_else(|| nobody(sid))?) };
                gid.filter(|&gid| gid != metadata.gid)
            }
            None => None,
        };
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        let set = SetMetadata { uid, gid, ..SetMetadata::default() };
        match node.set_metadata(op, set).await {
            Err(Errno::PERM | Errno::ACCES) if stores && self.authority.write_owner => {
                // A descriptor can grant taking ownership, but not giving the file away.
                let takes = uid.unwrap_or(metadata.uid) == op.uid;
                let member = gid.is_none_or(|gid| gid == op.gid || op.groups.contains(&gid));
                if !takes || !member {
                    return Err(Error::because(Status::INVALID_OWNER, "a file cannot be given to another user"));
                }
                node.set_metadata(&SERVER, set).await?;
            }
            done => done?,
        }
        self.metadata = node.metadata(&disk.op).await?;
        Ok(())
    }

    /// Stores the merged descriptor and sets the matching POSIX ACLs. Returns `false` if the stored value is no longer
    /// the former one. The descriptor is written first, with the hash of the ACLs that the file will have. If there is
    /// no space for it, nothing has changed, and the former one stays valid.
    async fn commit(&mut self, acls: &StoredAcls) -> Result<bool> {
        let (disk, node) = (self.disk, self.node);
        let merged = merge(std::mem::take(&mut self.before.descriptor), self.new, self.parts);
        if acls.ignore_system_acls {
            let stays = self.is_former(acls).await?;
            if stays {
                write(acls, node, ntacl::encode_unconditional(&merged)).await?;
            }
            return Ok(stays);
        }
        let before = posix(disk.vfs.capabilities().acls, &disk.op, node, &self.metadata).await?;
        let after = match self.parts.dacl {
            true => lists_for(disk, &before, &merged, Duty::Beneath, true).await?,
            false => before.clone(),
        };
        let mode = self.metadata.mode & 0o7000 | after.access.mode();
        let expected = ntacl::system_hash(&Metadata { mode, ..self.metadata }, &after.access, after.default.as_ref());
        let encoded = |hash| ntacl::encode(&merged, hash, FileTime::from(self.now));
        if !self.is_former(acls).await? {
            return Ok(false);
        }
        write(acls, node, encoded(expected)).await?;
        if let Err(error) = apply_by(disk, node, &self.metadata, &before, &after, self.authority.write_dac).await {
            (self.stored, self.lists) = (true, Some(before));
            return Err(error);
        }
        // The file system may normalize the ACLs. The stored hash must match the result.
        let present = hash(disk, node, &node.metadata(&disk.op).await?).await?;
        if present != expected {
            write(acls, node, encoded(present)).await?;
        }
        Ok(true)
    }

    /// Returns whether the stored value is the former one.
    async fn is_former(&self, acls: &StoredAcls) -> Result<bool> {
        Ok(value(acls, self.node).await? == self.before.value)
    }

    /// Sets the POSIX ACLs according to the new DACL, and the mode, on a share that stores no descriptors.
    async fn posix(&mut self) -> Result<()> {
        let before = posix(self.disk.vfs.capabilities().acls, &self.disk.op, self.node, &self.metadata).await?;
        let done = match self.parts.dacl {
            true => self.convert(&before).await,
            false => Ok(()),
        };
        let done = match (done, self.parts.mode) {
            (Ok(()), Some(mode)) => self.permission_bits(mode).await,
            (done, _) => done,
        };
        if done.is_err() {
            self.lists = Some(before);
        }
        done
    }

    /// Sets the POSIX ACLs according to the new DACL.
    async fn convert(&self, before: &Posix) -> Result<()> {
        let (disk, node) = (self.disk, self.node);
        let duty = Duty::Alone { strangers: disk.share.acls.force_unknown_acl_user };
        let after = lists_for(disk, before, self.new, duty, true).await?;
        let writes = disk.share.acls.dos_filemode && access::kernel_permits(disk, node, &self.metadata, 0o2).await?;
        let overrides = access::overrides_owner(disk, &self.metadata, writes);
        apply_by(disk, node, &self.metadata, before, &after, overrides).await
    }

    /// Sets the permission bits as the user. Other bits of the mode stay.
    async fn permission_bits(&self, bits: u32) -> Result<()> {
        let present = self.node.metadata(&self.disk.op).await?;
        let mode = Some(present.mode & !0o777 | bits & 0o777);
        self.node.set_metadata(&self.disk.op, SetMetadata { mode, ..SetMetadata::default() }).await?;
        keep_setgid(self.node, &present).await.map(|_| ())
    }

    /// Undoes what was changed: the POSIX ACLs, the stored descriptor, and owner and group. All of them are tried, even
    /// if one fails.
    async fn rollback(&mut self) -> Result<()> {
        let lists = match self.lists.take() {
            Some(before) => take_back(self.disk, self.node, &before).await,
            None => Ok(()),
        };
        let value = match &self.disk.share.acls.stored {
            Some(acls) if self.stored => self
                .node
                .set_xattr(&SERVER, &acls.attribute, self.before.value.take(), SetXattr::Any)
                .await
                .map_err(Error::from),
            _ => Ok(()),
        };
        let Metadata { uid, gid, mode, kind, .. } = self.before.metadata;
        if (self.metadata.uid, self.metadata.gid) != (uid, gid) {
            let mode = Some(mode).filter(|_| kind != Kind::Symlink);
            let former = SetMetadata { uid: Some(uid), gid: Some(gid), mode, ..SetMetadata::default() };
            self.node.set_metadata(&SERVER, former).await?;
        }
        value.and(lists)
    }
}

/// Reads the stored value; `None` where none can be stored.
async fn value(acls: &StoredAcls, node: &Arc<dyn Node>) -> Result<Option<Vec<u8>>> {
    match node.get_xattr(&SERVER, &acls.attribute).await {
        Err(Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        value => Ok(value?),
    }
}

/// Returns the hash of the file's current permissions in Linux.
async fn hash(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<[u8; 32]> {
    let lists = posix(disk.vfs.capabilities().acls, &disk.op, node, metadata).await?;
    Ok(ntacl::system_hash(metadata, &lists.access, lists.default.as_ref()))
}

/// Writes the attribute.
async fn write(acls: &StoredAcls, node: &Arc<dyn Node>, value: Vec<u8>) -> Result<()> {
    if value.len() > ntacl::LONGEST {
        return Err(Error::because(
            Status::INVALID_SECURITY_DESCR,
            "the security descriptor is too long for an extended attribute",
        ));
    }
    node.set_xattr(&SERVER, &acls.attribute, Some(value), SetXattr::Any).await.map_err(|errno| match errno {
        Errno::OPNOTSUPP | Errno::PERM => {
            let why = format!(
                "{} cannot be stored here: this requires a file system with extended attributes, and root",
                acls.attribute
            );
            Error::because(Status::NOT_SUPPORTED, why)
        }
        errno => errno.into(),
    })
}

/// Error for an owner or group that cannot be stored.
fn nobody(sid: Sid) -> Error {
    Error::because(Status::INVALID_OWNER, format!("{sid} is not a user or group here (force unknown acl user = no)"))
}

/// Restores the POSIX ACLs of `before` after a failure that may have changed some of them.
async fn take_back(disk: &Disk, node: &Arc<dyn Node>, before: &Posix) -> Result<()> {
    let metadata = node.metadata(&SERVER).await?;
    let present = posix(disk.vfs.capabilities().acls, &SERVER, node, &metadata).await?;
    Ok(apply(&SERVER, node, &metadata, &present, before).await?)
}

/// Sets the POSIX ACLs of `after` as the user, or as the server if that is refused and `granted` is set.
async fn apply_by(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    before: &Posix,
    after: &Posix,
    granted: bool,
) -> Result<()> {
    match apply(&disk.op, node, metadata, before, after).await {
        Err(Errno::PERM | Errno::ACCES) if granted => Ok(apply(&SERVER, node, metadata, before, after).await?),
        done => Ok(done?),
    }
}

/// Returns the POSIX ACLs by `descriptor` for a file that has those of `before` now. The group memberships of the owner
/// and of the calling user are taken into account, and if `others` is set also those of the users that the descriptor
/// names.
pub(in crate::security) async fn lists_for(
    disk: &Disk,
    before: &Posix,
    descriptor: &SecurityDescriptor,
    duty: Duty,
    others: bool,
) -> Result<Posix> {
    let sids = FileSids::of(&*disk.ids, descriptor, before.uid).await;
    let mut users = if others { sids.users(descriptor) } else { Vec::new() };
    users.push(before.uid);
    let sids = sids.knowing(&*disk.ids, disk.authenticator.as_deref(), &disk.op, &users).await;
    posix::from_descriptor(before, descriptor, &sids, duty).await.map_err(|inexpressible| {
        let why = match inexpressible {
            Inexpressible::Denied(sid) => format!("a POSIX ACL cannot deny that to {sid}"),
            Inexpressible::Unknown(sid) => format!("{sid} is not a user or group here (force unknown acl user = no)"),
        };
        Error::because(Status::NOT_SUPPORTED, why)
    })
}

/// Sets the POSIX ACLs of `after`.
async fn apply(
    op: &Op,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    before: &Posix,
    after: &Posix,
) -> std::result::Result<(), Errno> {
    if after.access.is_minimal() && before.access.is_minimal() {
        let mode = metadata.mode & 0o7000 | after.access.mode();
        if mode != metadata.mode {
            node.set_metadata(op, SetMetadata { mode: Some(mode), ..SetMetadata::default() }).await?;
        }
    } else if after.access != before.access {
        match node.set_xattr(op, posix_acl::ACCESS, Some(after.access.encode()), SetXattr::Any).await {
            // A file system without POSIX ACLs has only permission bits. Users and groups named in the ACL have the
            // rights of others then.
            Err(Errno::OPNOTSUPP) => {
                let mode = metadata.mode & 0o7000 | after.access.unnamed().mode();
                node.set_metadata(op, SetMetadata { mode: Some(mode), ..SetMetadata::default() }).await?;
            }
            done => done?,
        }
    }
    if after.default != before.default {
        let value = after.default.as_ref().map(PosixAcl::encode);
        match node.set_xattr(op, posix_acl::DEFAULT, value, SetXattr::Any).await {
            Err(Errno::OPNOTSUPP) => {}
            done => done?,
        }
    }
    Ok(())
}
