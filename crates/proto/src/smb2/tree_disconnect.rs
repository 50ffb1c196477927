//! TREE_DISCONNECT ([MS-SMB2] 2.2.11 and 2.2.12): header and an empty body, both ways.

use super::empty_bodies;

empty_bodies! {
    /// Leaves a share.
    TreeDisconnectRequest
    /// It was done.
    TreeDisconnectResponse
}
