//! The security accounts manager ([MS-SAMR] 3.1.5): listing, querying and changing users, groups and aliases, and
//! changing one's own password.
//!
//! Deliberately not implemented: password hashes, which are never disclosed; security descriptors of user accounts.

mod changes;
mod connect;
mod lists;
mod results;
mod user;

use super::ndr::{Arguments, ContextHandle, Decoder};
use super::pdu::SyntaxId;
use crate::auth::ntlm::change::SEALED_PASSWORD;
use crate::bytes::{Malformed, Result};
use crate::dtyp::{Guid, Sid};

pub use changes::*;
pub use connect::*;
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
    pub const SAMR_SET_SECURITY_OBJECT: u16 = 2;
    pub const SAMR_LOOKUP_DOMAIN_IN_SAM_SERVER: u16 = 5;
    pub const SAMR_ENUMERATE_DOMAINS_IN_SAM_SERVER: u16 = 6;
    pub const SAMR_OPEN_DOMAIN: u16 = 7;
    pub const SAMR_QUERY_INFORMATION_DOMAIN: u16 = 8;
    pub const SAMR_SET_INFORMATION_DOMAIN: u16 = 9;
    pub const SAMR_CREATE_GROUP_IN_DOMAIN: u16 = 10;
    pub const SAMR_ENUMERATE_GROUPS_IN_DOMAIN: u16 = 11;
    pub const SAMR_CREATE_USER_IN_DOMAIN: u16 = 12;
    pub const SAMR_ENUMERATE_USERS_IN_DOMAIN: u16 = 13;
    pub const SAMR_CREATE_ALIAS_IN_DOMAIN: u16 = 14;
    pub const SAMR_ENUMERATE_ALIASES_IN_DOMAIN: u16 = 15;
    pub const SAMR_GET_ALIAS_MEMBERSHIP: u16 = 16;
    pub const SAMR_LOOKUP_NAMES_IN_DOMAIN: u16 = 17;
    pub const SAMR_LOOKUP_IDS_IN_DOMAIN: u16 = 18;
    pub const SAMR_OPEN_GROUP: u16 = 19;
    pub const SAMR_QUERY_INFORMATION_GROUP: u16 = 20;
    pub const SAMR_SET_INFORMATION_GROUP: u16 = 21;
    pub const SAMR_ADD_MEMBER_TO_GROUP: u16 = 22;
    pub const SAMR_DELETE_GROUP: u16 = 23;
    pub const SAMR_REMOVE_MEMBER_FROM_GROUP: u16 = 24;
    pub const SAMR_GET_MEMBERS_IN_GROUP: u16 = 25;
    pub const SAMR_SET_MEMBER_ATTRIBUTES_OF_GROUP: u16 = 26;
    pub const SAMR_OPEN_ALIAS: u16 = 27;
    pub const SAMR_QUERY_INFORMATION_ALIAS: u16 = 28;
    pub const SAMR_SET_INFORMATION_ALIAS: u16 = 29;
    pub const SAMR_DELETE_ALIAS: u16 = 30;
    pub const SAMR_ADD_MEMBER_TO_ALIAS: u16 = 31;
    pub const SAMR_REMOVE_MEMBER_FROM_ALIAS: u16 = 32;
    pub const SAMR_GET_MEMBERS_IN_ALIAS: u16 = 33;
    pub const SAMR_OPEN_USER: u16 = 34;
    pub const SAMR_DELETE_USER: u16 = 35;
    pub const SAMR_QUERY_INFORMATION_USER: u16 = 36;
    pub const SAMR_SET_INFORMATION_USER: u16 = 37;
    pub const SAMR_GET_GROUPS_FOR_USER: u16 = 39;
    pub const SAMR_QUERY_DISPLAY_INFORMATION: u16 = 40;
    pub const SAMR_GET_USER_DOMAIN_PASSWORD_INFORMATION: u16 = 44;
    pub const SAMR_REMOVE_MEMBER_FROM_FOREIGN_DOMAIN: u16 = 45;
    pub const SAMR_QUERY_INFORMATION_DOMAIN_2: u16 = 46;
    pub const SAMR_QUERY_INFORMATION_USER_2: u16 = 47;
    pub const SAMR_QUERY_DISPLAY_INFORMATION_2: u16 = 48;
    pub const SAMR_CREATE_USER_2_IN_DOMAIN: u16 = 50;
    pub const SAMR_QUERY_DISPLAY_INFORMATION_3: u16 = 51;
    pub const SAMR_ADD_MULTIPLE_MEMBERS_TO_ALIAS: u16 = 52;
    pub const SAMR_REMOVE_MULTIPLE_MEMBERS_FROM_ALIAS: u16 = 53;
    pub const SAMR_UNICODE_CHANGE_PASSWORD_USER_2: u16 = 55;
    pub const SAMR_GET_DOMAIN_PASSWORD_INFORMATION: u16 = 56;
    pub const SAMR_CONNECT_2: u16 = 57;
    pub const SAMR_SET_INFORMATION_USER_2: u16 = 58;
    pub const SAMR_CONNECT_4: u16 = 62;
    pub const SAMR_CONNECT_5: u16 = 64;
    pub const SAMR_RID_TO_SID: u16 = 65;
    pub const SAMR_UNICODE_CHANGE_PASSWORD_USER_4: u16 = 73;
}

