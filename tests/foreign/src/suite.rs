//! The suite: its cases by name, what each needs, and the run.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::bed::{Health, Target, interrupt};
use crate::stage::Stage;
use crate::{Counts, cases};

/// One case: a function that succeeds or says what was wrong.
pub(crate) struct Case {
    /// `area.what`, as filters and reports have it.
    pub(crate) name: &'static str,
    /// What it needs.
    pub(crate) needs: Needs,
    /// The case itself.
    pub(crate) run: fn(&mut Stage) -> Result<()>,
}

/// What a case needs beyond a server; nothing by default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Root: for a second UNIX user, or to trace a server that does not let itself be traced.
    pub(crate) root: bool,
    /// Minutes rather than seconds: left out of a quick run.
    pub(crate) slow: bool,
    /// It tests something that only Frevo has.
    pub(crate) frevo: bool,
    /// The client libraries of other languages.
    pub(crate) tools: bool,
}

impl Case {
    pub(crate) const fn new(name: &'static str, run: fn(&mut Stage) -> Result<()>) -> Case {
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

/// How the suite is run.
pub struct Options {
    /// Which server.
    pub target: Target,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Without the slow cases.
    pub quick: bool,
    /// The interpreter that has impacket and smbprotocol.
    pub python: PathBuf,
    /// Client libraries of other languages; `None`: the cases that need them are left out.
    pub tools: Option<Tools>,
}

/// Client libraries that no Debian package of this version brings.
#[derive(Clone)]
pub struct Tools {
    /// A folder with smbj and what it needs.
    pub jars: PathBuf,
    /// A folder with libsmb2: its headers in `include`, and the whole library in `libsmb2.o`.
    pub libsmb2: PathBuf,
}

/// Whether one of the cases that `word` selects needs [`Options::tools`].
pub fn needs_tools(word: &str) -> bool {
    cases::all().any(|case| case.needs.tools && case.name.contains(word))
}

/// The names of all cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    cases::all().map(|case| case.name)
}

/// Runs the cases one after the other, each reported by name; how many passed, and which failed. A case that cannot run
/// without root counts as failed.
pub fn run(options: &Options) -> Result<Counts> {
    let wanted = |case: &&Case| {
        options.filter.as_ref().is_none_or(|filter| case.name.contains(filter.as_str()))
            && !(options.quick && case.needs.slow)
            && !(options.target != Target::Frevo && case.needs.frevo)
            && !(options.tools.is_none() && case.needs.tools)
    };
    let cases: Vec<&Case> = cases::all().filter(wanted).collect();
    if cases.is_empty() {
        return Ok(Counts::default());
    }
    let mut stage = Stage::set(options)?;
    let mut counts = Counts::default();
    for case in cases {
        interrupt::check()?;
        if case.needs.root && !stage.bed.people().many() {
            println!("{:<44} NOT RUN: needs root", case.name);
            counts.add(Counts::failed(format!("{}: needs root", case.name)));
            continue;
        }
        let start = Instant::now();
        let result = (case.run)(&mut stage).and_then(|()| stage.look_after_server());
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
                counts.add(Counts::failed(format!("{}\n{why}", case.name)));
            }
        }
    }
    Ok(counts)
}

fn indent(text: &str) -> String {
    text.lines().take(40).flat_map(|line| ["    ", line, "\n"]).collect::<String>().trim_end().to_owned()
}

impl Stage {
    /// A server that a case brought down fails that case, and is there again for the next.
    fn look_after_server(&mut self) -> Result<()> {
        match self.server.health()? {
            Health::Well => Ok(()),
            Health::Panicked(line) => anyhow::bail!("the server's log tells of a crash: {line}"),
            health => {
                let log = self.server.log_tail();
                self.server.restart()?;
                anyhow::bail!("the server is {health:?} after this case:\n{log}")
            }
        }
    }
}
