//! `cargo xtask package`: the Debian package, the rpm package and the container image.

mod deb;
mod oci;
mod program;
mod rpm;
pub(crate) mod service;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use self::program::Program;

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// deb, rpm or oci [default: all three]
    kind: Option<Kind>,
    /// Directory for the packages
    #[arg(long, default_value = "target/packages")]
    out: PathBuf,
    /// Test the unit and the Debian package instead, as root: in a fresh root, with lintian, systemd-analyze, smbclient
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Deb,
    Rpm,
    Oci,
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Kind> {
        match text {
            "deb" => Ok(Kind::Deb),
            "rpm" => Ok(Kind::Rpm),
            "oci" => Ok(Kind::Oci),
            other => bail!("unknown kind of package {other:?}; use deb, rpm or oci"),
        }
    }
}

/// Builds the packages, and prints the path and size of each.
pub(crate) fn run(options: &Options) -> Result<()> {
    let out = crate::root().join(&options.out);
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let work = Work::new()?;
    let program = Program::prepare(work.path())?;
    for kind in [Kind::Deb, Kind::Rpm, Kind::Oci] {
        if options.kind.is_some_and(|wanted| wanted != kind) {
            continue;
        }
        let made = match kind {
            Kind::Deb => deb::build(&program, &work, &out)?,
            Kind::Rpm => rpm::build(&program, &work, &out)?,
            Kind::Oci => vec![oci::build(&program, &work, &out)?],
        };
        for path in made {
            println!("{:>6.1} MB  {}", fs::metadata(&path)?.len() as f64 / 1e6, path.display());
        }
    }
    Ok(())
}

/// A temporary directory in which packages are assembled.
struct Work(tempfile::TempDir);

impl Work {
    fn new() -> Result<Work> {
        Ok(Work(tempfile::Builder::new().prefix("frevo-package-").tempdir().context("cannot create a directory")?))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The files of a package, below a directory.
struct Tree(PathBuf);

impl Tree {
    fn new(root: PathBuf) -> Result<Tree> {
        fs::create_dir_all(&root)?;
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
        Ok(Tree(root))
    }

    fn directory(&self, path: &str, mode: u32) -> Result<()> {
        let mut at = self.0.clone();
        for part in Path::new(path).components() {
            at.push(part);
            if !at.exists() {
                fs::create_dir(&at)?;
                fs::set_permissions(&at, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(fs::set_permissions(&at, fs::Permissions::from_mode(mode))?)
    }

    fn write(&self, path: &str, mode: u32, content: impl AsRef<[u8]>) -> Result<()> {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent, 0o755)?;
        }
        let target = self.0.join(path);
        fs::write(&target, content).with_context(|| format!("cannot write {}", target.display()))?;
        Ok(fs::set_permissions(&target, fs::Permissions::from_mode(mode))?)
    }

    fn copy(&self, path: &str, mode: u32, from: &Path) -> Result<()> {
        self.write(path, mode, fs::read(from).with_context(|| format!("cannot read {}", from.display()))?)
    }

    /// Writes a file compressed by gzip, without a name and a time.
    fn write_compressed(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        self.write(path, 0o644, content)?;
        succeed(Command::new("gzip").args(["-9", "-n"]).arg(self.0.join(path)))
    }
}

/// Returns a file of the repository.
fn source(path: &str) -> PathBuf {
    crate::root().join(path)
}

/// Returns the time of all files in the packages: `SOURCE_DATE_EPOCH`, else the time of the last commit.
fn epoch() -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    Ok(output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(crate::root()))?.trim().to_owned())
}

/// Runs a program that must succeed.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

/// Returns the standard output of a program that must succeed.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{command:?} failed ({}): {said}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
