//! The suite: its cases by name, their requirements, and the run.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::cases;
use crate::fixture::Fixture;
use test_environment::{Counts, Health, Target, interrupt};

/// A case: a function that succeeds or reports what was wrong.
pub(crate) struct Case {
    /// `area.what`, as used by filters and reports.
    pub(crate) name: &'static str,
    /// Its requirements.
    pub(crate) needs: Needs,
    /// The case itself.
    pub(crate) run: fn(&mut Fixture) -> Result<()>,
}

/// The requirements of a case besides a server; none by default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Root, for a second UNIX user or to trace a server that is not dumpable.
    pub(crate) root: bool,
    /// It takes minutes rather than seconds, and is skipped in a quick run.
    pub(crate) slow: bool,
    /// It tests something that only Frevo supports.
    pub(crate) frevo: bool,
    /// The client libraries of other languages.
    pub(crate) tools: bool,
}

impl Case {
    pub(crate) const fn new(name: &'static str, run: fn(&mut Fixture) -> Result<()>) -> Case {
        Case { name, needs: Needs { root: false, slow: false, frevo: false, tools: false }, run }
    }

    pub(crate) const fn slow(mut self) -> Case {
        self.needs.slow = true;
        self
    }

    pub(crate) const fn needs_root(mut self) -> Case {
        self.needs.root = true;
        self
    }

    pub(crate) const fn needs_tools(mut self) -> Case {
        self.needs.tools = true;
        self
    }

    pub(crate) const fn frevo_only(mut self) -> Case {
        self.needs.frevo = true;
        self
    }
}

/// Options of the run.
pub struct Options {
    /// The server to test.
    pub target: Target,
    /// Run only cases whose name contains this word.
    pub filter: Option<String>,
    /// Skip the slow cases.
    pub quick: bool,
    /// The interpreter with impacket and smbprotocol.
    pub python: PathBuf,
    /// Client libraries of other languages. If `None`, the cases that need them are skipped.
    pub tools: Option<Tools>,
}

/// Client libraries that are not available as packages of this Debian release.
#[derive(Clone)]
pub struct Tools {
    /// A folder with smbj and its dependencies.
    pub jars: PathBuf,
    /// A folder with libsmb2: its headers in `include`, and the whole library in `libsmb2.o`.
    pub libsmb2: PathBuf,
}

/// Returns whether one of the cases selected by `word` needs [`Options::tools`].
pub fn needs_tools(word: &str) -> bool {
    cases::all().any(|case| case.needs.tools && case.name.contains(word))
}

/// Returns the names of all cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    cases::all().map(|case| case.name)
}

/// Returns the command that runs this case alone.
fn repeat(case: &Case, target: Target) -> String {
    let target = if target == Target::Samba { " --target samba" } else { "" };
    format!("cargo xtask foreign {}{target}", case.name)
}

/// Returns the cases whose name contains `word`. If it is the whole name of a case, that is the only one.
fn named<'a>(cases: impl Iterator<Item = &'a Case>, word: Option<&str>) -> Vec<&'a Case> {
    let Some(word) = word else { return cases.collect() };
    let found: Vec<&Case> = cases.filter(|case| case.name.contains(word)).collect();
    match found.iter().find(|case| case.name == word) {
        Some(case) => vec![case],
        None => found,
    }
}

/// Runs the cases in sequence, and reports each by name. Returns how many passed, and which failed. A case that cannot
/// run without root counts as failed.
pub fn run(options: &Options) -> Result<Counts> {
    let wanted = |case: &&Case| {
        !(options.quick && case.needs.slow)
            && !(options.target != Target::Frevo && case.needs.frevo)
            && !(options.tools.is_none() && case.needs.tools)
    };
    let cases: Vec<&Case> = named(cases::all(), options.filter.as_deref()).into_iter().filter(wanted).collect();
    if cases.is_empty() {
        return Ok(Counts::default());
    }
    let mut fixture = Fixture::set(options)?;
    let mut counts = Counts::default();
    for case in cases {
        interrupt::check()?;
        if case.needs.root && !fixture.environment.people().many() {
            println!("{:<44} NOT RUN: needs root", case.name);
            counts.add(Counts::failed(format!("{}: needs root", case.name)).repeated_by(&repeat(case, options.target)));
            continue;
        }
        let start = Instant::now();
        let result = (case.run)(&mut fixture).and_then(|()| fixture.look_after_server());
        interrupt::check()?;
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("{:<44} ok {seconds:8.2} s", case.name);
                counts.passed += 1;
            }
            Err(error) => {
                let why = indent(&format!("{error:#}"));
                println!("{:<44} FAILED {seconds:.2} s\n{why}", case.name);
                let failed = Counts::failed(format!("{}\n{why}", case.name));
                counts.add(failed.repeated_by(&repeat(case, options.target)));
            }
        }
    }
    Ok(counts)
}

fn indent(text: &str) -> String {
    text.lines().take(40).flat_map(|line| ["    ", line, "\n"]).collect::<String>().trim_end().to_owned()
}

impl Fixture {
    /// A server that is down fails the case and is restarted for the next one.
    fn look_after_server(&mut self) -> Result<()> {
        match self.server.health()? {
            Health::Well => Ok(()),
            Health::Panicked(line) => anyhow::bail!("the server's log contains a crash: {line}"),
            health => {
                let log = self.server.log_tail();
                self.server.restart()?;
                anyhow::bail!("the server is {health:?} after this case:\n{log}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_can_be_run_alone() {
        let cases = ["a.b", "a.b_c", "d.e"].map(|name| Case::new(name, |_| Ok(())));
        let names = |word| named(cases.iter(), word).iter().map(|case| case.name).collect::<Vec<_>>();
        assert_eq!(names(None), ["a.b", "a.b_c", "d.e"]);
        assert_eq!(names(Some("a.")), ["a.b", "a.b_c"]);
        assert_eq!(names(Some("a.b")), ["a.b"], "the whole name");
        assert_eq!(repeat(&cases[0], Target::Frevo), "cargo xtask foreign a.b");
        assert_eq!(repeat(&cases[0], Target::Samba), "cargo xtask foreign a.b --target samba");
    }
}
