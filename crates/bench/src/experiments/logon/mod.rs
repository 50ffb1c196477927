//! E5: logons against the number of registered users (Miracle Linux, *Samba performance evaluation*).
//!
//! A logon consists of connecting, negotiating, logging on, connecting to the share, and logging off. Logons are
//! measured one after another, and from several clients at once. The number of users is configured on the server, and
//! its name contains it: `frevo/ldap/10000` has 10,000 users. Servers with all numbers of users run at the same time
//! and take turns ([`bases`]), so that a machine whose speed varies from minute to minute does not make one number of
//! users look slow ([`flat`]).
//!
//! A few of the registered users log on repeatedly, chosen at random. Their number is the same for every number of
//! registered users, so that what a server or the host's name service caches of recent users has the same effect for
//! all numbers. First logons of users are a separate case.

mod bases;
mod crowd;
mod flat;

use anyhow::{Result, ensure};
use clap::Args;
use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Figure, Table};
use report::units;

use crate::method::Bench;
use crate::summary::{self, then};
use bases::{Base, Bases, Name, parts};
use crowd::{Crowd, Order};

/// Default number of measured rounds, because a turn is short.
pub(crate) const ROUNDS: u32 = 20;
/// Number of users that log on repeatedly.
const VISITORS: u64 = 100;
/// Seconds for 100 logons in 2002, by number of users: with a scan of the smbpasswd file, and with LDAP.
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

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Pattern of user names, with a placeholder for their number such as u%05d [default: always the user of the URL]
    #[arg(long, value_name = "PATTERN")]
    user_pattern: Option<String>,
    /// Number of registered users, numbered from 1, for servers whose name does not end in that number, as frevo/1000
    /// does. Servers with several numbers of users take turns (--more)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    user_count: Option<u64>,
    /// The password of all these users [default: that of the URL]
    #[arg(long)]
    password: Option<String>,
    /// Clients that log on at the same time, in the second part [default: 8]
    #[arg(long)]
    clients: Option<usize>,
    /// Number of users that log on repeatedly, chosen at random [default: 100, or as many as every server has]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    visitors: Option<u64>,
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let clients = options.clients.unwrap_or(8).max(1);
    let bases = bases(bench, options)?;
    bench.begin_of("logon", 3, bases.bases.len());
    let measured = Measured {
        one: bases.again(bench, 1).await?,
        many: bases.again(bench, clients).await?,
        first: bases.first(bench).await?,
    };
    let visitors = bases.bases.first().map_or(0, |base| base.crowd.visitors);
    let settings = vec![
        ("clients at once".to_owned(), clients.to_string()),
        ("users that log on repeatedly".to_owned(), visitors.to_string()),
    ];
    Ok(experiment(&bases.parties, measured, clients, settings))
}

/// Returns the servers with their users.
fn bases<'a>(bench: &'a Bench, options: &Options) -> Result<Bases<'a>> {
    let alone = options.user_count.unwrap_or(1);
    let names: Vec<Name> = bench.servers.iter().map(|server| Name::of(&server.name)).collect();
    let counts = || names.iter().map(|name| name.count.unwrap_or(alone));
    let visitors = counts().min().unwrap_or(1).min(options.visitors.unwrap_or(VISITORS));
    let mut bases = Bases { parties: Vec::new(), counts: counts().collect(), bases: Vec::new() };
    bases.counts.sort_unstable();
    bases.counts.dedup();
    for ((server, name), count) in bench.servers.iter().zip(&names).zip(counts()) {
        let known = bases.parties.iter().position(|party| *party == name.party);
        let party = known.unwrap_or(bases.parties.len());
        if known.is_none() {
            bases.parties.push(name.party.clone());
        }
        let again = bases.bases.iter().any(|base| (base.party, base.crowd.count) == (party, count));
        ensure!(!again, "two servers called {} have {count} users: give them different names or numbers", name.party);
        let crowd = Crowd {
            pattern: options.user_pattern.clone(),
            count,
            password: options.password.clone(),
            visitors,
            order: Order::new(count, bench.method.seed),
        };
        bases.bases.push(Base { server, party, crowd });
    }
    Ok(bases)
}

/// The measurements, each with one case for each number of users.
struct Measured {
    /// Logons one after another.
    one: Vec<Case>,
    /// Logons from several clients at once.
    many: Vec<Case>,
    /// First logons of users, one after another.
    first: Vec<Case>,
}

