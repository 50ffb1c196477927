//! DFS: shares that refer clients to other servers.

use server::policy::Share;
use server::policy::dfs::proxy_targets;

use super::{BOOL, Parameter, TEXT, global, share};
use crate::reader::ValueReader;

pub(super) const HOST_MSDFS: Parameter =
    global("host msdfs", BOOL, "yes", "Refer clients to other servers, as msdfs root and msdfs proxy of shares say.")
        .reads(|value, global| global.policy.host_msdfs = value.boolean());

pub(super) const MSDFS_PROXY: Parameter = share(
    "msdfs proxy",
    TEXT,
    "",
    r"The share is on other servers: \server\share with commas between them. It then needs no path.",
)
.reads(read_proxy);

pub(super) static TABLE: &[Parameter] = &[
    HOST_MSDFS,
    share("msdfs root", BOOL, "no", r"Symbolic links to msdfs:server\share refer clients to that share.")
        .reads(|value, share| share.dfs.root = value.boolean()),
    MSDFS_PROXY,
    share("msdfs shuffle referrals", BOOL, "no", "Vary the order of the targets of a link or proxy.")
        .reads(|value, share| share.dfs.shuffle = value.boolean()),
];

fn read_proxy(value: ValueReader<'_>, share: &mut Share) {
    match proxy_targets(&value.text()) {
        Ok(targets) => share.dfs.proxy = targets,
        Err(wrong) => value.bad_value(wrong, r"\server\share, possibly with a path below it; commas between several"),
    }
}

/// Whether clients are always referred to other servers, so that the share itself needs no directory.
pub(super) fn is_elsewhere(value: ValueReader<'_>) -> bool {
    value.of(&HOST_MSDFS).boolean() && !value.of(&MSDFS_PROXY).choice().is_empty()
}
