//! Locks, oplocks, leases, and change notification.

use super::{BOOL, BOOL_OR_AUTO, COUNT, NUMBER, PATTERNS, Parameter, global, share};

const OPLOCKS: &str = "kernel oplocks";
/// The reason of parameters about caches of open files.
pub(super) const IN_MEMORY: &str = "the single server process keeps open files in memory and needs no such cache";

pub(super) static TABLE: &[Parameter] = &[
    share("locking", BOOL, "yes", "Enforce byte-range locks; no grants every lock and enforces none."),
    share("strict locking", BOOL_OR_AUTO, "auto", "Check byte-range locks at each read and write; auto means yes."),
    share(
        "posix locking",
        BOOL,
        "yes",
        "Let the locks of clients and local programs conflict; reads and writes check only clients' locks.",
    ),
    share("blocking locks", BOOL, "yes", "Let a client wait for a lock."),
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
    ),
    global("smb2 disable lock sequence checking", BOOL, "no", "Do not check the sequence numbers of lock requests."),
    share("kernel share modes", BOOL, "no", "Show share modes to local programs as flock locks.")
        .unserved("share modes visible to local programs, because Linux has removed the call"),
    share("oplocks", BOOL, "yes", "Let clients cache files."),
    share("level2 oplocks", BOOL, "yes", "Let several clients cache a file for reading."),
    share(
        "kernel oplocks",
        BOOL,
        "no",
        "Break oplocks when a local program opens the file; disables leases and level II oplocks.",
    ),
    share("fake oplocks", BOOL, "no", "Grant oplocks and never break them: loses data if two clients open a file."),
    share("veto oplock files", PATTERNS, "", "Never grant oplocks or leases on files with matching names."),
    global("smb2 leases", BOOL, "yes", "Offer leases, which let a client share a cache between several opens."),
    global("smb3 directory leases", BOOL_OR_AUTO, "auto", "Offer leases on directories; auto means yes."),
    global("oplock break wait time", COUNT, "0", "Milliseconds before an oplock break is sent.").unserved(OPLOCKS),
    global("smb2 disable oplock break retry", BOOL, "no", "Send an oplock break only once.").unserved(OPLOCKS),
    share(
        "durable handles",
        BOOL,
        "yes",
        "Keep opens after a lost connection; unlike in Samba also with kernel oplocks and posix locking.",
    ),
    share(
        "continuously available",
        BOOL,
        "no",
        "Keep opens across a restart of the server; each write goes to disk. Not in Samba.",
    ),
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
    ),
    global("change notify", BOOL, "yes", "Notify clients of changes in a directory."),
    global("kernel change notify", BOOL, "yes", "Also notify clients of changes by local programs."),
];
