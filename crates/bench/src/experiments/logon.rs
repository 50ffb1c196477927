//! E5: logons against the number of registered users (Miracle Linux, *Samba performance evaluation*).
//!
//! A round is 100 logons, one after the other: connect, negotiate, log on, connect to the share, log off; of a quick server
//! it is as many hundreds as take half a second, so that one moment of another program does not make a round odd. Another
//! case does the same from several clients at once. The number of registered users is the server's matter: `--register` names a
//! command that makes it so.
//!
//! Of the registered users a few come, again and again, chosen at random: as many for each number of them, so that what
//! a server or the host's name service remembers of a user who came a moment ago counts the same for all numbers. What a
//! user costs who comes for the first time is a case of its own.

use std::cell::Cell;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use client::{Client, Credentials};

use crate::load::{self, Done, Pace, Sample, Until, Worker};
use crate::method::{Bench, Server, Turn};
use crate::random::Random;
use crate::record::{Axis, Case, Experiment, Figure};
use crate::summary::{self, Metric, then};
use crate::target::Target;
use crate::units;

/// Logons of a round of the study.
const LOGONS: u64 = 100;
/// How long a round lasts at least, seconds; but at most so many times as many logons are made for that.
const SHORTEST: f64 = 0.5;
const MOST: u64 = 50;
/// Seconds for 100 logons in 2002, by users: a scan of the smbpasswd file, and LDAP.
const THEN: [(f64, f64, f64); 9] = [
    (10.0, 237.0, 1002.0),
    (50.0, 237.0, 1004.0),
    (100.0, 237.0, 1004.0),
    (200.0, 237.0, 1003.0),
    (500.0, 238.0, 1002.0),
    (1000.0, 239.0, 1003.0),
    (3000.0, 244.0, 1004.0),
    (5000.0, 248.0, 1005.0),
    (10000.0, 260.0, 1006.0),
];

/// What it is asked for.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Names of users, with a place for their number such as u%05d [default: the user of the address, again and again]
    #[arg(long, value_name = "PATTERN", requires = "user_count")]
    user_pattern: Option<String>,
    /// How many users are registered, numbered from 1; several numbers separated by commas need --register
    #[arg(long, value_name = "COUNT", value_delimiter = ',')]
    user_count: Vec<u64>,
    /// The password that all of them have [default: that of the address]
    #[arg(long)]
    password: Option<String>,
    /// A command that registers {count} users with the target
    #[arg(long, value_name = "COMMAND")]
    register: Option<String>,
    /// The same for the other server
    #[arg(long, value_name = "COMMAND")]
    vs_register: Option<String>,
    /// Clients that log on at once, in the second half [default: 8]
    #[arg(long)]
    clients: Option<usize>,
    /// Logons of a round [default: 100, and of a quick server so many hundreds]
    #[arg(long)]
    logons: Option<u64>,
    /// How many of the users come, chosen at random [default: as many as logons of a round]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    visitors: Option<u64>,
}

/// Who logs on.
#[derive(Clone)]
struct Crowd {
    pattern: Option<String>,
    count: u64,
    password: Option<String>,
    /// How many of them come, again and again.
    visitors: u64,
    order: Order,
}

impl Crowd {
    /// The user at a place in the order in which they come.
    fn nth(&self, target: &Target, place: u64) -> Result<Credentials> {
        let mut target = target.clone();
        if let Some(pattern) = &self.pattern {
            target.user = numbered(pattern, 1 + self.order.nth(place))?;
        }
        if self.password.is_some() {
            target.password.clone_from(&self.password);
        }
        target.credentials()
    }
}

/// All numbers below a count, each once, in an order that looks random and is not kept anywhere.
#[derive(Clone, Copy)]
struct Order {
    count: u64,
    factor: u64,
    offset: u64,
}

