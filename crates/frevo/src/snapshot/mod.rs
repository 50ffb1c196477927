//! `frevo snapshot`: creates, lists and removes snapshots of shares on btrfs.
//!
//! The server itself creates none, because it has not the privileges. `frevo-snapshot.timer` executes `frevo snapshot
//! run` every hour. `holder` has the directory of the snapshots and the record of those that this program created,
//! `btrfs` the ioctls. Which are kept is decided by [`Schedule`]. Exit status: 0 done; 1 something failed; 2 wrong
//! usage.

mod btrfs;
mod holder;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use accounts::when;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use server::policy::snapshots::Schedule;
use server::policy::{Share, Storage};
use smbconf::added::Added;
use smbconf::host::Host;
use smbconf::{Loaded, Sources};

use self::holder::{Holder, Source, Taken};
use crate::table::table;

/// Creates, lists and removes snapshots of shares on btrfs, which clients see as previous versions
///
/// A share with `frevo:snapshots = auto` shows them. `frevo:snapshot schedule` says how many are kept. Several shares
/// in one subvolume have the same snapshots. Only snapshots that this command created are ever removed, and never the
/// newest.
#[derive(Args, Debug)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a snapshot now
    Create(Options),
    /// List the snapshots that this command created
    List(Options),
    /// Remove the snapshots that the schedule does not keep
    Prune(Options),
    /// Create a snapshot if the schedule wants one, and remove those that it does not keep
    Run(Options),
}

#[derive(Args, Debug)]
struct Options {
    /// Names of shares [default: all with `frevo:snapshot schedule`]
    shares: Vec<String>,
    /// Configuration file [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is done with a subvolume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Create,
    List,
    Prune,
    Run,
}

/// A subvolume with its shares.
struct Volume {
    source: Source,
    shares: Vec<String>,
    schedule: Schedule,
}

