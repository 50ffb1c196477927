//! E4: a huge file, to the server and back (Miracle Linux, *Samba performance evaluation*).
//!
//! The content is generated and checked as a stream, so the client's disk is not involved. After the timed copies the
//! file is read once more for its MD5, which the study compared too. Then a sparse file is written and read around 1,
//! 4, 16 and 64 GiB, where offsets need more bits.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use client::{Client, Open, Window};
use md5::{Digest, Md5};
use proto::smb2::FileId;
use report::metric::Metric;
use report::record::{Case, Experiment, Round, Table};
use report::units;

use crate::load::Sample;
use crate::method::{Bench, Server, Turn};
use crate::random::{Content, Look};
use crate::summary::{self, then};

/// Name of the file in the share.
const FILE: &str = "frevo-bench-bigfile";
/// Name of the sparse file.
const SPARSE: &str = "frevo-bench-sparse";
/// Bytes copied between two readings of the server's memory.
const STRETCH: u64 = 256 << 20;
/// Name of the value for those readings in a round.
const MEMORY: &str = "server memory at most, MiB";
/// Offsets in GiB around which the sparse file is written.
const FAR: [u64; 4] = [1, 4, 16, 64];
/// Bytes written around each of them, half before and half after it.
const ISLAND: u64 = 2 << 20;

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Size of the file, MiB [default: 65536, quick 512]
    #[arg(long)]
    size: Option<u64>,
    /// Size of a request, in KiB, up to 8192 [default: 1024]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8192))]
    piece: Option<u32>,
    /// Concurrent requests [default: 8]
    #[arg(long)]
    depth: Option<usize>,
    /// Number of copies in each direction [default: 1, quick 3]
    #[arg(long)]
    copies: Option<u32>,
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let size = options.size.unwrap_or(bench.method.pick(65536, 512)).max(1) << 20;
    let window = Window { piece: options.piece.unwrap_or(1024) << 10, depth: options.depth.unwrap_or(8) };
    let copies = options.copies.unwrap_or(bench.method.pick(1, 3)).max(1);
    bench.begin("bigfile", 2);
    let measured = measure(bench, size, window, copies).await;
    for server in &bench.servers {
        // The error of the measurement takes precedence.
        let removed = bench.beside(server, "removing the files", clean(server)).await;
        if measured.is_ok() {
            removed?;
        }
    }
    measured
}

async fn measure(bench: &Bench, size: u64, window: Window, copies: u32) -> Result<Experiment> {
    let content = Content { file: bench.method.seed };
    let turn = async |server: &Server, turn: &Turn<'_>| {
        let mut client = server.connect().await?;
        let file = client.open(&Open::file(FILE)).await?;
        turn.measure_as(0, upload(&mut client, server, file, content, size, window)).await?;
        turn.measure_as(1, download(&mut client, server, file, content, size, window)).await?;
        Ok(client.close(file).await?)
    };
    let cases = bench.cold_cases(copies, &[("client to server", None), ("server to client", None)], turn).await?;
    let mut remarks = Vec::new();
    bench.say("MD5 of the data sent");
    let sent = expected_md5(content, size);
    for server in &bench.servers {
        let came = bench.beside(server, "MD5 of the data read", received_md5(server, size, window)).await?;
        ensure!(came == sent, "{} returned a different file: its MD5 is {came}, expected {sent}", server.name);
        remarks.push(format!("{}: {} were returned identical, MD5 {came}.", server.name, units::bytes(size as f64)));
        remarks.push(bench.beside(server, "offsets around 64 GiB", far_offsets(server, content, window)).await?);
    }
    Ok(experiment(bench, cases, size, window, copies, remarks))
}

async fn upload(
    client: &mut Client,
    server: &Server,
    file: FileId,
    content: Content,
    size: u64,
    window: Window,
) -> Result<Sample> {
    let mut copy = Copy::begin(server, size);
    while let Some(stretch) = copy.next()? {
        client.write_file(file, stretch, window, |offset, out| content.fill(offset, out)).await?;
    }
    Ok(copy.end())
}

async fn download(
    client: &mut Client,
    server: &Server,
    file: FileId,
    content: Content,
    size: u64,
    window: Window,
) -> Result<Sample> {
    let mut copy = Copy::begin(server, size);
    let mut wrong = None;
    while let Some(stretch) = copy.next()? {
        let check = |offset, data: &[u8]| wrong = wrong.or(content.wrong_at(offset, data, Look::Pages));
        client.read_file(file, stretch, window, check).await?;
        if let Some(offset) = wrong {
            bail!("{} returned wrong data at offset {offset}", server.name);
        }
    }
    Ok(copy.end())
}

/// A copy in progress, in stretches.
struct Copy<'a> {
    server: &'a Server,
    begin: Instant,
    /// Time spent on readings of the server. With many processes they take long, and they are not part of the copy.
    looking: Duration,
    size: u64,
    done: u64,
    memory: f64,
}

