//! `cargo xtask gluster bench`: small files on a share of each volume, with the operations that the bricks serve.
//!
//! The server and the client run in the namespaces, so each volume is measured by another process of this program that
//! runs there ([`measure`]).

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench::listing;
use bench::requests::Requests;
use client::{Client, Credentials};
use test_environment::{ALICE, Counts, Crowd, Server, Target, TestEnvironment, interrupt};

use super::profile::{Operations, Profile};
use super::servers::{ServersOfRun, finish};
use super::{Volume, Wanted};

/// The configuration of both servers.
const TEMPLATE: &str = include_str!("smb.conf");
/// The share, and the directory of the volume that it shows.
const SHARE: &str = "bench";
/// Directory of the files, relative to the share.
const FILES: &str = "files";
/// Size of a file in bytes.
const SIZE: usize = 64 << 10;
/// Buffer size of a listing in bytes.
const BUFFER: u32 = 64 << 10;
/// Number of operations that are printed by name for each row.
const NAMED: usize = 5;

/// Options of `cargo xtask gluster bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    measurement: Measurement,
}

/// What is measured on each volume.
#[derive(clap::Args)]
pub(crate) struct Measurement {
    /// Server that uses the volumes: frevo (target/release/frevo) or samba (Debian's smbd with vfs_glusterfs)
    #[arg(long, default_value = "frevo")]
    target: Target,
    /// Number of files of 64 KiB, all in one directory
    #[arg(long, default_value_t = 200)]
    files: u32,
}

/// Options of the process in the namespaces.
#[derive(clap::Args)]
pub(crate) struct Inside {
    volume: Volume,
    #[command(flatten)]
    measurement: Measurement,
}

/// An operation that is performed on every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Create,
    List,
    Read,
    Rename,
    Delete,
    MakeDirectory,
    RemoveDirectory,
}

/// The phases in order, with their names.
const PHASES: [(Phase, &str); 7] = [
    (Phase::Create, "create"),
    (Phase::List, "list, cold"),
    (Phase::Read, "read"),
    (Phase::Rename, "rename"),
    (Phase::Delete, "delete"),
    (Phase::MakeDirectory, "mkdir"),
    (Phase::RemoveDirectory, "rmdir"),
];

/// Starts GlusterFS servers and measures each volume. A volume that cannot be measured is a failure.
pub(super) fn run(options: &Options) -> Result<Counts> {
    let servers = ServersOfRun::start(&options.wanted)?;
    let Measurement { target, files } = options.measurement;
    let mut counts = Counts::default();
    for volume in servers.volumes() {
        interrupt::check()?;
        let mut command = servers.command(std::env::current_exe()?);
        command.args(["gluster", "--dir"]).arg(servers.dir()).args(["measure", volume]);
        command.args(["--target", target.name(), "--files", &files.to_string()]);
        counts.add(match finish(&mut command)? {
            status if status.success() => Counts::passed(1),
            status => Counts::failed(format!("{volume}: {status}")).repeated_by(&format!(
                "cargo xtask gluster bench --volumes {volume} --target {} --files {files}",
                target.name()
            )),
        });
    }
    Ok(counts)
}

/// Starts a server on a volume and measures it. `dir` is the directory of the GlusterFS servers.
pub(super) fn measure(dir: &Path, options: &Inside) -> Result<()> {
    let Inside { volume: Volume { name: volume, .. }, measurement: Measurement { target, files } } = *options;
    let environment = TestEnvironment::make_in(dir, target, Crowd(0))?;
    let shared = dir.join("mnt").join(volume).join(SHARE);
    std::fs::create_dir(&shared).with_context(|| format!("cannot create {}", shared.display()))?;
    environment.people().give(&shared, &ALICE)?;
    let server = environment.start("server", &TEMPLATE.replace("@VOLUME@", volume));
    let mut server = server.with_context(|| format!("{} does not start on {volume}", target.name()))?;
    println!("{} on {volume}, {files} files\n{}", target.name(), Row::HEADINGS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let profile = Profile::start(dir, volume)?;
    let mut client = runtime.block_on(connect(&server))?;
    runtime.block_on(client.make_directory(FILES))?;
    for (phase, name) in PHASES {
        interrupt::check()?;
        if phase == Phase::List {
            // A new server has nothing in its caches.
            drop(client);
            server.restart()?;
            client = runtime.block_on(connect(&server))?;
        }
        profile.take()?;
        let begin = Instant::now();
        runtime.block_on(act(&mut client, phase, files)).with_context(|| format!("cannot {name}"))?;
        let rate = f64::from(files) / begin.elapsed().as_secs_f64();
        println!("{}", Row { name, rate, files, operations: profile.take()? });
    }
    Ok(())
}

async fn connect(server: &Server) -> Result<Client> {
    let options = client::Options {
        credentials: Credentials::password(ALICE.name, ALICE.password),
        ..client::Options::default()
    };
    Ok(Client::connect(server.address(), "127.0.0.1", SHARE, &options).await?)
}

/// Performs the operation of a phase on every file.
async fn act(client: &mut Client, phase: Phase, files: u32) -> Result<()> {
    if phase == Phase::List {
        let mut found = 0;
        listing::list(client, FILES, BUFFER, |_| {
            found += 1;
            Ok(())
        })
        .await?;
        ensure!(found == files, "the listing has {found} entries, not {files}");
        return Ok(());
    }
    let (content, requests) = (vec![1; SIZE], Requests::Separate);
    for number in 0..files {
        let path = |kind: &str| format!(r"{FILES}\{kind}-{number}");
        let (file, renamed, directory) = (path("file"), path("renamed"), path("directory"));
        match phase {
            Phase::List => {}
            Phase::Create => requests.make(client, &file, &content).await?,
            Phase::Read => {
                let mut length = 0;
                requests.read(client, &file, SIZE as u32, |data| length = data.len()).await?;
                ensure!(length == SIZE, "{file} has {length} bytes, not {SIZE}");
            }
            Phase::Rename => requests.rename(client, &file, &renamed).await?,
            Phase::Delete => requests.delete(client, &renamed).await?,
            Phase::MakeDirectory => requests.make_directory(client, &directory).await?,
            Phase::RemoveDirectory => requests.delete(client, &directory).await?,
        }
    }
    Ok(())
}

/// The result of a phase.
struct Row {
    name: &'static str,
    /// Files per second.
    rate: f64,
    files: u32,
    operations: Operations,
}

impl Row {
    const HEADINGS: &'static str = "             files/s  brick operations per file, and the most frequent of them";
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = |count: u64| count as f64 / f64::from(self.files);
        let mut sorted: Vec<_> = self.operations.iter().collect();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut named = String::new();
        for (name, count) in sorted.into_iter().take(NAMED) {
            write!(named, "  {name} {:.2}", each(*count))?;
        }
        write!(f, "{:<12} {:>7.0} {:>8.2}{named}", self.name, self.rate, each(self.operations.values().sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_operations_per_file() {
        let operations = [("CREATE", 200), ("LOOKUP", 600), ("FLUSH", 1)].map(|(name, count)| (name.to_owned(), count));
        let row = Row { name: "create", rate: 123.4, files: 200, operations: operations.into() };
        let expected = "create           123     4.00  LOOKUP 3.00  CREATE 1.00  FLUSH 0.01";
        assert_eq!(row.to_string(), expected);
    }
}
