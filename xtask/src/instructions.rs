//! `cargo xtask instructions`: counts the instructions of some operations, and compares them with the budgets in
//! `xtask/instructions.tsv`.
//!
//! valgrind executes the program `crates/server/examples/instructions.rs`, so the counts do not depend on what else the
//! machine does. They depend on the compiler.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use test_environment::{Counts, interrupt};

use crate::setup::{self, Set};
use crate::steps::{cargo, succeeds};

/// Options of `cargo xtask instructions`.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Store the counts as the new budgets. The commit says why they rose
    #[arg(long)]
    update: bool,
}

/// The file with the budgets.
const BUDGETS: &str = "xtask/instructions.tsv";
/// How often each operation is repeated.
const TIMES: u64 = 200;
/// How many percent a count may be above its budget, with the compiler that the budgets are for and with another.
const TOLERANCE: u64 = 5;
const OTHER_COMPILER: u64 = 25;
/// The first word of the line that names the compiler.
const COMPILER: &str = "compiler";

/// Counts, and compares. An operation counts as a test.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    setup::run(Set::Frevo)?;
    let compiler = output(Command::new("rustc").arg("--version"))?.trim().to_owned();
    succeeds(build_command())?;
    let program = crate::root().join("target/release/examples/instructions");
    let mut counted = Vec::new();
    for name in output(&mut Command::new(&program))?.lines() {
        interrupt::check()?;
        counted.push((name.to_owned(), count(&program, name)?));
    }
    let path = crate::root().join(BUDGETS);
    if options.update {
        let lines = counted.iter().map(|(name, count)| format!("{name}\t{count}\n"));
        let text: String = std::iter::once(format!("{COMPILER}\t{compiler}\n")).chain(lines).collect();
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let budgets = parse(&text).with_context(|| path.display().to_string())?;
    Ok(compare(&counted, &budgets, &compiler))
}

/// Returns the command that builds the program.
pub(crate) fn build_command() -> Command {
    cargo(&["build", "--quiet", "--release", "--package", "server", "--example", "instructions"])
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot execute {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the number of instructions of one execution of the operation.
fn count(program: &Path, name: &str) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    valgrind.arg("--toggle-collect=instructions::measured*").arg(program).arg(name).arg(TIMES.to_string());
    let output = valgrind.output().context("cannot execute valgrind; cargo xtask setup installs it")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} fails under valgrind: {log}");
    let collected = log.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
    match collected {
        Some(collected) if collected > 0 => Ok(collected / TIMES),
        _ => bail!("{name}: valgrind counts nothing: {log}"),
    }
}

/// The budgets: the compiler that they are for, and a count for each operation.
#[derive(Debug, PartialEq, Eq)]
struct Budgets {
    compiler: String,
    counts: BTreeMap<String, u64>,
}

fn parse(text: &str) -> Result<Budgets> {
    let mut budgets = Budgets { compiler: String::new(), counts: BTreeMap::new() };
    for line in text.lines() {
        let (name, value) =
            line.split_once('\t').with_context(|| format!("{line:?}: not a name, a tab and a value"))?;
        if name == COMPILER {
            budgets.compiler = value.to_owned();
        } else {
            let count = value.parse().with_context(|| format!("{line:?}: not a number"))?;
            budgets.counts.insert(name.to_owned(), count);
        }
    }
    Ok(budgets)
}

fn compare(counted: &[(String, u64)], budgets: &Budgets, compiler: &str) -> Counts {
    let is_same = budgets.compiler == compiler;
    let tolerance = if is_same { TOLERANCE } else { OTHER_COMPILER };
    if !is_same {
        println!(
            "the budgets are for {}, this is {compiler}: up to {tolerance} % more are permitted",
            budgets.compiler
        );
    }
    let mut counts = Counts::default();
    println!("{:<20} {:>12} {:>12}", "instructions", "counted", "budget");
    for (name, count) in counted {
        let budget = budgets.counts.get(name);
        println!("{name:<20} {count:>12} {:>12}", budget.map_or_else(|| "-".to_owned(), u64::to_string));
        let failure = match budget {
            None => Some(format!("{name} has no budget; store it with cargo xtask instructions --update")),
            Some(budget) if count * 100 > budget * (100 + tolerance) => Some(format!(
                "{name} takes {count} instructions, its budget is {budget}; if that is intended, run cargo xtask \
                 instructions --update and say why in the commit"
            )),
            Some(_) => None,
        };
        match failure {
            Some(failure) => counts.add(Counts::failed(failure)),
            None => counts.passed += 1,
        }
    }
    for name in budgets.counts.keys().filter(|name| counted.iter().all(|(known, _)| known != *name)) {
        counts.add(Counts::failed(format!("the operation {name} in {BUDGETS} is not known")));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_above_its_budget_fails() {
        let budgets = parse("compiler\trustc 1\nread\t1000\n").expect("valid budgets");
        let check = |name: &str, count, compiler| {
            let counts = compare(&[(name.to_owned(), count)], &budgets, compiler);
            (counts.passed, counts.failed.len())
        };
        assert_eq!(check("read", 1050, "rustc 1"), (1, 0));
        assert_eq!(check("read", 1051, "rustc 1"), (0, 1));
        assert_eq!(check("read", 1250, "rustc 2"), (1, 0));
        assert_eq!(check("read", 1251, "rustc 2"), (0, 1));
        assert_eq!(check("write", 1, "rustc 1"), (0, 2), "one without a budget, one that is gone");
        assert!(parse("read 1000").is_err() && parse("read\tx").is_err());
    }
}
