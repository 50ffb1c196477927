//! CANCEL ([MS-SMB2] 2.2.30): which request is meant stands in the header; there is no response.

use super::empty_bodies;

empty_bodies! {
    /// Gives up an earlier request.
    CancelRequest
}
