//! The location of the workers' environments: a separate file system in a loop device, and a network for each worker.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use test_environment::Disk;

use super::volume::Volume;

/// The congestion control of Linux, if the administrator has not chosen another.
pub(crate) const CUBIC: &str = "cubic";

/// The file systems for shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileSystem {
    /// XFS with reflinks, which `FSCTL_DUPLICATE_EXTENTS_TO_FILE` needs
    Xfs,
    /// btrfs, which also supports compression
    Btrfs,
    /// ext4
    Ext4,
    /// No separate file system: a directory in `$TMPDIR` or `/var/tmp`
    Tmp,
}

impl FileSystem {
    /// Returns the command that creates the file system.
    fn make(self) -> Option<Command> {
        let (program, options): (_, &[&str]) = match self {
            // Inodes with space for an ACL and the DOS attributes. Otherwise an empty file would allocate a block for
            // them.
            FileSystem::Xfs => ("mkfs.xfs", &["-q", "-m", "reflink=1", "-i", "size=1024"]),
            FileSystem::Btrfs => ("mkfs.btrfs", &["-q"]),
            FileSystem::Ext4 => ("mkfs.ext4", &["-q", "-I", "1024"]),
            FileSystem::Tmp => return None,
        };
        let mut command = Command::new(program);
        command.args(options);
        Some(command)
    }

    /// Returns the mount options.
    fn options(self) -> &'static str {
        match self {
            // XFS preallocates varying amounts of space for appending writes, and tests check the allocated size.
            FileSystem::Xfs => "loop,allocsize=4k",
            FileSystem::Btrfs | FileSystem::Ext4 | FileSystem::Tmp => "loop",
        }
    }
}

/// A directory for environments.
pub(super) struct WorkerFileSystem {
    base: PathBuf,
    says: String,
    volume: Option<Volume>,
    // Declared last, so that they are unmounted when the rest is no longer in use.
    disk: Option<Disk>,
    compressing: Option<Disk>,
}

impl WorkerFileSystem {
    /// Creates the requested file system, or XFS if possible when none was requested. Afterwards, the calling thread
    /// and everything that it starts is in its own mount namespace.
    pub(super) fn make(wish: Option<FileSystem>) -> Result<WorkerFileSystem> {
        let mut place = WorkerFileSystem::plain(wish)?;
        if place.disk.is_some() {
            match disk(&WorkerFileSystem::temporary(), FileSystem::Btrfs) {
                Ok(disk) => place.compressing = disk,
                Err(error) => place.says += &format!("; no compressing file system: {error:#}"),
            }
        }
        Ok(place)
    }

    /// Uses a volume for the shares. The rest of the environments is in a directory, in the network of the servers.
    pub(super) fn in_volume(volume: Volume) -> Result<WorkerFileSystem> {
        let place = WorkerFileSystem::plain(Some(FileSystem::Tmp))?;
        Ok(WorkerFileSystem { says: format!("the GlusterFS volume {}", volume.name), volume: Some(volume), ..place })
    }

    fn temporary() -> PathBuf {
        std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
    }

    fn plain(wish: Option<FileSystem>) -> Result<WorkerFileSystem> {
        let base = WorkerFileSystem::temporary();
        let kind = wish.unwrap_or(FileSystem::Xfs);
        match disk(&base, kind) {
            Ok(Some(disk)) => {
                let says = format!("{kind:?}, created for this run in a loop device on {}", base.display());
                Ok(WorkerFileSystem { base: disk.point(), says, volume: None, disk: Some(disk), compressing: None })
            }
            Ok(None) => Ok(WorkerFileSystem {
                says: format!("that of {}", base.display()),
                base,
                volume: None,
                disk: None,
                compressing: None,
            }),
            Err(error) if wish.is_none() => {
                let says = format!("that of {} (no XFS: {error:#})", base.display());
                Ok(WorkerFileSystem { base, says, volume: None, disk: None, compressing: None })
            }
            Err(error) => Err(error.context(format!("cannot create the file system {kind:?}"))),
        }
    }

    /// Returns the directory for environments.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the volume that has the shares, if it is not a local file system.
    pub(super) fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// Returns a directory of a file system that can compress, if there is one.
    pub(super) fn compressing(&self) -> Option<PathBuf> {
        self.compressing.as_ref().map(Disk::point)
    }

    /// Returns a description of the file system.
    pub(super) fn says(&self) -> &str {
        &self.says
    }

    /// Unmounts the file systems. Fails if one is still in use.
    pub(super) fn end(mut self) -> Result<()> {
        [self.compressing.take(), self.disk.take()].into_iter().flatten().try_for_each(|mut disk| disk.unmount())
    }
}

/// Creates a file system of this kind in a loop device and mounts it; `None` if there is none to create.
fn disk(base: &Path, kind: FileSystem) -> Result<Option<Disk>> {
    let Some(make) = kind.make() else { return Ok(None) };
    Disk::with(base, make, kind.options()).map(Some)
}

/// Creates a network namespace for this thread and everything that it starts: only loopback, with every port free. Some
/// tests support only port 445. Returns `false` if that is not allowed.
pub(crate) fn own_network() -> io::Result<bool> {
    let failed = io::Error::last_os_error;
    // SAFETY: plain system calls; the request is a zeroed struct of plain numbers, and the descriptor is closed.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNET) != 0 {
            return Ok(false);
        }
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(failed());
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request);
        let error = failed();
        libc::close(socket);
        if result == 0 { Ok(true) } else { Err(error) }
    }
}

/// Creates a network namespace with the given congestion control on its loopback interface, for everything that is
/// started from now on. The routes have it, because Linux refuses a default in a namespace that
/// `net.ipv4.tcp_allowed_congestion_control` of the host does not allow.
pub(crate) fn own_network_with(congestion_control: &str) -> Result<()> {
    ensure!(own_network().context("cannot use the loopback interface")?, "cannot create a network namespace");
    for addresses in ["127.0.0.0/8", "127.0.0.1"] {
        let mut ip = Command::new("ip");
        ip.args(["route", "replace", "local", addresses, "dev", "lo", "table", "local"]);
        ip.args(["congctl", congestion_control]);
        ensure!(
            ip.status().context("cannot start ip")?.success(),
            "the congestion control {congestion_control} cannot be set; \
             /proc/sys/net/ipv4/tcp_available_congestion_control lists what this kernel has"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_disk_is_removed_completely() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().to_owned();
        // Uses a separate thread, whose mount namespace ends with it.
        let made = std::thread::spawn(move || {
            let Ok(Some(disk)) = disk(&dir, FileSystem::Xfs) else { return false };
            fs::write(disk.point().join("file"), "text").unwrap();
            let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
            assert!(mounts.contains(&format!("{} xfs", disk.point().display())));
            drop(disk);
            let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
            assert!(!mounts.contains(&dir.display().to_string()));
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
            true
        });
        let made = made.join().unwrap();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(&base.path().display().to_string()), "{made}");
    }

    #[test]
    fn without_a_selection_a_file_system_is_always_found() {
        let place = std::thread::spawn(|| {
            let place = WorkerFileSystem::make(None).unwrap();
            assert!(place.base().is_dir(), "{}", place.says());
            place.end().unwrap();
        });
        place.join().unwrap();
    }
}
