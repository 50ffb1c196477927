//! The local security authority: translation between SIDs and names ([MS-LSAT] 3.1.4), the server's names and SID
//! ([MS-LSAD] 3.1.4.4), privileges and the accounts that have them (3.1.4.5, 3.1.4.8), and secrets (3.1.4.6).
//!
//! Deliberately not implemented: calls that change the policy, trusts, and the calls that only domain controllers
//! serve (LsarLookupSids3, LsarLookupNames4).

mod privileges;
mod results;
mod rights;
mod secrets;

use super::ndr::{Arguments, ContextHandle, Decoder};
use super::pdu::SyntaxId;
use crate::bytes::{Malformed, Result};
use crate::dtyp::{Guid, Sid};

pub use privileges::*;
pub use results::*;
pub use rights::*;
pub use secrets::*;

/// 12345778-1234-abcd-ef00-0123456789ab, version 0.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x1234_5778, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab]),
    version: 0,
};

/// The maximum number of names per call ([MS-LSAT] 3.1.4.5).
pub const MOST_NAMES: usize = 1000;
/// The maximum number of SIDs per call. It is lower than the 20480 of [MS-LSAT] 2.2.18, because each of them costs a
/// lookup.
pub const MOST_SIDS: usize = 5000;

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const LSAR_CLOSE: u16 = 0;
    pub const LSAR_DELETE: u16 = 1;
    pub const LSAR_ENUMERATE_PRIVILEGES: u16 = 2;
    pub const LSAR_QUERY_SECURITY_OBJECT: u16 = 3;
    pub const LSAR_OPEN_POLICY: u16 = 6;
    pub const LSAR_QUERY_INFORMATION_POLICY: u16 = 7;
    pub const LSAR_CREATE_ACCOUNT: u16 = 10;
    pub const LSAR_ENUMERATE_ACCOUNTS: u16 = 11;
    pub const LSAR_ENUMERATE_TRUSTED_DOMAINS: u16 = 13;
    pub const LSAR_LOOKUP_NAMES: u16 = 14;
    pub const LSAR_LOOKUP_SIDS: u16 = 15;
    pub const LSAR_CREATE_SECRET: u16 = 16;
    pub const LSAR_OPEN_ACCOUNT: u16 = 17;
    pub const LSAR_ENUMERATE_PRIVILEGES_ACCOUNT: u16 = 18;
    pub const LSAR_ADD_PRIVILEGES_TO_ACCOUNT: u16 = 19;
    pub const LSAR_REMOVE_PRIVILEGES_FROM_ACCOUNT: u16 = 20;
    pub const LSAR_GET_SYSTEM_ACCESS_ACCOUNT: u16 = 23;
    pub const LSAR_SET_SYSTEM_ACCESS_ACCOUNT: u16 = 24;
    pub const LSAR_OPEN_SECRET: u16 = 28;
    pub const LSAR_SET_SECRET: u16 = 29;
    pub const LSAR_QUERY_SECRET: u16 = 30;
    pub const LSAR_LOOKUP_PRIVILEGE_VALUE: u16 = 31;
    pub const LSAR_LOOKUP_PRIVILEGE_NAME: u16 = 32;
    pub const LSAR_LOOKUP_PRIVILEGE_DISPLAY_NAME: u16 = 33;
    pub const LSAR_DELETE_OBJECT: u16 = 34;
    pub const LSAR_ENUMERATE_ACCOUNTS_WITH_USER_RIGHT: u16 = 35;
    pub const LSAR_ENUMERATE_ACCOUNT_RIGHTS: u16 = 36;
    pub const LSAR_ADD_ACCOUNT_RIGHTS: u16 = 37;
    pub const LSAR_REMOVE_ACCOUNT_RIGHTS: u16 = 38;
    pub const LSAR_STORE_PRIVATE_DATA: u16 = 42;
    pub const LSAR_RETRIEVE_PRIVATE_DATA: u16 = 43;
    pub const LSAR_OPEN_POLICY_2: u16 = 44;
    pub const LSAR_GET_USER_NAME: u16 = 45;
    pub const LSAR_QUERY_INFORMATION_POLICY_2: u16 = 46;
    pub const LSAR_ENUMERATE_TRUSTED_DOMAINS_EX: u16 = 50;
    pub const LSAR_QUERY_DOMAIN_INFORMATION_POLICY: u16 = 53;
    pub const LSAR_LOOKUP_SIDS_2: u16 = 57;
    pub const LSAR_LOOKUP_NAMES_2: u16 = 58;
    pub const LSAR_LOOKUP_NAMES_3: u16 = 68;
    pub const LSAR_LOOKUP_SIDS_3: u16 = 76;
    pub const LSAR_LOOKUP_NAMES_4: u16 = 77;
}

