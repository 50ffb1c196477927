//! Permission bits and POSIX lists as a DACL, and back, for files without a stored security descriptor.
//!
//! The rights of `r`, `w` and `x` are those that Samba shows without an ACL module (seen with 4.17). The list that is
//! shown has no denying rules: the kernel decides, this only tells. On the way back, whatever a POSIX list cannot say
//! becomes less access, never more, or is refused.

use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, GenericMapping, SecurityDescriptor, Sid};

use super::evaluate::{Inheritance, Rule};
use super::posix_acl::{Entry, PosixAcl, Tag};

/// What is done about rules that no POSIX list can say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// The lists are all there is: what they cannot say becomes less access, or is refused.
    Alone,
    /// A stored descriptor decides first, and the kernel after it. The lists let through what the descriptor grants, as
    /// Samba makes them: any right of reading becomes `r`, of writing `w`, and who may use a directory may pass through
    /// it, for Windows asks nobody for that right. What is denied to a group is taken from that group's own entry, what
    /// is denied to somebody whom Linux does not know is left to the descriptor. The entries of the owner and of users
    /// have what the rules say of their groups, as far as those are known: the kernel looks at no other entry for them.
    Beneath,
}

/// Between Linux ids and SIDs.
pub trait Sids {
    /// The SID that the user is shown as.
    fn user(&self, uid: u32) -> Sid;
    /// The SID that the group is shown as.
    fn group(&self, gid: u32) -> Sid;
    /// The user of a SID; `None` where it is none.
    fn uid(&self, sid: &Sid) -> Option<u32>;
    /// The group of a SID; `None` where it is none.
    fn gid(&self, sid: &Sid) -> Option<u32>;
    /// Whether the user is known to be in the group.
    fn is_member(&self, uid: u32, gid: u32) -> bool;
}

/// The ids themselves: S-1-22-1-uid and S-1-22-2-gid.
#[derive(Clone, Copy, Debug)]
pub struct UnixSids;

impl Sids for UnixSids {
    fn user(&self, uid: u32) -> Sid {
        Sid::unix_user(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        Sid::unix_group(gid)
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_user()
    }

    fn gid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_group()
    }

    fn is_member(&self, _: u32, _: u32) -> bool {
        false
    }
}

/// What Linux knows of a file's permissions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Posix {
    /// It is a directory.
    pub directory: bool,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The list of the file; [`PosixAcl::of_mode`] where it has none.
    pub access: PosixAcl,
    /// The list that new files in the directory get.
    pub default: Option<PosixAcl>,
}

impl Posix {
    /// How many entries both lists have: 3 for a file with nothing but permission bits.
    pub fn entries(&self) -> usize {
        self.access.entries().len() + self.default.as_ref().map_or(0, |list| list.entries().len())
    }

    /// The same lists without any `x`.
    pub fn not_executable(self) -> Posix {
        let without = |entry: &Entry| Entry { permissions: entry.permissions & !1, ..*entry };
        Posix { access: PosixAcl::new(self.access.entries().iter().map(without).collect()), ..self }
    }
}

/// The DACL denies something to somebody whom Linux does not know, or to a group: no POSIX list can say that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inexpressible(pub Sid);

/// The rights that `rwx` bits are shown as.
pub fn rights(permissions: u8, directory: bool) -> AccessMask {
    let mut mask = AccessMask::NONE;
    match permissions & 7 {
        // Deleting is the right of the directory, which has DELETE_CHILD for it.
        7 if directory => return AccessMask::FILE_ALL_ACCESS,
        7 => return AccessMask::FILE_ALL_ACCESS.without(AccessMask::DELETE),
        _ => {}
    }
    if permissions & 4 != 0 {
        mask |= AccessMask::FILE_GENERIC_READ;
    }
    if permissions & 2 != 0 {
        mask |= AccessMask::FILE_GENERIC_WRITE;
        mask |= if directory { AccessMask::FILE_DELETE_CHILD } else { AccessMask::NONE };
    }
    if permissions & 1 != 0 {
        mask |= AccessMask::FILE_GENERIC_EXECUTE;
    }
    mask
}

