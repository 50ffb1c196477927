//! The security accounts manager ([MS-SAMR] 3.1.5): listing and querying users, groups and aliases, and changing one's
//! own password.
//!
//! Deliberately not implemented: creating, changing and deleting users, groups and policies, for which there are `frevo
//! user` and `frevo group`; password hashes, which are never disclosed; security descriptors of user accounts.

mod lists;
mod results;
mod user;

use super::ndr::{ContextHandle, Decoder};
use super::pdu::SyntaxId;
use crate::auth::ntlm::change::SEALED_PASSWORD;
use crate::bytes::{Malformed, Result};
use crate::dtyp::{Guid, Sid};

pub use lists::*;
pub use results::*;
pub use user::*;

/// 12345778-1234-abcd-ef00-0123456789ac, version 1.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x1234_5778, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xac]),
    version: 1,
};

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const SAMR_CONNECT: u16 = 0;
    pub const SAMR_CLOSE_HANDLE: u16 = 1;
    pub const SAMR_LOOKUP_DOMAIN_IN_SAM_SERVER: u16 = 5;
    pub const SAMR_ENUMERATE_DOMAINS_IN_SAM_SERVER: u16 = 6;
    pub const SAMR_OPEN_DOMAIN: u16 = 7;
    pub const SAMR_QUERY_INFORMATION_DOMAIN: u16 = 8;
    pub const SAMR_ENUMERATE_GROUPS_IN_DOMAIN: u16 = 11;
    pub const SAMR_ENUMERATE_USERS_IN_DOMAIN: u16 = 13;
    pub const SAMR_ENUMERATE_ALIASES_IN_DOMAIN: u16 = 15;
    pub const SAMR_GET_ALIAS_MEMBERSHIP: u16 = 16;
    pub const SAMR_LOOKUP_NAMES_IN_DOMAIN: u16 = 17;
    pub const SAMR_LOOKUP_IDS_IN_DOMAIN: u16 = 18;
    pub const SAMR_OPEN_GROUP: u16 = 19;
    pub const SAMR_QUERY_INFORMATION_GROUP: u16 = 20;
    pub const SAMR_GET_MEMBERS_IN_GROUP: u16 = 25;
    pub const SAMR_OPEN_ALIAS: u16 = 27;
    pub const SAMR_QUERY_INFORMATION_ALIAS: u16 = 28;
    pub const SAMR_GET_MEMBERS_IN_ALIAS: u16 = 33;
    pub const SAMR_OPEN_USER: u16 = 34;
    pub const SAMR_QUERY_INFORMATION_USER: u16 = 36;
    pub const SAMR_GET_GROUPS_FOR_USER: u16 = 39;
    pub const SAMR_QUERY_DISPLAY_INFORMATION: u16 = 40;
    pub const SAMR_GET_USER_DOMAIN_PASSWORD_INFORMATION: u16 = 44;
    pub const SAMR_QUERY_INFORMATION_DOMAIN_2: u16 = 46;
    pub const SAMR_QUERY_INFORMATION_USER_2: u16 = 47;
    pub const SAMR_QUERY_DISPLAY_INFORMATION_2: u16 = 48;
    pub const SAMR_QUERY_DISPLAY_INFORMATION_3: u16 = 51;
    pub const SAMR_UNICODE_CHANGE_PASSWORD_USER_2: u16 = 55;
    pub const SAMR_GET_DOMAIN_PASSWORD_INFORMATION: u16 = 56;
    pub const SAMR_CONNECT_2: u16 = 57;
    pub const SAMR_CONNECT_4: u16 = 62;
    pub const SAMR_CONNECT_5: u16 = 64;
    pub const SAMR_RID_TO_SID: u16 = 65;
}

/// The maximum number of names, RIDs or SIDs per call: 1000 according to 3.1.5.11.2, 1024 SIDs according to 2.2.7.5.
pub const MOST_LOOKED_UP: usize = 1024;

