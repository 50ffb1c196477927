//! Who may do what with a file.

pub(crate) mod access;
pub mod evaluate;
pub mod posix;
pub mod posix_acl;
