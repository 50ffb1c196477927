//! Inheritance of ACEs by a new file or directory from its parent directory ([MS-DTYP] 2.5.3.4).
//!
//! As in Samba, the new ACEs are flagged as inherited only if the parent's DACL was itself created by inheritance
//! (DACL_AUTO_INHERITED). SACLs are not inherited because the server does not audit.

use proto::dtyp::acl::{Ace, AceBody, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{Acl, GenericMapping, SecurityDescriptor, Sid};

/// The ACE flags that concern inheritance.
const INHERITANCE: AceFlags = AceFlags(
    AceFlags::OBJECT_INHERIT.0
        | AceFlags::CONTAINER_INHERIT.0
        | AceFlags::NO_PROPAGATE_INHERIT.0
        | AceFlags::INHERIT_ONLY.0
        | AceFlags::INHERITED.0,
);

/// Returns the descriptor of a file that `owner` creates in a directory with `parent`. `None` if nothing is inherited.
pub fn child(parent: &SecurityDescriptor, owner: Sid, group: Sid, directory: bool) -> Option<SecurityDescriptor> {
    let dacl = parent.dacl.as_ref()?;
    let inherited = parent.control.contains(Control::DACL_AUTO_INHERITED);
    let mark = if inherited { AceFlags::INHERITED } else { AceFlags::NONE };
    let mut aces = Vec::new();
    for ace in dacl.aces() {
        let Some(flags) = handed_on(ace.ace_flags, directory) else { continue };
        match creator(ace, owner, group) {
            // The creator is known for the new directory itself, but not yet for files created in it later.
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
        // An ACL that is too long is replaced by an empty one, which grants nothing.
        dacl: Some(Acl::new(dacl.revision(), aces).unwrap_or(Acl::empty())),
        ..SecurityDescriptor::default()
    })
}

/// Whether the DACL of a directory has an ACE that new files or directories inherit.
pub fn is_inheritable(descriptor: &SecurityDescriptor) -> bool {
    let hands_on = |ace: &Ace| [false, true].into_iter().any(|directory| handed_on(ace.ace_flags, directory).is_some());
    descriptor.dacl.as_ref().is_some_and(|dacl| dacl.aces().iter().any(hands_on))
}

/// Returns the flags of the inherited ACE; `None` if the ACE is not inherited.
fn handed_on(flags: AceFlags, directory: bool) -> Option<AceFlags> {
    let files = flags.contains(AceFlags::OBJECT_INHERIT);
    let directories = flags.contains(AceFlags::CONTAINER_INHERIT);
    let last = flags.contains(AceFlags::NO_PROPAGATE_INHERIT);
    match (directory, directories) {
        (false, _) => files.then_some(kept(flags)),
        (true, true) if last => Some(kept(flags)),
        (true, true) => Some(flags.without(AceFlags::INHERIT_ONLY | AceFlags::INHERITED)),
        // For files only: kept in the directory as inherit-only.
        (true, false) if files && !last => Some(flags.without(AceFlags::INHERITED) | AceFlags::INHERIT_ONLY),
        (true, false) => None,
    }
}

/// Removes the flags that concern inheritance.
fn kept(flags: AceFlags) -> AceFlags {
    flags.without(INHERITANCE)
}

/// Returns the ACE with CREATOR OWNER or CREATOR GROUP replaced; `None` for other trustees.
fn creator(ace: &Ace, owner: Sid, group: Sid) -> Option<Ace> {
    let AceBody::Trustee { mask, sid } = &ace.body else { return None };
    let sid = match *sid {
        Sid::CREATOR_OWNER => owner,
        Sid::CREATOR_GROUP => group,
        _ => return None,
    };
    Some(expanded(Ace { body: AceBody::Trustee { mask: *mask, sid }, ..ace.clone() }))
}

/// Expands the generic rights of the ACE for files.
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

    /// Returns SIDs and flags of the ACEs inherited from one ACE for `sid` with `flags`.
    fn inherited(sid: Sid, flags: u8, directory: bool, control: Control) -> Option<Vec<(Sid, u8)>> {
        let ace = Ace::allow(sid, AccessMask::GENERIC_READ, AceFlags(flags));
        let parent = SecurityDescriptor { control, dacl: Acl::new(2, vec![ace]), ..SecurityDescriptor::default() };
        let child = child(&parent, OWNER, GROUP, directory)?;
        assert_eq!((child.owner, child.group), (Some(OWNER), Some(GROUP)));
        assert_eq!(child.control.contains(Control::DACL_AUTO_INHERITED), control == Control::DACL_AUTO_INHERITED);
        let of = |ace: &Ace| (*ace.trustee().expect("the ACE has a SID").1, ace.ace_flags.0);
        Some(child.dacl?.aces().iter().map(of).collect())
    }

    /// [MS-DTYP] 2.5.3.4.4, and the behaviour of Samba 4.17 and Windows.
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
    fn generic_rights_are_kept_if_inherit_only_and_expanded_if_effective() {
        let ace = Ace::allow(Sid::CREATOR_OWNER, AccessMask::GENERIC_ALL, AceFlags(OI | CI | IO));
        let parent = SecurityDescriptor { dacl: Acl::new(2, vec![ace]), ..SecurityDescriptor::default() };
        let child = child(&parent, OWNER, GROUP, true).expect("the parent has inheritable ACEs");
        let masks: Vec<_> = child.dacl.iter().flat_map(Acl::aces).filter_map(|ace| Some(ace.trustee()?.0)).collect();
        assert_eq!(masks, [AccessMask::FILE_ALL_ACCESS, AccessMask::GENERIC_ALL]);
    }
}