/// SID_NAME_USE ([MS-LSAT] 2.2.13): the type of the principal that a SID identifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidNameUse(pub u16);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl SidNameUse {
    pub const USER: SidNameUse = SidNameUse(1);
    pub const GROUP: SidNameUse = SidNameUse(2);
    pub const DOMAIN: SidNameUse = SidNameUse(3);
    pub const ALIAS: SidNameUse = SidNameUse(4);
    pub const WELL_KNOWN_GROUP: SidNameUse = SidNameUse(5);
    pub const DELETED_ACCOUNT: SidNameUse = SidNameUse(6);
    pub const INVALID: SidNameUse = SidNameUse(7);
    pub const UNKNOWN: SidNameUse = SidNameUse(8);
    pub const COMPUTER: SidNameUse = SidNameUse(9);
}

/// LSAP_LOOKUP_LEVEL ([MS-LSAT] 2.2.16): the scope of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupLevel(pub u16);

impl LookupLevel {
    /// All sources that a domain member consults; used by workstations.
    pub const WORKSTATION: LookupLevel = LookupLevel(1);
    /// The highest defined level.
    pub const LAST: LookupLevel = LookupLevel(7);
}

/// POLICY_INFORMATION_CLASS ([MS-LSAD] 2.2.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub struct PolicyInformationClass(pub u16);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl PolicyInformationClass {
    pub const PRIMARY_DOMAIN: PolicyInformationClass = PolicyInformationClass(3);
    pub const ACCOUNT_DOMAIN: PolicyInformationClass = PolicyInformationClass(5);
    pub const LSA_SERVER_ROLE: PolicyInformationClass = PolicyInformationClass(6);
    pub const DNS_DOMAIN: PolicyInformationClass = PolicyInformationClass(12);
    pub const LOCAL_ACCOUNT_DOMAIN: PolicyInformationClass = PolicyInformationClass(14);
}

/// The three generations of the lookup calls, which differ in the detail of their results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generation {
    /// LsarLookupNames and LsarLookupSids.
    First,
    /// LsarLookupNames2 and LsarLookupSids2: with flags.
    Second,
    /// LsarLookupNames3: whole SIDs.
    Third,
}

/// The arguments of LsarLookupNames and its later generations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookupNames {
    /// The policy.
    pub handle: ContextHandle,
    /// The names.
    pub names: Vec<String>,
    /// The scope of the lookup.
    pub level: LookupLevel,
}

impl Arguments for LookupNames {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let handle = from.handle()?;
        let count = from.count(MOST_NAMES)?;
        if from.count(MOST_NAMES)? != count {
            return Err(Malformed::Value);
        }
        let there = (0..count).map(|_| from.unicode()).collect::<Result<Vec<_>>>()?;
        let names = there.into_iter().map(|there| if there { from.string() } else { Ok(String::new()) });
        let names = names.collect::<Result<Vec<_>>>()?;
        skip_answers(from)?;
        Ok(LookupNames { handle, names, level: LookupLevel(from.u16()?) })
    }
}

/// The arguments of LsarLookupSids and its second generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookupSids {
    /// The policy.
    pub handle: ContextHandle,
    /// The SIDs.
    pub sids: Vec<Sid>,
    /// The scope of the lookup.
    pub level: LookupLevel,
}

impl Arguments for LookupSids {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let handle = from.handle()?;
        let count = from.count(MOST_SIDS)?;
        let mut sids = Vec::new();
        if from.pointer()? {
            if from.count(MOST_SIDS)? != count {
                return Err(Malformed::Value);
            }
            // A null SID is invalid ([MS-LSAT] 2.2.17).
            let there = (0..count).map(|_| from.pointer()).collect::<Result<Vec<_>>>()?;
            if there.contains(&false) {
                return Err(Malformed::Value);
            }
            sids = there.iter().map(|_| from.sid()).collect::<Result<Vec<_>>>()?;
        } else if count != 0 {
            return Err(Malformed::Value);
        }
        skip_answers(from)?;
        Ok(LookupSids { handle, sids, level: LookupLevel(from.u16()?) })
    }
}

/// The relevant arguments of LsarGetUserName.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetUserName {
    /// The domain name is requested as well.
    pub with_domain: bool,
}

impl Arguments for GetUserName {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        from.optional_string()?;
        // UserName: a reference to a pointer, which is null in a request.
        if from.pointer()? && from.unicode()? {
            from.string()?;
        }
        Ok(GetUserName { with_domain: from.pointer()? })
    }
}

impl Arguments for PolicyInformationClass {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(PolicyInformationClass(from.u16()?))
    }
}

/// Skips the result array, which clients send empty.
fn skip_answers(from: &mut Decoder<'_>) -> Result<()> {
    from.u32()?;
    if from.pointer()? && from.u32()? != 0 { Err(Malformed::Value) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
