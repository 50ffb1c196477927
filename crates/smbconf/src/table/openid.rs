//! Logon to the console through an OpenID Connect issuer.

use super::{LIST, PATH, Parameter, TEXT, global};
use crate::openid;

pub(crate) const ISSUER: Parameter = global(
    "frevo:openid issuer",
    TEXT,
    "",
    "URL of the OpenID Connect issuer for logons to the console, as its discovery document has it. Not in Samba.",
)
.reads(|value, global| global.daemon.openid = openid::read(&value.section));

pub(crate) const CLIENT: Parameter = global(
    "frevo:openid client id",
    TEXT,
    "",
    "Name with which the console is registered at the issuer. Not in Samba.",
)
.read_by_others();

pub(crate) const SECRET_FILE: Parameter = global(
    "frevo:openid client secret file",
    PATH,
    "",
    "File with the secret of the console at the issuer, which only root may read; empty: no secret. Not in Samba.",
)
.read_by_others();

pub(crate) const USER_CLAIM: Parameter = global(
    "frevo:openid user claim",
    TEXT,
    "preferred_username",
    "Claim of the ID token that is the exact name of the account; users must not be able to choose it. Not in Samba.",
)
.read_by_others();

pub(crate) const SCOPES: Parameter =
    global("frevo:openid scopes", LIST, "openid profile", "Scopes that the console requests. Not in Samba.")
        .read_by_others();

pub(crate) const CONSOLE_URL: Parameter = global(
    "frevo:console url",
    TEXT,
    "",
    "URL by which browsers call the console, to which the issuer returns them; empty: as they called it. Not in Samba.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[ISSUER, CLIENT, SECRET_FILE, USER_CLAIM, SCOPES, CONSOLE_URL];
