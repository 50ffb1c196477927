//! Settings from environment variables, for containers: shares, and an account whose password is in a file.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use zeroize::Zeroizing;

use crate::admin;
use crate::admin::message::UserRequest;
use accounts::Directory;
use accounts::record::nt_hash;

/// The shares: `NAME=PATH`, or a path whose last component is the name; several are separated by commas.
const SHARE: &str = "FREVO_SHARE";
/// The name of an account, which is created if it does not exist.
const USER: &str = "FREVO_USER";
/// A file with the password of that account. A password in a variable would be visible to other programs.
const PASSWORD_FILE: &str = "FREVO_PASSWORD_FILE";

/// Returns the shares of `FREVO_SHARE`.
pub(super) fn shares() -> Result<Vec<(String, PathBuf)>> {
    match std::env::var_os(SHARE) {
        Some(text) => parse(text.to_str().context("FREVO_SHARE is not UTF-8")?),
        None => Ok(Vec::new()),
    }
}

fn parse(text: &str) -> Result<Vec<(String, PathBuf)>> {
    let one = |text: &str| match super::parse_share(text) {
        Ok(share) => Ok(share),
        Err(_) if text.starts_with('/') => {
            let path = PathBuf::from(text);
            Ok((super::share_name(&path), path))
        }
        Err(_) => bail!("FREVO_SHARE has {text:?}; use NAME=PATH or an absolute path, separated by commas"),
    };
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(one).collect()
}

/// Creates the account of `FREVO_USER`, or sets its password if the file has another one. Blocks.
pub(super) fn create_account(accounts: &Directory) -> Result<()> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let Some(name) = variable(USER) else { return Ok(()) };
    let existing = accounts.record(&name)?;
    let Some(file) = variable(PASSWORD_FILE) else {
        if existing.is_some() {
            return Ok(());
        }
        bail!("there is no account {name:?} ({USER}); set {PASSWORD_FILE} to a file with its password");
    };
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read the password in {file}"))?;
    let text = Zeroizing::new(text);
    let hash = nt_hash(text.lines().next().unwrap_or_default()).with_context(|| file.clone())?;
    let request = match existing {
        Some(record) if record.nt_hash.as_ref().is_some_and(|known| known.0 == hash.0) => return Ok(()),
        Some(_) => UserRequest::Passwd { name: name.clone(), nt_hash: Some(hash) },
        None => UserRequest::Add { name: name.clone(), nt_hash: Some(hash), full_name: String::new(), uid: None },
    };
    admin::perform(accounts, request).with_context(|| format!("cannot create the account {name} ({USER})"))?;
    tracing::info!(account = name, "the password of the account is that of {PASSWORD_FILE}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_name_or_that_of_their_directory() {
        let share = |name: &str, path: &str| (name.to_owned(), PathBuf::from(path));
        assert_eq!(parse("/srv/data").unwrap(), [share("data", "/srv/data")]);
        assert_eq!(parse("a=/x, /srv/b").unwrap(), [share("a", "/x"), share("b", "/srv/b")]);
        assert_eq!(parse("").unwrap(), []);
        assert!(parse("data").is_err());
        assert!(parse("=/x").is_err());
    }
}
