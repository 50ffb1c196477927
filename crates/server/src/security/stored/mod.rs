//! Security descriptors in extended attributes.

pub mod ntacl;
pub(crate) mod write_back;
