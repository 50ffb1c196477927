//! E10, second part: small files are created, listed, queried, read, renamed and deleted by several workers, each in
//! its own tree (Red Hat, *Performance overview of Samba backed by Gluster*).

#[cfg(test)]
mod tests;
mod tree;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use report::metric::Metric;
use report::record::{Case, Experiment, Figure, Table};
use report::units;

use crate::crew::Crew;
use crate::directory::{self, Directories, Directory};
use crate::files::local::{self, Local};
use crate::files::smb::{self, Smb};
use crate::ground;
use crate::method::{Bench, Turn};
use crate::requests::Requests;
use crate::summary::{self, then};

pub use tree::{Moment, Phase, Plan, Tree, turn, turn_with};

/// Directory of the files, relative to the share.
pub const DIRECTORY: &str = "frevo-bench-smallfile";

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Number of connections, each with its own tree [default: 4, quick 2]
    #[arg(long)]
    clients: Option<u64>,
    /// Number of files of each connection [default: 2500, quick 300]
    #[arg(long)]
    files: Option<u64>,
    /// Size of each file, in KiB, at most 1024 [default: 64]
    #[arg(long)]
    size: Option<u32>,
    /// Number of files in a directory [default: 100]
    #[arg(long)]
    per_directory: Option<u64>,
    /// Measure only these phases, separated by commas. A turn has them in the order of this list [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    phases: Vec<Phase>,
    /// Send the requests for one file as one compound chain, instead of one after another
    #[arg(long)]
    compound: bool,
    #[command(flatten)]
    pub(super) directories: Directories,
}

impl Options {
    /// Returns the directories of this machine to measure.
    pub fn directories(&self) -> &[Directory] {
        &self.directories.given
    }
}

/// The phases of a turn in order, with their names and the study's results per second.
const PHASES: [(Phase, &str, Option<Then>); 8] = [
    (Phase::Create, "create", Some(Then { smb: 90.0, nfs: 540.0, fuse: 1204.0, tuned: 88.0 })),
    (Phase::List, "list the tree", Some(Then { smb: 502.0, nfs: 6214.0, fuse: 6982.0, tuned: 4287.0 })),
    (Phase::Stat, "stat", None),
    (Phase::Read, "read", None),
    (Phase::Rename, "rename", Some(Then { smb: 29.0, nfs: 136.0, fuse: 163.0, tuned: 35.0 })),
    (Phase::Delete, "delete", None),
    (Phase::MakeDirectory, "mkdir", None),
    (Phase::RemoveDirectory, "rmdir", Some(Then { smb: 209.0, nfs: 830.0, fuse: 842.0, tuned: 252.0 })),
];

/// The study's results for one phase, in files per second.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Then {
    smb: f64,
    nfs: f64,
    fuse: f64,
    /// SMB after caches and the volume's own name lookup were added. Measured against a different baseline.
    tuned: f64,
}

/// A column of the study's table.
type Column = (&'static str, fn(&Then) -> f64);
const COLUMNS: [Column; 4] = [
    ("SMB (study)", |then| then.smb),
    ("SMB tuned (study)", |then| then.tuned),
    ("NFS (study)", |then| then.nfs),
    ("FUSE (study)", |then| then.fuse),
];

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let plan = Plan::new(&bench.method, options)?;
    let requests = if options.compound { Requests::Chained } else { Requests::Separate };
    bench.begin("smallfile", plan.phases().len());
    let measured = directory::within(&bench.directories, DIRECTORY, async |paths| {
        ground::within(bench, DIRECTORY, async || measure(bench, &plan, requests, paths).await).await
    });
    let mut experiment = experiment(&bench.names(), &plan, measured.await?);
    let mut settings = Vec::new();
    if !bench.servers.is_empty() {
        let order = match requests {
            Requests::Separate => "one after another, as Windows sends them",
            Requests::Chained => "one compound chain per file",
        };
        settings.push(("requests", order.to_owned()));
        settings.push(("buffer of a listing", format!("{} KiB", smb::BUFFER >> 10)));
    }
    if !bench.directories.is_empty() {
        settings.push(("connection to a directory", "a thread, one system call after another".to_owned()));
        let buffer = local::BUFFER >> 10;
        settings.push(("listing of a directory", format!("getdents64 with {buffer} KiB, fstatat of each entry")));
    }
    experiment.settings.extend(settings.into_iter().map(|(name, value)| (name.to_owned(), value)));
    experiment.remarks = summary::client_shares(&experiment.cases, &bench.names());
    experiment.remarks.extend(directory::remarks(&bench.directories));
    Ok(experiment)
}

