//! `cargo xtask gluster`: real GlusterFS servers for tests and measurements, as root, on this machine.
//!
//! One glusterd and its bricks run in their own network, mount and process namespaces, which one process holds
//! ([`hold`]). The machine's own GlusterFS stays unchanged, because directories of the servers cover those in `/var`
//! that GlusterFS uses. When that process ends, the kernel ends all processes of the namespaces, and nothing is left of
//! the mounts and loop devices ([`servers`]).

mod bench;
mod budgets;
mod faults;
mod hold;
mod interchange;
mod isolation;
mod limits;
mod load;
mod profile;
mod results;
mod servers;
mod smb;
mod soak;
mod test;
mod torture;
mod users;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use test_environment::{Counts, interrupt};

use servers::Servers;

/// The volumes of the servers, each with three bricks.
const VOLUMES: [Volume; 4] = [
    Volume { name: "dist", replicated: false, samba: false },
    Volume { name: "rep", replicated: true, samba: false },
    Volume { name: "dist-samba", replicated: false, samba: true },
    Volume { name: "rep-samba", replicated: true, samba: true },
];

/// A volume that the servers can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Volume {
    name: &'static str,
    /// Whether each file is on all bricks, instead of on one of them.
    replicated: bool,
    /// Whether it has the options of `group samba`, instead of the defaults.
    samba: bool,
}

impl std::str::FromStr for Volume {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Volume> {
        let names = VOLUMES.map(|volume| volume.name).join(", ");
        VOLUMES
            .into_iter()
            .find(|volume| volume.name == text)
            .with_context(|| format!("unknown volume {text:?}: {names}"))
    }
}

/// The file systems of the bricks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BrickFileSystem {
    /// XFS, which takes extended attributes of 64 KiB
    Xfs,
    /// ext4, which has one block for all extended attributes of a file
    Ext4,
}

/// What to start.
#[derive(Clone, Debug, clap::Args)]
struct Wanted {
    /// Volumes to create
    #[arg(long, value_delimiter = ',', default_value = "dist,rep,dist-samba,rep-samba")]
    volumes: Vec<Volume>,
    /// File system of the bricks
    #[arg(long, default_value = "xfs")]
    bricks_fs: BrickFileSystem,
}

/// Options of `cargo xtask gluster`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Directory of the servers [default: one in /var/tmp whose name is made from that of the checkout]
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Start the servers, which run until `down`
    Up(Wanted),
    /// Stop the servers and remove their directory
    Down,
    /// Run a command in the namespaces of the servers
    Run(Run),
    /// Run the tests that need GlusterFS, on servers that are started for them
    Test(test::Options),
    /// Run Samba's smbtorture against Frevo on each volume, on servers that are started for it
    Torture(torture::Options),
    /// Damage GlusterFS servers that are started for it, and examine what clients of Frevo see
    Faults(faults::Options),
    /// Measure FUSE, libgfapi, Samba and Frevo with small files in each volume, and count the operations of the bricks
    Bench(bench::Options),
    /// Serve clients for a long time, and observe memory, descriptors and logs of Frevo and of the bricks
    Soak(soak::Options),
    /// Measure what a client notices of a brick that does not answer, and of another client's listing
    Isolation(isolation::Options),
    /// Count the operations of the bricks that a command causes
    Ops(profile::Options),
    /// The first process of the namespaces, which starts everything else in them
    #[command(hide = true)]
    Hold(Wanted),
    /// The part of `bench` that runs in the namespaces, for one volume
    #[command(hide = true)]
    Measure(bench::Inside),
    /// The part of `test` in which Samba and Frevo serve one directory of a volume, which runs in the namespaces
    #[command(hide = true)]
    Interchange { volume: Volume },
    /// The part of `test` that counts the operations of the bricks, which runs in the namespaces
    #[command(hide = true)]
    Budgets(budgets::Inside),
    /// The part of `faults` that runs in the namespaces, for one case
    #[command(hide = true)]
    Fault(faults::Inside),
    /// The part of `test` with two users, which runs in the namespaces
    #[command(hide = true)]
    Users { volume: Volume },
    /// The part of `isolation` that runs in the namespaces
    #[command(hide = true)]
    IsolationInside(isolation::Options),
    /// The part of `soak` that runs in the namespaces
    #[command(hide = true)]
    SoakInside(soak::Options),
}

impl Action {
    /// Returns whether it runs in the namespaces, in another process of this program.
    fn is_inside(&self) -> bool {
        use Action::{Budgets, Fault, Hold, Interchange, IsolationInside, Measure, SoakInside, Users};
        matches!(
            self,
            Budgets(_)
                | Fault(_)
                | Hold(_)
                | Interchange { .. }
                | IsolationInside(_)
                | Measure(_)
                | SoakInside(_)
                | Users { .. }
        )
    }
}

