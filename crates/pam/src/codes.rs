//! PAM's codes, as their NTSTATUS in Samba 4.17.

use proto::status::Status;

use crate::message::{Answer, Stage};

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const BUFFER_ERROR: i32 = 5;
pub(crate) const CONVERSATION_ERROR: i32 = 19;

/// Returns the status for the client; `None` if the user may log on. Codes without a row are those for which Samba has
/// no meaning either: errors of a module or of the configuration.
pub(crate) fn status(answer: &Answer) -> Option<Status> {
    match answer.stage {
        Stage::Admitted => return None,
        // The service has no usable file.
        Stage::Start => return Some(Status::ACCOUNT_DISABLED),
        Stage::Session | Stage::User => return Some(Status::LOGON_FAILURE),
        Stage::Account => {}
    }
    Some(match answer.code {
        BUFFER_ERROR => Status::NO_MEMORY,
        // PAM_PERM_DENIED, and PAM_IGNORE, which the library returns as that.
        6 | 25 => Status::ACCESS_DENIED,
        // PAM_AUTH_ERR, PAM_AUTHINFO_UNAVAIL and PAM_USER_UNKNOWN.
        7 | 9 | 10 => Status::LOGON_FAILURE,
        // PAM_CRED_INSUFFICIENT.
        8 => Status::INSUFFICIENT_LOGON_INFO,
        // PAM_MAXTRIES.
        11 => Status::REMOTE_SESSION_LIMIT,
        // PAM_NEW_AUTHTOK_REQD.
        12 => Status::PASSWORD_MUST_CHANGE,
        // PAM_ACCT_EXPIRED.
        13 => Status::ACCOUNT_EXPIRED,
        // PAM_SESSION_ERR.
        14 => Status::INSUFFICIENT_RESOURCES,
        // PAM_CRED_UNAVAIL.
        15 => Status::NO_TOKEN,
        // PAM_CRED_EXPIRED and PAM_AUTHTOK_EXPIRED.
        16 | 27 => Status::PASSWORD_EXPIRED,
        _ => Status::UNSUCCESSFUL,
    })
}
