//! `cargo xtask rclone`: measures how long rclone takes to copy many small files and a large one to each server and
//! back.
//!
//! rclone's SMB client is go-smb2, which executes one request after another on a connection, and opens as many
//! connections as there are concurrent transfers. So the latency of each response matters, unlike in any experiment of
//! `frevo-bench`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use test_environment::{Backend, Counts, Rclone, interrupt};

use super::pair::{Pair, SHARES, Side};
use super::{build_frevo, free_space};
use crate::setup::{self, Set};

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of rounds, each of which includes both servers; an additional first round is not counted
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Number of small files, in folders of a hundred
    #[arg(long, default_value_t = 2_000)]
    files: usize,
    /// Size of each small file in bytes
    #[arg(long, default_value_t = 4_096)]
    bytes: usize,
    /// Size of the large file in MiB
    #[arg(long, default_value_t = 2_048)]
    size: u64,
    /// Share: plain, or acl, whose files have Windows ACLs
    #[arg(long, default_value = "plain")]
    share: String,
    /// Require encryption on both servers
    #[arg(long)]
    sealed: bool,
    /// Directory on the file system to measure on [default: $TMPDIR or /var/tmp]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// File to which the results are written as JSON
    #[arg(long)]
    out: Option<PathBuf>,
    /// Further arguments for rclone, after --
    #[arg(last = true)]
    rclone: Vec<String>,
}

/// The operations that are measured in sequence, on each server in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SmallUp,
    SmallDown,
    Purge,
    LargeUp,
    LargeDown,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::SmallUp, Kind::SmallDown, Kind::Purge, Kind::LargeUp, Kind::LargeDown];

    fn title(self) -> &'static str {
        match self {
            Kind::SmallUp => "small files to the server",
            Kind::SmallDown => "small files from the server",
            Kind::Purge => "small files removed",
            Kind::LargeUp => "large file to the server",
            Kind::LargeDown => "large file from the server",
        }
    }

    /// Returns rclone's arguments: command, source and destination.
    fn arguments(self, share: &str, local: &Path) -> [String; 3] {
        let there = |name: &str| format!("{}:{share}/{name}", Rclone::REMOTE);
        let here = |name: &str| local.join(name).display().to_string();
        let (verb, from, to) = match self {
            Kind::SmallUp => ("copy", here("small"), there("small")),
            Kind::SmallDown => ("copy", there("small"), here("back")),
            Kind::Purge => ("purge", there("small"), String::new()),
            Kind::LargeUp => ("copyto", here("large"), there("large")),
            Kind::LargeDown => ("copyto", there("large"), here("back/large")),
        };
        [verb.to_owned(), from, to]
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    ensure!(options.rounds > 0, "--rounds 0 measures nothing");
    ensure!(SHARES.contains(&options.share.as_str()), "--share {}: not one of {}", options.share, SHARES.join(", "));
    // SAFETY: geteuid has no preconditions and cannot fail.
    ensure!(unsafe { libc::geteuid() } == 0, "this needs root because smbd starts only as root");
    setup::run(Set::Samba)?;
    build_frevo()?;
    let default = || std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let dir = options.dir.clone().unwrap_or_else(default);
    let dir = dir.canonicalize().with_context(|| format!("--dir {}", dir.display()))?;
    // Space for the file itself, for both servers, and for the copy back.
    let (needed, free) = ((options.size << 20) * 4 + (1 << 30), free_space(&dir)?);
    ensure!(free >= needed, "{} MiB are needed in {}, {} are free", needed >> 20, dir.display(), free >> 20);
    let local = tempfile::Builder::new().prefix("frevo-rclone-").tempdir_in(&dir)?;
    make_files(options, local.path())?;
    let mut pair = Pair::start(&dir, 0, Backend::Embedded)?;
    if options.sealed {
        seal(&mut pair)?;
    }
    let mut times = vec![[Vec::new(), Vec::new()]; Kind::ALL.len()];
    for round in 0..=options.rounds {
        for (kind, times) in Kind::ALL.into_iter().zip(&mut times) {
            // The first server has to fill caches and finds the disk in another state, so the order alternates.
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for number in order {
                interrupt::check()?;
                let side = &*pair.sides()[number];
                let seconds = measure(options, kind, side, local.path())?;
                if round > 0 {
                    times[number].push(seconds);
                }
            }
        }
        pair.check()?;
    }
    report(options, &times)?;
    Ok(Counts::passed(Kind::ALL.len()))
}

/// Restarts both with a configuration that requires encryption.
fn seal(pair: &mut Pair) -> Result<()> {
    for side in pair.sides() {
        let conf = side.server.conf().to_owned();
        let text = fs::read_to_string(&conf)?;
        fs::write(&conf, text.replacen("[global]\n", "[global]\n\tserver smb encrypt = required\n", 1))?;
        side.server.restart()?;
    }
    Ok(())
}

