//! `frevo acl set PATH SDDL`: sets the security descriptor of a file, with the rights of a client that may set every
//! part.
//!
//! Only the parts present in the text are set. `--recursive` propagates inheritable ACEs to everything below ([MS-DTYP]
//! 2.5.3.4): explicit ACEs of the children stay, inherited ones are replaced. A protected file or directory is skipped,
//! together with everything below it. A file with several hard links has the new ACL under all its names, as with
//! setfacl -R; the command reports such files.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use proto::dtyp::{SecurityDescriptor, sddl};
use server::error::Error;
use server::security::admin::{AclAdmin, Item, Look, propagated};
use server::vfs::RelPath;

use super::place::{Counter, Where};
use crate::user::print;

/// Size limit of text read from standard input, in bytes.
const LONGEST: u64 = 1 << 20;

/// Sets the Windows ACL of a file, as root, from SDDL
#[derive(Args, Debug)]
pub(super) struct SetArgs {
    /// Local path of the file or directory
    path: PathBuf,
    /// The parts to set, as in O:BAG:BUD:P(A;OICI;FA;;;BA); - reads them from standard input
    #[arg(allow_hyphen_values = true)]
    sddl: String,
    /// Propagate inheritable entries to everything below
    #[arg(short = 'r', long)]
    recursive: bool,
    /// The share to use if several shares contain the path
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
    let stores = counter.desk.share().acls.stored.is_some();
    if args.recursive && !stores {
        bail!(
            "[{}] stores no security descriptors to propagate; set vfs objects = acl_xattr for it",
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
    std::io::stdin().lock().take(LONGEST).read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}

/// Propagation of inheritable ACEs.
struct Descent<'a> {
    desk: &'a AclAdmin,
    /// The directory that the command was given.
    top: &'a Path,
    bar: ProgressBar,
    changed: u64,
    /// Changed files that have other hard links; counted once for each name below `top`.
    linked: u64,
    same: u64,
    protected: u64,
    failed: u64,
}

impl<'a> Descent<'a> {
    fn new(desk: &'a AclAdmin, top: &'a Path) -> Descent<'a> {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        Descent { desk, top, bar, changed: 0, linked: 0, same: 0, protected: 0, failed: 0 }
    }

    /// Processes everything below `item`. Pending directories are stored as paths because their number is unbounded and
    /// the number of open files is not.
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

    /// Reads the directory's descriptor and the names in it.
    async fn read(&self, directory: &RelPath) -> Result<(Look, Vec<Box<[u8]>>), Error> {
        let item = self.desk.item(directory).await?;
        Ok((self.desk.look(&item).await?, self.desk.names(&item).await?))
    }

    /// Applies inheritance from `parent` to the file at `path`. Returns its path if it is a directory to descend into.
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
            linked => format!(" ({linked} with other hard links, which are changed as well)"),
        };
        format!(
            "{changed} changed{linked}, {same} already up to date, {protected} protected and skipped, {failed} failed\n"
        )
    }
}
