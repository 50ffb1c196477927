//! The environment in which tests and measurements run servers: a directory, three users, reserved ports, and a server
//! (Frevo or Samba).
//!
//! Everything is in one temporary directory and listens only on 127.0.0.1. The accounts of the machine are not changed:
//! the server sees its users through files mounted over `/etc` in its own mount namespace ([`people`]). An environment
//! stops by process id everything that it starts, also when a test fails or the run is interrupted ([`interrupt`]).

mod backend;
mod counts;
mod crowd;
mod disk;
mod domain;
pub mod interrupt;
mod kdc;
mod network_namespace;
pub mod people;
mod port;
mod port445;
pub mod probe;
mod rclone;
mod server;
pub mod slapd;
mod template;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use backend::Backend;
pub use counts::{Counts, Failure};
pub use crowd::Crowd;
pub use disk::Disk;
pub use domain::{ADMINISTRATOR, DORA, Domain, EMIL, FAYE, MEMBER};
pub use kdc::{Kdc, REALM};
pub use people::{ALICE, BOB, CAROL, CREW, People, Person};
pub use port::ReservedPort;
pub use port445::Port445;
pub use rclone::Rclone;
pub use server::{Health, OtherBuild, Server, frevo};
pub use slapd::Slapd;

/// The server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `target/release/frevo` of this workspace, or the program in the environment variable `FREVO`.
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
            other => anyhow::bail!("unknown target {other:?}; use frevo or samba"),
        }
    }
}

/// A directory with users, in which servers are started. It is removed with its content when dropped.
pub struct TestEnvironment {
    dir: tempfile::TempDir,
    target: Target,
    people: People,
}

impl TestEnvironment {
    /// Creates the directory in `$TMPDIR` or `/var/tmp`, and the users. As root there are three; without root the
    /// server has one user.
    pub fn make(target: Target) -> Result<TestEnvironment> {
        let base = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        TestEnvironment::make_in(&base, target, Crowd(0))
    }

    /// Same as [`TestEnvironment::make`] in a given directory, with a crowd of further accounts.
    pub fn make_in(base: &Path, target: Target, crowd: Crowd) -> Result<TestEnvironment> {
        // Users other than root need to traverse it, whatever the caller's umask is.
        // SAFETY: umask cannot fail and has no memory effects.
        unsafe { libc::umask(0o022) };
        let dir = tempfile::Builder::new()
            .prefix("frevo-test-")
            .tempdir_in(base)
            .with_context(|| format!("cannot create a directory in {}", base.display()))?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let people = People::make(dir.path())?;
        if crowd != Crowd(0) {
            people.let_in(&crowd.members(Crowd(0)))?;
        }
        Ok(TestEnvironment { dir, target, people })
    }

    /// Returns the directory that contains everything of this environment.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the server program.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns the users.
    pub fn people(&self) -> &People {
        &self.people
    }

    /// Creates a directory below the environment's with this owner and mode, or corrects those of an existing one.
    pub fn make_dir(&self, name: &str, owner: &Person, mode: u32) -> Result<PathBuf> {
        let path = self.dir().join(name);
        fs::create_dir_all(&path)?;
        self.people.give(&path, owner)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// Starts a server called `name`, which is also the name of its directory below the environment's. A `krb5.conf` in
    /// that directory is used by the server. The configuration is made from `template`: `@DIR@` stands for the
    /// environment's directory, `@TARGET@` for the lines that the target itself needs, and lines between `#@samba` or
    /// `#@frevo` and `#@end` are only for that target.
    pub fn start(&self, name: &str, template: &str) -> Result<Server> {
        Server::start(self, name, template, ReservedPort::any()?)
    }

    /// Same as [`TestEnvironment::start`] for a server that has its accounts elsewhere. `prepare`, which is given the
    /// configuration file, replaces the creation of the users' accounts.
    pub fn start_with_accounts(
        &self,
        name: &str,
        template: &str,
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Server> {
        Server::start_with_accounts(self, name, template, ReservedPort::any()?, prepare)
    }

    /// Same as [`TestEnvironment::start`] on a given port.
    pub fn start_on(&self, name: &str, template: &str, port: u16) -> Result<Server> {
        Server::start(self, name, template, ReservedPort::numbered(port)?)
    }
}
