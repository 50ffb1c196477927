//! `frevo acl calibrate`: measures on a share's own file system for which files it pays to store the descriptor that a
//! conversion of their POSIX ACL made, for `frevo:acl store = auto`.
//!
//! After "Concurrent use of POSIX ACL and rich ACL" (2011): an access check takes T_A where a converted descriptor is
//! stored, T_C where it is converted and not stored, T_CW where it is converted and stored. Of n checks of a file, storing
//! at the first makes T_CW + (n-1) T_A of n T_C. What is timed is the server's own code: the look-up, reading the
//! attributes, the conversion, the check. The cache is left out, for it knows what it knows either way.

mod ground;
mod measure;
pub(crate) mod saved;
mod shown;
mod verdict;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use bench::machine;
use clap::Args;

use super::place::Where;
use super::stop_at_signals;
use crate::state_dir::{StateDir, locate};
use ground::Ground;
use saved::Calibration;

/// Measures for which files of a share it pays to store converted descriptors (frevo:acl store = auto)
///
/// Makes 136 files in a hidden directory of the share, and removes them. Takes root, and throws the machine's
/// file caches away 27 times unless --warm says not to: a busy server is slow meanwhile.
#[derive(Args, Debug)]
pub(crate) struct CalibrateArgs {
    /// The share; of the configuration, with vfs objects = acl_xattr
    share: String,
    /// Measures with warm caches only, and leaves those of the machine alone
    #[arg(long)]
    warm: bool,
    /// How often each is measured
    #[arg(long, value_name = "NUMBER", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Where the plot goes, a page to look at in a browser [default: beside the state of the share]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Only measures: `auto` goes on as before
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Where,
}

/// Runs the command.
pub(crate) fn run(args: &CalibrateArgs) -> Result<ExitCode> {
    let share = args.place.converting_share(&args.share)?;
    if !localfs::identity::may_switch() {
        bail!("this takes root: only root writes the attributes, and throws the caches away; run it with sudo");
    }
    let state = locate(args.place.state_dir.as_deref(), args.place.config.as_deref())?;
    let (begun, started) = (std::time::Instant::now(), machine::rfc3339_now());
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("starting threads")?;
    runtime.spawn(stop_at_signals(stop.clone()));
    let ground = Ground::make(&share)?;
    let plan = measure::Plan { runs: args.runs as usize, cold: !args.warm };
    let samples = runtime.block_on(measure::measure(&ground, plan, &stop))?;
    drop(ground);
    let calibration = Calibration::new(&share, started, args.runs, samples);
    let page = shown::page(&calibration, begun.elapsed().as_secs_f64());
    let plot = match (&args.plot, args.dry_run) {
        (Some(path), _) => {
            std::fs::write(path, &page).with_context(|| format!("writing the plot to {}", path.display()))?;
            Some(path.clone())
        }
        (None, true) => None,
        (None, false) => Some(saved::keep_page(&StateDir::create(&state)?, &share.name, &page)?),
    };
    if !args.dry_run {
        calibration.keep(&StateDir::create(&state)?)?;
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(&calibration)? + "\n",
        false => shown::text(&calibration, &share, plot.as_deref(), args.dry_run),
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
