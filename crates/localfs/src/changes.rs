//! Creating, renaming, linking and removing names, each through the descriptor of its directory.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use backing::metadata::{expected_attributes, is_birth, store};
use backing::workers::Lane;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Statx, StatxFlags, XattrFlags};
use rustix::io::Errno as Raw;
use server::vfs::xattr::DosAttributes;
use server::vfs::{
    Access, Create, Created, Errno, FileId, Identity, InitialAcl, Kind, NewFile, RelPath, Removed, Replace, Result,
    SpecialFile, Time,
};

use crate::aside::Aside;
use crate::file::LARGE;
use crate::metadata::{self, Source, coarse_now, describe, kind, report};
use crate::node::{Descriptor, Open};
use crate::root::{id, stat, stat_name};
use crate::watch::own;
use crate::{Share, errno, identity, proc_fd};

impl Share {
    pub(crate) fn create(self: &Arc<Self>, who: &Arc<Identity>, path: &RelPath, new: NewFile) -> Result<Created> {
        let (kind, access) = match &new.kind {
            Create::File(access) => (Kind::File, Some(*access)),
            Create::Directory => (Kind::Directory, None),
            Create::Symlink { target, replaces } => {
                return self.create_other(who, path, &Other::Symlink(target), *replaces);
            }
            Create::Special { file, replaces } => {
                return self.create_other(who, path, &Other::special(*file, new.mode)?, *replaces);
            }
        };
        let NewFile { mode, dos_attributes, protection, .. } = new;
        let _own = own::names(self.root.path(), &[(path, true)]);
        identity::assume(who)?;
        let before = dos_attributes.map(|attributes| expected_attributes(kind, attributes, coarse_now()));
        let (fd, first) = match access {
            Some(access) => (self.create_file(path, access, mode)?, None),
            None => self.create_directory(who, path, mode).map(|(fd, made)| (fd, Some(made)))?,
        };
        // Usually one look at the file is sufficient, after everything else is done.
        let looks = first.is_none() && (own::is_curious() || !self.root.local);
        let first = if looks { Some(stat(&fd)?) } else { first };
        let _own_too = first.as_ref().and_then(|made| own::file(self.root.path(), id(made)));
        let has_owner = |acl: &&InitialAcl| first.as_ref().is_none_or(|made| (made.stx_uid, made.stx_gid) == acl.owner);
        let source = if access.is_some() { Source::Open(&fd) } else { Source::Path(&fd) };
        let protection = protection.as_ref();
        let set = protection
            .filter(has_owner)
            .map(|acl| set_initial_acl(&fd, source, acl).and_then(|()| keep_setgid(&fd, first.as_ref())));
        let is_set = matches!(set, Some(Ok(())));
        // The file exists now, and another user may have opened it. Attributes that cannot be stored are reported as
        // not stored.
        let stores = |attributes: &DosAttributes| store(&source, attributes, true).is_ok();
        let exact = |made: &Statx| dos_attributes.map(|attributes| report(made).first_attributes(attributes));
        let mut stored = first.as_ref().map_or(before, exact).filter(stores);
        let mut made = stat(&fd)?;
        if let Some(created) = stored.and_then(|stored| stored.created)
            && !is_birth(created, describe(&made, DosAttributes::default()).created)
        {
            // The creation time must equal the other times to the nanosecond.
            stored = exact(&made).filter(stores);
            made = stat(&fd)?;
        }
        let open = Open::new(Arc::clone(self), who.uid, Descriptor::Own(fd), &made, access);
        let metadata = match stored {
            Some(attributes) => describe(&made, attributes),
            None => self.metadata(&made, open.source()),
        };
        let as_expected = |acl: &InitialAcl| {
            acl.owner == (metadata.uid, metadata.gid) && acl.mode.is_none_or(|mode| mode == metadata.mode)
        };
        let protected = is_set && protection.is_some_and(as_expected);
        self.unsynced.note(metadata.id);
        Ok(Created { node: open.into_node(), metadata, protected })
    }

