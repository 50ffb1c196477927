//! Snapshots of a thin volume of LVM. Each is a volume that is mounted in `.snapshots`.
//!
//! The mount point has mode 0, so that nobody takes the empty directory for a snapshot while it is not mounted.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use server::policy::snapshots::Format;

use super::holder::{Holder, Recorded};
use super::lvm::{self, Logical, Snapshot, State, Volumes};
use super::mounts::{self, Mount};
use super::record::{Id, Taken};
use super::source::DIRECTORY;

/// The file systems of which snapshots are mounted.
const KINDS: [&str; 2] = ["ext4", "xfs"];
/// The mode of a mount point.
const MODE: u32 = 0;

/// The thin volume of a file system.
pub(super) struct Thin {
    group: Id,
    pub(super) name: String,
    mount: Mount,
}

/// What is found at the name of a snapshot.
enum Point {
    Absent,
    /// A directory at which nothing is mounted.
    Unmounted(OwnedFd),
    Mounted,
    /// Something that this program did not create.
    Other,
}

impl Thin {
    /// Finds the thin volume of the file system on which `directory` is, and returns it with its UUID. `path` is the
    /// directory, for errors.
    pub(super) fn of(directory: &OwnedFd, path: &std::path::Path) -> Result<(Thin, Id)> {
        let mount = Mount::of(directory)?;
        let device = rustix::fs::fstat(directory)?.st_dev;
        let path = path.display();
        let Some((group, id)) = lvm::of_device(device)? else {
            bail!("{path} is neither on btrfs nor on a thin volume of LVM; snapshots can be created only there");
        };
        let volumes = Volumes::of_group(&group)?;
        let volume = volumes.find(&id).with_context(|| format!("`lvs` does not report the volume of {path}"))?;
        let name = volume.name();
        if !volume.is_thin() {
            bail!(
                "{path} is on {name}, which is not a thin volume of LVM ({}); snapshots can be created only of thin \
                 ones, and on btrfs",
                volume.layout()
            );
        }
        if !KINDS.contains(&&*mount.kind) {
            bail!("{path} is on {}; snapshots of thin volumes can be created only with ext4 and XFS", mount.kind);
        }
        Ok((Thin { group, name, mount }, id))
    }

    /// Returns whether the root of the file system is mounted.
    pub(super) fn is_whole(&self) -> bool {
        self.mount.root == "/"
    }

    /// Returns an error if no snapshot can be created at present.
    pub(super) fn check(&self, id: &str) -> Result<()> {
        self.mount.check_namespace()?;
        let volumes = Volumes::of_group(&self.group)?;
        volumes.check_pool(self.origin(&volumes, id)?)
    }

