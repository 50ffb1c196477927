//! The servers as seen from outside their namespaces: start, commands in the namespaces, and end.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use test_environment::interrupt;

use super::{Wanted, own_program};

/// Time limit for the start, also on a busy machine.
const START: Duration = Duration::from_secs(120);
/// Time limit for the end of all processes, and of the loop device.
const END: Duration = Duration::from_secs(20);
/// Time for which a command of the command line client is repeated while glusterd works on another one.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(30);
/// What the command line client prints then.
const IN_PROGRESS: &str = "nother transaction is in progress";
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum length of the directory's path in bytes, because it has Unix sockets, whose paths have at most 107.
const PATH: usize = 70;
/// The file with the id of the process that holds the namespaces.
pub(super) const HOLDER: &str = "pid";
/// The file with the names of the volumes, which exists as soon as the servers can be used.
pub(super) const READY: &str = "ready";
/// The output of the process that holds the namespaces.
const OUTPUT: &str = "output";
/// The script that runs the command line client. It is written first, and marks the directory as that of servers.
const CLIENT: &str = "gluster";
/// glusterd's socket for the command line client.
pub(super) const SOCKET: &str = "run/glusterd.socket";

/// Servers that can be used.
#[derive(Debug)]
pub(crate) struct Servers {
    dir: PathBuf,
    pid: Pid,
    volumes: Vec<String>,
}

impl Servers {
    /// Starts servers in `dir`, which run until [`end`]. What an unclean end has left there is removed.
    pub(super) fn start(dir: &Path, wanted: &Wanted) -> Result<Servers> {
        end(dir)?;
        Servers::start_by(dir, wanted, Command::new("setsid")).map(|(servers, _)| servers)
    }

    /// Starts servers in an empty or new `dir`. `launcher` runs the command that it is given as arguments.
    fn start_by(dir: &Path, wanted: &Wanted, mut launcher: Command) -> Result<(Servers, Child)> {
        let length = dir.as_os_str().len();
        ensure!(length <= PATH, "{} has {length} bytes; give --dir a path of at most {PATH}", dir.display());
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
        write_client(dir)?;
        launcher.args(["unshare", "--pid", "--fork", "--kill-child"]).arg(own_program()?);
        launcher.arg("gluster").arg("--dir").arg(dir).arg("hold");
        let volumes: Vec<_> = wanted.volumes.iter().map(|volume| volume.name).collect();
        launcher.args(["--volumes", &volumes.join(",")]);
        launcher.arg("--bricks-fs").arg(format!("{:?}", wanted.bricks_fs).to_lowercase());
        let output = fs::File::create(dir.join(OUTPUT))?;
        launcher.current_dir("/").stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut child = launcher.spawn().with_context(|| format!("cannot start {launcher:?}"))?;
        match wait_until_ready(dir, &mut child) {
            Ok(servers) => Ok((servers, child)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                end(dir)?;
                Err(error)
            }
        }
    }

    /// Returns the servers in `dir`, if they are running and ready.
    pub(super) fn find(dir: &Path) -> Result<Option<Servers>> {
        let (Some(pid), Ok(text)) = (holder(dir), fs::read_to_string(dir.join(READY))) else { return Ok(None) };
        let volumes = text.lines().map(str::to_owned).collect();
        Ok(Some(Servers { dir: dir.to_owned(), pid, volumes }))
    }

    /// Returns the id of the process that holds the namespaces.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Returns the directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the names of the volumes.
    pub(crate) fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Returns a command that runs `program` in the namespaces, in the current directory.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_in(&std::env::current_dir().unwrap_or_else(|_| "/".into()), program)
    }

    /// Returns a command that runs `program` in the namespaces, in the directory `folder`.
    pub(crate) fn command_in(&self, folder: &Path, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--pid", "--target", &self.pid().to_string()]);
        command.arg([OsStr::new("--wdns="), folder.as_os_str()].join(OsStr::new(""))).arg("--").arg(program);
        command.env("FREVO_GLUSTER_SERVER", "127.0.0.1").env("FREVO_GLUSTER_DIR", &self.dir);
        command.env("FREVO_GLUSTER_CLI", self.dir.join(CLIENT));
        command.env("FREVO_GLUSTER_VOLUMES", self.volumes.join(","));
        command
    }
}

/// Servers for the length of a run, in a directory of their own. They end when this value is dropped, and also if this
/// process is killed. The thread that starts them must not end before.
pub(crate) struct ServersOfRun {
    servers: Servers,
    launcher: Child,
    dir: tempfile::TempDir,
}

impl ServersOfRun {
    /// Starts servers.
    pub(super) fn start(wanted: &Wanted) -> Result<ServersOfRun> {
        let dir = tempfile::Builder::new().prefix("frevo-gluster-").tempdir_in("/var/tmp")?;
        let mut launcher = Command::new("setpriv");
        launcher.args(["--pdeathsig", "KILL", "setsid"]);
        let (servers, launcher) = Servers::start_by(dir.path(), wanted, launcher)?;
        Ok(ServersOfRun { servers, launcher, dir })
    }
}

impl std::ops::Deref for ServersOfRun {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.servers
    }
}

impl Drop for ServersOfRun {
    fn drop(&mut self) {
        if let Err(error) = end(self.dir.path()) {
            eprintln!("{error:#}");
        }
        let _ = self.launcher.wait();
    }
}

