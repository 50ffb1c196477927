//! Account and session management of the host's PAM library, for `obey pam restrictions`.
//!
//! PAM modules execute programs, change limits and masks of the process, install signal handlers, and may hang or
//! crash. They therefore never run in the server: [`Helper::start`] forks a process before the server gives up
//! privileges, and that process forks another one for each logon, which ends or is killed after [`LIMIT`]. The server
//! asks through [`Pam`].
//!
//! - `message` is what is exchanged: a request with a socket for its answer, which stays open as long as the session.
//! - `helper` is the process of the host's modules, `process` and `library` the system interfaces that it uses.
//! - `client` is the server's side, and `codes` converts PAM's codes.
//!
//! [`verify_password`] verifies a password, for the console. It is called in a process that does nothing else.
//!
//! Unsafe code is confined to `process` and `library`.
#![deny(unsafe_code)]

mod client;
mod codes;
mod helper;
#[allow(unsafe_code)]
mod library;
mod message;
#[allow(unsafe_code)]
pub mod process;

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

pub use self::client::Pam;
pub use self::helper::Helper;
use self::library::{Library, Secret};

/// The name that stands for the terminal of a logon to the console. It is not `console`, which modules such as
/// `pam_securetty` take for the screen of the machine.
const TERMINAL: &str = "frevo-console";

/// How long the modules may take for one logon, or for the end of a session, and how long a client waits.
pub const LIMIT: Duration = Duration::from_secs(10);

/// The library and its configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file name of the library.
    pub library: String,
    /// The service, whose file is in `/etc/pam.d`. Without that file, the library uses the file `other`.
    pub service: String,
    /// A directory instead of `/etc/pam.d`; for tests.
    pub directory: Option<PathBuf>,
    /// How long the modules may take.
    pub limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { library: "libpam.so.0".into(), service: "samba".into(), directory: None, limit: LIMIT }
    }
}

/// Why a password was not verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotVerified {
    /// It is wrong, or the account may not be used; the text is PAM's.
    Refused(String),
    /// The library or its service cannot be used; the text says why.
    Unavailable(String),
}

/// Verifies the password of a UNIX user, and that the account may be used now. `client` is the address that modules
/// see, if the client has one. The modules may hang, execute programs and change the process, so it is called in a
/// process that does nothing else.
///
/// Modules that succeed without asking for the password do not verify it: `pam_permit`, `pam_rootok` because the
/// process is root's, or `pam_unix` with `nullok` for a user without a password. Such a success is a refusal here.
///
/// # Errors
/// The password is not verified.
pub fn verify_password(
    settings: &Settings,
    name: &str,
    password: &str,
    client: Option<&str>,
) -> Result<(), NotVerified> {
    let library = Library::load(&settings.library).map_err(NotVerified::Unavailable)?;
    let refused = |why: &str| NotVerified::Refused(why.to_owned());
    let user = CString::new(name).map_err(|_| refused("the name contains a zero"))?;
    let secret = Secret::new(password).map_err(|_| refused("the password contains a zero"))?;
    let begun = library.start(&settings.service, settings.directory.as_deref(), &user, Some(&secret));
    let mut transaction = begun.map_err(|code| NotVerified::Unavailable(library.text(code)))?;
    let outcome = transaction.describe(client, TERMINAL).and_then(|()| transaction.authenticate());
    outcome.map_err(|code| NotVerified::Refused(library.text(code)))?;
    if !secret.was_given() {
        return Err(refused("the modules have not asked for the password; check the service"));
    }
    transaction.check_account().map_err(|code| NotVerified::Refused(library.text(code)))
}

/// Loads the library, to report early that it is missing. The error names it and the remedy.
pub fn check() -> Result<(), String> {
    Library::load(&Settings::default().library).map(drop)
}
