//! Bindings to the host's `libwbclient.so.0`, Samba's library for querying winbindd, as far as it is used here. Names,
//! layouts and values are those of its interface, version 0.13 (Samba 4.5) and later.
//!
//! The library is loaded on first use and never linked, so that Frevo runs on hosts without it. One [`Connection`] is
//! one connection to winbindd, used by one thread at a time. Every call waits for winbindd, for minutes if that hangs.
//! Functions with structures whose size differs between versions (lists of domains) are not included. The C interface
//! is in `interface`.

mod interface;

use std::ffi::{CString, c_int};
use std::{fmt, ptr, slice};

use proto::dtyp::Sid;
use proto::status::Status;
use server::accounts::principals::{SidNameUse, UnixId};
use server::domain::NetworkLogon;
use zeroize::{Zeroize, Zeroizing};

use self::interface::{AuthError, AuthParameters, AuthResponse, Context, Functions, LibraryMemory, RawId, RawSid};

/// The longest name that winbindd accepts, in bytes. The library would truncate longer ones.
const LONGEST_NAME: usize = 255;

/// `WBC_AUTH_USER_LEVEL_RESPONSE`.
const LEVEL_RESPONSE: c_int = 3;
/// `WBC_MSV1_0_ALLOW_SERVER_TRUST_ACCOUNT` and `WBC_MSV1_0_ALLOW_WORKSTATION_TRUST_ACCOUNT`: also allow logons of
/// machines.
const ALLOW_MACHINES: u32 = 0x20 | 0x800;

/// Why winbind gave no answer: a `wbcErr`, or the library is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failed {
    /// The library cannot be loaded; the text contains the reason and a remedy.
    Absent(String),
    /// The library's code.
    Code(u32),
}

impl Failed {
    /// `WBC_ERR_WINBIND_NOT_AVAILABLE`.
    pub const NOT_AVAILABLE: Failed = Failed::Code(6);
    /// `WBC_ERR_DOMAIN_NOT_FOUND`, also returned for unknown names and SIDs.
    pub const NOT_FOUND: Failed = Failed::Code(7);
    /// `WBC_ERR_AUTH_ERROR`.
    const AUTH_ERROR: Failed = Failed::Code(10);

    /// Returns whether the item does not exist, as opposed to the query having failed.
    pub fn is_missing(&self) -> bool {
        // WBC_ERR_INVALID_SID, WBC_ERR_DOMAIN_NOT_FOUND, WBC_ERR_UNKNOWN_USER, WBC_ERR_UNKNOWN_GROUP.
        matches!(self, Failed::Code(4 | 7 | 11 | 12))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failed::Absent(why) => why,
            Failed::Code(1) => "winbind: not implemented",
            Failed::Code(3) => "winbind: out of memory",
            Failed::Code(4) => "winbind: invalid SID",
            Failed::Code(5) => "winbind: invalid parameter",
            Failed::Code(6) => "winbindd does not run or does not answer",
            Failed::Code(7) => "winbind: domain, name or SID not found",
            Failed::Code(8) => "winbind: invalid response",
            Failed::Code(10) => "winbind: authentication failed",
            Failed::Code(11) => "winbind: no such user",
            Failed::Code(12) => "winbind: no such group",
            Failed::Code(_) => "winbind: general failure",
        })
    }
}

/// A logon that winbind accepted. The SIDs are the user's own, that of the primary group, and those of other groups.
pub struct Accepted {
    /// `SessionBaseKey`.
    pub session_base_key: Zeroizing<[u8; 16]>,
    /// All SIDs.
    pub sids: Vec<Sid>,
}

/// Why winbind did not accept a logon.
#[derive(Debug)]
pub enum LogonFailed {
    /// The domain's status, and winbind's text for it.
    Status(Status, String),
    /// The query failed.
    Failed(Failed),
}

/// Information about winbindd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Details {
    /// Samba's version.
    pub version: String,
    /// The machine's NetBIOS name.
    pub netbios_name: String,
    /// The domain's NetBIOS name.
    pub netbios_domain: String,
    /// The domain's DNS name.
    pub dns_domain: String,
}

/// A connection to winbindd.
pub struct Connection {
    functions: &'static Functions,
    context: Context,
}

// SAFETY: the library does not tie a context to a thread. It must only not be used by two at a time, and calls take
// `&mut self`.
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the context was created by the library and is freed once.
        unsafe { (self.functions.free)(self.context) };
    }
}

