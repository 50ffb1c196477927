//! The unit tests: builds the test programs of the workspace, and runs one after the other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;
use test_environment::{Counts, interrupt};

use crate::steps::{cargo, succeeds};

/// A test program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    executable: PathBuf,
    /// The package's folder, in which `cargo test` runs it.
    folder: PathBuf,
    /// Selects it for `cargo test`: `-p PACKAGE --lib`.
    selection: String,
}

/// Builds and runs all test programs. `filter` is a part of the names of the tests to run.
pub(crate) fn run(filter: Option<&str>) -> Result<Counts> {
    let mut counts = run_programs(&["--workspace"], &|program| program.run(filter))?;
    let documentation = ["test", "--quiet", "--workspace", "--doc"];
    let documentation = succeeds(cargo(&documentation))?;
    // There are no such tests today, so success is not counted.
    counts.failed.extend(documentation.failed);
    Ok(counts)
}

/// Builds the test programs of a package and runs each with the command that `enter` returns for its folder and path.
/// `repeat` is the command that repeats a failed test if it is given its name.
pub(crate) fn run_in(
    package: &str,
    filter: Option<&str>,
    enter: &dyn Fn(&Path, &Path) -> Command,
    repeat: &str,
) -> Result<Counts> {
    let run = |program: &Program| {
        let command = enter(&program.folder, &program.executable);
        program.run_by(command, filter, Some(repeat))
    };
    run_programs(&["-p", package], &run)
}

/// Builds the test programs of the packages that `selection` stands for, and runs one after the other.
fn run_programs(selection: &[&str], run: &dyn Fn(&Program) -> Result<Counts>) -> Result<Counts> {
    let start = Instant::now();
    let Some(programs) = build(selection)? else {
        let again = format!("cargo test {} --no-run", selection.join(" "));
        return Ok(Counts::failed("the tests do not compile").repeated_by(&again));
    };
    println!("{} test programs built in {:.0} s", programs.len(), start.elapsed().as_secs_f64());
    let mut counts = Counts::default();
    for (number, program) in programs.iter().enumerate() {
        interrupt::check()?;
        let start = Instant::now();
        let result = run(program)?;
        let (passed, failed, seconds) = (result.passed, result.failed.len(), start.elapsed().as_secs_f64());
        let (number, all, selection) = (number + 1, programs.len(), &program.selection);
        println!("{number:>3}/{all} {selection:<48} {passed:>5} passed {failed:>3} failed {seconds:>6.1} s");
        counts.add(result);
    }
    Ok(counts)
}

/// Builds the test programs; `None` if they do not compile.
fn build(selection: &[&str]) -> Result<Option<Vec<Program>>> {
    let mut command = cargo(&["test", "--quiet", "--no-run"]);
    command.args(selection).arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = BufReader::new(child.stdout.take().context("cargo has no standard output")?);
    let mut programs = Vec::new();
    for line in output.lines() {
        programs.extend(program(&serde_json::from_str(&line?).context("cargo's messages are not JSON")?));
    }
    Ok(child.wait()?.success().then_some(programs))
}

/// Reads a message of cargo about a test program; `None` if it is about anything else.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // `path+file:///folder#name@version`, or without the name if it is the folder's.
    let (_, id) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = match id.split_once('@') {
        Some((name, _)) => name,
        None => folder.file_name()?.to_str()?,
    };
    let target = &message["target"];
    let name = target["name"].as_str()?;
    let selection = match target["kind"][0].as_str()? {
        "bin" => format!("-p {package} --bin {name}"),
        "test" => format!("-p {package} --test {name}"),
        _ => format!("-p {package} --lib"),
    };
    Some(Program { executable, folder, selection })
}

impl Program {
    /// Runs the program. Its output is shown only if one of its tests fails.
    fn run(&self, filter: Option<&str>) -> Result<Counts> {
        self.run_by(Command::new(&self.executable), filter, None)
    }

