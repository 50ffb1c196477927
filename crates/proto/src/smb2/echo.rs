//! ECHO ([MS-SMB2] 2.2.28 and 2.2.29). Request and response have an empty body.

use super::empty_bodies;

empty_bodies! {
    /// Checks that the server responds.
    EchoRequest
    /// The response to ECHO.
    EchoResponse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message};

    // 2.2.28, 2.2.29: StructureSize, Reserved.
    #[test]
    fn bodies_are_empty() {
        golden!(EchoRequest, EchoRequest, "0400 0000");
        golden!(EchoResponse, EchoResponse, "0400 0000");
        assert_eq!(EchoRequest::decode(&message("0500 0000")), Err(Malformed::Structure));
        assert_eq!(EchoRequest::decode(&message("0400 00")), Err(Malformed::Truncated));
    }
}
