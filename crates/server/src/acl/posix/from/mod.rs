//! Conversion of a DACL to POSIX ACLs.
//!
//! On shares that store no descriptors the result is that of Samba (as observed with 4.17), except where Samba's ACLs
//! would grant more than the DACL. In these cases access is reduced, or the DACL is refused. docs/acls.md has the
//! rules.

use std::collections::HashSet;

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::{AccessMask, GenericMapping, SecurityDescriptor, Sid};

use super::{Posix, Sids};
use crate::acl::model::evaluate::{Inheritance, Rule};
use crate::acl::model::posix_acl::{Entry, PosixAcl, Tag};
use crate::yielding::Work;

/// How rules that POSIX ACLs cannot express are handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// No descriptor is stored. What POSIX ACLs cannot express reduces access, or is refused.
    Alone {
        /// Allow rules for SIDs unknown to this server are ignored (`force unknown acl user`) instead of refused. Deny
        /// rules for them are always refused.
        strangers: bool,
    },
    /// A descriptor is stored and checked before the kernel's check. The POSIX ACLs permit what the descriptor grants,
    /// as in Samba: any read right becomes `r` and any write right `w`. A user with any right to a directory also gets
    /// `x`, because Windows does not check the right to traverse. Rights denied to a group are removed only from that
    /// group's own entry. Rights denied to a trustee unknown to Linux are left to the descriptor. The entries of the
    /// owner and of users include the rules for their groups, as far as memberships are known, because the kernel
    /// applies only the user's own entry.
    Beneath,
}

/// The reason why POSIX ACLs cannot express a DACL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inexpressible {
    /// The DACL denies something to a trustee unknown to Linux, or to a group whose members may get it through another
    /// group.
    Denied(Sid),
    /// The DACL has a rule for a SID that is unknown to this server.
    Unknown(Sid),
}

/// Returns the POSIX ACLs that express the DACL of `descriptor` according to `duty`; those of `file` if there is no
/// DACL. A NULL DACL grants full control to everyone. The caller must have applied owner and group of the descriptor to
/// `file` before.
///
/// A user, group or class with an allow rule gets exactly what its rules allow, so that the output of
/// [`super::to_descriptor`] keeps its meaning when it is set again. A group without an allow rule gets the rights of
/// everyone. The owner and users without one also get the rights of their groups. Without inheritable rules a directory
/// has no default ACL.
///
/// All rules are evaluated for each entry. The function yields, because the client chooses the number of rules.
pub async fn from_descriptor(
    file: &Posix,
    descriptor: &SecurityDescriptor,
    sids: &(dyn Sids + Sync),
    duty: Duty,
) -> Result<Posix, Inexpressible> {
    match &descriptor.dacl {
        Some(dacl) => {
            let rules: Vec<Rule> = dacl.aces().iter().filter_map(|ace| rule(ace, duty)).collect();
            from_rules(file, &rules, sids, duty).await
        }
        None if descriptor.has_null_dacl() => {
            let inheritance = Inheritance::default();
            let all = Rule { allow: true, sid: Sid::EVERYONE, mask: AccessMask::FILE_ALL_ACCESS, inheritance };
            from_rules(file, &[all], sids, duty).await
        }
        None => Ok(file.clone()),
    }
}

/// Returns the rule that an ACE stands for. A default ACL applies to files and directories at any depth. Where no
/// descriptor is stored, allow rules that only files or only directories inherit, or that are inherited by one level
/// only, are therefore not put into the default ACL.
fn rule(ace: &Ace, duty: Duty) -> Option<Rule> {
    let rule = Rule::of(ace)?;
    let Inheritance { files, directories, only } = rule.inheritance;
    let everywhere = files && directories && !ace.ace_flags.contains(AceFlags::NO_PROPAGATE_INHERIT);
    let kept = duty == Duty::Beneath || !rule.allow || everywhere;
    let inheritance = if kept { rule.inheritance } else { Inheritance { only, ..Inheritance::default() } };
    Some(Rule { inheritance, ..rule })
}

