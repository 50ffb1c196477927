//! The library's C interface: the layout of its structures, and its functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;
use proto::dtyp::Sid;
use server::accounts::principals::UnixId;

use super::Failed;

/// The library's file name on every host that has it.
const LIBRARY: &str = "libwbclient.so.0";

/// `struct wbcDomainSid`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawSid {
    revision: u8,
    count: u8,
    authority: [u8; 6],
    sub_authorities: [u32; 15],
}

impl RawSid {
    pub(super) const NULL: RawSid = RawSid { revision: 0, count: 0, authority: [0; 6], sub_authorities: [0; 15] };

    pub(super) fn of(sid: &Sid) -> RawSid {
        let [_, _, authority @ ..] = sid.authority().to_be_bytes();
        let mut raw = RawSid { revision: 1, authority, ..RawSid::NULL };
        // A SID has at most 15 sub-authorities.
        for (to, from) in raw.sub_authorities.iter_mut().zip(sid.sub_authorities()) {
            (*to, raw.count) = (*from, raw.count + 1);
        }
        raw
    }

    /// Returns the SID; `None` if the structure was not filled in.
    pub(super) fn sid(&self) -> Option<Sid> {
        let [a, b, c, d, e, f] = self.authority;
        let authority = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        Sid::new(authority, self.sub_authorities.get(..usize::from(self.count))?).filter(|_| self.revision == 1)
    }
}

/// `struct wbcSidWithAttr`.
#[repr(C)]
pub(super) struct SidAndAttributes {
    pub(super) sid: RawSid,
    pub(super) attributes: u32,
}

/// `struct wbcUnixId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawId {
    kind: c_int,
    id: u32,
}

impl RawId {
    pub(super) const NONE: RawId = RawId { kind: 0, id: 0 };

    pub(super) fn of(id: UnixId) -> RawId {
        match id {
            UnixId::User(id) => RawId { kind: 1, id },
            UnixId::Group(id) => RawId { kind: 2, id },
            UnixId::Both(id) => RawId { kind: 3, id },
        }
    }

