//! `frevo acl convert SHARE`: stores for every file of a share the descriptor that the server makes of its POSIX ACL, while
//! the server serves.
//!
//! What is stored is what the server shows already, under the condition that the POSIX ACL stays as it is: nobody has
//! another right afterwards. It is written in one step to files that have no descriptor, so a client meets the file before
//! it or after it and never in between; one that a client stored stays. By default as much time is spent waiting as working,
//! so that a disk that is slow makes this slow; it runs with the lowest priority. A position in the state directory
//! lets the next run go on where one was interrupted.
//!
//! Exit status: 0 done, 1 interrupted, refused, or some files could not be converted.

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
use server::security::desk::{Conversion, Desk, Item, Outcome};
use server::vfs::{Errno, RelPath};

use self::pace::Pace;
use self::position::Position;
use self::walk::Walk;
use super::place::{Where, desk};
use super::{names, stop_at_signals};
use crate::state_dir::{StateDir, locate};
use crate::user::print;

/// How often the position is written.
const NOTED: Duration = Duration::from_secs(1);

/// Files that could not be converted and are named; the others are counted.
const NAMED: u64 = 20;

/// Stores for all files of a share the access control lists that are made of their POSIX ACLs, while it is served
#[derive(Args, Debug)]
pub(super) struct ConvertArgs {
    /// The share; of the configuration, with vfs objects = acl_xattr
    share: String,
    /// At most so many files a second; 0 is as fast as it goes [default: half of the time]
    #[arg(long, value_name = "FILES/S")]
    rate: Option<f64>,
    /// Only counts what would be done
    #[arg(long)]
    dry_run: bool,
    /// Leaves descriptors alone that do not count any more because the POSIX ACL was changed
    #[arg(long)]
    keep_outdated: bool,
    /// Begins at the beginning, though an earlier run was interrupted
    #[arg(long)]
    from_start: bool,
    /// Prints what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// Runs the command.
pub(super) async fn run(args: ConvertArgs) -> Result<ExitCode> {
    let share = args.place.converting_share(&args.share)?;
    if !args.dry_run && !localfs::identity::may_switch() && !share_is_users(&share) {
        bail!("this takes root: only root writes the attribute; run it with sudo");
    }
    let stop = Arc::new(AtomicBool::new(false));
    tokio::spawn(stop_at_signals(stop.clone()));
    let state = StateDir::create(&locate(args.place.state_dir.as_deref(), args.place.config.as_deref())?)?;
    let position = Position::of(&state, &share);
    let desk = desk(share, names::nobody())?;
    let mut run = Run::new(&desk, &args, position, stop)?;
    run.all().await.context("the share's directory")?;
    run.finish(&args)
}

/// Gives this thread, and all that it starts, the lowest priority, which that of input and output follows.
pub(super) fn step_back() {
    // Without it, it is only more in the way.
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Whether descriptors lie where users may write them.
fn share_is_users(share: &Share) -> bool {
    share.acls.as_ref().is_some_and(|acls| acls.attribute.starts_with("user."))
}

/// What was done, as `--json` prints it.
#[derive(Serialize, Default, Debug)]
struct Summary {
    share: String,
    /// Whether nothing was written.
    dry_run: bool,
    /// Whether all of the share was looked at.
    complete: bool,
    /// Whether an earlier run was continued.
    resumed: bool,
    /// Files and directories that were looked at.
    seen: u64,
    /// Stored, where nothing was.
    stored: u64,
    /// Stored in the place of one that did not count any more.
    replaced: u64,
    /// Had one that counts.
    valid: u64,
    /// Have one that does not count, and keep it.
    kept: u64,
    /// Links and devices.
    passed: u64,
    /// Went away before they were reached.
    vanished: u64,
    /// Could not be converted.
    failed: u64,
    seconds: f64,
}

/// One run over a share.
struct Run<'a> {
    desk: &'a Desk,
    how: Conversion,
    position: Position<'a>,
    walk: Walk,
    pace: Pace,
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    done: Summary,
}

impl<'a> Run<'a> {
    fn new(desk: &'a Desk, args: &ConvertArgs, position: Position<'a>, stop: Arc<AtomicBool>) -> Result<Run<'a>> {
        let begin = if args.from_start || args.dry_run { None } else { position.read()? };
        let done = Summary {
            share: desk.share().name.clone(),
            dry_run: args.dry_run,
            resumed: begin.is_some(),
            ..Summary::default()
        };
        if let Some(path) = &begin {
            eprintln!("frevo: going on at {} (--from-start begins anew)", path.as_path().display());
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

    /// All files, from where the last run was interrupted.
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

    /// One file, and the names in it where it is a directory. Only the share's own directory must be there.
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

    /// Writes where this is. Without it, the next run looks at more files than it must.
    fn note(&mut self, path: &RelPath) {
        if self.how.write
            && let Err(error) = self.position.write(path)
        {
            self.bar.suspend(|| eprintln!("frevo: the position is not kept: {error:#}"));
        }
    }

    /// Says what was done.
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
            eprintln!("frevo: interrupted; the same command goes on from here");
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
        (done.replaced, "in the place of one that did not count any more"),
        (done.valid, "had one already"),
        (done.kept, "keep one that does not count"),
        (
            done.passed,
            "links, devices, and files whose POSIX ACL keeps somebody from writing whom the Windows ACL would let",
        ),
        (done.vanished, "went away meanwhile"),
        (done.failed, "could not be converted"),
    ] {
        if count > 0 {
            text += &format!("{count:>10}  {what}\n");
        }
    }
    text
}

/// A bar on a terminal, whose length is counted beside the work.
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
