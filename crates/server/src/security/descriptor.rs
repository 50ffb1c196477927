//! The security descriptor of a file: stored, or made from what Linux knows; and how a new one is put in place.
//!
//! A share with `vfs objects = acl_xattr` stores descriptors ([`store`]); the POSIX lists beneath are set along, so that
//! the kernel, which still has the last word, lets through what the descriptor grants. A stored descriptor counts as
//! long as those lists are as they were left: who changes them past the server has made a new decision.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, FileTime, SecurityDescriptor, Sid};
use proto::status::Status;

use super::evaluate::Token;
use super::inherit;
use super::posix::{self, Duty, Posix, Sids, UnixSids};
use super::posix_acl::{self, PosixAcl};
use super::store::{self, Condition};
use crate::accounts::{Accounts, Unavailable};
use crate::error::{Error, Result};
use crate::open::FileOpen;
use crate::policy::{AclStyle, InheritOwner, StoredAcls};
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{Errno, Identity, Kind, Metadata, Node, SetMetadata, Time};

/// The server itself, for what no user may do: writing the attribute that holds a descriptor, and what a descriptor
/// grants to somebody other than the owner. Nothing that a client names is ever touched with it.
static SERVER: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity { uid: 0, gid: 0, groups: Box::new([]) }));

/// A descriptor and whose SIDs its owner and group are.
pub(crate) struct Protection {
    /// What counts.
    pub(crate) descriptor: SecurityDescriptor,
    /// The file's owner and group as Linux knows them.
    owner: (u32, u32),
    /// It was stored, and its condition holds.
    confirmed: bool,
}

impl Protection {
    /// The token of `who` for this file. Owner and group of a descriptor are those of the file in Linux, so a SID of
    /// another machine or of an earlier database of accounts that stands there is the SID of that user or group.
    pub(crate) fn token(&self, disk: &Disk) -> Token {
        let mut token = Token::clone(&disk.token);
        if !self.confirmed {
            return token;
        }
        let who = &disk.identity;
        let is_member = who.gid == self.owner.1 || who.groups.contains(&self.owner.1);
        let owner = self.descriptor.owner.filter(|sid| who.uid == self.owner.0 && is_account(sid));
        let group = self.descriptor.group.filter(|sid| is_member && is_account(sid));
        if owner.is_some() || group.is_some() {
            token.groups = token.groups.iter().copied().chain(owner).chain(group).collect();
        }
        token
    }
}

/// Whether `sid` is an account's of some machine or domain (S-1-5-21-...).
fn is_account(sid: &Sid) -> bool {
    sid.authority() == 5 && sid.sub_authorities().first() == Some(&21)
}

/// SIDs as they are on one file.
struct FileSids {
    users: HashMap<Sid, u32>,
    group: Option<(Sid, u32)>,
}

impl FileSids {
    /// Those of `descriptor`, whose owner and group are `uid` and `gid`, and those of accounts in its DACL.
    async fn of(accounts: &dyn Accounts, descriptor: &SecurityDescriptor, uid: u32, gid: u32) -> FileSids {
        let mut users: HashMap<_, _> = descriptor.owner.filter(is_account).map(|sid| (sid, uid)).into_iter().collect();
        let aces = descriptor.dacl.iter().flat_map(Acl::aces);
        let trustees: HashSet<Sid> = aces.filter_map(|ace| ace.trustee().map(|(_, sid)| *sid)).collect();
        for sid in trustees.into_iter().filter(is_account) {
            if !users.contains_key(&sid)
                && let Ok(Some(uid)) = accounts.uid_of(&sid).await
            {
                users.insert(sid, uid);
            }
        }
        FileSids { users, group: descriptor.group.filter(is_account).map(|sid| (sid, gid)) }
    }
}

