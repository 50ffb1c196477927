//! Clients that cache do random things to the same files: they read from what they have read before, write without
//! telling, keep handles that their programs have closed, and give all that back when the server asks. Whatever a program
//! reads must be what was written last, and locks, renames and deletions must end as a model says.
//!
//! A failing run prints its seed; `FREVO_SEED=n cargo test -p server --test caching` runs that one again. The file system
//! delays reads and writes by the same seed; connections are lost with whatever is under way.

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
fn what_programs_read_was_written_last() {
    if let Ok(seed) = std::env::var("FREVO_SEED") {
        return run(seed.parse().expect("FREVO_SEED is a number"), false);
    }
    for seed in 1..=SEEDS {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, false)));
        assert!(outcome.is_ok(), "seed {seed} failed; FREVO_SEED={seed} runs it again");
    }
}

/// The simulation sees that a server which does not tell its clients of changes is wrong.
#[test]
fn a_server_that_forgets_to_break_is_found_out() {
    let silence = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=20).any(|seed| catch_unwind(AssertUnwindSafe(|| run(seed, true))).is_err());
    std::panic::set_hook(silence);
    assert!(found, "twenty runs saw nothing wrong with a server that breaks no lease on a write");
}
