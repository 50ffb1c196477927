//! `frevo acl set PATH SDDL`: sets the descriptor of a file as a client who may set everything.
//!
//! The parts that the text has are set, the others stay. `--recursive` hands on what is inheritable to all beneath ([MS-DTYP]
//! 2.5.3.4): their own entries stay, inherited ones are replaced, and what is protected stays as it is with all beneath it.
//! A file that has other names as well has the new list under all of them, as with setfacl -R: that is said.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use proto::dtyp::{SecurityDescriptor, sddl};
use server::error::Error;
use server::security::desk::{Desk, Item, Look, propagated};
use server::vfs::RelPath;

use super::place::{Counter, Where};
use crate::user::print;

/// The longest text that is read from the standard input, bytes.
const LONGEST: u64 = 1 << 20;

/// Sets the access control list of a file, as root, in SDDL
#[derive(Args, Debug)]
pub(super) struct SetArgs {
    /// The file or directory, by its path on this machine
    path: PathBuf,
    /// The parts to set, as in O:BAG:BUD:P(A;OICI;FA;;;BA); - reads them from the standard input
    #[arg(allow_hyphen_values = true)]
    sddl: String,
    /// Hands on to all beneath what they inherit
    #[arg(short = 'r', long)]
    recursive: bool,
    /// The share to set it through, where several have the path
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// Runs the command.
pub(super) async fn run(args: SetArgs) -> Result<ExitCode> {
    let (counter, path) = Counter::of(&args.place, &args.path, args.share.as_deref())?;
    let text = if args.sddl == "-" { from_input()? } else { args.sddl.clone() };
    let given = sddl::decode(text.trim(), &counter.domains).map_err(|error| anyhow!("SDDL: {error}"))?;
    let stores = counter.desk.share().acls.is_some();
    if args.recursive && !stores {
        bail!(
            "[{}] stores no descriptors, so nothing is handed on: it has no vfs objects = acl_xattr",
            counter.desk.share().name
        );
    }
    let failed = |error: Error| anyhow!("{}: {error}", args.path.display());
    let item = counter.desk.item(&path).await.map_err(failed)?;
    counter.desk.set(&item, &given).await.map_err(failed)?;
    if !args.recursive {
        return Ok(ExitCode::SUCCESS);
    }
    let mut descent = Descent::new(&counter.desk, &args.path);
    descent.run(item).await.map_err(failed)?;
    print(&descent.text())?;
    Ok(if descent.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn from_input() -> Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().take(LONGEST).read_to_string(&mut text).context("standard input")?;
    Ok(text)
}

/// Handing on what is inherited.
struct Descent<'a> {
    desk: &'a Desk,
    /// The directory it begins at, as it was named.
    top: &'a Path,
    bar: ProgressBar,
    changed: u64,
    /// Those of them that have other names as well, each counted under each name that lies beneath.
    linked: u64,
    same: u64,
    protected: u64,
    failed: u64,
}

impl<'a> Descent<'a> {
    fn new(desk: &'a Desk, top: &'a Path) -> Descent<'a> {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        Descent { desk, top, bar, changed: 0, linked: 0, same: 0, protected: 0, failed: 0 }
    }

    /// All beneath `item`. What waits is held by its path, for there is no bound on it, and on open files there is one.
    async fn run(&mut self, item: Item) -> Result<(), Error> {
        if !item.is_directory() {
            return Ok(());
        }
        let start = item.path;
        let mut waiting = vec![start.clone()];
        while let Some(directory) = waiting.pop() {
            let (look, names) = match self.read(&directory).await {
                Ok(read) => read,
                Err(error) if directory == start => return Err(error),
                Err(error) => {
                    self.complain(&directory, &error);
                    continue;
                }
            };
            for name in names {
                let Some(path) = directory.join(&name) else { continue };
                match self.hand_on(&look.descriptor, &path).await {
                    Ok(next) => waiting.extend(next),
                    Err(error) => self.complain(&path, &error),
                }
                self.bar.set_position(self.changed + self.same + self.protected);
                self.bar.set_message(format!("{} files and directories", self.bar.position()));
            }
        }
        self.bar.finish_and_clear();
        Ok(())
    }

    /// What the directory hands on, and the names in it.
    async fn read(&self, directory: &RelPath) -> Result<(Look, Vec<Box<[u8]>>), Error> {
        let item = self.desk.item(directory).await?;
        Ok((self.desk.look(&item).await?, self.desk.names(&item).await?))
    }

    /// Gives the file at `path` what comes down from `parent`; its path where it goes on beneath it.
    async fn hand_on(&mut self, parent: &SecurityDescriptor, path: &RelPath) -> Result<Option<RelPath>, Error> {
        let item = self.desk.item(path).await?;
        if !item.keeps_descriptor() {
            return Ok(None);
        }
        let present = self.desk.look(&item).await?.descriptor;
        let Some(new) = propagated(parent, &present, item.is_directory()) else {
            self.protected += 1;
            return Ok(None);
        };
        if new.dacl == present.dacl {
            self.same += 1;
        } else {
            self.desk.set(&item, &new).await?;
            self.changed += 1;
            self.linked += u64::from(!item.is_directory() && item.metadata.links > 1);
        }
        Ok(item.is_directory().then_some(item.path))
    }

    fn complain(&mut self, path: &RelPath, error: &Error) {
        self.failed += 1;
        let path = path.as_path();
        self.bar.suspend(|| eprintln!("frevo: {} (of {}): {error}", path.display(), self.top.display()));
    }

    fn text(&self) -> String {
        let Descent { changed, linked, same, protected, failed, .. } = self;
        let linked = match linked {
            0 => String::new(),
            linked => format!(" ({linked} with other names, perhaps elsewhere, which have it, too)"),
        };
        format!(
            "{changed} changed{linked}, {same} had it already, {protected} protected and left alone, {failed} failed\n"
        )
    }
}
