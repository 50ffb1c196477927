//! Access control for files: security descriptors, POSIX ACLs, and the access check.
//!
//! - `access`: may a user perform an operation?
//! - `model`: without I/O, the access check of [MS-DTYP], inheritance, the token of a user, and the format of POSIX
//!   ACLs.
//! - `effective`: which descriptor is in force for a file, where it is read from or synthesized, and its cache.
//! - `posix`, `sids`: conversion between DACLs and POSIX ACLs, and between SIDs and Linux ids.
//! - `stored`: the extended attribute that stores a descriptor, and the write-back of synthesized ones.
//! - `set`: setting a descriptor, merging its parts, new files, and per-file locks.
//! - `admin`, `admin_probe`: local administration of ACLs, and a probe that measures access checks.

pub(crate) mod access;
pub mod admin;
pub mod admin_probe;
pub(crate) mod effective;
pub mod model;
pub mod posix;
pub(crate) mod set;
pub(crate) mod sids;
pub mod stored;
