//! Lists of users, groups and aliases, and information about groups ([MS-SAMR] 2.2.4, 2.2.5, 2.2.7.10, 2.2.8).

use super::super::ndr::Encoder;
use super::AccountControl;
use crate::dtyp::Sid;
use crate::status::Status;

/// DOMAIN_DISPLAY_INFORMATION ([MS-SAMR] 2.2.8.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DisplayInformation(pub u16);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl DisplayInformation {
    pub const USER: DisplayInformation = DisplayInformation(1);
    pub const MACHINE: DisplayInformation = DisplayInformation(2);
    pub const GROUP: DisplayInformation = DisplayInformation(3);
    pub const OEM_USER: DisplayInformation = DisplayInformation(4);
    pub const OEM_GROUP: DisplayInformation = DisplayInformation(5);

    /// Returns whether the class lists groups; otherwise it lists users.
    pub fn is_of_groups(self) -> bool {
        [DisplayInformation::GROUP, DisplayInformation::OEM_GROUP].contains(&self)
    }

    /// Returns whether the class is defined.
    pub fn is_known(self) -> bool {
        (1..=5).contains(&self.0)
    }
}

/// GROUP_INFORMATION_CLASS ([MS-SAMR] 2.2.4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupInformationClass(pub u16);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl GroupInformationClass {
    pub const GENERAL: GroupInformationClass = GroupInformationClass(1);
    pub const NAME: GroupInformationClass = GroupInformationClass(2);
    pub const ATTRIBUTE: GroupInformationClass = GroupInformationClass(3);
    pub const ADMIN_COMMENT: GroupInformationClass = GroupInformationClass(4);
    pub const REPLICATION: GroupInformationClass = GroupInformationClass(5);
}

/// ALIAS_INFORMATION_CLASS ([MS-SAMR] 2.2.5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AliasInformationClass(pub u16);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl AliasInformationClass {
    pub const GENERAL: AliasInformationClass = AliasInformationClass(1);
    pub const NAME: AliasInformationClass = AliasInformationClass(2);
    pub const ADMIN_COMMENT: AliasInformationClass = AliasInformationClass(3);
}

/// SE_GROUP_MANDATORY, SE_GROUP_ENABLED_BY_DEFAULT and SE_GROUP_ENABLED ([MS-SAMR] 2.2.1.10), the attributes of every
/// group membership here.
pub const GROUP_ATTRIBUTES: u32 = 7;

/// An entry of a list of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RidName {
    /// The RID.
    pub rid: u32,
    /// The name.
    pub name: String,
}

/// The results of a SamrEnumerate... call: a SAMPR_ENUMERATION_BUFFER (2.2.7.10), and where to continue.
pub fn enumeration_response(context: u32, names: &[RidName], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = names.len() as u32;
    out.u32(context);
    out.pointer();
    out.u32(count);
    out.pointer();
    out.u32(count);
    for entry in names {
        out.u32(entry.rid);
        out.unicode(&entry.name);
    }
    names.iter().for_each(|entry| out.text(&entry.name));
    out.u32(count);
    out.u32(status.0);
    out.into_bytes()
}

/// The results of a SamrEnumerate... call that fails.
pub fn no_enumeration_response(status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(0);
    out.null();
    out.u32(0);
    out.u32(status.0);
    out.into_bytes()
}

/// An entry of a display list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Displayed {
    /// The number of entries up to and including this one.
    pub index: u32,
    /// The RID.
    pub rid: u32,
    /// The account control flags; users only.
    pub control: AccountControl,
    /// The name.
    pub name: String,
    /// The administrator's comment.
    pub comment: String,
    /// The full name; users only.
    pub full_name: String,
}

impl Displayed {
    /// The size of the entry in a response, in bytes.
    pub fn length(&self) -> usize {
        36 + 2 * (self.name.len() + self.comment.len() + self.full_name.len())
    }
}

/// The results of SamrQueryDisplayInformation and its later generations (2.2.8.13).
pub fn display_response(class: DisplayInformation, entries: &[Displayed], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = entries.len() as u32;
    // TotalAvailable is not computed.
    out.u32(0);
    out.u32(entries.iter().map(Displayed::length).sum::<usize>() as u32);
    out.u16(class.0);
    out.u32(count);
    out.pointer();
    out.u32(count);
    match class {
        DisplayInformation::OEM_USER | DisplayInformation::OEM_GROUP => {
            for entry in entries {
                out.u32(entry.index);
                let length = oem(&entry.name).len() as u16;
                out.u16(length);
                out.u16(length);
                out.pointer();
            }
            for entry in entries {
                let name = oem(&entry.name);
                [name.len() as u32, 0, name.len() as u32].into_iter().for_each(|number| out.u32(number));
                out.array(1, &name);
            }
        }
        _ => display(&mut out, class == DisplayInformation::USER, class.is_of_groups(), entries),
    }
    out.u32(status.0);
    out.into_bytes()
}