/// The security descriptor that a file is shown with. The DACL is protected: nothing in it was inherited.
pub fn to_descriptor(file: &Posix, sids: &dyn Sids) -> SecurityDescriptor {
    let aces = to_dacl(file, sids).into_iter().map(Rule::to_ace).collect();
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT | Control::DACL_PROTECTED,
        owner: Some(sids.user(file.uid)),
        group: Some(sids.group(file.gid)),
        // A list that is too long to be shown is one that grants nothing.
        dacl: Some(Acl::new(Acl::REVISION, aces).unwrap_or(Acl::empty())),
        ..SecurityDescriptor::default()
    }
}

/// The lists that say what the DACL of `descriptor` says, or what `duty` makes of it; those of `file` where it has none, and permission bits of
/// 0777 for a NULL DACL. Owner and group of the descriptor are the caller's to set before: `file` has them already.
///
/// A rule that allows counts for its own user, group or class as it stands, so that what [`to_descriptor`] shows comes
/// back the same. The owner and the group, where no rule is for them, get what everybody has. Rules that allow something
/// to somebody whom Linux does not know are dropped. Without inheritable rules, a directory has no default list.
pub fn from_descriptor(
    file: &Posix,
    descriptor: &SecurityDescriptor,
    sids: &dyn Sids,
    duty: Duty,
) -> Result<Posix, Inexpressible> {
    match &descriptor.dacl {
        Some(dacl) => {
            let rules: Vec<Rule> = dacl.aces().iter().filter_map(Rule::of).collect();
            from_dacl(file, Some(&rules), sids, duty)
        }
        None if descriptor.has_null_dacl() => from_dacl(file, None, sids, duty),
        None => Ok(file.clone()),
    }
}

/// The rules that a file is shown with, in Samba's order.
fn to_dacl(file: &Posix, sids: &dyn Sids) -> Vec<Rule> {
    let rule = |sid, entry: &Entry, list: &PosixAcl, inheritance| Rule {
        allow: true,
        sid,
        mask: rights(list.effective(entry), file.directory),
        inheritance,
    };
    let mut rules = Vec::new();
    for entry in in_order(&file.access) {
        let sid = match entry.tag {
            Tag::Owner => sids.user(file.uid),
            Tag::OwningGroup => sids.group(file.gid),
            tag => match sid_of(tag, sids) {
                Some(sid) => sid,
                None => continue,
            },
        };
        rules.push(rule(sid, entry, &file.access, Inheritance::default()));
    }
    for list in file.default.iter().filter(|_| file.directory) {
        for entry in in_order(list) {
            let Some(sid) = sid_of(entry.tag, sids) else { continue };
            rules.push(rule(sid, entry, list, Inheritance { files: true, directories: true, only: true }));
        }
    }
    merge(&mut rules);
    rules
}

/// The entries in the order in which Samba shows them: the owner, then those that grant nothing as they stand, then the
/// rest from the last to the first, and everybody at the end.
fn in_order(list: &PosixAcl) -> impl Iterator<Item = &Entry> {
    let is_outer = |entry: &&Entry| matches!(entry.tag, Tag::Owner | Tag::Other);
    let inner = || list.entries().iter().filter(move |entry| !is_outer(entry));
    let grants = |entry: &&Entry| list.effective(entry) != 0;
    let of = |tag| list.entries().iter().filter(move |entry| entry.tag == tag);
    let granting = inner().rev().filter(move |entry| grants(entry));
    of(Tag::Owner).chain(inner().filter(move |entry| !grants(entry))).chain(granting).chain(of(Tag::Other))
}

