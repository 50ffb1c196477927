//! Windows ACLs as clients see them: an ACL that was set is returned, new files inherit, and rights that are not
//! granted are refused ([MS-FSA] 2.1.5.1.2.1, 2.1.5.14, 2.1.5.17).
//!
//! `acl_store.rs` tests which descriptors synthesized from POSIX ACLs are stored, and `acl_cache.rs` tests the memory
//! of the cache.

mod access;
mod fixture;
mod inheritance;
mod mode_bits;
mod privileges;
mod setting;
mod share;
mod stored;

#[test]
fn the_suite_passes_on_remote_storage() {
    server::testing::passes_on_remote_storage(&[]);
}

#[test]
fn the_suite_passes_on_coherent_storage() {
    server::testing::passes_on_coherent_storage();
}
