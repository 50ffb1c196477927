//! LOGOFF ([MS-SMB2] 2.2.7 and 2.2.8): header and an empty body, both ways.

use super::empty_bodies;

empty_bodies! {
    /// Ends a session.
    LogoffRequest
    /// It was done.
    LogoffResponse
}
