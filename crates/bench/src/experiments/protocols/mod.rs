//! E7: one file in both directions over SMB, FTP and HTTP, on one machine and file system (PC Watch, *SMB tuning
//! follow-up*).
//!
//! The FTP and HTTP servers are vsftpd and nginx, started by the experiment. All servers take turns within each round,
//! with one connection each. An upload creates a new file, and a download reads it again from the server's page cache.

mod beside;
mod ftp;
mod http;
mod stream;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, Open, Window};
use proto::smb2::create::CreateDisposition;
use report::metric::Metric;
use report::record::{Case, Experiment, Figure, Round, Series, Table};
use report::units;
use tokio::sync::Mutex;
use tokio::time::timeout;

use self::beside::{Beside, Kind};
use self::ftp::Ftp;
use self::http::Http;
use self::stream::Pump;
use crate::load::Sample;
use crate::method::{Bench, Party, Turn};
use crate::random::{Content, Look};
use crate::summary::{self, then};

/// Name of the file on every server.
const NAME: &str = "frevo-bench-protocols";
/// Longest time of one transfer.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The directions, in the order of the cases.
const WAYS: [&str; 2] = ["upload", "download"];
/// The results of the study, KB/s: name, upload, download.
const THEN: [(&str, Option<f64>, Option<f64>); 4] = [
    ("FTP (study)", Some(9163.0), Some(10_617.0)),
    ("HTTP (study)", None, Some(10_000.0)),
    ("Samba (study)", Some(6920.0), Some(6790.0)),
    ("Windows XP (study)", None, Some(8000.0)),
];

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Size of the file, in MiB [default: 700, quick 128]
    #[arg(long)]
    size: Option<u64>,
    /// Size of an SMB request, in KiB [default: 1024]
    #[arg(long)]
    piece: Option<u32>,
    /// Concurrent SMB requests [default: 4]
    #[arg(long)]
    depth: Option<usize>,
    /// Directory for the files of nginx and vsftpd [default: next to the share's directory, or the directory for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// A client of one of the protocols.
enum Mover {
    Smb(Box<Client>, Window),
    Ftp(Ftp),
    Http(Http),
}

impl Mover {
    async fn put(&mut self, pump: &mut Pump) -> Result<()> {
        match self {
            Mover::Smb(client, window) => {
                let open = Open::file(NAME).with_disposition(CreateDisposition::OVERWRITE_IF);
                let file = client.open(&open).await.context("cannot create the file")?;
                let content = pump.content;
                client.write_file(file, 0..pump.size, *window, |offset, out| content.fill(offset, out)).await?;
                Ok(client.close(file).await?)
            }
            Mover::Ftp(ftp) => ftp.put(NAME, pump).await,
            Mover::Http(http) => http.put(NAME, pump).await,
        }
    }

    async fn get(&mut self, pump: &mut Pump) -> Result<()> {
        match self {
            Mover::Smb(client, window) => {
                let file = client.open(&Open::existing(NAME)).await?;
                let (mut wrong, content, look) = (None, pump.content, pump.look);
                let check = |offset, data: &[u8]| wrong = wrong.or(content.wrong_at(offset, data, look));
                client.read_file(file, 0..pump.size, *window, check).await?;
                client.close(file).await?;
                match wrong {
                    None => Ok(()),
                    Some(offset) => bail!("the server returned wrong data at offset {offset}"),
                }
            }
            Mover::Ftp(ftp) => ftp.get(NAME, pump).await,
            Mover::Http(http) => http.get(NAME, pump).await,
        }
    }

