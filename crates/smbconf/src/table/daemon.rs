//! The process: directories, log and limits.

use super::{BOOL, BYTES, COMMANDS, COUNT, LIST, NUMBER, PATH, Parameter, TEXT, global};

const ONE_PROCESS: &str = "one process serves all clients";
const LOG_LINES: &str = "each line of the log has its time, level and module";
const TDB: &str = "there are no tdb files";
const USERSHARES: &str = "shares created by users";
const REGISTRY: &str = "Samba's registry";
const SERVICES: &str = "Samba's other services";

pub(super) static TABLE: &[Parameter] = &[
    global(
        "state directory",
        PATH,
        "/var/lib/frevo",
        "Directory of the user database and other state; Samba: /var/lib/samba.",
    ),
    global("private dir", PATH, "", "Directory of secrets; empty: the state directory.").also(&["private directory"]),
    global("pid directory", PATH, "/run/frevo", "Directory of the PID file; Samba: /run/samba."),
    global(
        "log file",
        PATH,
        "",
        "The log file; empty: the standard error output. There is a single log, so %m means frevo.",
    ),
    global("log level", LIST, "2", "Verbosity of the log, 0 to 10; class:level for single classes. Samba: 1.")
        .also(&["debug level"]),
    global(
        "frevo:memory limit",
        BYTES,
        "0",
        "Bytes of memory that the server may use; 0: a quarter of the machine's or cgroup's memory.",
    ),
    global("max log size", BYTES, "5000", "Size in KiB at which the log file is renamed to .old; 0: never."),
    global("logging", LIST, "", "Destination of the log: file; syslog and systemd mean the standard error output."),
    global(
        "frevo:sandbox",
        BOOL,
        "yes",
        "Give up privileges and system calls that serving does not need. Not in Samba.",
    ),
    global("max smbd processes", COUNT, "0", "Maximum number of connected clients; 0: the built-in limit."),
    global("max open files", COUNT, "65536", "Maximum number of open files per session; Samba: 16424."),
    global("timestamp logs", BOOL, "yes", "Begin log lines with the time.")
        .also(&["debug timestamp"])
        .accepted(LOG_LINES),
    global("debug pid", BOOL, "no", "Log the process id.").accepted(ONE_PROCESS),
    global("debug uid", BOOL, "no", "Log the effective user and group.").accepted(LOG_LINES),
    global("debug class", BOOL, "no", "Log the debug class.").accepted(LOG_LINES),
    global("debug hires timestamp", BOOL, "yes", "Log microseconds.").accepted(LOG_LINES),
    global("debug prefix timestamp", BOOL, "no", "Log only a time stamp as the header.").accepted(LOG_LINES),
    global("debug syslog format", TEXT, "no", "Log lines in the format of syslog.").accepted(LOG_LINES),
    global("debug encryption", BOOL, "no", "Log session keys.")
        .unserved("logging of session keys, because they decrypt all traffic"),
    global("winbind debug traceid", BOOL, "no", "Log requests of winbindd by number.").unserved(SERVICES),
    global("syslog", NUMBER, "1", "Verbosity of messages to syslog.")
        .accepted("logging selects the destination of the log"),
    global("syslog only", BOOL, "no", "Log to syslog only.").accepted("logging selects the destination of the log"),
    global("log writeable files on exit", BOOL, "no", "Log files that are open for writing when a connection ends.")
        .unserved("the log of open files at exit"),
    global("smbd profiling level", TEXT, "off", "Count calls and times.").accepted("frevo status shows the counters"),
    global("utmp", BOOL, "no", "Record sessions in utmp.").unserved("utmp"),
    global("utmp directory", PATH, "", "The directory of utmp.").unserved("utmp"),
    global("wtmp directory", PATH, "", "The directory of wtmp.").unserved("utmp"),
    global("cache directory", PATH, "/var/cache/samba", "Samba's cache directory.").accepted(TDB),
    global("lock directory", PATH, "/run/samba", "Samba's lock directory.").also(&["lock dir"]).accepted(TDB),
    global("ncalrpc dir", PATH, "/run/samba/ncalrpc", "Directory of local RPC sockets.")
        .accepted("no RPC server listens locally"),
    global("panic action", TEXT, "", "A command to run when the server crashes.").unserved(COMMANDS),
    global("enable core files", BOOL, "yes", "Write core files.")
        .accepted("core files are never written, because they would contain passwords"),
    global("config backend", TEXT, "file", "The storage of the configuration.").unserved(REGISTRY),
    global("config file", PATH, "", "Another configuration file instead of this one.")
        .unserved("replacement of the configuration file; use include"),
    global("registry shares", BOOL, "no", "Shares from the registry.").unserved(REGISTRY),
    global("auto services", TEXT, "", "Shares created for these users at start.")
        .also(&["preload"])
        .unserved("home directories"),
    global("default service", TEXT, "", "The share that replaces unknown shares.")
        .also(&["default"])
        .unserved("a substitute for unknown shares"),
    global("usershare allow guests", BOOL, "no", "Allow guest access to user-defined shares.").unserved(USERSHARES),
    global("usershare max shares", NUMBER, "100", "Maximum number of user-defined shares.").unserved(USERSHARES),
    global("usershare owner only", BOOL, "yes", "Let users share their own directories only.").unserved(USERSHARES),
    global("usershare path", PATH, "/var/lib/samba/usershares", "Directory of user-defined shares.")
        .unserved(USERSHARES),
    global("usershare prefix allow list", LIST, "", "Allowed locations of user-defined shares.").unserved(USERSHARES),
    global("usershare prefix deny list", LIST, "", "Forbidden locations of user-defined shares.").unserved(USERSHARES),
    global("usershare template share", TEXT, "", "The section that is the template of user-defined shares.")
        .unserved(USERSHARES),
    global("add share command", TEXT, "", "A command that adds a share to the file.").unserved(COMMANDS),
    global("change share command", TEXT, "", "A command that changes a share in the file.").unserved(COMMANDS),
    global("delete share command", TEXT, "", "A command that deletes a share from the file.").unserved(COMMANDS),
    global("shutdown script", TEXT, "", "A command that shuts the host down.").unserved(COMMANDS),
    global("abort shutdown script", TEXT, "", "A command that stops the shutdown.").unserved(COMMANDS),
    global("message command", TEXT, "", "A command that receives pop-up messages.").unserved(COMMANDS),
    global("svcctl list", TEXT, "", "Services that clients may start.").unserved(COMMANDS),
    global("eventlog list", TEXT, "", "Event logs that clients may read.").unserved("event logs"),
    global("perfcount module", TEXT, "", "The source of performance counters.")
        .unserved("performance counters over RPC"),
    global("preload modules", TEXT, "", "Modules that are loaded at start.").accepted("there are no loadable modules"),
    global("server services", TEXT, "", "Services of the samba process.").unserved(SERVICES),
    global("prefork children", NUMBER, "4", "Processes per service.").accepted(ONE_PROCESS),
    global("prefork backoff increment", NUMBER, "10", "Seconds before a failed process is restarted.")
        .accepted(ONE_PROCESS),
    global("prefork maximum backoff", NUMBER, "120", "Maximum of that delay in seconds.").accepted(ONE_PROCESS),
    global("clustering", BOOL, "no", "Be part of a ctdb cluster.").unserved("clusters"),
    global("cluster addresses", TEXT, "", "The cluster's addresses.").unserved("clusters"),
    global("ctdbd socket", PATH, "", "The socket of ctdbd.").unserved("clusters"),
    global("ctdb timeout", NUMBER, "0", "Seconds before ctdbd is considered dead.").unserved("clusters"),
    global("ctdb locktime warn threshold", NUMBER, "0", "Lock time in milliseconds that is logged.")
        .unserved("clusters"),
    global("allow unsafe cluster upgrade", BOOL, "no", "Allow nodes with different versions.").unserved("clusters"),
];
