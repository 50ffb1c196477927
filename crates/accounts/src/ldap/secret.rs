//! The password of `ldap admin dn`, which Samba stores in `secrets.tdb`: a file of mode 0600 in the state directory.
//!
//! It is stored together with its DN, so that it is never tried with a different `ldap admin dn`.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use zeroize::Zeroizing;

use crate::state_dir::StateDir;

/// The file's name in the state directory.
const FILE: &str = "ldap.secret";
/// The maximum size of the file.
const LONGEST: u64 = 64 << 10;

/// Stores the password of `dn`.
pub fn store(state: &StateDir, dn: &str, password: &str) -> Result<()> {
    ensure!(!dn.is_empty(), "`ldap admin dn` is empty: set it before its password");
    ensure!(!dn.contains('\n') && !password.contains('\n'), "the DN and the password must not contain line breaks");
    ensure!(!password.is_empty(), "the password is empty: LDAP servers treat that as an anonymous bind");
    let text = Zeroizing::new(format!("{dn}\n{password}\n"));
    // The file is replaced atomically: a concurrent reader gets the old or the new one, and a full disk leaves the old
    // one.
    let unfinished = format!("{FILE}.{}", std::process::id());
    state.remove(&unfinished)?;
    let mut file = state.create_file(&unfinished)?;
    let written =
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).context("cannot write the LDAP password");
    let stored = written.and_then(|()| state.rename(&unfinished, FILE));
    if stored.is_err() {
        // The first error is more informative.
        let _ = state.remove(&unfinished);
    }
    stored
}

/// Returns the password of `dn`.
pub(super) fn read(state: &Path, dn: &str) -> Result<Zeroizing<String>> {
    let missing = || {
        format!(
            "there is no password for `ldap admin dn` = {dn} in {}: set it with `frevo user ldap-password`",
            state.display()
        )
    };
    let file =
        StateDir::open(state)?.map(|state| state.open_file(FILE)).transpose()?.flatten().with_context(missing)?;
    let mut text = Zeroizing::new(String::with_capacity(4096));
    file.take(LONGEST).read_to_string(&mut text).context("cannot read the LDAP password")?;
    let (owner, password) = text.trim_end_matches('\n').split_once('\n').with_context(missing)?;
    ensure!(
        owner == dn,
        "the LDAP password in {} is for {owner}, but `ldap admin dn` is {dn}: set it with `frevo user ldap-password`",
        state.display()
    );
    Ok(Zeroizing::new(password.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_stored_for_one_dn_and_is_unreadable_for_others() {
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
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
        // A password that cannot be stored leaves the previous one.
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