    fn create_file(&self, path: &RelPath, access: Access, mode: u32) -> Result<OwnedFd> {
        let access = match (access.read, access.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.root.make(path, flags, mode & 0o7777)
    }

    /// Creates a directory and opens it. Another process may replace it between the two steps. A replacement does not
    /// belong to the creator, and its protection must not be changed.
    fn create_directory(&self, who: &Identity, path: &RelPath, mode: u32) -> Result<(OwnedFd, Statx)> {
        if path.is_root() {
            return Err(Errno::EXIST);
        }
        let (parent, name) = self.root.parent(path)?;
        let begun = coarse_now();
        rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode & 0o7777)).map_err(errno)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&parent, name, flags, Mode::empty()).map_err(errno)?;
        let found = stat(&fd)?;
        // File systems mounted below the root may report owner and birth time in their own ways.
        let is_ours = self.root.local && id(&found).device == self.root.id.device;
        if is_ours && !is_made(&found, begun, identity::uid(who)) {
            return Err(Errno::STALE);
        }
        Ok((fd, found))
    }

    pub(crate) fn rename(
        &self,
        who: &Arc<Identity>,
        from: &RelPath,
        file: FileId,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()> {
        let _own = own::names(self.root.path(), &[(from, false), (to, true)]);
        identity::assume(who)?;
        let (source, old) = self.root.parent(from)?;
        let here = self.named(&source, old, from, file)?;
        let (target, new) = self.root.parent(to)?;
        // The kernel would replace an empty directory by a directory.
        let replace = if kind(&here) == Kind::Directory { Replace::Nothing } else { replace };
        let replaced = if replace == Replace::Nothing { None } else { stat_name(&target, new).ok() };
        if let Some(replaced) = &replaced {
            // A link that replaced its own target would lead nowhere.
            let is_target = id(&here) != file && id(replaced) == file;
            if is_target || !replace.admits(id(replaced)) {
                return Err(Errno::EXIST);
            }
        }
        let replaces = replaced.is_some() || replace == Replace::Any;
        let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match rustix::fs::renameat_with(&source, old, &target, new, flags).map_err(errno) {
            Ok(()) => {}
            // If the directory itself ignores case, the other spelling is the same name.
            Err(Errno::EXIST) if is_respelling(&source, old, &target, new, &here) => {
                rustix::fs::renameat(&source, old, &target, new).map_err(errno)?;
            }
            Err(Errno::INVAL) if !replaces => rename_without_flags(&source, old, &target, new)?,
            Err(error) => return Err(error),
        }
        self.unsynced.note(id(&here));
        if let Some(replaced) = replaced {
            self.cache.forget(id(&replaced));
        }
        // With two names of one file, the kernel leaves both.
        let linked = replaces && here.stx_nlink > 1 && (old != new || id(&stat(&source)?) != id(&stat(&target)?));
        if linked && stat_name(&source, old).is_ok_and(|still| id(&still) == id(&here)) {
            return rustix::fs::unlinkat(&source, old, AtFlags::empty()).map_err(errno);
        }
        Ok(())
    }

    /// Looks up `name` in `directory`, which must be `file` or a link that leads to it.
    pub(crate) fn named(&self, directory: &OwnedFd, name: &[u8], path: &RelPath, file: FileId) -> Result<Statx> {
        let here = stat_name(directory, name)?;
        let leads_there = || kind(&here) == Kind::Symlink && self.root.target(path) == Ok(file);
        if id(&here) == file || leads_there() { Ok(here) } else { Err(Errno::STALE) }
    }

    pub(crate) fn link(&self, who: &Arc<Identity>, open: &Open, to: &RelPath, replace: Replace) -> Result<()> {
        let _own = own::names(self.root.path(), &[(to, true)]);
        if open.kind == Kind::Directory {
            return Err(Errno::PERM);
        }
        if let Some(directory) = to.parent() {
            open.linked.lock().get_or_insert_default().note(directory);
        }
        identity::assume(who)?;
        let (target, name) = self.root.parent(to)?;
        let (proc, magic) = self.root.magic(open.fd());
        let link = |name: &[u8]| {
            rustix::fs::linkat(proc, magic.as_c_str(), &target, name, AtFlags::SYMLINK_FOLLOW).map_err(errno)
        };
        match link(name) {
            Err(Errno::EXIST) if replace != Replace::Nothing => {}
            done => return done,
        }
        let other = stat_name(&target, name)?;
        if id(&other) == open.id {
            return Ok(());
        }
        if !replace.admits(id(&other)) {
            return Err(Errno::EXIST);
        }
        if kind(&other) == Kind::Directory {
            return Err(Errno::ISDIR);
        }
        // Only a rename replaces a file in one step.
        let aside = Aside::new(self, &target, open.id);
        let beside = to.parent().and_then(|parent| parent.join(aside.name())).unwrap_or_default();
        let _own = own::names(self.root.path(), &[(&beside, true), (&beside, false)]);
        identity::assume(who)?;
        link(aside.name())?;
        let renamed = rustix::fs::renameat(&target, aside.name(), &target, name).map_err(errno);
        // The name is left over if the rename failed or found that both names are of one file.
        let _ = rustix::fs::unlinkat(&target, aside.name(), AtFlags::empty());
        renamed
    }

    fn create_other(
        self: &Arc<Self>,
        who: &Arc<Identity>,
        path: &RelPath,
        other: &Other<'_>,
        replaces: Option<FileId>,
    ) -> Result<Created> {
        match replaces {
            Some(file) => self.become_other(who, path, file, other)?,
            None => {
                let _own = own::names(self.root.path(), &[(path, true)]);
                identity::assume(who)?;
                let (directory, name) = self.root.parent(path)?;
                other.make(&directory, name)?;
            }
        }
        let (directory, name) = self.root.parent(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&directory, name, flags, Mode::empty()).map_err(errno)?;
        let made = stat(&fd)?;
        let metadata = self.metadata(&made, Source::Path(&fd));
        let node = Open::new(Arc::clone(self), who.uid, Descriptor::Own(fd), &made, None).into_node();
        Ok(Created { node, metadata, protected: false })
    }

    /// Exchanges both names, so that the replaced file can be checked before it is removed.
    fn become_other(&self, who: &Arc<Identity>, path: &RelPath, file: FileId, other: &Other<'_>) -> Result<()> {
        identity::assume(who)?;
        let (directory, name) = self.root.parent(path)?;
        let noted = Aside::new(self, &directory, file);
        let aside = noted.name();
        let beside = path.parent().and_then(|parent| parent.join(aside)).unwrap_or_default();
        let _own = own::names(self.root.path(), &[(path, true), (path, false), (&beside, true), (&beside, false)]);
        identity::assume(who)?;
        other.make(&directory, aside)?;
        let exchange = || rustix::fs::renameat_with(&directory, name, &directory, aside, RenameFlags::EXCHANGE);
        let remove = |flags| rustix::fs::unlinkat(&directory, aside, flags).map_err(errno);
        if let Err(error) = exchange() {
            let _ = remove(AtFlags::empty());
            return Err(errno(error));
        }
        let removed = stat_name(&directory, aside).and_then(|old| match kind(&old) {
            _ if id(&old) != file => Err(Errno::STALE),
            Kind::Directory => remove(AtFlags::REMOVEDIR),
            Kind::File if old.stx_size == 0 => remove(AtFlags::empty()),
            Kind::File => Err(Errno::NOTEMPTY),
            Kind::Symlink | Kind::Special => Err(Errno::INVAL),
        });
        if let Err(error) = removed {
            // If even that fails, the old file remains under the other name.
            exchange().map_err(errno)?;
            let _ = remove(AtFlags::empty());
            return Err(if error == Errno::EXIST { Errno::NOTEMPTY } else { error });
        }
        self.cache.forget(file);
        Ok(())
    }

    pub(crate) fn unlink(&self, who: &Arc<Identity>, path: &RelPath, file: FileId, kind: Kind) -> Result<Removed> {
        let _own = own::names(self.root.path(), &[(path, false)]);
        identity::assume(who)?;
        let (directory, name) = self.root.parent(path)?;
        let here = self.named(&directory, name, path, file)?;
        // For a link, the link itself is removed, whatever it leads to.
        let is_directory = kind == Kind::Directory && metadata::kind(&here) != Kind::Symlink;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        // The last close of a removed file frees its blocks.
        let held = match kind {
            Kind::File if here.stx_blocks.saturating_mul(512) > LARGE => {
                let hold = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Some(rustix::fs::openat(&directory, name, hold, Mode::empty()).map_err(errno)?)
            }
            _ => None,
        };
        let removed = rustix::fs::unlinkat(&directory, name, flags).map_err(errno);
        if held.is_some() {
            self.root.system_of(&here).executor.submit(who.uid, Lane::Slow, Box::new(move || drop(held)));
        }
        if removed.is_ok() {
            self.cache.forget(id(&here));
            if here.stx_nlink <= 1 || kind == Kind::Directory {
                self.unsynced.gone(id(&here));
            }
        }
        match removed {
            // Some file systems return this for a directory that has entries.
            Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
            Err(error) => Err(error),
            // A link that leads to the file is not one of its names.
            Ok(()) if id(&here) != file => Ok(Removed { links: None }),
            Ok(()) if is_directory => Ok(Removed { links: Some(0) }),
            Ok(()) => Ok(Removed { links: Some(here.stx_nlink.saturating_sub(1)) }),
        }
    }
}

