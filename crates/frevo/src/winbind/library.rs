//! The host's `libwbclient.so.0`, Samba's library for asking winbindd, as far as it is used here. Names, layouts and values
//! are those of its interface, version 0.13 (Samba 4.5) and later.
//!
//! It is loaded when it is first needed and never linked: Frevo starts on hosts without it. One [`Connection`] is one
//! conversation with winbindd, of one thread at a time; every call waits for winbindd, for minutes where that hangs.
//! Left out: what takes structures whose size differs from version to version (lists of domains).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::{fmt, ptr, slice};

use libloading::Library;
use proto::dtyp::Sid;
use proto::status::Status;
use server::domain::NetworkLogon;
use server::principals::{SidNameUse, UnixId};
use zeroize::{Zeroize, Zeroizing};

/// What the library is called on every host that has it.
const LIBRARY: &str = "libwbclient.so.0";

/// The longest name that winbindd takes, in bytes; the library would cut longer ones.
const LONGEST_NAME: usize = 255;

/// `WBC_AUTH_USER_LEVEL_RESPONSE`.
const LEVEL_RESPONSE: c_int = 3;
/// `WBC_MSV1_0_ALLOW_SERVER_TRUST_ACCOUNT` and `WBC_MSV1_0_ALLOW_WORKSTATION_TRUST_ACCOUNT`: machines may log on, too.
const ALLOW_MACHINES: u32 = 0x20 | 0x800;

/// Why winbind gave no answer: `wbcErr`, or the library is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failed {
    /// The library cannot be loaded; the text says why and what to do.
    Absent(String),
    /// The library's code.
    Code(u32),
}

impl Failed {
    /// `WBC_ERR_WINBIND_NOT_AVAILABLE`.
    pub const NOT_AVAILABLE: Failed = Failed::Code(6);
    /// `WBC_ERR_DOMAIN_NOT_FOUND`, which is also said of a name or SID that nobody knows.
    pub const NOT_FOUND: Failed = Failed::Code(7);
    /// `WBC_ERR_AUTH_ERROR`.
    const AUTH_ERROR: Failed = Failed::Code(10);

    /// Whether it says that there is no such thing, rather than that nobody could be asked.
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

/// `struct wbcDomainSid`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawSid {
    revision: u8,
    count: u8,
    authority: [u8; 6],
    sub_authorities: [u32; 15],
}

impl RawSid {
    const NULL: RawSid = RawSid { revision: 0, count: 0, authority: [0; 6], sub_authorities: [0; 15] };

    fn of(sid: &Sid) -> RawSid {
        let [_, _, authority @ ..] = sid.authority().to_be_bytes();
        let mut raw = RawSid { revision: 1, authority, ..RawSid::NULL };
        // A SID has at most 15.
        for (to, from) in raw.sub_authorities.iter_mut().zip(sid.sub_authorities()) {
            (*to, raw.count) = (*from, raw.count + 1);
        }
        raw
    }

    /// `None` for one that was not filled in.
    fn sid(&self) -> Option<Sid> {
        let [a, b, c, d, e, f] = self.authority;
        let authority = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        Sid::new(authority, self.sub_authorities.get(..usize::from(self.count))?).filter(|_| self.revision == 1)
    }
}

/// `struct wbcSidWithAttr`.
#[repr(C)]
struct SidAndAttributes {
    sid: RawSid,
    attributes: u32,
}

/// `struct wbcUnixId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawId {
    kind: c_int,
    id: u32,
}

impl RawId {
    const NONE: RawId = RawId { kind: 0, id: 0 };

    fn of(id: UnixId) -> RawId {
        match id {
            UnixId::User(id) => RawId { kind: 1, id },
            UnixId::Group(id) => RawId { kind: 2, id },
            UnixId::Both(id) => RawId { kind: 3, id },
        }
    }

    fn id(self) -> Option<UnixId> {
        // What the library leaves where an id is none of a user or group.
        if self.id == u32::MAX {
            return None;
        }
        match self.kind {
            1 => Some(UnixId::User(self.id)),
            2 => Some(UnixId::Group(self.id)),
            3 => Some(UnixId::Both(self.id)),
            _ => None,
        }
    }
}

