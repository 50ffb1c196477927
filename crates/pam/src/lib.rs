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
/// see. The modules may hang, execute programs and change the process, so it is called in a process that does nothing
/// else.
///
/// # Errors
/// The password is not verified.
pub fn verify_password(settings: &Settings, name: &str, password: &str, client: &str) -> Result<(), NotVerified> {
    let library = library::Library::load(&settings.library).map_err(NotVerified::Unavailable)?;
    let text = |text: &str| CString::new(text).map_err(|_| NotVerified::Refused("it contains a zero".to_owned()));
    let (user, password) = (text(name)?, text(password)?);
    let begun = library.start(&settings.service, settings.directory.as_deref(), &user, Some(&password));
    let mut transaction = begun.map_err(|code| NotVerified::Unavailable(library.text(code)))?;
    let outcome = transaction.describe(client, "console").and_then(|()| transaction.authenticate());
    let outcome = outcome.and_then(|()| transaction.check_account());
    outcome.map_err(|code| NotVerified::Refused(library.text(code)))
}

/// Loads the library, to report early that it is missing. The error names it and the remedy.
pub fn check() -> Result<(), String> {
    library::Library::load(&Settings::default().library).map(drop)
}
