//! ECHO ([MS-SMB2] 2.2.28 and 2.2.29): header and an empty body, both ways.

use super::empty_bodies;

empty_bodies! {
    /// Asks whether the server answers.
    EchoRequest
    /// It does.
    EchoResponse
}
