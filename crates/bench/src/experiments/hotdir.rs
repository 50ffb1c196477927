//! Many clients in one directory, each of which repeatedly opens and closes one of its files. The rate as a function of
//! their number shows the contention on the server.
//!
//! Red Hat found for Samba on Gluster that one request makes 20 to 30 file system calls.

use anyhow::Result;
use clap::Args;
use report::metric::Metric;
use report::record::{Axis, Case, Experiment};

use crate::crew::Crew;
use crate::ground;
use crate::method::{Bench, Server, Turn};
use crate::opener::{Asks, FILE, Opener, size_of};
use crate::summary;

/// Directory of the files, relative to the share.
const DIRECTORY: &str = "frevo-bench-hotdir";

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Maximum number of connections, measured with 1, 2, 4 and so on [default: 64, quick 1, 4, 16]
    #[arg(long)]
    clients: Option<usize>,
    /// Number of files in the directory [default: 1000]
    #[arg(long)]
    files: Option<u64>,
}

/// The variants with their names.
const VARIANTS: [(Asks, &str); 2] = [(Asks::Any, "any file"), (Asks::First, "the same file")];

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let most = options.clients.unwrap_or(bench.method.pick(64, 16)).max(1);
    let files = options.files.unwrap_or(1000).max(1);
    let counts = counts(most, bench.method.pick(2, 4));
    let cases = ground::within(bench, DIRECTORY, async || {
        for server in &bench.servers {
            let fill = ground::fill(bench, server, DIRECTORY, FILE, 0..files, size_of);
            bench.beside(server, "filling the directory", fill).await?;
        }
        measure(bench, files, &counts).await
    });
    Ok(experiment(bench, cases.await?, files))
}

/// Returns numbers from 1 to `most`, each `factor` times the previous one.
fn counts(most: usize, factor: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(count * factor)).take_while(|count| *count < most).collect();
    counts.push(most);
    counts
}

/// Returns the cases of each variant.
async fn measure(bench: &Bench, files: u64, counts: &[usize]) -> Result<[Vec<Case>; 2]> {
    bench.begin("hotdir", counts.len() * VARIANTS.len());
    let crews: Vec<Crew<Opener>> = Crew::for_each(bench);
    let mut cases = [Vec::new(), Vec::new()];
    for ((asks, variant), cases) in VARIANTS.into_iter().zip(&mut cases) {
        // A quick run measures only the largest number, which has the most contention.
        let short = bench.method.quick && asks == Asks::First;
        for &count in if short { &counts[counts.len() - 1..] } else { counts } {
            let turn = async |server: &Server, turn: &Turn<'_>| {
                let crew = &crews[server.index];
                crew.enlist(server, count, Opener::new).await?;
                let begin = |number, opener: &mut Opener| {
                    opener.turn_to(asks, DIRECTORY, files, turn.seed.wrapping_add(number));
                };
                turn.measure(crew.work(count, turn.pace(), begin)).await
            };
            let plural = if count == 1 { "" } else { "s" };
            cases.push(bench.case(&format!("{variant}, {count} client{plural}"), Some(count as f64), turn).await?);
        }
    }
    Ok(cases)
}

fn experiment(bench: &Bench, cases: [Vec<Case>; 2], files: u64) -> Experiment {
    let names = bench.names();
    let clients = Axis { label: "clients".into(), unit: String::new(), logarithmic: true };
    let mut figures = Vec::new();
    for ((_, variant), cases) in VARIANTS.iter().zip(&cases) {
        for metric in [Metric::RATE, Metric::MEDIAN_LATENCY, Metric::CPU_PER_OPERATION] {
            let title = format!("One directory, {variant}: {}", metric.name);
            figures.push(summary::lines(&title, clients.clone(), cases, &names, metric));
        }
    }
    let cases = cases.concat();
    let settings = [
        ("files in the directory", files.to_string()),
        ("operation", "CREATE and CLOSE, one after another".to_owned()),
    ];
    Experiment {
        name: "hotdir".into(),
        title: "How many clients can work in one directory?".into(),
        study:
            "Red Hat, \"Performance overview of Samba backed by Gluster\": one SMB request makes 20 to 30 calls to the \
             file system, so that many clients in one directory wait for the volume."
                .into(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        tables: summary::comparisons("One directory", &cases, &names, &Metric::OPERATIONS),
        figures,
        remarks: summary::client_shares(&cases, &names),
        cases,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_is_always_included() {
        assert_eq!(counts(64, 2), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(counts(16, 4), [1, 4, 16]);
        assert_eq!(counts(5, 2), [1, 2, 4, 5]);
        assert_eq!(counts(1, 2), [1]);
    }
}
