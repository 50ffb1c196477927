//! `frevo snapshot`: creates, lists and removes snapshots of shares on btrfs and on thin volumes of LVM.
//!
//! The server itself creates none, because it has not the privileges. `frevo-snapshot.timer` executes `frevo snapshot
//! run` every hour and at boot. `source` finds the subvolume or thin volume of a share, `holder` has the directory of
//! the snapshots, `record` the list of those that this program created on btrfs, `btrfs` the ioctls. `thin` does the
//! same on LVM, with its programs (`lvm`) and with mounts (`mounts`). Which are kept is decided by [`Schedule`]. Exit
//! status: 0 done; 1 something failed; 2 wrong usage.

mod btrfs;
mod holder;
mod lvm;
mod mounts;
mod record;
mod source;
mod thin;

use std::collections::BTreeSet;
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
use smbconf::{Code, Loaded, Problem, Severity, Sources};

use self::holder::{Holder, Lock, Recorded};
use self::record::Taken;
use self::source::{Kind, Source};
use crate::table::table;

/// Creates, lists and removes snapshots of shares on btrfs and thin volumes, which clients see as previous versions
///
/// A share with `frevo:snapshots = auto` shows them. `frevo:snapshot schedule` says how many are kept. Several shares
/// in one subvolume or thin volume of LVM have the same snapshots, and what any of them wants to keep is kept. Only
/// snapshots that this command created are ever removed, and never the newest. None is removed while `frevo check`
/// fails for the configuration, the configuration includes files that are missing or depend on the session, or the
/// volume of a share with a schedule is not found.
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
    /// Mount snapshots of thin volumes after a boot, create one if the schedule wants it, and remove those that it does
    /// not keep
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

/// What is done with a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Create,
    List,
    /// Only mount the snapshots that are not mounted.
    Mount,
    Prune,
    Run,
}

impl Task {
    fn creates(self) -> bool {
        matches!(self, Task::Create | Task::Run)
    }

    fn removes(self) -> bool {
        matches!(self, Task::Prune | Task::Run)
    }
}

/// A subvolume or thin volume with its shares.
struct Volume<'a> {
    source: Source,
    shares: Vec<&'a Share>,
    /// What the schedules of all shares in it keep.
    schedule: Schedule,
}

/// Shares whose schedules or volumes are not known, with the reason.
type Unknown = Vec<(String, String)>;

