//! Results of calls to the server and to domains ([MS-SAMR] 2.2.3, 2.2.7).

use super::super::lsarpc::SidNameUse;
use super::super::ndr::{ContextHandle, Encoder};
use crate::dtyp::Sid;
use crate::status::Status;

/// DOMAIN_INFORMATION_CLASS ([MS-SAMR] 2.2.3.16).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainInformationClass(pub u16);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl DomainInformationClass {
    pub const PASSWORD: DomainInformationClass = DomainInformationClass(1);
    pub const GENERAL: DomainInformationClass = DomainInformationClass(2);
    pub const LOGOFF: DomainInformationClass = DomainInformationClass(3);
    pub const OEM: DomainInformationClass = DomainInformationClass(4);
    pub const NAME: DomainInformationClass = DomainInformationClass(5);
    pub const REPLICATION: DomainInformationClass = DomainInformationClass(6);
    pub const SERVER_ROLE: DomainInformationClass = DomainInformationClass(7);
    pub const MODIFIED: DomainInformationClass = DomainInformationClass(8);
    pub const STATE: DomainInformationClass = DomainInformationClass(9);
    pub const GENERAL_2: DomainInformationClass = DomainInformationClass(11);
    pub const LOCKOUT: DomainInformationClass = DomainInformationClass(12);
    pub const MODIFIED_2: DomainInformationClass = DomainInformationClass(13);

    /// Returns whether the class includes the numbers of users, groups and aliases.
    pub fn counts(self) -> bool {
        [DomainInformationClass::GENERAL, DomainInformationClass::GENERAL_2].contains(&self)
    }
}

/// The password and lockout policy. Times are intervals of 100 ns, negative like OLD_LARGE_INTEGERs; the minimum value
/// means "never".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainPolicy {
    /// The minimum length of a password in characters.
    pub min_password_length: u16,
    /// The number of previous passwords that are remembered.
    pub password_history: u16,
    /// The time after which a password expires.
    pub max_password_age: i64,
    /// The time for which a new password cannot be changed.
    pub min_password_age: i64,
    /// The time for which a user account is locked.
    pub lockout_duration: i64,
    /// The time for which failed logons are counted.
    pub lockout_window: i64,
    /// The number of failed logons that locks the user account; 0 for no limit.
    pub lockout_threshold: u16,
}

/// The information about a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainInformation {
    /// The password and lockout policy.
    pub policy: DomainPolicy,
    /// Its name.
    pub name: String,
    /// The name by which general information calls it: on a server that is not a member of a domain the workgroup, as
    /// in Samba.
    pub workgroup: String,
    /// The name of the server.
    pub server: String,
    /// The administrator's comment.
    pub comment: String,
    /// The numbers of users, groups and aliases, if the class includes them.
    pub counts: [u32; 3],
}

/// ForceLogoff: clients are never forced to log off.
const NEVER: i64 = i64::MIN;
/// DomainServerEnabled.
const ENABLED: u32 = 1;
/// DomainServerRolePrimary.
const PRIMARY: u32 = 3;

/// The results of SamrConnect5: revision 3, no further features ([MS-SAMR] 3.1.5.1.1).
pub fn connect_5_response(handle: &ContextHandle, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    [1, 1, 3, 0].into_iter().for_each(|word| out.u32(word));
    out.array(4, handle);
    out.u32(status.0);
    out.into_bytes()
}

/// The results of SamrLookupDomainInSamServer.
pub fn lookup_domain_response(sid: Option<&Sid>) -> Vec<u8> {
    let mut out = Encoder::default();
    match sid {
        Some(sid) => {
            out.pointer();
            out.sid(sid);
            out.u32(Status::SUCCESS.0);
        }
        None => {
            out.null();
            out.u32(Status::NO_SUCH_DOMAIN.0);
        }
    }
    out.into_bytes()
}

