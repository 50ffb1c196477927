//! The suite: its cases by name, their requirements, and the run.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};

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
    /// An otherwise idle machine, because it counts or times what the server does.
    pub(crate) alone: bool,
    /// It sets environment variables of this process, so no other case runs at the same time.
    pub(crate) environment: bool,
}

impl Case {
    pub(crate) const fn new(name: &'static str, run: fn(&mut Fixture) -> Result<()>) -> Case {
        let needs = Needs { root: false, slow: false, frevo: false, tools: false, alone: false, environment: false };
        Case { name, needs, run }
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

    pub(crate) const fn alone(mut self) -> Case {
        self.needs.alone = true;
        self
    }

    pub(crate) const fn sets_environment(mut self) -> Case {
        self.needs.environment = true;
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

/// Runs the cases and reports each by name. Returns how many passed, and which failed. A case that cannot run without
/// root counts as failed.
///
/// The cases that need an idle machine run first. Then `idle_no_more` is called, and the other areas run with as many
/// servers at once as there are processors, because clients and servers mostly wait. The cases of an area run in
/// sequence. Last come the cases that set environment variables, one after the other.
pub fn run(options: &Options, idle_no_more: impl FnOnce()) -> Result<Counts> {
    let left_out = |case: &Case| {
        (options.quick && case.needs.slow)
            || (options.target != Target::Frevo && case.needs.frevo)
            || (options.tools.is_none() && case.needs.tools)
    };
    let cases = named(cases::all(), options.filter.as_deref()).into_iter().filter(|case| !left_out(case));
    let (alone, others): (Vec<&Case>, Vec<&Case>) = cases.partition(|case| case.needs.alone);
    let (setting, others): (Vec<&Case>, Vec<&Case>) = others.into_iter().partition(|case| case.needs.environment);
    let mut counts = run_areas(options, areas(&alone), 1)?;
    idle_no_more();
    counts.add(run_areas(options, areas(&others), thread::available_parallelism().map_or(1, usize::from))?);
    counts.add(run_areas(options, areas(&setting), 1)?);
    Ok(counts)
}

/// The cases of an area, in the order in which they run.
type Area<'a> = Vec<&'a Case>;

/// Groups the cases by area, which is the first part of the name.
fn areas<'a>(cases: &[&'a Case]) -> VecDeque<Area<'a>> {
    let area = |case: &Case| case.name.split('.').next();
    cases.chunk_by(|one, next| area(one) == area(next)).map(<[_]>::to_vec).collect()
}

/// Runs the areas with up to `workers` servers.
fn run_areas(options: &Options, areas: VecDeque<Area<'_>>, workers: usize) -> Result<Counts> {
    let workers = workers.min(areas.len());
    let queue = Mutex::new(areas);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(options, &queue))).collect();
        let mut counts = Counts::default();
        for worker in workers {
            counts.add(worker.join().map_err(|_| anyhow!("a thread panicked"))??);
        }
        Ok(counts)
    })
}

/// Runs areas from the queue until it is empty.
fn work(options: &Options, queue: &Mutex<VecDeque<Area<'_>>>) -> Result<Counts> {
    let mut fixture = Fixture::set(options)?;
    let mut counts = Counts::default();
    while let Some(area) = { queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() } {
        for case in area {
            counts.add(run_case(&mut fixture, case)?.repeated_by(&repeat(case, options.target)));
        }
    }
    Ok(counts)
}

/// Runs one case. The error is that of an interrupted run.
fn run_case(fixture: &mut Fixture, case: &Case) -> Result<Counts> {
    interrupt::check()?;
    if case.needs.root && !fixture.environment.people().many() {
        println!("{:<44} NOT RUN: needs root", case.name);
        return Ok(Counts::failed(format!("{}: needs root", case.name)));
    }
    let start = Instant::now();
    let result = (case.run)(fixture).and_then(|()| fixture.look_after_server());
    interrupt::check()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(match result {
        Ok(()) => {
            println!("{:<44} ok {seconds:8.2} s", case.name);
            Counts::passed(1)
        }
        Err(error) => {
            let why = indent(&format!("{error:#}"));
            println!("{:<44} FAILED {seconds:.2} s\n{why}", case.name);
            Counts::failed(format!("{}\n{why}", case.name))
        }
    })
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
        let areas: Vec<usize> = areas(&cases.iter().collect::<Vec<_>>()).iter().map(Vec::len).collect();
        assert_eq!(areas, [2, 1]);
        assert_eq!(repeat(&cases[0], Target::Frevo), "cargo xtask foreign a.b");
        assert_eq!(repeat(&cases[0], Target::Samba), "cargo xtask foreign a.b --target samba");
    }
}
