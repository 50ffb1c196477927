//! Setting security descriptors.

pub(crate) mod apply;
pub(crate) mod file_lock;
pub(crate) mod merge;
pub(crate) mod new_file;
