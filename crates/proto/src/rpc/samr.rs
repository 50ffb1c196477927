//! The security accounts manager ([MS-SAMR] 3.1.5): as much of it as it takes to change a password, and to ask what
//! passwords must be like.
//!
//! Left out on purpose: making and changing accounts, which `frevo user` does, and lists of accounts, which are nobody's
//! business who has not got the server.

use super::ndr::{ContextHandle, Decoder, Encoder};
use super::pdu::SyntaxId;
use crate::auth::ntlm::change::SEALED_PASSWORD;
use crate::bytes::Result;
use crate::dtyp::{Guid, Sid};
use crate::status::Status;

/// 12345778-1234-abcd-ef00-0123456789ac, version 1.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x1234_5778, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xac]),
    version: 1,
};

/// Calls by their number.
#[allow(missing_docs, reason = "the names are the specification's own")]
pub mod opnum {
    pub const SAMR_CONNECT: u16 = 0;
    pub const SAMR_CLOSE_HANDLE: u16 = 1;
    pub const SAMR_LOOKUP_DOMAIN_IN_SAM_SERVER: u16 = 5;
    pub const SAMR_ENUMERATE_DOMAINS_IN_SAM_SERVER: u16 = 6;
    pub const SAMR_OPEN_DOMAIN: u16 = 7;
    pub const SAMR_QUERY_INFORMATION_DOMAIN: u16 = 8;
    pub const SAMR_QUERY_INFORMATION_DOMAIN_2: u16 = 46;
    pub const SAMR_UNICODE_CHANGE_PASSWORD_USER_2: u16 = 55;
    pub const SAMR_GET_DOMAIN_PASSWORD_INFORMATION: u16 = 56;
    pub const SAMR_CONNECT_2: u16 = 57;
    pub const SAMR_CONNECT_4: u16 = 62;
    pub const SAMR_CONNECT_5: u16 = 64;
}

/// DOMAIN_INFORMATION_CLASS ([MS-SAMR] 2.2.3.16).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainInformationClass(pub u16);

impl DomainInformationClass {
    /// DomainPasswordInformation.
    pub const PASSWORD: DomainInformationClass = DomainInformationClass(1);
    /// DomainLockoutInformation.
    pub const LOCKOUT: DomainInformationClass = DomainInformationClass(12);
}

/// What passwords must be like, and when accounts are locked. Times are intervals of 100 ns, negative as OLD_LARGE_INTEGERs
/// are; the smallest number of all stands for "never".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainPolicy {
    /// Characters of a password.
    pub min_password_length: u16,
    /// Passwords that are remembered.
    pub password_history: u16,
    /// How long one is good.
    pub max_password_age: i64,
    /// How long one is kept.
    pub min_password_age: i64,
    /// How long an account is locked.
    pub lockout_duration: i64,
    /// How long wrong passwords are remembered.
    pub lockout_window: i64,
    /// How many lock the account; 0 never.
    pub lockout_threshold: u16,
}

/// A call with its arguments, as far as they matter.
pub enum Call {
    /// SamrConnect, SamrConnect2 and SamrConnect4. Whatever access is asked for, a handle is good for asking only.
    Connect,
    /// SamrConnect5, which answers a revision as well.
    Connect5,
    /// SamrCloseHandle.
    Close(ContextHandle),
    /// SamrLookupDomainInSamServer.
    LookupDomain(ContextHandle, String),
    /// SamrEnumerateDomainsInSamServer, from the given place on.
    EnumerateDomains(ContextHandle, u32),
    /// SamrOpenDomain.
    OpenDomain(ContextHandle, Sid),
    /// SamrQueryInformationDomain and its second generation.
    QueryDomain(ContextHandle, DomainInformationClass),
    /// SamrUnicodeChangePasswordUser2.
    ChangePassword(Box<ChangePassword>),
    /// SamrGetDomainPasswordInformation.
    GetDomainPasswordInformation,
}

/// SamrUnicodeChangePasswordUser2 ([MS-SAMR] 3.1.5.10.3). What it has of LM hashes is not looked at.
pub struct ChangePassword {
    /// Whose password.
    pub user: String,
    /// NewPasswordEncryptedWithOldNt; not there where a client knows LM only.
    pub new_password: Option<[u8; SEALED_PASSWORD]>,
    /// OldNtOwfPasswordEncryptedWithNewNt.
    pub old_hash: Option<[u8; 16]>,
}

impl Call {
    /// Reads the arguments of call `number`; `None` where no such call is served.
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
            _ => None,
        })
    }
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

/// The results of SamrEnumerateDomainsInSamServer: all names at once, a SAMPR_ENUMERATION_BUFFER (2.2.7.10).
pub fn domains_response(names: &[&str]) -> Vec<u8> {
    let mut out = Encoder::default();
    let count = names.len() as u32;
    out.u32(count);
    out.pointer();
    out.u32(count);
    out.pointer();
    out.u32(count);
    for name in names {
        out.u32(0);
        out.unicode(name);
    }
    names.iter().for_each(|name| out.text(name));
    out.u32(count);
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

/// The results of SamrQueryInformationDomain; `None` for a class that is not told.
pub fn domain_information_response(class: DomainInformationClass, policy: &DomainPolicy) -> Option<Vec<u8>> {
    let mut out = Encoder::default();
    out.pointer();
    out.u16(class.0);
    match class {
        // DOMAIN_PASSWORD_INFORMATION (2.2.3.5).
        DomainInformationClass::PASSWORD => {
            // The union is as aligned as its largest member: some of them have numbers of 8 bytes.
            out.array(8, &policy.min_password_length.to_le_bytes());
            out.u16(policy.password_history);
            out.u32(0);
            out.array(4, &policy.max_password_age.to_le_bytes());
            out.array(4, &policy.min_password_age.to_le_bytes());
        }
        // SAMPR_DOMAIN_LOCKOUT_INFORMATION (2.2.3.15).
        DomainInformationClass::LOCKOUT => {
            out.array(8, &policy.lockout_duration.to_le_bytes());
            out.array(8, &policy.lockout_window.to_le_bytes());
            out.u16(policy.lockout_threshold);
        }
        _ => return None,
    }
    out.u32(Status::SUCCESS.0);
    Some(out.into_bytes())
}

/// The results of SamrQueryInformationDomain where it fails.
pub fn no_information_response(status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    out.u32(status.0);
    out.into_bytes()
}

/// The results of SamrEnumerateDomainsInSamServer where it fails.
pub fn no_domains_response(status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(0);
    out.null();
    out.u32(0);
    out.u32(status.0);
    out.into_bytes()
}

/// The results of SamrGetDomainPasswordInformation: USER_DOMAIN_PASSWORD_INFORMATION ([MS-SAMR] 2.2.7.17), with no demands
/// on what passwords consist of.
pub fn password_information_response(min_length: u16) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u16(min_length);
    out.u32(0);
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let Ok(Some(Call::ChangePassword(change))) = Call::decode(55, &stub) else { panic!("no change") };
        assert_eq!((change.user.as_str(), change.new_password), ("alice", Some([7; SEALED_PASSWORD])));
        assert_eq!(change.old_hash, Some([8; 16]));
        for length in 0..stub.len() - 4 {
            assert!(Call::decode(55, &stub[..length]).is_err(), "{length}");
        }
        assert!(Call::decode(3, &stub).is_ok_and(|call| call.is_none()));
        assert_eq!(password_information_response(7), [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
