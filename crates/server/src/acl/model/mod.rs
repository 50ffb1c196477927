//! Access control without I/O: the access check, inheritance, tokens, and the format of POSIX ACLs.

pub mod evaluate;
pub mod inherit;
pub mod posix_acl;
pub(crate) mod token;
