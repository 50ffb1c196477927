//! The password of `ldap admin dn`: what Samba keeps in `secrets.tdb` lies in the state directory, mode 0600.
//!
//! It is kept with the name that it belongs to, so that another `ldap admin dn` is never tried with it.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use zeroize::Zeroizing;

use crate::state_dir::StateDir;

/// The file's name in the state directory.
const FILE: &str = "ldap.secret";
/// The longest file that is read.
const LONGEST: u64 = 64 << 10;

/// Stores the password of `dn`.
pub fn store(state: &StateDir, dn: &str, password: &str) -> Result<()> {
    ensure!(!dn.is_empty(), "`ldap admin dn` names nobody: there is no password to keep");
    ensure!(!dn.contains('\n') && !password.contains('\n'), "neither the name nor the password may have line breaks");
    ensure!(!password.is_empty(), "the password is empty: with that, LDAP servers let everybody in as nobody");
    let text = Zeroizing::new(format!("{dn}\n{password}\n"));
    // A server that reads it meanwhile finds the old one or the new one, and a full disk leaves the old one.
    let unfinished = format!("{FILE}.{}", std::process::id());
    state.remove(&unfinished)?;
    let mut file = state.create_file(&unfinished)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).context("writing the LDAP password");
    let stored = written.and_then(|()| state.rename(&unfinished, FILE));
    if stored.is_err() {
        // The error before it says more.
        let _ = state.remove(&unfinished);
    }
    stored
}

/// The password of `dn`.
pub(super) fn read(state: &Path, dn: &str) -> Result<Zeroizing<String>> {
    let missing = || {
        format!(
            "there is no password for `ldap admin dn` = {dn} in {}: `frevo user ldap-password` sets it",
            state.display()
        )
    };
    let file =
        StateDir::open(state)?.map(|state| state.open_file(FILE)).transpose()?.flatten().with_context(missing)?;
    let mut text = Zeroizing::new(String::with_capacity(4096));
    file.take(LONGEST).read_to_string(&mut text).context("reading the LDAP password")?;
    let (owner, password) = text.trim_end_matches('\n').split_once('\n').with_context(missing)?;
    ensure!(
        owner == dn,
        "the LDAP password in {} is that of {owner}, and `ldap admin dn` is {dn}: `frevo user ldap-password` sets the new one",
        state.display()
    );
    Ok(Zeroizing::new(password.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_kept_for_one_name_and_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(dir.path()).unwrap();
        let said = |dn| format!("{:#}", read(dir.path(), dn).unwrap_err());
        assert!(said("cn=a").contains("frevo user ldap-password"));
        store(&state, "cn=a", "one").unwrap();
        store(&state, "cn=a", "two words ").unwrap();
        assert_eq!(*read(dir.path(), "cn=a").unwrap(), "two words ");
        assert!(said("cn=b").contains("cn=a"));
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        // A password that cannot be stored leaves the one before.
        let unfinished = dir.path().join(format!("{FILE}.{}", std::process::id()));
        std::fs::create_dir(&unfinished).unwrap();
        assert!(store(&state, "cn=a", "three").is_err());
        std::fs::remove_dir(&unfinished).unwrap();
        assert_eq!(*read(dir.path(), "cn=a").unwrap(), "two words ");
        for (dn, password) in [("", "x"), ("cn=a", ""), ("cn=a", "x\ny")] {
            assert!(store(&state, dn, password).is_err());
        }
    }
}