/// What is neither a regular file nor a directory.
enum Other<'a> {
    /// A symbolic link to a target.
    Symlink(&'a [u8]),
    /// A FIFO or a socket with a mode.
    Special(FileType, Mode),
}

impl Other<'_> {
    /// Returns a FIFO or a socket. A device would give access to hardware of the server.
    fn special(file: SpecialFile, mode: u32) -> Result<Other<'static>> {
        let mode = Mode::from_raw_mode(mode & 0o777);
        match file {
            SpecialFile::Fifo => Ok(Other::Special(FileType::Fifo, mode)),
            SpecialFile::Socket => Ok(Other::Special(FileType::Socket, mode)),
            SpecialFile::CharacterDevice(..) | SpecialFile::BlockDevice(..) => Err(Errno::PERM),
        }
    }

    fn make(&self, directory: &OwnedFd, name: &[u8]) -> Result<()> {
        match self {
            Other::Symlink(target) => rustix::fs::symlinkat(*target, directory, name),
            Other::Special(file, mode) => rustix::fs::mknodat(directory, name, *file, *mode, 0),
        }
        .map_err(errno)
    }
}

/// Returns whether `found` may be the directory that `uid` started creating at `begun`. A directory that the same user
/// created with the same time stamp is indistinguishable, but that one is just as new and empty.
fn is_made(found: &Statx, begun: Time, uid: u32) -> bool {
    let is_recent = metadata::birth(found).is_none_or(|born| (born.secs, born.nanos) >= (begun.secs, begun.nanos));
    found.stx_uid == uid && is_recent
}

