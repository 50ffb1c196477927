//! Security descriptors in words, for readers who know neither SDDL nor access masks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use proto::dtyp::acl::{Ace, AceFlags, AceType};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, GenericMapping, SecurityDescriptor, Sid};
use server::accounts::IdMap;

use super::names;

/// The names of all SIDs in some descriptors.
#[derive(Default)]
pub(super) struct People(HashMap<Sid, String>);

impl People {
    /// Looks up the names of the SIDs in `descriptors`.
    pub(super) async fn of(ids: &dyn IdMap, descriptors: &[&SecurityDescriptor]) -> People {
        let mut people = People::default();
        for descriptor in descriptors {
            let lists = [&descriptor.dacl, &descriptor.sacl].into_iter().flatten().flat_map(Acl::aces);
            let trustees = lists.filter_map(|ace| ace.trustee().map(|(_, sid)| *sid));
            for sid in trustees.chain(descriptor.owner).chain(descriptor.group) {
                if let Entry::Vacant(unknown) = people.0.entry(sid) {
                    unknown.insert(names::name(ids, &sid).await);
                }
            }
        }
        people
    }

    /// Returns the name of a SID, or the SID itself if it has none.
    pub(super) fn name(&self, sid: &Sid) -> String {
        self.0.get(sid).cloned().unwrap_or_else(|| sid.to_string())
    }
}

/// Groups of rights, from large to small. A mask that contains a whole group is described by its word: the first for a
/// file, the second for a directory.
const GROUPS: [(AccessMask, &str, &str); 3] = [
    (AccessMask(0x0000_0089), "read", "list"),
    (AccessMask(0x0000_0116), "write", "add files and directories"),
    (AccessMask::FILE_EXECUTE, "run", "pass through"),
];

/// Single rights.
const SINGLE: [(AccessMask, &str, &str); 14] = [
    (AccessMask::FILE_READ_DATA, "read the content", "list the names"),
    (AccessMask::FILE_READ_EA, "read extended attributes", "read extended attributes"),
    (AccessMask::FILE_READ_ATTRIBUTES, "see attributes", "see attributes"),
    (AccessMask::FILE_WRITE_DATA, "write the content", "add files"),
    (AccessMask::FILE_APPEND_DATA, "append", "add directories"),
    (AccessMask::FILE_WRITE_EA, "write extended attributes", "write extended attributes"),
    (AccessMask::FILE_WRITE_ATTRIBUTES, "change attributes", "change attributes"),
    (AccessMask::FILE_DELETE_CHILD, "delete what is in it", "delete what is in it"),
    (AccessMask::DELETE, "delete it", "delete it"),
    (AccessMask::READ_CONTROL, "see permissions", "see permissions"),
    (AccessMask::WRITE_DAC, "change permissions", "change permissions"),
    (AccessMask::WRITE_OWNER, "take ownership", "take ownership"),
    (AccessMask::SYNCHRONIZE, "wait on it", "wait on it"),
    (AccessMask::ACCESS_SYSTEM_SECURITY, "see and change auditing", "see and change auditing"),
];

/// Rights that accompany reading and writing and are not mentioned then.
const BESIDES: AccessMask = AccessMask(AccessMask::READ_CONTROL.0 | AccessMask::SYNCHRONIZE.0);
/// Rights that accompany execution and are not mentioned then.
const BESIDES_RUNNING: AccessMask = AccessMask(AccessMask::FILE_READ_ATTRIBUTES.0 | BESIDES.0);

