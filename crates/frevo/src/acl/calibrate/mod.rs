//! `frevo acl calibrate`: measures on a share's own file system for which files it pays to store the security
//! descriptor converted from the POSIX ACL. The result is used for `frevo:acl store = auto`.
//!
//! The method follows "Concurrent use of POSIX ACL and rich ACL" (2011). An access check takes T_A if a converted
//! descriptor is stored, T_C if it is converted and not stored, and T_CW if it is converted and stored. For n checks of
//! a file, storing at the first check costs T_CW + (n-1) T_A instead of n T_C. The timed code is the server's own: path
//! lookup, reading the attributes, the conversion and the check. The server's cache is excluded because it has the same
//! effect in both cases.

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
use clap::Args;
use report::machine;

use super::place::Where;
use super::stop_at_signals;
use accounts::state_dir::StateDir;
use ground::Ground;
use saved::Calibration;
use server::policy::Share;
use smbconf::location::locate;

/// Measures for which files of a share storing converted descriptors pays off (frevo:acl store = auto)
///
/// Creates 136 files in a hidden directory of the share and removes them afterwards. Requires root. Unless --warm is
/// given, drops the machine's file caches 27 times, which slows down a busy server.
#[derive(Args, Debug)]
pub(crate) struct CalibrateArgs {
    /// Name of the share; it must be configured with vfs objects = acl_xattr
    share: String,
    /// Measure with warm caches only; do not drop the machine's caches
    #[arg(long)]
    warm: bool,
    /// Number of measurement runs
    #[arg(long, value_name = "NUMBER", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// File for the plot, an HTML page [default: next to the saved calibration in the state directory]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Measure only; do not save the result for `auto`
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Where,
}

/// Runs the command.
pub(crate) fn run(args: &CalibrateArgs) -> Result<ExitCode> {
    let share = args.place.converting_share(&args.share)?;
    if !localfs::identity::may_switch() {
        bail!("only root can write the attributes and drop the caches; run the command with sudo");
    }
    let state = locate(args.place.state_dir.as_deref(), args.place.config.as_deref())?;
    let (begun, started) = (std::time::Instant::now(), machine::rfc3339_now());
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.spawn(stop_at_signals(stop.clone()));
    let ground = Ground::make(&share)?;
    let plan = measure::Plan { runs: args.runs as usize, cold: !args.warm, quiet: false };
    let samples = runtime.block_on(measure::measure(&ground, plan, &stop))?;
    drop(ground);
    let calibration = Calibration::new(&share, started, args.runs, samples);
    let page = shown::page(&calibration, begun.elapsed().as_secs_f64());
    let plot = match (&args.plot, args.dry_run) {
        (Some(path), _) => {
            std::fs::write(path, &page).with_context(|| format!("cannot write the plot to {}", path.display()))?;
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
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// Measures with warm caches only and returns the policy in the syntax of `frevo:acl store`. Saves nothing.
pub(crate) async fn quickly(share: &Share, runs: usize, stop: &AtomicBool) -> Result<String> {
    let ground = Ground::make(share)?;
    let samples = measure::measure(&ground, measure::Plan { runs, cold: false, quiet: true }, stop).await?;
    Ok(verdict::entries(&samples).to_string())
}
