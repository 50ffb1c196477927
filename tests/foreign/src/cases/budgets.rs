//! System calls per operation, counted by strace over 500 of them. Frevo keeps to a budget; of Samba the figures are
//! printed.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bed::Target;
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("budgets.open_close", |stage| keep(stage, "open_close", 12.0)).needs_root(),
    Case::new("budgets.create_write_64k_close", |stage| keep(stage, "create_write", 20.0)).needs_root(),
    Case::new("budgets.listing_entry", |stage| keep(stage, "listing", 3.0)).needs_root(),
];

const OPERATIONS: f64 = 500.0;

fn keep(stage: &mut Stage, kind: &str, budget: f64) -> Result<()> {
    let _ = fs::remove_dir_all(stage.share("files").join("budget"));
    let mut script = stage.start_script("budget.py", &[kind, &OPERATIONS.to_string()])?;
    script.wait_for("ready")?;
    let table = stage.bed.dir().join("strace");
    let strace = attach(&stage.server.pids(), &table)?;
    script.go_on()?;
    script.wait_for("done")?;
    let table = finish(strace, &table)?;
    script.go_on()?;
    script.end()?;
    let calls = total(&table).with_context(|| format!("no total in strace's table:\n{table}"))? / OPERATIONS;
    println!("    {kind}: {calls:.1} system calls each, the budget is {budget}");
    ensure!(stage.bed.target() != Target::Frevo || calls <= budget, "{calls:.1} system calls each:\n{table}");
    Ok(())
}

/// Starts strace on these processes and waits until it has all their threads.
fn attach(pids: &[u32], table: &std::path::Path) -> Result<Child> {
    let mut command = Command::new("strace");
    command.args(["-c", "-f", "-q", "-o"]).arg(table);
    command.args(pids.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]));
    let mut strace = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot start strace")?;
    let end = Instant::now() + Duration::from_secs(10);
    while !pids.iter().all(|pid| traced(*pid)) {
        if let Some(status) = strace.try_wait()? {
            bail!("strace ended with {status}: may it trace here?");
        }
        ensure!(Instant::now() < end, "strace does not attach");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(strace)
}

/// Whether every thread of a process has a tracer; true for a process that is gone.
fn traced(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.map(|thread| fs::read_to_string(thread.path().join("status")).unwrap_or_default()).all(|status| {
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_none_or(|pid| pid.trim() != "0") || status.contains("State:\tZ")
    })
}

/// Ends strace, which leaves its table.
fn finish(mut strace: Child, table: &std::path::Path) -> Result<String> {
    // SAFETY: kill has no memory effects; the process is the strace started above.
    unsafe { libc::kill(libc::pid_t::try_from(strace.id())?, libc::SIGINT) };
    strace.wait()?;
    Ok(fs::read_to_string(table)?)
}

/// The number of calls in the last row of `strace -c`.
fn total(table: &str) -> Option<f64> {
    let row = table.lines().rev().find(|line| line.trim_end().ends_with(" total"))?;
    row.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found_with_and_without_errors() {
        assert_eq!(total("x\n100.00    0.000123           1       456        12 total\n"), Some(456.0));
        assert_eq!(total("100.00    0.000123           1       456           total\n"), Some(456.0));
        assert_eq!(total(""), None);
    }
}
