//! `frevo user ldap-password`: stores the password of `ldap admin dn`, like Samba's `smbpasswd -w`.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::password;
use accounts::PassdbBackend;
use accounts::ldap::secret;
use accounts::state_dir::StateDir;
use smbconf::location::AccountPlace;

pub(super) fn run(place: &AccountPlace, from_stdin: bool) -> Result<ExitCode> {
    let named = place.backends.iter().find_map(|backend| match backend {
        PassdbBackend::Ldap(settings) => Some(settings.admin_dn.as_str()),
        _ => None,
    });
    let dn = named.context("`passdb backend` has no LDAP directory (ldapsam), so there is no password to store")?;
    ensure!(!dn.is_empty(), "`ldap admin dn` is empty; set it first, because the password is stored for that name");
    let password = if from_stdin { password::read_line(std::io::stdin().lock())? } else { password::ask(dn)? };
    secret::store(&StateDir::create(&place.state)?, dn, &password)?;
    super::print(&format!("password of {dn} stored in {}\n", place.state.display()))?;
    Ok(ExitCode::SUCCESS)
}