fn c_string(text: &str) -> Result<CString, Failed> {
    // There are no such names.
    CString::new(text).ok().filter(|text| text.as_bytes().len() <= LONGEST_NAME).ok_or(Failed::NOT_FOUND)
}

fn done(code: u32) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(Failed::Code(code)) }
}

impl Connection {
    /// Opens a connection. winbindd is contacted only with the first query.
    pub fn open() -> Result<Connection, Failed> {
        let functions = Functions::get()?;
        // SAFETY: no precondition.
        let context = unsafe { (functions.create)() };
        if context.is_null() { Err(Failed::Code(3)) } else { Ok(Connection { functions, context }) }
    }

    /// Checks that winbindd answers.
    pub fn ping(&mut self) -> Result<(), Failed> {
        // SAFETY: the context is valid.
        done(unsafe { (self.functions.ping)(self.context) })
    }

    /// Queries information about winbindd.
    pub fn details(&mut self) -> Result<Details, Failed> {
        let mut details = ptr::null_mut();
        // SAFETY: the context is valid, and the pointer can be written.
        done(unsafe { (self.functions.interface_details)(self.context, &mut details) })?;
        let details = LibraryMemory(self.functions, details);
        // SAFETY: on success it points to a structure that the library filled in and that lives until it is freed.
        unsafe {
            let raw = &*details.1;
            Ok(Details {
                version: Functions::text(raw.winbind_version),
                netbios_name: Functions::text(raw.netbios_name),
                netbios_domain: Functions::text(raw.netbios_domain),
                dns_domain: Functions::text(raw.dns_domain),
            })
        }
    }