    async fn delete(&mut self) -> Result<()> {
        match self {
            Mover::Smb(client, _) => Ok(client.delete(NAME).await?),
            Mover::Ftp(ftp) => ftp.delete(NAME).await,
            Mover::Http(http) => http.delete(NAME).await,
        }
    }
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let size = options.size.unwrap_or(bench.method.pick(700, 128)).max(1) << 20;
    let piece = options.piece.unwrap_or(1024).max(64) << 10;
    let window = Window { piece, depth: options.depth.unwrap_or(4).max(1) };
    let (others, remarks) = start(bench, options).await?;
    let mut movers = Vec::new();
    for server in &bench.servers {
        movers.push(Mutex::new(Mover::Smb(Box::new(server.connect().await?), window)));
    }
    for (kind, other) in &others {
        movers.push(Mutex::new(match kind {
            Kind::Vsftpd => Mover::Ftp(Ftp::connect(other.port).await?),
            Kind::Nginx => Mover::Http(Http::connect(other.port).await?),
        }));
    }
    let names = names(bench, &others);
    let servers = bench.servers.len();
    let beside = others.iter().enumerate().map(|(index, (_, other))| Party {
        name: "",
        target: None,
        processes: Some(&other.processes),
        group: servers + index,
    });
    let parties = bench.parties().into_iter().chain(beside);
    let parties: Vec<Party<'_>> = parties.zip(&names).map(|(party, name)| Party { name, ..party }).collect();
    bench.begin_of("protocols", WAYS.len(), parties.len());
    let pump = Mutex::new(Pump::new(Content { file: 7 }, size));
    let turn = async |index: usize, turn: &Turn<'_>| {
        there_and_back(&mut *movers[index].lock().await, &mut *pump.lock().await, turn).await
    };
    let mut cases = bench.cases_of(&WAYS.map(|way| (way, None)), &parties, turn).await?;
    for case in &mut cases {
        case.parties.clone_from(&names);
    }
    let mut settings = vec![
        ("file".to_owned(), format!("{} MiB", size >> 20)),
        ("SMB request".to_owned(), format!("{} KiB, {} concurrent", piece >> 10, window.depth)),
    ];
    settings
        .extend(others.iter().map(|(kind, other)| (format!("{}.conf", kind.program()), other.configuration.clone())));
    Ok(experiment(bench.servers.len(), &names, cases, settings, remarks))
}

/// Starts those of the other servers that are installed. Returns remarks about those that are not.
async fn start(bench: &Bench, options: &Options) -> Result<(Vec<(Kind, Beside)>, Vec<String>)> {
    let beside_share = || bench.servers.iter().find_map(|server| server.path.as_deref()?.parent());
    let place = options.directory.as_deref().or_else(beside_share);
    let (mut others, mut remarks) = (Vec::new(), Vec::new());
    for kind in [Kind::Vsftpd, Kind::Nginx] {
        bench.say(&format!("starting {}", kind.program()));
        match kind.start(place).await? {
            Some(beside) => others.push((kind, beside)),
            None => remarks.push(format!(
                "{} was not measured: {1} is not installed (Debian: apt-get install {1}).",
                kind.protocol(),
                kind.program()
            )),
        }
    }
    if place.is_none() && !others.is_empty() {
        remarks.push(
            "The directory of the share is unknown, so FTP and HTTP may have been on another file system: give \
             --share-path or --directory."
                .into(),
        );
    }
    Ok((others, remarks))
}

fn names(bench: &Bench, others: &[(Kind, Beside)]) -> Vec<String> {
    let smb = bench.names().into_iter().map(|name| format!("SMB, {name}"));
    smb.chain(others.iter().map(|(kind, _)| format!("{}, {}", kind.protocol(), kind.program()))).collect()
}

async fn there_and_back(mover: &mut Mover, pump: &mut Pump, turn: &Turn<'_>) -> Result<()> {
    // In the warm-up every byte is checked.
    pump.look = if turn.warms_up() { Look::Every } else { Look::Pages };
    for (case, way) in WAYS.iter().enumerate() {
        let moved = async {
            let begin = Instant::now();
            let size = pump.size;
            match case {
                0 => timeout(PATIENCE, mover.put(pump)).await,
                _ => timeout(PATIENCE, mover.get(pump)).await,
            }
            .with_context(|| format!("the {way} takes longer than {PATIENCE:?}: choose a smaller --size"))??;
            Ok(Sample::timed(begin.elapsed(), 0, size))
        };
        turn.measure_as(case, moved).await?;
    }
    mover.delete().await
}

fn experiment(
    servers: usize,
    names: &[String],
    cases: Vec<Case>,
    settings: Vec<(String, String)>,
    mut remarks: Vec<String>,
) -> Experiment {
    let mut verdicts = verdicts(servers, names, &cases);
    verdicts.append(&mut remarks);
    Experiment {
        name: "protocols".into(),
        title: "How does SMB compare with FTP and HTTP for one file?".into(),
        study: "PC Watch, \"SMB tuning follow-up\" (2002): a file of 700 MB over 100 Mbit/s, FTP up 9163 and down \
                10617 KB/s, HTTP down about 10000 KB/s, Samba written 6.92 and read 6.79 MB/s, Windows XP as server \
                8 MB/s."
            .into(),
        settings,
        tables: vec![table(names, &cases)],
        figures: vec![figure(servers, names, &cases)],
        remarks: verdicts,
        cases,
    }
}

