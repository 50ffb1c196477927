//! The domain controller's logon information in a ticket: `KERB_VALIDATION_INFO` ([MS-PAC] 2.5), serialized by
//! [MS-RPCE] 2.2.6.1.
//!
//! The user's identity and groups are kept; times, paths and logon counters are not. The information is authentic only
//! if the signatures of the surrounding PAC are valid, which the Kerberos library checks.

use crate::bytes::{Malformed, Result};
use crate::dtyp::Sid;
use crate::rpc::ndr::Decoder;

/// Common and private header of a serialized type.
const HEADERS: usize = 16;
/// `Version` 1, `Endianness` little, `CommonHeaderLength` 8.
const COMMON_HEADER: [u8; 4] = [1, 0x10, 8, 0];

crate::flags::flags! {
    /// `UserFlags`, as far as Kerberos sets them.
    pub struct UserFlags(u32) {
        /// `D`: `ExtraSids` is present.
        EXTRA_SIDS = 0x20;
        /// `H`: `ResourceGroupIds` is present.
        RESOURCE_GROUPS = 0x200;
    }
}

/// A user's identity as asserted by a domain controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogonInfo {
    /// `EffectiveName`: the name of the user account.
    pub effective_name: String,
    /// `FullName`, for display; often empty.
    pub full_name: String,
    /// `LogonDomainName`: the NetBIOS name of the user account's domain.
    pub logon_domain_name: String,
    /// `UserId` in `LogonDomainId`, or the first of `ExtraSids` if that is 0.
    pub user: Sid,
    /// `PrimaryGroupId` in `LogonDomainId`.
    pub primary_group: Sid,
    /// `GroupIds`, `ExtraSids` and `ResourceGroupIds`, in this order, without `user` and `primary_group`.
    pub groups: Vec<Sid>,
}

impl LogonInfo {
    /// Decodes the buffer of type 1 of a PAC.
    pub fn decode(bytes: &[u8]) -> Result<LogonInfo> {
        let body = bytes.get(HEADERS..).filter(|_| bytes.starts_with(&COMMON_HEADER)).ok_or(Malformed::Structure)?;
        let mut ndr = Decoder::new(body);
        if !ndr.pointer()? {
            return Err(Malformed::Structure);
        }
        Fixed::decode(&mut ndr)?.complete(&mut ndr)
    }

    /// All SIDs of the user, the user's own first.
    pub fn sids(&self) -> impl Iterator<Item = Sid> + '_ {
        [self.user, self.primary_group].into_iter().chain(self.groups.iter().copied())
    }
}

/// The members of the structure itself that are needed to decode the rest.
struct Fixed {
    /// Which of `EffectiveName` to `HomeDirectoryDrive` are non-null pointers.
    strings: [bool; 6],
    user: u32,
    primary_group: u32,
    groups: Option<u32>,
    flags: UserFlags,
    /// `LogonServer` and `LogonDomainName`.
    logon_strings: [bool; 2],
    domain: bool,
    extra: Option<u32>,
    resource_domain: bool,
    resource_groups: Option<u32>,
}

impl Fixed {
    fn decode(ndr: &mut Decoder<'_>) -> Result<Fixed> {
        // Six timestamps.
        ndr.bytes(48)?;
        let mut strings = [false; 6];
        for there in &mut strings {
            *there = ndr.unicode()?;
        }
        // The two 16-bit counters.
        ndr.u32()?;
        let (user, primary_group) = (ndr.u32()?, ndr.u32()?);
        let groups = array(ndr)?;
        let flags = UserFlags(ndr.u32()?);
        // `UserSessionKey`.
        ndr.bytes(16)?;
        let logon_strings = [ndr.unicode()?, ndr.unicode()?];
        let domain = ndr.pointer()?;
        // `Reserved1` to `Reserved3`.
        ndr.bytes(40)?;
        let extra = array(ndr)?;
        let resource_domain = ndr.pointer()?;
        let resource_groups = array(ndr)?;
        Ok(Fixed {
            strings,
            user,
            primary_group,
            groups,
            flags,
            logon_strings,
            domain,
            extra,
            resource_domain,
            resource_groups,
        })
    }

