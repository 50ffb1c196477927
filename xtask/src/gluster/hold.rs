//! The first process of the namespaces: it creates them, starts everything in them, and then waits until it is killed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{WaitOptions, wait};
use test_environment::Disk;

use super::servers::{HOLDER, READY, SOCKET, client, output};
use super::{BrickFileSystem, Volume, Wanted};
use crate::torture::place::{CUBIC, own_network_with};

/// The address of the bricks. The command line client refuses 127.0.0.1.
const BRICKS: &str = "127.0.0.2";
/// Time limit for each server to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time in which clients have connected to bricks that were started anew: they try every three seconds.
const RECONNECTION: Duration = Duration::from_secs(5);
/// The directories that GlusterFS uses, and the directories of the servers that cover them.
const COVERED: [(&str, &str); 3] =
    [("/var/lib/glusterd", "lib"), ("/var/run/gluster", "run"), ("/var/log/glusterfs", "log")];
/// The options that an administrator can set for a volume with one command.
const GROUPS: &str = "/var/lib/glusterd/groups";

/// Starts the servers and holds their namespaces. The process must be the first of a process namespace, because it
/// waits for the processes that the others leave behind.
pub(super) fn hold(dir: &Path, wanted: &Wanted) -> Result<()> {
    // The machine's /proc is still mounted here and has the id that other processes see.
    let pid = fs::read_link("/proc/self")?;
    own_network_with(CUBIC)?;
    let disk = Disk::with(dir, wanted.bricks_fs.make(), wanted.bricks_fs.mount_options())?;
    output(Command::new("mount").args(["-t", "proc", "proc", "/proc"]))?;
    let bricks = dir.join("bricks");
    fs::create_dir(&bricks)?;
    bind(&disk.point(), &bricks)?;
    cover(dir)?;
    fs::write(dir.join(HOLDER), pid.as_os_str().as_encoded_bytes())?;
    let servers = Inside { dir };
    start_glusterd(dir)?;
    wanted.volumes.iter().try_for_each(|volume| servers.start_volume(volume, &bricks))?;
    wanted.volumes.iter().try_for_each(|volume| mount(volume.name, &dir.join("mnt").join(volume.name)))?;
    let names: String = wanted.volumes.iter().map(|volume| format!("{}\n", volume.name)).collect();
    fs::write(dir.join("ready.new"), names)?;
    fs::rename(dir.join("ready.new"), dir.join(READY))?;
    loop {
        if wait(WaitOptions::empty()).is_err() {
            sleep(Duration::from_secs(1));
        }
    }
}

impl BrickFileSystem {
    /// Returns the command that creates the file system. The inodes have the size that GlusterFS recommends.
    fn make(self) -> Command {
        let (program, size) = match self {
            BrickFileSystem::Xfs => ("mkfs.xfs", ["-i", "size=512"]),
            BrickFileSystem::Ext4 => ("mkfs.ext4", ["-I", "512"]),
        };
        let mut command = Command::new(program);
        command.arg("-q").args(size);
        command
    }

    fn mount_options(self) -> &'static str {
        "loop,noatime"
    }
}

/// Covers the directories that GlusterFS uses. The copy of the groups of options is the only content. Without the
/// scripts of the packages, a volume that starts is not added to the machine's smb.conf.
fn cover(dir: &Path) -> Result<()> {
    let groups = dir.join("lib/groups");
    fs::create_dir_all(&groups)?;
    for entry in fs::read_dir(GROUPS).context("the package glusterfs-server is not installed completely")? {
        let entry = entry?;
        fs::copy(entry.path(), groups.join(entry.file_name()))?;
    }
    for (place, name) in COVERED {
        let own = dir.join(name);
        fs::create_dir_all(&own)?;
        fs::create_dir_all(place)?;
        bind(&own, Path::new(place))?;
    }
    Ok(())
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    output(Command::new("mount").arg("--bind").arg(from).arg(to)).map(drop)
}

/// The servers as seen from inside the namespaces.
struct Inside<'a> {
    dir: &'a Path,
}

/// Starts glusterd, and waits until it answers.
pub(super) fn start_glusterd(dir: &Path) -> Result<()> {
    let configuration = dir.join("glusterd.vol");
    fs::write(&configuration, glusterd(&dir.join(SOCKET)))?;
    output(Command::new("glusterd").arg("-f").arg(&configuration))?;
    until(|| client(dir, &["pool", "list"]).map(|_| true))
}

impl Inside<'_> {
    /// Creates and starts a volume, and waits until its bricks answer.
    fn start_volume(&self, volume: &Volume, bricks: &Path) -> Result<()> {
        let name = volume.name;
        let brick = |number| format!("{BRICKS}:{}", bricks.join(format!("{name}-{number}")).display());
        let bricks = [1, 2, 3].map(brick);
        let mut create = vec!["volume", "create", name];
        if volume.replicated {
            create.extend(["replica", "3"]);
        }
        create.extend(bricks.iter().map(String::as_str));
        // All bricks of a file are on the same server, which is refused otherwise.
        create.push("force");
        client(self.dir, &create)?;
        if volume.samba {
            client(self.dir, &["volume", "set", name, "group", "samba"])?;
        }
        start_bricks(self.dir, name)
    }
}

/// Starts the bricks of a volume, and waits until they answer.
fn start_bricks(dir: &Path, volume: &str) -> Result<()> {
    client(dir, &["volume", "start", volume])?;
    until(|| {
        let status = client(dir, &["volume", "status", volume, "--xml"])?;
        Ok(status.contains("<status>1</status>") && !status.contains("<status>0</status>"))
    })
    .with_context(|| format!("the bricks of {volume} do not start"))
}

/// Ends the bricks of a volume and starts them anew. Its clients connect to them again.
pub(super) fn restart_bricks(dir: &Path, volume: &str) -> Result<()> {
    client(dir, &["volume", "stop", volume])?;
    start_bricks(dir, volume)?;
    sleep(RECONNECTION);
    Ok(())
}

/// Mounts a volume at `point`, and waits until the mount answers.
pub(super) fn mount(volume: &str, point: &Path) -> Result<()> {
    fs::create_dir_all(point)?;
    let source = format!("127.0.0.1:/{volume}");
    output(Command::new("mount").args(["-t", "glusterfs", "-o", "acl", &source]).arg(point))?;
    until(|| Ok(fs::read_dir(point).is_ok())).with_context(|| format!("the mount of {volume} fails"))
}

/// Takes the mount of a volume away, as soon as the processes that used it have ended.
pub(super) fn unmount(point: &Path) -> Result<()> {
    until(|| output(Command::new("umount").arg(point)).map(|_| true))
}

/// Waits until `met` returns `true`. After the time limit it returns the last error.
fn until(met: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match met() {
            Ok(true) => return Ok(()),
            Ok(false) => ensure!(Instant::now() < deadline, "not within {PATIENCE:?}"),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => {}
        }
        sleep(Duration::from_millis(100));
    }
}

/// Returns glusterd's configuration: that of the package with another socket.
fn glusterd(socket: &Path) -> String {
    format!(
        "volume management
    type mgmt/glusterd
    option working-directory /var/lib/glusterd
    option transport-type socket
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option transport.socket.read-fail-log off
    option transport.socket.listen-port 24007
    option ping-timeout 0
    option event-threads 1
    option max-port 60999
    option glusterd-sockfile {}
end-volume
",
        socket.display()
    )
}
