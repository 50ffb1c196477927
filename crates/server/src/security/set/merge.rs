//! The parts of a security descriptor that are queried and set independently ([MS-DTYP] 2.4.7).
//!
//! The SACL consists of several parts: the audit ACEs, the integrity label, claims about the file, and its central
//! policy. All are stored, and none has an effect.

use proto::dtyp::acl::{Ace, AceType};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{Acl, SecurityDescriptor};
use proto::smb2::SecurityInformation;

/// The parts that are in the SACL.
pub(crate) const OF_SACL: SecurityInformation = SecurityInformation(
    SecurityInformation::SACL.0
        | SecurityInformation::LABEL.0
        | SecurityInformation::ATTRIBUTE.0
        | SecurityInformation::SCOPE.0,
);

/// The parts of a descriptor to be set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The owner.
    pub(crate) owner: bool,
    /// The group.
    pub(crate) group: bool,
    /// The DACL.
    pub(crate) dacl: bool,
    /// The parts of the SACL, out of [`OF_SACL`].
    pub(crate) sacl: SecurityInformation,
    /// The permission bits, which a Mac sets; only on shares that store no descriptors.
    pub(crate) mode: Option<u32>,
}

impl Parts {
    /// Whether no part is to be set.
    pub(crate) fn is_empty(self) -> bool {
        !(self.owner || self.group || self.dacl || self.mode.is_some()) && self.sacl.is_empty()
    }
}

/// Returns the part that an ACE of a SACL belongs to.
fn part(ace: &Ace) -> SecurityInformation {
    match ace.ace_type {
        AceType::SYSTEM_MANDATORY_LABEL => SecurityInformation::LABEL,
        AceType::SYSTEM_RESOURCE_ATTRIBUTE => SecurityInformation::ATTRIBUTE,
        AceType::SYSTEM_SCOPED_POLICY_ID => SecurityInformation::SCOPE,
        _ => SecurityInformation::SACL,
    }
}

/// Removes all ACEs from the SACL that do not belong to `parts`.
pub(crate) fn keep_of_sacl(descriptor: &mut SecurityDescriptor, parts: SecurityInformation) {
    let Some(sacl) = descriptor.sacl.take().filter(|_| !parts.is_empty()) else {
        let whole = parts.contains(SecurityInformation::SACL);
        let absent = if whole { Control::NONE } else { Control::SACL_PRESENT };
        descriptor.control = descriptor.control.without(absent);
        return;
    };
    let revision = sacl.revision();
    let kept = sacl.into_aces().into_iter().filter(|ace| parts.contains(part(ace))).collect();
    descriptor.sacl = Acl::new(revision, kept);
}

/// Returns `present` with the `parts` of `new`. The control bits that do not concern the SACL belong to the DACL.
pub(crate) fn merge(present: SecurityDescriptor, new: &SecurityDescriptor, parts: Parts) -> SecurityDescriptor {
    const ABOUT_SACL: Control =
        Control(Control::SACL_PRESENT.0 | Control::SACL_AUTO_INHERITED.0 | Control::SACL_PROTECTED.0);
    let mut merged = present;
    if parts.dacl {
        merged.control = new.control.without(ABOUT_SACL) | merged.control & ABOUT_SACL | Control::DACL_PRESENT;
        merged.dacl = new.dacl.clone();
    }
    if parts.sacl.contains(SecurityInformation::SACL) {
        merged.control = merged.control.without(ABOUT_SACL) | new.control & ABOUT_SACL;
    }
    if !parts.sacl.is_empty() {
        merged.sacl = merged_sacl(merged.sacl.take(), new.sacl.as_ref(), parts.sacl);
        if merged.sacl.is_some() {
            merged.control |= Control::SACL_PRESENT;
        }
    }
    if parts.owner {
        merged.owner = new.owner.or(merged.owner);
    }
    if parts.group {
        merged.group = new.group.or(merged.group);
    }
    merged
}

/// Returns the ACEs of `present` that do not belong to `parts` and those of `new` that do; `None` if neither has a
/// SACL.
fn merged_sacl(present: Option<Acl>, new: Option<&Acl>, parts: SecurityInformation) -> Option<Acl> {
    let revision = [present.as_ref(), new].into_iter().flatten().map(Acl::revision).max();
    let kept = present.map(Acl::into_aces).unwrap_or_default().into_iter().filter(|ace| !parts.contains(part(ace)));
    let set = new.iter().flat_map(|acl| acl.aces()).filter(|ace| parts.contains(part(ace))).cloned();
    let aces: Vec<Ace> = set.chain(kept).collect();
    if aces.is_empty() && new.is_none() {
        return None;
    }
    Acl::new(revision.unwrap_or(Acl::REVISION), aces)
}

