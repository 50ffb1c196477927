//! The process: its directories, log and limits.

use super::{BOOL, BYTES, COMMANDS, COUNT, LIST, NUMBER, PATH, Parameter, TEXT, global};

const ONE_PROCESS: &str = "one process serves all clients";
const LOG_LINES: &str = "each line of the log has its time, level and place";
const TDB: &str = "there are no tdb files";
const USERSHARES: &str = "shares made by users";
const REGISTRY: &str = "Samba's registry";
const SERVICES: &str = "Samba's other services";

pub(super) static TABLE: &[Parameter] = &[
    global(
        "state directory",
        PATH,
        "/var/lib/frevo",
        "Where accounts and other state are kept; Samba: /var/lib/samba.",
    ),
    global("private dir", PATH, "", "Where secrets are kept; empty: the state directory.").also(&["private directory"]),
    global("pid directory", PATH, "/run/frevo", "Where the process's number is written; Samba: /run/samba."),
    global("log file", PATH, "", "The log file; empty: the standard error output. %m is frevo here: there is one log."),
    global("log level", LIST, "2", "How much is logged, 0 to 10; class:level for single classes. Samba: 1.")
        .also(&["debug level"]),
    global(
        "frevo:memory limit",
        BYTES,
        "0",
        "Memory that the server may use, bytes; 0: a quarter of the machine's or cgroup's.",
    ),
    global("max log size", BYTES, "5000", "KiB at which the log file is set aside as .old; 0: never."),
    global("logging", LIST, "", "Where the log goes: file; syslog and systemd are the standard error output here."),
    global(
        "frevo:sandbox",
        BOOL,
        "yes",
        "Give up privileges and system calls that serving needs none of; not in Samba.",
    ),
    global("max smbd processes", COUNT, "0", "How many clients may be connected at a time; 0: the built-in limit."),
    global("max open files", COUNT, "65536", "How many files one session may have open; Samba: 16424."),
    global("timestamp logs", BOOL, "yes", "Begin log lines with the time.")
        .also(&["debug timestamp"])
        .accepted(LOG_LINES),
    global("debug pid", BOOL, "no", "Log the process.").accepted(ONE_PROCESS),
    global("debug uid", BOOL, "no", "Log the user.").accepted(LOG_LINES),
    global("debug class", BOOL, "no", "Log the class.").accepted(LOG_LINES),
    global("debug hires timestamp", BOOL, "yes", "Log microseconds.").accepted(LOG_LINES),
    global("debug prefix timestamp", BOOL, "no", "Log the time in front only.").accepted(LOG_LINES),
    global("debug syslog format", TEXT, "no", "Log lines as syslog has them.").accepted(LOG_LINES),
    global("debug encryption", BOOL, "no", "Log session keys.").unserved("logging of keys: they decrypt everything"),
    global("winbind debug traceid", BOOL, "no", "Log requests of winbindd by number.").unserved(SERVICES),
    global("syslog", NUMBER, "1", "How much goes to syslog.").accepted("logging says where the log goes"),
    global("syslog only", BOOL, "no", "Log to syslog only.").accepted("logging says where the log goes"),
    global("log writeable files on exit", BOOL, "no", "Log files that are open for writing at the end.")
        .unserved("the log of open files at the end"),
    global("smbd profiling level", TEXT, "off", "Count calls and times.").accepted("frevo status has the counters"),
    global("utmp", BOOL, "no", "Enter sessions into utmp.").unserved("utmp"),
    global("utmp directory", PATH, "", "Where utmp lies.").unserved("utmp"),
    global("wtmp directory", PATH, "", "Where wtmp lies.").unserved("utmp"),
    global("cache directory", PATH, "/var/cache/samba", "Where Samba keeps caches.").accepted(TDB),
    global("lock directory", PATH, "/run/samba", "Where Samba keeps locks.").also(&["lock dir"]).accepted(TDB),
    global("ncalrpc dir", PATH, "/run/samba/ncalrpc", "Where sockets of local RPC lie.")
        .accepted("no RPC server listens locally"),
    global("panic action", TEXT, "", "A command when the server crashes.").unserved(COMMANDS),
    global("enable core files", BOOL, "yes", "Write core files.")
        .accepted("core files would have passwords in them: none is written"),
    global("config backend", TEXT, "file", "Where the configuration lies.").unserved(REGISTRY),
    global("config file", PATH, "", "Another configuration file instead of this one.")
        .unserved("a second configuration instead of the first: use include"),
    global("registry shares", BOOL, "no", "Shares from the registry.").unserved(REGISTRY),
    global("auto services", TEXT, "", "Shares made for these users at start.")
        .also(&["preload"])
        .unserved("home directories"),
    global("default service", TEXT, "", "The share for those who ask for one that is not there.")
        .also(&["default"])
        .unserved("a share in place of missing ones"),
    global("usershare allow guests", BOOL, "no", "Let such shares be open to guests.").unserved(USERSHARES),
    global("usershare max shares", NUMBER, "100", "How many shares users may make.").unserved(USERSHARES),
    global("usershare owner only", BOOL, "yes", "Let users share their own directories only.").unserved(USERSHARES),
    global("usershare path", PATH, "/var/lib/samba/usershares", "Where they are kept.").unserved(USERSHARES),
    global("usershare prefix allow list", LIST, "", "Where shared directories may lie.").unserved(USERSHARES),
    global("usershare prefix deny list", LIST, "", "Where they may not lie.").unserved(USERSHARES),
    global("usershare template share", TEXT, "", "The section that they are made by.").unserved(USERSHARES),
    global("add share command", TEXT, "", "A command that adds a share to the file.").unserved(COMMANDS),
    global("change share command", TEXT, "", "A command that changes one.").unserved(COMMANDS),
    global("delete share command", TEXT, "", "A command that deletes one.").unserved(COMMANDS),
    global("shutdown script", TEXT, "", "A command that shuts the host down.").unserved(COMMANDS),
    global("abort shutdown script", TEXT, "", "A command that stops the shutdown.").unserved(COMMANDS),
    global("message command", TEXT, "", "A command that gets pop-up messages.").unserved(COMMANDS),
    global("svcctl list", TEXT, "", "Services that clients may start.").unserved(COMMANDS),
    global("eventlog list", TEXT, "", "Event logs that clients may read.").unserved("event logs"),
    global("perfcount module", TEXT, "", "The source of performance counters.")
        .unserved("performance counters over RPC"),
    global("preload modules", TEXT, "", "Modules that are loaded at start.").accepted("there are no modules to load"),
    global("server services", TEXT, "", "Services of the samba process.").unserved(SERVICES),
    global("prefork children", NUMBER, "4", "Processes per service.").accepted(ONE_PROCESS),
    global("prefork backoff increment", NUMBER, "10", "Seconds before one is started again.").accepted(ONE_PROCESS),
    global("prefork maximum backoff", NUMBER, "120", "The most of them.").accepted(ONE_PROCESS),
    global("clustering", BOOL, "no", "Be part of a ctdb cluster.").unserved("clusters"),
    global("cluster addresses", TEXT, "", "The cluster's addresses.").unserved("clusters"),
    global("ctdbd socket", PATH, "", "The socket of ctdbd.").unserved("clusters"),
    global("ctdb timeout", NUMBER, "0", "Seconds before ctdbd is taken for dead.").unserved("clusters"),
    global("ctdb locktime warn threshold", NUMBER, "0", "Milliseconds of a lock that are logged.").unserved("clusters"),
    global("allow unsafe cluster upgrade", BOOL, "no", "Let nodes have several versions.").unserved("clusters"),
];
