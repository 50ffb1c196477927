//! Both servers running at the same time, each in its own environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use test_environment::{ALICE, Backend, Crowd, Health, Server, Slapd, Target, TestEnvironment};

pub(super) const TEMPLATE: &str = include_str!("../../compare/smb.conf");
/// The name of each server in its environment.
const SERVER: &str = "server";
/// The shares of both servers.
pub(super) const SHARES: [&str; 5] = ["plain", "acl", "mac", "mac_streams", "audited"];

/// A server and its environment.
pub(super) struct Side {
    // Declared before the environment, so that the server ends before its directory is removed.
    pub(super) server: Server,
    environment: TestEnvironment,
}

impl Side {
    fn start(environment: TestEnvironment, backend: Backend, directory: Option<&Slapd>) -> Result<Side> {
        for share in SHARES {
            environment.make_dir(share, &ALICE, 0o777)?;
        }
        let target = environment.target();
        let own = format!("@TARGET@\n{}", backend.globals(directory)?);
        let template = TEMPLATE.replacen("@TARGET@\n", &own, 1);
        let server = match backend {
            Backend::Ldap => {
                environment.start_with_accounts(SERVER, &template, &|conf| Slapd::give_password(target, conf))
            }
            Backend::Embedded | Backend::Smbpasswd => environment.start(SERVER, &template),
        };
        Ok(Side { server: server.with_context(|| format!("{} does not start", target.name()))?, environment })
    }

    /// `frevo` or `samba`.
    pub(super) fn name(&self) -> &'static str {
        self.environment.target().name()
    }

    /// Returns the URL of a share for `frevo-bench`.
    pub(super) fn url(&self, share: &str) -> String {
        format!("smb://{}:{}@{}/{share}", ALICE.name, ALICE.password, self.server.address())
    }

    /// Registers this number of users with the server, which has none yet.
    pub(super) fn register(&self, backend: Backend, crowd: Crowd, directory: Option<&Slapd>) -> Result<()> {
        backend.register(&self.environment, SERVER, crowd, directory)
    }

    /// Makes `command` run in an environment in which the accounts exist.
    pub(super) fn enter(&self, command: &mut Command) {
        self.environment.people().enter(command);
    }

    /// Empties the shares of a stopped server.
    fn empty(&self) -> Result<()> {
        for share in SHARES {
            for entry in fs::read_dir(self.path(share))? {
                let entry = entry?;
                match entry.file_type()?.is_dir() {
                    true => fs::remove_dir_all(entry.path()),
                    false => fs::remove_file(entry.path()),
                }
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
            }
        }
        Ok(())
    }

    /// Returns the directory of a share.
    pub(super) fn path(&self, share: &str) -> PathBuf {
        self.environment.dir().join(share)
    }
}

/// The pair of Frevo and Samba.
pub(super) struct Pair {
    pub(super) frevo: Side,
    pub(super) samba: Side,
    /// The account directory of both, with [`Backend::Ldap`].
    pub(super) directory: Option<Slapd>,
    /// The number of accounts in addition to alice's.
    pub(super) crowd: Crowd,
}

impl Pair {
    /// Starts both in new directories below `base`, with their accounts in `backend`.
    pub(super) fn start(base: &Path, users: u32, backend: Backend) -> Result<Pair> {
        let crowd = Crowd(users);
        let (frevo, samba) = (
            TestEnvironment::make_in(base, Target::Frevo, crowd)?,
            TestEnvironment::make_in(base, Target::Samba, crowd)?,
        );
        let directory = match backend {
            Backend::Ldap => Some(Slapd::start(&frevo, "slapd", crowd, "")?),
            Backend::Embedded | Backend::Smbpasswd => None,
        };
        let frevo = Side::start(frevo, backend, directory.as_ref())?;
        let samba = Side::start(samba, backend, directory.as_ref())?;
        Ok(Pair { frevo, samba, directory, crowd })
    }

    /// Stops both and empties the shares. Starts them again if `run` is set.
    pub(super) fn renew(&mut self, run: bool) -> Result<()> {
        for side in self.sides() {
            side.server.stop();
            side.empty()?;
            if run {
                side.server.restart().with_context(|| format!("{} does not start again", side.name()))?;
            }
        }
        Ok(())
    }

    /// Fails if one of them is not healthy.
    pub(super) fn check(&mut self) -> Result<()> {
        for side in self.sides() {
            let how = match side.server.health()? {
                Health::Well => continue,
                Health::Gone => "has ended".to_owned(),
                Health::Hung => "hangs".to_owned(),
                Health::Panicked(line) => format!("panicked: {line}"),
            };
            bail!("{} {how}:\n{}", side.name(), side.server.log_tail());
        }
        Ok(())
    }

    /// Waits briefly. Fails if one of them ends meanwhile.
    pub(super) fn watch(&mut self) -> Result<()> {
        for side in self.sides() {
            if let Some(status) = side.server.wait(Duration::from_millis(100))? {
                bail!("{} has ended ({status}):\n{}", side.name(), side.server.log_tail());
            }
        }
        Ok(())
    }

    /// Returns both, Frevo first.
    pub(super) fn sides(&mut self) -> [&mut Side; 2] {
        [&mut self.frevo, &mut self.samba]
    }
}