/// A call with its relevant arguments.
pub enum Call {
    /// SamrConnect, SamrConnect2 and SamrConnect4. Whatever the requested access, the handle allows queries only.
    Connect,
    /// SamrConnect5, which also returns a revision.
    Connect5,
    /// SamrCloseHandle.
    Close(ContextHandle),
    /// SamrLookupDomainInSamServer.
    LookupDomain(ContextHandle, String),
    /// SamrEnumerateDomainsInSamServer, starting at the given position.
    EnumerateDomains(ContextHandle, u32),
    /// SamrOpenDomain.
    OpenDomain(ContextHandle, Sid),
    /// SamrQueryInformationDomain and its second generation.
    QueryDomain(ContextHandle, DomainInformationClass),
    /// SamrUnicodeChangePasswordUser2.
    ChangePassword(Box<ChangePassword>),
    /// SamrGetDomainPasswordInformation.
    GetDomainPasswordInformation,
    /// SamrGetUserDomainPasswordInformation.
    GetUserDomainPasswordInformation(ContextHandle),
    /// SamrEnumerateUsersInDomain.
    EnumerateUsers(ContextHandle, Enumeration, AccountControl),
    /// SamrEnumerateGroupsInDomain.
    EnumerateGroups(ContextHandle, Enumeration),
    /// SamrEnumerateAliasesInDomain.
    EnumerateAliases(ContextHandle, Enumeration),
    /// SamrQueryDisplayInformation and its later generations.
    QueryDisplay(ContextHandle, DisplayQuery),
    /// SamrLookupNamesInDomain.
    LookupNames(ContextHandle, Vec<String>),
    /// SamrLookupIdsInDomain.
    LookupIds(ContextHandle, Vec<u32>),
    /// SamrOpenUser, by RID.
    OpenUser(ContextHandle, u32),
    /// SamrOpenGroup, by RID.
    OpenGroup(ContextHandle, u32),
    /// SamrOpenAlias, by RID.
    OpenAlias(ContextHandle, u32),
    /// SamrQueryInformationUser and its second generation.
    QueryUser(ContextHandle, UserInformationClass),
    /// SamrQueryInformationGroup.
    QueryGroup(ContextHandle, GroupInformationClass),
    /// SamrQueryInformationAlias.
    QueryAlias(ContextHandle, AliasInformationClass),
    /// SamrGetGroupsForUser.
    GetGroupsForUser(ContextHandle),
    /// SamrGetMembersInGroup.
    GetMembersInGroup(ContextHandle),
    /// SamrGetMembersInAlias.
    GetMembersInAlias(ContextHandle),
    /// SamrGetAliasMembership.
    GetAliasMembership(ContextHandle, Vec<Sid>),
    /// SamrRidToSid.
    RidToSid(ContextHandle, u32),
    /// A call that creates, changes or deletes something. The value is the number of 4-byte results before its status.
    Change(usize),
}

/// The position and the maximum length of an enumeration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enumeration {
    /// EnumerationContext: 0, or the value of the previous response.
    pub context: u32,
    /// PreferedMaximumLength, in bytes.
    pub length: u32,
}

/// The arguments of SamrQueryDisplayInformation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DisplayQuery {
    /// The type of entries to list.
    pub class: DisplayInformation,
    /// The number of entries to skip.
    pub index: u32,
    /// The maximum number of entries.
    pub count: u32,
    /// PreferredMaximumLength, in bytes.
    pub length: u32,
}

/// SamrUnicodeChangePasswordUser2 ([MS-SAMR] 3.1.5.10.3). Its LM hashes are ignored.
pub struct ChangePassword {
    /// The user whose password changes.
    pub user: String,
    /// NewPasswordEncryptedWithOldNt; absent if a client supports only LM.
    pub new_password: Option<[u8; SEALED_PASSWORD]>,
    /// OldNtOwfPasswordEncryptedWithNewNt.
    pub old_hash: Option<[u8; 16]>,
}

