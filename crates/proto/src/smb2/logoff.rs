//! LOGOFF ([MS-SMB2] 2.2.7 and 2.2.8). Request and response have an empty body.

use super::empty_bodies;

empty_bodies! {
    /// Ends a session.
    LogoffRequest
    /// The response to LOGOFF.
    LogoffResponse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message};

    // 2.2.7, 2.2.8: StructureSize, Reserved.
    #[test]
    fn bodies_are_empty() {
        golden!(LogoffRequest, LogoffRequest, "0400 0000");
        golden!(LogoffResponse, LogoffResponse, "0400 0000");
        assert_eq!(LogoffRequest::decode(&message("0500 0000")), Err(Malformed::Structure));
        assert_eq!(LogoffRequest::decode(&message("0400 00")), Err(Malformed::Truncated));
    }
}
