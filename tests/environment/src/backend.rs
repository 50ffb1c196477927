//! The account back end of a server under test, and how a crowd is registered while it runs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::crowd::{Crowd, smbpasswd};
use crate::slapd::Slapd;
use crate::{TestEnvironment, server};

/// The file name of [`Backend::Smbpasswd`], in the environment.
const FILE: &str = "smbpasswd";

/// An account back end, the same for both targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The server's own database.
    Embedded,
    /// A text file, smbpasswd(5).
    Smbpasswd,
    /// A directory with Samba's schema.
    Ldap,
}

impl Backend {
    /// All back ends.
    pub const ALL: [Backend; 3] = [Backend::Embedded, Backend::Smbpasswd, Backend::Ldap];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Embedded => "embedded",
            Backend::Smbpasswd => "smbpasswd",
            Backend::Ldap => "ldap",
        }
    }

    /// Returns lines for `[global]` after the target's own. `directory` must be given for [`Backend::Ldap`].
    pub fn globals(self, directory: Option<&Slapd>) -> Result<String> {
        Ok(match self {
            Backend::Embedded => String::new(),
            Backend::Smbpasswd => format!("\tpassdb backend = smbpasswd:@DIR@/{FILE}\n"),
            Backend::Ldap => Slapd::globals(&directory.context("an LDAP server is missing")?.uri(), false),
        })
    }

    /// Registers the crowd of an environment, which had none, with the running server `server`. A directory shared by
    /// several environments is filled only once, by the first caller.
    pub fn register(
        self,
        environment: &TestEnvironment,
        server: &str,
        crowd: Crowd,
        directory: Option<&Slapd>,
    ) -> Result<()> {
        let members = crowd.members(Crowd(0));
        environment.people().let_in(&members)?;
        let dir = environment.dir().join(server);
        match self {
            Backend::Embedded => {
                server::import(environment.target(), environment.people(), &members, &dir, &dir.join("smb.conf"))
            }
            Backend::Smbpasswd => append(&environment.dir().join(FILE), &smbpasswd(&members)),
            Backend::Ldap => directory.context("an LDAP server is missing")?.enlarge(crowd),
        }
    }
}

impl std::str::FromStr for Backend {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Backend> {
        let found = Backend::ALL.into_iter().find(|backend| backend.name() == text);
        found.with_context(|| format!("unknown back end {text:?}; use embedded, smbpasswd or ldap"))
    }
}

/// Replaces `file` by one with additional lines, so that a reader sees either the old or the new file.
fn append(file: &Path, lines: &str) -> Result<()> {
    let mut text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.push_str(lines);
    let made = file.with_extension("new");
    let mut new = fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(&made)?;
    new.write_all(text.as_bytes())?;
    Ok(fs::rename(&made, file)?)
}
