//! CANCEL ([MS-SMB2] 2.2.30). The header identifies the request to cancel; there is no response.

use super::empty_bodies;

empty_bodies! {
    /// Cancels an earlier request.
    CancelRequest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message};

    // 2.2.30: StructureSize, Reserved.
    #[test]
    fn bodies_are_empty() {
        golden!(CancelRequest, CancelRequest, "0400 0000");
        assert_eq!(CancelRequest::decode(&message("0500 0000")), Err(Malformed::Structure));
        assert_eq!(CancelRequest::decode(&message("0400 00")), Err(Malformed::Truncated));
    }
}