/// Makes one rule of two where directory and content have the same rights. They come first: those that grant something in
/// the order of the directory's, then those that grant nothing in the order of the content's. As Samba does it, a rule is
/// passed over that follows one of the directory's that is taken away.
fn merge(rules: &mut Vec<Rule>) {
    let mut at = 0;
    while let Some(own) = rules.get(at) {
        let same = |rule: &Rule| rule.inheritance.only && rule.sid == own.sid && rule.mask == own.mask;
        let other = rules.iter().skip(at + 1).position(same).map(|ahead| at + 1 + ahead);
        if let Some(other) = other.filter(|_| !own.inheritance.only) {
            let (kept, gone) = if own.mask == AccessMask::NONE { (other, at) } else { (at, other) };
            rules[kept].inheritance = Inheritance { files: true, directories: true, only: false };
            rules.remove(gone);
        }
        at += 1;
    }
    rules.sort_by_key(|rule| (rule.inheritance.only, !rule.inheritance.files));
}

/// The SID of an entry that new files get; `None` for the mask.
fn sid_of(tag: Tag, sids: &dyn Sids) -> Option<Sid> {
    match tag {
        Tag::Owner => Some(Sid::CREATOR_OWNER),
        Tag::User(uid) => Some(sids.user(uid)),
        Tag::OwningGroup => Some(Sid::CREATOR_GROUP),
        Tag::Group(gid) => Some(sids.group(gid)),
        Tag::Other => Some(Sid::EVERYONE),
        Tag::Mask => None,
    }
}

/// Lists for the rules of a DACL, or for a NULL DACL.
fn from_dacl(file: &Posix, dacl: Option<&[Rule]>, sids: &dyn Sids, duty: Duty) -> Result<Posix, Inexpressible> {
    let Some(rules) = dacl else {
        return Ok(Posix { access: PosixAcl::of_mode(0o777), default: None, ..file.clone() });
    };
    let own = |sid: &Sid| match sid {
        sid if *sid == sids.user(file.uid) || *sid == Sid::OWNER_RIGHTS => Some(Tag::Owner),
        sid if *sid == sids.group(file.gid) => Some(Tag::OwningGroup),
        sid => named(sid, sids, duty).map(|tag| match tag {
            Tag::User(uid) if uid == file.uid => Tag::Owner,
            Tag::Group(gid) if gid == file.gid => Tag::OwningGroup,
            tag => tag,
        }),
    };
    let new = |sid: &Sid| match *sid {
        Sid::CREATOR_OWNER => Some(Tag::Owner),
        Sid::CREATOR_GROUP => Some(Tag::OwningGroup),
        _ => named(sid, sids, duty),
    };
    let bits = Bits { directory: file.directory, duty };
    let for_itself = rules.iter().filter(|rule| !rule.inheritance.only);
    let is_in = |tag: Tag, group: Tag| {
        let gid = if group == Tag::OwningGroup { Some(file.gid) } else { group.gid() };
        let uid = if tag == Tag::Owner { Some(file.uid) } else { tag.uid() };
        uid.zip(gid).is_some_and(|(uid, gid)| sids.is_member(uid, gid))
    };
    let access = compose(for_itself, &Whose { tag_of: &own, is_in: &is_in }, 0, bits)?;
    let inherited = rules.iter().filter(|rule| rule.inheritance.files || rule.inheritance.directories);
    let is_in = |tag: Tag, group: Tag| tag.uid().zip(group.gid()).is_some_and(|(uid, gid)| sids.is_member(uid, gid));
    let new = Whose { tag_of: &new, is_in: &is_in };
    let has_default = file.directory && inherited.clone().next().is_some();
    let owner = access.entries().iter().find(|entry| entry.tag == Tag::Owner).map_or(0, |entry| entry.permissions);
    let default = if has_default { Some(compose(inherited, &new, owner, bits)?) } else { None };
    Ok(Posix { access, default, ..file.clone() })
}

/// Everybody, and users and groups by their SIDs.
fn named(sid: &Sid, sids: &dyn Sids, duty: Duty) -> Option<Tag> {
    // Every user of a Unix system is a user who has logged on; guests of the server are kept out by the descriptor.
    let users = duty == Duty::Beneath && matches!(*sid, Sid::AUTHENTICATED_USERS | Sid::BUILTIN_USERS);
    if *sid == Sid::EVERYONE || users {
        return Some(Tag::Other);
    }
    sids.uid(sid).map(Tag::User).or_else(|| sids.gid(sid).map(Tag::Group))
}

