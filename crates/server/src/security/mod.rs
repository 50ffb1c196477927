//! Access control for files in a share. Their security descriptors are modelled and cached in [`crate::acl`].
//!
//! - `access`: whether a user may perform an operation.
//! - `effective`: which descriptor is in force for a file.
//! - `write_back`: storing synthesized descriptors.
//! - `set`: setting a descriptor, merging its parts, and the initial descriptors of new files.
//! - `admin`, `admin_probe`: local administration of ACLs, and a probe that measures access checks.

pub(crate) mod access;
pub mod admin;
pub mod admin_probe;
pub(crate) mod effective;
pub(crate) mod set;
pub(crate) mod write_back;