impl Call {
    /// Decodes the arguments of call `number`; `None` if the call is not implemented.
    pub fn decode(number: u16, stub: &[u8]) -> Result<Option<Call>> {
        let mut decoder = Decoder::new(stub);
        Ok(match number {
            opnum::SAMR_UNICODE_CHANGE_PASSWORD_USER_2 => {
                Some(Call::ChangePassword(Box::new(change_password(&mut decoder)?)))
            }
            opnum::SAMR_CONNECT | opnum::SAMR_CONNECT_2 | opnum::SAMR_CONNECT_4 => Some(Call::Connect),
            opnum::SAMR_CONNECT_5 => Some(Call::Connect5),
            opnum::SAMR_CLOSE_HANDLE => Some(Call::Close(decoder.handle()?)),
            opnum::SAMR_LOOKUP_DOMAIN_IN_SAM_SERVER => {
                let handle = decoder.handle()?;
                let name = if decoder.unicode()? { decoder.string()? } else { String::new() };
                Some(Call::LookupDomain(handle, name))
            }
            opnum::SAMR_ENUMERATE_DOMAINS_IN_SAM_SERVER => {
                Some(Call::EnumerateDomains(decoder.handle()?, decoder.u32()?))
            }
            opnum::SAMR_OPEN_DOMAIN => {
                let (handle, _access) = (decoder.handle()?, decoder.u32()?);
                Some(Call::OpenDomain(handle, decoder.sid()?))
            }
            opnum::SAMR_QUERY_INFORMATION_DOMAIN | opnum::SAMR_QUERY_INFORMATION_DOMAIN_2 => {
                Some(Call::QueryDomain(decoder.handle()?, DomainInformationClass(decoder.u16()?)))
            }
            opnum::SAMR_GET_DOMAIN_PASSWORD_INFORMATION => Some(Call::GetDomainPasswordInformation),
            _ => match (list(number, &mut decoder)?, change(number)) {
                (Some(call), _) | (None, Some(call)) => Some(call),
                (None, None) => object(number, &mut decoder)?,
            },
        })
    }
}

/// Decodes calls that list or look up.
fn list(number: u16, from: &mut Decoder<'_>) -> Result<Option<Call>> {
    Ok(Some(match number {
        opnum::SAMR_ENUMERATE_USERS_IN_DOMAIN => {
            let (handle, context, control) = (from.handle()?, from.u32()?, AccountControl(from.u32()?));
            Call::EnumerateUsers(handle, Enumeration { context, length: from.u32()? }, control)
        }
        opnum::SAMR_ENUMERATE_GROUPS_IN_DOMAIN => Call::EnumerateGroups(from.handle()?, enumeration(from)?),
        opnum::SAMR_ENUMERATE_ALIASES_IN_DOMAIN => Call::EnumerateAliases(from.handle()?, enumeration(from)?),
        opnum::SAMR_QUERY_DISPLAY_INFORMATION
        | opnum::SAMR_QUERY_DISPLAY_INFORMATION_2
        | opnum::SAMR_QUERY_DISPLAY_INFORMATION_3 => {
            let (handle, class) = (from.handle()?, DisplayInformation(from.u16()?));
            let query = DisplayQuery { class, index: from.u32()?, count: from.u32()?, length: from.u32()? };
            Call::QueryDisplay(handle, query)
        }
        opnum::SAMR_LOOKUP_NAMES_IN_DOMAIN => {
            let (handle, count) = (from.handle()?, varying(from)?);
            let there = (0..count).map(|_| from.unicode()).collect::<Result<Vec<_>>>()?;
            let names = there.into_iter().map(|there| if there { from.string() } else { Ok(String::new()) });
            Call::LookupNames(handle, names.collect::<Result<_>>()?)
        }
        opnum::SAMR_LOOKUP_IDS_IN_DOMAIN => {
            let (handle, count) = (from.handle()?, varying(from)?);
            Call::LookupIds(handle, (0..count).map(|_| from.u32()).collect::<Result<_>>()?)
        }
        opnum::SAMR_GET_ALIAS_MEMBERSHIP => Call::GetAliasMembership(from.handle()?, sids(from)?),
        _ => return Ok(None),
    }))
}

