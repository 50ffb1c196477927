//! A run: for each attack, a newly started server, the victim, the attackers, and the recovery time.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use test_environment::{ALICE, BOB, Health, Server, Target, TestEnvironment, interrupt};

use crate::attack::{Attack, Ground, all};
use crate::marks::{LIMIT, Marks};
use crate::outcome::Outcome;
use crate::scene::{Effort, SHARE, Scene};
use crate::victim::{self, Victim, prefer};
use crate::vitals::{Vitals, Watch, processor_time};

const TEMPLATE: &str = include_str!("../smb.conf");
/// The server's limit of descriptors, if the run is started by root. Attackers reach it quickly.
const DESCRIPTORS: u64 = 8192;
/// Niceness of the attackers' thread. A real attacker is on another machine and takes no processor time from the
/// server.
const LAST: i32 = 10;
/// How often the server is checked during recovery.
const LOOK: Duration = Duration::from_millis(250);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server to attack.
    pub target: Target,
    /// Only attacks whose name contains one of these; all if empty.
    pub names: Vec<String>,
    /// Duration of each attack.
    pub time: Duration,
    /// Limits for the outcome.
    pub marks: Marks,
    /// Use smaller directories and files.
    pub brief: bool,
}

/// Returns the name and description of every attack.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|attack| (attack.name, attack.what))
}

/// Runs the attacks one after the other and passes each outcome to `each`.
///
/// # Errors
/// A run that cannot be performed: no such attack, no server, not root.
pub fn run(options: &Options, mut each: impl FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    let attacks: Vec<_> = all().filter(|attack| is_wanted(attack.name, &options.names)).collect();
    ensure!(!attacks.is_empty(), "unknown attack: cargo xtask hostile --list prints the names");
    let environment = TestEnvironment::make(options.target)?;
    ensure!(environment.people().many(), "attacker and victim need two users of the system: run this as root");
    environment.make_dir(victim::SHARE, &BOB, 0o755)?;
    environment.make_dir(SHARE, &ALICE, 0o777)?;
    let template = TEMPLATE.replace("@LIMIT@", &format!("{}M", LIMIT >> 20));
    let mut server = with_few_descriptors(|| environment.start("server", &template))?;
    let mut outcomes = Vec::new();
    for attack in attacks {
        interrupt::check()?;
        server.stop();
        let ground = Ground::clear(&environment, options.brief)?;
        if let Some(prepare) = attack.prepare {
            prepare(&ground).with_context(|| format!("preparing {}", attack.name))?;
        }
        with_few_descriptors(|| server.restart())?;
        let mut outcome = one(attack, &environment, &server, options).with_context(|| attack.name)?;
        match server.health()? {
            Health::Well => {}
            Health::Panicked(line) => outcome.wrong.push(format!("the server panicked: {line}")),
            health => outcome.wrong.push(format!("the server is {health:?}:\n{}", server.log_tail())),
        }
        each(&outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Whether one of `words` selects this attack: its whole name, or a part of it that is not the name of an attack.
fn is_wanted(name: &str, words: &[String]) -> bool {
    let is_name = |word: &str| all().any(|attack| attack.name == word);
    let selects = |word: &String| if is_name(word) { name == word } else { name.contains(word.as_str()) };
    words.is_empty() || words.iter().any(selects)
}

/// Runs a function with a low limit of descriptors, which child processes inherit.
fn with_few_descriptors<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    let own = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) })?;
    let done = run();
    // If the limit cannot be raised again, the rest is sufficient for this process too.
    let _ = setrlimit(Resource::Nofile, own);
    done
}

fn one(attack: &'static Attack, environment: &TestEnvironment, server: &Server, options: &Options) -> Result<Outcome> {
    let address = server.address();
    let victim = Victim::start(address)?;
    let before = Vitals::of(&server.pids());
    let main = server.pid();
    let single = options.target == Target::Frevo;
    let pids = move || if single { vec![main] } else { family(main) };
    let watch = Watch::start(main, pids)?;
    let (start, spent) = (Instant::now(), processor_time(&server.pids()));
    victim.measure();
    let effort = perform(attack, address, environment.dir().join(SHARE), options)?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = processor_time(&server.pids()) - spent;
    let mut outcome = Outcome { name: attack.name, victim: victim.result(), before, effort, ..Outcome::default() };
    (outcome.peak, outcome.cpu, outcome.seconds) = (watch.end(), cpu, seconds);
    let over = Instant::now();
    loop {
        outcome.after = Vitals::of(&server.pids());
        outcome.recovery = over.elapsed().as_secs_f64();
        if options.marks.recovered(before, outcome.after) || over.elapsed() > options.marks.recovery {
            break;
        }
        interrupt::check()?;
        thread::sleep(LOOK);
    }
    // A hanging server may have answered nothing at all in the meantime, which is detected here.
    let late = victim.error();
    outcome.victim.error = outcome.victim.error.or(late);
    outcome.wrong = options.marks.judge(&outcome, single);
    if outcome.effort.requests == 0 && outcome.effort.connections == 0 {
        let why = outcome.effort.trouble.as_deref().unwrap_or("it did nothing");
        outcome.wrong.push(format!("the attack cannot be performed: {why}"));
    }
    Ok(outcome)
}

/// Returns the processes of a server that has one per client.
fn family(main: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{main}/task/{main}/children")).unwrap_or_default();
    [main].into_iter().chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
}

/// Performs the attack for its duration.
fn perform(attack: &'static Attack, address: SocketAddr, dir: PathBuf, options: &Options) -> Result<Effort> {
    let (time, brief) = (options.time, options.brief);
    let thread = thread::Builder::new().name("attack".into()).spawn(move || {
        prefer(LAST);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let scene = Scene::new(address, dir, brief);
        let ended = runtime.block_on(async { tokio::time::timeout(time, (attack.run)(&scene)).await });
        let mut effort = scene.effort();
        match ended {
            Ok(Ok(())) => anyhow::bail!("the attack ended early"),
            Ok(Err(error)) => effort.trouble = Some(format!("{error:#}")),
            Err(_) => {}
        }
        anyhow::Ok(effort)
    })?;
    thread.join().map_err(|_| anyhow!("the attack panicked"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_can_be_run_alone() {
        for attack in all() {
            let words = [attack.name.to_owned()];
            assert_eq!(all().filter(|other| is_wanted(other.name, &words)).count(), 1, "{}", attack.name);
        }
        assert!(all().all(|attack| is_wanted(attack.name, &[])));
        assert!(all().any(|attack| is_wanted(attack.name, &["a".to_owned()])));
    }
}