/// A command to run in the namespaces.
#[derive(clap::Args)]
struct Run {
    /// The command, with its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Returns the path of this program. A cargo that ran meanwhile may have replaced the file.
fn own_program() -> Result<PathBuf> {
    let path = std::env::current_exe()?;
    let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)"));
    Ok(replaced.map_or_else(|| path.clone(), PathBuf::from))
}

/// Runs the tests that need GlusterFS, on all volumes.
pub(crate) fn test(filter: Option<&str>) -> Result<Counts> {
    crate::setup::run(crate::setup::Set::Gluster)?;
    let wanted = Wanted { volumes: VOLUMES.to_vec(), bricks_fs: BrickFileSystem::Xfs };
    test::run(&test::Options { filter: filter.map(str::to_owned), wanted })
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let dir = match &options.dir {
        Some(dir) => std::path::absolute(dir)?,
        None => default_dir(&crate::root()),
    };
    if !options.action.is_inside() {
        ensure!(rustix::process::geteuid().is_root(), "only root can start GlusterFS servers; run it as root");
        crate::setup(crate::setup::Set::Gluster);
    }
    match &options.action {
        Action::Up(wanted) => up(&dir, wanted),
        Action::Down => {
            servers::end(&dir)?;
            println!("down: {}", dir.display());
            Ok(ExitCode::SUCCESS)
        }
        Action::Run(Run { command }) => {
            let (program, arguments) = command.split_first().context("no command")?;
            let error = running(&dir)?.command(program).args(arguments).exec();
            Err(error).context("cannot start nsenter")
        }
        Action::Test(options) => Ok(crate::end(test::run(options)?)),
        Action::Torture(options) => Ok(crate::end(torture::run(options)?)),
        Action::Faults(options) => Ok(crate::end(faults::run(options)?)),
        Action::Bench(options) => Ok(crate::end(bench::run(options)?)),
        Action::Ops(options) => profile::run(&running(&dir)?, options),
        Action::Hold(wanted) => hold::hold(&dir, wanted).map(|()| ExitCode::SUCCESS),
        Action::Interchange { volume } => interchange::inside(&dir, volume).map(|()| ExitCode::SUCCESS),
        Action::Isolation(options) => isolation::run(options),
        Action::IsolationInside(options) => isolation::inside(&dir, options).map(|()| ExitCode::SUCCESS),
        Action::Soak(options) => Ok(crate::end(soak::run(options)?)),
        Action::SoakInside(options) => soak::inside(&dir, options).map(|()| ExitCode::SUCCESS),
        Action::Users { volume } => users::inside(&dir, volume).map(|()| ExitCode::SUCCESS),
        Action::Budgets(options) => budgets::inside(&dir, options).map(|()| ExitCode::SUCCESS),
        Action::Fault(options) => faults::inside(&dir, options).map(|()| ExitCode::SUCCESS),
        Action::Measure(options) => bench::measure(&dir, options).map(|()| ExitCode::SUCCESS),
    }
}

/// Starts the servers, unless they are running.
fn up(dir: &Path, wanted: &Wanted) -> Result<ExitCode> {
    let (servers, word) = match Servers::find(dir)? {
        Some(servers) => (servers, "up already"),
        None => (Servers::start(dir, wanted)?, "up"),
    };
    println!("{word}: {} (process {}), volumes {}", dir.display(), servers.pid(), servers.volumes().join(","));
    println!("mounts: {}/mnt/VOLUME, visible to `cargo xtask gluster run -- COMMAND`", dir.display());
    Ok(ExitCode::SUCCESS)
}

/// Returns the servers in `dir`, which must be running.
fn running(dir: &Path) -> Result<Servers> {
    interrupt::check()?;
    Servers::find(dir)?.with_context(|| {
        format!("no GlusterFS servers are running in {}; start them with cargo xtask gluster up", dir.display())
    })
}

/// Returns the directory of the servers of a checkout, which is the same for `up` and `down`.
fn default_dir(checkout: &Path) -> PathBuf {
    let name: Vec<_> = checkout.components().skip(1).map(|part| part.as_os_str().to_string_lossy()).collect();
    Path::new("/var/tmp").join(format!("frevo-gluster-{}", name.join("-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_checkout_has_its_own_directory() {
        assert_eq!(default_dir(Path::new("/src/frevo")), Path::new("/var/tmp/frevo-gluster-src-frevo"));
        assert_eq!(default_dir(Path::new("/src/a/b")), Path::new("/var/tmp/frevo-gluster-src-a-b"));
    }

    #[test]
    fn a_volume_is_selected_by_its_name() {
        assert_eq!("rep-samba".parse::<Volume>().unwrap(), VOLUMES[3]);
        let error = "samba".parse::<Volume>().unwrap_err().to_string();
        assert_eq!(error, "unknown volume \"samba\": dist, rep, dist-samba, rep-samba");
    }
}