/// For whom rules are.
struct Whose<'a> {
    /// The entry that a SID has.
    tag_of: &'a dyn Fn(&Sid) -> Option<Tag>,
    /// Whether the user of one entry is known to be in the group of another.
    is_in: &'a dyn Fn(Tag, Tag) -> bool,
}

/// Builds a list from rules. `owner` is what the owner gets where neither he nor everybody is spoken of.
fn compose<'a>(
    rules: impl Iterator<Item = &'a Rule> + Clone,
    whose: &Whose<'_>,
    owner: u8,
    bits: Bits,
) -> Result<PosixAcl, Inexpressible> {
    let mut tags = vec![Tag::Owner, Tag::OwningGroup, Tag::Other];
    for rule in rules.clone() {
        match ((whose.tag_of)(&rule.sid), rule.allow) {
            (Some(Tag::Group(_) | Tag::OwningGroup) | None, false)
                if denied(rule.mask) != 0 && bits.duty == Duty::Alone =>
            {
                return Err(Inexpressible(rule.sid));
            }
            (Some(tag), _) if !tags.contains(&tag) => tags.push(tag),
            _ => {}
        }
    }
    let spoken_of = |tag| rules.clone().any(|rule| rule.allow && (whose.tag_of)(&rule.sid) == Some(tag));
    let everybody = spoken_of(Tag::Other);
    let entries = tags.iter().map(|&tag| {
        let is_own = spoken_of(tag);
        // A right of everybody's is one of his, too, and the kernel looks at one entry only.
        let permissions = decide(rules.clone(), whose, tag, !is_own || bits.duty == Duty::Beneath, bits);
        let unspoken = if tag == Tag::Owner && !is_own && !everybody { owner } else { 0 };
        Entry { tag, permissions: permissions | unspoken }
    });
    Ok(PosixAcl::new(entries.collect()))
}

/// What the rules give to `tag`, in their order: those for it, beneath a descriptor those for its groups, those that deny
/// to everybody and, `with_everybody`, those that allow to everybody.
fn decide<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    whose: &Whose<'_>,
    tag: Tag,
    with_everybody: bool,
    bits: Bits,
) -> u8 {
    let (mut gets, mut lacks) = (0, 0);
    for rule in rules {
        let counts = match (whose.tag_of)(&rule.sid) {
            Some(of) if of == tag => true,
            Some(Tag::Other) => !rule.allow || with_everybody,
            Some(group) => bits.duty == Duty::Beneath && (whose.is_in)(tag, group),
            None => false,
        };
        match rule.allow {
            _ if !counts => {}
            true => gets |= bits.allowed(rule.mask) & !lacks,
            false => lacks |= denied(rule.mask) & !gets,
        }
    }
    gets
}

/// How rights become `rwx` bits.
#[derive(Clone, Copy)]
struct Bits {
    directory: bool,
    duty: Duty,
}

impl Bits {
    /// The bits that a mask allows.
    fn allowed(self, mask: AccessMask) -> u8 {
        match self.duty {
            Duty::Alone => allowed(mask),
            Duty::Beneath => {
                let mask = mask.expand(&GenericMapping::FILE);
                let bit = |rights, bit: u8| if mask.intersects(rights) { bit } else { 0 };
                let bits = bit(READING, 4) | bit(WRITING, 2) | bit(AccessMask::FILE_EXECUTE, 1);
                let removes = self.directory && mask.contains(AccessMask::FILE_DELETE_CHILD);
                let bits = if removes { bits | 2 } else { bits };
                if self.directory && bits != 0 { bits | 1 } else { bits }
            }
        }
    }
}

/// What cannot be done without `r`.
const READING: AccessMask = AccessMask(AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_READ_EA.0);
/// What cannot be done without `w`.
const WRITING: AccessMask =
    AccessMask(AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0 | AccessMask::FILE_WRITE_EA.0);

