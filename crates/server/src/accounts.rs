//! The accounts that may log on, as the server sees them: a trait that the daemon's back ends fill.

use std::sync::Arc;

use crate::answer::Answer;
use crate::vfs::Identity;

/// The one thing that a logon needs from a back end.
pub trait Accounts: Send + Sync {
    /// The account of `name`, compared without regard to case; `None` where there is none.
    /// An error means that the back end could not be asked: it must never be taken for "no such user".
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;
}

/// One account, with all that a session needs to know of its owner.
#[derive(Clone)]
pub struct Account {
    /// The name as it is stored, for display and for `valid users`.
    pub name: String,
    /// MD4 of the UTF-16LE password, the key of NTLMv2 ([MS-NLMP] 3.3.1); `None` where the account has no password
    /// and so cannot log on by NTLM.
    pub nt_hash: Option<NtHash>,
    /// Whether logons are refused with STATUS_ACCOUNT_DISABLED.
    pub disabled: bool,
    /// The user that the kernel knows.
    pub identity: Arc<Identity>,
    /// The names of the UNIX groups of `identity`, for `@group` in `valid users` and the like.
    pub groups: Arc<[String]>,
}

/// An NT password hash. It is a password equivalent: it has no `Debug` text and is wiped when dropped.
#[derive(Clone, zeroize::Zeroize, zeroize::ZeroizeOnDrop)]
pub struct NtHash(pub [u8; 16]);

/// The back end could not be asked; the text says which and why, for the log.
#[derive(Debug)]
pub struct Unavailable(pub String);
