//! Locks, oplocks, leases, and change notification.

use std::time::Duration;

use super::{BOOL, BOOL_OR_AUTO, COUNT, NUMBER, PATTERNS, Parameter, global, share};

const LOCAL_OPLOCKS: &str = "kernel oplocks";
/// The reason of parameters about caches of open files.
pub(super) const IN_MEMORY: &str = "the single server process keeps open files in memory and needs no such cache";

pub(crate) const DURABLE_HANDLES: Parameter = share(
    "durable handles",
    BOOL,
    "yes",
    "Keep opens after a lost connection; unlike in Samba also with kernel oplocks and posix locking.",
)
.reads(|value, share| share.handles.durable_handles = value.boolean());

pub(crate) const OPLOCKS: Parameter = share("oplocks", BOOL, "yes", "Let clients cache files.")
    .reads(|value, share| share.caching.oplocks = value.boolean());

pub(crate) const LEVEL2_OPLOCKS: Parameter =
    share("level2 oplocks", BOOL, "yes", "Let several clients cache a file for reading.")
        .reads(|value, share| share.caching.level2_oplocks = value.boolean());

pub(crate) const KERNEL_OPLOCKS: Parameter = share(
    "kernel oplocks",
    BOOL,
    "no",
    "Break oplocks when a local program opens the file; disables leases and level II oplocks.",
)
.reads(|value, share| share.caching.kernel_oplocks = value.boolean());

pub(crate) const FAKE_OPLOCKS: Parameter =
    share("fake oplocks", BOOL, "no", "Grant oplocks and never break them: loses data if two clients open a file.")
        .reads(|value, share| share.caching.fake_oplocks = value.boolean());

pub(crate) const CONTINUOUSLY_AVAILABLE: Parameter = share(
    "continuously available",
    BOOL,
    "no",
    "Keep opens across a restart of the server; each write goes to disk. Not in Samba.",
)
.reads(|value, share| share.handles.continuously_available = value.boolean() && value.of(&DURABLE_HANDLES).boolean());

pub(crate) const POSIX_LOCKING: Parameter = share(
    "posix locking",
    BOOL,
    "yes",
    "Let the locks of clients and local programs conflict; reads and writes check only clients' locks.",
)
.reads(|value, share| share.locks.posix_locking = value.boolean());

pub(super) static TABLE: &[Parameter] = &[
    share("locking", BOOL, "yes", "Enforce byte-range locks; no grants every lock and enforces none.")
        .reads(|value, share| share.locks.locking = value.boolean()),
    share("strict locking", BOOL_OR_AUTO, "auto", "Check byte-range locks at each read and write; auto means yes.")
        .reads(|value, share| share.locks.strict_locking = value.choice() != "no"),
    POSIX_LOCKING,
    share("blocking locks", BOOL, "yes", "Let a client wait for a lock.")
        .reads(|value, share| share.locks.blocking_locks = value.boolean()),
    share(
        "smbd force process locks",
        BOOL,
        "no",
        "Use process-owned POSIX locks instead of open file description locks.",
    )
    .unserved("process-owned locks, which every close of the file would release"),
    global(
        "lock spin time",
        NUMBER,
        "200",
        "Milliseconds between attempts to get a range locked by a local program; up to 10 times.",
    )
    // A pause of zero would never yield the processor.
    .reads(|value, global| global.policy.lock_spin_time = Duration::from_millis(value.number().unwrap_or(200).max(1))),
    global("smb2 disable lock sequence checking", BOOL, "no", "Do not check the sequence numbers of lock requests.")
        .reads(|value, global| global.policy.lock_sequence_checking = !value.boolean()),
    share("kernel share modes", BOOL, "no", "Show share modes to local programs as flock locks.")
        .unserved("share modes visible to local programs, because Linux has removed the call"),
    OPLOCKS,
    LEVEL2_OPLOCKS,
    KERNEL_OPLOCKS,
    FAKE_OPLOCKS,
    share("veto oplock files", PATTERNS, "", "Never grant oplocks or leases on files with matching names.")
        .reads(|value, share| share.caching.veto_oplock_files = value.patterns()),
    global("smb2 leases", BOOL, "yes", "Offer leases, which let a client share a cache between several opens.")
        .reads(|value, global| global.policy.smb2_leases = value.boolean()),
    global("smb3 directory leases", BOOL_OR_AUTO, "auto", "Offer leases on directories; auto means yes.")
        .reads(|value, global| global.policy.smb3_directory_leases = value.choice() != "no"),
    global("oplock break wait time", COUNT, "0", "Milliseconds before an oplock break is sent.")
        .unserved(LOCAL_OPLOCKS),
    global("smb2 disable oplock break retry", BOOL, "no", "Send an oplock break only once.").unserved(LOCAL_OPLOCKS),
    DURABLE_HANDLES,
    CONTINUOUSLY_AVAILABLE,
    global("defer sharing violations", BOOL, "yes", "Delay the response to a sharing violation.")
        .accepted("a sharing violation is reported at once after oplock breaks, as in Windows"),
    share("smbd getinfo ask sharemode", BOOL, "yes", "Ask for delete-on-close state in queries.").accepted(IN_MEMORY),
    share("smbd search ask sharemode", BOOL, "yes", "Ask for write times of open files in listings.")
        .accepted(IN_MEMORY),
    // Change notification.
    share(
        "honor change notify privilege",
        BOOL,
        "yes",
        "Report changes in a watched tree only for directories that the user may list; Samba: no.",
    )
    .reads(|value, share| share.names.honor_change_notify_privilege = value.boolean()),
    global("change notify", BOOL, "yes", "Notify clients of changes in a directory.")
        .reads(|value, global| global.policy.change_notify = value.boolean()),
    global("kernel change notify", BOOL, "yes", "Also notify clients of changes by local programs.")
        .reads(|value, global| global.policy.kernel_change_notify = value.boolean()),
];