async fn from_rules(
    file: &Posix,
    rules: &[Rule],
    sids: &(dyn Sids + Sync),
    duty: Duty,
) -> Result<Posix, Inexpressible> {
    let own = |sid: &Sid| match named(sid, sids, duty) {
        _ if *sid == sids.user(file.uid) || *sid == Sid::OWNER_RIGHTS => Some(Tag::Owner),
        _ if *sid == sids.group(file.gid) => Some(Tag::OwningGroup),
        Some(Tag::User(uid)) if uid == file.uid => Some(Tag::Owner),
        Some(Tag::Group(gid)) if gid == file.gid => Some(Tag::OwningGroup),
        named => named,
    };
    let new = |sid: &Sid| match *sid {
        Sid::CREATOR_OWNER | Sid::OWNER_RIGHTS => Some(Tag::Owner),
        Sid::CREATOR_GROUP => Some(Tag::OwningGroup),
        _ => named(sid, sids, duty),
    };
    if let Duty::Alone { strangers } = duty {
        let mut unknown = rules.iter().filter(|rule| own(&rule.sid).or_else(|| new(&rule.sid)).is_none());
        unknown.try_for_each(|rule| stranger(rule, file.directory, strangers))?;
    }
    let is_in = |tag: Tag, group: Tag| {
        let uid = if tag == Tag::Owner { Some(file.uid) } else { tag.uid() };
        let gid = if group == Tag::OwningGroup { Some(file.gid) } else { group.gid() };
        uid.zip(gid).map_or(Some(false), |(uid, gid)| sids.is_member(uid, gid))
    };
    let for_itself = rules.iter().filter(|rule| !rule.inheritance.only).map(|rule| (*rule, own(&rule.sid)));
    let access = Composer { rules: for_itself.collect(), is_in: &is_in, directory: file.directory, duty };
    let mut entries = access.entries(None).await?;
    let has = |tag| entries.iter().find(|entry| entry.tag == tag).map_or(0, |entry| entry.permissions);
    let (owner, group) = (has(Tag::Owner), has(Tag::OwningGroup));
    if duty != Duty::Beneath {
        // Also by id, so that they keep their rights if the file gets another owner.
        let numbered = [(Tag::User(file.uid), owner), (Tag::Group(file.gid), group)];
        entries.extend(numbered.map(|(tag, permissions)| Entry { tag, permissions }));
    }
    let is_in = |tag: Tag, group: Tag| match (tag, group) {
        (Tag::User(_), Tag::OwningGroup) => None,
        (Tag::User(uid), Tag::Group(gid)) => sids.is_member(uid, gid),
        // The owner of a new file can change its ACL anyway.
        _ => Some(false),
    };
    let inherited = rules.iter().filter(|rule| rule.inheritance.files || rule.inheritance.directories);
    let inherited = inherited.map(|rule| (*rule, new(&rule.sid))).collect();
    let inherited = Composer { rules: inherited, is_in: &is_in, directory: file.directory, duty };
    let default = if file.directory { inherited.entries_of_new(file.gid, owner).await? } else { None };
    let access = with_mask(entries, duty);
    Ok(Posix { access, default: default.map(|entries| with_mask(entries, duty)), ..file.clone() })
}

/// Creates the ACL of these entries. Where no descriptor is stored, it gets a mask that does not restrict entries added
/// later.
fn with_mask(entries: Vec<Entry>, duty: Duty) -> PosixAcl {
    let mask = (duty != Duty::Beneath).then_some(Entry { tag: Tag::Mask, permissions: 7 });
    PosixAcl::new(entries.into_iter().chain(mask).collect())
}

/// Maps a SID to the entry of everyone, a user or a group.
fn named(sid: &Sid, sids: &dyn Sids, duty: Duty) -> Option<Tag> {
    // Every Linux user is authenticated. The descriptor keeps out guests of the server.
    let users = duty == Duty::Beneath && matches!(*sid, Sid::AUTHENTICATED_USERS | Sid::BUILTIN_USERS);
    if *sid == Sid::EVERYONE || users {
        return Some(Tag::Other);
    }
    sids.uid(sid).map(Tag::User).or_else(|| sids.gid(sid).map(Tag::Group))
}

