//! The directory of shares that users define, and the checks on its files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat};
use server::policy::fold;
use server::vfs::FileId;

use super::Rules;
use super::file::{self, Definition};
use crate::raw::check_share_name;

/// The largest file, in bytes; Samba has the same limit.
const LARGEST_FILE: u64 = 10 * 1024;

/// A share and the directory that was checked.
pub(super) struct Checked {
    pub(super) definition: Definition,
    /// The path of the directory, without symbolic links.
    pub(super) path: PathBuf,
    pub(super) root: FileId,
}

/// Returns the share in the file `name`; `None`, with the reason in the log, if it is not allowed.
pub(super) fn read(rules: &Rules, name: &str) -> Option<Checked> {
    if !is_trusted(&rules.path) {
        return None;
    }
    let file = rules.path.join(name);
    // The directory can be changed by users, so the file that was opened is the one that is checked.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&file);
    let found = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
        Ok(opened) => checked(rules, name, opened),
    };
    found.inspect_err(|why| tracing::warn!(file = %file.display(), why, "a user's share is not served")).ok()
}

fn checked(rules: &Rules, name: &str, mut file: File) -> Result<Checked, String> {
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.mode() & Mode::WOTH.bits() != 0 {
        return Err("it is not a regular file, or everybody may write to it".into());
    }
    let mut text = String::new();
    let length = (&mut file).take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if length as u64 > LARGEST_FILE {
        return Err("it is larger than 10 KiB".into());
    }
    let definition = file::parse(name, &text)?;
    let (path, root) = allowed(rules, &definition.path, &metadata)?;
    Ok(Checked { definition, path, root })
}

/// Returns the directory that `path` leads to, if a user may share it who owns the file with `metadata`.
fn allowed(rules: &Rules, path: &Path, metadata: &Metadata) -> Result<(PathBuf, FileId), String> {
    let real = std::fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for path in [path, &real] {
        if !rules.allowed.is_empty() && !rules.allowed.iter().any(|prefix| path.starts_with(prefix)) {
            return Err(format!("{} is not below `usershare prefix allow list`", path.display()));
        }
        // As in Samba, a prefix need not end at a slash.
        if rules.denied.iter().any(|prefix| path.as_os_str().as_encoded_bytes().starts_with(prefix.as_bytes())) {
            return Err(format!("{} is denied by `usershare prefix deny list`", path.display()));
        }
    }
    let directory = directory(&real).map_err(|error| format!("{}: {error}", real.display()))?;
    if rules.owner_only && metadata.uid() != 0 && metadata.uid() != directory.st_uid {
        return Err(format!("{} has another owner, and `usershare owner only` is set", real.display()));
    }
    let root = FileId { device: directory.st_dev, inode: directory.st_ino, stream: 0 };
    Ok((real, root))
}

/// Returns the metadata of the directory `path`, which must not contain symbolic links. The user may have put one there
/// after the path was compared with the lists.
fn directory(path: &Path) -> rustix::io::Result<Stat> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::fstat(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// Returns whether only users who may define shares can create files in the directory, and none can replace those of
/// others. The directory usually does not exist.
fn is_trusted(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    let owned = metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw();
    let mode = Mode::from_bits_retain(metadata.mode());
    let trusted = metadata.is_dir() && owned && mode.contains(Mode::SVTX) && !mode.contains(Mode::WOTH);
    if !trusted {
        let directory = path.display();
        tracing::error!(%directory, "users' shares are not served: root must own their directory, with the sticky bit \
                                     and without write permission for others (mode 1770)");
    }
    trusted
}

/// Returns the names of the files, at most `usershare max shares`. The others are not served.
pub(super) fn names(rules: &Rules) -> impl Iterator<Item = String> {
    // Samba bounds other entries, too.
    let entries = std::fs::read_dir(&rules.path).into_iter().flatten().filter_map(Result::ok);
    let names =
        entries.take(rules.max_shares.saturating_mul(2)).filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_name(name)).take(rules.max_shares)
}

/// Returns whether a file with this name can define a share. Names of temporary files begin with a colon.
pub(super) fn is_name(name: &str) -> bool {
    check_share_name(name).is_ok() && !name.starts_with('.') && name.len() <= 255 && fold(name) == name
}
