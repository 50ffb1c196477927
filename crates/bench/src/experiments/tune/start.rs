//! Servers that are started for one variant of a configuration, and stopped after it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::conf::{Conf, Scope, Setting};
use crate::child::{self, Child};
use crate::method::Server;
use crate::probe::Processes;

/// How long a server that listens may refuse until it is believed.
const REFUSES: Duration = Duration::from_secs(3);

/// What starts a server, again and again.
pub(super) struct Starter<'a> {
    server: &'a Server,
    conf: Conf,
    command: String,
}

/// Where a server is started: on this host, or behind a link.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Place {
    /// What comes before its command, such as `ip netns exec NAME`.
    pub(super) prefix: String,
    /// The address that it listens on.
    pub(super) address: IpAddr,
}

impl Place {
    /// This host.
    pub(super) fn here() -> Place {
        Place { prefix: String::new(), address: Ipv4Addr::LOCALHOST.into() }
    }
}

/// A running server.
pub(super) struct Started {
    /// How to reach it.
    pub(super) server: Server,
    // The server ends before its directory goes.
    child: Child,
    directory: TempDir,
}

impl<'a> Starter<'a> {
    /// For a server under test with its configuration file; `command` starts it, `{conf}` and `{port}` put in.
    pub(super) fn new(server: &'a Server, command: String) -> Result<Starter<'a>> {
        let flag = if server.index == 0 { "--conf" } else { "--vs-conf" };
        let path = server.conf.as_deref();
        let path =
            path.with_context(|| format!("tune starts {} itself: give its smb.conf with {flag}", server.name))?;
        let conf = Conf::read(path, &server.target.share)?;
        Ok(Starter { server, conf, command })
    }

    /// What it starts.
    pub(super) fn server(&self) -> &'a Server {
        self.server
    }

    /// Starts it with `settings` changed; an error with what it says when it does not start.
    pub(super) async fn start(&self, settings: &[Setting<'_>], place: &Place) -> Result<Started> {
        let directory = child::scratch(None)?;
        let port = child::free_port()?;
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
        let mut started = Started { server, child, directory };
        started.answers().await?;
        Ok(started)
    }

    fn command(&self, file: &Path, port: u16, place: &Place) -> Command {
        let file = format!("'{}'", file.display().to_string().replace('\'', r"'\''"));
        let line = self.command.replace("{conf}", &file).replace("{port}", &port.to_string());
        let mut command = Command::new("/bin/sh");
        // The shell gives way to the server, so that its process is the server's.
        command.arg("-c").arg(format!("exec {} {line}", place.prefix));
        command
    }
}

impl Started {
    /// Waits until somebody can log on: a server that was started just now may listen and yet refuse.
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

    /// Ends the server and answers what it said about a parameter.
    pub(super) fn stop(self, name: &str) -> Vec<String> {
        let Started { child, directory, .. } = self;
        drop(child);
        about(directory.path(), name)
    }

    /// What it said about a parameter until now.
    pub(super) fn about(&self, name: &str) -> Vec<String> {
        about(self.directory.path(), name)
    }
}

/// The lines, each once, in which the files of a directory name a parameter; not its configuration.
fn about(directory: &Path, name: &str) -> Vec<String> {
    // At high levels a log has millions of lines; what is said of the configuration comes first.
    const HEAD: usize = 1 << 20;
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut lines: Vec<String> = Vec::new();
    for file in files.filter(|file| file.file_name().is_some_and(|name| name != "smb.conf")) {
        let data = read_head(&file, HEAD);
        let text = String::from_utf8_lossy(&data);
        let quoted = [format!("`{name}`"), format!("`{name} ="), format!("\"{name}\"")];
        let told = text.lines().filter(|line| quoted.iter().any(|it| line.contains(it.as_str())));
        for line in told.map(|line| without_place(line, directory)) {
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
        // What cannot be read says nothing.
        let _ = file.take(most as u64).read_to_end(&mut data);
    }
    data
}

/// A message without the temporary file that it is about.
fn without_place(line: &str, directory: &Path) -> String {
    let place = format!("{}/smb.conf:", directory.display());
    match line.split_once(&place) {
        Some((_, rest)) => rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == ':' || it == ' ').to_owned(),
        None => line.trim().to_owned(),
    }
}
