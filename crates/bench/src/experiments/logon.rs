//! E5: logons against the number of registered users (Miracle Linux, *Samba performance evaluation*).
//!
//! A round is 100 logons, one after the other, of randomly chosen users: connect, negotiate, log on, connect to the
//! share, log off. Another case does the same from several clients at once. The number of registered users is the
//! server's matter: `--register` names a command that makes it so.

use std::process::Command;
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
    /// Logons of a round [default: 100]
    #[arg(long)]
    logons: Option<u64>,
}

/// Who logs on.
#[derive(Clone)]
struct Crowd {
    pattern: Option<String>,
    count: u64,
    password: Option<String>,
}

impl Crowd {
    /// A randomly chosen user.
    fn pick(&self, target: &Target, random: &mut Random) -> Result<Credentials> {
        let mut target = target.clone();
        if let Some(pattern) = &self.pattern {
            target.user = numbered(pattern, 1 + random.below(self.count))?;
        }
        if self.password.is_some() {
            target.password.clone_from(&self.password);
        }
        target.credentials()
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
    random: Random,
}

impl Worker for Visitor {
    async fn step(&mut self) -> Result<Done> {
        self.options.credentials = match self.options.credentials {
            Credentials::Password { .. } => self.crowd.pick(&self.target, &mut self.random)?,
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
    bench.begin("logon", counts.len() * 2);
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for count in counts {
        for server in &bench.servers {
            let command = if server.index == 0 { &options.register } else { &options.vs_register };
            bench.say(&format!("{}: registering {count} users", server.name));
            command.as_ref().map(|command| register(command, count)).transpose()?;
        }
        let crowd = Crowd { pattern: options.user_pattern.clone(), count, password: options.password.clone() };
        let label = format!("{} users", units::count(count));
        let at_once = async |server: &Server, turn: &Turn<'_>, clients: usize| {
            let each = if turn.warms_up() { 1 } else { logons.div_ceil(clients as u64) };
            turn.measure(visits(server, turn, &crowd, clients, each)).await
        };
        let x = Some(count as f64);
        one.push(bench.case(&label, x, async |server: &Server, turn: &Turn<'_>| at_once(server, turn, 1).await).await?);
        let turn = async |server: &Server, turn: &Turn<'_>| at_once(server, turn, clients).await;
        many.push(bench.case(&label, x, turn).await?);
    }
    Ok(experiment(bench, one, many, clients, logons))
}

async fn visits(server: &Server, turn: &Turn<'_>, crowd: &Crowd, clients: usize, each: u64) -> Result<Sample> {
    let visitor = |number: u64| Visitor {
        target: server.target.clone(),
        options: server.options.clone(),
        crowd: crowd.clone(),
        random: Random::new(turn.seed.wrapping_add(number)),
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

fn experiment(bench: &Bench, one: Vec<Case>, many: Vec<Case>, clients: usize, logons: u64) -> Experiment {
    let names = bench.names();
    let parallel = format!("{clients} clients at once");
    let metrics = [Metric::RATE, Metric::MEDIAN_LATENCY, Metric::P99, Metric::CPU_PER_OPERATION, Metric::SWITCHES];
    let metrics = [&metrics[..], &[Metric::CLIENT_PER_OPERATION, Metric::CALLS]].concat();
    let mut tables = summary::comparisons("One logon after the other", &one, &names, &metrics);
    tables.extend(summary::comparisons(&format!("Logons, {parallel}"), &many, &names, &metrics));
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
    let cases = one
        .into_iter()
        .chain(many.into_iter().map(|case| Case { name: format!("{}, {parallel}", case.name), ..case }))
        .collect();
    Experiment {
        name: "logon".into(),
        title: "How long does a logon take, and does it depend on how many users there are?".into(),
        study: "Miracle Linux 2002, 100 logons: 237 s with 10 users to 260 s with 10,000 in an smbpasswd file, read from its \
                beginning each time; about 1,003 s with LDAP, which opened a connection and searched several times for each."
            .into(),
        settings: vec![
            ("logons of a round".into(), logons.to_string()),
            ("clients of the second half".into(), clients.to_string()),
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
    fn users_are_numbered() {
        assert_eq!(numbered("u%05d", 17).unwrap(), "u00017");
        assert_eq!(numbered("user-%d@x", 17).unwrap(), "user-17@x");
        for wrong in ["u", "u%", "u%s", "u%xd"] {
            assert!(numbered(wrong, 1).is_err(), "{wrong}");
        }
    }
}
