//! Access control for files: security descriptors, POSIX ACLs, and the access check.
//!
//! - `access`: may a user perform an operation?
//! - `evaluate`, `inherit`, `token`: the access check of [MS-DTYP], inheritance, and the token of a user.
//! - `descriptor`, `material`, `bare`, `cache`: which descriptor is in force for a file, and its cache.
//! - `posix`, `posix_acl`, `sids`: conversion between DACLs and POSIX ACLs, and between SIDs and Linux ids.
//! - `store`, `storing`: the extended attribute that stores a descriptor, and the write-back of synthesized ones.
//! - `placing`, `parts`, `guard`, `turns`: setting a descriptor, merging its parts, new files, and per-file locks.
//! - `desk`, `trial`: local administration of ACLs, and a probe that measures access checks.

pub(crate) mod access;
mod bare;
pub(crate) mod cache;
pub(crate) mod descriptor;
pub mod desk;
pub mod evaluate;
pub(crate) mod guard;
pub mod inherit;
mod material;
pub(crate) mod parts;
pub(crate) mod placing;
pub mod posix;
pub mod posix_acl;
pub(crate) mod sids;
pub mod store;
pub(crate) mod storing;
pub(crate) mod token;
pub mod trial;
mod turns;
