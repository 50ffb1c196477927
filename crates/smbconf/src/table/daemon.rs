//! The process: directories, log and limits.

use std::net::SocketAddr;
use std::path::PathBuf;

use server::policy::Limits;

use super::{
    BOOL, BYTES, COMMANDS, CONTROLLERS_ONLY, COUNT, Kind, LIST, NUMBER, PATH, Parameter, TEXT, WINBINDD, audit, global,
};
use crate::daemon::LogTarget;
use crate::lists::{self, LogLevel};
use crate::problem::{Code, note};
use crate::reader::ValueReader;

const ONE_PROCESS: &str = "one process serves all clients";
const LOG_LINES: &str = "each line of the log has its time, level and module";
const TDB: &str = "there are no tdb files";
const ONLY_IN_CLUSTERS: &str = "it is used only with clustering";
const ONLY_WITH_UTMP: &str = "it is used only with utmp";

pub(crate) const STATE_DIRECTORY: Parameter = global(
    "state directory",
    PATH,
    "/var/lib/frevo",
    "Directory of the user database and other state; Samba: /var/lib/samba.",
)
.reads(|value, global| global.daemon.state_directory = directory(value));

const LOGGING: Parameter =
    global("logging", LIST, "", "Destination of the log: file; syslog and systemd mean the standard error output.")
        .read_by_others();

pub(crate) const SANDBOX: Parameter = global(
    "frevo:sandbox",
    BOOL,
    "yes",
    "Give up privileges and system calls that serving does not need. Not in Samba.",
)
.reads(|value, global| global.daemon.sandbox = value.boolean());

pub(crate) const CONSOLE: Parameter = global(
    "frevo:console",
    BOOL,
    "no",
    "Start the web console with the server, as a process of its own. Not in Samba.",
)
.reads(|value, global| global.daemon.console.enabled = value.boolean());

pub(crate) const CONFIG_BACKEND: Parameter =
    global("config backend", TEXT, "file", "registry: like include = registry. Any other value: the file itself.")
        .read_by_others();

pub(crate) const REGISTRY_SHARES: Parameter = global(
    "registry shares",
    BOOL,
    "no",
    "Also serve the shares in registry.conf, next to this file: the output of `net conf list`.",
)
.read_by_others();

pub(crate) const CONFIG_FILE: Parameter =
    global("config file", PATH, "", "Another configuration file instead of this one.")
        .unserved("replacement of the configuration file; use include");

