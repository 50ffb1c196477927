//! `cargo xtask sharing`: finds the cache lines that requests of two clients both access and at least one of them
//! writes, and compares their number with the budgets in `xtask/sharing.tsv`.
//!
//! Such a line moves from one processor to another with each request, and a lock in it makes them wait for each other.
//! Lines that nobody writes cost nothing. So their number determines how the server behaves with many processors, and
//! two processors are enough to count them. valgrind executes the program `crates/server/examples/sharing` and
//! reports each access to memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use test_environment::{Counts, interrupt};

use crate::setup::{self, Set};
use crate::steps::{cargo, succeeds};

/// The file with the budgets.
const BUDGETS: &str = "xtask/sharing.tsv";
/// Shift that gives the number of the cache line of an address.
const LINE: u32 = 6;
/// Source files of the tests' own clock and storage.
const NOT_COUNTED: [&str; 2] = ["server/src/testing/", "server/src/vfs/memory/"];
/// How often the program is executed if counts are above their budgets. Tables are divided by random hashes, so two
/// files are in the same part by chance.
const ATTEMPTS: usize = 3;

/// The accesses to a cache line by one client: addresses of instructions.
#[derive(Default)]
struct Line {
    reads: BTreeSet<u64>,
    writes: BTreeSet<u64>,
}

/// The accesses of one request.
type Trace = HashMap<u64, Line>;

/// What the program printed about itself.
struct Addresses {
    begin: u64,
    end: u64,
    main: u64,
    operations: Vec<String>,
}

/// A shared line: the places in the source that access it.
type Places = BTreeSet<String>;

/// Counts, and compares. An operation counts as a test.
pub(crate) fn run() -> Result<Counts> {
    setup::run(Set::Frevo)?;
    succeeds(build_command())?;
    let program = crate::root().join("target/release/examples/sharing");
    let path = crate::root().join(BUDGETS);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let budgets = parse(&text).with_context(|| path.display().to_string())?;
    let mut fewest: Vec<(String, Vec<Places>)> = Vec::new();
    for _ in 0..ATTEMPTS {
        interrupt::check()?;
        let counted = count(&program)?;
        if fewest.is_empty() {
            fewest = counted;
        } else {
            let lower = fewest.iter_mut().zip(counted).filter(|((_, known), (_, new))| new.len() < known.len());
            lower.for_each(|(known, new)| *known = new);
        }
        if compare(&fewest, &budgets).failed.is_empty() {
            break;
        }
    }
    for (name, lines) in &fewest {
        println!("{name}: {} shared cache lines (budget {})", lines.len(), budgets.get(name).unwrap_or(&0));
        for places in lines {
            println!("    {}", places.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
        }
    }
    Ok(compare(&fewest, &budgets))
}

/// Returns the command that builds the program.
pub(crate) fn build_command() -> Command {
    cargo(&["build", "--quiet", "--release", "--package", "server", "--example", "sharing"])
}

/// Executes the program, and returns the shared lines of each operation.
fn count(program: &Path) -> Result<Vec<(String, Vec<Places>)>> {
    // valgrind always loads the program to the same address.
    let mut asked = Command::new("valgrind");
    asked.args(["--tool=none", "--quiet"]).arg(program).arg("addresses");
    let out = asked.output().context("cannot execute valgrind; cargo xtask setup installs it")?;
    let addresses = Addresses::parse(&String::from_utf8(out.stdout)?)?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes"]).arg(program).arg("run");
    let mut child = valgrind.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let trace = child.stderr.take().context("no trace")?;
    let traces = traces(BufReader::with_capacity(1 << 20, trace), &addresses);
    let status = child.wait()?;
    let traces = traces?;
    ensure!(status.success(), "{} failed under valgrind ({status})", program.display());
    ensure!(traces.len() == 2 * addresses.operations.len(), "{} traces were found", traces.len());
    let shared: Vec<Vec<BTreeSet<u64>>> = traces.chunks(2).map(|pair| shared(&pair[0], &pair[1])).collect();
    let all: BTreeSet<u64> = shared.iter().flatten().flatten().copied().collect();
    let known = places(program, addresses.main, &all)?;
    let of = |line: &BTreeSet<u64>| line.iter().filter_map(|at| known.get(at).cloned()).collect::<Places>();
    let counted = shared.iter().map(|lines| lines.iter().map(of).filter(is_counted).collect());
    Ok(addresses.operations.iter().cloned().zip(counted).collect())
}

impl Addresses {
    fn parse(text: &str) -> Result<Addresses> {
        let words = |name| text.lines().filter_map(move |line| line.strip_prefix(name)).map(str::trim);
        let address = |name| -> Result<u64> {
            let text = words(name).next().with_context(|| format!("the program does not print {name:?}"))?;
            u64::from_str_radix(text, 16).with_context(|| format!("{name} {text:?}: not an address"))
        };
        let operations = words("operation ").map(str::to_owned).collect();
        Ok(Addresses { begin: address("begin ")?, end: address("end ")?, main: address("main ")?, operations })
    }
}

/// Reads the accesses between the marks. A line of the trace is `I  ADDRESS,SIZE` for an instruction, and ` L`, ` S` or
/// ` M` instead of `I ` for what it loads, stores or modifies.
fn traces(mut from: impl BufRead, addresses: &Addresses) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    let mut current: Option<Trace> = None;
    let begin = format!("{:08x},", addresses.begin);
    let (mut line, mut instruction) = (Vec::new(), 0);
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(traces);
        }
        let Some(trace) = &mut current else {
            // Most lines are not between marks. They are only compared.
            current = line.get(3..).is_some_and(|text| text.starts_with(begin.as_bytes())).then(Trace::new);
            continue;
        };
        let Some((kind, address, size)) = access(&line) else { continue };
        match address {
            _ if kind == b'I' => instruction = address,
            // The instruction that writes it may also read it.
            _ if address == addresses.begin => {}
            _ if address == addresses.end => traces.extend(current.take()),
            _ => {
                for number in address >> LINE..=(address + size.max(1) - 1) >> LINE {
                    let line = trace.entry(number).or_default();
                    let set = if kind == b'L' { &mut line.reads } else { &mut line.writes };
                    set.insert(instruction);
                }
            }
        }
    }
}

