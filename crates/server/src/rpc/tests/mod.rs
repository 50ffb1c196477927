//! Test support for the services.

pub(super) mod client;
