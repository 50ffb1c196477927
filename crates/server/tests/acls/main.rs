//! Windows ACLs seen from the client's side: what is set comes back, what is made inherits, and what is not granted is
//! refused ([MS-FSA] 2.1.5.1.2.1, 2.1.5.14, 2.1.5.17).
//!
//! When descriptors that were made of POSIX ACLs are stored is in `acl_store.rs`, how much of them is kept in memory in
//! `acl_cache.rs`.

mod access;
mod bed;
mod inheritance;
mod mode_bits;
mod privileges;
mod setting;
mod stored;
