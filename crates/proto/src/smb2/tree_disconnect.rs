//! TREE_DISCONNECT ([MS-SMB2] 2.2.11 and 2.2.12). Request and response have an empty body.

use super::empty_bodies;

empty_bodies! {
    /// Disconnects from a share.
    TreeDisconnectRequest
    /// The response to TREE_DISCONNECT.
    TreeDisconnectResponse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message};

    // 2.2.11, 2.2.12: StructureSize, Reserved.
    #[test]
    fn bodies_are_empty() {
        golden!(TreeDisconnectRequest, TreeDisconnectRequest, "0400 0000");
        golden!(TreeDisconnectResponse, TreeDisconnectResponse, "0400 0000");
        assert_eq!(TreeDisconnectRequest::decode(&message("0500 0000")), Err(Malformed::Structure));
        assert_eq!(TreeDisconnectRequest::decode(&message("0400 00")), Err(Malformed::Truncated));
    }
}
