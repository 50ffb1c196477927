//! Security descriptors and POSIX ACLs, as far as they do not depend on a share in use.
//!
//! - `model`: without I/O, the access check of [MS-DTYP], inheritance, the token of a user, and the format of POSIX
//!   ACLs.
//! - `posix`, `sids`: conversion between DACLs and POSIX ACLs, and between SIDs and Linux ids.
//! - `ntacl`: the extended attribute that stores a descriptor.
//! - `source`, `synthesized`, `protection`: where the descriptor in force is read from or synthesized, and its form in
//!   the cache.
//! - `cache`: effective descriptors of files and the access rights that they grant. `initial`, `file_lock` and
//!   `write_back_queue` are the further state of a server that the functions of `security` use.

use std::sync::{Arc, LazyLock};

use crate::vfs::Identity;

pub(crate) mod cache;
pub(crate) mod file_lock;
pub(crate) mod initial;
pub mod model;
pub mod ntacl;
pub mod posix;
pub(crate) mod protection;
pub(crate) mod sids;
pub(crate) mod source;
pub(crate) mod synthesized;
pub(crate) mod write_back_queue;

/// The identity of the server itself, for operations that no user may do: writing the attribute that holds a
/// descriptor, and operations that a descriptor grants to a user who is not the owner. It is never used to open a path
/// that a client named.
pub(crate) static SERVER: LazyLock<Arc<Identity>> =
    LazyLock::new(|| Arc::new(Identity { uid: 0, gid: 0, groups: Box::new([]) }));