/// The maximum number of names, RIDs or SIDs per call: 1000 according to 3.1.5.11.2, 1024 SIDs according to 2.2.7.5.
pub const MOST_LOOKED_UP: usize = 1024;

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

impl Arguments for Enumeration {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(Enumeration { context: from.u32()?, length: from.u32()? })
    }
}

impl Arguments for DisplayQuery {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let class = DisplayInformation(from.u16()?);
        Ok(DisplayQuery { class, index: from.u32()?, count: from.u32()?, length: from.u32()? })
    }
}

impl Arguments for ChangePassword {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        if from.pointer()? && from.unicode()? {
            from.string()?;
        }
        let user = if from.unicode()? { from.string()? } else { String::new() };
        let new_password = if from.pointer()? { Some(from.array()?) } else { None };
        let old_hash = if from.pointer()? { Some(from.array()?) } else { None };
        Ok(ChangePassword { user, new_password, old_hash })
    }
}

/// The arguments of SamrLookupDomainInSamServer.
pub struct LookupDomain {
    /// The server.
    pub handle: ContextHandle,
    /// The name of the domain.
    pub name: String,
}

impl Arguments for LookupDomain {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let handle = from.handle()?;
        Ok(LookupDomain { handle, name: if from.unicode()? { from.string()? } else { String::new() } })
    }
}

/// The relevant arguments of SamrOpenDomain. The requested access is ignored, because a handle allows queries only.
pub struct OpenDomain {
    /// The server.
    pub handle: ContextHandle,
    /// The domain.
    pub sid: Sid,
}

impl Arguments for OpenDomain {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, _access) = (from.handle()?, from.u32()?);
        Ok(OpenDomain { handle, sid: from.sid()? })
    }
}

/// The relevant arguments of SamrOpenUser, SamrOpenGroup and SamrOpenAlias. The requested access is ignored.
pub struct OpenByRid {
    /// The domain.
    pub handle: ContextHandle,
    /// The RID of the object.
    pub rid: u32,
}

impl Arguments for OpenByRid {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, _access) = (from.handle()?, from.u32()?);
        Ok(OpenByRid { handle, rid: from.u32()? })
    }
}

/// The arguments of SamrEnumerateUsersInDomain.
pub struct EnumerateUsers {
    /// The domain.
    pub handle: ContextHandle,
    /// The position and the maximum length.
    pub from: Enumeration,
    /// The flags that listed accounts have.
    pub control: AccountControl,
}

impl Arguments for EnumerateUsers {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, context, control) = (from.handle()?, from.u32()?, AccountControl(from.u32()?));
        Ok(EnumerateUsers { handle, from: Enumeration { context, length: from.u32()? }, control })
    }
}

/// The arguments of SamrLookupNamesInDomain.
pub struct LookupNames {
    /// The domain.
    pub handle: ContextHandle,
    /// The names.
    pub names: Vec<String>,
}

impl Arguments for LookupNames {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, count) = (from.handle()?, varying(from)?);
        let there = (0..count).map(|_| from.unicode()).collect::<Result<Vec<_>>>()?;
        let names = there.into_iter().map(|there| if there { from.string() } else { Ok(String::new()) });
        Ok(LookupNames { handle, names: names.collect::<Result<_>>()? })
    }
}

/// The arguments of SamrLookupIdsInDomain.
pub struct LookupIds {
    /// The domain.
    pub handle: ContextHandle,
    /// The RIDs.
    pub rids: Vec<u32>,
}

impl Arguments for LookupIds {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, count) = (from.handle()?, varying(from)?);
        Ok(LookupIds { handle, rids: (0..count).map(|_| from.u32()).collect::<Result<_>>()? })
    }
}

/// The arguments of SamrGetAliasMembership.
pub struct GetAliasMembership {
    /// The domain.
    pub handle: ContextHandle,
    /// The members.
    pub sids: Vec<Sid>,
}

impl Arguments for GetAliasMembership {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(GetAliasMembership { handle: from.handle()?, sids: sids(from)? })
    }
}

/// Implements [`Arguments`] for information classes.
macro_rules! class_arguments {
    ($($class:ident),*) => {
        $(impl Arguments for $class {
            fn read(from: &mut Decoder<'_>) -> Result<Self> {
                Ok($class(from.u16()?))
            }
        })*
    };
}

class_arguments!(DomainInformationClass, UserInformationClass, GroupInformationClass, AliasInformationClass);

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
        let rids = |stub: &[u8]| {
            let asked = LookupIds::decode(stub).ok()?;
            Some(asked.rids).filter(|_| asked.handle == [9; 20])
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
        assert_eq!(GetAliasMembership::decode(&stub).map(|asked| asked.sids), Ok(vec![Sid::BUILTIN_USERS]));
        for length in 0..stub.len() {
            assert!(GetAliasMembership::decode(&stub[..length]).is_err(), "{length}");
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
        let Ok(change) = ChangePassword::decode(&stub) else { panic!("not a valid password change") };
        assert_eq!((change.user.as_str(), change.new_password), ("alice", Some([7; SEALED_PASSWORD])));
        assert_eq!(change.old_hash, Some([8; 16]));
        for length in 0..stub.len() - 4 {
            assert!(ChangePassword::decode(&stub[..length]).is_err(), "{length}");
        }
        assert_eq!(password_information_response(7), [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
