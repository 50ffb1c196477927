//! Mounted file systems.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// How often it is checked whether the file system is mounted, and how many times at most.
const PAUSE: Duration = Duration::from_millis(200);
const TRIES: u32 = 150;

/// A mounted file system, unmounted when it is dropped.
pub(crate) struct Mount {
    place: PathBuf,
    /// The program that serves it.
    program: Option<Child>,
}

impl Mount {
    /// A directory served by bindfs, a file system in user space.
    pub(crate) fn fuse(source: &Path, place: &Path) -> Result<Mount> {
        let mut command = Command::new("bindfs");
        command.arg("-f").arg(source).arg(place).stdout(Stdio::null()).stderr(Stdio::null());
        let program = command.spawn().context("cannot start bindfs")?;
        let mount = Mount { place: place.to_owned(), program: Some(program) };
        for _ in 0..TRIES {
            if fs::read_to_string("/proc/self/mounts")?.contains(&*place.to_string_lossy()) {
                return Ok(mount);
            }
            thread::sleep(PAUSE);
        }
        anyhow::bail!("bindfs mounts nothing at {}", place.display())
    }

    /// A file system in memory.
    pub(crate) fn memory(size: &str, place: &Path) -> Result<Mount> {
        Mount::kernel("tmpfs", &format!("size={size},mode=0777"), place)
    }

    /// The directories `lower`, and `upper` with the changes, in the directory `parts`, which needs an empty directory
    /// `work`.
    pub(crate) fn overlay(parts: &Path, place: &Path) -> Result<Mount> {
        let of = |name: &str| format!("{name}dir={}/{name}", parts.display());
        Mount::kernel("overlay", &["lower", "upper", "work"].map(of).join(","), place)
    }

    /// The directory `source` at another place.
    pub(crate) fn bind(source: &Path, place: &Path) -> Result<Mount> {
        let done = Command::new("mount").arg("--bind").args([source, place]).status()?;
        ensure!(done.success(), "mount: {done}");
        Ok(Mount { place: place.to_owned(), program: None })
    }

    fn kernel(kind: &str, options: &str, place: &Path) -> Result<Mount> {
        let done = Command::new("mount").args(["-t", kind, "-o", options, kind]).arg(place).status()?;
        ensure!(done.success(), "mount: {done}");
        Ok(Mount { place: place.to_owned(), program: None })
    }

    /// Sends a signal to the program that serves the file system.
    pub(crate) fn signal(&self, signal: libc::c_int) -> Result<()> {
        let program = self.program.as_ref().context("no program serves the file system")?;
        // SAFETY: kill has no memory effects. The child has not been waited for, so its process ID is its own.
        ensure!(unsafe { libc::kill(program.id() as libc::pid_t, signal) } == 0, std::io::Error::last_os_error());
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.program.is_some() {
            let _ = self.signal(libc::SIGCONT);
        }
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
        if let Some(mut program) = self.program.take() {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}
