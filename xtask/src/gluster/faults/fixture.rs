//! A server of Frevo with a share in a volume and a local one, and the means to damage the volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use test_environment::{ALICE, Crowd, Server, Target, TestEnvironment, interrupt};

use super::client::Smb;
use crate::gluster::{hold, servers};

/// The share in the volume, and the directory of the volume that it shows.
pub(super) const SHARE: &str = "faults";
/// The share in a directory of this machine.
pub(super) const LOCAL: &str = "local";
/// Time in which the library has connected to a brick that is back: it tries every three to four seconds.
pub(super) const RECONNECTION: Duration = Duration::from_secs(5);
/// Time in which all threads of a process have stopped.
const STOPPED: Duration = Duration::from_secs(5);
/// The configuration. @VOLUME@ is the volume, and @SETTINGS@ the settings of the share in it.
const TEMPLATE: &str = "[global]
@TARGET@
\tnetbios name = FAULTS
\tread only = no
\tstore dos attributes = yes
[faults]
\tpath = /faults
\tvfs objects = acl_xattr streams_xattr glusterfs
\tglusterfs:volume = @VOLUME@
\tglusterfs:logfile = @DIR@/gfapi.log
@SETTINGS@
[local]
\tpath = @DIR@/local
";
/// The server that describes the volume, unless a case names others.
pub(super) const DESCRIBED: &str = "\tglusterfs:volfile_server = 127.0.0.1\n";

/// A running server and the volume that it serves.
pub(super) struct Fixture {
    // The server ends before its environment is removed.
    pub(super) server: Server,
    environment: TestEnvironment,
    /// The directory of the GlusterFS servers.
    dir: PathBuf,
    volume: &'static str,
}

impl Fixture {
    /// Starts a server for `volume`. `settings` are lines for the share.
    pub(super) fn start(dir: &Path, volume: &'static str, settings: &str) -> Result<Fixture> {
        Fixture::described(dir, volume, &format!("{DESCRIBED}{settings}"))
    }

    /// Like [`Fixture::start`] without the server that describes the volume. `settings` may have further shares.
    pub(super) fn described(dir: &Path, volume: &'static str, settings: &str) -> Result<Fixture> {
        let environment = TestEnvironment::make_in(dir, Target::Frevo, Crowd(0))?;
        environment.make_dir(LOCAL, &ALICE, 0o755)?;
        let mounted = mounted(dir, volume);
        if !mounted.exists() {
            fs::create_dir(&mounted).with_context(|| format!("cannot create {}", mounted.display()))?;
            environment.people().give(&mounted, &ALICE)?;
        }
        let server = environment.start("server", &configuration(volume, settings))?;
        Ok(Fixture { server, environment, dir: dir.to_owned(), volume })
    }

    /// Connects to the share in the volume as alice.
    pub(super) fn connect(&self) -> Result<Smb> {
        Smb::connect(self.server.address(), SHARE)
    }

    /// Returns the share's directory as another client of the volume sees it.
    pub(super) fn mounted(&self) -> PathBuf {
        mounted(&self.dir, self.volume)
    }

    /// Makes alice the owner of a file or directory.
    pub(super) fn give(&self, path: &Path) -> Result<()> {
        self.environment.people().give(path, &ALICE)
    }

    /// Returns the share's directory on each brick.
    pub(super) fn bricks(&self) -> [PathBuf; 3] {
        [1, 2, 3].map(|number| self.brick(number).join(SHARE))
    }

    fn brick(&self, number: usize) -> PathBuf {
        self.dir.join(format!("bricks/{}-{number}", self.volume))
    }

    /// Returns the number of the brick of `dist` that has the content of a file. A brick that does not have it may have
    /// an empty file that says where it is.
    pub(super) fn brick_of(&self, name: &str) -> Result<usize> {
        let has = |at: &PathBuf| fs::metadata(at.join(name)).is_ok_and(|found| found.len() > 0);
        let at = self.bricks().iter().position(has).with_context(|| format!("no brick has {name}"))?;
        Ok(at + 1)
    }

    /// Runs the command line client of the GlusterFS servers.
    pub(super) fn gluster(&self, arguments: &[&str]) -> Result<String> {
        servers::client(&self.dir, arguments)
    }

    /// Sets an option of the volume.
    pub(super) fn set(&self, option: &str, value: &str) -> Result<()> {
        self.gluster(&["volume", "set", self.volume, option, value]).map(drop)
    }

    /// Sends a signal to the process of a brick. A stopped brick answers nothing any more when this returns.
    pub(super) fn signal_brick(&self, number: usize, signal: Signal) -> Result<()> {
        let status = self.gluster(&["volume", "status", self.volume, "--xml"])?;
        let path = regex::escape(&self.brick(number).display().to_string());
        let pattern = Regex::new(&format!("(?s)<path>{path}</path>.*?<pid>([0-9]+)</pid>"))?;
        let pid = pattern.captures(&status).and_then(|found| Pid::from_raw(found[1].parse().ok()?));
        let pid = pid.with_context(|| format!("brick {number} is not running: {status}"))?;
        kill_process(pid, signal).with_context(|| format!("cannot signal brick {number}"))?;
        if signal == Signal::STOP {
            // The kernel stops the threads when one of them receives the signal. On a busy machine, the others serve
            // requests until then.
            until("the brick stops", STOPPED, || is_stopped(pid))?;
        }
        Ok(())
    }

    /// Kills glusterd, which describes the volumes.
    pub(super) fn kill_glusterd(&self) -> Result<()> {
        for process in fs::read_dir("/proc")? {
            let process = process?;
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let pid = process.file_name().to_str().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
            if let Some(pid) = pid.filter(|_| name.trim() == "glusterd") {
                return kill_process(pid, Signal::KILL).context("cannot kill glusterd");
            }
        }
        bail!("glusterd is not running")
    }

    /// Starts glusterd again.
    pub(super) fn start_glusterd(&self) -> Result<()> {
        hold::start_glusterd(&self.dir)
    }

    /// Starts the bricks that are not running, and waits until clients have connected to them.
    pub(super) fn start_bricks(&self) -> Result<()> {
        self.gluster(&["volume", "start", self.volume, "force"])?;
        pause(RECONNECTION)
    }

    /// Returns the name of the volume.
    pub(super) fn volume(&self) -> &'static str {
        self.volume
    }
}

/// Returns the configuration for a volume, with these settings of the share in it.
pub(super) fn configuration(volume: &str, settings: &str) -> String {
    TEMPLATE.replace("@VOLUME@", volume).replace("@SETTINGS@\n", settings)
}

/// Returns whether all threads of a process are stopped.
fn is_stopped(pid: Pid) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        if !status.lines().any(|line| line.starts_with("State:\tT")) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn mounted(dir: &Path, volume: &str) -> PathBuf {
    dir.join("mnt").join(volume).join(SHARE)
}

/// Waits, unless the run is interrupted.
pub(super) fn pause(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        interrupt::check()?;
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    Ok(())
}

/// Waits until `met` returns `true`, at most `limit`. Returns how long it took.
pub(super) fn until(what: &str, limit: Duration, mut met: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let begin = Instant::now();
    while !met()? {
        interrupt::check()?;
        ensure!(begin.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(begin.elapsed())
}
