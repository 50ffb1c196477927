//! Information classes of files, file systems and security ([MS-FSCC] 2.4, 2.5; [MS-DTYP] 2.4.6).

pub(crate) mod ea;
pub(crate) mod file;
pub(crate) mod filesystem;
pub(crate) mod pipe;
pub(crate) mod security;
mod streams;