    fn origin<'a>(&self, volumes: &'a Volumes, id: &str) -> Result<&'a Logical> {
        volumes.find(id).with_context(|| format!("`lvs` no longer reports {}", self.name))
    }

    /// Returns the snapshots that exist.
    pub(super) fn recorded(&self, holder: &Holder<'_>) -> Result<Recorded> {
        let mut found = Recorded::default();
        for snapshot in Volumes::of_group(&self.group)?.snapshots(&holder.source.id) {
            let at = point(holder, &snapshot);
            let Snapshot { taken, state, .. } = snapshot;
            match at {
                Err(error) => {
                    found.unexamined.push((taken, format!("{error:#}")));
                    continue;
                }
                Ok(Point::Mounted) => {}
                Ok(_) if state == State::Writable => {}
                Ok(_) => found.unmounted.push(taken.clone()),
            }
            match state {
                State::Own => found.taken.push(taken),
                State::Former => found.former.push(taken),
                State::Writable => found.writable.push(taken),
            }
        }
        Ok(found)
    }

    /// Creates and mounts the snapshot `new`. Without the mount, none is left.
    pub(super) fn create(&self, holder: &Holder<'_>, new: &Taken) -> Result<Taken> {
        let (id, name, path) = (&holder.source.id, &*new.name, holder.path.join(&new.name));
        self.mount.check_namespace()?;
        let volumes = Volumes::of_group(&self.group)?;
        let origin = self.origin(&volumes, id)?;
        volumes.check_pool(origin)?;
        match rustix::fs::mkdirat(&holder.directory, name, Mode::from_raw_mode(MODE)) {
            Err(Errno::EXIST) => bail!("{} exists; wait a second and repeat the command", path.display()),
            made => made.with_context(|| format!("cannot create {}", path.display()))?,
        }
        let created = lvm::create(origin, name).and_then(|()| {
            let all = Volumes::of_group(&self.group)?.snapshots(id);
            all.into_iter().find(|snapshot| snapshot.taken.name == name).context("`lvs` does not report it")
        });
        let mounted = created.and_then(|snapshot| match self.mount(holder, &snapshot) {
            Ok(()) => Ok(snapshot.taken),
            Err(error) => match lvm::remove(&snapshot) {
                Ok(()) => Err(error),
                Err(other) => Err(error.context(format!("{} is left ({other:#})", snapshot.volume.name()))),
            },
        });
        if mounted.is_err() {
            // The directory is empty. If it cannot be removed now, the next run does it.
            rustix::fs::unlinkat(&holder.directory, name, AtFlags::REMOVEDIR).ok();
        }
        mounted.with_context(|| format!("cannot create a snapshot of {}", self.name))
    }

    /// Mounts those of the snapshots that are not mounted, and returns what happened to each.
    pub(super) fn mount_all(&self, holder: &Holder<'_>, wanted: &[Taken]) -> Result<Vec<(Taken, Result<()>)>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.mount.check_namespace()?;
        let mut all = Volumes::of_group(&self.group)?.snapshots(&holder.source.id);
        all.retain(|snapshot| wanted.contains(&snapshot.taken) && snapshot.state != State::Writable);
        Ok(all.into_iter().map(|snapshot| (snapshot.taken.clone(), self.mount(holder, &snapshot))).collect())
    }

    /// Mounts a snapshot.
    fn mount(&self, holder: &Holder<'_>, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.clone();
        if snapshot.volume.device().is_none() {
            lvm::activate(&snapshot.volume)?;
            let volumes = Volumes::of_group(&self.group)?;
            snapshot.volume = volumes.find(&snapshot.volume.lv_uuid).context("`lvs` no longer reports it")?.clone();
        }
        let name = &*snapshot.taken.name;
        let path = holder.path.join(name);
        let cannot = || format!("cannot mount {} at {}", snapshot.volume.name(), path.display());
        let (device, _) = snapshot.volume.device().context("its volume is not active").with_context(cannot)?;
        let directory = match point(holder, &snapshot).with_context(cannot)? {
            Point::Mounted => return Ok(()),
            Point::Unmounted(directory) => directory,
            Point::Other => {
                bail!("{} exists; move it away, and `frevo snapshot run` mounts the snapshot", path.display())
            }
            Point::Absent => {
                rustix::fs::mkdirat(&holder.directory, name, Mode::from_raw_mode(MODE)).with_context(cannot)?;
                rustix::fs::openat(&holder.directory, name, DIRECTORY, Mode::empty()).with_context(cannot)?
            }
        };
        mounts::mount(device, &self.mount.kind, &directory).with_context(cannot)?;
        if !matches!(point(holder, &snapshot), Ok(Point::Mounted)) {
            mounts::unmount(&holder.directory, name).with_context(cannot)?;
            bail!("{} is not the device of {}; run `vgmknodes`", device.display(), snapshot.volume.name());
        }
        Ok(())
    }

    /// Unmounts and removes a snapshot. One that cannot be removed stays mounted.
    pub(super) fn remove(&self, holder: &Holder<'_>, taken: &Taken) -> Result<()> {
        let path = holder.path.join(&taken.name);
        let path = path.display();
        let all = Volumes::of_group(&self.group)?.snapshots(&holder.source.id);
        let found = all.into_iter().find(|snapshot| snapshot.taken == *taken && snapshot.state == State::Own);
        let Some(snapshot) = found else { bail!("{path} is not the snapshot that was recorded; it is kept") };
        let is_mounted = match point(holder, &snapshot)? {
            Point::Mounted => true,
            Point::Unmounted(_) | Point::Absent => false,
            Point::Other => bail!("{path} is not the snapshot that was recorded; it is kept"),
        };
        if is_mounted && !mounts::unmount(&holder.directory, &taken.name).with_context(|| path.to_string())? {
            bail!(
                "{path} is in use: a client has a file in it open, or a local process uses it; it is kept, and the \
                 next run tries again"
            );
        }
        let removed = lvm::remove(&snapshot).and_then(|()| {
            match Volumes::of_group(&self.group)?.find(&snapshot.volume.lv_uuid) {
                None => Ok(()),
                Some(_) => bail!("`lvremove` did not remove it"),
            }
        });
        if let Err(error) = removed {
            let again = if is_mounted { self.mount(holder, &snapshot) } else { Ok(()) };
            let more = again.err().map(|error| format!("; also, {error:#}")).unwrap_or_default();
            bail!("cannot remove {}: {error:#}{more}", snapshot.volume.name());
        }
        match rustix::fs::unlinkat(&holder.directory, &*taken.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("the snapshot was removed, and {path} remains")),
        }
    }

    /// Removes the mount points of snapshots that no longer exist.
    pub(super) fn tidy(&self, holder: &Holder<'_>) -> Result<()> {
        let all = Volumes::of_group(&self.group)?.snapshots(&holder.source.id);
        let here = rustix::fs::fstat(&holder.directory)?.st_dev;
        let mut stale = Vec::new();
        for entry in rustix::fs::Dir::read_from(&holder.directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let is_token = Format::token().moment(name.as_bytes(), None).is_some();
            if is_token && all.iter().all(|snapshot| snapshot.taken.name != name) {
                stale.push(name);
            }
        }
        for name in stale {
            let status = rustix::fs::statat(&holder.directory, &*name, AtFlags::SYMLINK_NOFOLLOW);
            let is_point = status.is_ok_and(|status| {
                let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
                is_directory && status.st_mode & 0o7777 == MODE && status.st_uid == 0 && status.st_dev == here
            });
            if is_point {
                // One that is not empty is not this program's, and the kernel keeps it.
                rustix::fs::unlinkat(&holder.directory, &*name, AtFlags::REMOVEDIR).ok();
            }
        }
        Ok(())
    }
}

/// Looks at the name of a snapshot.
fn point(holder: &Holder<'_>, snapshot: &Snapshot) -> Result<Point> {
    let name = &*snapshot.taken.name;
    let directory = match rustix::fs::openat(&holder.directory, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Point::Absent),
        Err(Errno::LOOP | Errno::NOTDIR) => return Ok(Point::Other),
        opened => opened.with_context(|| format!("cannot open {}", holder.path.join(name).display()))?,
    };
    let status = rustix::fs::fstat(&directory)?;
    if snapshot.volume.device().is_some_and(|(_, device)| device == status.st_dev) {
        return Ok(Point::Mounted);
    }
    let is_own = status.st_dev == rustix::fs::fstat(&holder.directory)?.st_dev
        && status.st_uid == 0
        && super::source::is_empty(&directory)?;
    Ok(if is_own { Point::Unmounted(directory) } else { Point::Other })
}
