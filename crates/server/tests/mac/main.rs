//! The extensions for macOS as clients see them: Finder info and resource forks that several shares reach, modes in
//! security descriptors, listings, and copies of whole files.

mod fixture;
mod security;
mod streams;
mod time_machine;

#[test]
fn the_suite_passes_on_remote_storage() {
    server::testing::passes_on_remote_storage(&[]);
}
