//! Stage two, the process's part: settings that only the daemon needs.

use std::path::PathBuf;
use std::time::Duration;

use server::policy::Limits;

use super::lists::{self, InterfaceChoice, LogLevel, SocketOption};
use super::problem::{Code, error, note};
use super::reader::Reader;
use crate::interfaces::Interface;
use accounts::{PassdbBackend, ldap, smbpasswd};

/// The lowest `algorithmic rid base` that Samba accepts: lower RIDs belong to Windows.
const LOWEST_RID_BASE: u32 = 1000;

/// The settings of the process. Fields are named after their smb.conf parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Daemon {
    /// `smb ports`. 139 is the NetBIOS session service, any other direct TCP.
    pub smb_ports: Vec<u16>,
    /// `interfaces`; empty means all.
    pub interfaces: Vec<InterfaceChoice>,
    /// `bind interfaces only`: listen on the addresses of `interfaces` and no others.
    pub bind_interfaces_only: bool,
    /// `state directory`; `None` if the configuration does not set it.
    pub state_directory: Option<PathBuf>,
    /// `private dir`; `None` means the state directory.
    pub private_dir: Option<PathBuf>,
    /// `pid directory`; `None` if the configuration does not set it.
    pub pid_directory: Option<PathBuf>,
    /// The log's destination.
    pub log: LogTarget,
    /// `log level`.
    pub log_level: LogLevel,
    /// `max log size`, bytes; 0 means no limit.
    pub max_log_size: u64,
    /// `passdb backend`: the back ends in which user accounts are searched, in this order. New accounts go to the
    /// first.
    pub passdb_backend: Vec<PassdbBackend>,
    /// `kerberos method` and related parameters; `None` if Kerberos tickets are not accepted.
    pub kerberos: Option<super::kerberos::Settings>,
    /// `idmap config` of the server's own domain; `None` if winbindd must map the ids of its users.
    pub idmap: Option<winbind::idmap::Map>,
    /// `username map`; `None` if names are not mapped.
    pub username_map: Option<PathBuf>,
    /// `username map cache time`: how long the file is assumed to be unchanged.
    pub username_map_cache_time: Duration,
    /// `deadtime`: a connection without open files is closed after this time; `None` means never.
    pub dead_time: Option<Duration>,
    /// `keepalive`: TCP probes the client after this much idle time; `None` means never.
    pub keepalive: Option<Duration>,
    /// `socket options`.
    pub socket_options: Vec<SocketOption>,
    /// `max smbd processes`: concurrent clients; 0 means the built-in limit. Also in the policy's limits.
    pub max_smbd_processes: usize,
    /// `max open files`: per session. Also in the policy's limits.
    pub max_open_files: usize,
    /// `frevo:memory limit`: bytes of memory that the server may use; `None` means a fraction of the host's memory.
    pub memory_limit: Option<usize>,
    /// `frevo:acl cache`: bytes for cached security descriptors. Also in the policy's limits.
    pub acl_cache: u64,
    /// `frevo:sandbox`.
    pub sandbox: bool,
}

impl Daemon {
    /// Returns the interfaces in `all` that are served: all of them if `interfaces` is empty.
    pub fn served<'i>(&self, all: &'i [Interface]) -> Vec<&'i Interface> {
        let chosen = |interface: &&Interface| {
            self.interfaces.is_empty()
                || self.interfaces.iter().any(|choice| choice.pattern.matches(&interface.name, interface.address))
        };
        all.iter().filter(chosen).collect()
    }

    /// Returns the parameters that differ in `now` but are read only when a server starts.
    pub fn changed_until_restart(&self, now: &Daemon) -> Vec<&'static str> {
        let changed = [
            (self.passdb_backend != now.passdb_backend, "`passdb backend` and the parameters of its back ends"),
            (self.kerberos != now.kerberos, "the Kerberos parameters"),
            (self.smb_ports != now.smb_ports, "`smb ports`"),
            (
                (&self.interfaces, self.bind_interfaces_only) != (&now.interfaces, now.bind_interfaces_only),
                "`interfaces`",
            ),
            (self.state_directory != now.state_directory, "`state directory`"),
            ((&self.log, self.max_log_size) != (&now.log, now.max_log_size), "the log file parameters"),
            (
                (&self.socket_options, self.keepalive, self.dead_time)
                    != (&now.socket_options, now.keepalive, now.dead_time),
                "the connection parameters (`socket options`, `keepalive`, `deadtime`)",
            ),
            (self.acl_cache != now.acl_cache, "`frevo:acl cache`"),
            (self.sandbox != now.sandbox, "`frevo:sandbox`"),
        ];
        changed.into_iter().filter_map(|(changed, what)| changed.then_some(what)).collect()
    }
}