/// Decodes calls to one user, group or alias.
fn object(number: u16, from: &mut Decoder<'_>) -> Result<Option<Call>> {
    Ok(Some(match number {
        opnum::SAMR_OPEN_USER => Call::OpenUser(from.handle()?, rid_to_open(from)?),
        opnum::SAMR_OPEN_GROUP => Call::OpenGroup(from.handle()?, rid_to_open(from)?),
        opnum::SAMR_OPEN_ALIAS => Call::OpenAlias(from.handle()?, rid_to_open(from)?),
        opnum::SAMR_QUERY_INFORMATION_USER | opnum::SAMR_QUERY_INFORMATION_USER_2 => {
            Call::QueryUser(from.handle()?, UserInformationClass(from.u16()?))
        }
        opnum::SAMR_QUERY_INFORMATION_GROUP => Call::QueryGroup(from.handle()?, GroupInformationClass(from.u16()?)),
        opnum::SAMR_QUERY_INFORMATION_ALIAS => Call::QueryAlias(from.handle()?, AliasInformationClass(from.u16()?)),
        opnum::SAMR_GET_GROUPS_FOR_USER => Call::GetGroupsForUser(from.handle()?),
        opnum::SAMR_GET_MEMBERS_IN_GROUP => Call::GetMembersInGroup(from.handle()?),
        opnum::SAMR_GET_MEMBERS_IN_ALIAS => Call::GetMembersInAlias(from.handle()?),
        opnum::SAMR_GET_USER_DOMAIN_PASSWORD_INFORMATION => Call::GetUserDomainPasswordInformation(from.handle()?),
        opnum::SAMR_RID_TO_SID => Call::RidToSid(from.handle()?, from.u32()?),
        _ => return Ok(None),
    }))
}

/// Recognizes calls that no client may make.
fn change(number: u16) -> Option<Call> {
    Some(Call::Change(match number {
        // SamrSet..., SamrAdd... and SamrRemove... have no results.
        2 | 9 | 21 | 22 | 24 | 26 | 29 | 31 | 32 | 37 | 45 | 52 | 53 | 58 => 0,
        // SamrDeleteGroup, SamrDeleteAlias and SamrDeleteUser: a handle.
        23 | 30 | 35 => 5,
        // SamrCreateGroupInDomain, SamrCreateUserInDomain and SamrCreateAliasInDomain: a handle and a RID.
        10 | 12 | 14 => 6,
        // SamrCreateUser2InDomain: also the granted access.
        50 => 7,
        _ => return None,
    }))
}

fn enumeration(from: &mut Decoder<'_>) -> Result<Enumeration> {
    Ok(Enumeration { context: from.u32()?, length: from.u32()? })
}

/// Reads the RID to open. The requested access is ignored, because a handle allows queries only.
fn rid_to_open(from: &mut Decoder<'_>) -> Result<u32> {
    let _access = from.u32()?;
    from.u32()
}

/// Reads the count of a list and the header of the conformant varying array after it.
fn varying(from: &mut Decoder<'_>) -> Result<usize> {
    let count = from.count(MOST_LOOKED_UP)?;
    let (most, offset, actual) = (from.u32()?, from.u32()?, from.u32()?);
    let fits = offset == 0 && actual as usize == count && actual <= most;
    if fits { Ok(count) } else { Err(Malformed::Value) }
}

/// Reads a SAMPR_PSID_ARRAY (2.2.7.5).
fn sids(from: &mut Decoder<'_>) -> Result<Vec<Sid>> {
    let count = from.count(MOST_LOOKED_UP)?;
    if !from.pointer()? {
        return if count == 0 { Ok(Vec::new()) } else { Err(Malformed::Value) };
    }
    if from.count(MOST_LOOKED_UP)? != count {
        return Err(Malformed::Value);
    }
    let there = (0..count).map(|_| from.pointer()).collect::<Result<Vec<_>>>()?;
    if there.contains(&false) {
        return Err(Malformed::Value);
    }
    there.iter().map(|_| from.sid()).collect()
}