/// `struct wbcAuthUserParams` with the response of its union, the largest member.
#[repr(C)]
struct AuthParameters {
    account_name: *const c_char,
    domain_name: *const c_char,
    workstation_name: *const c_char,
    flags: u32,
    parameter_control: u32,
    level: c_int,
    response: AuthResponse,
}

#[repr(C)]
struct AuthResponse {
    challenge: [u8; 8],
    nt_length: u32,
    nt_data: *const u8,
    lm_length: u32,
    lm_data: *const u8,
}

/// `struct wbcAuthUserInfo`.
#[repr(C)]
struct AuthInfo {
    user_flags: u32,
    names: [*const c_char; 5],
    acct_flags: u32,
    user_session_key: [u8; 16],
    lm_session_key: [u8; 8],
    counts: [u16; 2],
    times: [u64; 6],
    paths: [*const c_char; 5],
    num_sids: u32,
    sids: *const SidAndAttributes,
}

/// `struct wbcAuthErrorInfo`.
#[repr(C)]
struct AuthError {
    nt_status: u32,
    nt_string: *const c_char,
    pam_error: i32,
    display_string: *const c_char,
    authoritative: u8,
}

/// `struct wbcInterfaceDetails`.
#[repr(C)]
struct RawDetails {
    interface_version: u32,
    winbind_version: *const c_char,
    winbind_separator: c_char,
    netbios_name: *const c_char,
    netbios_domain: *const c_char,
    dns_domain: *const c_char,
}

/// `struct wbcContext *`: only the library knows what it points to.
type Context = *mut c_void;

/// What the library offers.
struct Functions {
    create: unsafe extern "C" fn() -> Context,
    free: unsafe extern "C" fn(Context),
    free_memory: unsafe extern "C" fn(*mut c_void),
    ping: unsafe extern "C" fn(Context) -> u32,
    interface_details: unsafe extern "C" fn(Context, *mut *mut RawDetails) -> u32,
    authenticate: unsafe extern "C" fn(Context, *const AuthParameters, *mut *mut AuthInfo, *mut *mut AuthError) -> u32,
    lookup_name: unsafe extern "C" fn(Context, *const c_char, *const c_char, *mut RawSid, *mut c_int) -> u32,
    lookup_sid: unsafe extern "C" fn(Context, *const RawSid, *mut *mut c_char, *mut *mut c_char, *mut c_int) -> u32,
    lookup_user_sids: unsafe extern "C" fn(Context, *const RawSid, bool, *mut u32, *mut *mut RawSid) -> u32,
    sids_to_unix_ids: unsafe extern "C" fn(Context, *const RawSid, u32, *mut RawId) -> u32,
    unix_ids_to_sids: unsafe extern "C" fn(Context, *const RawId, u32, *mut RawSid) -> u32,
    check_trust: unsafe extern "C" fn(Context, *const c_char, *mut *mut AuthError) -> u32,
    /// What the functions are in.
    _library: Library,
}