impl<'a> Copy<'a> {
    fn begin(server: &'a Server, size: u64) -> Copy<'a> {
        Copy { server, begin: Instant::now(), looking: Duration::ZERO, size, done: 0, memory: 0.0 }
    }

    /// Returns the next stretch, and reads the server's memory before it.
    fn next(&mut self) -> Result<Option<std::ops::Range<u64>>> {
        if let Some(processes) = &self.server.processes {
            let begin = Instant::now();
            self.memory = self.memory.max(processes.read()?.private() as f64 / 1_048_576.0);
            self.looking += begin.elapsed();
        }
        let start = self.done;
        self.done = (start + STRETCH).min(self.size);
        Ok((start < self.done).then_some(start..self.done))
    }

    fn end(self) -> Sample {
        let mut sample = Sample::timed(self.begin.elapsed().saturating_sub(self.looking), 1, self.size);
        if self.memory > 0.0 {
            sample.figures.insert(MEMORY.into(), self.memory);
        }
        sample
    }
}

fn expected_md5(content: Content, size: u64) -> String {
    let (mut hash, mut buffer) = (Md5::new(), vec![0; 1 << 20]);
    let mut offset = 0;
    while offset < size {
        let piece = &mut buffer[..(size - offset).min(1 << 20) as usize];
        content.fill(offset, piece);
        hash.update(&*piece);
        offset += piece.len() as u64;
    }
    format!("{:x}", hash.finalize())
}

/// Returns the MD5 of the file as the server returns it now, on a separate connection. Pieces may arrive in any order,
/// but the hash needs them in sequence, so early pieces are kept.
async fn received_md5(server: &Server, size: u64, window: Window) -> Result<String> {
    let mut client = server.connect().await?;
    let file = client.open(&Open::existing(FILE)).await.context("cannot open the file that was just written")?;
    let (mut hash, mut next) = (Md5::new(), 0);
    let mut early = std::collections::BTreeMap::<u64, Vec<u8>>::new();
    let take = |offset: u64, data: &[u8]| {
        early.insert(offset, data.to_vec());
        while let Some(data) = early.remove(&next) {
            hash.update(&data);
            next += data.len() as u64;
        }
    };
    client.read_file(file, 0..size, window, take).await?;
    client.close(file).await?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Writes around the far offsets of a sparse file and reads it back, including holes.
async fn far_offsets(server: &Server, content: Content, window: Window) -> Result<String> {
    let mut client = server.connect().await?;
    let file = client.open(&Open::file(SPARSE)).await?;
    for gib in FAR {
        let middle = gib << 30;
        let island = middle - ISLAND / 2..middle + ISLAND / 2;
        match client.write_file(file, island, window, |offset, out| content.fill(offset, out)).await {
            Ok(()) => {}
            // Some file systems have a smaller maximum file size, and report that.
            Err(error) if error.status().is_some() => {
                client.close(file).await?;
                return Ok(format!("{}: cannot create a file of {gib} GiB here: {error}.", server.name));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for gib in FAR {
        let middle = gib << 30;
        let mut wrong = None;
        let check = |offset: u64, data: &[u8]| {
            // A request may extend from the hole into the island.
            let hole = ((middle - ISLAND / 2).saturating_sub(offset) as usize).min(data.len());
            let zeros = data[..hole].iter().position(|byte| *byte != 0).map(|at| offset + at as u64);
            let found = zeros.or_else(|| content.wrong_at(offset + hole as u64, &data[hole..], Look::Every));
            wrong = wrong.or(found);
        };
        client.read_file(file, middle - ISLAND..middle + ISLAND / 2, window, check).await?;
        if let Some(offset) = wrong {
            bail!("{} returned wrong data at offset {offset} of a sparse file", server.name);
        }
    }
    client.close(file).await?;
    Ok(format!(
        "{}: data around 1, 4, 16 and 64 GiB of a sparse file is correct, and so are the zeros before it.",
        server.name
    ))
}

async fn clean(server: &Server) -> Result<()> {
    let mut client = server.connect().await?;
    for name in [FILE, SPARSE] {
        match client.delete(name).await {
            Err(error) if error.status().is_none() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn experiment(
    bench: &Bench,
    cases: Vec<Case>,
    size: u64,
    window: Window,
    copies: u32,
    mut remarks: Vec<String>,
) -> Experiment {
    let names = bench.names();
    let mut figure = summary::bars("A huge file", &cases, &names, Metric::THROUGHPUT);
    // 64 GB in 122 and 144 minutes.
    figure.series.push(then("2002, 100 Mbit/s", &[(0.0, 8.9), (1.0, 7.1)]));
    let memory = Metric {
        name: "maximum server memory",
        unit: "MiB",
        of: |round: &Round| round.figures.get(MEMORY).copied(),
        text: |value| units::bytes(value * 1_048_576.0),
        more_is_better: false,
        traced: false,
    };
    let metrics = [&Metric::BYTES[..], &[memory]].concat();
    let tables: Vec<Table> = summary::comparisons("A huge file", &cases, &names, &metrics);
    remarks.extend(names.iter().enumerate().filter_map(|(index, name)| summary::client_share(&cases, index, name)));
    let settings = [
        ("file", units::bytes(size as f64)),
        ("request", format!("{} KiB, {} concurrent", window.piece >> 10, window.depth)),
        ("copies in each direction", copies.to_string()),
    ];
    Experiment {
        name: "bigfile".into(),
        title: "Is a huge file returned identical, and how fast?".into(),
        study: "Miracle Linux 2002: 64 GB over 100 Mbit/s took 122 minutes to the server (8.9 MB/s) and 144 back \
                (7.1 MB/s), and were identical."
            .into(),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        tables,
        figures: vec![figure],
        remarks,
        cases,
    }
}
