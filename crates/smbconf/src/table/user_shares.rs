//! Shares that users define.

use super::{BOOL, COUNT, LIST, PATH, Parameter, TEXT, global};

pub(crate) const DIRECTORY: Parameter = global(
    "usershare path",
    PATH,
    "/var/lib/samba/usershares",
    "The directory in which users define shares (net usershare); root owns it, with the sticky bit.",
)
.read_by_others();

pub(crate) const MAX_SHARES: Parameter =
    global("usershare max shares", COUNT, "100", "Maximum number of user-defined shares; 0: none are served.")
        .read_by_others();

pub(crate) const OWNER_ONLY: Parameter =
    global("usershare owner only", BOOL, "yes", "Let users share their own directories only.").read_by_others();

pub(crate) const ALLOW_GUESTS: Parameter =
    global("usershare allow guests", BOOL, "no", "Let user-defined shares allow guests.").read_by_others();

pub(crate) const ALLOWED: Parameter =
    global("usershare prefix allow list", LIST, "", "User-defined shares must be below these directories.")
        .read_by_others();

pub(crate) const DENIED: Parameter =
    global("usershare prefix deny list", LIST, "", "User-defined shares must not have paths that begin so.")
        .read_by_others();

pub(crate) const TEMPLATE: Parameter = global(
    "usershare template share",
    TEXT,
    "",
    "The section whose parameters user-defined shares have, besides those that users set.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[DIRECTORY, MAX_SHARES, OWNER_ONLY, ALLOW_GUESTS, ALLOWED, DENIED, TEMPLATE];
