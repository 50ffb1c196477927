//! Reparse points and symbolic links on an in-memory file system: clients create them and open them themselves. No link
//! leads out of the share or to anything that it hides.

mod escapes;
mod fixture;
mod handles;
mod points;

#[test]
fn the_suite_passes_on_remote_storage() {
    server::testing::passes_on_remote_storage(&[]);
}
