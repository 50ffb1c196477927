//! What a new file or directory inherits from the directory that it is made in ([MS-DTYP] 2.5.3.4).
//!
//! As Samba does it, the entries that come down count as inherited (their flag) only where the directory's own list was
//! made by inheritance. SACLs are not inherited: nobody is audited here.

use proto::dtyp::acl::{Ace, AceBody, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{Acl, GenericMapping, SecurityDescriptor, Sid};

/// The flags of an entry that say how it is handed on.
const INHERITANCE: AceFlags = AceFlags(
    AceFlags::OBJECT_INHERIT.0
        | AceFlags::CONTAINER_INHERIT.0
        | AceFlags::NO_PROPAGATE_INHERIT.0
        | AceFlags::INHERIT_ONLY.0
        | AceFlags::INHERITED.0,
);

/// The descriptor of what `owner` makes in the directory that has `parent`; `None` where nothing comes down.
pub fn child(parent: &SecurityDescriptor, owner: Sid, group: Sid, directory: bool) -> Option<SecurityDescriptor> {
    let dacl = parent.dacl.as_ref()?;
    let inherited = parent.control.contains(Control::DACL_AUTO_INHERITED);
    let mark = if inherited { AceFlags::INHERITED } else { AceFlags::NONE };
    let mut aces = Vec::new();
    for ace in dacl.aces() {
        let Some(flags) = handed_on(ace.ace_flags, directory) else { continue };
        match creator(ace, owner, group) {
            // For the new directory itself the creator is known; for what will be made in it nobody is yet.
            Some(own) if flags.contains(AceFlags::CONTAINER_INHERIT) => {
                aces.push(Ace { ace_flags: kept(ace.ace_flags) | mark, ..own });
                aces.push(Ace { ace_flags: flags | AceFlags::INHERIT_ONLY | mark, ..ace.clone() });
            }
            Some(own) if !flags.contains(AceFlags::INHERIT_ONLY) => aces.push(Ace { ace_flags: flags | mark, ..own }),
            _ if flags.contains(AceFlags::INHERIT_ONLY) => aces.push(Ace { ace_flags: flags | mark, ..ace.clone() }),
            _ => aces.push(expanded(Ace { ace_flags: flags | mark, ..ace.clone() })),
        }
    }
    if aces.is_empty() {
        return None;
    }
    let control = if inherited { Control::DACL_AUTO_INHERITED } else { Control::NONE };
    Some(SecurityDescriptor {
        control: control | Control::SELF_RELATIVE | Control::DACL_PRESENT,
        owner: Some(owner),
        group: Some(group),
        // A list too long to be kept is one that grants nothing.
        dacl: Some(Acl::new(dacl.revision(), aces).unwrap_or(Acl::empty())),
        ..SecurityDescriptor::default()
    })
}

/// Whether anything in a directory's list is for what is made in it.
pub fn is_inheritable(descriptor: &SecurityDescriptor) -> bool {
    let hands_on = |ace: &Ace| [false, true].into_iter().any(|directory| handed_on(ace.ace_flags, directory).is_some());
    descriptor.dacl.as_ref().is_some_and(|dacl| dacl.aces().iter().any(hands_on))
}

/// The flags that an entry has in what inherits it; `None` where it does not come down.
fn handed_on(flags: AceFlags, directory: bool) -> Option<AceFlags> {
    let files = flags.contains(AceFlags::OBJECT_INHERIT);
    let directories = flags.contains(AceFlags::CONTAINER_INHERIT);
    let last = flags.contains(AceFlags::NO_PROPAGATE_INHERIT);
    match (directory, directories) {
        (false, _) => files.then_some(kept(flags)),
        (true, true) if last => Some(kept(flags)),
        (true, true) => Some(flags.without(AceFlags::INHERIT_ONLY | AceFlags::INHERITED)),
        // For files only: it waits in the directory for them.
        (true, false) if files && !last => Some(flags.without(AceFlags::INHERITED) | AceFlags::INHERIT_ONLY),
        (true, false) => None,
    }
}

/// The flags that are not about inheritance.
fn kept(flags: AceFlags) -> AceFlags {
    flags.without(INHERITANCE)
}

/// The entry for whom CREATOR OWNER or CREATOR GROUP now stands.
fn creator(ace: &Ace, owner: Sid, group: Sid) -> Option<Ace> {
    let AceBody::Trustee { mask, sid } = &ace.body else { return None };
    let sid = match *sid {
        Sid::CREATOR_OWNER => owner,
        Sid::CREATOR_GROUP => group,
        _ => return None,
    };
    Some(expanded(Ace { body: AceBody::Trustee { mask: *mask, sid }, ..ace.clone() }))
}

/// The entry with generic rights replaced by what they stand for on a file.
pub fn expanded(ace: Ace) -> Ace {
    match ace.body {
        AceBody::Trustee { mask, sid } => {
            Ace { body: AceBody::Trustee { mask: mask.expand(&GenericMapping::FILE), sid }, ..ace }
        }
        AceBody::Raw(_) => ace,
    }
}

#[cfg(test)]
mod tests {
    use proto::dtyp::AccessMask;

    use super::*;

    const OI: u8 = 1;
    const CI: u8 = 2;
    const NP: u8 = 4;
    const IO: u8 = 8;
    const ID: u8 = 16;
    const OWNER: Sid = Sid::unix_user(1);
    const GROUP: Sid = Sid::unix_group(2);
    const OTHER: Sid = Sid::unix_user(3);

    /// What comes down of one entry for `sid` with `flags`: SIDs and flags.
    fn inherited(sid: Sid, flags: u8, directory: bool, control: Control) -> Option<Vec<(Sid, u8)>> {
        let ace = Ace::allow(sid, AccessMask::GENERIC_READ, AceFlags(flags));
        let parent = SecurityDescriptor { control, dacl: Acl::new(2, vec![ace]), ..SecurityDescriptor::default() };
        let child = child(&parent, OWNER, GROUP, directory)?;
        assert_eq!((child.owner, child.group), (Some(OWNER), Some(GROUP)));
        assert_eq!(child.control.contains(Control::DACL_AUTO_INHERITED), control == Control::DACL_AUTO_INHERITED);
        let of = |ace: &Ace| (*ace.trustee().expect("it has a SID").1, ace.ace_flags.0);
        Some(child.dacl?.aces().iter().map(of).collect())
    }

    /// [MS-DTYP] 2.5.3.4.4, and what Samba 4.17 and Windows do with the flags.
    #[test]
    fn flags_for_files_and_directories() {
        for (flags, file, directory) in [
            (0, None, None),
            (NP | IO, None, None),
            (OI, Some(0), Some(OI | IO)),
            (CI, None, Some(CI)),
            (OI | CI, Some(0), Some(OI | CI)),
            (OI | NP, Some(0), None),
            (CI | NP, None, Some(0)),
            (OI | CI | NP | IO, Some(0), Some(0)),
            (OI | IO, Some(0), Some(OI | IO)),
            (CI | IO, None, Some(CI)),
            (OI | CI | IO | ID, Some(0), Some(OI | CI)),
        ] {
            let expected = |flags: Option<u8>, mark| flags.map(|flags| vec![(OTHER, flags | mark)]);
            for (control, mark) in [(Control::NONE, 0), (Control::DACL_AUTO_INHERITED, ID)] {
                assert_eq!(inherited(OTHER, flags, false, control), expected(file, mark), "file, {flags:#x}");
                assert_eq!(inherited(OTHER, flags, true, control), expected(directory, mark), "directory, {flags:#x}");
            }
        }
    }

    #[test]
    fn creators() {
        let (both, none) = (OI | CI | IO, Control::NONE);
        for (flags, directory, expected) in [
            (both, false, vec![(OWNER, 0)]),
            (both, true, vec![(OWNER, 0), (Sid::CREATOR_OWNER, both)]),
            (OI | IO, true, vec![(Sid::CREATOR_OWNER, OI | IO)]),
            (CI | NP, true, vec![(OWNER, 0)]),
        ] {
            assert_eq!(inherited(Sid::CREATOR_OWNER, flags, directory, none), Some(expected), "{flags:#x}");
        }
        assert_eq!(inherited(Sid::CREATOR_GROUP, OI, false, none), Some(vec![(GROUP, 0)]));
    }

    #[test]
    fn generic_rights_are_kept_where_they_wait_and_expanded_where_they_count() {
        let ace = Ace::allow(Sid::CREATOR_OWNER, AccessMask::GENERIC_ALL, AceFlags(OI | CI | IO));
        let parent = SecurityDescriptor { dacl: Acl::new(2, vec![ace]), ..SecurityDescriptor::default() };
        let child = child(&parent, OWNER, GROUP, true).expect("something comes down");
        let masks: Vec<_> = child.dacl.iter().flat_map(Acl::aces).filter_map(|ace| Some(ace.trustee()?.0)).collect();
        assert_eq!(masks, [AccessMask::FILE_ALL_ACCESS, AccessMask::GENERIC_ALL]);
    }
}