impl Functions {
    /// The library, loaded once; one that is missing is looked for again at the next call.
    fn get() -> Result<&'static Functions, Failed> {
        static LOADED: OnceLock<Functions> = OnceLock::new();
        match LOADED.get() {
            Some(loaded) => Ok(loaded),
            None => {
                let loaded = Functions::load(LIBRARY)?;
                Ok(LOADED.get_or_init(|| loaded))
            }
        }
    }

    fn load(name: &str) -> Result<Functions, Failed> {
        let absent = |error: libloading::Error| {
            let remedy = "install winbind and its library (Debian: winbind, libwbclient0; Fedora: samba-winbind)";
            Failed::Absent(format!("no winbind on this host: {error}; {remedy}"))
        };
        // SAFETY: the library's initialization only prepares its own locks.
        let library = unsafe { Library::new(name) }.map_err(absent)?;
        // SAFETY: the types are those of the library's header; the functions are kept beside the library.
        unsafe {
            Ok(Functions {
                create: *library.get(b"wbcCtxCreate\0").map_err(absent)?,
                free: *library.get(b"wbcCtxFree\0").map_err(absent)?,
                free_memory: *library.get(b"wbcFreeMemory\0").map_err(absent)?,
                ping: *library.get(b"wbcCtxPing\0").map_err(absent)?,
                interface_details: *library.get(b"wbcCtxInterfaceDetails\0").map_err(absent)?,
                authenticate: *library.get(b"wbcCtxAuthenticateUserEx\0").map_err(absent)?,
                lookup_name: *library.get(b"wbcCtxLookupName\0").map_err(absent)?,
                lookup_sid: *library.get(b"wbcCtxLookupSid\0").map_err(absent)?,
                lookup_user_sids: *library.get(b"wbcCtxLookupUserSids\0").map_err(absent)?,
                sids_to_unix_ids: *library.get(b"wbcCtxSidsToUnixIds\0").map_err(absent)?,
                unix_ids_to_sids: *library.get(b"wbcCtxUnixIdsToSids\0").map_err(absent)?,
                check_trust: *library.get(b"wbcCtxCheckTrustCredentials\0").map_err(absent)?,
                _library: library,
            })
        }
    }

    /// Copies a text that the library may have left out.
    ///
    /// # Safety
    ///
    /// Null, or a C string that lives until the call is over.
    unsafe fn text(text: *const c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as the caller promises.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// Memory of the library's, given back when dropped.
struct Lent<T>(&'static Functions, *mut T);

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: the library lent it and nobody has given it back; null is nothing.
        unsafe { (self.0.free_memory)(self.1.cast()) };
    }
}

/// A logon that winbind accepted: the SIDs are the user's own, that of the primary group, and those of other groups.
pub struct Accepted {
    /// `SessionBaseKey`.
    pub session_base_key: Zeroizing<[u8; 16]>,
    /// All SIDs.
    pub sids: Vec<Sid>,
}

/// Why winbind did not accept a logon.
#[derive(Debug)]
pub enum LogonFailed {
    /// The domain's word, and what winbind says to it.
    Status(Status, String),
    /// There was nobody to ask.
    Failed(Failed),
}

/// What winbindd says of itself.
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

/// A conversation with winbindd.
pub struct Connection {
    functions: &'static Functions,
    context: Context,
}

// SAFETY: the library ties a context to no thread; it must only not be used by two at a time, and calls take `&mut self`.
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the context was created by the library and is freed once.
        unsafe { (self.functions.free)(self.context) };
    }
}

fn c_string(text: &str) -> Result<CString, Failed> {
    // Nobody has such a name.
    CString::new(text).ok().filter(|text| text.as_bytes().len() <= LONGEST_NAME).ok_or(Failed::NOT_FOUND)
}

fn done(code: u32) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(Failed::Code(code)) }
}

impl Connection {
    /// A conversation; nobody is connected to before the first question.
    pub fn open() -> Result<Connection, Failed> {
        let functions = Functions::get()?;
        // SAFETY: no precondition.
        let context = unsafe { (functions.create)() };
        if context.is_null() { Err(Failed::Code(3)) } else { Ok(Connection { functions, context }) }
    }

    /// Whether winbindd is there.
    pub fn ping(&mut self) -> Result<(), Failed> {
        // SAFETY: the context is valid.
        done(unsafe { (self.functions.ping)(self.context) })
    }