    pub(super) fn id(self) -> Option<UnixId> {
        // The library stores this value if there is no user or group.
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

/// `struct wbcAuthUserParams`, with `response` as the largest member of its union.
#[repr(C)]
pub(super) struct AuthParameters {
    pub(super) account_name: *const c_char,
    pub(super) domain_name: *const c_char,
    pub(super) workstation_name: *const c_char,
    pub(super) flags: u32,
    pub(super) parameter_control: u32,
    pub(super) level: c_int,
    pub(super) response: AuthResponse,
}

#[repr(C)]
pub(super) struct AuthResponse {
    pub(super) challenge: [u8; 8],
    pub(super) nt_length: u32,
    pub(super) nt_data: *const u8,
    pub(super) lm_length: u32,
    pub(super) lm_data: *const u8,
}

/// `struct wbcAuthUserInfo`.
#[repr(C)]
pub(super) struct AuthInfo {
    pub(super) user_flags: u32,
    pub(super) names: [*const c_char; 5],
    pub(super) acct_flags: u32,
    pub(super) user_session_key: [u8; 16],
    pub(super) lm_session_key: [u8; 8],
    pub(super) counts: [u16; 2],
    pub(super) times: [u64; 6],
    pub(super) paths: [*const c_char; 5],
    pub(super) num_sids: u32,
    pub(super) sids: *const SidAndAttributes,
}

/// `struct wbcAuthErrorInfo`.
#[repr(C)]
pub(super) struct AuthError {
    pub(super) nt_status: u32,
    pub(super) nt_string: *const c_char,
    pub(super) pam_error: i32,
    pub(super) display_string: *const c_char,
    pub(super) authoritative: u8,
}

/// `struct wbcInterfaceDetails`.
#[repr(C)]
pub(super) struct RawDetails {
    pub(super) interface_version: u32,
    pub(super) winbind_version: *const c_char,
    pub(super) winbind_separator: c_char,
    pub(super) netbios_name: *const c_char,
    pub(super) netbios_domain: *const c_char,
    pub(super) dns_domain: *const c_char,
}

/// `struct wbcContext *`, an opaque pointer.
pub(super) type Context = *mut c_void;

/// The library's functions.
pub(super) struct Functions {
    pub(super) create: unsafe extern "C" fn() -> Context,
    pub(super) free: unsafe extern "C" fn(Context),
    pub(super) free_memory: unsafe extern "C" fn(*mut c_void),
    pub(super) ping: unsafe extern "C" fn(Context) -> u32,
    pub(super) interface_details: unsafe extern "C" fn(Context, *mut *mut RawDetails) -> u32,
    pub(super) authenticate:
        unsafe extern "C" fn(Context, *const AuthParameters, *mut *mut AuthInfo, *mut *mut AuthError) -> u32,
    pub(super) lookup_name: unsafe extern "C" fn(Context, *const c_char, *const c_char, *mut RawSid, *mut c_int) -> u32,
    pub(super) lookup_sid:
        unsafe extern "C" fn(Context, *const RawSid, *mut *mut c_char, *mut *mut c_char, *mut c_int) -> u32,
    pub(super) lookup_user_sids: unsafe extern "C" fn(Context, *const RawSid, bool, *mut u32, *mut *mut RawSid) -> u32,
    pub(super) sids_to_unix_ids: unsafe extern "C" fn(Context, *const RawSid, u32, *mut RawId) -> u32,
    pub(super) unix_ids_to_sids: unsafe extern "C" fn(Context, *const RawId, u32, *mut RawSid) -> u32,
    pub(super) check_trust: unsafe extern "C" fn(Context, *const c_char, *mut *mut AuthError) -> u32,
    /// The library that contains the functions.
    _library: Library,
}

impl Functions {
    /// Returns the functions. The library is loaded once; if it is missing, the next call tries again.
    pub(super) fn get() -> Result<&'static Functions, Failed> {
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
            Failed::Absent(format!("winbind is not installed on this host: {error}; {remedy}"))
        };
        // SAFETY: the library's initialization only prepares its own locks.
        let library = unsafe { Library::new(name) }.map_err(absent)?;
        // SAFETY: the types are those of the library's header, and the functions are stored together with the library.
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

    /// Copies a string that may be null.
    ///
    /// # Safety
    ///
    /// `text` is null or a C string that lives until the call returns.
    pub(super) unsafe fn text(text: *const c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: guaranteed by the caller.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// Memory allocated by the library, which is freed on drop.
pub(super) struct LibraryMemory<T>(pub(super) &'static Functions, pub(super) *mut T);

impl<T> Drop for LibraryMemory<T> {
    fn drop(&mut self) {
        // SAFETY: the library allocated it and it has not been freed yet; null is allowed.
        unsafe { (self.0.free_memory)(self.1.cast()) };
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn sids_are_converted() {
        for text in ["S-1-0-0", "S-1-5-21-1-4294967295-3-513", "S-1-5-32-544", "S-1-281474976710655-1"] {
            let sid: Sid = text.parse().unwrap();
            assert_eq!(RawSid::of(&sid).sid(), Some(sid), "{text}");
        }
        assert_eq!(RawSid::NULL.sid(), None);
        assert_eq!(RawSid { revision: 1, count: 16, ..RawSid::NULL }.sid(), None);
    }

    #[test]
    fn ids_are_converted() {
        for id in [UnixId::User(7), UnixId::Group(0), UnixId::Both(65_534)] {
            assert_eq!(RawId::of(id).id(), Some(id));
        }
        assert_eq!(RawId::NONE.id(), None);
        assert_eq!(RawId { kind: 1, id: u32::MAX }.id(), None);
    }

    /// The layout of a C compiler on a 64-bit machine.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn structures_have_the_layout_of_c() {
        assert_eq!((size_of::<RawSid>(), size_of::<SidAndAttributes>(), size_of::<RawId>()), (68, 72, 8));
        assert_eq!((size_of::<AuthParameters>(), offset_of!(AuthParameters, response)), (80, 40));
        assert_eq!(offset_of!(AuthResponse, nt_data), 16);
        assert_eq!((offset_of!(AuthInfo, user_session_key), offset_of!(AuthInfo, times)), (52, 80));
        assert_eq!((offset_of!(AuthInfo, num_sids), size_of::<AuthInfo>()), (168, 184));
        assert_eq!((offset_of!(AuthError, display_string), size_of::<AuthError>()), (24, 40));
        assert_eq!(size_of::<RawDetails>(), 48);
    }

    #[test]
    fn a_missing_library_is_named() {
        let Err(Failed::Absent(why)) = Functions::load("libwbclient-of-nobody.so.0") else { panic!("loaded") };
        assert!(why.contains("libwbclient-of-nobody.so.0") && why.contains("install winbind"), "{why}");
    }
}
