//! `frevo acl convert SHARE`: stores for every file of a share the security descriptor synthesized from its POSIX ACL,
//! while the share is being served.
//!
//! The stored descriptor is the one that the server already shows, and it is valid as long as the POSIX ACL does not
//! change. No user's access rights change. The descriptor is written atomically and only to files that have none, so a
//! client sees the file either before or after the conversion. A descriptor stored by a client is kept. By default the
//! command spends as much time waiting as working, so that it slows down on a slow disk. It runs with the lowest
//! priority. A position file in the state directory lets the next run continue an interrupted one.
//!
//! Exit status: 0 if everything was converted; 1 if interrupted, refused, or some files could not be converted.

mod pace;
mod position;
mod walk;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use server::error::Error;
use server::policy::Share;
use server::security::admin::{AclAdmin, Conversion, Item, Outcome};
use server::vfs::{Errno, RelPath};

use self::pace::Pace;
use self::position::Position;
use self::walk::Walk;
use super::place::{Where, desk};
use super::{names, stop_at_signals};
use crate::user::print;
use accounts::state_dir::StateDir;
use smbconf::location::locate;

/// How often the position is saved.
const NOTED: Duration = Duration::from_secs(1);

/// Number of files that could not be converted and are reported by name; further ones are only counted.
const NAMED: u64 = 20;

/// Stores a converted Windows ACL for every file of a share with a POSIX ACL, while the share is being served
#[derive(Args, Debug)]
pub(super) struct ConvertArgs {
    /// Name of the share; it must be configured with vfs objects = acl_xattr
    share: String,
    /// Maximum number of files per second; 0 means unlimited [default: work half of the time]
    #[arg(long, value_name = "FILES/S")]
    rate: Option<f64>,
    /// Only count what would be done
    #[arg(long)]
    dry_run: bool,
    /// Keep stored descriptors that are no longer valid because the POSIX ACL was changed
    #[arg(long)]
    keep_outdated: bool,
    /// Start from the beginning even if an earlier run was interrupted
    #[arg(long)]
    from_start: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// Runs the command.
pub(super) async fn run(args: ConvertArgs) -> Result<ExitCode> {
    let share = args.place.converting_share(&args.share)?;
    if !args.dry_run && !localfs::identity::may_switch() && !share_is_users(&share) {
        bail!("only root can write the attribute; run the command with sudo");
    }
    let stop = Arc::new(AtomicBool::new(false));
    tokio::spawn(stop_at_signals(stop.clone()));
    let state = StateDir::create(&locate(args.place.state_dir.as_deref(), args.place.config.as_deref())?)?;
    let position = Position::of(&state, &share);
    let desk = desk(share, names::no_accounts())?;
    let mut run = Run::new(&desk, &args, position, stop)?;
    run.all().await.context("cannot read the share's directory")?;
    run.finish(&args)
}

/// Gives this thread, and all threads that it starts, the lowest CPU priority; the I/O priority follows it.
pub(super) fn step_back() {
    // If this fails, the command only disturbs other processes more.
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Returns whether descriptors are stored in an attribute that users can write.
fn share_is_users(share: &Share) -> bool {
    share.acls.stored.as_ref().is_some_and(|acls| acls.attribute.starts_with("user."))
}

/// Summary of a run, as printed by `--json`.
#[derive(Serialize, Default, Debug)]
struct Summary {
    share: String,
    /// Whether nothing was written.
    dry_run: bool,
    /// Whether the whole share was processed.
    complete: bool,
    /// Whether an earlier run was continued.
    resumed: bool,
    /// Files and directories processed.
    seen: u64,
    /// Files that had no descriptor and now have one.
    stored: u64,
    /// Files whose invalid descriptor was replaced.
    replaced: u64,
    /// Files that already had a valid descriptor.
    valid: u64,
    /// Files that keep an invalid descriptor.
    kept: u64,
    /// Links and devices.
    passed: u64,
    /// Files removed before they were processed.
    vanished: u64,
    /// Files that could not be converted.
    failed: u64,
    seconds: f64,
}

/// One run over a share.
struct Run<'a> {
    desk: &'a AclAdmin,
    how: Conversion,
    position: Position<'a>,
    walk: Walk,
    pace: Pace,
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    done: Summary,
}

impl<'a> Run<'a> {
    fn new(desk: &'a AclAdmin, args: &ConvertArgs, position: Position<'a>, stop: Arc<AtomicBool>) -> Result<Run<'a>> {
        let begin = if args.from_start || args.dry_run { None } else { position.read()? };
        let done = Summary {
            share: desk.share().name.clone(),
            dry_run: args.dry_run,
            resumed: begin.is_some(),
            ..Summary::default()
        };
        if let Some(path) = &begin {
            eprintln!("frevo: continuing at {} (--from-start starts again)", path.as_path().display());
        }
        Ok(Run {
            desk,
            how: Conversion { replace: !args.keep_outdated, write: !args.dry_run },
            walk: Walk::new(begin.as_ref()),
            position,
            pace: Pace::new(args.rate),
            bar: bar(&desk.share().path),
            stop,
            done,
        })
    }