/// Creates the files to copy.
fn make_files(options: &Options, local: &Path) -> Result<()> {
    let mut bytes = vec![0; options.bytes];
    for number in 0..options.files {
        let folder = local.join(format!("small/folder {:02}", number / 100));
        fs::create_dir_all(&folder)?;
        bytes.iter_mut().zip(number.to_string().bytes().cycle()).for_each(|(byte, digit)| *byte = digit);
        fs::write(folder.join(format!("file-{number:05}.txt")), &bytes)?;
    }
    let mut large = fs::File::create(local.join("large"))?;
    let random = fs::File::open("/dev/urandom")?;
    std::io::copy(&mut std::io::Read::take(random, options.size << 20), &mut large)?;
    Ok(())
}

/// Returns the seconds that rclone takes. First removes the files of an earlier measurement.
fn measure(options: &Options, kind: Kind, side: &Side, local: &Path) -> Result<f64> {
    let _ = fs::remove_dir_all(local.join("back"));
    if kind == Kind::LargeUp {
        let _ = fs::remove_file(side.path(&options.share).join("large"));
    }
    let rclone = Rclone::new(local, side.server.port())?;
    let arguments = kind.arguments(&options.share, local);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let mut command = rclone.command(&arguments);
    // Flush dirty pages, so that one server's are not written during the other's turn.
    // SAFETY: sync has no arguments and cannot fail.
    unsafe { libc::sync() };
    let start = Instant::now();
    let output = command.args(&options.rclone).stdin(Stdio::null()).output().context("cannot start rclone")?;
    let seconds = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: rclone {}: {said}", side.name(), arguments.join(" "));
    let arrived = match kind {
        Kind::SmallUp => count(&side.path(&options.share).join("small"))? == options.files,
        Kind::SmallDown => count(&local.join("back"))? == options.files,
        Kind::Purge => !side.path(&options.share).join("small").exists(),
        Kind::LargeUp => fs::metadata(side.path(&options.share).join("large"))?.len() == options.size << 20,
        Kind::LargeDown => fs::metadata(local.join("back/large"))?.len() == options.size << 20,
    };
    ensure!(arrived, "{}: rclone succeeded, but not everything was copied: {}", side.name(), kind.title());
    Ok(seconds)
}

/// Counts the files in the subfolders of a folder.
fn count(root: &Path) -> Result<usize> {
    let mut count = 0;
    for folder in fs::read_dir(root)? {
        count += fs::read_dir(folder?.path())?.count();
    }
    Ok(count)
}

/// Prints medians with their range, and the ratio of both servers.
fn report(options: &Options, times: &[[Vec<f64>; 2]]) -> Result<()> {
    let Options { rounds, files, bytes, size, share, sealed, .. } = options;
    let how = if *sealed { "encrypted" } else { "not encrypted" };
    println!("{files} files of {bytes} bytes, one of {size} MiB, {rounds} rounds, share {share}, {how}");
    println!("seconds: median (minimum to maximum)");
    println!("{:<28} {:>24} {:>24} {:>8}", "", "frevo", "samba", "ratio");
    let mut record = serde_json::Map::new();
    for (kind, times) in Kind::ALL.into_iter().zip(times) {
        let [frevo, samba] = times.clone().map(sorted);
        let ratio = median(&frevo) / median(&samba);
        println!("{:<28} {:>24} {:>24} {ratio:>8.2}", kind.title(), spread(&frevo), spread(&samba));
        let [frevo, samba] = times;
        record.insert(kind.title().to_owned(), serde_json::json!({ "frevo": frevo, "samba": samba, "ratio": ratio }));
    }
    if let Some(out) = &options.out {
        let all = serde_json::json!({
            "files": files, "bytes": bytes, "mebibytes": size, "share": share, "sealed": sealed, "seconds": record,
        });
        fs::write(out, format!("{all:#}\n")).with_context(|| format!("cannot write {}", out.display()))?;
    }
    Ok(())
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

/// Returns the median of sorted figures; there must be at least one.
fn median(times: &[f64]) -> f64 {
    let middle = times.len() / 2;
    if times.len() % 2 == 1 { times[middle] } else { f64::midpoint(times[middle - 1], times[middle]) }
}

fn spread(times: &[f64]) -> String {
    let (least, most) = (times.first().copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
    format!("{:.3} ({least:.3} to {most:.3})", median(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median(&sorted(vec![3.0, 1.0, 2.0])), 2.0);
        assert_eq!(median(&sorted(vec![4.0, 1.0, 2.0, 3.0])), 2.5);
        assert_eq!(spread(&[1.0, 2.0, 4.0]), "2.000 (1.000 to 4.000)");
    }
}
