//! Where a server under test has its accounts, and how more of the crowd get in while it runs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::crowd::{Crowd, smbpasswd};
use super::slapd::{self, Slapd};
use super::{People, Target, server};

/// The file of [`Backend::Smbpasswd`], in the bed.
const FILE: &str = "smbpasswd";

/// A back end of accounts, the same for both targets.
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
    /// All of them.
    pub const ALL: [Backend; 3] = [Backend::Embedded, Backend::Smbpasswd, Backend::Ldap];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Embedded => "embedded",
            Backend::Smbpasswd => "smbpasswd",
            Backend::Ldap => "ldap",
        }
    }

    /// Lines for `[global]` after the target's own; `directory` is there for [`Backend::Ldap`].
    pub fn globals(self, directory: Option<&Slapd>) -> Result<String> {
        Ok(match self {
            Backend::Embedded => String::new(),
            Backend::Smbpasswd => format!("\tpassdb backend = smbpasswd:@DIR@/{FILE}\n"),
            Backend::Ldap => Slapd::globals(&directory.context("an LDAP server is missing")?.uri(), false),
        })
    }
}

impl std::str::FromStr for Backend {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Backend> {
        let found = Backend::ALL.into_iter().find(|backend| backend.name() == text);
        found.with_context(|| format!("unknown back end {text:?}: embedded, smbpasswd or ldap"))
    }
}

/// A bed whose crowd becomes larger while its server runs: for another process than the one that made it.
pub struct Growing {
    /// The directory of the bed.
    pub bed: PathBuf,
    /// What the server on it is called.
    pub server: &'static str,
    /// Which server it is.
    pub target: Target,
    /// Where it has its accounts.
    pub backend: Backend,
    /// The directory of the LDAP server, for [`Backend::Ldap`]. Several beds may have one.
    pub directory: Option<PathBuf>,
}

impl Growing {
    /// Makes the crowd as large as `crowd`.
    pub fn enlarge(&self, crowd: Crowd) -> Result<()> {
        let people = People::found(&self.bed);
        let before = people.crowd()?;
        ensure!(before.0 <= crowd.0, "{} accounts are there already, {} are asked for", before.0, crowd.0);
        let members = crowd.members(before);
        if !members.is_empty() {
            people.let_in(&members)?;
        }
        let dir = self.bed.join(self.server);
        match (self.backend, &self.directory) {
            (Backend::Embedded, _) => server::import(self.target, &people, &members, &dir, &dir.join("smb.conf")),
            (Backend::Smbpasswd, _) => append(&self.bed.join(FILE), &smbpasswd(&members)),
            (Backend::Ldap, Some(directory)) => slapd::enlarge(directory, crowd),
            (Backend::Ldap, None) => bail!("the directory of the LDAP server is missing"),
        }
    }
}

/// Puts another file with more lines in the place of `file`: whoever reads it has the old one or the new one.
fn append(file: &Path, lines: &str) -> Result<()> {
    let mut text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.push_str(lines);
    let made = file.with_extension("new");
    let mut new = fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(&made)?;
    new.write_all(text.as_bytes())?;
    Ok(fs::rename(&made, file)?)
}
