//! Durable handles as clients see them: which opens survive a disconnect, which clients can reclaim them, and what ends
//! them ([MS-SMB2] 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12, 3.3.7.1).

#[allow(dead_code, reason = "not every test file uses all of it")]
mod again;
mod breaks;
mod forced;
mod persistent;
mod reconnecting;
mod requests;
mod resilient;

#[test]
fn the_suite_passes_on_remote_storage() {
    server::testing::passes_on_remote_storage(&[]);
}

#[test]
fn the_suite_passes_on_coherent_storage() {
    server::testing::passes_on_coherent_storage();
}