/// The log's destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogTarget {
    /// The standard error output, which systemd keeps in its journal.
    StandardError,
    /// `log file`.
    File(PathBuf),
}

/// Reads the settings of the process.
pub(super) fn build(global: &Reader<'_>) -> Daemon {
    let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
    let positive = |name| global.number::<u64>(name).filter(|number| *number > 0);
    Daemon {
        smb_ports: ports(global),
        interfaces: interfaces(global),
        bind_interfaces_only: global.boolean("bind interfaces only"),
        state_directory: directory(global, "state directory"),
        private_dir: directory(global, "private dir"),
        pid_directory: directory(global, "pid directory"),
        log: log(global),
        log_level: lists::log_level(&global.list("log level")).unwrap_or_else(|wrong| {
            global.bad_value("log level", &wrong, "a number from 0 to 10, and class:number for single classes");
            LogLevel { level: 2, classes: Vec::new() }
        }),
        max_log_size: global.bytes("max log size").saturating_mul(1024),
        passdb_backend: passdb_backend(global),
        kerberos: super::kerberos::build(global),
        // Parameters with a domain in their names are read by `idmap.rs`.
        idmap: None,
        username_map: directory(global, "username map"),
        username_map_cache_time: Duration::from_secs(global.number("username map cache time").unwrap_or(0)),
        dead_time: positive("deadtime").map(minutes),
        keepalive: positive("keepalive").map(Duration::from_secs),
        socket_options: socket_options(global),
        max_smbd_processes: global.number("max smbd processes").unwrap_or(0),
        max_open_files: global.number("max open files").unwrap_or(0),
        memory_limit: memory_limit(global),
        acl_cache: global.bytes("frevo:acl cache"),
        sandbox: global.boolean("frevo:sandbox"),
    }
}

fn memory_limit(global: &Reader<'_>) -> Option<usize> {
    let bytes = usize::try_from(global.bytes("frevo:memory limit")).unwrap_or(usize::MAX);
    if (1..Limits::LEAST_MEMORY).contains(&bytes) {
        let value = global.text("frevo:memory limit");
        global.bad_value("frevo:memory limit", &value, "at least 128M, or 0 for a quarter of the host's memory");
    }
    (bytes > 0).then_some(bytes)
}

fn ports(global: &Reader<'_>) -> Vec<u16> {
    let mut ports = Vec::new();
    for element in global.list("smb ports") {
        match element.parse::<u16>() {
            Ok(port) if port > 0 => {
                if !ports.contains(&port) {
                    ports.push(port);
                }
            }
            _ => global.bad_value("smb ports", &element, "port numbers from 1 to 65535, such as 445 139"),
        }
    }
    if ports.is_empty() {
        let problem = error(Code::BadValue, "`smb ports` has no port: no client could connect");
        global.report("smb ports", problem.remedy("allowed: port numbers from 1 to 65535, such as 445 139"));
    }
    ports
}

fn interfaces(global: &Reader<'_>) -> Vec<InterfaceChoice> {
    let mut interfaces = Vec::new();
    for element in global.list("interfaces") {
        match lists::interface(&element) {
            Some(interface) => interfaces.push(interface),
            None => {
                let allowed = "names (eth0, eth*), addresses and networks (192.168.2.10/24), each with \
                               an optional ;speed=BITS,capability=RSS,if_index=NUMBER";
                global.bad_value("interfaces", &element, allowed);
            }
        }
    }
    interfaces
}

/// Returns a path that the configuration sets; `None` if it is not set or empty.
pub(super) fn directory(global: &Reader<'_>, name: &str) -> Option<PathBuf> {
    if !global.is_set(name) {
        // The default in the table is only for the manual.
        return None;
    }
    let path = PathBuf::from(global.text(name));
    if path.as_os_str().is_empty() {
        return None;
    }
    if !path.is_absolute() {
        global.bad_value(name, &path.display().to_string(), "an absolute path");
    }
    Some(path)
}