fn experiment(parties: &[String], measured: Measured, clients: usize, settings: Vec<(String, String)>) -> Experiment {
    let Measured { one, many, first } = measured;
    let parallel = format!("{clients} clients at once");
    let titles = ["One logon after another".to_owned(), format!("Logons, {parallel}"), FIRST.to_owned()];
    let (latency, cpu, rate) = (Metric::MEDIAN_LATENCY, Metric::CPU_PER_OPERATION, Metric::RATE);
    let judged = [(&one, &[latency, cpu][..]), (&many, &[rate, cpu]), (&first, &[latency])];
    let mut tables = Vec::new();
    for ((cases, metrics), title) in judged.iter().zip(&titles) {
        tables.extend(metrics.iter().filter_map(|metric| flat::growth(title, cases, parties, *metric)));
        tables.extend(metrics.iter().filter_map(|metric| flat::backends(title, cases, parties, *metric)));
    }
    let metrics = [rate, latency, Metric::P99, cpu, Metric::SWITCHES, Metric::READ];
    let metrics = [&metrics[..], &[Metric::CLIENT_PER_OPERATION, Metric::CALLS]].concat();
    let short = [rate, latency, cpu];
    for (cases, title, metrics) in [(&one, 0, &metrics[..]), (&many, 1, &metrics), (&first, 2, &short)] {
        tables.extend(beside(&titles[title], cases, parties, metrics));
    }
    tables.extend(flat::calls(&titles[0], &one, parties));
    let mut remarks = flat::verdicts("one logon after another", &one, parties, latency);
    remarks.extend(flat::verdicts(&parallel, &many, parties, rate));
    let both: Vec<Case> = one.iter().chain(&many).cloned().collect();
    remarks.extend(parties.iter().enumerate().filter_map(|(index, name)| summary::client_share(&both, index, name)));
    let figures = figures(parties, [&one, &many, &first], &titles);
    let called = |cases: Vec<Case>, what: &str| -> Vec<Case> {
        cases.into_iter().map(|case| Case { name: format!("{}, {what}", case.name), ..case }).collect()
    };
    let mut cases = [one, called(many, &parallel), called(first, "for the first time")].concat();
    // There are hundreds of short rounds, and everything drawn from the histograms has been drawn.
    cases.iter_mut().flat_map(|case| &mut case.servers).flatten().for_each(|round| round.histogram.clear());
    Experiment {
        name: "logon".into(),
        title: "How long does a logon take, and does that depend on the number of users?".into(),
        study: "Miracle Linux 2002, 100 logons: 237 s with 10 users to 260 s with 10,000 in an smbpasswd file, read \
                from its beginning each time; about 1,003 s with LDAP, which opened a connection and searched \
                several times for each."
            .into(),
        settings,
        cases,
        tables,
        figures,
        remarks,
    }
}

/// Title of the first logons.
const FIRST: &str = "First logons of users";

/// Returns the programs side by side, by back end.
fn beside(title: &str, cases: &[Case], parties: &[String], metrics: &[Metric]) -> Vec<Table> {
    let mut backends: Vec<Option<&str>> = Vec::new();
    for party in parties {
        let (_, backend) = parts(party);
        if !backends.contains(&backend) {
            backends.push(backend);
        }
    }
    let table = |backend: &Option<&str>| {
        let of: Vec<usize> = (0..parties.len()).filter(|index| parts(&parties[*index]).1 == *backend).collect();
        let names: Vec<&str> = of.iter().map(|index| parties[*index].as_str()).collect();
        let only = |case: &Case| Case {
            servers: of.iter().map(|index| case.servers.get(*index).cloned().unwrap_or_default()).collect(),
            ..case.clone()
        };
        let cases: Vec<Case> = cases.iter().map(only).collect();
        let title = backend.map_or(title.to_owned(), |backend| format!("{title}, {backend}"));
        summary::comparisons(&title, &cases, &names, metrics)
    };
    backends.iter().flat_map(table).collect()
}

fn figures(parties: &[String], [one, many, first]: [&[Case]; 3], titles: &[String; 3]) -> Vec<Figure> {
    let names: Vec<&str> = parties.iter().map(String::as_str).collect();
    let mut figures = vec![
        duration("100 logons, one after another", one, &names),
        summary::lines(&titles[1], users(), many, &names, Metric::RATE),
    ];
    figures
        .extend(many.last().map(|case| summary::distribution(&format!("{}: {}", titles[1], case.name), case, &names)));
    // Each party has its own colour, selected by its name.
    figures.iter_mut().flat_map(|figure| &mut figure.series).for_each(|series| series.server = None);
    let grown = [
        (&titles[0], one, Metric::MEDIAN_LATENCY),
        (&titles[0], one, Metric::CPU_PER_OPERATION),
        (&titles[1], many, Metric::RATE),
        (&titles[2], first, Metric::MEDIAN_LATENCY),
    ];
    let grown = grown.iter().filter_map(|(title, cases, metric)| {
        flat::figure(&format!("{title}: effect of the number of users"), users(), cases, parties, *metric)
    });
    figures.extend(grown);
    figures
}

fn users() -> Axis {
    Axis { label: "registered users".into(), unit: String::new(), logarithmic: true }
}

/// Returns the seconds for 100 logons, plotted as in the study.
fn duration(title: &str, cases: &[Case], names: summary::Names<'_>) -> Figure {
    let metric = Metric {
        name: "time of 100 logons",
        unit: "s",
        of: |round| (round.operations > 0).then(|| round.seconds / round.operations as f64 * 100.0),
        text: units::seconds,
        more_is_better: false,
        traced: false,
    };
    let mut figure = summary::lines(title, users(), cases, names, metric);
    figure.y.logarithmic = true;
    figure.series.push(then("smbpasswd file, 2002", &THEN.map(|(users, file, _)| (users, file))));
    figure.series.push(then("LDAP, 2002", &THEN.map(|(users, _, ldap)| (users, ldap))));
    figure
}