fn display(out: &mut Encoder, full_names: bool, groups: bool, entries: &[Displayed]) {
    for entry in entries {
        out.u32(entry.index);
        out.u32(entry.rid);
        out.u32(if groups { GROUP_ATTRIBUTES } else { entry.control.0 });
        out.unicode(&entry.name);
        out.unicode(&entry.comment);
        if full_names {
            out.unicode(&entry.full_name);
        }
    }
    for entry in entries {
        out.text(&entry.name);
        out.text(&entry.comment);
        if full_names {
            out.text(&entry.full_name);
        }
    }
}

/// Encodes a name in the client's code page. It is not known, so only ASCII is kept.
fn oem(name: &str) -> Vec<u8> {
    name.chars().map(|c| if c.is_ascii() { c as u8 } else { b'?' }).collect()
}

/// The results of a SamrQueryDisplayInformation call that fails.
pub fn no_display_response(class: DisplayInformation, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(0);
    out.u32(0);
    out.u16(class.0);
    out.u32(0);
    out.null();
    out.u32(status.0);
    out.into_bytes()
}

/// The information about a group or an alias.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupInformation {
    /// Its name.
    pub name: String,
    /// The administrator's comment.
    pub comment: String,
    /// The number of members, if the class includes it.
    pub members: u32,
}

/// The results of SamrQueryInformationGroup; `None` for a class that is not defined.
pub fn group_information_response(class: GroupInformationClass, group: &GroupInformation) -> Option<Vec<u8>> {
    let mut out = Encoder::default();
    out.pointer();
    out.u16(class.0);
    match class {
        GroupInformationClass::GENERAL | GroupInformationClass::REPLICATION => {
            out.unicode(&group.name);
            out.u32(GROUP_ATTRIBUTES);
            out.u32(group.members);
            out.unicode(&group.comment);
            out.text(&group.name);
            out.text(&group.comment);
        }
        GroupInformationClass::NAME => out.whole_unicode(&group.name),
        GroupInformationClass::ATTRIBUTE => out.u32(GROUP_ATTRIBUTES),
        GroupInformationClass::ADMIN_COMMENT => out.whole_unicode(&group.comment),
        _ => return None,
    }
    out.u32(Status::SUCCESS.0);
    Some(out.into_bytes())
}

/// The results of SamrQueryInformationAlias; `None` for a class that is not defined.
pub fn alias_information_response(class: AliasInformationClass, alias: &GroupInformation) -> Option<Vec<u8>> {
    let mut out = Encoder::default();
    out.pointer();
    out.u16(class.0);
    match class {
        AliasInformationClass::GENERAL => {
            out.unicode(&alias.name);
            out.u32(alias.members);
            out.unicode(&alias.comment);
            out.text(&alias.name);
            out.text(&alias.comment);
        }
        AliasInformationClass::NAME => out.whole_unicode(&alias.name),
        AliasInformationClass::ADMIN_COMMENT => out.whole_unicode(&alias.comment),
        _ => return None,
    }
    out.u32(Status::SUCCESS.0);
    Some(out.into_bytes())
}

/// The results of SamrGetGroupsForUser (2.2.7.14).
pub fn groups_response(rids: &[u32]) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = rids.len() as u32;
    out.pointer();
    out.u32(count);
    out.pointer();
    out.u32(count);
    for rid in rids {
        out.u32(*rid);
        out.u32(GROUP_ATTRIBUTES);
    }
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

/// The results of SamrGetMembersInGroup (2.2.7.14).
pub fn group_members_response(rids: &[u32]) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = rids.len() as u32;
    out.pointer();
    out.u32(count);
    out.pointer();
    out.pointer();
    out.u32(count);
    rids.iter().for_each(|rid| out.u32(*rid));
    out.u32(count);
    rids.iter().for_each(|_| out.u32(GROUP_ATTRIBUTES));
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

/// The results of SamrGetMembersInAlias (2.2.7.6).
pub fn alias_members_response(sids: &[Sid], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = sids.len() as u32;
    out.u32(count);
    out.pointer();
    out.u32(count);
    sids.iter().for_each(|_| out.pointer());
    sids.iter().for_each(|sid| out.sid(sid));
    out.u32(status.0);
    out.into_bytes()
}