impl Sids for FileSids {
    fn user(&self, uid: u32) -> Sid {
        UnixSids.user(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        UnixSids.group(gid)
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        self.users.get(sid).copied().or_else(|| UnixSids.uid(sid))
    }

    fn gid(&self, sid: &Sid) -> Option<u32> {
        self.group.filter(|(group, _)| group == sid).map(|(_, gid)| gid).or_else(|| UnixSids.gid(sid))
    }
}

/// What protects a file. A stream has what its file has.
pub(crate) async fn of(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Protection> {
    match streams::file_of(node) {
        Some(file) => of_file(disk, file, &file.metadata().await?).await,
        None => of_file(disk, node, metadata).await,
    }
}

async fn of_file(disk: &Disk, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Protection> {
    let owner = (metadata.uid, metadata.gid);
    let Some(acls) = &disk.share.acls else {
        let descriptor = posix::to_descriptor(&posix(&disk.identity, node, metadata).await, &UnixSids);
        return Ok(Protection { descriptor, owner, confirmed: false });
    };
    let stored = match read(disk, acls, node).await? {
        None => None,
        Some(value) => store::decode(&value)
            .map_err(|_| Error::because(Status::ACCESS_DENIED, format!("{} of the file is damaged", acls.attribute)))?,
    };
    if acls.ignore_system_acls {
        let descriptor = match stored {
            Some(stored) => stored.descriptor,
            None => default_descriptor(acls.default_style, metadata),
        };
        return Ok(Protection { descriptor, owner, confirmed: true });
    }
    let lists = posix(&disk.identity, node, metadata).await;
    let counts = |condition| match condition {
        Condition::Always => true,
        Condition::SystemHash(hash) => hash == store::system_hash(metadata, &lists.access, lists.default.as_ref()),
        Condition::Unknown => false,
    };
    Ok(match stored.filter(|stored| counts(stored.condition)) {
        Some(stored) => Protection { descriptor: stored.descriptor, owner, confirmed: true },
        None => Protection { descriptor: shown(disk, &lists), owner, confirmed: false },
    })
}

/// The attribute, read as the user where any user may read it.
async fn read(disk: &Disk, acls: &StoredAcls, node: &Arc<dyn Node>) -> Result<Option<Vec<u8>>> {
    let public = acls.attribute.starts_with("security.");
    let who = if public { &disk.identity } else { &*SERVER };
    match node.get_xattr(who, &acls.attribute).await {
        Ok(value) => Ok(value),
        // Links, devices and file systems without attributes have none.
        Err(Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// What Linux knows of the file's permissions: its lists where it has any, else its permission bits.
pub(crate) async fn posix(who: &Arc<Identity>, node: &Arc<dyn Node>, metadata: &Metadata) -> Posix {
    let list = async |name| {
        let value = node.get_xattr(who, name).await.ok()??;
        PosixAcl::decode(&value).ok()
    };
    let directory = metadata.kind == Kind::Directory;
    Posix {
        directory,
        uid: metadata.uid,
        gid: metadata.gid,
        access: list(posix_acl::ACCESS).await.unwrap_or_else(|| PosixAcl::of_mode(metadata.mode)),
        default: if directory { list(posix_acl::DEFAULT).await } else { None },
    }
}

/// What a file without a stored descriptor shows on a share that stores them: as Samba, a directory hands on what the
/// masks of the share allow, and its list is not protected.
fn shown(disk: &Disk, lists: &Posix) -> SecurityDescriptor {
    let mut descriptor = posix::to_descriptor(lists, &UnixSids);
    descriptor.control = descriptor.control.without(Control::DACL_PROTECTED);
    if lists.directory && !inherit::is_inheritable(&descriptor) {
        let share = &disk.share;
        let directories = 0o777 & share.directory_mask | share.force_directory_mode;
        let mode = directories | 0o666 & share.create_mask | share.force_create_mode;
        let flags = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT | AceFlags::INHERIT_ONLY;
        let handed_on = [(Sid::CREATOR_OWNER, 6), (Sid::CREATOR_GROUP, 3), (Sid::EVERYONE, 0)]
            .map(|(sid, shift)| Ace::allow(sid, posix::rights((mode >> shift & 7) as u8, true), flags));
        let aces = descriptor.dacl.take().map(Acl::into_aces).unwrap_or_default();
        descriptor.dacl = Acl::new(Acl::REVISION, aces.into_iter().chain(handed_on).collect()).or(Some(Acl::empty()));
    }
    descriptor
}

/// What counts for a file without a stored descriptor where POSIX lists do not: `acl_xattr:default acl style`.
fn default_descriptor(style: AclStyle, metadata: &Metadata) -> SecurityDescriptor {
    let all = AccessMask::FILE_ALL_ACCESS;
    let (owner, group) = (UnixSids.user(metadata.uid), UnixSids.group(metadata.gid));
    let rules = match style {
        AclStyle::Windows => vec![(owner, all), (Sid::SYSTEM, all)],
        AclStyle::Everyone => vec![(Sid::EVERYONE, all)],
        AclStyle::Posix => {
            let read = AccessMask::FILE_GENERIC_READ | AccessMask::FILE_EXECUTE;
            let bits = |shift: u32| {
                let bit = |bit, rights| if metadata.mode >> shift & bit != 0 { rights } else { AccessMask::NONE };
                bit(4, read) | bit(2, AccessMask::FILE_GENERIC_WRITE)
            };
            let own = match metadata.mode >> 6 & 6 {
                6 => all,
                2 => AccessMask::FILE_GENERIC_WRITE | AccessMask::DELETE,
                _ => bits(6),
            };
            vec![(owner, own), (group, bits(3)), (Sid::EVERYONE, bits(0)), (Sid::SYSTEM, all)]
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

/// Gives a new file what it inherits from `parent`, the descriptor of its directory; `false` where that hands nothing on
/// or the file system keeps nothing of the kind.
pub(crate) async fn inherit(
    disk: &Disk,
    node: &Arc<dyn Node>,
    now: Time,
    parent: &SecurityDescriptor,
    metadata: &Metadata,
    executable: bool,
) -> Result<bool> {
    let directory = metadata.kind == Kind::Directory;
    let of_maker = disk.share.inherit_owner == InheritOwner::UnixOnly;
    let uid = if of_maker { disk.identity.uid } else { metadata.uid };
    let (owner, group) = (UnixSids.user(uid), UnixSids.group(metadata.gid));
    let Some(acls) = &disk.share.acls else { return Ok(false) };
    let Some(descriptor) = inherit::child(parent, owner, group, directory) else { return Ok(false) };
    let value = if acls.ignore_system_acls {
        store::encode_unconditional(&descriptor)
    } else {
        let before = posix(&disk.identity, node, metadata).await;
        let after = lists_for(disk, &before, &descriptor, Duty::Beneath).await?;
        // Full control of a file includes running it, but nobody said that it is a program.
        let after = if directory || executable { after } else { after.not_executable() };
        apply(maker(disk, metadata), node, metadata, &before, &after).await?;
        let metadata = node.metadata().await?;
        store::encode(&descriptor, hash(&disk.identity, node, &metadata).await, FileTime::from(now))
    };
    match write(acls, node, value).await {
        Err(error) if error.status == Status::NOT_SUPPORTED => Ok(false),
        done => done.map(|()| true),
    }
}

/// Gives a new file to the owner of its directory (`inherit owner`).
pub(crate) async fn give_to(node: &Arc<dyn Node>, uid: u32) -> Result<()> {
    Ok(node.set_metadata(&SERVER, SetMetadata { uid: Some(uid), ..SetMetadata::default() }).await?)
}

/// Gives a new file that has `present` now the permission bits of `mode`.
pub(crate) async fn give_mode(disk: &Disk, node: &Arc<dyn Node>, present: &Metadata, mode: u32) -> Result<()> {
    let mode = present.mode & 0o7000 | mode & 0o777;
    if mode == present.mode {
        return Ok(());
    }
    let set = SetMetadata { mode: Some(mode), ..SetMetadata::default() };
    Ok(node.set_metadata(maker(disk, present), set).await?)
}

/// As whom a new file is changed: its maker, or the server where it is its directory's owner's already.
fn maker<'a>(disk: &'a Disk, file: &Metadata) -> &'a Arc<Identity> {
    if file.uid == disk.identity.uid { &disk.identity } else { &SERVER }
}

/// Gives a new file the descriptor that the client sent along with CREATE. One without a DACL leaves that to
/// inheritance ([MS-DTYP] 2.5.3.4.1), which comes before.
pub(crate) async fn give(disk: &Disk, node: &Arc<dyn Node>, now: Time, given: &SecurityDescriptor) -> Result<()> {
    let parts = Parts {
        owner: given.owner.is_some(),
        group: given.group.is_some(),
        dacl: given.control.contains(Control::DACL_PRESENT),
        sacl: given.sacl.is_some(),
    };
    if parts.sacl && !disk.token.security {
        return Err(Error::new(Status::PRIVILEGE_NOT_HELD));
    }
    if !(parts.owner || parts.group || parts.dacl || parts.sacl) {
        return Ok(());
    }
    set(disk, node, now, &as_stored(disk, given.clone()), parts, Authority { write_dac: true, write_owner: true }).await
}

/// A descriptor as it is kept: generic rights replaced by what they stand for, and the flag of a list made by
/// inheritance only where the setter asked for inheritance (`acl flag inherited canonicalization`).
pub(crate) fn as_stored(disk: &Disk, given: SecurityDescriptor) -> SecurityDescriptor {
    const ASKED: Control = Control(Control::DACL_AUTO_INHERITED.0 | Control::DACL_COMPUTED_INHERITANCE_REQUIRED.0);
    let expand = |acl: Option<Acl>| {
        let acl = acl?;
        let revision = acl.revision();
        Acl::new(revision, acl.into_aces().into_iter().map(inherit::expanded).collect())
    };
    let mut control = given.control;
    if disk.share.acl_flag_inherited_canonicalization {
        let inherited = if control.contains(ASKED) { Control::DACL_AUTO_INHERITED } else { Control::NONE };
        control = control.without(ASKED) | inherited;
    }
    SecurityDescriptor { control, dacl: expand(given.dacl), sacl: expand(given.sacl), ..given }
}

/// Changes times and attributes of an open file. Whoever a stored descriptor grants that needs no `w`, and need not be
/// the owner.
pub(crate) async fn set_attributes(disk: &Disk, file: &FileOpen, granted: AccessMask, set: SetMetadata) -> Result<()> {
    match file.node.set_metadata(&file.identity, set).await {
        Err(Errno::PERM | Errno::ACCES)
            if disk.share.acls.is_some() && granted.contains(AccessMask::FILE_WRITE_ATTRIBUTES) =>
        {
            Ok(file.node.set_metadata(&SERVER, set).await?)
        }
        done => Ok(done?),
    }
}

/// What a user who sets a descriptor may do besides what the kernel lets him.
#[derive(Clone, Copy)]
pub(crate) struct Authority {
    /// Change the list though the file is not his.
    pub(crate) write_dac: bool,
    /// Make himself the owner.
    pub(crate) write_owner: bool,
}

/// Which parts of a descriptor are new.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) owner: bool,
    pub(crate) group: bool,
    pub(crate) dacl: bool,
    pub(crate) sacl: bool,
}

/// Puts `new`'s `parts` in place: owner and group, the POSIX lists, and the descriptor itself where the share stores it.
pub(crate) async fn set(
    disk: &Disk,
    node: &Arc<dyn Node>,
    now: Time,
    new: &SecurityDescriptor,
    parts: Parts,
    authority: Authority,
) -> Result<()> {
    let node = streams::file_of(node).unwrap_or(node);
    let metadata = node.metadata().await?;
    let present = match of(disk, node, &metadata).await {
        Ok(present) => present.descriptor,
        // Who may set a whole new one need not know the damaged one.
        Err(_) if parts.dacl => shown(disk, &posix(&disk.identity, node, &metadata).await),
        Err(error) => return Err(error),
    };
    let mut metadata = own(disk, node, &metadata, &present, new, parts, authority).await?;
    let Some(acls) = &disk.share.acls else {
        return if parts.dacl { list(disk, node, &metadata, new, Duty::Alone, authority).await } else { Ok(()) };
    };
    let merged = merge(present, new, parts);
    if acls.ignore_system_acls {
        return write(acls, node, store::encode_unconditional(&merged)).await;
    }
    if parts.dacl {
        list(disk, node, &metadata, &merged, Duty::Beneath, authority).await?;
        metadata = node.metadata().await?;
    }
    let hash = hash(&disk.identity, node, &metadata).await;
    write(acls, node, store::encode(&merged, hash, FileTime::from(now))).await
}

/// The hash over what Linux now knows of the file's permissions.
async fn hash(who: &Arc<Identity>, node: &Arc<dyn Node>, metadata: &Metadata) -> [u8; 32] {
    let lists = posix(who, node, metadata).await;
    store::system_hash(metadata, &lists.access, lists.default.as_ref())
}

/// `present` with the parts of `new`. The control bits belong to the DACL.
fn merge(present: SecurityDescriptor, new: &SecurityDescriptor, parts: Parts) -> SecurityDescriptor {
    let mut merged = present;
    if parts.dacl {
        let of_sacl = Control::SACL_PRESENT | Control::SACL_AUTO_INHERITED | Control::SACL_PROTECTED;
        merged.control = new.control.without(of_sacl) | merged.control & of_sacl | Control::DACL_PRESENT;
        merged.dacl = new.dacl.clone();
    }
    if parts.sacl {
        merged.sacl = new.sacl.clone();
        merged.control |= Control::SACL_PRESENT;
    }
    if parts.owner {
        merged.owner = new.owner.or(merged.owner);
    }
    if parts.group {
        merged.group = new.group.or(merged.group);
    }
    merged
}

/// Stores the value.
async fn write(acls: &StoredAcls, node: &Arc<dyn Node>, value: Vec<u8>) -> Result<()> {
    if value.len() > store::LONGEST {
        return Err(Error::because(Status::INVALID_SECURITY_DESCR, "longer than an extended attribute can be"));
    }
    node.set_xattr(&SERVER, &acls.attribute, Some(value)).await.map_err(|errno| match errno {
        Errno::OPNOTSUPP | Errno::PERM => {
            let why = format!(
                "{} cannot be stored here: it takes a file system with extended attributes, and root",
                acls.attribute
            );
            Error::because(Status::NOT_SUPPORTED, why)
        }
        errno => errno.into(),
    })
}

/// Sets owner and group where they change; the metadata afterwards. As in Samba, a SID that is no user of this machine
/// makes the caller the owner in Linux, and one that is no group leaves the group as it is.
async fn own(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    present: &SecurityDescriptor,
    new: &SecurityDescriptor,
    parts: Parts,
    authority: Authority,
) -> Result<Metadata> {
    let who = &disk.identity;
    let stores = disk.share.acls.is_some();
    let unknown = if stores { Some(who.uid) } else { None };
    let owner = new.owner.filter(|sid| parts.owner && present.owner != Some(*sid));
    let uid = match owner {
        Some(sid) => uid_of(disk, &sid).await?.or(unknown).filter(|&uid| uid != metadata.uid),
        None => None,
    };
    let group = new.group.filter(|sid| parts.group && present.group != Some(*sid));
    let gid = group.and_then(|sid| UnixSids.gid(&sid)).filter(|&gid| gid != metadata.gid);
    if uid.is_none() && gid.is_none() {
        return Ok(*metadata);
    }
    let set = SetMetadata { uid, gid, ..SetMetadata::default() };
    match node.set_metadata(who, set).await {
        Err(Errno::PERM | Errno::ACCES) if stores && authority.write_owner => {
            // Taking a file is granted by its descriptor, giving it away is not.
            let takes = uid.unwrap_or(metadata.uid) == who.uid;
            let member = gid.is_none_or(|gid| gid == who.gid || who.groups.contains(&gid));
            if !takes || !member {
                return Err(Error::because(Status::INVALID_OWNER, "a file cannot be given to somebody else"));
            }
            node.set_metadata(&SERVER, set).await?;
        }
        done => done?,
    }
    Ok(node.metadata().await?)
}

/// The user of a SID: an id in it, or an account's.
async fn uid_of(disk: &Disk, sid: &Sid) -> Result<Option<u32>> {
    if let Some(uid) = UnixSids.uid(sid) {
        return Ok(Some(uid));
    }
    let unavailable = |why: Unavailable| Error::because(Status::NO_LOGON_SERVERS, why.0);
    if is_account(sid) { disk.accounts.uid_of(sid).await.map_err(unavailable) } else { Ok(None) }
}

/// Sets the POSIX lists to what the DACL of `descriptor` says.
async fn list(
    disk: &Disk,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    descriptor: &SecurityDescriptor,
    duty: Duty,
    authority: Authority,
) -> Result<()> {
    let before = posix(&disk.identity, node, metadata).await;
    let after = lists_for(disk, &before, descriptor, duty).await?;
    match apply(&disk.identity, node, metadata, &before, &after).await {
        // Not the owner, but the stored descriptor grants it.
        Err(Errno::PERM | Errno::ACCES) if duty == Duty::Beneath && authority.write_dac => {
            Ok(apply(&SERVER, node, metadata, &before, &after).await?)
        }
        done => Ok(done?),
    }
}

/// The lists for a file that has those of `before` now.
async fn lists_for(disk: &Disk, before: &Posix, descriptor: &SecurityDescriptor, duty: Duty) -> Result<Posix> {
    let sids = FileSids::of(&*disk.accounts, descriptor, before.uid, before.gid).await;
    posix::from_descriptor(before, descriptor, &sids, duty).map_err(|inexpressible| {
        Error::because(Status::NOT_SUPPORTED, format!("permission bits cannot deny {}", inexpressible.0))
    })
}

/// Makes the lists of a file those of `after`.
async fn apply(
    who: &Arc<Identity>,
    node: &Arc<dyn Node>,
    metadata: &Metadata,
    before: &Posix,
    after: &Posix,
) -> std::result::Result<(), Errno> {
    if after.access.is_minimal() && before.access.is_minimal() {
        let mode = metadata.mode & 0o7000 | after.access.mode();
        if mode != metadata.mode {
            node.set_metadata(who, SetMetadata { mode: Some(mode), ..SetMetadata::default() }).await?;
        }
    } else if after.access != before.access {
        match node.set_xattr(who, posix_acl::ACCESS, Some(after.access.encode())).await {
            // A file system without such lists has permission bits at least. Whoever the list names has no more than
            // everybody then.
            Err(Errno::OPNOTSUPP) => {
                let mode = metadata.mode & 0o7000 | after.access.unnamed().mode();
                node.set_metadata(who, SetMetadata { mode: Some(mode), ..SetMetadata::default() }).await?;
            }
            done => done?,
        }
    }
    if after.default != before.default {
        let value = after.default.as_ref().map(PosixAcl::encode);
        match node.set_xattr(who, posix_acl::DEFAULT, value).await {
            Err(Errno::OPNOTSUPP) => {}
            done => done?,
        }
    }
    Ok(())
}
