//! The settings that only the process needs.

use std::path::PathBuf;
use std::time::Duration;

use super::lists::{InterfaceChoice, LogLevel, SocketOption};
use accounts::PassdbBackend;
use server::policy::printing::CommandLine;

/// The settings of the process. Fields are named after their smb.conf parameters.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Daemon {
    /// `smb ports`. 139 is the NetBIOS session service, any other direct TCP.
    pub smb_ports: Vec<u16>,
    /// `interfaces`; empty means all.
    pub interfaces: Vec<InterfaceChoice>,
    /// `bind interfaces only`: listen on the addresses of `interfaces` and no others.
    pub bind_interfaces_only: bool,
    /// `multicast dns register`.
    pub multicast_dns_register: bool,
    /// `mdns name = mdns`: multicast DNS announces the services under the host's name instead of `netbios name`.
    pub mdns_host_name: bool,
    /// `frevo:metrics port`; 0 means none.
    pub metrics_port: u16,
    /// `frevo:console` and related parameters.
    pub console: ConsoleSettings,
    /// `frevo:ws discovery`.
    pub ws_discovery: bool,
    /// `frevo:netbios name service` without `disable netbios`.
    pub netbios_name_service: bool,
    /// `netbios aliases`: other names, which the NetBIOS name service and LLMNR announce.
    pub netbios_aliases: Vec<String>,
    /// `netbios scope`.
    pub netbios_scope: String,
    /// `frevo:llmnr`.
    pub llmnr: bool,
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
    /// `obey pam restrictions`: logons need the consent of PAM.
    pub obey_pam_restrictions: bool,
    /// `cups server` and related parameters.
    pub printing: printing::Settings,
    /// The commands of print shares, also of those of single queues.
    pub print_commands: Vec<CommandLine>,
    /// `frevo:sandbox`.
    pub sandbox: bool,
    /// `frevo:openid issuer` and related parameters, for the console; `None` without an issuer.
    pub openid: Option<super::openid::OpenId>,
}

impl Daemon {
    /// Returns the parameters that differ in `now` but are read only when a server starts.
    pub fn changed_until_restart(&self, now: &Daemon) -> Vec<&'static str> {
        let changed = [
            (self.passdb_backend != now.passdb_backend, "`passdb backend` and the parameters of its back ends"),
            (self.kerberos != now.kerberos, "the Kerberos parameters"),
            (self.smb_ports != now.smb_ports, "`smb ports`"),
            (self.bind_interfaces_only != now.bind_interfaces_only, "`bind interfaces only`"),
            (!self.netbios_name_service && now.netbios_name_service, "`frevo:netbios name service`"),
            (self.state_directory != now.state_directory, "`state directory`"),
            ((&self.log, self.max_log_size) != (&now.log, now.max_log_size), "the log file parameters"),
            (
                (&self.socket_options, self.keepalive, self.dead_time)
                    != (&now.socket_options, now.keepalive, now.dead_time),
                "the connection parameters (`socket options`, `keepalive`, `deadtime`)",
            ),
            (self.obey_pam_restrictions != now.obey_pam_restrictions, "`obey pam restrictions`"),
            (self.acl_cache != now.acl_cache, "`frevo:acl cache`"),
            (self.sandbox != now.sandbox, "`frevo:sandbox`"),
            (
                now.print_commands.iter().any(|command| !self.print_commands.contains(command)),
                "`print command` and `lpq command`",
            ),
            (self.metrics_port != now.metrics_port, "`frevo:metrics port`"),
            (self.console != now.console, "`frevo:console` and its parameters"),
        ];
        changed.into_iter().filter_map(|(changed, what)| changed.then_some(what)).collect()
    }
}

/// The web console.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ConsoleSettings {
    /// `frevo:console`: the server starts it.
    pub enabled: bool,
    /// `frevo:console listen`: addresses, with or without ports, and absolute paths. Empty means the default.
    pub listen: Vec<String>,
    /// `frevo:console host`.
    pub hosts: Vec<String>,
    /// `frevo:console certificate`.
    pub certificate: Option<PathBuf>,
    /// `frevo:console key`.
    pub key: Option<PathBuf>,
    /// `frevo:console admin groups`.
    pub admin_groups: Vec<String>,
    /// `frevo:console pam service`.
    pub pam_service: Option<String>,
}

/// The log's destination.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum LogTarget {
    /// The standard error output, which systemd keeps in its journal.
    #[default]
    StandardError,
    /// `log file`.
    File(PathBuf),
}
