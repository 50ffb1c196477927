//! Starts a server for one variant of a configuration, and stops it afterwards.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::conf::{Conf, Scope, Setting};
use crate::child::{self, Child, ReservedPort};
use crate::method::Server;
use crate::probe::Processes;

/// Longest time for which a listening server may refuse connections before the refusal is an error.
const REFUSES: Duration = Duration::from_secs(3);

/// Repeatedly starts a server.
pub(super) struct Starter<'a> {
    server: &'a Server,
    conf: Conf,
    command: String,
}

/// The network location of a started server: this host, or behind a link.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Location {
    /// Prefix of its command, such as `ip netns exec NAME`.
    pub(super) prefix: String,
    /// The address on which it listens.
    pub(super) address: IpAddr,
}

impl Location {
    /// Returns the location on this host.
    pub(super) fn here() -> Location {
        Location { prefix: String::new(), address: Ipv4Addr::LOCALHOST.into() }
    }
}

/// A running server.
pub(super) struct Started {
    /// The data for connecting to it.
    pub(super) server: Server,
    // The server ends before its directory is removed.
    child: Child,
    directory: TempDir,
    _port: ReservedPort,
}

impl<'a> Starter<'a> {
    /// Creates a starter for a server under test with its configuration file. `command` starts the server after
    /// `{conf}` and `{port}` have been replaced.
    pub(super) fn new(server: &'a Server, command: String) -> Result<Starter<'a>> {
        let flag = if server.index == 0 { "--conf" } else { "--vs-conf" };
        let path = server.conf.as_deref();
        let path =
            path.with_context(|| format!("tune starts {} itself: give its smb.conf with {flag}", server.name))?;
        let conf = Conf::read(path, &server.target.share)?;
        Ok(Starter { server, conf, command })
    }

    /// Returns the server that it starts.
    pub(super) fn server(&self) -> &'a Server {
        self.server
    }

    /// Starts the server with `settings` changed. If it does not start, the error contains its output.
    pub(super) async fn start(&self, settings: &[Setting<'_>], place: &Location) -> Result<Started> {
        let directory = child::scratch(None)?;
        let reserved = ReservedPort::any()?;
        let port = reserved.number()?;
        let (log, ports) = (directory.path().join("log").display().to_string(), port.to_string());
        let mut own = vec![(Scope::Global, "smb ports", ports.as_str()), (Scope::Global, "log file", log.as_str())];
        if place.address != Ipv4Addr::LOCALHOST {
            own.push((Scope::Global, "bind interfaces only", "no"));
        }
        let conf = own.iter().chain(settings).fold(self.conf.clone(), |conf, setting| conf.with(*setting));
        let file = directory.path().join("smb.conf");
        fs::write(&file, conf.text()).with_context(|| format!("cannot write {}", file.display()))?;
        let mut child = Child::start(self.command(&file, port, place), &directory.path().join("printed"))?;
        child.listens((place.address, port).into()).await?;
        let processes = Processes::of_pids(&[child.pid()])?;
        let mut target = self.server.target.clone();
        (target.host, target.port) = (place.address.to_string(), port);
        let Server { index, name, options, path, .. } = self.server;
        let (name, options, path) = (name.clone(), options.clone(), path.clone());
        let server =
            Server { index: *index, name, target, options, path, conf: Some(file), processes: Some(processes) };
        let mut started = Started { server, child, directory, _port: reserved };
        started.answers().await?;
        Ok(started)
    }

    fn command(&self, file: &Path, port: u16, place: &Location) -> Command {
        let file = format!("'{}'", file.display().to_string().replace('\'', r"'\''"));
        let line = self.command.replace("{conf}", &file).replace("{port}", &port.to_string());
        let mut command = Command::new("/bin/sh");
        // `exec` replaces the shell with the server, so that the child process is the server.
        command.arg("-c").arg(format!("exec {} {line}", place.prefix));
        command
    }
}

impl Started {
    /// Waits until a logon succeeds. A server that has just started may listen but still refuse.
    async fn answers(&mut self) -> Result<()> {
        let begin = Instant::now();
        loop {
            match self.server.connect().await {
                Ok(client) => return Ok(client.log_off().await?),
                Err(error) if begin.elapsed() > REFUSES => return Err(error),
                Err(_) => self.child.lives()?,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends the server and returns its messages about a parameter.
    pub(super) fn stop(self, name: &str) -> Vec<String> {
        let Started { child, directory, .. } = self;
        drop(child);
        about(directory.path(), name)
    }

    /// Returns its messages about a parameter so far.
    pub(super) fn about(&self, name: &str) -> Vec<String> {
        about(self.directory.path(), name)
    }
}

/// Returns the distinct lines that name a parameter, from the files of a directory except its configuration.
fn about(directory: &Path, name: &str) -> Vec<String> {
    // At high levels a log has millions of lines. The messages about the configuration come first.
    const HEAD: usize = 1 << 20;
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut lines: Vec<String> = Vec::new();
    for file in files.filter(|file| file.file_name().is_some_and(|name| name != "smb.conf")) {
        let data = read_head(&file, HEAD);
        let text = String::from_utf8_lossy(&data);
        let quoted = [format!("`{name}`"), format!("`{name} ="), format!("\"{name}\"")];
        let matching = text.lines().filter(|line| quoted.iter().any(|it| line.contains(it.as_str())));
        for line in matching.map(|line| without_place(line, directory)) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn read_head(file: &PathBuf, most: usize) -> Vec<u8> {
    use std::io::Read;
    let mut data = Vec::new();
    if let Ok(file) = fs::File::open(file) {
        // A file that cannot be read has no messages.
        let _ = file.take(most as u64).read_to_end(&mut data);
    }
    data
}

/// Returns a message without the path of the temporary configuration file.
fn without_place(line: &str, directory: &Path) -> String {
    let place = format!("{}/smb.conf:", directory.display());
    match line.split_once(&place) {
        Some((_, rest)) => rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == ':' || it == ' ').to_owned(),
        None => line.trim().to_owned(),
    }
}