/// The `rwx` bits that a mask allows: those of the rights that matter most.
fn allowed(mask: AccessMask) -> u8 {
    let mask = mask.expand(&GenericMapping::FILE);
    let bit = |right, bit: u8| if mask.contains(right) { bit } else { 0 };
    bit(AccessMask::FILE_READ_DATA, 4) | bit(AccessMask::FILE_WRITE_DATA, 2) | bit(AccessMask::FILE_EXECUTE, 1)
}

/// The `rwx` bits that a mask denies: as above, and appending is writing.
fn denied(mask: AccessMask) -> u8 {
    let appends = mask.expand(&GenericMapping::FILE).contains(AccessMask::FILE_APPEND_DATA);
    allowed(mask) | if appends { 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(mode: u32, directory: bool) -> Posix {
        Posix { directory, uid: 10, gid: 20, access: PosixAcl::of_mode(mode), default: None }
    }

    fn shown(file: &Posix) -> Vec<(String, u32)> {
        let text = |rule: &Rule| {
            let flags = match rule.inheritance {
                Inheritance { only: true, .. } => " OI|CI|IO",
                Inheritance { files: true, .. } => " OI|CI",
                _ => "",
            };
            (format!("{}{flags}", rule.sid), rule.mask.0)
        };
        to_dacl(file, &UnixSids).iter().map(text).collect()
    }

    #[track_caller]
    fn check(file: &Posix, expected: &[(&str, u32)]) {
        let expected: Vec<_> = expected.iter().map(|(sid, mask)| ((*sid).to_owned(), *mask)).collect();
        assert_eq!(shown(file), expected);
    }

    /// Masks as Samba 4.17 shows them for owner, group and others.
    #[test]
    fn permission_bits() {
        for (mode, directory, masks) in [
            (0o000, false, [0, 0, 0]),
            (0o400, false, [0x12_0089, 0, 0]),
            (0o200, false, [0x12_0116, 0, 0]),
            (0o100, false, [0x12_00a0, 0, 0]),
            (0o600, false, [0x12_019f, 0, 0]),
            (0o644, false, [0x12_019f, 0x12_0089, 0x12_0089]),
            (0o755, false, [0x1e_01ff, 0x12_00a9, 0x12_00a9]),
            (0o4070, false, [0, 0x1e_01ff, 0]),
            (0o200, true, [0x12_0156, 0, 0]),
            (0o755, true, [0x1f_01ff, 0x12_00a9, 0x12_00a9]),
            (0o2644, true, [0x12_01df, 0x12_0089, 0x12_0089]),
            (0o007, true, [0, 0, 0x1f_01ff]),
        ] {
            let [owner, group, other] = masks;
            check(&file(mode, directory), &[("S-1-22-1-10", owner), ("S-1-22-2-20", group), ("S-1-1-0", other)]);
        }
    }

    #[test]
    fn named_entries_and_defaults() {
        let entry = |tag, permissions| Entry { tag, permissions };
        let mut named = file(0o644, false);
        let mut entries = named.access.entries().to_vec();
        entries.extend([entry(Tag::User(5), 6), entry(Tag::Group(100), 5), entry(Tag::Mask, 6)]);
        named.access = PosixAcl::new(entries);
        check(
            &named,
            &[
                ("S-1-22-1-10", 0x12_019f),
                ("S-1-22-2-100", 0x12_0089),
                ("S-1-22-2-20", 0x12_0089),
                ("S-1-22-1-5", 0x12_019f),
                ("S-1-1-0", 0x12_0089),
            ],
        );
        let mut directory = file(0o755, true);
        directory.default = Some(PosixAcl::of_mode(0o755));
        check(
            &directory,
            &[
                ("S-1-1-0 OI|CI", 0x12_00a9),
                ("S-1-22-1-10", 0x1f_01ff),
                ("S-1-22-2-20", 0x12_00a9),
                ("S-1-3-0 OI|CI|IO", 0x1f_01ff),
                ("S-1-3-1 OI|CI|IO", 0x12_00a9),
            ],
        );
    }

    /// As Samba 4.17 shows a directory with all kinds of entries, those of user and group 9 without any rights.
    #[test]
    fn the_order_is_samba_s() {
        let list = |other| {
            let named = [(Tag::User(5), 7), (Tag::User(6), 5), (Tag::Group(7), 4), (Tag::Group(8), 6)];
            let named = named.into_iter().chain([(Tag::User(9), 0), (Tag::Group(9), 0)]);
            let entries = named.map(|(tag, permissions)| Entry { tag, permissions });
            PosixAcl::new(PosixAcl::of_mode(other).entries().iter().copied().chain(entries).collect())
        };
        let mut directory = file(0, true);
        (directory.access, directory.default) = (list(0o755), Some(list(0o755)));
        check(
            &directory,
            &[
                ("S-1-22-2-8 OI|CI", 0x12_01df),
                ("S-1-22-2-7 OI|CI", 0x12_0089),
                ("S-1-22-1-6 OI|CI", 0x12_00a9),
                ("S-1-22-1-5 OI|CI", 0x1f_01ff),
                ("S-1-1-0 OI|CI", 0x12_00a9),
                ("S-1-22-1-9 OI|CI", 0),
                ("S-1-22-1-10", 0x1f_01ff),
                ("S-1-22-2-9", 0),
                ("S-1-22-2-20", 0x12_00a9),
                ("S-1-3-0 OI|CI|IO", 0x1f_01ff),
                ("S-1-22-2-9 OI|CI|IO", 0),
                ("S-1-3-1 OI|CI|IO", 0x12_00a9),
            ],
        );
    }

    fn rule(sid: Sid, mask: u32, allow: bool) -> Rule {
        Rule { allow, sid, mask: AccessMask(mask), inheritance: Inheritance::default() }
    }

    #[test]
    fn foreign_lists_come_in() {
        const OWNER: Sid = Sid::unix_user(10);
        const EVERYONE: Sid = Sid::EVERYONE;
        const ALL: u32 = 0x1f_01ff;
        let cases: [(&[Rule], u32); 9] = [
            (&[], 0o000),
            (&[rule(EVERYONE, ALL, true)], 0o777),
            (&[rule(OWNER, ALL, true)], 0o700),
            (&[rule(OWNER, 0x1, true), rule(EVERYONE, 0x3, true)], 0o466),
            (&[rule(OWNER, 0x4000_0000, true), rule(EVERYONE, 0x8000_0000, true)], 0o244),
            (&[rule(OWNER, 0x2, false), rule(EVERYONE, ALL, true)], 0o577),
            (&[rule(OWNER, ALL, true), rule(EVERYONE, 0x4, false), rule(EVERYONE, 0x3, true)], 0o744),
            (&[rule(Sid::SYSTEM, ALL, true), rule(OWNER, 0x1, true)], 0o400),
            // Denies nothing that permissions know of.
            (&[rule(Sid::SYSTEM, 0x1_0000, false), rule(OWNER, 0x1, true)], 0o400),
        ];
        for (rules, mode) in cases {
            let posix = from_dacl(&file(0o640, false), Some(rules), &UnixSids, Duty::Alone).unwrap();
            assert_eq!((posix.access.is_minimal(), posix.access.mode()), (true, mode), "{rules:?}");
        }
        let everything = from_dacl(&file(0, false), None, &UnixSids, Duty::Alone).unwrap();
        assert_eq!(everything.access.mode(), 0o777);
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for sid in [Sid::unix_group(7), Sid::unix_group(20), Sid::SYSTEM] {
            let rules = [rule(sid, 0x2, false), rule(Sid::EVERYONE, 0x3, true)];
            assert_eq!(from_dacl(&file(0, false), Some(&rules), &UnixSids, Duty::Alone), Err(Inexpressible(sid)));
        }
    }

    /// Beneath a stored descriptor the kernel must let through what that grants.
    #[test]
    fn lists_beneath_a_descriptor() {
        const OWNER: Sid = Sid::unix_user(10);
        const EVERYONE: Sid = Sid::EVERYONE;
        let cases: [(&[Rule], bool, u32); 9] = [
            (&[rule(OWNER, 0x4, true)], false, 0o200),
            (&[rule(OWNER, 0x18, true)], false, 0o600),
            (&[rule(OWNER, 0x1_0000, true)], false, 0o000),
            (&[rule(OWNER, 0x1, true), rule(EVERYONE, 0x2, true)], false, 0o622),
            (&[rule(OWNER, 0x2, false), rule(OWNER, 0x1f_01ff, true)], false, 0o500),
            (&[rule(Sid::OWNER_RIGHTS, 0x1, true)], false, 0o400),
            (&[rule(Sid::AUTHENTICATED_USERS, 0x3, true)], false, 0o666),
            (&[rule(OWNER, 0x40, true), rule(EVERYONE, 0x1, true)], true, 0o755),
            (&[rule(Sid::SYSTEM, 0x2, false), rule(EVERYONE, 0x2, true)], false, 0o222),
        ];
        for (rules, directory, mode) in cases {
            let posix = from_dacl(&file(0o640, directory), Some(rules), &UnixSids, Duty::Beneath).unwrap();
            assert_eq!((posix.access.is_minimal(), posix.access.mode()), (true, mode), "{rules:?}");
        }
        let denied = [rule(Sid::unix_group(7), 0x2, false), rule(EVERYONE, 0x3, true)];
        let posix = from_dacl(&file(0, false), Some(&denied), &UnixSids, Duty::Beneath).unwrap();
        let group = posix.access.entries().iter().find(|entry| entry.tag == Tag::Group(7));
        assert_eq!(group, Some(&Entry { tag: Tag::Group(7), permissions: 4 }));
    }

    #[test]
    fn users_are_denied_by_an_entry_of_their_own() {
        let rules = [rule(Sid::unix_user(5), 0x2, false), rule(Sid::EVERYONE, 0x3, true)];
        let posix = from_dacl(&file(0, false), Some(&rules), &UnixSids, Duty::Alone).unwrap();
        let entry = posix.access.entries().iter().find(|entry| entry.tag == Tag::User(5));
        assert_eq!(entry, Some(&Entry { tag: Tag::User(5), permissions: 4 }));
    }

    #[test]
    fn inheritable_rules_make_a_default_list() {
        let inheritance = Inheritance { files: true, directories: true, only: true };
        let rules = [
            rule(Sid::unix_user(10), 0x3, true),
            Rule { inheritance, ..rule(Sid::unix_group(20), 0x1, true) },
            Rule { inheritance, ..rule(Sid::CREATOR_GROUP, 0x21, true) },
        ];
        let posix = from_dacl(&file(0, true), Some(&rules), &UnixSids, Duty::Alone).unwrap();
        let default = posix.default.unwrap();
        assert_eq!((posix.access.mode(), default.mode()), (0o600, 0o650), "the mask is what groups have at most");
        assert!(default.entries().contains(&Entry { tag: Tag::Group(20), permissions: 4 }));
        assert_eq!(from_dacl(&file(0, false), Some(&rules), &UnixSids, Duty::Alone).unwrap().default, None);
    }

    fn list() -> impl Strategy<Value = PosixAcl> {
        let named = proptest::collection::btree_map(
            prop_oneof![(1..9u32).prop_map(Tag::User), (1..9u32).prop_map(Tag::Group)],
            0..8u8,
            0..4,
        );
        (0..0o1000u32, named).prop_map(|(mode, named)| {
            let mut entries = PosixAcl::of_mode(mode).entries().to_vec();
            entries.extend(named.into_iter().map(|(tag, permissions)| Entry { tag, permissions }));
            PosixAcl::new(entries)
        })
    }

    proptest! {
        #[test]
        fn what_is_shown_comes_back(access in list(), default in proptest::option::of(list()), directory in any::<bool>()) {
            let default = default.filter(|_| directory);
            let before = Posix { directory, uid: 10, gid: 20, access, default };
            let shown = to_descriptor(&before, &UnixSids);
            prop_assert_eq!(from_descriptor(&before, &shown, &UnixSids, Duty::Alone), Ok(before.clone()));
            let unchanged = from_descriptor(&before, &SecurityDescriptor::default(), &UnixSids, Duty::Alone);
            prop_assert_eq!(unchanged, Ok(before));
        }
    }
}