impl Order {
    fn new(count: u64, seed: u64) -> Order {
        let mut random = Random::new(seed ^ count);
        let mut factor = random.below(count);
        // Multiplication by it is a permutation where both have no divisor in common.
        while divisor(factor, count) != 1 {
            factor += 1;
        }
        Order { count, factor, offset: random.below(count) }
    }

    fn nth(self, place: u64) -> u64 {
        let number = u128::from(self.factor) * u128::from(place) + u128::from(self.offset);
        (number % u128::from(self.count)) as u64
    }
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Which of the crowd the next one is.
#[derive(Clone)]
enum Next {
    /// One of those who come again and again.
    Anyone(Random),
    /// Each of those in turn: this place, and how many to pass over.
    Each(u64, u64),
    /// Somebody who was never here: what was given out of the places is shared by all clients.
    Newcomer(Arc<AtomicU64>),
}

impl Next {
    fn place(&mut self, visitors: u64) -> u64 {
        match self {
            Next::Anyone(random) => random.below(visitors),
            Next::Each(place, step) => {
                let this = *place % visitors;
                *place += *step;
                this
            }
            Next::Newcomer(given) => given.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// `pattern` with `number` in place of its `%d` or `%05d`.
fn numbered(pattern: &str, number: u64) -> Result<String> {
    let form = || format!("'{pattern}' has no place for a number, such as %d or %05d");
    let (before, rest) = pattern.split_once('%').with_context(form)?;
    let (width, after) = rest.split_once('d').with_context(form)?;
    let digits: usize = if width.is_empty() { 0 } else { width.parse().ok().with_context(form)? };
    Ok(format!("{before}{number:0digits$}{after}"))
}

/// Logs on and off, again and again.
struct Visitor {
    target: Target,
    options: client::Options,
    crowd: Crowd,
    next: Next,
}

impl Worker for Visitor {
    async fn step(&mut self) -> Result<Done> {
        self.options.credentials = match self.options.credentials {
            Credentials::Password { .. } => self.crowd.nth(&self.target, self.next.place(self.crowd.visitors))?,
            ref other => other.clone(),
        };
        let Target { host, port, share, .. } = &self.target;
        let client = Client::connect((host.as_str(), *port), host, share, &self.options).await;
        client.with_context(|| format!("{:?}", self.options.credentials))?.log_off().await?;
        Ok(Done::one(0))
    }
}

/// Runs it.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let clients = options.clients.unwrap_or(8).max(1);
    let logons = options.logons.unwrap_or(LOGONS).max(1);
    let counts = if options.user_count.is_empty() { vec![1] } else { options.user_count.clone() };
    let registers = options.register.is_some() && (bench.servers.len() == 1 || options.vs_register.is_some());
    ensure!(
        counts.len() == 1 || registers,
        "several numbers of users need a command for each server that registers them: --register and --vs-register"
    );
    ensure!(counts.iter().all(|count| *count > 0), "--user-count 0: nobody could log on");
    bench.begin("logon", counts.len() * 3);
    let mut cases = Cases::default();
    for count in counts {
        for server in &bench.servers {
            let command = if server.index == 0 { &options.register } else { &options.vs_register };
            bench.say(&format!("{}: registering {count} users", server.name));
            command.as_ref().map(|command| register(command, count)).transpose()?;
        }
        let visitors = options.visitors.unwrap_or(logons).min(count);
        let order = Order::new(count, bench.method.seed);
        let (pattern, password) = (options.user_pattern.clone(), options.password.clone());
        let crowd = Crowd { pattern, count, password, visitors, order };
        cases.measure(bench, &crowd, clients, logons).await?;
    }
    Ok(experiment(bench, cases, clients, logons))
}

/// What is measured, each with one case for each number of users.
#[derive(Default)]
struct Cases {
    /// One logon after the other.
    one: Vec<Case>,
    /// From several clients at once.
    many: Vec<Case>,
    /// One after the other, of users who were never here.
    first: Vec<Case>,
}

impl Cases {
    async fn measure(&mut self, bench: &Bench, crowd: &Crowd, clients: usize, logons: u64) -> Result<()> {
        let label = format!("{} users", units::count(crowd.count));
        let x = Some(crowd.count as f64);
        // How many times as many logons are made of each server: the warm-up tells.
        let times: Vec<Cell<u64>> = bench.servers.iter().map(|_| Cell::new(1)).collect();
        let again = async |server: &Server, turn: &Turn<'_>, clients: usize| {
            let steps = clients as u64;
            let times = &times[server.index];
            // The warm-up is a visit of each of them.
            let each = if turn.warms_up() { crowd.visitors } else { logons * times.get() }.div_ceil(steps);
            let next = |number: u64| match turn.warms_up() {
                true => Next::Each(number, steps),
                false => Next::Anyone(Random::new(turn.seed.wrapping_add(number))),
            };
            let begin = Instant::now();
            turn.measure(visits(server, turn, crowd, clients, each, &next)).await?;
            if turn.warms_up() {
                let round = begin.elapsed().as_secs_f64() / (each * steps) as f64 * logons as f64;
                times.set(((SHORTEST / round.max(1e-9)).ceil() as u64).clamp(1, MOST));
            }
            Ok(())
        };
        self.one
            .push(bench.case(&label, x, async |server: &Server, turn: &Turn<'_>| again(server, turn, 1).await).await?);
        let turn = async |server: &Server, turn: &Turn<'_>| again(server, turn, clients).await;
        self.many.push(bench.case(&label, x, turn).await?);
        let turns = u64::from(bench.method.rounds) + 1 + u64::from(bench.method.syscalls);
        // None comes twice.
        let enough = (crowd.count - crowd.visitors) / (turns * logons);
        if crowd.pattern.is_some() && enough > 0 {
            let given: Vec<_> = bench.servers.iter().map(|_| Arc::new(AtomicU64::new(crowd.visitors))).collect();
            let turn = async |server: &Server, turn: &Turn<'_>| {
                let next = |_| Next::Newcomer(given[server.index].clone());
                let each = logons * times[server.index].get().min(enough);
                turn.measure(visits(server, turn, crowd, 1, each, &next)).await
            };
            self.first.push(bench.case(&label, x, turn).await?);
        }
        Ok(())
    }
}

async fn visits(
    server: &Server,
    turn: &Turn<'_>,
    crowd: &Crowd,
    clients: usize,
    each: u64,
    next: &dyn Fn(u64) -> Next,
) -> Result<Sample> {
    let visitor = |number: u64| Visitor {
        target: server.target.clone(),
        options: server.options.clone(),
        crowd: crowd.clone(),
        next: next(number),
    };
    let visitors = (0..clients as u64).map(visitor).collect();
    let begin = Instant::now();
    let (mut sample, _) = load::run(visitors, Pace { until: Until::Operations(each), ..turn.pace() }).await?;
    sample.seconds = begin.elapsed().as_secs_f64();
    Ok(sample)
}

fn register(command: &str, count: u64) -> Result<()> {
    let command = command.replace("{count}", &count.to_string());
    let done = Command::new("sh").args(["-c", &command]).output().context("cannot run a shell")?;
    ensure!(done.status.success(), "'{command}' failed: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

fn experiment(bench: &Bench, cases: Cases, clients: usize, logons: u64) -> Experiment {
    let Cases { one, many, first } = cases;
    let names = bench.names();
    let parallel = format!("{clients} clients at once");
    let metrics = [Metric::RATE, Metric::MEDIAN_LATENCY, Metric::P99, Metric::CPU_PER_OPERATION, Metric::SWITCHES];
    let metrics = [&metrics[..], &[Metric::CLIENT_PER_OPERATION, Metric::CALLS]].concat();
    let mut tables = summary::comparisons("One logon after the other", &one, &names, &metrics);
    tables.extend(summary::comparisons(&format!("Logons, {parallel}"), &many, &names, &metrics));
    let short = [Metric::RATE, Metric::MEDIAN_LATENCY, Metric::CPU_PER_OPERATION];
    tables.extend(summary::comparisons("Users who come for the first time", &first, &names, &short));
    let remarks = names.iter().enumerate().filter_map(|(index, name)| {
        let both: Vec<Case> = one.iter().chain(&many).cloned().collect();
        summary::client_share(&both, index, name)
    });
    let remarks = remarks.collect();
    let mut figures = vec![
        duration(bench, "100 logons, one after the other", &one),
        summary::lines(&format!("Logons, {parallel}"), users(), &many, &names, Metric::RATE),
    ];
    figures.extend(many.last().map(|case| summary::distribution(&format!("{}, {parallel}", case.name), case, &names)));
    let called = |cases: Vec<Case>, what: &str| -> Vec<Case> {
        cases.into_iter().map(|case| Case { name: format!("{}, {what}", case.name), ..case }).collect()
    };
    let cases = [one, called(many, &parallel), called(first, "for the first time")].concat();
    Experiment {
        name: "logon".into(),
        title: "How long does a logon take, and does it depend on how many users there are?".into(),
        study: "Miracle Linux 2002, 100 logons: 237 s with 10 users to 260 s with 10,000 in an smbpasswd file, read from its \
                beginning each time; about 1,003 s with LDAP, which opened a connection and searched several times for each."
            .into(),
        settings: vec![
            ("logons of a round".into(), logons.to_string()),
            ("clients at once".into(), clients.to_string()),
        ],
        cases,
        tables,
        figures,
        remarks,
    }
}

fn users() -> Axis {
    Axis { label: "registered users".into(), unit: String::new(), logarithmic: true }
}

/// Seconds for 100 logons, as the study drew it.
fn duration(bench: &Bench, title: &str, cases: &[Case]) -> Figure {
    let metric = Metric {
        name: "time of 100 logons",
        unit: "s",
        of: |round| (round.operations > 0).then(|| round.seconds / round.operations as f64 * 100.0),
        text: units::seconds,
        more_is_better: false,
        traced: false,
    };
    let mut figure = summary::lines(title, users(), cases, &bench.names(), metric);
    figure.y.logarithmic = true;
    figure.series.push(then("smbpasswd file, 2002", &THEN.map(|(users, file, _)| (users, file))));
    figure.series.push(then("LDAP, 2002", &THEN.map(|(users, _, ldap)| (users, ldap))));
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_number_once() {
        for (count, seed) in [(1, 0), (2, 7), (10, 1), (12, 2), (97, 3), (1000, 4)] {
            let order = Order::new(count, seed);
            let mut all: Vec<u64> = (0..count).map(|place| order.nth(place)).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..count), "{count}");
        }
    }

    #[test]
    fn who_comes_next() {
        let mut each = Next::Each(1, 2);
        assert_eq!([(); 4].map(|()| each.place(5)), [1, 3, 0, 2]);
        let given = Arc::new(AtomicU64::new(5));
        let mut newcomers = [Next::Newcomer(given.clone()), Next::Newcomer(given)];
        assert_eq!([newcomers[0].place(5), newcomers[1].place(5), newcomers[0].place(5)], [5, 6, 7]);
        let mut anyone = Next::Anyone(Random::new(3));
        assert!((0..100).all(|_| anyone.place(5) < 5));
    }

    #[test]
    fn users_are_numbered() {
        assert_eq!(numbered("u%05d", 17).unwrap(), "u00017");
        assert_eq!(numbered("user-%d@x", 17).unwrap(), "user-17@x");
        for wrong in ["u", "u%", "u%s", "u%xd"] {
            assert!(numbered(wrong, 1).is_err(), "{wrong}");
        }
    }
}