fn log(global: &Reader<'_>) -> LogTarget {
    let targets = global.list("logging");
    let mut to_file = targets.is_empty();
    for target in &targets {
        match target.split('@').next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "file" => to_file = true,
            "syslog" | "systemd" => {}
            _ => global.bad_value("logging", target, "file, syslog, systemd"),
        }
    }
    // In Samba `%m` gives each client its own log. A single process writes a single log.
    let template = global.template("log file");
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
        global.bad_value("log file", &path.display().to_string(), "an absolute path");
    }
    if replaced {
        let problem = note(Code::Variable, format!("all clients share one log: {}", path.display()));
        global.report("log file", problem.remedy("each line of the log names its client"));
    }
    LogTarget::File(path)
}

pub(super) fn passdb_backend(global: &Reader<'_>) -> Vec<PassdbBackend> {
    let mut backends = Vec::new();
    let (smbpasswd, directory) = (smbpasswd_place(global), super::ldap::settings(global));
    // A percent sign in an `ldapi` URI does not start a variable.
    for element in global.plain_list("passdb backend") {
        let (kind, place) = element.split_once(':').unwrap_or((&element, ""));
        let backend = match kind.to_ascii_lowercase().as_str() {
            "tdbsam" => {
                if global.is_set("passdb backend") {
                    let problem = note(Code::Accepted, "`passdb backend` = tdbsam means Frevo's embedded database");
                    let remedy = "import Samba's accounts with `pdbedit -L -w | frevo user import -`";
                    global.report("passdb backend", problem.remedy(remedy));
                }
                PassdbBackend::Embedded
            }
            "embedded" => PassdbBackend::Embedded,
            "smbpasswd" if place.is_empty() => PassdbBackend::Smbpasswd(smbpasswd.clone()),
            "smbpasswd" => {
                if !place.starts_with('/') {
                    global.bad_value("passdb backend", place, "an absolute path after smbpasswd:");
                }
                PassdbBackend::Smbpasswd(smbpasswd::Place { file: place.into(), ..smbpasswd })
            }
            "ldapsam" => match ::ldap::Uri::list(place) {
                Ok(servers) => {
                    let name = element.clone();
                    PassdbBackend::Ldap(Box::new(ldap::Settings { name, servers, ..directory.clone() }))
                }
                Err(error) => {
                    global.bad_value("passdb backend", &element, &format!("URIs of LDAP servers; {error}"));
                    continue;
                }
            },
            _ => {
                let allowed = "embedded or tdbsam, the embedded database; smbpasswd:FILE, Samba's text file; \
                               ldapsam:\"URI URI\", an LDAP directory";
                global.bad_value("passdb backend", kind, allowed);
                continue;
            }
        };
        if !backends.contains(&backend) {
            backends.push(backend);
        }
    }
    if backends.is_empty() {
        backends.push(PassdbBackend::Embedded);
    }
    backends
}

/// Returns the smbpasswd file to use if `passdb backend` names none. RIDs begin where Samba's begin.
fn smbpasswd_place(global: &Reader<'_>) -> smbpasswd::Place {
    let file = PathBuf::from(global.text("smb passwd file"));
    if !file.is_absolute() {
        global.bad_value("smb passwd file", &file.display().to_string(), "an absolute path");
    }
    let base = global.number::<u32>("algorithmic rid base").unwrap_or(LOWEST_RID_BASE);
    let rid_base = base.clamp(LOWEST_RID_BASE, u32::MAX - 1).next_multiple_of(2);
    if rid_base != base {
        let problem = note(Code::BadValue, format!("`algorithmic rid base` = {base} is read as {rid_base}"));
        global.report("algorithmic rid base", problem.remedy("allowed: even numbers, 1000 or more"));
    }
    smbpasswd::Place { file, rid_base }
}

fn socket_options(global: &Reader<'_>) -> Vec<SocketOption> {
    let mut options = Vec::new();
    for element in global.list("socket options") {
        match lists::socket_option(&element) {
            Some(option) => options.push(option),
            None => {
                let allowed = "TCP_NODELAY, SO_KEEPALIVE, SO_RCVBUF=65536 and other options of socket(7) and tcp(7)";
                global.bad_value("socket options", &element, allowed);
            }
        }
    }
    options
}
