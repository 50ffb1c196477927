//! The test bed: a directory, three people, free ports, and a server (Frevo or Samba) started on them.
//!
//! Everything lies in one temporary directory and listens on 127.0.0.1 only. The accounts of the machine are not touched:
//! the server sees its people through files laid over `/etc` in a mount namespace of its own ([`people`]).
//! What a bed starts it stops, by process id, also when a test fails or the run is interrupted ([`interrupt`]).

mod backend;
mod crowd;
mod domain;
mod doors;
pub mod interrupt;
mod kdc;
pub mod people;
pub mod probe;
mod server;
pub mod slapd;
mod template;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use backend::Backend;
pub use crowd::Crowd;
pub(crate) use domain::{ADMINISTRATOR, DORA, Domain, EMIL, FAYE, MEMBER};
pub(crate) use doors::Doors;
pub use kdc::{Kdc, REALM};
pub use people::{ALICE, BOB, CAROL, CREW, People, Person};
pub(crate) use server::free_port;
pub use server::{Health, OtherBuild, Server, frevo};
pub use slapd::Slapd;

/// Which program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `target/release/frevo` of this workspace, or what the environment variable `FREVO` names.
    Frevo,
    /// Debian's `smbd`.
    Samba,
}

impl Target {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Target::Frevo => "frevo",
            Target::Samba => "samba",
        }
    }
}

impl std::str::FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Target> {
        match text {
            "frevo" => Ok(Target::Frevo),
            "samba" => Ok(Target::Samba),
            other => anyhow::bail!("unknown target {other:?}: frevo or samba"),
        }
    }
}

/// A directory with people in it, on which servers are started. Removed with all it holds when dropped.
pub struct Bed {
    dir: tempfile::TempDir,
    target: Target,
    people: People,
}

impl Bed {
    /// Makes the directory, in `$TMPDIR` or `/var/tmp`, and the people. As root there are three of them; without root the
    /// server has one user.
    pub fn make(target: Target) -> Result<Bed> {
        let base = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        Bed::make_in(&base, target, Crowd(0))
    }

    /// The same in a directory of the caller's choice, with a crowd of further accounts.
    pub fn make_in(base: &Path, target: Target, crowd: Crowd) -> Result<Bed> {
        // People other than root walk through it, whatever the caller's umask is.
        // SAFETY: umask cannot fail and touches no memory.
        unsafe { libc::umask(0o022) };
        let dir = tempfile::Builder::new()
            .prefix("frevo-bed-")
            .tempdir_in(base)
            .with_context(|| format!("cannot make a directory in {}", base.display()))?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let people = People::make(dir.path())?;
        if crowd != Crowd(0) {
            people.let_in(&crowd.members(Crowd(0)))?;
        }
        Ok(Bed { dir, target, people })
    }

    /// The directory that holds everything of this bed.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Which program serves.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Who there is.
    pub fn people(&self) -> &People {
        &self.people
    }

    /// Makes a directory below the bed's that belongs to `owner`, with the given mode; an existing one is set right.
    pub fn make_dir(&self, name: &str, owner: &Person, mode: u32) -> Result<PathBuf> {
        let path = self.dir().join(name);
        fs::create_dir_all(&path)?;
        self.people.give(&path, owner)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Starts a server called `name` (its directory below the bed's; a `krb5.conf` in it is the one that the server reads)
    /// with the configuration made from `template`:
    /// `@DIR@` stands for the bed's directory, `@TARGET@` for the lines that the target itself needs, and lines between
    /// `#@samba` or `#@frevo` and `#@end` are for that target alone.
    pub fn start(&self, name: &str, template: &str) -> Result<Server> {
        Server::start(self, name, template, free_port()?)
    }

    /// The same for a server that has its accounts elsewhere: instead of making the people's accounts, `prepare` does what
    /// is to be done, given the configuration file.
    pub fn start_with_accounts(
        &self,
        name: &str,
        template: &str,
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Server> {
        Server::start_with_accounts(self, name, template, free_port()?, prepare)
    }

    /// The same on a port of the caller's choice.
    pub fn start_on(&self, name: &str, template: &str, port: u16) -> Result<Server> {
        Server::start(self, name, template, port)
    }
}
