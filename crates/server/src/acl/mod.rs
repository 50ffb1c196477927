//! Security descriptors and POSIX ACLs, as far as they do not depend on a share in use.
//!
//! - `model`: without I/O, the access check of [MS-DTYP], inheritance, the token of a user, and the format of POSIX
//!   ACLs.
//! - `posix`, `sids`: conversion between DACLs and POSIX ACLs, and between SIDs and Linux ids.
//! - `ntacl`: the extended attribute that stores a descriptor.
//! - `source`, `synthesized`, `protection`: where the descriptor in force is read from or synthesized, and its form in
//!   the cache.
//! - `cache`: effective descriptors of files and the access rights that they grant. `initial` and
//!   `write_back_queue` have the rest of the state that the functions of `security` use.

pub(crate) mod cache;
pub(crate) mod initial;
pub mod model;
pub mod ntacl;
pub mod posix;
pub(crate) mod protection;
pub(crate) mod sids;
pub(crate) mod source;
pub(crate) mod synthesized;
pub(crate) mod write_back_queue;
