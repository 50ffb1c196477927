//! Child processes: servers that an experiment starts in addition to the servers under test. They end with the program
//! in every case.
//!
//! A child is the leader of its own process group, so that stopping it also stops the processes that it forked. If this
//! program dies without stopping the child, the kernel ends the child.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use tokio::net::TcpSocket;

/// Longest time a server may take until it listens.
const START: Duration = Duration::from_secs(15);
/// Longest time a server may take to end after SIGTERM.
const END: Duration = Duration::from_secs(3);
/// Interval at which its state is checked.
const LOOK: Duration = Duration::from_millis(20);

/// A process that this program started, with all processes that it forked.
pub struct Child {
    name: String,
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts `command` and writes its output to the file `log`. The child ends with the thread that starts it, so that
    /// thread must live as long as the program.
    pub fn start(mut command: Command, log: &Path) -> Result<Child> {
        let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        // SAFETY: between fork and exec the closure makes one system call and does not allocate.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Child { name, process, log: log.to_owned() })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until `address` accepts connections. If the process ends first, the error contains its output.
    pub async fn listens(&mut self, address: SocketAddr) -> Result<()> {
        let begin = Instant::now();
        while !answers(address).await {
            self.lives()?;
            if begin.elapsed() > START {
                bail!(
                    "{} does not listen at {address} after {START:?}; its last output was:\n{}",
                    self.name,
                    self.printed()
                );
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Fails if the process has ended. The error contains its output.
    pub fn lives(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            Some(status) => bail!("{} has ended ({status}); its last output was:\n{}", self.name, self.printed()),
            None => Ok(()),
        }
    }

    /// Returns the last lines of its output.
    pub fn printed(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // An error means that the process group is empty.
            let _ = kill_process_group(group, signal);
        }
    }

    fn ends_within(&mut self, time: Duration) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < time {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // After it has been waited for, its pid may belong to another process.
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            if !self.ends_within(END) {
                self.signal(Signal::KILL);
                let _ = self.process.wait();
            }
        }
    }
}

async fn answers(address: SocketAddr) -> bool {
    // Packets to an address that does not exist yet can be lost without an error.
    let connected = tokio::time::timeout(Duration::from_secs(1), tokio::net::TcpStream::connect(address)).await;
    matches!(connected, Ok(Ok(_)))
}

/// Finds a program in `PATH` and in the directories where Debian installs servers, which the `PATH` of most users
/// omits.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// A port that the kernel gives to no other program that asks for any port, until this value is dropped.
///
/// Its socket does not listen. A server can bind the port all the same, because servers set `SO_REUSEADDR`.
pub struct ReservedPort {
    socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves any free port.
    pub fn any() -> Result<ReservedPort> {
        let socket = TcpSocket::new_v4().context("cannot create a socket")?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::UNSPECIFIED, 0).into()).context("cannot reserve a port")?;
        Ok(ReservedPort { socket })
    }

    /// Returns the port's number.
    pub fn number(&self) -> Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }
}

/// Creates a directory that is removed when the value is dropped: in `directory`, or in the directory for temporary
/// files if this user may not write there.
pub fn scratch(directory: Option<&Path>) -> Result<tempfile::TempDir> {
    let make = |place: &Path| tempfile::Builder::new().prefix("frevo-bench-").tempdir_in(place);
    let made = match directory.map(make) {
        Some(Err(error)) if error.kind() == ErrorKind::PermissionDenied => make(&std::env::temp_dir()),
        Some(made) => made,
        None => make(&std::env::temp_dir()),
    };
    made.with_context(|| format!("cannot make a directory in {}", directory.unwrap_or(&std::env::temp_dir()).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Child::start(command, log).unwrap()
    }

    #[tokio::test]
    async fn the_output_of_a_program_that_ends_early_is_reported() {
        let directory = scratch(None).unwrap();
        let mut child = shell("echo no such option >&2; exit 3", &directory.path().join("log"));
        let port = ReservedPort::any().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port.number().unwrap()).into();
        let said = child.listens(address).await.unwrap_err().to_string();
        assert!(said.contains("sh has ended") && said.contains("no such option"), "{said}");
    }

    #[test]
    fn descendants_of_a_child_end_with_it() {
        let directory = scratch(None).unwrap();
        let pids = directory.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pids.display());
        let child = shell(&script, &directory.path().join("log"));
        while !pids.exists() {
            std::thread::sleep(LOOK);
        }
        let grandchild: i32 = std::fs::read_to_string(&pids).unwrap().trim().parse().unwrap();
        drop(child);
        let state = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        while !state().is_empty() && !state().contains(") Z ") {
            std::thread::sleep(LOOK);
        }
    }
}
