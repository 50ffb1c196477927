//! Conversion of permission bits and POSIX ACLs to a DACL.
//!
//! The rights of `r`, `w` and `x` are those that Samba shows without an ACL module (as observed with 4.17). The DACL
//! has no deny rules, because it only informs the client; the kernel decides.

use std::collections::HashMap;

use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};

use super::{Posix, Sids};
use crate::acl::model::evaluate::{Inheritance, Rule};
use crate::acl::model::posix_acl::{Entry, PosixAcl, Tag};

/// Returns the rights that represent `rwx` bits.
pub fn rights(permissions: u8, directory: bool) -> AccessMask {
    let mut mask = AccessMask::NONE;
    match permissions & 7 {
        // The directory grants deletion, through its DELETE_CHILD.
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

/// Returns the security descriptor of a file. The DACL is protected because nothing in it was inherited.
pub fn to_descriptor(file: &Posix, sids: &dyn Sids) -> SecurityDescriptor {
    let aces = to_dacl(file, sids).into_iter().map(Rule::to_ace).collect();
    SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT | Control::DACL_PROTECTED,
        owner: Some(sids.user(file.uid)),
        group: Some(sids.group(file.gid)),
        // An ACL that is too long is replaced by an empty one, which grants nothing.
        dacl: Some(Acl::new(Acl::REVISION, aces).unwrap_or(Acl::empty())),
        ..SecurityDescriptor::default()
    }
}

/// Returns the rules of the DACL, in Samba's order.
fn to_dacl(file: &Posix, sids: &dyn Sids) -> Vec<Rule> {
    let rule = |sid, entry: &Entry, list: &PosixAcl, inheritance| Rule {
        allow: true,
        sid,
        mask: rights(list.effective(entry), file.directory),
        inheritance,
    };
    let mut rules = Vec::with_capacity(file.entries());
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
    let Some(list) = file.default.as_ref().filter(|_| file.directory) else { return rules };
    for entry in in_order(list) {
        let Some(sid) = sid_of(entry.tag, sids) else { continue };
        rules.push(rule(sid, entry, list, Inheritance { files: true, directories: true, only: true }));
    }
    merge(&mut rules);
    rules
}

/// Returns the entries in the order in which Samba shows them: the owner, the entries that grant nothing in their
/// order, the others in reverse order, and everyone at the end.
fn in_order(list: &PosixAcl) -> impl Iterator<Item = &Entry> {
    let is_outer = |entry: &&Entry| matches!(entry.tag, Tag::Owner | Tag::Other);
    let inner = || list.entries().iter().filter(move |entry| !is_outer(entry));
    let grants = |entry: &&Entry| list.effective(entry) != 0;
    let of = |tag| list.entries().iter().filter(move |entry| entry.tag == tag);
    let granting = inner().rev().filter(move |entry| grants(entry));
    of(Tag::Owner).chain(inner().filter(move |entry| !grants(entry))).chain(granting).chain(of(Tag::Other))
}

/// Merges pairs of rules with the same SID and rights for the directory and for its content. Merged rules come first:
/// those that grant something in the order of the directory's rules, then those that grant nothing in the order of the
/// content's. As in Samba, the rule after a removed rule of the directory is not merged.
fn merge(rules: &mut Vec<Rule>) {
    // The content's rules by SID and rights, in reverse order.
    let mut contents: HashMap<(Sid, AccessMask), Vec<usize>> = HashMap::new();
    for (at, rule) in rules.iter().enumerate().rev().filter(|(_, rule)| rule.inheritance.only) {
        contents.entry((rule.sid, rule.mask)).or_default().push(at);
    }
    let mut gone = vec![false; rules.len()];
    let mut passed_over = false;
    for at in 0..rules.len() {
        let own = rules[at];
        if gone[at] || std::mem::take(&mut passed_over) || own.inheritance.only {
            continue;
        }
        let mut same = contents.get_mut(&(own.sid, own.mask));
        let Some(other) = same.as_mut().and_then(|same| same.pop()) else { continue };
        let (kept, taken) = if own.mask == AccessMask::NONE { (other, at) } else { (at, other) };
        rules[kept].inheritance = Inheritance { files: true, directories: true, only: false };
        gone[taken] = true;
        passed_over = taken == at;
    }
    let mut gone = gone.into_iter();
    rules.retain(|_| gone.next() == Some(false));
    rules.sort_by_key(|rule| (rule.inheritance.only, !rule.inheritance.files));
}

/// Returns the SID of an entry of a default ACL; `None` for the mask.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::posix::UnixSids;

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

    /// Access masks as shown by Samba 4.17 for owner, group and others.
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

    /// A directory with all kinds of entries as shown by Samba 4.17. Those of user and group 9 have no rights.
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
}