/// What was done with a subvolume, or with a share whose subvolume was not found.
#[derive(Serialize, Default)]
struct Done {
    shares: Vec<String>,
    subvolume: Option<PathBuf>,
    schedule: String,
    created: Option<String>,
    removed: Vec<String>,
    kept: Vec<String>,
    error: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The configuration cannot be read, or a named share does not exist.
pub fn run(args: SnapshotArgs) -> Result<ExitCode> {
    let (task, options) = match args.action {
        Action::Create(options) => (Task::Create, options),
        Action::List(options) => (Task::List, options),
        Action::Prune(options) => (Task::Prune, options),
        Action::Run(options) => (Task::Run, options),
    };
    let loaded = load(&options)?;
    let shares = chosen(&loaded, &options.shares)?;
    let (volumes, mut done) = volumes(&shares);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    let now = i64::try_from(now.as_secs())?;
    for volume in &volumes {
        let mut result = Done {
            shares: volume.shares.clone(),
            subvolume: Some(volume.source.path.clone()),
            schedule: volume.schedule.to_string(),
            ..Done::default()
        };
        if let Err(error) = perform(task, volume, now, options.dry_run, &mut result) {
            result.error = Some(format!("{error:#}"));
        }
        done.push(result);
    }
    show(&done, task, &options)?;
    Ok(if done.iter().any(|done| done.error.is_some()) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn load(options: &Options) -> Result<Loaded> {
    let host = Host::of_process().context("cannot look up this process's user")?;
    let path =
        options.config.clone().or_else(smbconf::default_path).context(
            "neither /etc/frevo/smb.conf nor /etc/samba/smb.conf exists; specify a configuration file with -c",
        )?;
    let sources = Sources { config: Some(&path), added: Added::StateDirectory(None), ..Sources::default() };
    smbconf::load_from(&sources, &host).map_err(|problems| anyhow!("{problems}"))
}

/// Returns the shares that were named, or those with a schedule.
fn chosen<'a>(loaded: &'a Loaded, names: &[String]) -> Result<Vec<&'a Share>> {
    if names.is_empty() {
        let all = loaded.policy.shares.values().map(|share| &**share);
        return Ok(all.filter(|share| !share.snapshot_schedule.is_empty()).collect());
    }
    let find = |name: &String| {
        loaded.policy.share(name).map(|share| &**share).with_context(|| format!("there is no share [{name}]"))
    };
    names.iter().map(find).collect()
}

/// Returns the subvolumes of shares, and the shares for which there is none.
fn volumes(shares: &[&Share]) -> (Vec<Volume>, Vec<Done>) {
    let (mut volumes, mut failed) = (Vec::<Volume>::new(), Vec::new());
    for share in shares {
        match source(share) {
            Ok(source) => match volumes.iter_mut().find(|volume| volume.source.uuid == source.uuid) {
                Some(volume) => {
                    volume.shares.push(share.name.clone());
                    volume.schedule = volume.schedule.or(share.snapshot_schedule);
                }
                None => {
                    let schedule = share.snapshot_schedule;
                    volumes.push(Volume { source, shares: vec![share.name.clone()], schedule });
                }
            },
            Err(error) => {
                let (shares, error) = (vec![share.name.clone()], Some(format!("{error:#}")));
                failed.push(Done { shares, error, schedule: share.snapshot_schedule.to_string(), ..Done::default() });
            }
        }
    }
    (volumes, failed)
}

fn source(share: &Share) -> Result<Source> {
    if share.storage != Storage::Directory {
        bail!("the share is not a directory of this host");
    }
    if share.path_template.is_some() {
        bail!("the share has a directory for each session; set a schedule in a share of the directory above them");
    }
    Source::of(&share.path)
}

fn perform(task: Task, volume: &Volume, now: i64, dry_run: bool, done: &mut Done) -> Result<()> {
    let creates = matches!(task, Task::Create | Task::Run);
    let Some(holder) = volume.source.holder(creates && !dry_run)? else {
        if creates && (task == Task::Create || volume.schedule.is_due(&[], now, when::utc_offset)) {
            done.created = Some("(a snapshot)".to_owned());
        }
        return Ok(());
    };
    if task == Task::List {
        done.kept = holder.taken()?.into_iter().map(|taken| taken.name).collect();
        return Ok(());
    }
    let lock = holder.lock()?;
    let mut taken = holder.taken()?;
    check_clock(&taken, &holder, now)?;
    let moments = |taken: &[Taken]| taken.iter().map(|taken| taken.moment).collect::<Vec<_>>();
    if task == Task::Create || task == Task::Run && volume.schedule.is_due(&moments(&taken), now, when::utc_offset) {
        match dry_run {
            true => done.created = Some("(a snapshot)".to_owned()),
            false => {
                let new = lock.create(now)?;
                done.created = Some(new.name.clone());
                taken.push(new);
            }
        }
    }
    let kept = match task {
        Task::Create => moments(&taken).into_iter().collect(),
        _ if dry_run && done.created.is_some() => {
            let mut with_new = moments(&taken);
            with_new.push(now);
            volume.schedule.kept(&with_new, when::utc_offset)
        }
        _ => volume.schedule.kept(&moments(&taken), when::utc_offset),
    };
    for taken in taken {
        if kept.contains(&taken.moment) {
            done.kept.push(taken.name);
            continue;
        }
        if !dry_run {
            lock.remove(&taken)?;
        }
        done.removed.push(taken.name);
    }
    if dry_run { Ok(()) } else { lock.tidy() }
}

/// With a clock that was set back, the newest snapshots would look like the oldest.
fn check_clock(taken: &[Taken], holder: &Holder<'_>, now: i64) -> Result<()> {
    match taken.iter().max() {
        Some(newest) if newest.moment > now => bail!(
            "{} is newer than the present time, so the clock was set back; set the clock, or remove that snapshot with \
             `btrfs subvolume delete`",
            holder.path.join(&newest.name).display()
        ),
        _ => Ok(()),
    }
}

fn show(done: &[Done], task: Task, options: &Options) -> Result<()> {
    if options.json {
        println!("{}", serde_json::to_string_pretty(done)?);
        return Ok(());
    }
    if done.is_empty() {
        println!("no share has `frevo:snapshot schedule`");
    }
    let would = if options.dry_run { "would be " } else { "" };
    let mut rows = Vec::new();
    for done in done {
        let shares = done.shares.join(", ");
        if let Some(error) = &done.error {
            eprintln!("frevo: [{shares}]: {error}");
        }
        let at = done.subvolume.clone().unwrap_or_default();
        let mut row = |name: &String, what: String| {
            rows.push(vec![shares.clone(), at.join(".snapshots").join(name).display().to_string(), what]);
        };
        done.created.iter().for_each(|name| row(name, format!("{would}created")));
        done.removed.iter().for_each(|name| row(name, format!("{would}removed")));
        if task == Task::List {
            done.kept.iter().for_each(|name| row(name, String::new()));
        }
    }
    if !rows.is_empty() {
        print!("{}", table(&["shares", "snapshot", ""], &rows));
    }
    Ok(())
}
