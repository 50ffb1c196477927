//! The servers of the other protocols: nginx and vsftpd on loopback, each with a generated configuration, running as
//! the user of this program.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::child::{self, Child, ReservedPort};
use crate::probe::Processes;

/// A running server.
pub(super) struct Beside {
    /// The port on which it listens on this host.
    pub(super) port: u16,
    /// The processes whose resource use is measured.
    pub(super) processes: Processes,
    /// Its configuration.
    pub(super) configuration: String,
    // The server ends before its directory is removed.
    _child: Child,
    _directory: TempDir,
    _port: ReservedPort,
}

/// The kind of server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    /// nginx, with PUT and DELETE by its module ngx_http_dav_module.
    Nginx,
    /// vsftpd, with an anonymous user that may write.
    Vsftpd,
}

impl Kind {
    /// Returns the name of the program, which is also the Debian package.
    pub(super) fn program(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Vsftpd => "vsftpd",
        }
    }

    /// Returns its protocol.
    pub(super) fn protocol(self) -> &'static str {
        match self {
            Kind::Nginx => "HTTP",
            Kind::Vsftpd => "FTP",
        }
    }

    /// Starts it with its files under `place`. `None` if the program is not installed.
    pub(super) async fn start(self, place: Option<&Path>) -> Result<Option<Beside>> {
        let Some(program) = child::program(self.program()) else { return Ok(None) };
        let directory = child::scratch(place)?;
        let reserved = ReservedPort::any()?;
        let port = reserved.number()?;
        let path = directory.path();
        for name in ["files", "empty"] {
            fs::create_dir(path.join(name))?;
        }
        let configuration = self.configuration(path, port);
        let file = path.join("conf");
        fs::write(&file, &configuration).with_context(|| format!("cannot write {}", file.display()))?;
        let mut child = Child::start(self.command(&program, path, &file), &path.join("printed"))?;
        child.listens((Ipv4Addr::LOCALHOST, port).into()).await?;
        let processes = Processes::of_pids(&[child.pid()])?;
        Ok(Some(Beside { port, processes, configuration, _child: child, _directory: directory, _port: reserved }))
    }

    fn command(self, program: &PathBuf, directory: &Path, file: &Path) -> Command {
        let mut command = Command::new(program);
        match self {
            Kind::Nginx => command.arg("-p").arg(directory).args(["-e", "stderr", "-c"]).arg(file),
            Kind::Vsftpd => command.arg(file),
        };
        command
    }

    fn configuration(self, directory: &Path, port: u16) -> String {
        match self {
            Kind::Nginx => nginx(directory, port),
            Kind::Vsftpd => vsftpd(directory, port),
        }
    }
}

/// Returns a configuration with what nginx recommends for files: `sendfile`, `tcp_nopush`, persistent connections.
/// Uploads are collected on the same file system, so that the last step is a rename.
fn nginx(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    // Started by root, it would run its workers as another user, which cannot access the directory.
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;
worker_processes auto;
pid {directory}/pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_timeout 1d;
    keepalive_requests 1000000;
    default_type application/octet-stream;
    client_max_body_size 0;
    client_body_buffer_size 1m;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {directory}/files;
        location / {{ dav_methods PUT DELETE; }}
    }}
}}
"
    )
}

fn vsftpd(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    let uid = rustix::process::geteuid().as_raw();
    let user = user_of(uid).unwrap_or_else(|| "ftp".to_owned());
    format!(
        "listen=YES
listen_address=127.0.0.1
listen_port={port}
background=NO
run_as_launching_user=YES
anonymous_enable=YES
local_enable=NO
no_anon_password=YES
ftp_username={user}
nopriv_user={user}
anon_root={directory}/files
secure_chroot_dir={directory}/empty
allow_writeable_chroot=YES
write_enable=YES
anon_upload_enable=YES
anon_other_write_enable=YES
anon_world_readable_only=NO
pasv_address=127.0.0.1
connect_from_port_20=NO
use_sendfile=YES
xferlog_enable=NO
seccomp_sandbox=NO
idle_session_timeout=86400
data_connection_timeout=300
"
    )
}

/// Returns the name of a user in /etc/passwd.
fn user_of(uid: u32) -> Option<String> {
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    let account = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    accounts.lines().find_map(account)
}