/// Returns the rounds of one party in one direction.
fn rounds(cases: &[Case], way: usize, party: usize) -> &[Round] {
    cases.get(way).and_then(|case| case.servers.get(party)).map_or(&[], Vec::as_slice)
}

fn table(names: &[String], cases: &[Case]) -> Table {
    let columns = [Metric::THROUGHPUT, Metric::CPU_PER_GIB, Metric::CLIENT_PER_GIB];
    let head = columns.iter().flat_map(|metric| WAYS.map(|way| format!("{way}, {}", metric.name)));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (party, name) in names.iter().enumerate() {
        let cell = |metric: &Metric, way| metric.cell(rounds(cases, way, party));
        let cells = columns.iter().flat_map(|metric| (0..WAYS.len()).map(move |way| cell(metric, way)));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    for (name, up, down) in THEN {
        let speed = |value: Option<f64>| value.map_or(units::NOTHING.to_owned(), |value| units::rate(value * 1000.0));
        let empty = std::iter::repeat_n(String::new(), 2 * (columns.len() - 1));
        rows.push([name.to_owned(), speed(up), speed(down)].into_iter().chain(empty).collect());
    }
    let head = std::iter::once("one file".to_owned()).chain(head).collect();
    Table { title: "One file in both directions".into(), head, rows }
}

fn figure(servers: usize, names: &[String], cases: &[Case]) -> Figure {
    let mut figure = summary::bars("One file in both directions", cases, &[], Metric::THROUGHPUT);
    figure.series = (0..names.len())
        .map(|party| {
            let point = |way| Metric::THROUGHPUT.point(way as f64, rounds(cases, way, party));
            let points = (0..WAYS.len()).filter_map(point).collect();
            let server = (party < servers).then_some(party);
            Series { name: names[party].clone(), then: false, server, points }
        })
        .collect();
    for (name, up, down) in THEN {
        let point = |(way, value): (usize, Option<f64>)| Some((way as f64, value? * 1000.0 / 1_048_576.0));
        let points: Vec<(f64, f64)> = [up, down].into_iter().enumerate().filter_map(point).collect();
        figure.series.push(then(name, &points));
    }
    figure
}

/// Returns sentences about how much faster each SMB server is than each other server.
fn verdicts(servers: usize, names: &[String], cases: &[Case]) -> Vec<String> {
    let mut verdicts = Vec::new();
    for (smb, other) in (0..servers).flat_map(|smb| (servers..names.len()).map(move |other| (smb, other))) {
        let ratio = |way| {
            let speed = |party| Metric::THROUGHPUT.median(rounds(cases, way, party));
            Some(format!("{} {}", WAYS[way], units::ratio(speed(smb)? / speed(other)?)))
        };
        let ratios: Vec<String> = (0..WAYS.len()).filter_map(ratio).collect();
        if !ratios.is_empty() {
            verdicts.push(format!("{} against {}: {}.", names[smb], names[other], ratios.join(", ")));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_in_the_table_and_the_figure() {
        let round = |mib: u64| vec![Round { seconds: 1.0, bytes: mib << 20, ..Round::default() }];
        let case = |name: &str, speeds: [u64; 3]| Case {
            name: name.into(),
            servers: speeds.map(round).to_vec(),
            ..Case::default()
        };
        let cases = vec![case("upload", [200, 100, 50]), case("download", [300, 100, 600])];
        let names = ["SMB, ours", "SMB, theirs", "HTTP, nginx"].map(str::to_owned);
        let found = experiment(2, &names, cases, Vec::new(), vec!["FTP was not measured.".into()]);
        assert_eq!(found.tables[0].rows.len(), 3 + THEN.len());
        assert!(found.tables[0].rows.iter().all(|row| row.len() == found.tables[0].head.len()));
        assert_eq!(
            found.figures[0].series.iter().map(|it| it.server).take(3).collect::<Vec<_>>(),
            [Some(0), Some(1), None]
        );
        assert_eq!(found.remarks[0], "SMB, ours against HTTP, nginx: upload 4x, download 0.5x.");
        assert_eq!(found.remarks.len(), 3);
    }
}