    /// Lets a domain controller verify a logon.
    pub fn log_on(&mut self, logon: &NetworkLogon) -> Result<Accepted, LogonFailed> {
        let names = [&logon.user, &logon.domain, &logon.workstation].map(|name| c_string(name));
        let [Ok(user), Ok(domain), Ok(workstation)] = names else {
            return Err(LogonFailed::Status(Status::NO_SUCH_USER, "not a valid name".into()));
        };
        let response = &logon.response.nt_challenge_response;
        let parameters = AuthParameters {
            account_name: user.as_ptr(),
            domain_name: domain.as_ptr(),
            workstation_name: workstation.as_ptr(),
            flags: 0,
            parameter_control: ALLOW_MACHINES,
            level: LEVEL_RESPONSE,
            response: AuthResponse {
                challenge: logon.response.server_challenge,
                // An NTLM message has at most 64 KiB.
                nt_length: u32::try_from(response.len()).unwrap_or(0),
                nt_data: response.as_ptr(),
                lm_length: 0,
                lm_data: ptr::null(),
            },
        };
        let (mut info, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the context is valid, the parameters point to values that live longer, and both pointers can be
        // written.
        let code = unsafe { (self.functions.authenticate)(self.context, &parameters, &mut info, &mut error) };
        let (info, error) = (LibraryMemory(self.functions, info), LibraryMemory(self.functions, error));
        if code != 0 || info.1.is_null() {
            return Err(self.refusal(code, &error));
        }
        // SAFETY: the library filled it in, and there is no other reference to it.
        let raw = unsafe { &mut *info.1 };
        let session_base_key = Zeroizing::new(raw.user_session_key);
        raw.user_session_key.zeroize();
        let sids = match raw.sids.is_null() {
            true => &[],
            // SAFETY: the library filled in `num_sids` elements.
            false => unsafe { slice::from_raw_parts(raw.sids, raw.num_sids as usize) },
        };
        Ok(Accepted { session_base_key, sids: sids.iter().filter_map(|with| with.sid.sid()).collect() })
    }

    fn refusal(&self, code: u32, error: &LibraryMemory<AuthError>) -> LogonFailed {
        if error.1.is_null() {
            return LogonFailed::Failed(Failed::Code(code));
        }
        // SAFETY: not null, so the library filled it in.
        let raw = unsafe { &*error.1 };
        if Failed::Code(code) != Failed::AUTH_ERROR {
            return LogonFailed::Failed(Failed::Code(code));
        }
        // SAFETY: null or a string of the structure, which has not been freed yet.
        LogonFailed::Status(Status(raw.nt_status), unsafe { Functions::text(raw.display_string) })
    }

    /// Looks up the SID and kind of a name.
    pub fn sid_of_name(&mut self, domain: &str, name: &str) -> Result<(Sid, SidNameUse), Failed> {
        let (domain, name) = (c_string(domain)?, c_string(name)?);
        let (mut sid, mut kind) = (RawSid::NULL, 0);
        // SAFETY: the context is valid, the strings live longer, and both results can be written.
        let code =
            unsafe { (self.functions.lookup_name)(self.context, domain.as_ptr(), name.as_ptr(), &mut sid, &mut kind) };
        done(code)?;
        Ok((sid.sid().ok_or(Failed::NOT_FOUND)?, name_use(kind)))
    }

    /// Looks up the domain, name and kind of a SID.
    pub fn name_of_sid(&mut self, sid: &Sid) -> Result<(String, String, SidNameUse), Failed> {
        let (mut domain, mut name, mut kind) = (ptr::null_mut(), ptr::null_mut(), 0);
        let raw = RawSid::of(sid);
        // SAFETY: the context is valid, and all results can be written.
        let code = unsafe { (self.functions.lookup_sid)(self.context, &raw, &mut domain, &mut name, &mut kind) };
        let (domain, name) = (LibraryMemory(self.functions, domain), LibraryMemory(self.functions, name));
        done(code)?;
        // SAFETY: null or strings of the library that have not been freed yet.
        unsafe { Ok((Functions::text(domain.1), Functions::text(name.1), name_use(kind))) }
    }

    /// Looks up the SIDs of a user's groups. The primary group is first, and the user's own SID may be among them.
    pub fn groups_of_user(&mut self, user: &Sid) -> Result<Vec<Sid>, Failed> {
        let (mut count, mut sids) = (0, ptr::null_mut());
        let raw = RawSid::of(user);
        // SAFETY: the context is valid, and both results can be written.
        let code = unsafe { (self.functions.lookup_user_sids)(self.context, &raw, false, &mut count, &mut sids) };
        let sids = LibraryMemory(self.functions, sids);
        done(code)?;
        if sids.1.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the library filled in `count` elements.
        Ok(unsafe { slice::from_raw_parts(sids.1, count as usize) }.iter().filter_map(RawSid::sid).collect())
    }

    /// Maps each SID to a user or group; `None` if it is not mapped.
    pub fn ids_of_sids(&mut self, sids: &[Sid]) -> Result<Vec<Option<UnixId>>, Failed> {
        let raw: Vec<RawSid> = sids.iter().map(RawSid::of).collect();
        let mut ids = vec![RawId::NONE; raw.len()];
        let count = u32::try_from(raw.len()).map_err(|_| Failed::Code(5))?;
        // SAFETY: the context is valid; there are `count` SIDs and space for as many ids.
        let code = unsafe { (self.functions.sids_to_unix_ids)(self.context, raw.as_ptr(), count, ids.as_mut_ptr()) };
        done(code)?;
        Ok(ids.into_iter().map(RawId::id).collect())
    }

    /// Maps a user or group to its SID; `None` if there is only the one that contains the id.
    pub fn sid_of_id(&mut self, id: UnixId) -> Result<Option<Sid>, Failed> {
        let (raw, mut sid) = (RawId::of(id), RawSid::NULL);
        // SAFETY: the context is valid; there is one id and space for one SID.
        let code = unsafe { (self.functions.unix_ids_to_sids)(self.context, &raw, 1, &mut sid) };
        done(code)?;
        Ok(sid.sid().filter(|sid| sid.authority() != 22 && *sid != Sid::NULL))
    }

    /// Checks the machine account in `domain`. The error is a domain controller's answer.
    pub fn check_trust(&mut self, domain: &str) -> Result<(), LogonFailed> {
        let name = c_string(domain).map_err(LogonFailed::Failed)?;
        let mut error = ptr::null_mut();
        // SAFETY: the context is valid, the string lives longer, and the pointer can be written.
        let code = unsafe { (self.functions.check_trust)(self.context, name.as_ptr(), &mut error) };
        let error = LibraryMemory(self.functions, error);
        if code == 0 { Ok(()) } else { Err(self.refusal(code, &error)) }
    }
}

/// The values of `enum wbcSidType` are those of SID_NAME_USE.
fn name_use(kind: c_int) -> SidNameUse {
    SidNameUse(u16::try_from(kind).unwrap_or(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_names_are_not_queried() {
        assert_eq!(c_string("a\0b"), Err(Failed::NOT_FOUND));
        assert_eq!(c_string(&"x".repeat(256)), Err(Failed::NOT_FOUND));
        assert!(c_string(&"x".repeat(255)).is_ok());
    }
}
