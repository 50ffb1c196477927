//! Who may do what with a file.

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