    /// What winbindd says of itself.
    pub fn details(&mut self) -> Result<Details, Failed> {
        let mut details = ptr::null_mut();
        // SAFETY: the context is valid, and a pointer can be stored.
        done(unsafe { (self.functions.interface_details)(self.context, &mut details) })?;
        let details = Lent(self.functions, details);
        // SAFETY: success means that it points to what the library filled in, which lives until it is given back.
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

    /// Has a domain controller decide on a logon.
    pub fn log_on(&mut self, logon: &NetworkLogon) -> Result<Accepted, LogonFailed> {
        let names = [&logon.user, &logon.domain, &logon.workstation].map(|name| c_string(name));
        let [Ok(user), Ok(domain), Ok(workstation)] = names else {
            return Err(LogonFailed::Status(Status::NO_SUCH_USER, "a name that nobody has".into()));
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
        // SAFETY: the context is valid, the parameters point to what lives longer, and two pointers can be stored.
        let code = unsafe { (self.functions.authenticate)(self.context, &parameters, &mut info, &mut error) };
        let (info, error) = (Lent(self.functions, info), Lent(self.functions, error));
        if code != 0 || info.1.is_null() {
            return Err(self.refusal(code, &error));
        }
        // SAFETY: the library filled it in; nobody else has it.
        let raw = unsafe { &mut *info.1 };
        let session_base_key = Zeroizing::new(raw.user_session_key);
        raw.user_session_key.zeroize();
        let sids = match raw.sids.is_null() {
            true => &[],
            // SAFETY: the library filled in as many as it says.
            false => unsafe { slice::from_raw_parts(raw.sids, raw.num_sids as usize) },
        };
        Ok(Accepted { session_base_key, sids: sids.iter().filter_map(|with| with.sid.sid()).collect() })
    }

    fn refusal(&self, code: u32, error: &Lent<AuthError>) -> LogonFailed {
        if error.1.is_null() {
            return LogonFailed::Failed(Failed::Code(code));
        }
        // SAFETY: not null, so the library filled it in.
        let raw = unsafe { &*error.1 };
        if Failed::Code(code) != Failed::AUTH_ERROR {
            return LogonFailed::Failed(Failed::Code(code));
        }
        // SAFETY: null or a string of the structure, which is still there.
        LogonFailed::Status(Status(raw.nt_status), unsafe { Functions::text(raw.display_string) })
    }

    /// The SID of a name, and of what.
    pub fn sid_of_name(&mut self, domain: &str, name: &str) -> Result<(Sid, SidNameUse), Failed> {
        let (domain, name) = (c_string(domain)?, c_string(name)?);
        let (mut sid, mut kind) = (RawSid::NULL, 0);
        // SAFETY: the context is valid, the strings live longer, and both results can be stored.
        let code =
            unsafe { (self.functions.lookup_name)(self.context, domain.as_ptr(), name.as_ptr(), &mut sid, &mut kind) };
        done(code)?;
        Ok((sid.sid().ok_or(Failed::NOT_FOUND)?, name_use(kind)))
    }

    /// Domain and name of a SID, and of what.
    pub fn name_of_sid(&mut self, sid: &Sid) -> Result<(String, String, SidNameUse), Failed> {
        let (mut domain, mut name, mut kind) = (ptr::null_mut(), ptr::null_mut(), 0);
        let raw = RawSid::of(sid);
        // SAFETY: the context is valid, and all results can be stored.
        let code = unsafe { (self.functions.lookup_sid)(self.context, &raw, &mut domain, &mut name, &mut kind) };
        let (domain, name) = (Lent(self.functions, domain), Lent(self.functions, name));
        done(code)?;
        // SAFETY: null or strings of the library's, which are still there.
        unsafe { Ok((Functions::text(domain.1), Functions::text(name.1), name_use(kind))) }
    }

    /// The SIDs of a user's groups, that of the primary group first, and perhaps the user's own among them.
    pub fn groups_of_user(&mut self, user: &Sid) -> Result<Vec<Sid>, Failed> {
        let (mut count, mut sids) = (0, ptr::null_mut());
        let raw = RawSid::of(user);
        // SAFETY: the context is valid, and both results can be stored.
        let code = unsafe { (self.functions.lookup_user_sids)(self.context, &raw, false, &mut count, &mut sids) };
        let sids = Lent(self.functions, sids);
        done(code)?;
        if sids.1.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the library filled in as many as it says.
        Ok(unsafe { slice::from_raw_parts(sids.1, count as usize) }.iter().filter_map(RawSid::sid).collect())
    }

    /// The user or group of each SID; `None` where it is nobody's.
    pub fn ids_of_sids(&mut self, sids: &[Sid]) -> Result<Vec<Option<UnixId>>, Failed> {
        let raw: Vec<RawSid> = sids.iter().map(RawSid::of).collect();
        let mut ids = vec![RawId::NONE; raw.len()];
        let count = u32::try_from(raw.len()).map_err(|_| Failed::Code(5))?;
        // SAFETY: the context is valid; there are `count` SIDs and room for as many ids.
        let code = unsafe { (self.functions.sids_to_unix_ids)(self.context, raw.as_ptr(), count, ids.as_mut_ptr()) };
        done(code)?;
        Ok(ids.into_iter().map(RawId::id).collect())
    }

    /// The SID of a user or group; `None` where it has none but the one with the id in it.
    pub fn sid_of_id(&mut self, id: UnixId) -> Result<Option<Sid>, Failed> {
        let (raw, mut sid) = (RawId::of(id), RawSid::NULL);
        // SAFETY: the context is valid; there is one id and room for one SID.
        let code = unsafe { (self.functions.unix_ids_to_sids)(self.context, &raw, 1, &mut sid) };
        done(code)?;
        Ok(sid.sid().filter(|sid| sid.authority() != 22 && *sid != Sid::NULL))
    }

    /// Whether the machine's account of `domain` is good; the error is what a controller says.
    pub fn check_trust(&mut self, domain: &str) -> Result<(), LogonFailed> {
        let name = c_string(domain).map_err(LogonFailed::Failed)?;
        let mut error = ptr::null_mut();
        // SAFETY: the context is valid, the string lives longer, and a pointer can be stored.
        let code = unsafe { (self.functions.check_trust)(self.context, name.as_ptr(), &mut error) };
        let error = Lent(self.functions, error);
        if code == 0 { Ok(()) } else { Err(self.refusal(code, &error)) }
    }
}

/// `enum wbcSidType` has the numbers of SID_NAME_USE.
fn name_use(kind: c_int) -> SidNameUse {
    SidNameUse(u16::try_from(kind).unwrap_or(8))
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn sids_are_carried_over() {
        for text in ["S-1-0-0", "S-1-5-21-1-4294967295-3-513", "S-1-5-32-544", "S-1-281474976710655-1"] {
            let sid: Sid = text.parse().unwrap();
            assert_eq!(RawSid::of(&sid).sid(), Some(sid), "{text}");
        }
        assert_eq!(RawSid::NULL.sid(), None);
        assert_eq!(RawSid { revision: 1, count: 16, ..RawSid::NULL }.sid(), None);
    }

    #[test]
    fn ids_are_carried_over() {
        for id in [UnixId::User(7), UnixId::Group(0), UnixId::Both(65_534)] {
            assert_eq!(RawId::of(id).id(), Some(id));
        }
        assert_eq!(RawId::NONE.id(), None);
        assert_eq!(RawId { kind: 1, id: u32::MAX }.id(), None);
    }

    /// As a C compiler lays them out on a 64-bit machine.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn structures_lie_as_in_c() {
        assert_eq!((size_of::<RawSid>(), size_of::<SidAndAttributes>(), size_of::<RawId>()), (68, 72, 8));
        assert_eq!((size_of::<AuthParameters>(), offset_of!(AuthParameters, response)), (80, 40));
        assert_eq!(offset_of!(AuthResponse, nt_data), 16);
        assert_eq!((offset_of!(AuthInfo, user_session_key), offset_of!(AuthInfo, times)), (52, 80));
        assert_eq!((offset_of!(AuthInfo, num_sids), size_of::<AuthInfo>()), (168, 184));
        assert_eq!((offset_of!(AuthError, display_string), size_of::<AuthError>()), (24, 40));
        assert_eq!(size_of::<RawDetails>(), 48);
    }

    #[test]
    fn names_that_nobody_has_are_not_asked_for() {
        assert_eq!(c_string("a\0b"), Err(Failed::NOT_FOUND));
        assert_eq!(c_string(&"x".repeat(256)), Err(Failed::NOT_FOUND));
        assert!(c_string(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let Err(Failed::Absent(why)) = Functions::load("libwbclient-of-nobody.so.0") else { panic!("loaded") };
        assert!(why.contains("libwbclient-of-nobody.so.0") && why.contains("install winbind"), "{why}");
    }
}
