//! `frevo tune`: measures the file system of a share, the network and the processors, and recommends settings.
//!
//! Every recommendation names the measurement behind it. Nothing is changed: files are created only in a private
//! directory that clients do not see (`trial`), which is removed at the end. `measurements` has the values, and
//! `advice` computes the recommendations from them. Exit status: 0 measured; 1 not measured; 2 wrong usage.

mod advice;
mod cryptography;
mod host;
mod measurements;
mod network;
mod shown;
mod storage;
mod trial;
mod wakeups;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use server::policy::{Policy, Share};
use smbconf::added::Added;
use smbconf::host::Host;
use smbconf::{Daemon, Loaded, Sources};

use self::advice::Facts;
use self::measurements::Measurements;
use self::trial::TrialDirectory;
use self::work::{Extent, Work};
use crate::acl::calibrate;
use crate::acl::place::check_is_directory;
use accounts::state_dir::StateDir;

/// Seconds of a measurement with `--quick`.
const QUICK: u32 = 5;
/// Runs of the measurement of ACLs.
const ACL_RUNS: usize = 5;

/// Measures a share's file system, the network and the processors, and recommends settings; changes nothing
///
/// Needs about a minute and 580 MiB of free space. Files are created in a hidden directory of the share that clients do
/// not see, and are removed at the end. The load slows down a busy server meanwhile.
#[derive(Args, Debug)]
pub struct TuneArgs {
    /// Name of the share, or a path to a directory (with a slash) to be measured with default settings
    share: String,
    /// Configuration file [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// State directory of the server
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Approximate duration
    #[arg(long, value_name = "SECONDS", default_value_t = 55, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Measure for five seconds, with less data
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Round-trip time to the clients in milliseconds, for which socket buffers are computed
    #[arg(long = "rtt", value_name = "MILLISECONDS", default_value_t = 1.0, value_parser = round_trip)]
    round_trip: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn round_trip(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(milliseconds) if (0.001..=10_000.0).contains(&milliseconds) => Ok(milliseconds),
        _ => Err("expected a number from 0.001 to 10000".to_owned()),
    }
}

impl TuneArgs {
    fn extent(&self) -> Extent {
        let seconds = if self.quick { QUICK } else { self.seconds };
        let time = Duration::from_secs(seconds.into());
        match seconds <= QUICK {
            true => Extent { time, bytes: 64 << 20, files: 1_000 },
            false => Extent { time, bytes: 256 << 20, files: 20_000 },
        }
    }

    /// Returns the configuration and the share.
    fn target(&self) -> Result<(Loaded, Arc<Share>)> {
        let host = Host::of_process().context("cannot look up this process's user")?;
        if self.share.contains('/') {
            let path = std::fs::canonicalize(&self.share).with_context(|| format!("cannot measure {}", self.share))?;
            let sources = Sources { shares: &[("share".to_owned(), path)], ..Sources::default() };
            let loaded = smbconf::load_from(&sources, &host).map_err(|problems| anyhow!("{problems}"))?;
            let share = loaded.policy.share("share").context("the directory cannot be shared")?.clone();
            return Ok((loaded, share));
        }
        let path = self.config.clone().or_else(smbconf::default_path).context(
            "neither /etc/frevo/smb.conf nor /etc/samba/smb.conf exists; specify a configuration file with -c, or a \
             directory with a slash",
        )?;
        let sources = Sources { config: Some(&path), added: Added::StateDirectory(None), ..Sources::default() };
        let loaded = smbconf::load_from(&sources, &host).map_err(|problems| anyhow!("{problems}"))?;
        let Some(share) = loaded.policy.share(&self.share).cloned() else {
            bail!("there is no share [{}] in {} that can be served", self.share, path.display());
        };
        check_is_directory(&share)?;
        if share.path_template.is_some() {
            bail!("[{}] has a directory for each session ({}); name a directory", share.name, share.path.display());
        }
        Ok((loaded, share))
    }

    /// Replaces `frevo:acl store = auto` by the policy that was measured before.
    fn calibrated(&self, policy: &mut Policy, daemon: &Daemon) {
        let configured = self.state_dir.clone().or_else(|| daemon.state_directory.clone());
        let state = configured.map_or_else(smbconf::location::default_path, Ok);
        // Without a state directory nothing was measured.
        if let Ok(Some(state)) = state.and_then(|path| StateDir::open(&path)) {
            calibrate::saved::fill_in(policy, &state, &mut |_, _| {});
        }
    }
}

/// Runs the command.
pub fn run(args: &TuneArgs) -> Result<ExitCode> {
    let (Loaded { mut policy, daemon, .. }, share) = args.target()?;
    args.calibrated(&mut policy, &daemon);
    let share = policy.share(&share.name).cloned().unwrap_or(share);
    let begun = Instant::now();
    let work = Work::new(args.extent());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    work::stop_at_signals(&runtime, work.stop())?;
    let measured = runtime.block_on(measure(args, &work, &daemon, &share))?;
    drop(work);
    let advised = advice::advise(&Facts { measured: &measured, policy: &policy, daemon: &daemon, share: &share });
    let result = shown::Result { share: &share, seconds: begun.elapsed().as_secs_f64(), measured, advised };
    let text = if args.json { serde_json::to_string_pretty(&result.json())? + "\n" } else { result.text() };
    crate::check::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &TuneArgs, work: &Work, daemon: &Daemon, share: &Share) -> Result<Measurements> {
    let trial = TrialDirectory::create(&share.path, work.extent.bytes)?;
    let storage = storage::measure(work, &trial, &share.path)?;
    drop(trial);
    // Only root can write the attribute.
    let converts = share.converts() && localfs::identity::may_switch();
    let acl_store = match converts && storage.attributes.posix_acls {
        true => Some(calibrate::quickly(share, ACL_RUNS, &work.stop()).await?),
        false => None,
    };
    Ok(Measurements {
        host: host::read(work)?,
        network: network::measure(work, daemon, args.round_trip / 1000.0)?,
        cryptography: cryptography::measure(work)?,
        storage,
        acl_store,
    })
}
