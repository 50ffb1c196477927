//! Runs a suite of tests a second time, on storage that behaves as on another machine.

use std::process::{Command, Output};

use super::volume::{REMOTE, STORAGE};

/// The name that the test with [`passes_on_remote_storage`] has in each suite.
const TEST: &str = "the_suite_passes_on_remote_storage";

/// Runs the tests of this program on [`Remote`](crate::vfs::remote::Remote) storage, each in a new process. `except`:
/// the full names of tests that need what such storage does not have, each with the reason. They must fail.
///
/// # Panics
/// If a test fails that is not in `except`, or one passes that is.
pub fn passes_on_remote_storage(except: &[(&str, &str)]) {
    // The suite is running on it already.
    if super::volume::is_remote() {
        return;
    }
    let skipped = except.iter().flat_map(|(name, _)| ["--skip", name]);
    let others = run(["--exact", "--skip", TEST].into_iter().chain(skipped));
    assert!(
        others.status.success(),
        "tests failed on remote storage; to repeat one, set {STORAGE}={REMOTE} and run it\n{}",
        String::from_utf8_lossy(&others.stdout),
    );
    for (name, reason) in except {
        let outcome = run(["--exact", name].into_iter());
        assert!(
            !outcome.status.success(),
            "{name} ({reason}) no longer fails, or does not exist; remove it from the list"
        );
    }
}

/// Runs this test program on remote storage.
fn run<'a>(arguments: impl Iterator<Item = &'a str>) -> Output {
    let program = std::env::current_exe().expect("the path of this program is known");
    let output = Command::new(program).args(arguments).env(STORAGE, REMOTE).output();
    output.expect("this program can be started again")
}