/// Returns whether `new` is another spelling of the name `old` in a case-insensitive directory.
fn is_respelling(source: &OwnedFd, old: &[u8], target: &OwnedFd, new: &[u8], here: &Statx) -> bool {
    let is_it = || stat_name(target, new).is_ok_and(|there| id(&there) == id(here));
    let same_directory = || match (stat(source), stat(target)) {
        (Ok(source), Ok(target)) => id(&source) == id(&target),
        _ => false,
    };
    old != new && here.stx_nlink == 1 && server::name::same(old, new) && is_it() && same_directory()
}

/// For file systems that cannot refuse to replace a name: checks first.
pub(crate) fn rename_without_flags(source: &OwnedFd, old: &[u8], target: &OwnedFd, new: &[u8]) -> Result<()> {
    match stat_name(target, new) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => rustix::fs::renameat(source, old, target, new).map_err(errno),
        Err(error) => Err(error),
    }
}

/// Sets an initial ACL: first the security descriptor, which is valid only with the POSIX ACLs that follow.
fn set_initial_acl(fd: &OwnedFd, source: Source<'_, &OwnedFd>, acl: &InitialAcl) -> rustix::io::Result<()> {
    let (name, value) = &acl.descriptor;
    identity::may_describe()?;
    source.set_xattr(name, value, XattrFlags::empty())?;
    for (name, value) in &acl.lists {
        match value {
            Some(value) => source.set_xattr(name, value, XattrFlags::empty())?,
            None => match rustix::fs::removexattr(proc_fd::path(fd), *name) {
                Ok(()) | Err(Raw::NODATA) => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(())
}

/// Restores the set-group-ID bit of a directory that had it when it was `made`. The kernel clears the bit when a user
/// who is not in the group sets a POSIX ACL. The thread may have the process's identity afterwards.
fn keep_setgid(fd: &OwnedFd, made: Option<&Statx>) -> rustix::io::Result<()> {
    const SETGID: u16 = 0o2000;
    let Some(_) = made.filter(|made| kind(made) == Kind::Directory && made.stx_mode & SETGID != 0) else {
        return Ok(());
    };
    let present = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MODE)?.stx_mode;
    if present & SETGID != 0 {
        return Ok(());
    }
    identity::assume_process()?;
    rustix::fs::chmod(proc_fd::path(fd), Mode::from_raw_mode(u32::from(present & 0o7777 | SETGID)))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn older_files_and_files_of_other_users_are_not_new() {
        let begun = Time { secs: 100, nanos: 5 };
        for (uid, born, expected) in [
            (7, Some((100, 5)), true),
            (7, Some((101, 0)), true),
            (7, Some((100, 4)), false),
            (7, Some((99, 9)), false),
            (8, Some((100, 5)), false),
            (7, None, true),
            (8, None, false),
        ] {
            let mut found = stat(rustix::fs::CWD).expect("the current directory exists");
            found.stx_uid = uid;
            found.stx_mask &= !StatxFlags::BTIME.bits();
            if let Some((secs, nanos)) = born {
                found.stx_mask |= StatxFlags::BTIME.bits();
                (found.stx_btime.tv_sec, found.stx_btime.tv_nsec) = (secs, nanos);
            }
            assert_eq!(is_made(&found, begun, 7), expected, "{uid} {born:?}");
        }
    }
}