/// Describes the rights of a mask: "read, write and delete it", with `and` before the last.
fn rights(mask: AccessMask, directory: bool, and: &str) -> String {
    let mut left = mask.expand(&GenericMapping::FILE);
    if left.contains(AccessMask::FILE_ALL_ACCESS) {
        let more = left.without(AccessMask::FILE_ALL_ACCESS);
        return if more.is_empty() { "do everything".into() } else { format!("do everything, and 0x{:x}", more.0) };
    }
    let mut said = Vec::new();
    let word = |file: &'static str, other: &'static str| (if directory { other } else { file }).to_owned();
    for (group, file, other) in GROUPS {
        if left.contains(group) {
            said.push(word(file, other));
            left = left.without(group);
            left = left.without(if group == AccessMask::FILE_EXECUTE { BESIDES_RUNNING } else { BESIDES });
        }
    }
    for (right, file, other) in SINGLE {
        if left.contains(right) {
            said.push(word(file, other));
            left = left.without(right);
        }
    }
    if !left.is_empty() {
        said.push(format!("0x{:x}", left.0));
    }
    match said.split_last() {
        None => "do nothing".into(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {and} {last}", others.join(", ")),
    }
}

/// Describes which children inherit an ACE: ", inherited by files and directories".
fn inheritance(flags: AceFlags) -> String {
    let children = match (flags.contains(AceFlags::OBJECT_INHERIT), flags.contains(AceFlags::CONTAINER_INHERIT)) {
        (true, true) => "files and directories",
        (true, false) => "files",
        (false, true) => "directories",
        (false, false) => "",
    };
    let mut text = String::new();
    if !children.is_empty() {
        let only = flags.contains(AceFlags::INHERIT_ONLY);
        text += if only { ", only inherited by " } else { ", inherited by " };
        text += children;
        text += if flags.contains(AceFlags::NO_PROPAGATE_INHERIT) { " directly in it" } else { "" };
    } else if flags.contains(AceFlags::INHERIT_ONLY) {
        text += ", without any effect";
    }
    text + if flags.contains(AceFlags::INHERITED) { " (from the parent)" } else { "" }
}

/// Describes an ACE in a sentence: "alice may read and write, inherited by files and directories".
pub(super) fn ace(ace: &Ace, people: &People, directory: bool) -> String {
    let Some((mask, sid)) = ace.trustee() else {
        return format!("an entry of the type {:?}, which has no effect here", ace.ace_type);
    };
    // An ACE that applies only to files uses the words for files.
    let of_files = ace.ace_flags.contains(AceFlags::INHERIT_ONLY | AceFlags::OBJECT_INHERIT);
    let directory = directory && (!of_files || ace.ace_flags.contains(AceFlags::CONTAINER_INHERIT));
    let and = if ace.ace_type == AceType::ACCESS_DENIED { "or" } else { "and" };
    let (who, what) = (people.name(sid), rights(mask, directory, and));
    let flags = ace.ace_flags;
    let sentence = match ace.ace_type {
        AceType::ACCESS_ALLOWED => format!("{who} may {what}"),
        AceType::ACCESS_DENIED if what == "do everything" => format!("{who} may do nothing"),
        AceType::ACCESS_DENIED => format!("{who} may not {what}"),
        AceType::SYSTEM_AUDIT => {
            let when = match (flags.contains(AceFlags::SUCCESSFUL_ACCESS), flags.contains(AceFlags::FAILED_ACCESS)) {
                (true, true) => "succeeds or fails",
                (true, false) => "succeeds",
                (false, true) => "fails",
                (false, false) => "neither succeeds nor fails",
            };
            format!("audited when {who} {when} to {what}")
        }
        other => format!("{other:?} for {who}: {what}"),
    };
    sentence + &inheritance(flags)
}

/// Describes a whole descriptor, with a line for each part and ACE.
pub(super) fn descriptor(descriptor: &SecurityDescriptor, people: &People, directory: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (part, sid) in [("owner", descriptor.owner), ("group", descriptor.group)] {
        if let Some(sid) = sid {
            lines.push(format!("{part}: {}", people.name(&sid)));
        }
    }
    match &descriptor.dacl {
        None if descriptor.has_null_dacl() => lines.push("everyone may do everything (NULL DACL)".into()),
        None => lines.push("no DACL".into()),
        Some(list) if list.aces().is_empty() => lines.push("no user may do anything (empty DACL)".into()),
        Some(list) => lines.extend(list.aces().iter().map(|entry| ace(entry, people, directory))),
    }
    if descriptor.control.contains(Control::DACL_PROTECTED) {
        lines.push("nothing is inherited from the parent (protected)".into());
    }
    lines.extend(descriptor.sacl.iter().flat_map(Acl::aces).map(|entry| ace(entry, people, directory)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mask: u32, file: &str, directory: &str) {
        let of = |directory| rights(AccessMask(mask), directory, "and");
        assert_eq!((of(false), of(true)), (file.into(), directory.into()));
    }

    #[test]
    fn rights_are_described_in_words() {
        check(0, "do nothing", "do nothing");
        check(0x1f_01ff, "do everything", "do everything");
        check(0x1000_0000, "do everything", "do everything");
        check(0x11f_01ff, "do everything, and 0x1000000", "do everything, and 0x1000000");
        check(0x12_0089, "read", "list");
        check(0x12_00a0, "run", "pass through");
        check(0x12_019f, "read and write", "list and add files and directories");
        check(0x12_00a9, "read and run", "list and pass through");
        check(
            0x13_01bf,
            "read, write, run and delete it",
            "list, add files and directories, pass through and delete it",
        );
        check(0x12_0000, "see permissions and wait on it", "see permissions and wait on it");
        check(0x4_0001, "read the content and change permissions", "list the names and change permissions");
        check(0x40, "delete what is in it", "delete what is in it");
        check(0x200, "0x200", "0x200");
    }

    #[test]
    fn aces_are_described_in_sentences() {
        let sid = Sid::unix_user(7);
        let people = People(HashMap::from([(sid, "alice".to_owned())]));
        let both = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
        let write = AccessMask(0x12_019f);
        let audit = Ace { ace_type: AceType::SYSTEM_AUDIT, ..Ace::allow(sid, write, AceFlags::FAILED_ACCESS) };
        for (entry, text) in [
            (Ace::allow(sid, write, both), "alice may read and write, inherited by files and directories"),
            (Ace::deny(sid, write, AceFlags::INHERITED), "alice may not read or write (from the parent)"),
            (Ace::deny(sid, AccessMask::GENERIC_ALL, AceFlags::NONE), "alice may do nothing"),
            (
                Ace::allow(sid, write, AceFlags::OBJECT_INHERIT | AceFlags::INHERIT_ONLY | AceFlags(4)),
                "alice may read and write, only inherited by files directly in it",
            ),
            (audit, "audited when alice fails to read and write"),
        ] {
            assert_eq!(ace(&entry, &people, false), text);
        }
    }
}