/// Ends the servers in `dir`, if they are running, and removes the directory.
pub(super) fn end(dir: &Path) -> Result<()> {
    if !dir.exists() || fs::read_dir(dir)?.next().is_none() {
        return Ok(());
    }
    ensure!(dir.join(CLIENT).exists(), "{} is not a directory of GlusterFS servers; name another", dir.display());
    if let Some(pid) = holder(dir) {
        kill_process(pid, Signal::KILL).context("cannot end the servers")?;
        wait_until("the servers do not end", || holder(dir).is_none())?;
    }
    wait_until("the loop device stays in use", || !has_loop_device(dir))?;
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Runs the command line client of the servers in `dir` with these arguments, and returns its output. This also works
/// outside the namespaces, because the socket is a file.
///
/// glusterd refuses a command while it still works on another one for the same volume, and says so. Such a command is
/// repeated, up to [`PATIENCE_WITH_OTHERS`].
pub(super) fn client(dir: &Path, arguments: &[&str]) -> Result<String> {
    let deadline = Instant::now() + PATIENCE_WITH_OTHERS;
    loop {
        let ended = output(Command::new(dir.join(CLIENT)).args(arguments));
        match ended {
            Err(error) if format!("{error:#}").contains(IN_PROGRESS) && Instant::now() < deadline => {
                interrupt::check()?;
                std::thread::sleep(PAUSE);
            }
            ended => return ended.with_context(|| format!("gluster {}", arguments.join(" "))),
        }
    }
}

/// Returns the processes of the bricks of a volume, in the order of the bricks, as seen in their
/// namespaces.
pub(super) fn brick_processes(dir: &Path, volume: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for number in 1..=3 {
        let path = dir.join(format!("bricks/{volume}-{number}"));
        let mut pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_brick = |pid: &u32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).any(|argument| argument == path.as_os_str().as_encoded_bytes())
        };
        found.push(pids.find(is_brick).with_context(|| format!("no process serves the brick {}", path.display()))?);
    }
    Ok(found)
}

/// Runs a command to its end, or until the run is interrupted.
pub(crate) fn finish(command: &mut Command) -> Result<ExitStatus> {
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(interrupted) = interrupt::check() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(interrupted);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Runs a command and returns its output. Fails with its messages if it fails.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("cannot start {}", name.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} ended with {}: {said}{errors}", name.display(), output.status);
    Ok(said)
}

fn write_client(dir: &Path) -> Result<()> {
    let path = dir.join(CLIENT);
    let (socket, log) = (dir.join(SOCKET), dir.join("log/cli.log"));
    let (socket, log) = (socket.display(), log.display());
    // The client runs a program for `volume heal VOLUME info` without telling it the socket.
    let script = format!(
        "#!/bin/sh
case \"$# $1 $2 $4\" in
'4 volume heal info') exec /usr/lib/*/glusterfs/glfsheal \"$3\" glusterd-sock '{socket}' ;;
esac
exec gluster --mode=script --glusterd-sock='{socket}' --log-file='{log}' \"$@\"
"
    );
    fs::write(&path, script)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?)
}

fn wait_until_ready(dir: &Path, child: &mut Child) -> Result<Servers> {
    let deadline = Instant::now() + START;
    loop {
        interrupt::check()?;
        if let Some(servers) = Servers::find(dir)? {
            return Ok(servers);
        }
        let ended = child.try_wait()?.is_some();
        if ended || Instant::now() > deadline {
            let said = fs::read_to_string(dir.join(OUTPUT)).unwrap_or_default();
            bail!("GlusterFS does not start:\n{}{}", said, tail(&dir.join("log/glusterd.log")));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the last lines of a log.
fn tail(log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].iter().map(|line| format!("  | {line}\n")).collect()
}

/// Returns the process that holds the namespaces of the servers in `dir`, if it is running.
fn holder(dir: &Path) -> Option<Pid> {
    let pid = Pid::from_raw(fs::read_to_string(dir.join(HOLDER)).ok()?.trim().parse().ok()?)?;
    // Another process can have the id of one that has ended.
    let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    let own = |argument: &[u8]| argument == dir.as_os_str().as_bytes();
    arguments.split(|byte| *byte == 0).any(own).then_some(pid)
}

/// Returns whether a file in `dir`, also a deleted one, is the content of a loop device.
fn has_loop_device(dir: &Path) -> bool {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut files = devices.filter_map(|device| fs::read(device.path().join("loop/backing_file")).ok());
    files.any(|file| Path::new(OsStr::from_bytes(&file)).starts_with(dir))
}

fn wait_until(otherwise: &str, met: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + END;
    while !met() {
        ensure!(Instant::now() < deadline, "{otherwise}, after {END:?}");
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_anything_else_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        let error = end(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is not a directory of GlusterFS servers"), "{error}");
        assert!(file.exists());
    }

    #[test]
    fn what_an_unclean_end_has_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        write_client(dir.path()).unwrap();
        // This process is running, but does not hold the namespaces of servers in that directory.
        fs::write(dir.path().join(HOLDER), std::process::id().to_string()).unwrap();
        fs::write(dir.path().join(READY), "dist\n").unwrap();
        assert!(Servers::find(dir.path()).unwrap().is_none());
        end(dir.path()).unwrap();
        assert!(!dir.path().exists());
        end(dir.path()).unwrap();
    }
}