/// Checks a rule for a SID that has no entry. Rules for Windows' own service accounts, which do not exist in Linux, are
/// ignored, as in Samba. Allow rules for other well-known SIDs of Windows are ignored, too. Other deny rules, and allow
/// rules for unknown SIDs, are refused.
fn stranger(rule: &Rule, directory: bool, strangers: bool) -> Result<(), Inexpressible> {
    let sid = &rule.sid;
    let (authority, first) = (sid.authority(), sid.sub_authorities().first().copied());
    let is_nobody = authority == 5 && matches!(first, Some(SYSTEM..=NETWORK_SERVICE));
    let of_windows = authority == 5 && (sid.sub_authorities().len() == 1 || first == Some(BUILTIN));
    match rule.allow {
        false if !is_nobody && bits_of_any(rule.mask, directory) != 0 => Err(Inexpressible::Denied(*sid)),
        _ if of_windows || strangers => Ok(()),
        _ => Err(Inexpressible::Unknown(*sid)),
    }
}

/// Last parts of S-1-5-18 and S-1-5-20. The accounts of Windows' own services lie between them.
const SYSTEM: u32 = 18;
const NETWORK_SERVICE: u32 = 20;
/// The first part after S-1-5 in the SIDs of the built-in groups.
const BUILTIN: u32 = 32;

/// Number of rules evaluated in about half a microsecond.
const RULES_AT_A_COST: u32 = 32;

/// Builds an ACL from rules.
struct Composer<'a> {
    /// The rules, each with the entry that its SID maps to.
    rules: Vec<(Rule, Option<Tag>)>,
    /// Whether the user of one entry is a member of the group of another; `None` if unknown.
    is_in: &'a (dyn Fn(Tag, Tag) -> Option<bool> + Sync),
    directory: bool,
    duty: Duty,
}