/// Returns the kind, the address and the size of an access.
fn access(line: &[u8]) -> Option<(u8, u64, u64)> {
    let kind = match line.first_chunk()? {
        b"I " => b'I',
        [b' ', kind @ (b'L' | b'S' | b'M')] => *kind,
        _ => return None,
    };
    let text = std::str::from_utf8(line.get(2..)?).ok()?;
    let (address, size) = text.trim().split_once(',')?;
    Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

/// Returns the lines that both access and one of them writes: the addresses of instructions that access them.
fn shared(one: &Trace, other: &Trace) -> Vec<BTreeSet<u64>> {
    let common = one.iter().filter_map(|(number, line)| Some((line, other.get(number)?)));
    let written = common.filter(|(line, other)| !(line.writes.is_empty() && other.writes.is_empty()));
    let all = |line: &Line| line.reads.iter().chain(&line.writes).copied().collect::<Vec<_>>();
    written.map(|(line, twin)| all(line).into_iter().chain(all(twin)).collect()).collect()
}

/// Returns whether the line belongs to the server, and not to the tests' parts.
fn is_counted(places: &Places) -> bool {
    !places.iter().any(|place| NOT_COUNTED.iter().any(|other| place.starts_with(other)))
}

/// Returns the place in the project's source of each instruction, such as `server/src/files/table.rs:128`, if it has
/// one. Of functions that are inlined into each other, it is the innermost one of the project.
fn places(program: &Path, main: u64, instructions: &BTreeSet<u64>) -> Result<BTreeMap<u64, String>> {
    let symbols = output(Command::new("nm").arg(program))?;
    let is_main = |line: &&str| line.contains("7sharing4main17h") || line.ends_with("sharing::main");
    let symbol = symbols.lines().find(is_main).and_then(|line| line.split_whitespace().next());
    let base = main.wrapping_sub(u64::from_str_radix(symbol.context("nm does not show main")?, 16)?);
    let mut command = Command::new("addr2line");
    command.args(["--inlines", "--addresses", "--exe"]).arg(program);
    command.args(instructions.iter().map(|address| format!("{:x}", address.wrapping_sub(base))));
    let mut found = BTreeMap::new();
    let mut address = 0;
    for line in output(&mut command)?.lines() {
        if let Some(text) = line.strip_prefix("0x") {
            address = u64::from_str_radix(text, 16)?.wrapping_add(base);
        } else if let Some((_, place)) = line.split_once("/crates/") {
            let place = place.split_whitespace().next().unwrap_or(place);
            found.entry(address).or_insert_with(|| place.to_owned());
        }
    }
    Ok(found)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot execute {:?}", command.get_program()))?;
    ensure!(output.status.success(), "{:?}: {}", command.get_program(), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Reads the budgets: the name of an operation, a tab, and a number of lines.
fn parse(text: &str) -> Result<BTreeMap<String, usize>> {
    let budget = |line: &str| -> Result<(String, usize)> {
        let (name, value) = line.split_once('\t').with_context(|| format!("{line:?}: no tab"))?;
        Ok((name.to_owned(), value.parse().with_context(|| format!("{line:?}: not a number"))?))
    };
    text.lines().map(budget).collect()
}

fn compare(counted: &[(String, Vec<Places>)], budgets: &BTreeMap<String, usize>) -> Counts {
    let mut counts = Counts::default();
    for (name, lines) in counted {
        match budgets.get(name) {
            Some(budget) if lines.len() <= *budget => counts.passed += 1,
            Some(budget) => counts.add(Counts::failed(format!(
                "{name} shares {} cache lines between clients, its budget is {budget}; the places are above",
                lines.len()
            ))),
            None => counts.add(Counts::failed(format!("{name} has no budget in {BUDGETS}"))),
        }
    }
    for name in budgets.keys().filter(|name| counted.iter().all(|(known, _)| known != *name)) {
        counts.add(Counts::failed(format!("the operation {name} in {BUDGETS} is not known")));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "==1== Lackey
I  0100,3
 S 00009000,8
I  0103,3
 L 5038,16
I  0106,4
 S 6000,4
 S 9040,8
I  0100,3
 S 00009000,8
I  0200,4
 M 5078,1
 L 6004,4
 L 7000,4
 S 9040,8
";

    #[test]
    fn lines_that_two_requests_share_are_found() {
        let addresses = Addresses::parse("begin 9000\nend 9040\nmain 100\noperation read\n").unwrap();
        let traces = traces(TRACE.as_bytes(), &addresses).unwrap();
        assert_eq!(traces.len(), 2);
        let mut lines = shared(&traces[0], &traces[1]);
        lines.sort();
        // 5040 is read by one and modified by the other, 6000 written by one and read by the other.
        assert_eq!(lines, [BTreeSet::from([0x103, 0x200]), BTreeSet::from([0x106, 0x200])]);
    }

    #[test]
    fn more_lines_than_budgeted_fail() {
        let budgets = parse("read\t1\n").unwrap();
        let place = |name: &str| Places::from([name.to_owned()]);
        let check = |name: &str, lines: usize| {
            let counts = compare(&[(name.to_owned(), vec![place("server/src/a.rs:1"); lines])], &budgets);
            (counts.passed, counts.failed.len())
        };
        assert_eq!((check("read", 1), check("read", 2), check("write", 0)), ((1, 0), (0, 1), (0, 2)));
        assert!(is_counted(&place("server/src/files/table.rs:1")));
        assert!(!is_counted(&place("server/src/vfs/memory/mod.rs:1")));
        assert!(parse("read 1").is_err());
    }
}
