//! The subvolume of btrfs, or the file system on a thin volume of LVM, that contains a share.
//!
//! Users may own directories on the path of a share, and can exchange them while this program works as root. So each
//! component is opened from the open directory above it, and the root of the volume is reached upward from the open
//! directory of the share. A symbolic link is followed only if nobody but root can have created it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;

use super::btrfs::{self, Uuid};
use super::record::{self, Id};
use super::thin::Thin;

pub(super) const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// For a directory on the path, which is not read.
const COMPONENT: OFlags = DIRECTORY.union(OFlags::PATH);
/// Permission to write for others than the owner.
const WRITABLE: u32 = 0o022;
/// Symbolic links on one path, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// What contains a share and is snapshotted as a whole.
pub(super) struct Source {
    /// Where its root is found.
    pub(super) path: PathBuf,
    pub(super) directory: OwnedFd,
    pub(super) id: Id,
    pub(super) kind: Kind,
}

/// What can be snapshotted.
pub(super) enum Kind {
    Subvolume {
        uuid: Uuid,
        /// Whether its root belongs to root. Another owner can make its snapshots writable.
        is_of_root: bool,
    },
    Thin(Thin),
}

impl Source {
    /// Finds what contains the directory `path`.
    pub(super) fn of(path: &Path) -> Result<Source> {
        let walked = walk(path)?;
        let is_on_btrfs = btrfs::is_on(&walked.directory);
        match is_on_btrfs.with_context(|| format!("cannot examine {}", path.display()))? {
            true => Source::subvolume(walked, path),
            false => Source::thin(walked, path),
        }
    }

    /// Returns how an administrator removes a snapshot.
    pub(super) fn removal(&self) -> &'static str {
        match self.kind {
            Kind::Subvolume { .. } => "`btrfs subvolume delete`",
            Kind::Thin(_) => "`umount` and `lvremove`",
        }
    }

    /// Returns how an administrator makes a snapshot read-only.
    pub(super) fn protection(&self) -> &'static str {
        match self.kind {
            Kind::Subvolume { .. } => "`btrfs property set`",
            Kind::Thin(_) => "`lvchange --permission r`",
        }
    }

    /// Returns the name of the logical volume; `None` on btrfs.
    pub(super) fn logical_volume(&self) -> Option<&str> {
        match &self.kind {
            Kind::Subvolume { .. } => None,
            Kind::Thin(thin) => Some(&thin.name),
        }
    }

    /// Returns an error if no snapshot can be created at present, as far as that is known before.
    pub(super) fn check(&self) -> Result<()> {
        match &self.kind {
            Kind::Subvolume { .. } => Ok(()),
            Kind::Thin(thin) => thin.check(&self.id),
        }
    }

    /// Finds the root of the file system above a directory that is on a thin volume.
    fn thin(walked: Walked, path: &Path) -> Result<Source> {
        let Walked { mut directory, path: mut at } = walked;
        let examine = || format!("cannot examine {}", path.display());
        let (thin, id) = Thin::of(&directory, path)?;
        let mount = mount(&directory).with_context(examine)?;
        // Above `/` is `/` itself.
        while at.parent().is_some() {
            let above = rustix::fs::openat(&directory, "..", DIRECTORY, Mode::empty());
            let above = above.with_context(|| format!("cannot open the directory above {}", at.display()))?;
            if self::mount(&above).with_context(examine)? != mount {
                break;
            }
            at.pop();
            directory = above;
        }
        if !thin.is_whole() {
            bail!(
                "{} is mounted without the root of its file system, where the snapshots would be; mount the whole file \
                 system",
                at.display()
            );
        }
        Ok(Source { path: at, directory, id, kind: Kind::Thin(thin) })
    }

    /// Finds the subvolume above a directory that is on btrfs.
    fn subvolume(walked: Walked, path: &Path) -> Result<Source> {
        let Walked { mut directory, path: mut at } = walked;
        let examine = || format!("cannot examine {}", path.display());
        let share = rustix::fs::fstat(&directory).with_context(examine)?;
        let mount = mount(&directory).with_context(examine)?;
        while !btrfs::is_root(&directory).with_context(examine)? {
            let above = rustix::fs::openat(&directory, "..", DIRECTORY, Mode::empty());
            let above = above.with_context(|| format!("cannot open the directory above {}", at.display()))?;
            // Each subvolume has its own device number.
            let is_same = rustix::fs::fstat(&above).with_context(examine)?.st_dev == share.st_dev
                && self::mount(&above).with_context(examine)? == mount;
            if !is_same || !at.pop() {
                bail!(
                    "{} is mounted without the root of its subvolume, where the snapshots would be; mount the whole \
                     subvolume",
                    at.display()
                );
            }
            directory = above;
        }
        let described = btrfs::describe(&directory).with_context(|| format!("cannot describe {}", at.display()))?;
        let is_of_root = rustix::fs::fstat(&directory).with_context(examine)?.st_uid == 0;
        let uuid = described.uuid;
        Ok(Source { path: at, directory, id: record::shown(&uuid), kind: Kind::Subvolume { uuid, is_of_root } })
    }
}

/// A directory, and its path without symbolic links.
struct Walked {
    directory: OwnedFd,
    path: PathBuf,
}