impl Composer<'_> {
    /// Returns the entries named by rules, without those of deny rules for rights that POSIX ACLs do not have.
    fn spoken_of(&self) -> impl Iterator<Item = Tag> {
        let says = |rule: &Rule| rule.allow || self.duty == Duty::Beneath || self.denied(rule.mask) != 0;
        self.rules.iter().filter(move |(rule, _)| says(rule)).filter_map(|(_, tag)| *tag)
    }

    /// Returns the entries for the named trustees, the three mandatory ones, and `another`.
    async fn entries(&self, another: Option<Tag>) -> Result<Vec<Entry>, Inexpressible> {
        let of_each = [Tag::Owner, Tag::OwningGroup, Tag::Other];
        let mut seen = HashSet::new();
        let tags = of_each.into_iter().chain(another).chain(self.spoken_of()).filter(|tag| seen.insert(*tag));
        let tags: Vec<Tag> = tags.collect();
        let cost = 1 + u32::try_from(self.rules.len()).unwrap_or(u32::MAX) / RULES_AT_A_COST;
        let (mut entries, mut work) = (Vec::with_capacity(tags.len()), Work::new());
        for tag in tags {
            work.spend(cost).await;
            entries.push(Entry { tag, permissions: self.decide(tag)? });
        }
        Ok(entries)
    }

    /// As [`Composer::entries`], for the default ACL of a directory of the group `gid`; `None` if it has none. `owner`
    /// is added to the owner's entry if no rule allows anything to the owner or everyone.
    async fn entries_of_new(&self, gid: u32, owner: u8) -> Result<Option<Vec<Entry>>, Inexpressible> {
        let (none, another) = match self.duty {
            Duty::Alone { .. } => (self.spoken_of().next().is_none(), Some(Tag::Group(gid))),
            Duty::Beneath => (self.rules.is_empty(), None),
        };
        if none {
            return Ok(None);
        }
        let unspoken = !self.allows(Tag::Owner) && !self.allows(Tag::Other);
        let given = |entry: &Entry| if unspoken && entry.tag == Tag::Owner { owner } else { 0 };
        let entries = self.entries(another).await?.into_iter();
        Ok(Some(entries.map(|entry| Entry { permissions: entry.permissions | given(&entry), ..entry }).collect()))
    }

    /// Whether a rule allows something to `tag` itself.
    fn allows(&self, tag: Tag) -> bool {
        self.rules.iter().any(|(rule, of)| rule.allow && *of == Some(tag))
    }

    /// Evaluates the rules for `tag` in order: those for it, and those that deny rights to everyone or to a group that
    /// it is or may be a member of. If no rule allows it anything, or a descriptor is stored, also those that allow
    /// rights to everyone or to a group that it is a member of.
    fn decide(&self, tag: Tag) -> Result<u8, Inexpressible> {
        let alone = self.duty != Duty::Beneath;
        let broadly = !alone || !self.allows(tag);
        let is_group = |tag| matches!(tag, Tag::OwningGroup | Tag::Group(_));
        let (mut gets, mut lacks) = (0, 0);
        // Bits denied to members of another group, and the SID of the rule that denies them.
        let (mut barred, mut whose) = (0, Sid::NULL);
        for (rule, of) in &self.rules {
            let Some(of) = *of else { continue };
            let counts = match of {
                of if of == tag => true,
                Tag::Other => !rule.allow || broadly,
                of if rule.allow || !alone => broadly && (self.is_in)(tag, of) == Some(true),
                of if is_group(of) && is_group(tag) => {
                    (barred, whose) = (barred | self.denied(rule.mask) & !gets, rule.sid);
                    false
                }
                of => (self.is_in)(tag, of) != Some(false),
            };
            if counts && rule.allow {
                let more = self.allowed(rule.mask) & !lacks & !gets;
                // The kernel gives a member of two groups the rights of either.
                if more & barred != 0 {
                    return Err(Inexpressible::Denied(whose));
                }
                gets |= more;
            } else if counts {
                lacks |= self.denied(rule.mask) & !gets;
            }
        }
        Ok(gets)
    }

    /// Returns the bits that a mask allows: those of its main rights, or, if a descriptor is stored, those of all its
    /// rights.
    fn allowed(&self, mask: AccessMask) -> u8 {
        match (self.duty, bits_of_any(mask, self.directory)) {
            (Duty::Alone { .. }, _) => bits_of_main(mask),
            (Duty::Beneath, 0) => 0,
            (Duty::Beneath, bits) if self.directory => bits | 1,
            (Duty::Beneath, bits) => bits,
        }
    }

    /// Returns the bits that a mask denies: those of all its rights, or, if a descriptor is stored, those of its main
    /// rights and of appending.
    fn denied(&self, mask: AccessMask) -> u8 {
        let appends = mask.expand(&GenericMapping::FILE).contains(AccessMask::FILE_APPEND_DATA);
        match self.duty {
            Duty::Alone { .. } => bits_of_any(mask, self.directory),
            Duty::Beneath => bits_of_main(mask) | if appends { 2 } else { 0 },
        }
    }
}

/// The rights that need `r`.
const READING: AccessMask = AccessMask(AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_READ_EA.0);
/// The rights that need `w`.
const WRITING: AccessMask =
    AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0 | AccessMask::FILE_WRITE_EA.0);

/// Returns the `rwx` bits of the main rights: reading data, writing data and executing.
fn bits_of_main(mask: AccessMask) -> u8 {
    let mask = mask.expand(&GenericMapping::FILE);
    let bit = |right, bit: u8| if mask.contains(right) { bit } else { 0 };
    bit(AccessMask::FILE_READ_DATA, 4) | bit(AccessMask::FILE_WRITE_DATA, 2) | bit(AccessMask::FILE_EXECUTE, 1)
}

/// Returns the `rwx` bits that any right of a mask needs.
fn bits_of_any(mask: AccessMask, directory: bool) -> u8 {
    let mask = mask.expand(&GenericMapping::FILE);
    let bit = |rights, bit: u8| if mask.intersects(rights) { bit } else { 0 };
    let removes = if directory { bit(AccessMask::FILE_DELETE_CHILD, 2) } else { 0 };
    bit(READING, 4) | bit(WRITING, 2) | bit(AccessMask::FILE_EXECUTE, 1) | removes
}

#[cfg(test)]
mod tests;
