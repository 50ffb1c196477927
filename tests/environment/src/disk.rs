//! A separate file system in a loop device.
//!
//! As root, a run creates a file with the length of a small disk and a file system in it, and mounts that in a mount
//! namespace that only its own threads and programs see. The file is unlinked as soon as it is mounted. If the run is
//! killed, only an empty directory is left, because the namespace ends with its last process, the mount with the
//! namespace, the loop device with the mount, and the file with the loop device.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{io, ptr};

use anyhow::{Context, Result, ensure};

/// Length of the sparse file.
const LENGTH: u64 = 16 << 30;
/// Number of attempts to unmount while a server that was just stopped still has open files.
const TRIES: u32 = 20;

/// A file system in a loop device, unmounted when it is dropped.
pub struct Disk {
    mounted: bool,
    dir: tempfile::TempDir,
}

impl Disk {
    /// Creates a file system in the directory `base` with `make`, which is given the image file, and mounts it with
    /// `options`. Afterwards, the calling thread is in its own mount namespace.
    ///
    /// # Errors
    ///
    /// If this process is not root, or if a program is missing.
    pub fn with(base: &Path, mut make: Command, options: &str) -> Result<Disk> {
        // SAFETY: geteuid has no preconditions and cannot fail.
        ensure!(unsafe { libc::geteuid() } == 0, "only root can mount");
        let dir = tempfile::Builder::new().prefix("frevo-disk-").tempdir_in(base)?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let image = dir.path().join("disk");
        File::create(&image)?.set_len(LENGTH)?;
        done(make.arg(&image))?;
        own_mounts().context("cannot create a mount namespace")?;
        let mut disk = Disk { mounted: false, dir };
        fs::create_dir(disk.point())?;
        done(Command::new("mount").args(["-o", options]).arg(&image).arg(disk.point()))?;
        disk.mounted = true;
        fs::remove_file(&image)?;
        fs::set_permissions(disk.point(), fs::Permissions::from_mode(0o755))?;
        Ok(disk)
    }

    /// Mounts an empty file system of `bytes` bytes in memory. Afterwards, the calling thread is in its own mount
    /// namespace.
    ///
    /// # Errors
    ///
    /// If this process is not root.
    pub fn in_memory(base: &Path, bytes: u64) -> Result<Disk> {
        let dir = tempfile::Builder::new().prefix("frevo-disk-").tempdir_in(base)?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        own_mounts().context("cannot create a mount namespace")?;
        let mut disk = Disk { mounted: false, dir };
        fs::create_dir(disk.point())?;
        let options = format!("size={bytes},mode=755");
        done(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(disk.point()))?;
        disk.mounted = true;
        Ok(disk)
    }

    /// Returns the mount point.
    pub fn point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// Unmounts the file system.
    ///
    /// # Errors
    ///
    /// If it is still in use.
    pub fn unmount(&mut self) -> Result<()> {
        let point = self.point();
        let path = CString::new(point.as_os_str().as_bytes())?;
        let unmount = |flags| {
            // SAFETY: the path ends in a zero byte and outlives the call.
            let result = unsafe { libc::umount2(path.as_ptr(), flags) };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        if !std::mem::take(&mut self.mounted) {
            return Ok(());
        }
        for _ in 0..TRIES {
            if unmount(0).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        unmount(libc::MNT_DETACH).with_context(|| format!("cannot unmount {}", point.display()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{error:#}");
        }
    }
}

/// Creates a mount namespace for this thread and everything that it starts. Mounts in it are not visible outside.
fn own_mounts() -> io::Result<()> {
    // SAFETY: plain system calls; the string ends in a zero byte.
    let result = unsafe {
        match libc::unshare(libc::CLONE_NEWNS) {
            0 => libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), libc::MS_REC | libc::MS_SLAVE, ptr::null()),
            failed => failed,
        }
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn done(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("cannot start {}", name.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", name.display(), said.trim());
    Ok(())
}