#[cfg(test)]
mod tests {
    use proto::dtyp::acl::{AceBody, AceFlags};
    use proto::dtyp::{AccessMask, Sid};

    use super::*;

    const ALL: [AceType; 4] = [
        AceType::SYSTEM_AUDIT,
        AceType::SYSTEM_MANDATORY_LABEL,
        AceType::SYSTEM_RESOURCE_ATTRIBUTE,
        AceType::SYSTEM_SCOPED_POLICY_ID,
    ];

    /// Returns an ACE of `ace_type`, identified by `mark`.
    fn ace(ace_type: AceType, mark: u32) -> Ace {
        let body = match ace_type {
            AceType::SYSTEM_RESOURCE_ATTRIBUTE => AceBody::Raw(mark.to_le_bytes().into()),
            _ => AceBody::Trustee { mask: AccessMask(mark), sid: Sid::EVERYONE },
        };
        Ace { ace_type, ace_flags: AceFlags::NONE, body }
    }

    fn descriptor(types: &[AceType], mark: u32) -> SecurityDescriptor {
        let sacl = Acl::new(Acl::REVISION, types.iter().map(|&ace_type| ace(ace_type, mark)).collect());
        SecurityDescriptor {
            control: Control::SELF_RELATIVE | Control::SACL_PRESENT,
            owner: Some(Sid::EVERYONE),
            sacl,
            ..SecurityDescriptor::default()
        }
    }

    fn types(descriptor: &SecurityDescriptor) -> Option<Vec<(AceType, bool)>> {
        let is_new = |ace: &Ace| *ace == self::ace(ace.ace_type, 2);
        let mut found: Vec<_> =
            descriptor.sacl.as_ref()?.aces().iter().map(|ace| (ace.ace_type, is_new(ace))).collect();
        found.sort_by_key(|(ace_type, _)| ace_type.0);
        Some(found)
    }

    #[test]
    fn each_part_of_the_sacl_is_asked_for_by_itself() {
        for (index, part) in [SecurityInformation::SACL, SecurityInformation::LABEL].into_iter().enumerate() {
            let mut asked = descriptor(&ALL, 1);
            keep_of_sacl(&mut asked, part);
            assert_eq!(types(&asked), Some(vec![(ALL[index], false)]));
        }
        let mut none = descriptor(&ALL, 1);
        keep_of_sacl(&mut none, SecurityInformation::NONE);
        assert!(none.sacl.is_none() && !none.control.contains(Control::SACL_PRESENT));
        let mut all = descriptor(&ALL, 1);
        keep_of_sacl(&mut all, OF_SACL);
        assert_eq!(all, descriptor(&ALL, 1));
    }

    #[test]
    fn each_part_of_the_sacl_is_set_by_itself() {
        let parts = |sacl| Parts { owner: false, group: false, dacl: false, sacl, mode: None };
        let label = merge(descriptor(&ALL, 1), &descriptor(&ALL, 2), parts(SecurityInformation::LABEL));
        assert_eq!(types(&label), Some(ALL.map(|kind| (kind, kind == AceType::SYSTEM_MANDATORY_LABEL)).to_vec()));
        let all = merge(descriptor(&ALL, 1), &descriptor(&ALL, 2), parts(OF_SACL));
        assert_eq!(all, descriptor(&ALL, 2));
        let bare = SecurityDescriptor::default();
        let gone = merge(descriptor(&ALL[..1], 1), &bare, parts(SecurityInformation::SACL));
        assert!(gone.sacl.is_none() && !gone.control.contains(Control::SACL_PRESENT));
        let untouched = merge(descriptor(&ALL, 1), &descriptor(&ALL, 2), parts(SecurityInformation::NONE));
        assert_eq!(untouched, descriptor(&ALL, 1));
    }

    #[test]
    fn flags_belong_to_their_acl() {
        let present = SecurityDescriptor { control: Control::SACL_PROTECTED, ..descriptor(&ALL, 1) };
        let new = SecurityDescriptor { control: Control::DACL_PROTECTED, ..SecurityDescriptor::default() };
        let dacl = Parts { owner: false, group: false, dacl: true, sacl: SecurityInformation::NONE, mode: None };
        let expected = Control::SACL_PROTECTED | Control::DACL_PROTECTED | Control::DACL_PRESENT;
        assert_eq!(merge(present, &new, dacl).control, expected);
    }
}