    /// Decodes the referents, in the order of the pointers.
    fn complete(self, ndr: &mut Decoder<'_>) -> Result<LogonInfo> {
        let [mut effective_name, mut full_name] = [String::new(), String::new()];
        for (position, there) in self.strings.into_iter().enumerate() {
            let text = if there { ndr.string()? } else { continue };
            match position {
                0 => effective_name = text,
                1 => full_name = text,
                _ => {}
            }
        }
        let groups = memberships(ndr, self.groups)?;
        let mut logon_domain_name = String::new();
        for there in self.logon_strings {
            logon_domain_name = if there { ndr.string()? } else { String::new() };
        }
        let domain = if self.domain { ndr.sid()? } else { return Err(Malformed::Structure) };
        let extra = extra_sids(ndr, self.extra)?;
        let resource_domain = if self.resource_domain { Some(ndr.sid()?) } else { None };
        let resource_groups = memberships(ndr, self.resource_groups)?;

        let within = |domain: Sid, rid: u32| domain.with_rid(rid).ok_or(Malformed::Value);
        let mut extra = extra.into_iter().filter(|_| self.flags.contains(UserFlags::EXTRA_SIDS));
        let user = match self.user {
            0 => extra.next().ok_or(Malformed::Value)?,
            rid => within(domain, rid)?,
        };
        let primary_group = within(domain, self.primary_group)?;
        let mut all = groups.into_iter().map(|rid| within(domain, rid)).collect::<Result<Vec<Sid>>>()?;
        all.extend(extra);
        if let (Some(domain), true) = (resource_domain, self.flags.contains(UserFlags::RESOURCE_GROUPS)) {
            for rid in resource_groups {
                all.push(within(domain, rid)?);
            }
        }
        all.retain(|group| *group != user && *group != primary_group);
        Ok(LogonInfo { effective_name, full_name, logon_domain_name, user, primary_group, groups: all })
    }
}

/// Reads a count and the pointer to as many elements; `None` for a null pointer.
fn array(ndr: &mut Decoder<'_>) -> Result<Option<u32>> {
    let count = ndr.u32()?;
    match ndr.pointer()? {
        true => Ok(Some(count)),
        false if count == 0 => Ok(None),
        false => Err(Malformed::Value),
    }
}

/// Reads the elements of a conformant array, two words each. Memory is allocated only for elements that are present.
fn elements<'a>(ndr: &mut Decoder<'a>, count: u32) -> Result<impl Iterator<Item = (u32, u32)> + 'a> {
    if ndr.u32()? != count {
        return Err(Malformed::Value);
    }
    let bytes = ndr.bytes((count as usize).checked_mul(8).ok_or(Malformed::Value)?)?;
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok(bytes.chunks_exact(8).map(move |pair| (word(&pair[..4]), word(&pair[4..]))))
}

/// Reads `GROUP_MEMBERSHIP`s and returns the RIDs.
fn memberships(ndr: &mut Decoder<'_>, count: Option<u32>) -> Result<Vec<u32>> {
    let Some(count) = count else { return Ok(Vec::new()) };
    Ok(elements(ndr, count)?.map(|(rid, _attributes)| rid).collect())
}

/// Reads `KERB_SID_AND_ATTRIBUTES` and returns the SIDs.
fn extra_sids(ndr: &mut Decoder<'_>, count: Option<u32>) -> Result<Vec<Sid>> {
    let Some(count) = count else { return Ok(Vec::new()) };
    let pointers: Vec<bool> = elements(ndr, count)?.map(|(referent, _attributes)| referent != 0).collect();
    pointers.into_iter().filter(|there| *there).map(|_| ndr.sid()).collect()
}

#[cfg(test)]
mod tests;
