//! Setting security descriptors.

pub(crate) mod apply;
pub(crate) mod merge;
pub(crate) mod new_file;