/// Opens the directory `path`.
fn walk(path: &Path) -> Result<Walked> {
    if path.as_os_str().is_empty() {
        bail!("the share has no directory on this host; set `path` of the share");
    }
    if !path.is_absolute() {
        bail!("{} is not an absolute path; correct `path` of the share", path.display());
    }
    let root = || rustix::fs::open("/", COMPONENT, Mode::empty()).context("cannot open /");
    let mut walked = Walked { directory: root()?, path: PathBuf::from("/") };
    let mut rest = names(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        let at = walked.path.join(&name);
        let cannot = || format!("cannot open {}", at.display());
        match rustix::fs::openat(&walked.directory, &name, COMPONENT, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) => {
                links += 1;
                let target = link(&walked, &name).with_context(cannot)?;
                if links > LINKS_MAX {
                    bail!("{} leads through too many symbolic links", path.display());
                }
                if target.has_root() {
                    walked = Walked { directory: root()?, path: PathBuf::from("/") };
                }
                rest.extend(names(&target));
            }
            opened => {
                walked.directory = opened.with_context(cannot)?;
                if name == ".." {
                    walked.path.pop();
                } else {
                    walked.path = at;
                }
            }
        }
    }
    let opened = rustix::fs::openat(&walked.directory, ".", DIRECTORY, Mode::empty());
    walked.directory = opened.with_context(|| format!("cannot open {}", walked.path.display()))?;
    Ok(walked)
}

/// Returns the names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// Returns the target of a symbolic link of root in a directory of root.
fn link(above: &Walked, name: &OsStr) -> Result<PathBuf> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = rustix::fs::openat(&above.directory, name, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&link)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
        bail!("it is not a directory");
    }
    if status.st_uid != 0 || !is_of_root(&rustix::fs::fstat(&above.directory)?) {
        bail!(
            "it is a symbolic link that others than root could have created; set `path` of the share to the directory \
             itself"
        );
    }
    let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// Returns whether only root can change the names in a directory, or the content of a file. The mode includes what an
/// ACL permits.
pub(super) fn is_of_root(status: &Stat) -> bool {
    status.st_uid == 0 && status.st_mode & WRITABLE == 0
}

/// Returns the number of the mount of a directory; 0 if the kernel does not tell it (before Linux 5.8).
fn mount(directory: &OwnedFd) -> rustix::io::Result<u64> {
    let known = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    Ok(if known.stx_mask & StatxFlags::MNT_ID.bits() == 0 { 0 } else { known.stx_mnt_id })
}

/// Returns whether a directory has no names.
pub(super) fn is_empty(directory: &OwnedFd) -> rustix::io::Result<bool> {
    // A description of its own, so that the position in the directory is its own.
    for entry in rustix::fs::Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens a file of root that is not a link; `None` if it does not exist.
pub(super) fn file_of_root(directory: &OwnedFd, name: &str, flags: OFlags) -> Result<Option<File>> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600)) {
        Err(Errno::NOENT) => return Ok(None),
        file => File::from(file?),
    };
    let status = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || !is_of_root(&status) {
        bail!("it is not a file that only root can change; remove it");
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    #[test]
    fn only_links_of_root_are_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = std::fs::canonicalize(dir.path()).expect("it exists");
        std::fs::create_dir_all(top.join("real/share")).expect("it is empty");
        std::fs::write(top.join("file"), "").expect("there is space");
        let text = |path: &str| walk(&top.join(path)).map(|walked| walked.path).map_err(|error| format!("{error:#}"));
        assert_eq!(text("real/./share"), Ok(top.join("real/share")));
        assert_eq!(text("real/share/../share"), Ok(top.join("real/share")));
        assert!(text("file").is_err_and(|why| why.contains("not a directory")));
        assert!(text("none").is_err());
        for (path, why) in [("", "no directory"), (".", "not an absolute path"), ("real/share", "not an absolute path")]
        {
            let said = walk(Path::new(path)).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(said.contains(why), "{path}: {said}");
        }
        symlink("real", top.join("relative")).expect("the name is not in use");
        symlink(top.join("real"), top.join("absolute")).expect("the name is not in use");
        symlink("loop", top.join("loop")).expect("the name is not in use");
        if rustix::process::geteuid().is_root() {
            for link in ["relative", "absolute"] {
                assert_eq!(text(&format!("{link}/share")), Ok(top.join("real/share")), "{link}");
            }
            assert!(text("loop").is_err_and(|why| why.contains("too many")));
            std::fs::set_permissions(&top, PermissionsExt::from_mode(0o1777)).expect("it is the owner's");
            assert!(text("relative/share").is_err_and(|why| why.contains("others than root")), "a directory of all");
            std::fs::set_permissions(&top, PermissionsExt::from_mode(0o755)).expect("it is the owner's");
            lchown(top.join("relative"), Some(1000), None).expect("root has permission");
        }
        assert!(text("relative/share").is_err_and(|why| why.contains("others than root")));
    }

    #[test]
    fn a_file_of_others_is_not_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = walk(dir.path()).expect("it exists").directory;
        let open = |name| file_of_root(&directory, name, OFlags::RDONLY).map(|file| file.is_some());
        assert!(!open("none").expect("its absence is no error"));
        std::fs::write(dir.path().join("file"), "").expect("there is space");
        std::fs::set_permissions(dir.path().join("file"), PermissionsExt::from_mode(0o600)).expect("the owner");
        assert_eq!(open("file").is_ok(), rustix::process::geteuid().is_root());
        std::fs::set_permissions(dir.path().join("file"), PermissionsExt::from_mode(0o666)).expect("the owner");
        assert!(open("file").is_err(), "others may write");
        symlink("file", dir.path().join("link")).expect("the name is not in use");
        assert!(open("link").is_err() && open(".").is_err());
        assert!(!is_empty(&directory).expect("it is readable"));
    }
}