/// The results of SamrQueryInformationDomain; `None` for a class that is not defined.
pub fn domain_information_response(class: DomainInformationClass, about: &DomainInformation) -> Option<Vec<u8>> {
    let mut out = Encoder::default();
    out.pointer();
    out.u16(class.0);
    // The union is aligned to its largest member, which has 8-byte numbers.
    out.array(8, &[]);
    let policy = &about.policy;
    match class {
        // DOMAIN_PASSWORD_INFORMATION (2.2.3.5).
        DomainInformationClass::PASSWORD => {
            out.u16(policy.min_password_length);
            out.u16(policy.password_history);
            out.u32(0);
            out.array(4, &policy.max_password_age.to_le_bytes());
            out.array(4, &policy.min_password_age.to_le_bytes());
        }
        DomainInformationClass::GENERAL => {
            general(&mut out, about);
            general_texts(&mut out, about);
        }
        DomainInformationClass::LOGOFF => out.array(4, &NEVER.to_le_bytes()),
        DomainInformationClass::OEM => out.whole_unicode(&about.comment),
        DomainInformationClass::NAME => out.whole_unicode(&about.name),
        DomainInformationClass::REPLICATION => out.whole_unicode(&about.server),
        DomainInformationClass::SERVER_ROLE => out.u16(PRIMARY as u16),
        // Modifications are not counted, and the creation time is 0.
        DomainInformationClass::MODIFIED => out.array(4, &[0; 16]),
        DomainInformationClass::STATE => out.u16(ENABLED as u16),
        DomainInformationClass::GENERAL_2 => {
            general(&mut out, about);
            lockout(&mut out, policy);
            general_texts(&mut out, about);
        }
        DomainInformationClass::LOCKOUT => lockout(&mut out, policy),
        DomainInformationClass::MODIFIED_2 => out.array(4, &[0; 24]),
        _ => return None,
    }
    out.u32(Status::SUCCESS.0);
    Some(out.into_bytes())
}

/// SAMPR_DOMAIN_GENERAL_INFORMATION (2.2.3.10).
fn general(out: &mut Encoder, about: &DomainInformation) {
    out.array(4, &NEVER.to_le_bytes());
    [&about.comment, &about.workgroup, &about.server].into_iter().for_each(|text| out.unicode(text));
    out.array(4, &0_u64.to_le_bytes());
    out.u32(ENABLED);
    out.u32(PRIMARY);
    // UasCompatibilityRequired.
    out.u32(1);
    about.counts.into_iter().for_each(|count| out.u32(count));
}

fn general_texts(out: &mut Encoder, about: &DomainInformation) {
    [&about.comment, &about.workgroup, &about.server].into_iter().for_each(|text| out.text(text));
}

/// SAMPR_DOMAIN_LOCKOUT_INFORMATION (2.2.3.15).
fn lockout(out: &mut Encoder, policy: &DomainPolicy) {
    out.array(8, &policy.lockout_duration.to_le_bytes());
    out.array(8, &policy.lockout_window.to_le_bytes());
    out.u16(policy.lockout_threshold);
}

/// The results of a failed information call: a null pointer and the status.
pub fn no_information_response(status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    out.u32(status.0);
    out.into_bytes()
}

/// The results of SamrGetDomainPasswordInformation: USER_DOMAIN_PASSWORD_INFORMATION ([MS-SAMR] 2.2.7.17), without
/// complexity requirements.
pub fn password_information_response(min_length: u16) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u16(min_length);
    out.u32(0);
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

/// The results of SamrRidToSid.
pub fn sid_response(sid: &Sid) -> Vec<u8> {
    lookup_domain_response(Some(sid))
}

/// Writes a SAMPR_ULONG_ARRAY (2.2.7.4).
fn numbers(out: &mut Encoder, numbers: impl ExactSizeIterator<Item = u32>) {
    let count = numbers.len() as u32;
    out.u32(count);
    out.pointer();
    out.u32(count);
    numbers.for_each(|number| out.u32(number));
}

/// The results of SamrGetAliasMembership.
pub fn alias_membership_response(rids: &[u32], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    numbers(&mut out, rids.iter().copied());
    out.u32(status.0);
    out.into_bytes()
}

/// The results of SamrLookupNamesInDomain: RIDs and their types.
pub fn names_response(found: &[(u32, SidNameUse)], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    numbers(&mut out, found.iter().map(|(rid, _)| *rid));
    numbers(&mut out, found.iter().map(|(_, kind)| u32::from(kind.0)));
    out.u32(status.0);
    out.into_bytes()
}

/// The results of SamrLookupIdsInDomain: names and their types.
pub fn ids_response(found: &[(Option<String>, SidNameUse)], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = found.len() as u32;
    out.u32(count);
    out.pointer();
    out.u32(count);
    for (name, _) in found {
        match name {
            Some(name) => out.unicode(name),
            None => out.array(4, &[0; 8]),
        }
    }
    found.iter().filter_map(|(name, _)| name.as_ref()).for_each(|name| out.text(name));
    numbers(&mut out, found.iter().map(|(_, kind)| u32::from(kind.0)));
    out.u32(status.0);
    out.into_bytes()
}
