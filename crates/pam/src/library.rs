//! Bindings to the host's `libpam.so.0` (Linux-PAM), as far as it is used here. The library is loaded at run time and
//! never linked, so that Frevo runs on hosts without it.

use std::cell::Cell;
use std::ffi::{CStr, CString, NulError, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;

use libloading::Symbol;

use crate::codes::{BUFFER_ERROR, CONVERSATION_ERROR, SUCCESS};

/// `pam_message`.
#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

/// `pam_response`.
#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

/// `pam_conv`.
#[repr(C)]
struct Conversation {
    function: unsafe extern "C" fn(c_int, *const *const Message, *mut *mut Response, *mut c_void) -> c_int,
    data: *mut c_void,
}

/// `pam_handle_t`, which belongs to the library.
type Opaque = *mut c_void;

type Start = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut Opaque) -> c_int;
type StartIn =
    unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *const c_char, *mut Opaque) -> c_int;
type SetItem = unsafe extern "C" fn(Opaque, c_int, *const c_void) -> c_int;
type Step = unsafe extern "C" fn(Opaque, c_int) -> c_int;
type Text = unsafe extern "C" fn(Opaque, c_int) -> *const c_char;

const PAM_TTY: c_int = 3;
const PAM_RHOST: c_int = 4;
const PAM_PROMPT_ECHO_OFF: c_int = 1;
const PAM_ERROR_MSG: c_int = 3;
const PAM_TEXT_INFO: c_int = 4;
const PAM_SILENT: c_int = 0x8000;
const PAM_DISALLOW_NULL_AUTHTOK: c_int = 1;

/// A password for modules that ask for one.
pub(crate) struct Secret {
    password: CString,
    was_given: Cell<bool>,
}

impl Secret {
    /// The error: the password contains a zero.
    pub(crate) fn new(password: &str) -> Result<Secret, NulError> {
        Ok(Secret { password: CString::new(password)?, was_given: Cell::new(false) })
    }

    /// Returns whether a module has asked for the password and got it.
    pub(crate) fn was_given(&self) -> bool {
        self.was_given.get()
    }
}

/// The library.
pub(crate) struct Library {
    start: Start,
    /// Linux-PAM 1.4 and later.
    start_in: Option<StartIn>,
    set_item: SetItem,
    authenticate: Step,
    account: Step,
    open_session: Step,
    close_session: Step,
    text: Text,
    end: Step,
    /// Keeps the functions loaded.
    _library: libloading::Library,
}

impl Library {
    /// Loads the library. The error names what is missing and how to install it.
    pub(crate) fn load(name: &str) -> Result<Library, String> {
        let absent = |error: libloading::Error| {
            format!("{error}; install Linux-PAM (Debian: libpam0g; Fedora: pam), or set `obey pam restrictions = no`")
        };
        // SAFETY: the library's initialization only prepares its own data.
        let library = unsafe { libloading::Library::new(name) }.map_err(absent)?;
        // SAFETY: the types are those of Linux-PAM's pam_appl.h; the library is kept loaded along with the functions.
        unsafe {
            let start_in: Option<Symbol<'_, StartIn>> = library.get(b"pam_start_confdir").ok();
            Ok(Library {
                start: *library.get(b"pam_start").map_err(absent)?,
                start_in: start_in.map(|function| *function),
                set_item: *library.get(b"pam_set_item").map_err(absent)?,
                authenticate: *library.get(b"pam_authenticate").map_err(absent)?,
                account: *library.get(b"pam_acct_mgmt").map_err(absent)?,
                open_session: *library.get(b"pam_open_session").map_err(absent)?,
                close_session: *library.get(b"pam_close_session").map_err(absent)?,
                text: *library.get(b"pam_strerror").map_err(absent)?,
                end: *library.get(b"pam_end").map_err(absent)?,
                _library: library,
            })
        }
    }

    /// Begins a transaction for `user`. Modules that ask for a password get `secret`. The error is PAM's code.
    pub(crate) fn start<'l>(
        &'l self,
        service: &str,
        directory: Option<&Path>,
        user: &CStr,
        secret: Option<&'l Secret>,
    ) -> Result<Transaction<'l>, c_int> {
        let data = secret.map_or(ptr::null(), ptr::from_ref);
        let conversation = Conversation { function: converse, data: data.cast_mut().cast() };
        let text = |text: &[u8]| CString::new(text).map_err(|_| CONVERSATION_ERROR);
        let service = text(service.as_bytes())?;
        let directory = directory.map(|path| text(path.as_os_str().as_encoded_bytes())).transpose()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the strings end in a zero. The library copies them and the conversation, and writes the handle.
        let code = unsafe {
            match (directory, self.start_in) {
                (None, _) => (self.start)(service.as_ptr(), user.as_ptr(), &conversation, &mut handle),
                (Some(directory), Some(start_in)) => {
                    start_in(service.as_ptr(), user.as_ptr(), &conversation, directory.as_ptr(), &mut handle)
                }
                (Some(_), None) => return Err(CONVERSATION_ERROR),
            }
        };
        match code {
            SUCCESS => Ok(Transaction { library: self, handle, code, _secret: PhantomData }),
            code => Err(code),
        }
    }

    /// Returns the text of a code.
    pub(crate) fn text(&self, code: c_int) -> String {
        // SAFETY: the library ignores the handle and returns a static string, or null.
        unsafe {
            let text = (self.text)(ptr::null_mut(), code);
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        }
    }
}

