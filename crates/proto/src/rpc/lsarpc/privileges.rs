//! Privileges and the accounts that have them ([MS-LSAD] 3.1.4.5, 3.1.4.8).

use super::super::ndr::{Arguments, ContextHandle, Decoder, Encoder};
use super::results::array_head;
use crate::bytes::Result;
use crate::dtyp::Sid;
use crate::status::Status;

/// A privilege ([MS-LSAD] 3.1.1.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Privilege {
    /// The low part of its LUID; the high part is 0.
    pub luid: u32,
    /// The name.
    pub name: &'static str,
    /// The name for display.
    pub display: &'static str,
}

/// The arguments of LsarEnumeratePrivileges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnumeratePrivileges {
    /// The policy.
    pub handle: ContextHandle,
    /// EnumerationContext: the number of entries that earlier calls have returned.
    pub from: u32,
    /// PreferedMaximumLength, in bytes.
    pub length: u32,
}

impl Arguments for EnumeratePrivileges {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(EnumeratePrivileges { handle: from.handle()?, from: from.u32()?, length: from.u32()? })
    }
}

/// A handle and a SID: the arguments of LsarOpenAccount and LsarEnumerateAccountRights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandleAndSid {
    /// The policy.
    pub handle: ContextHandle,
    /// The account.
    pub sid: Sid,
}

impl Arguments for HandleAndSid {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(HandleAndSid { handle: from.handle()?, sid: from.sid()? })
    }
}

/// A handle and a name: the arguments of LsarLookupPrivilegeValue and LsarLookupPrivilegeDisplayName, whose language
/// does not matter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandleAndName {
    /// The policy.
    pub handle: ContextHandle,
    /// The name of the privilege.
    pub name: String,
}

impl Arguments for HandleAndName {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let handle = from.handle()?;
        Ok(HandleAndName { handle, name: if from.unicode()? { from.string()? } else { String::new() } })
    }
}

/// The arguments of LsarEnumerateAccountsWithUserRight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumerateAccountsWithUserRight {
    /// The policy.
    pub handle: ContextHandle,
    /// The right; `None` for all accounts that have rights.
    pub right: Option<String>,
}

impl Arguments for EnumerateAccountsWithUserRight {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let handle = from.handle()?;
        let right = if from.pointer()? && from.unicode()? { Some(from.string()?) } else { None };
        Ok(EnumerateAccountsWithUserRight { handle, right })
    }
}

/// A handle and a LUID: the arguments of LsarLookupPrivilegeName.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandleAndLuid {
    /// The policy.
    pub handle: ContextHandle,
    /// The LUID.
    pub luid: u64,
}

impl Arguments for HandleAndLuid {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, low, high) = (from.handle()?, from.u32()?, from.u32()?);
        Ok(HandleAndLuid { handle, luid: u64::from(high) << 32 | u64::from(low) })
    }
}

/// The results of LsarEnumeratePrivileges: an LSAPR_PRIVILEGE_ENUM_BUFFER, and where to continue.
pub fn privileges_response(next: u32, privileges: &[Privilege], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(next);
    array_head(privileges.len(), &mut out);
    for privilege in privileges {
        out.unicode(privilege.name);
        luid(privilege, &mut out);
    }
    privileges.iter().for_each(|privilege| out.text(privilege.name));
    out.u32(status.0);
    out.into_bytes()
}

fn luid(privilege: &Privilege, out: &mut Encoder) {
    out.u32(privilege.luid);
    out.u32(0);
}

/// The results of LsarEnumeratePrivilegesAccount: an LSAPR_PRIVILEGE_SET.
pub fn privilege_set_response(privileges: &[Privilege]) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = privileges.len() as u32;
    out.pointer();
    // The size of the array comes before the structure that ends with it.
    [count, count, 0].into_iter().for_each(|number| out.u32(number));
    for privilege in privileges {
        luid(privilege, &mut out);
        out.u32(0);
    }
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

/// The results of LsarEnumerateAccountRights: an LSAPR_USER_RIGHT_SET.
pub fn rights_response(privileges: &[Privilege]) -> Vec<u8> {
    let mut out = Encoder::default();
    array_head(privileges.len(), &mut out);
    privileges.iter().for_each(|privilege| out.unicode(privilege.name));
    privileges.iter().for_each(|privilege| out.text(privilege.name));
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

/// The results of LsarEnumerateAccountsWithUserRight.
pub fn accounts_with_right_response(sids: &[Sid], status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    array_head(sids.len(), &mut out);
    sids.iter().for_each(|_| out.pointer());
    sids.iter().for_each(|sid| out.sid(sid));
    out.u32(status.0);
    out.into_bytes()
}

/// The results of LsarLookupPrivilegeValue.
pub fn privilege_value_response(privilege: Option<&Privilege>, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(privilege.map_or(0, |privilege| privilege.luid));
    out.u32(0);
    out.u32(status.0);
    out.into_bytes()
}

/// The results of LsarLookupPrivilegeName.
pub fn privilege_name_response(name: Option<&str>, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    named(name, &mut out);
    out.u32(status.0);
    out.into_bytes()
}

/// The results of LsarLookupPrivilegeDisplayName, in English.
pub fn privilege_display_name_response(name: Option<&str>, status: Status) -> Vec<u8> {
    const ENGLISH: u16 = 0x409;
    let mut out = Encoder::default();
    named(name, &mut out);
    out.u16(if name.is_some() { ENGLISH } else { 0 });
    out.u32(status.0);
    out.into_bytes()
}

fn named(name: Option<&str>, out: &mut Encoder) {
    match name {
        Some(name) => {
            out.pointer();
            out.whole_unicode(name);
        }
        None => out.null(),
    }
}

/// The results of LsarGetSystemAccessAccount.
pub fn system_access_response(access: u32, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(access);
    out.u32(status.0);
    out.into_bytes()
}