    /// Processes all files, starting where the last run was interrupted.
    async fn all(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        let mut noted = begun;
        while let Some(path) = self.walk.next() {
            self.pace.begin();
            self.one(&path).await?;
            self.bar.set_position(self.done.seen);
            let rests = self.pace.end(self.done.seen);
            if noted.elapsed() >= NOTED {
                noted = Instant::now();
                self.note(&path);
            }
            if self.stop.load(Ordering::Relaxed) {
                self.note(&path);
                self.done.seconds = begun.elapsed().as_secs_f64();
                return Ok(());
            }
            if !rests.is_zero() {
                tokio::time::sleep(rests).await;
            }
        }
        self.done.complete = true;
        self.done.seconds = begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// Processes one file, and queues the names in it if it is a directory. Only a failure on the share's own directory
    /// is an error.
    async fn one(&mut self, path: &RelPath) -> Result<(), Error> {
        self.done.seen += 1;
        let item = match self.desk.item(path).await {
            Ok(item) => item,
            Err(error) if path.is_root() => return Err(error),
            Err(error) => {
                self.complain(path, &error);
                return Ok(());
            }
        };
        match self.desk.convert(&item, self.how).await {
            Ok(outcome) => self.count(path, outcome),
            Err(error) => self.complain(path, &error),
        }
        if item.is_directory() {
            self.enter(path, &item).await;
        }
        Ok(())
    }

    async fn enter(&mut self, path: &RelPath, item: &Item) {
        match self.desk.names(item).await {
            Ok(names) => self.walk.enter(path.clone(), names),
            Err(error) => self.complain(path, &error),
        }
    }

    fn count(&mut self, path: &RelPath, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Stored => &mut self.done.stored,
            Outcome::Replaced => &mut self.done.replaced,
            Outcome::Valid => &mut self.done.valid,
            Outcome::Kept => &mut self.done.kept,
            Outcome::Passed => &mut self.done.passed,
            Outcome::Changing => {
                let error = Error::from(Errno::BUSY);
                return self.complain(path, &error);
            }
        };
        *counter += 1;
    }

    fn complain(&mut self, path: &RelPath, error: &Error) {
        if *error == Error::from(Errno::NOENT) {
            self.done.vanished += 1;
            return;
        }
        self.done.failed += 1;
        if self.done.failed <= NAMED {
            self.bar.suspend(|| eprintln!("frevo: {}: {error}", path.as_path().display()));
        }
    }

    /// Saves the current position. If this fails, the next run processes more files than necessary.
    fn note(&mut self, path: &RelPath) {
        if self.how.write
            && let Err(error) = self.position.write(path)
        {
            self.bar.suspend(|| eprintln!("frevo: cannot save the position: {error:#}"));
        }
    }

    /// Prints the summary.
    fn finish(self, args: &ConvertArgs) -> Result<ExitCode> {
        self.bar.finish_and_clear();
        if self.done.complete && self.how.write {
            self.position.remove()?;
        }
        match args.json {
            true => print(&(serde_json::to_string_pretty(&self.done)? + "\n"))?,
            false => print(&text(&self.done))?,
        }
        if !self.done.complete {
            eprintln!("frevo: interrupted; run the same command again to continue");
        }
        let good = self.done.complete && self.done.failed == 0;
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn text(done: &Summary) -> String {
    let mut text = format!(
        "{}: {} files and directories in {:.1} s{}\n",
        done.share,
        done.seen,
        done.seconds,
        if done.dry_run { "; nothing was written" } else { "" }
    );
    for (count, what) in [
        (done.stored, if done.dry_run { "would be stored" } else { "stored" }),
        (done.replaced, "replaced one that was no longer valid"),
        (done.valid, "had one already"),
        (done.kept, "keep one that is not valid"),
        (
            done.passed,
            "links, devices, and files whose POSIX ACL denies a user a write that the Windows ACL would allow",
        ),
        (done.vanished, "removed during the run"),
        (done.failed, "could not be converted"),
    ] {
        if count > 0 {
            text += &format!("{count:>10}  {what}\n");
        }
    }
    text
}

/// Creates a progress bar on a terminal. A separate thread counts the files to set its length.
fn bar(root: &Path) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let template = "{bar:30} {pos}/{len} files, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
    let (counted, root) = (bar.clone(), root.to_owned());
    std::thread::spawn(move || walk::count(&root, &mut |count| counted.set_length(count)));
    bar
}
