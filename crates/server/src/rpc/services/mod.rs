//! The services, each of which is a function from a request to its response.

pub(super) mod lsarpc;
pub(super) mod samr;
pub(super) mod srvsvc;