fn change_password(from: &mut Decoder<'_>) -> Result<ChangePassword> {
    if from.pointer()? && from.unicode()? {
        from.string()?;
    }
    let user = if from.unicode()? { from.string()? } else { String::new() };
    let new_password = if from.pointer()? { Some(from.array()?) } else { None };
    let old_hash = if from.pointer()? { Some(from.array()?) } else { None };
    Ok(ChangePassword { user, new_password, old_hash })
}

#[cfg(test)]
mod tests {
    use super::super::ndr::Encoder;
    use super::*;

    /// The arguments of a lookup of `count` elements, `actual` of which are sent.
    fn look_up(count: u32, (most, offset, actual): (u32, u32, u32)) -> Vec<u8> {
        let mut out = Encoder::default();
        out.array(4, &[9; 20]);
        [count, most, offset, actual].into_iter().chain(500..500 + actual).for_each(|number| out.u32(number));
        out.into_bytes()
    }

    #[test]
    fn lookup_lists_have_the_length_that_they_declare() {
        let rids = |stub: &[u8]| match Call::decode(opnum::SAMR_LOOKUP_IDS_IN_DOMAIN, stub) {
            Ok(Some(Call::LookupIds(handle, rids))) => Some(rids).filter(|_| handle == [9; 20]),
            _ => None,
        };
        assert_eq!(rids(&look_up(2, (1000, 0, 2))), Some(vec![500, 501]));
        assert_eq!(rids(&look_up(0, (1000, 0, 0))), Some(Vec::new()));
        for (count, array) in [(3, (1000, 0, 2)), (2, (1, 0, 2)), (2, (1000, 1, 2)), (1025, (1025, 0, 1025))] {
            assert_eq!(rids(&look_up(count, array)), None, "{count} {array:?}");
        }
    }

    #[test]
    fn sids_are_read_as_they_are_written() {
        let mut out = Encoder::default();
        out.array(4, &[9; 20]);
        out.u32(1);
        out.pointer();
        out.u32(1);
        out.pointer();
        out.sid(&Sid::BUILTIN_USERS);
        let stub = out.into_bytes();
        let number = opnum::SAMR_GET_ALIAS_MEMBERSHIP;
        let Ok(Some(Call::GetAliasMembership(_, sids))) = Call::decode(number, &stub) else {
            panic!("not a known call")
        };
        assert_eq!(sids, [Sid::BUILTIN_USERS]);
        for length in 0..stub.len() {
            assert!(Call::decode(number, &stub[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_change_is_read_as_samba_sends_it() {
        let mut out = Encoder::default();
        out.pointer();
        out.unicode("\\\\server");
        out.text("\\\\server");
        out.unicode("alice");
        out.text("alice");
        out.pointer();
        out.array(1, &[7; SEALED_PASSWORD]);
        out.pointer();
        out.array(1, &[8; 16]);
        out.u32(1);
        let stub = out.into_bytes();
        let Ok(Some(Call::ChangePassword(change))) = Call::decode(55, &stub) else {
            panic!("not a valid password change")
        };
        assert_eq!((change.user.as_str(), change.new_password), ("alice", Some([7; SEALED_PASSWORD])));
        assert_eq!(change.old_hash, Some([8; 16]));
        for length in 0..stub.len() - 4 {
            assert!(Call::decode(55, &stub[..length]).is_err(), "{length}");
        }
        assert!(Call::decode(3, &stub).is_ok_and(|call| call.is_none()));
        assert!(matches!(Call::decode(50, &[]), Ok(Some(Call::Change(7)))));
        assert_eq!(password_information_response(7), [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
