//! Random operations of caching clients on the same files. They read from their caches, write without informing the
//! server, keep handles that their programs have closed, and give all that up when the server breaks a lease. Every
//! read of a program must return the value written last, and locks, renames and deletions must have the results of a
//! model.
//!
//! A failing run prints its seed, and `FREVO_SEED=n cargo test -p server --test caching` repeats that run. The file
//! system delays reads and writes depending on the same seed, and connections are lost with requests in progress.

mod actors;

use std::panic::{AssertUnwindSafe, catch_unwind};

use actors::Stage;

const SEEDS: u64 = 200;
const STEPS: usize = 400;

fn run(seed: u64, forgetful: bool) {
    let mut stage = Stage::new(seed, forgetful);
    for _ in 0..STEPS {
        stage.step();
    }
    stage.end();
}

#[test]
fn programs_read_the_last_written_content() {
    if let Ok(seed) = std::env::var("FREVO_SEED") {
        return run(seed.parse().expect("FREVO_SEED is a number"), false);
    }
    for seed in 1..=SEEDS {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, false)));
        assert!(outcome.is_ok(), "seed {seed} failed; FREVO_SEED={seed} runs it again");
    }
}

/// The simulation detects a server that does not break leases on changes.
#[test]
fn a_server_that_omits_breaks_is_detected() {
    let silence = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=20).any(|seed| catch_unwind(AssertUnwindSafe(|| run(seed, true))).is_err());
    std::panic::set_hook(silence);
    assert!(found, "twenty runs did not detect a server that breaks no lease on a write");
}

#[test]
fn the_suite_passes_on_remote_storage() {
    server::testing::passes_on_remote_storage(&[]);
}

#[test]
fn the_suite_passes_on_coherent_storage() {
    server::testing::passes_on_coherent_storage();
}
