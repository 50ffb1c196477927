//! Names that do not exist, and names in another case than on disk, in directories of a thousand to a million files.
//!
//! The file system is case-sensitive: a server without its own index must read the whole directory to find that a name
//! does not exist in any case. Red Hat found this to be one of the causes that made Samba on Gluster slow, together
//! with the several such lookups before each CREATE.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Table};
use report::units;

use crate::crew::Crew;
use crate::ground;
use crate::load::{Pace, Until};
use crate::method::{Bench, Server, Turn};
use crate::opener::{Asks, FILE, Opener, size_of};
use crate::summary;

/// Directory of the experiment, relative to the share.
const DIRECTORY: &str = "frevo-bench-miss";

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Numbers of files in the directories, separated by commas [default: 1000,20000,100000,1000000, quick 1000,20000;
    /// at most 20000 if the shares' directories are unknown]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u64>,
    /// Number of connections [default: 1]
    #[arg(long)]
    clients: Option<usize>,
}

/// The variants with their names.
const VARIANTS: [(Asks, &str); 2] = [(Asks::Absent, "no such name"), (Asks::InCapitals, "name in another case")];

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let clients = options.clients.unwrap_or(1).max(1);
    let sizes = ground::sizes(bench, &options.sizes, &[1000, 20_000, 100_000, 1_000_000], 20_000);
    let measured = ground::within(bench, DIRECTORY, async || {
        ground::fill_sizes(bench, DIRECTORY, &sizes, FILE, size_of).await?;
        measure(bench, &sizes, clients).await
    });
    let (first, cases) = measured.await?;
    Ok(experiment(bench, first, cases, &sizes, clients))
}

/// Time of each server's first lookup, by the number of files and the server's index.
type First = BTreeMap<(u64, usize), Duration>;

async fn measure(bench: &Bench, sizes: &[u64], clients: usize) -> Result<(First, [Vec<Case>; 2])> {
    bench.begin("miss", sizes.len() * VARIANTS.len());
    let crews: Vec<Crew<Opener>> = Crew::for_each(bench);
    let mut first = First::new();
    let mut cases = [Vec::new(), Vec::new()];
    for &size in sizes {
        let directory = format!(r"{DIRECTORY}\{size}");
        for server in &bench.servers {
            crews[server.index].enlist(server, clients, Opener::new).await?;
            let asked = bench.beside(server, "first lookup", ask_once(&crews[server.index], &directory));
            first.insert((size, server.index), asked.await?);
        }
        for ((asks, variant), cases) in VARIANTS.into_iter().zip(&mut cases) {
            let turn = async |server: &Server, turn: &Turn<'_>| {
                let crew = &crews[server.index];
                crew.enlist(server, clients, Opener::new).await?;
                let begin = |number, opener: &mut Opener| {
                    opener.turn_to(asks, &directory, size, turn.seed.wrapping_add(number));
                };
                turn.measure(crew.work(clients, turn.pace(), begin)).await
            };
            let name = format!("{variant}, {} files", units::count(size));
            cases.push(bench.case(&name, Some(size as f64), turn).await?);
        }
    }
    Ok((first, cases))
}

/// Looks up a name that does not exist, in a directory that the server has not read yet.
async fn ask_once(crew: &Crew<Opener>, directory: &str) -> Result<Duration> {
    let pace = Pace { until: Until::Operations(1), rate: None, allow_errors: false, seed: 0 };
    let begin = Instant::now();
    crew.work(1, pace, |_, opener| opener.turn_to(Asks::Absent, directory, 1, 0)).await?;
    Ok(begin.elapsed())
}

fn experiment(bench: &Bench, first: First, cases: [Vec<Case>; 2], sizes: &[u64], clients: usize) -> Experiment {
    let names = bench.names();
    let files = Axis { label: "files in the directory".into(), unit: String::new(), logarithmic: true };
    let mut figures = Vec::new();
    for ((_, variant), cases) in VARIANTS.iter().zip(&cases) {
        for metric in [Metric::MEDIAN_LATENCY, Metric::CPU_PER_OPERATION] {
            let title = format!("{variant}: {}", metric.name);
            let mut figure = summary::lines(&title, files.clone(), cases, &names, metric);
            // The values range from microseconds to seconds.
            figure.y.logarithmic = true;
            figures.push(figure);
        }
    }
    let cases = cases.concat();
    let mut tables = summary::comparisons("Names", &cases, &names, &Metric::OPERATIONS);
    tables.push(first_table(first, sizes, &names));
    let settings = [
        ("connections", clients.to_string()),
        ("operation, no such name", "CREATE, which fails; another name each time".to_owned()),
        ("operation, name in another case", "CREATE and CLOSE".to_owned()),
    ];
    Experiment {
        name: "miss".into(),
        title: "What does it cost to open a name that does not exist, or that exists in another case?".into(),
        study: "Red Hat, \"Performance overview of Samba backed by Gluster\": a CREATE is preceded by many lookups \
                of names that do not exist, and a name that differs only in case means reading the directory. A \
                cache of missing names and lookup by the volume itself took CREATE from 43 to 88 files per second."
            .into(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        tables,
        figures,
        remarks: summary::client_shares(&cases, &names),
        cases,
    }
}

fn first_table(first: First, sizes: &[u64], names: &[&str]) -> Table {
    let mut head = vec!["files in the directory".to_owned()];
    head.extend(names.iter().map(|name| (*name).to_owned()));
    let cell = |size, server| {
        first.get(&(size, server)).map_or(units::NOTHING.to_owned(), |it| units::seconds(it.as_secs_f64()))
    };
    let row = |size: &u64| {
        let mut row = vec![units::count(*size)];
        row.extend((0..names.len()).map(|server| cell(*size, server)));
        row
    };
    let title = "Names: the first lookup in a new directory, measured once".to_owned();
    Table { title, head, rows: sizes.iter().map(row).collect() }
}
