//! Accounts in an LDAP directory.

use anyhow::Result;

use crate::bed::slapd::PASSWORD;
use crate::bed::{ALICE, BOB, CAROL, Crowd, Slapd};
use crate::stage::{Stage, TEMPLATE};
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[Case::new("ldap.directory", directory).needs_root().samba_only()];

/// The bed's directory is one that Samba has its accounts in.
fn directory(stage: &mut Stage) -> Result<()> {
    let slapd = Slapd::start(&stage.bed, "slapd", Crowd(100), "")?;
    let template = TEMPLATE.replace("@TARGET@\n", &format!("@TARGET@\n{}", Slapd::globals(&slapd.uri(), false)));
    let target = stage.bed.target();
    let server = stage.bed.start_with_accounts("ldap", &template, &|conf| Slapd::give_password(target, conf))?;
    let log_on = |credentials: &str| stage.smbclient().server(&server).credentials(credentials).run("ls");
    log_on(&ALICE.credentials())?.fine()?;
    log_on(&format!("{}%{PASSWORD}", BOB.name))?.refused_with("NT_STATUS_LOGON_FAILURE")?;
    log_on(&CAROL.credentials())?.refused_with("NT_STATUS_ACCOUNT_DISABLED")
}
