//! Runs a suite of tests a second time, on storage that behaves as on another machine.

use std::process::{Command, Output};

use super::volume::{STORAGE, coherence, name_of};
use crate::vfs::remote::Coherence;

/// The name that the test with [`passes_on_remote_storage`] has in each suite.
const TEST: &str = "the_suite_passes_on_remote_storage";

/// The name that the test with [`passes_on_coherent_storage`] has in each suite.
const COHERENT_TEST: &str = "the_suite_passes_on_coherent_storage";

/// Runs the tests of this program on [`Remote`](crate::vfs::remote::Remote) storage, each in a new process. `except`:
/// the full names of tests that need what such storage does not have, each with the reason. They must fail.
///
/// # Panics
/// If a test fails that is not in `except`, or one passes that is.
pub fn passes_on_remote_storage(except: &[(&str, &str)]) {
    // The suite is running on it already.
    if coherence().is_some() {
        return;
    }
    let storage = Coherence::default();
    all_pass(storage, except);
    for (name, reason) in except {
        let outcome = run(storage, ["--exact", name].into_iter());
        assert!(
            !outcome.status.success(),
            "{name} ({reason}) no longer fails, or does not exist; remove it from the list"
        );
    }
}

/// Runs the tests of this program on [`Remote`](crate::vfs::remote::Remote) storage that nobody else changes, and on
/// such storage that reports changes, each in a new process.
///
/// # Panics
/// If a test fails.
pub fn passes_on_coherent_storage() {
    if coherence().is_none() {
        [Coherence::Own, Coherence::Callback].iter().for_each(|&storage| all_pass(storage, &[]));
    }
}

/// Runs the tests of this program on `storage`, without those in `except`.
///
/// # Panics
/// If a test fails.
fn all_pass(storage: Coherence, except: &[(&str, &str)]) {
    let skipped = except.iter().flat_map(|(name, _)| ["--skip", name]);
    let others = run(storage, ["--exact", "--skip", TEST, "--skip", COHERENT_TEST].into_iter().chain(skipped));
    assert!(
        others.status.success(),
        "tests failed on remote storage; to repeat one, set {STORAGE}={} and run it\n{}",
        name_of(storage),
        String::from_utf8_lossy(&others.stdout),
    );
}

/// Runs this test program on remote storage.
fn run<'a>(storage: Coherence, arguments: impl Iterator<Item = &'a str>) -> Output {
    let program = std::env::current_exe().expect("the path of this program is known");
    let output = Command::new(program).args(arguments).env(STORAGE, name_of(storage)).output();
    output.expect("this program can be started again")
}