pub(super) static TABLE: &[Parameter] = &[
    STATE_DIRECTORY,
    global("private dir", PATH, "", "Directory of secrets; empty: the state directory.")
        .also(&["private directory"])
        .reads(|value, global| global.daemon.private_dir = directory(value)),
    global("pid directory", PATH, "/run/frevo", "Directory of the PID file; Samba: /run/samba.")
        .reads(|value, global| global.daemon.pid_directory = directory(value)),
    global(
        "log file",
        PATH,
        "",
        "The log file; empty: the standard error output. There is a single log, so %m means frevo.",
    )
    .reads(|value, global| global.daemon.log = log_target(value)),
    global("log level", LIST, "2", "Verbosity of the log, 0 to 10; class:level for single classes. Samba: 1.")
        .also(&["debug level"])
        .reads(|value, global| {
            global.daemon.log_level = log_level(value);
            global.policy.logon_audit = audit::logons(&value.section, &global.daemon.log_level);
            global.policy.administration_audit = audit::administration(&value.section);
        }),
    global(
        "frevo:memory limit",
        BYTES,
        "0",
        "Bytes of memory that the server may use; 0: a quarter of the machine's or cgroup's memory.",
    )
    .reads(|value, global| global.daemon.memory_limit = memory_limit(value)),
    global(
        "frevo:metrics port",
        Kind::Integer(0, 65_535),
        "0",
        "Port on 127.0.0.1 and [::1] at which Prometheus reads metrics; 0: none. Not in Samba.",
    )
    .reads(|value, global| global.daemon.metrics_port = value.number().unwrap_or(0)),
    CONSOLE,
    global(
        "frevo:console listen",
        LIST,
        "127.0.0.1:7445",
        "Addresses with ports, and paths of UNIX sockets, of the web console. Not in Samba.",
    )
    .reads(|value, global| global.daemon.console.listen = console_places(value)),
    global("frevo:console host", LIST, "", "Host names by which browsers may call the web console. Not in Samba.")
        .reads(|value, global| global.daemon.console.hosts = value.list()),
    global("frevo:console certificate", PATH, "", "PEM file with the certificate of the web console. Not in Samba.")
        .reads(|value, global| global.daemon.console.certificate = directory(value)),
    global("frevo:console key", PATH, "", "PEM file with the private key of the web console. Not in Samba.")
        .reads(|value, global| global.daemon.console.key = directory(value)),
    global(
        "frevo:console admin groups",
        LIST,
        "",
        "UNIX groups whose members may log on to the web console; empty: sudo and wheel. Not in Samba.",
    )
    .reads(|value, global| global.daemon.console.admin_groups = value.list()),
    global(
        "frevo:console pam service",
        TEXT,
        "",
        "PAM service of the web console; empty: frevo or login. Not in Samba.",
    )
    .reads(|value, global| global.daemon.console.pam_service = Some(value.text()).filter(|it| !it.is_empty())),
    global(
        "frevo:worker threads",
        Kind::Integer(4, 192),
        "48",
        "Threads of a file system for calls that wait for it; one user occupies a quarter. Not in Samba.",
    )
    .reads(|value, global| global.policy.limits.worker_threads = value.number().unwrap_or(48)),
    global("max log size", BYTES, "5000", "Size in KiB at which the log file is renamed to .old; 0: never.")
        .reads(|value, global| global.daemon.max_log_size = value.bytes().saturating_mul(1024)),
    LOGGING,
    SANDBOX,
    global("max smbd processes", COUNT, "0", "Maximum number of connected clients; 0: the built-in limit.").reads(
        |value, global| {
            global.daemon.max_smbd_processes = value.number().unwrap_or(0);
            if global.daemon.max_smbd_processes > 0 {
                global.policy.limits.connections = global.daemon.max_smbd_processes;
            }
        },
    ),
    global("max open files", COUNT, "65536", "Maximum number of open files per session; Samba: 16424.").reads(
        |value, global| {
            global.daemon.max_open_files = value.number().unwrap_or(0);
            if global.daemon.max_open_files > 0 {
                global.policy.limits.opens_per_session = global.daemon.max_open_files;
            }
        },
    ),
    global("timestamp logs", BOOL, "yes", "Begin log lines with the time.")
        .also(&["debug timestamp"])
        .accepted(LOG_LINES),
    global("debug pid", BOOL, "no", "Log the process id in each line.").accepted(ONE_PROCESS),
    global("debug uid", BOOL, "no", "Log the effective user and group.").accepted(LOG_LINES),
    global("debug class", BOOL, "no", "Log the debug class.").accepted(LOG_LINES),
    global("debug hires timestamp", BOOL, "yes", "Log times with microseconds.").accepted(LOG_LINES),
    global("debug prefix timestamp", BOOL, "no", "Log only a time stamp as the header.").accepted(LOG_LINES),
    global("debug syslog format", TEXT, "no", "Log lines in the format of syslog.").accepted(LOG_LINES),
    global("debug encryption", BOOL, "no", "Log the keys of sessions.")
        .unserved("logging of session keys, because they decrypt all traffic"),
    global("winbind debug traceid", BOOL, "no", "Log requests of winbindd by number.").accepted(WINBINDD),
    global("syslog", NUMBER, "1", "Verbosity of messages to syslog.")
        .accepted("logging selects the destination of the log"),
    global("syslog only", BOOL, "no", "Log to syslog instead of the log file.")
        .accepted("logging selects the destination of the log"),
    global("log writeable files on exit", BOOL, "no", "Log files that are open for writing when a connection ends.")
        .unserved("the log of open files at exit"),
    global("smbd profiling level", TEXT, "off", "Count calls and times.")
        .accepted("Frevo does not keep Samba's profiling counters"),
    global("utmp", BOOL, "no", "Record sessions in utmp.").unserved("utmp"),
    global("utmp directory", PATH, "", "The directory of utmp.").accepted(ONLY_WITH_UTMP),
    global("wtmp directory", PATH, "", "The directory of wtmp.").accepted(ONLY_WITH_UTMP),
    global("cache directory", PATH, "/var/cache/samba", "The directory of Samba's caches.").accepted(TDB),
    global("lock directory", PATH, "/run/samba", "The directory of Samba's lock databases.")
        .also(&["lock dir"])
        .accepted(TDB),
    global("ncalrpc dir", PATH, "/run/samba/ncalrpc", "Directory of local RPC sockets.")
        .accepted("no RPC server listens locally"),
    global("panic action", TEXT, "", "A command to run when the server crashes.")
        .accepted("it is for finding errors in Samba's own processes"),
    global("enable core files", BOOL, "yes", "Write a core file after a crash.")
        .accepted("core files are never written, because they would contain passwords"),
    CONFIG_BACKEND,
    CONFIG_FILE,
    REGISTRY_SHARES,
    global("auto services", TEXT, "", "Shares created for these users at start.")
        .also(&["preload"])
        .unserved("home directories"),
    global("default service", TEXT, "", "The share that replaces unknown shares.")
        .also(&["default"])
        .unserved("a substitute for unknown shares"),
    global("add share command", TEXT, "", "A command that adds a share to the file.").unserved(COMMANDS),
    global("change share command", TEXT, "", "A command that changes a share in the file.").unserved(COMMANDS),
    global("delete share command", TEXT, "", "A command that deletes a share from the file.").unserved(COMMANDS),
    global("shutdown script", TEXT, "", "A command that shuts the host down.").unserved(COMMANDS),
    global("abort shutdown script", TEXT, "", "A command that stops the shutdown.").unserved(COMMANDS),
    global("message command", TEXT, "", "A command that receives pop-up messages.")
        .accepted("SMB 2 has no pop-up messages"),
    global("svcctl list", TEXT, "", "Services that clients may start.").unserved(COMMANDS),
    global("eventlog list", TEXT, "", "Event logs that clients may read.").unserved("event logs"),
    global("perfcount module", TEXT, "", "The source of performance counters.")
        .unserved("performance counters over RPC"),
    global("preload modules", TEXT, "", "Modules that are loaded at start.").accepted("there are no loadable modules"),
    global("server services", TEXT, "", "Services of the samba process.").accepted(CONTROLLERS_ONLY),
    global("prefork children", NUMBER, "4", "Number of processes per service.").accepted(ONE_PROCESS),
    global("prefork backoff increment", NUMBER, "10", "Seconds before a failed process is restarted.")
        .accepted(ONE_PROCESS),
    global("prefork maximum backoff", NUMBER, "120", "Maximum of that delay in seconds.").accepted(ONE_PROCESS),
    global("clustering", BOOL, "no", "Be part of a ctdb cluster.").unserved("clusters"),
    global("cluster addresses", TEXT, "", "The addresses of the cluster.").accepted(ONLY_IN_CLUSTERS),
    global("ctdbd socket", PATH, "", "The socket of ctdbd.").accepted(ONLY_IN_CLUSTERS),
    global("ctdb timeout", NUMBER, "0", "Seconds before ctdbd is considered dead.").accepted(ONLY_IN_CLUSTERS),
    global("ctdb locktime warn threshold", NUMBER, "0", "Lock time in milliseconds that is logged.")
        .accepted(ONLY_IN_CLUSTERS),
    global("allow unsafe cluster upgrade", BOOL, "no", "Allow nodes with different versions.")
        .accepted(ONLY_IN_CLUSTERS),
];