/// A transaction, which ends when the value is dropped.
pub(crate) struct Transaction<'l> {
    library: &'l Library,
    handle: Opaque,
    /// The last code.
    code: c_int,
    /// The conversation has a pointer to the secret.
    _secret: PhantomData<&'l Secret>,
}

impl Transaction<'_> {
    /// Sets the address of the client, if it has one, and the name that stands for its terminal.
    pub(crate) fn describe(&mut self, client: Option<&str>, terminal: &str) -> Result<(), c_int> {
        let client = client.map(|client| (PAM_RHOST, client));
        for (item, value) in client.into_iter().chain([(PAM_TTY, terminal)]) {
            let value = CString::new(value).map_err(|_| CONVERSATION_ERROR)?;
            // SAFETY: the handle is valid, and the library copies the string.
            self.code = unsafe { (self.library.set_item)(self.handle, item, value.as_ptr().cast()) };
            self.outcome()?;
        }
        Ok(())
    }

    /// Verifies the password with which the transaction began. An account without a password has none that is right.
    pub(crate) fn authenticate(&mut self) -> Result<(), c_int> {
        self.step_with(self.library.authenticate, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK)
    }

    /// Asks whether the account may be used now.
    pub(crate) fn check_account(&mut self) -> Result<(), c_int> {
        self.step(self.library.account)
    }

    /// Opens a session.
    pub(crate) fn open_session(&mut self) -> Result<(), c_int> {
        self.step(self.library.open_session)
    }

    /// Closes a session.
    pub(crate) fn close_session(&mut self) -> Result<(), c_int> {
        self.step(self.library.close_session)
    }

    fn step(&mut self, function: Step) -> Result<(), c_int> {
        self.step_with(function, PAM_SILENT)
    }

    fn step_with(&mut self, function: Step, flags: c_int) -> Result<(), c_int> {
        // SAFETY: the handle is valid until the transaction is dropped.
        self.code = unsafe { function(self.handle, flags) };
        self.outcome()
    }

    fn outcome(&self) -> Result<(), c_int> {
        if self.code == SUCCESS { Ok(()) } else { Err(self.code) }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is valid and not used again.
        unsafe { (self.library.end)(self.handle, self.code) };
    }
}

/// The conversation: texts for the user are ignored, and questions to the user have no answer, except one for a
/// password, if the transaction has one.
///
/// # Safety
/// The library passes `count` pointers to messages, a place for the responses, and the pointer of the conversation,
/// which is null or a [`Secret`] that outlives the transaction and is used by this thread alone.
unsafe extern "C" fn converse(
    count: c_int,
    messages: *const *const Message,
    responses: *mut *mut Response,
    secret: *mut c_void,
) -> c_int {
    let Ok(count) = usize::try_from(count) else { return CONVERSATION_ERROR };
    // SAFETY: as the library promises. It frees the responses with free.
    unsafe {
        let style = |at: usize| (**messages.add(at)).style;
        let secret = secret.cast::<Secret>().as_ref();
        let is_secret = |at: usize| style(at) == PAM_PROMPT_ECHO_OFF && secret.is_some();
        let shown = |at: usize| matches!(style(at), PAM_ERROR_MSG | PAM_TEXT_INFO);
        if count == 0 || !(0..count).all(|at| shown(at) || is_secret(at)) {
            return CONVERSATION_ERROR;
        }
        let array: *mut Response = libc::calloc(count, size_of::<Response>()).cast();
        if array.is_null() {
            return BUFFER_ERROR;
        }
        for at in (0..count).filter(|at| is_secret(*at)) {
            // A null pointer is a question without an answer.
            let text = secret.map_or(ptr::null_mut(), |secret| libc::strdup(secret.password.as_ptr()));
            (*array.add(at)).text = text;
            if let Some(secret) = secret.filter(|_| !text.is_null()) {
                secret.was_given.set(true);
            }
        }
        *responses = array;
    }
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_remedy() {
        let error = Library::load("libfrevo_no_such.so.9").err().expect("the library cannot be loaded");
        for part in ["libfrevo_no_such.so.9", "libpam0g", "obey pam restrictions"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_library_without_pam_is_refused() {
        let error = Library::load("libc.so.6").err().expect("not PAM");
        assert!(error.contains("pam_start"), "{error}");
    }
}