    /// Runs the program with the given command. `repeat` is the command that repeats a failed test if it is given its
    /// name; without it, cargo does.
    fn run_by(&self, mut command: Command, filter: Option<&str>, repeat: Option<&str>) -> Result<Counts> {
        command.args(filter).current_dir(&self.folder).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("cannot start {}", self.executable.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let counts = self.read(&said, output.status.success(), repeat);
        if !counts.failed.is_empty() {
            println!("{said}");
        }
        Ok(counts)
    }

    /// Reads the counts in the output of the program. A program that dies before it prints them is one failure.
    fn read(&self, said: &str, success: bool, repeat: Option<&str>) -> Counts {
        let again = format!("cargo test {}", self.selection);
        match said.lines().find_map(counted) {
            Some((passed, failed)) => {
                let mut counts = Counts::passed(passed);
                for name in failures(said, failed) {
                    let alone = match repeat {
                        Some(repeat) => format!("{repeat} {name}"),
                        None => format!("{again} -- --exact {name}"),
                    };
                    counts.add(Counts::failed(format!("{name} ({})", self.selection)).repeated_by(&alone));
                }
                counts
            }
            // A program without tests that prints something.
            None if success => Counts::default(),
            None => Counts::failed(format!("the test program died ({})", self.selection))
                .repeated_by(repeat.unwrap_or(&again)),
        }
    }
}

/// Parses the counts in `test result: ok. 3 passed; 0 failed; ...`.
fn counted(line: &str) -> Option<(usize, usize)> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |word: &str| rest.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
    Some((number("passed")?, number("failed")?))
}

/// Returns the `failed` names that a test program lists at its end.
fn failures(said: &str, failed: usize) -> Vec<String> {
    let listed = said.rsplit_once("failures:\n").map_or("", |(_, list)| list);
    let names = listed.lines().filter_map(|line| line.strip_prefix("    "));
    names.chain(std::iter::repeat("a test without a name")).take(failed).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_of_test_programs_are_read() {
        for (line, expected) in [
            (
                "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                Some((12, 0)),
            ),
            ("test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out", Some((3, 2))),
            ("running 3 tests", None),
            ("test result: what", None),
        ] {
            assert_eq!(counted(line), expected, "{line}");
        }
    }

    #[test]
    fn names_of_failed_tests_are_read() {
        let said =
            "failures:\n\n---- a::b stdout ----\npanicked\n\n\nfailures:\n    a::b\n    a::c\n\ntest result: FAILED.";
        assert_eq!(failures(said, 2), ["a::b", "a::c"]);
        assert_eq!(failures("", 1), ["a test without a name"]);
        assert_eq!(failures("test result: ok.", 0), [""; 0]);
    }

    fn built(kind: &str, name: &str, id: &str) -> Value {
        json!({
            "reason": "compiler-artifact",
            "package_id": format!("path+file:///w/crates/{id}"),
            "manifest_path": "/w/crates/frevo/Cargo.toml",
            "target": { "kind": [kind], "name": name },
            "profile": { "test": true },
            "executable": "/w/target/debug/deps/x-1",
        })
    }

    #[test]
    fn a_failed_test_has_a_command_that_runs_it_alone() {
        let said = "\nfailures:\n    a::b\n\ntest result: FAILED. 3 passed; 1 failed; 0 ignored";
        let check = |kind, name, id, expected: &str| {
            let counts = program(&built(kind, name, id)).unwrap().read(said, false, None);
            assert_eq!((counts.passed, counts.failed.len()), (3, 1));
            assert_eq!(counts.failed[0].repeat.as_deref(), Some(expected));
        };
        check("lib", "frevo", "frevo#0.1.0", "cargo test -p frevo --lib -- --exact a::b");
        check("bin", "frevo", "frevo#0.1.0", "cargo test -p frevo --bin frevo -- --exact a::b");
        check("test", "crash", "x#frevo@0.1.0", "cargo test -p frevo --test crash -- --exact a::b");
    }

    #[test]
    fn a_test_that_runs_elsewhere_is_repeated_there() {
        let said = "\nfailures:\n    a::b\n\ntest result: FAILED. 3 passed; 1 failed; 0 ignored";
        let program = program(&built("lib", "gluster", "gluster#0.1.0")).unwrap();
        let repeat =
            |said| program.read(said, false, Some("cargo xtask gluster test")).failed[0].repeat.clone().unwrap();
        assert_eq!(repeat(said), "cargo xtask gluster test a::b");
        assert_eq!(repeat("running 2 tests\n"), "cargo xtask gluster test");
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let program = program(&built("test", "crash", "frevo#0.1.0")).unwrap();
        let counts = program.read("running 2 tests\n", false, None);
        assert_eq!(counts.failed[0].repeat.as_deref(), Some("cargo test -p frevo --test crash"));
        assert_eq!(program.read("left out: ...\n", true, None), Counts::default());
        assert_eq!(super::program(&json!({ "reason": "build-finished" })), None);
    }
}