/// What was done with a volume, or with a share whose volume was not found.
#[derive(Serialize, Default)]
struct Done {
    shares: Vec<String>,
    /// The root of the subvolume, or of the file system on a thin volume.
    subvolume: Option<PathBuf>,
    /// The name of a thin volume, after that of its group.
    logical_volume: Option<String>,
    schedule: String,
    /// Snapshots that existed and were mounted.
    mounted: Vec<String>,
    /// Those that are not mounted.
    unmounted: Vec<String>,
    created: Option<String>,
    removed: Vec<String>,
    kept: Vec<String>,
    warnings: Vec<String>,
    errors: Vec<String>,
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
    let named = named(&loaded, &options.shares)?;
    let is_chosen = |name: &str| named.is_empty() || named.iter().any(|share| share.name == name);
    let (volumes, unknown) = volumes(&loaded, &named);
    let doubt = doubt(&loaded);
    let mut done = Vec::new();
    // Whatever was named, a share that is not known may be one of the same volume, so nothing can be removed.
    for (share, why) in unknown.iter().filter(|(share, _)| task.removes() || is_chosen(share)) {
        done.push(Done { shares: vec![share.clone()], errors: vec![why.clone()], ..Done::default() });
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    let now = i64::try_from(now.as_secs())?;
    let chosen = volumes.iter().filter(|volume| volume.shares.iter().any(|share| is_chosen(&share.name)));
    let mut all: Vec<(Task, &Volume<'_>)> = chosen.map(|volume| (task, volume)).collect();
    let others = if task == Task::Run && named.is_empty() { unscheduled(&loaded, &volumes) } else { Vec::new() };
    all.extend(others.iter().map(|volume| (Task::Mount, volume)));
    for (task, volume) in all {
        let mut result = Done {
            shares: volume.shares.iter().map(|share| share.name.clone()).collect(),
            subvolume: Some(volume.source.path.clone()),
            logical_volume: volume.source.logical_volume().map(str::to_owned),
            schedule: volume.schedule.to_string(),
            ..Done::default()
        };
        let work = Work { task, volume, now, dry_run: options.dry_run, unknown: &unknown, doubt: doubt.as_deref() };
        if let Err(error) = work.perform(&mut result) {
            result.errors.push(format!("{error:#}"));
        }
        if task != Task::Mount || !result.mounted.is_empty() || !result.errors.is_empty() {
            done.push(result);
        }
    }
    show(&done, task, &options)?;
    Ok(if done.iter().all(|done| done.errors.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

/// Returns the shares that were named.
fn named<'a>(loaded: &'a Loaded, names: &[String]) -> Result<Vec<&'a Share>> {
    let find = |name: &String| {
        loaded.policy.share(name).map(|share| &**share).with_context(|| format!("there is no share [{name}]"))
    };
    names.iter().map(find).collect()
}

/// Returns the volumes of all shares with a schedule and of those that were named, and the shares that may belong to
/// any of them.
fn volumes<'a>(loaded: &'a Loaded, named: &[&'a Share]) -> (Vec<Volume<'a>>, Unknown) {
    let faulty: BTreeSet<&str> = loaded.warnings.faulty_shares().collect();
    let why = "the share has an error in the configuration; run `frevo check`";
    let mut unknown: Unknown = faulty.iter().map(|share| ((*share).to_owned(), why.to_owned())).collect();
    let mut volumes = Vec::<Volume<'_>>::new();
    for share in loaded.policy.shares.values().map(|share| &**share) {
        let is_named = named.iter().any(|named| named.name == share.name);
        let is_elsewhere = share.path.as_os_str().is_empty() && !share.dfs.proxy.is_empty();
        let is_scheduled = !share.snapshot_schedule.is_empty() && share.printing.is_none() && !is_elsewhere;
        if faulty.contains(&*share.name) || !is_scheduled && !is_named {
            continue;
        }
        match source(share) {
            Ok(source) => match volumes.iter_mut().find(|volume| volume.source.id == source.id) {
                Some(volume) => {
                    volume.shares.push(share);
                    volume.schedule = volume.schedule.or(share.snapshot_schedule);
                }
                None => volumes.push(Volume { source, shares: vec![share], schedule: share.snapshot_schedule }),
            },
            Err(error) => unknown.push((share.name.clone(), format!("{error:#}"))),
        }
    }
    (volumes, unknown)
}

/// Returns the thin volumes of the other shares, which may have snapshots that `frevo snapshot create` made. What is
/// wrong with such a share does not matter, because nothing is created or removed for it.
fn unscheduled<'a>(loaded: &'a Loaded, known: &[Volume<'_>]) -> Vec<Volume<'a>> {
    let mut found = Vec::<Volume<'_>>::new();
    for share in loaded.policy.shares.values().map(|share| &**share) {
        let Ok(source) = source(share) else { continue };
        let is_other = known.iter().all(|volume| volume.source.id != source.id);
        match found.iter_mut().find(|volume| volume.source.id == source.id) {
            Some(volume) => volume.shares.push(share),
            None if is_other && matches!(source.kind, Kind::Thin(_)) => {
                found.push(Volume { source, shares: vec![share], schedule: Schedule::default() });
            }
            None => {}
        }
    }
    found
}

/// Returns why shares or schedules may be missing from the configuration as it was read. Then snapshots that they need
/// could be removed.
fn doubt(loaded: &Loaded) -> Option<String> {
    if loaded.policy.sessions.is_some() {
        let why =
            "the configuration includes files that depend on the session, whose shares and schedules are not known";
        return Some(format!("{why}; include files with fixed names instead"));
    }
    let problem = loaded.warnings.0.iter().find(|problem| problem.fails_check() || is_unread(problem))?;
    let place = problem.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    Some(format!(
        "the configuration has a problem; run `frevo check` and correct it: {place}{}",
        problem.full_message()
    ))
}

/// Returns whether the problem is that shares were not read.
fn is_unread(problem: &Problem) -> bool {
    let asks_for_shares = ["include", "registry shares", "config backend"];
    let is_of_shares = match problem.code {
        Code::IncludeMissing | Code::Unreadable | Code::DuplicateShare => true,
        Code::NotServed => asks_for_shares.iter().any(|name| name.eq_ignore_ascii_case(&problem.subject)),
        _ => false,
    };
    is_of_shares && problem.severity != Severity::Note
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

/// What is to be done with a volume.
struct Work<'a> {
    task: Task,
    volume: &'a Volume<'a>,
    now: i64,
    dry_run: bool,
    unknown: &'a Unknown,
    /// Why any share or schedule may be missing.
    doubt: Option<&'a str>,
}

impl Work<'_> {
    fn perform(&self, done: &mut Done) -> Result<()> {
        let Work { task, volume, now, dry_run, .. } = *self;
        let Some(holder) = volume.source.holder(task.creates() && !dry_run)? else {
            if self.wants_new(&[]) {
                self.warn(done);
                volume.source.check()?;
                done.created = Some("(a snapshot)".to_owned());
            }
            return Ok(());
        };
        let lock = if task == Task::List || dry_run { None } else { Some(holder.lock()?) };
        let Recorded { mut taken, former, writable, unexamined, unmounted } = holder.recorded()?;
        self.mount(unmounted, lock.as_ref(), done);
        if task == Task::Mount {
            return Ok(());
        }
        // One that was made writable is not trusted, but is of its period.
        let of_this = writable.iter().filter(|entry| entry.of == volume.source.id);
        let existing: Vec<&Taken> = taken.iter().chain(of_this).collect();
        let newest = existing.iter().max().map(|newest| (*newest).clone());
        let moments: Vec<i64> = existing.into_iter().map(|entry| entry.moment).collect();
        for entry in &writable {
            done.errors.push(format!(
                "{} is no longer read-only, so somebody may have changed it; it is not removed. {} makes it \
                 read-only, {} removes it",
                holder.path.join(&entry.name).display(),
                volume.source.protection(),
                volume.source.removal()
            ));
        }
        for (_, why) in &unexamined {
            done.errors.push(format!("{why}; it is not removed"));
        }
        let unexamined = unexamined.into_iter().map(|(entry, _)| entry);
        done.kept.extend(former.into_iter().chain(writable).chain(unexamined).map(|entry| entry.name));
        if task == Task::List {
            done.kept.extend(taken.into_iter().map(|taken| taken.name));
            return Ok(());
        }
        if let Some(newest) = newest {
            check_clock(&newest, &holder, now)?;
        }
        let is_new = self.wants_new(&moments);
        let mut moments: Vec<i64> = taken.iter().map(|taken| taken.moment).collect();
        if is_new {
            self.warn(done);
            let created = match &lock {
                Some(lock) => lock.create(now).map(Some),
                None => volume.source.check().map(|()| None),
            };
            match created {
                Ok(None) => {
                    moments.push(now);
                    done.created = Some("(a snapshot)".to_owned());
                }
                Ok(Some(new)) => {
                    moments.push(now);
                    done.created = Some(new.name.clone());
                    taken.push(new);
                }
                // Without space, removal of the others is all the more necessary.
                Err(error) => done.errors.push(format!("{error:#}")),
            }
        }
        let kept = match task {
            Task::Create => moments.into_iter().collect(),
            _ => volume.schedule.kept(&moments, when::utc_offset),
        };
        let (kept, superfluous): (Vec<_>, Vec<_>) = taken.into_iter().partition(|taken| kept.contains(&taken.moment));
        done.kept.extend(kept.into_iter().map(|taken| taken.name));
        self.remove(superfluous, lock.as_ref(), done);
        match &lock {
            Some(lock) => lock.tidy(),
            None => Ok(()),
        }
    }

    /// Mounts snapshots of a thin volume that were mounted before the host was started again.
    fn mount(&self, unmounted: Vec<Taken>, lock: Option<&Lock<'_>>, done: &mut Done) {
        let is_wanted = self.task.creates() || self.task == Task::Mount;
        let Some(lock) = lock.filter(|_| is_wanted) else {
            let list = if is_wanted { &mut done.mounted } else { &mut done.unmounted };
            list.extend(unmounted.into_iter().map(|taken| taken.name));
            return;
        };
        match lock.mount(&unmounted) {
            Err(error) => done.errors.push(format!("{error:#}")),
            Ok(all) => {
                for (taken, result) in all {
                    match result {
                        Ok(()) => done.mounted.push(taken.name),
                        Err(error) => {
                            done.errors.push(format!("{error:#}"));
                            done.unmounted.push(taken.name);
                        }
                    }
                }
            }
        }
    }

    fn wants_new(&self, moments: &[i64]) -> bool {
        match self.task {
            Task::Create => true,
            Task::Run => self.volume.schedule.is_due(moments, self.now, when::utc_offset),
            Task::Prune | Task::List | Task::Mount => false,
        }
    }

    /// btrfs lets the owner of a subvolume's root, which a snapshot of it has too, make the snapshot writable.
    fn warn(&self, done: &mut Done) {
        let source = &self.volume.source;
        if matches!(source.kind, Kind::Subvolume { is_of_root: false, .. }) {
            done.warnings.push(format!(
                "{0} does not belong to root, so its owner can change snapshots of it (`btrfs property set`); run \
                 `chown root {0}` and give rights by the group or an ACL",
                source.path.display()
            ));
        }
    }

    /// Returns why nothing can be removed.
    fn hindrance(&self) -> Option<String> {
        let shares: Vec<&str> = self.unknown.iter().map(|(share, _)| &**share).collect();
        let unknown = (!shares.is_empty()).then(|| {
            format!(
                "these shares may need the snapshots: {}; correct them, or remove their `frevo:snapshot schedule`",
                shares.join(", ")
            )
        });
        let all: Vec<String> = unknown.into_iter().chain(self.doubt.map(str::to_owned)).collect();
        (!all.is_empty()).then(|| all.join("; also, "))
    }

    /// Removes what the schedule does not keep. One that cannot be removed does not prevent removal of the others.
    fn remove(&self, superfluous: Vec<Taken>, lock: Option<&Lock<'_>>, done: &mut Done) {
        if let Some(why) = self.hindrance().filter(|_| !superfluous.is_empty()) {
            done.errors.push(format!("nothing was removed, because {why}"));
            done.kept.extend(superfluous.into_iter().map(|taken| taken.name));
            return;
        }
        for taken in superfluous {
            match lock.map_or(Ok(()), |lock| lock.remove(&taken)) {
                Ok(()) => done.removed.push(taken.name),
                Err(error) => {
                    done.errors.push(format!("{error:#}"));
                    done.kept.push(taken.name);
                }
            }
        }
    }
}

/// With a clock that was set back, the newest snapshots would look like the oldest.
fn check_clock(newest: &Taken, holder: &Holder<'_>, now: i64) -> Result<()> {
    if newest.moment > now {
        bail!(
            "{} is newer than the present time, so the clock was set back; set the clock, or remove that snapshot \
             with {}",
            holder.path.join(&newest.name).display(),
            holder.source.removal()
        );
    }
    Ok(())
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
        for warning in &done.warnings {
            eprintln!("frevo: [{shares}]: warning: {warning}");
        }
        for error in &done.errors {
            eprintln!("frevo: [{shares}]: {error}");
        }
        let at = done.subvolume.clone().unwrap_or_default();
        let mut row = |name: &String, what: String| {
            rows.push(vec![shares.clone(), at.join(".snapshots").join(name).display().to_string(), what]);
        };
        done.mounted.iter().for_each(|name| row(name, format!("{would}mounted")));
        done.created.iter().for_each(|name| row(name, format!("{would}created")));
        done.removed.iter().for_each(|name| row(name, format!("{would}removed")));
        if task == Task::List {
            let state = |name| if done.unmounted.contains(name) { "not mounted" } else { "" };
            done.kept.iter().for_each(|name| row(name, state(name).to_owned()));
        }
    }
    if !rows.is_empty() {
        print!("{}", table(&["shares", "snapshot", ""], &rows));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(shares: &str) -> Loaded {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("smb.conf");
        let state = dir.path().display();
        let text = format!("[global]\nstate directory = {state}\n{}", shares.replace("@DIR@", &state.to_string()));
        std::fs::write(&path, text).expect("there is space");
        let host = Host::of_process().expect("the user is known");
        smbconf::load(&path, &host).expect("the server starts with it")
    }

    #[test]
    fn nothing_is_removed_while_a_schedule_may_be_missing() {
        assert_eq!(doubt(&loaded("[one]\npath = @DIR@\nfrevo:snapshot schedule = yearly 9\n")), None);
        for (text, word) in [
            ("[one]\npath = @DIR@\nfrevo:snapshot schedul = yearly 9\n", "schedul = yearly 9"),
            ("[one]\npath = @DIR@\nfrevo:snapshot schedule = yerly 9\n", "yerly"),
            ("[one]\npath = @DIR@\nyearly 9\n", "yearly 9"),
            ("include = @DIR@/none.conf\n[one]\npath = @DIR@\n", "none.conf"),
            ("include = @DIR@/%m.conf\n[one]\npath = @DIR@\n", "session"),
            ("include = @DIR@/%a.conf\n[one]\npath = @DIR@\n", "%a.conf"),
        ] {
            let why = doubt(&loaded(text));
            assert!(why.as_ref().is_some_and(|why| why.contains(word)), "{text}: {why:?}");
        }
    }

    #[test]
    fn a_share_without_a_directory_has_no_subvolume() {
        let loaded = loaded("frevo:snapshot schedule = daily 1\n[far]\nmsdfs root = yes\nmsdfs proxy = \\\\a\\b\n");
        let far = loaded.policy.share("far").expect("it is a share");
        assert!(!far.snapshot_schedule.is_empty() && far.path.as_os_str().is_empty());
        let (found, unknown) = volumes(&loaded, &[]);
        assert!(found.is_empty() && unknown.is_empty(), "{unknown:?}");
        let (found, unknown) = volumes(&loaded, &[far]);
        assert!(found.is_empty() && unknown.iter().any(|(_, why)| why.contains("no directory")), "{unknown:?}");
    }
}