/// Returns the places at which the console listens.
fn console_places(value: ValueReader<'_>) -> Vec<String> {
    let is_place = |text: &str| {
        text.starts_with('/') || text.parse::<std::net::IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok()
    };
    let (right, wrong): (Vec<_>, Vec<_>) = value.list().into_iter().partition(|text| is_place(text));
    for text in wrong {
        value.bad_value(&text, "addresses such as 127.0.0.1:7445 or [::1]:7445, and absolute paths of UNIX sockets");
    }
    right
}

/// Returns a path that the configuration sets; `None` if it is not set or empty.
pub(crate) fn directory(value: ValueReader<'_>) -> Option<PathBuf> {
    if !value.is_set() {
        // The default in the table is only for the manual.
        return None;
    }
    let path = PathBuf::from(value.text());
    if path.as_os_str().is_empty() {
        return None;
    }
    if !path.is_absolute() {
        value.bad_value(&path.display().to_string(), "an absolute path");
    }
    Some(path)
}

fn log_target(value: ValueReader<'_>) -> LogTarget {
    let logging = value.of(&LOGGING);
    let targets = logging.list();
    let mut to_file = targets.is_empty();
    for target in &targets {
        match target.split('@').next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "file" => to_file = true,
            "syslog" | "systemd" => {}
            _ => logging.bad_value(target, "file, syslog, systemd"),
        }
    }
    // In Samba `%m` gives each client its own log. A single process writes a single log.
    let template = value.template();
    let mut replaced = false;
    let path = template.expand(|_| {
        replaced = true;
        Some("frevo".to_owned())
    });
    let path = PathBuf::from(path.unwrap_or_default());
    if path.as_os_str().is_empty() || !to_file {
        return LogTarget::StandardError;
    }
    if !path.is_absolute() {
        value.bad_value(&path.display().to_string(), "an absolute path");
    }
    if replaced {
        let problem = note(Code::Variable, format!("all clients share one log: {}", path.display()));
        value.report(problem.remedy("each line of the log names its client"));
    }
    LogTarget::File(path)
}

fn log_level(value: ValueReader<'_>) -> LogLevel {
    lists::log_level(&value.list()).unwrap_or_else(|wrong| {
        value.ignored_value(&wrong, "a number from 0 to 10, and class:number or class:number@FILE for single classes");
        LogLevel::default()
    })
}

fn memory_limit(value: ValueReader<'_>) -> Option<usize> {
    let bytes = usize::try_from(value.bytes()).unwrap_or(usize::MAX);
    if (1..Limits::LEAST_MEMORY).contains(&bytes) {
        value.bad_value(&value.text(), "at least 128M, or 0 for a quarter of the host's memory");
    }
    (bytes > 0).then_some(bytes)
}
