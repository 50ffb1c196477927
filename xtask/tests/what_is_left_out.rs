//! Says what `cargo test` leaves out. It is a test program without tests, and the last one that `cargo test` runs.

fn main() {
    // A tool that lists tests gets none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    println!("\n{}", left_out(rustix::process::geteuid().is_root()));
}

/// Returns the line.
fn left_out(root: bool) -> String {
    let users = if root { "" } else { ", and what needs root in the tests above" };
    let rest = "`cargo xtask test` runs everything";
    format!("left out: foreign clients, smbtorture, attacks, experiments, fuzzing{users}; {rest}")
}
