//! The location of the state directory and of the accounts, which a server and all commands look up alike.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::host::Host;
use accounts::PassdbBackend;

/// Returns the path of the state directory: the one from the command line, else from the configuration, else the
/// default.
///
/// If no configuration is specified, root uses the one that a server without `-c` would use; other users use none. The
/// server and all commands call this function, so that they use the same directory.
pub fn locate(flag: Option<&Path>, config: Option<&Path>) -> Result<PathBuf> {
    Ok(locate_accounts(flag, config)?.state)
}

/// The location of the accounts.
pub struct AccountPlace {
    /// The state directory.
    pub state: PathBuf,
    /// The back ends, in the order in which they are searched.
    pub backends: Vec<PassdbBackend>,
}

/// Returns the state directory as [`locate`] does, and the back ends of the same configuration. If only a directory is
/// specified, the back end is the embedded database.
pub fn locate_accounts(flag: Option<&Path>, config: Option<&Path>) -> Result<AccountPlace> {
    let standard = || (flag.is_none() && rustix::process::geteuid().is_root()).then(super::default_path).flatten();
    let places = match config.map(Path::to_owned).or_else(standard) {
        Some(config) => Some(super::places(&config, &Host::of_process().context("cannot look up own user")?)?),
        None => None,
    };
    let (configured, backends) = match places {
        Some(places) => (places.state_directory, places.passdb_backend),
        None => (None, vec![PassdbBackend::Embedded]),
    };
    let state = match flag {
        Some(path) => std::path::absolute(path).with_context(|| path.display().to_string())?,
        None => configured.map_or_else(default_path, Ok)?,
    };
    Ok(AccountPlace { state, backends })
}

/// Returns the default path: `FREVO_STATE_DIR` if it is set, else `/var/lib/frevo` for root, else `frevo` in
/// `$XDG_STATE_HOME` or, if that is not set, in `~/.local/state`.
pub fn default_path() -> Result<PathBuf> {
    // For containers, in which the user is any number and the rest of the file system is read-only.
    if let Some(path) = std::env::var_os("FREVO_STATE_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
        return Ok(path);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/frevo"));
    }
    of_user(std::env::var_os("XDG_STATE_HOME").map(PathBuf::from), std::env::home_dir())
        .context("neither XDG_STATE_HOME nor HOME contains an absolute path; use --state-dir")
}

/// Returns the default path for a user with these two variables. The XDG base directory specification requires ignoring
/// relative paths.
fn of_user(xdg_state_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg_state_home
        .filter(|path| path.is_absolute())
        .or_else(|| home.filter(|path| path.is_absolute()).map(|home| home.join(".local/state")))
        .map(|state| state.join("frevo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_overrides_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("smb.conf");
        std::fs::write(&file, "[global]\n  state directory = /from/configuration\n[x]\n  path = /nowhere\n").unwrap();
        let check = |flag: Option<&str>, config: Option<&Path>, expected: &Path| {
            assert_eq!(locate(flag.map(Path::new), config).unwrap(), expected);
        };
        check(Some("/from/flag"), Some(&file), Path::new("/from/flag"));
        check(None, Some(&file), Path::new("/from/configuration"));
        check(Some("relative"), None, &std::env::current_dir().unwrap().join("relative"));
        std::fs::write(&file, "[global]\n").unwrap();
        check(None, Some(&file), &default_path().unwrap());
        assert!(locate(None, Some(&dir.path().join("missing"))).is_err());
    }

    #[test]
    fn default_directories_of_a_user() {
        let check = |xdg: Option<&str>, home: Option<&str>, expected: Option<&str>| {
            assert_eq!(of_user(xdg.map(PathBuf::from), home.map(PathBuf::from)), expected.map(PathBuf::from));
        };
        check(Some("/x"), Some("/home/u"), Some("/x/frevo"));
        check(None, Some("/home/u"), Some("/home/u/.local/state/frevo"));
        check(Some("relative"), Some("/home/u"), Some("/home/u/.local/state/frevo"));
        check(Some(""), None, None);
        check(None, Some(""), None);
    }
}