async fn measure(bench: &Bench, plan: &Plan, requests: Requests, paths: &[PathBuf]) -> Result<Vec<Case>> {
    let clients = plan.clients as usize;
    let shares: Vec<Crew<Tree<Smb>>> = Crew::for_each(bench);
    let directories: Vec<Crew<Tree<Local>>> = paths.iter().map(|_| Crew::default()).collect();
    let run = async |index: usize, taken: &Turn<'_>| match index.checked_sub(bench.servers.len()) {
        None => {
            let make = |client| Tree::new(Smb::new(client, DIRECTORY, requests), plan);
            shares[index].enlist(&bench.servers[index], clients, make).await?;
            turn(&shares[index], plan, taken).await
        }
        Some(index) => {
            let make = async || Ok(Tree::new(Local::open(&paths[index])?, plan));
            directories[index].enlist_with(clients, make).await?;
            turn(&directories[index], plan, taken).await
        }
    };
    bench.cases_of(&cases(plan), &bench.parties(), run).await
}

/// Returns the names of the cases, one for each measured phase.
pub fn cases(plan: &Plan) -> Vec<(&'static str, Option<f64>)> {
    measured(plan).map(|(_, name, _)| (name, None)).collect()
}

/// Returns the measured phases, with their names and the study's results.
fn measured(plan: &Plan) -> impl Iterator<Item = (Phase, &'static str, Option<Then>)> {
    PHASES.into_iter().filter(|(phase, ..)| plan.phases().contains(phase))
}

/// Returns the record of the measured cases.
pub fn experiment(names: &[&str], plan: &Plan, cases: Vec<Case>) -> Experiment {
    let mut tables = summary::comparisons("Small files", &cases, names, &Metric::OPERATIONS);
    if let Some(rates) = tables.first_mut() {
        put_beside(rates, plan);
    }
    let settings = [
        ("connections", plan.clients.to_string()),
        ("files per connection", plan.files.to_string()),
        ("size of a file", format!("{} KiB", plan.size >> 10)),
        ("files in a directory", plan.per_directory.to_string()),
    ];
    Experiment {
        name: "smallfile".into(),
        title: "How fast are small files created, listed, read, renamed and deleted?".into(),
        study: "Red Hat, \"Performance overview of Samba backed by Gluster\": of small files over a scale-out \
                volume, SMB created 90 per second, NFS 540 and FUSE 1204; with caches of attributes and of missing \
                names, and with names found by the volume itself, 88 in place of 43."
            .into(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        tables,
        figures: vec![figure(&cases, names, plan)],
        remarks: Vec::new(),
        cases,
    }
}

/// Adds the study's results to the table of rates.
fn put_beside(rates: &mut Table, plan: &Plan) {
    rates.head.extend(COLUMNS.map(|(name, _)| name.to_owned()));
    for (row, (_, _, then)) in rates.rows.iter_mut().zip(measured(plan)) {
        let text = |of: fn(&Then) -> f64| then.map_or(units::NOTHING.to_owned(), |then| units::per_second(of(&then)));
        row.extend(COLUMNS.map(|(_, of)| text(of)));
    }
}

fn figure(cases: &[Case], names: &[&str], plan: &Plan) -> Figure {
    let mut figure = summary::bars("Small files", cases, names, Metric::RATE);
    // The values range from 29 to many thousands.
    figure.y.logarithmic = true;
    for (name, of) in COLUMNS {
        let points = measured(plan).enumerate().filter_map(|(index, (_, _, then))| Some((index as f64, of(&then?))));
        figure.series.push(then(name, &points.collect::<Vec<_>>()));
    }
    figure
}
