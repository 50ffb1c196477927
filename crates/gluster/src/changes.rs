//! Creating, renaming, linking and removing names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backing::behind::Behind;
use backing::directory_cache::Directory;
use backing::metadata::{Stat, store};
use backing::workers::Lane;
use server::acl::model::posix_acl::{self, PosixAcl};
use server::vfs::xattr::DosAttributes;
use server::vfs::{
    Access, Create, Created, Errno, FileId, InitialAcl, Kind, NewFile, Op, RelPath, Removed, RenameRequest, Replace,
    Result, SymlinkPolicy,
};

use crate::attributes::Source;
use crate::connection::Connection;
use crate::identity;
use crate::node::Open;
use crate::sys::{File, NewAttributes, Object};
use crate::volume::Volume;

/// Start of the names under which a file or link is created before it replaces another.
const ASIDE: &str = ".frevo-aside-";

/// Returns a name that no other file has.
fn aside() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{ASIDE}{}-{}-{}", std::process::id(), now.as_nanos(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The flags with which a file is opened for an access.
pub(crate) fn flags(access: Access) -> Option<i32> {
    match (access.read, access.write) {
        (true, true) => Some(libc::O_RDWR),
        (false, true) => Some(libc::O_WRONLY),
        (true, false) => Some(libc::O_RDONLY),
        (false, false) => None,
    }
}

impl Connection {
    /// Stores the attributes of a new file on another worker. Until then they are known here.
    fn store_behind(self: &Arc<Self>, op: &Op, made: &Made, attributes: DosAttributes) -> Arc<Behind> {
        let behind = Arc::new(Behind::default());
        let (id, object, running) = (made.stat.id, Arc::clone(&made.object), behind.begin());
        let connection = Arc::clone(self);
        self.unstored.lock().insert(id, attributes);
        // Another client may have found the file before.
        self.renew(id);
        let work = move || {
            let _lock = connection.locks.lock(id);
            // They may have been changed meanwhile, and then are stored already.
            let is_current = connection.unstored.lock().get(&id) == Some(&attributes);
            let mut stored = Ok(());
            if is_current {
                let source = Source { object: &object, file: None };
                // The user owns the file. The bricks may still check an ACL that the file had when it was created, and
                // refuse the call to the user.
                stored = identity::assume_server().and_then(|()| store(&source, &attributes, false));
                connection.unstored.lock().remove(&id);
                connection.recent.forget(id);
            }
            running.end(match stored {
                // The volume does not store attributes, or the file was removed.
                Err(Errno::OPNOTSUPP | Errno::ACCES | Errno::PERM | Errno::NOENT | Errno::STALE) => Ok(()),
                stored => stored,
            });
        };
        self.workers.submit(op.uid, Lane::Data, Box::new(work));
        behind
    }
}

/// The bit of a directory whose group new files get.
const SETGID: u32 = 0o2000;

/// How a file is created.
struct Plan<'a> {
    /// The mode that it is created with.
    mode: u32,
    /// The protection that it gets then.
    acl: Option<&'a InitialAcl>,
    /// The POSIX ACLs of the protection that its mode does not express.
    lists: Vec<&'a (&'static str, Option<Vec<u8>>)>,
}

/// The file that a name names, with its attributes.
type Named = (Arc<Object>, Stat);

/// A file that was just created.
struct Made {
    object: Arc<Object>,
    file: Option<File>,
    stat: Stat,
}

impl Volume {
    pub(crate) fn create_now(&self, op: &Op, path: &RelPath, new: NewFile) -> Result<Created> {
        if let Create::Special { .. } = new.kind {
            return Err(Errno::OPNOTSUPP);
        }
        let (directory, name) = self.parent(op, path)?;
        if let Create::Symlink { target, replaces } = &new.kind {
            let made = match replaces {
                None => self.make(op, &directory, name, &new)?,
                Some(file) => self.become_link(op, &directory, name, *file, target)?,
            };
            return self.created(made, None, false, None);
        }
        let plan = self.plan(op, &directory, &new)?;
        let made = self.make(op, &directory, name, &NewFile { mode: plan.mode, ..new.clone() })?;
        let source = Source { object: &made.object, file: made.file.as_ref() };
        // The file exists now. What cannot be stored is reported as not stored.
        let mut changed = false;
        let protected = plan.acl.is_some_and(|acl| {
            changed = true;
            acl.owner == (made.stat.uid, made.stat.gid) && set_initial_acl(source, acl, &plan.lists).is_ok()
        });
        if plan.acl.is_some() && !protected && plan.mode != new.mode {
            identity::assume_server()?;
            made.object.set(&NewAttributes { mode: Some(new.mode), ..NewAttributes::default() })?;
        }
        let first = new.dos_attributes.map(|attributes| made.stat.first_attributes(attributes));
        let behind = match first {
            // The client's next request need not wait for the attributes of a file that it writes and closes.
            Some(first) if made.file.is_some() => Some(self.connection.store_behind(op, &made, first)),
            Some(first) => {
                identity::assume(op)?;
                changed |= store(&source, &first, true).is_ok();
                None
            }
            None => None,
        };
        if changed {
            self.connection.renew(made.stat.id);
        }
        let access = match new.kind {
            Create::File(access) => Some(access),
            _ => None,
        };
        let stat = if changed { self.connection.stat(source)? } else { made.stat };
        self.created(Made { stat, ..made }, access, protected, behind)
    }

    /// Returns how a file is created so that no other user can open it with more permissions than it finally has.
    fn plan<'a>(&self, op: &Op, directory: &Directory<Object>, new: &'a NewFile) -> Result<Plan<'a>> {
        let Some(acl) = new.protection.as_ref().filter(|acl| acl.owner.0 == op.uid) else {
            return Ok(Plan { mode: new.mode, acl: None, lists: Vec::new() });
        };
        let above = self.connection.protection(directory)?;
        let inherits = above.has_default_acl().unwrap_or(true);
        let gid = if above.mode & SETGID != 0 { above.gid } else { op.gid };
        let access =
            acl.lists.iter().find(|(name, _)| *name == posix_acl::ACCESS).and_then(|(_, value)| value.as_ref());
        let is_mode = access.is_none_or(|value| PosixAcl::decode(value).is_ok_and(|list| list.is_minimal()));
        let mode = match acl.mode {
            // The mode alone expresses the list.
            Some(mode) if is_mode && !inherits && acl.owner.1 == gid => mode,
            // Only the owner has access until the list is set, which sets the mode too.
            Some(_) => new.mode & 0o7700,
            None => new.mode,
        };
        let needed = |(name, value): &&(&'static str, Option<Vec<u8>>)| {
            inherits || value.is_some() && !(*name == posix_acl::ACCESS && is_mode && acl.mode == Some(mode))
        };
        Ok(Plan { mode, acl: Some(acl), lists: acl.lists.iter().filter(needed).collect() })
    }

    fn created(
        &self,
        made: Made,
        access: Option<Access>,
        protected: bool,
        behind: Option<Arc<Behind>>,
    ) -> Result<Created> {
        let Made { object, file, stat } = made;
        let metadata = self.connection.metadata(&stat, Source { object: &object, file: file.as_ref() })?;
        let data = access.zip(file).filter(|(access, _)| *access != Access::default());
        let open = Open::new(self, &object, stat.id, stat.kind, data).beside(behind);
        Ok(Created { node: open.into_node(), metadata, protected })
    }

    /// Creates the file, directory or link itself.
    fn make(&self, op: &Op, directory: &Directory<Object>, name: &[u8], new: &NewFile) -> Result<Made> {
        let connection = &self.connection;
        let claim = connection.claims.create(directory.id, name)?;
        identity::assume(op)?;
        let made = match &new.kind {
            Create::File(access) => {
                let made = directory.handle.create(name, flags(*access).unwrap_or(libc::O_RDONLY), new.mode);
                made.map(|(object, file, stat)| (object, Some(file), stat))
            }
            Create::Directory => {
                directory.handle.create_directory(name, new.mode).map(|(object, stat)| (object, None, stat))
            }
            Create::Symlink { target, .. } => {
                directory.handle.create_link(name, target).map(|(object, stat)| (object, None, stat))
            }
            Create::Special { .. } => Err(Errno::OPNOTSUPP),
        };
        // The request that has created the name may not have recorded it yet.
        if matches!(made, Ok(_) | Err(Errno::EXIST)) {
            connection.note_name(directory.id, name, true);
        }
        let now = connection.files.now();
        // From here on, other requests may rename it.
        drop(claim);
        let (object, file, stat) = made?;
        let (stat, object) = (connection.report(&object, &stat), Arc::new(object));
        if stat.kind == Kind::File {
            connection.files.put(now, directory.id, name, &Directory { handle: Arc::clone(&object), id: stat.id });
        }
        Ok(Made { object, file, stat })
    }

    /// Replaces an empty file or directory by a link.
    fn become_link(
        &self,
        op: &Op,
        directory: &Directory<Object>,
        name: &[u8],
        file: FileId,
        target: &[u8],
    ) -> Result<Made> {
        let connection = &self.connection;
        let _claim = connection.claims.rename(directory.id, name)?;
        let (_, stat) = self.walk().exact(op, directory, name)?;
        match stat.kind {
            _ if stat.id != file => return Err(Errno::STALE),
            Kind::File if stat.size != 0 => return Err(Errno::NOTEMPTY),
            Kind::File | Kind::Directory => {}
            Kind::Symlink | Kind::Special => return Err(Errno::INVAL),
        }
        let (here, aside) = (&directory.handle, aside());
        identity::assume(op)?;
        let (object, _) = here.create_link(aside.as_bytes(), target)?;
        // A rename does not replace a directory by a link. The directory is removed first, which fails if it has
        // entries.
        let replaced = match stat.kind {
            Kind::Directory => here.remove(name).and_then(|()| here.rename(aside.as_bytes(), here, name)),
            _ => here.rename(aside.as_bytes(), here, name),
        };
        if let Err(error) = replaced {
            let _ = here.remove(aside.as_bytes());
            return Err(if error == Errno::EXIST { Errno::NOTEMPTY } else { error });
        }
        connection.note_file(file);
        connection.note_name(directory.id, name, true);
        connection.directories.forget_name(directory.id, name);
        let stat = connection.stat(Source { object: &object, file: None })?;
        Ok(Made { object: Arc::new(object), file: None, stat })
    }

    /// Returns the file that `name` in `directory` names, which must be `file` or a link that leads to it.
    fn named(
        &self,
        op: &Op,
        directory: &Directory<Object>,
        name: &[u8],
        path: &RelPath,
        file: FileId,
    ) -> Result<Named> {
        let (object, stat) = self.walk().exact(op, directory, name)?;
        if stat.id == file {
            return Ok((object, stat));
        }
        if stat.kind == Kind::Symlink {
            let options = server::vfs::LookupOptions::exact(SymlinkPolicy::BENEATH);
            if let backing::walk::Reached::Found(found) = self.walk().resolve(op, path, options)?
                && found.stat.id == file
            {
                return Ok((object, stat));
            }
        }
        Err(Errno::STALE)
    }

    pub(crate) fn rename_now(&self, op: &Op, request: &RenameRequest) -> Result<()> {
        let RenameRequest { from, id, to, replace, to_recycle_bin } = request;
        let (source, name) = self.parent(op, from)?;
        let (target, new_name) = if *to_recycle_bin {
            let (Some(parent), Some(name)) = (to.parent(), to.name()) else { return Err(Errno::INVAL) };
            (self.walk().directory(op, &parent, SymlinkPolicy::NONE)?, name)
        } else {
            self.parent(op, to)?
        };
        let _own_claim = self.connection.claims.remove(source.id, name)?;
        let (object, here) = self.named(op, &source, name, from, *id)?;
        if *to_recycle_bin && here.kind == Kind::Directory {
            return Err(Errno::ISDIR);
        }
        if source.id == target.id && name == new_name {
            return Ok(());
        }
        let _claim = self.connection.claims.rename(target.id, new_name)?;
        let replaced = self.occupant(op, &target, new_name)?;
        if let Some(there) = &replaced {
            if there.id == here.id {
                return self.keep_new_name(op, &source, name, &here, *replace);
            }
            let directories = [here.kind, there.kind].contains(&Kind::Directory);
            // A link that replaced its own target would lead nowhere.
            if !replace.admits(there.id) || directories || there.id == *id {
                return Err(Errno::EXIST);
            }
            self.connection.note_file(there.id);
        }
        identity::assume(op)?;
        source.handle.rename(name, &target.handle, new_name)?;
        if let Some(there) = &replaced {
            self.connection.note_removed(there);
        }
        self.note_move(&source, name, &target, new_name, here.kind);
        self.connection.recent.forget(here.id);
        if here.kind == Kind::File {
            let moved = Directory { handle: object, id: here.id };
            self.connection.files.put(self.connection.files.now(), target.id, new_name, &moved);
        }
        Ok(())
    }

    /// Returns the file that has a name; `None` if it is missing. A directory whose names are known is not asked.
    fn occupant(&self, op: &Op, directory: &Directory<Object>, name: &[u8]) -> Result<Option<Stat>> {
        if let Some((false, _)) = backing::walk::Storage::known(&*self.connection, directory, name) {
            return Ok(None);
        }
        match self.walk().exact(op, directory, name) {
            Ok((_, stat)) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renames to a name that the file already has: only the new name stays, if names may be replaced.
    fn keep_new_name(
        &self,
        op: &Op,
        source: &Directory<Object>,
        name: &[u8],
        here: &Stat,
        replace: Replace,
    ) -> Result<()> {
        if !replace.admits(here.id) || here.kind == Kind::Directory {
            return Err(Errno::EXIST);
        }
        identity::assume(op)?;
        source.handle.remove(name)?;
        self.connection.note_name(source.id, name, false);
        self.connection.note_links();
        Ok(())
    }

    fn note_move(
        &self,
        source: &Directory<Object>,
        name: &[u8],
        target: &Directory<Object>,
        new_name: &[u8],
        kind: Kind,
    ) {
        let connection = &self.connection;
        connection.note_name(source.id, name, false);
        connection.note_name(target.id, new_name, true);
        if kind == Kind::Directory {
            connection.directories.forget_name(source.id, name);
        }
    }

    pub(crate) fn link_now(&self, op: &Op, open: &Open, to: &RelPath, replace: Replace) -> Result<()> {
        if open.kind == Kind::Directory {
            return Err(Errno::PERM);
        }
        let (target, name) = self.parent(op, to)?;
        let connection = &self.connection;
        {
            let _claim = connection.claims.create(target.id, name)?;
            identity::assume(op)?;
            match open.object.link(&target.handle, name) {
                Err(Errno::EXIST) if replace != Replace::Nothing => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    connection.note_links();
                    connection.note_name(target.id, name, true);
                    return Ok(());
                }
            }
        }
        let _claim = connection.claims.rename(target.id, name)?;
        let (_, other) = self.walk().exact(op, &target, name)?;
        if other.id == open.id {
            return Ok(());
        }
        if !replace.admits(other.id) {
            return Err(Errno::EXIST);
        }
        if other.kind == Kind::Directory {
            return Err(Errno::ISDIR);
        }
        // Only a rename replaces a file in one step.
        let aside = aside();
        identity::assume(op)?;
        open.object.link(&target.handle, aside.as_bytes())?;
        let renamed = target.handle.rename(aside.as_bytes(), &target.handle, name);
        if renamed.is_err() {
            let _ = target.handle.remove(aside.as_bytes());
        }
        connection.note_file(other.id);
        connection.note_links();
        renamed
    }

    pub(crate) fn unlink_now(&self, op: &Op, path: &RelPath, file: FileId, kind: Kind) -> Result<Removed> {
        let (directory, name) = self.parent(op, path)?;
        let connection = &self.connection;
        let _claim = connection.claims.remove(directory.id, name)?;
        let (_, here) = self.named(op, &directory, name, path, file)?;
        // The library removes a name whatever it names, so the kind is compared here.
        let is_directory = here.kind == Kind::Directory;
        match (kind, is_directory) {
            (Kind::Directory, false) if here.kind != Kind::Symlink => return Err(Errno::NOTDIR),
            (Kind::File | Kind::Symlink | Kind::Special, true) => return Err(Errno::ISDIR),
            _ => {}
        }
        // The distribution layer says that a directory has entries before a brick says that it may not be removed.
        if is_directory && !self.walk().may_remove(op, &directory, here.uid)? {
            return Err(Errno::ACCES);
        }
        identity::assume(op)?;
        let mut removed = directory.handle.remove(name);
        // The distribution layer lists a directory before it removes it, although its own permissions do not matter.
        // The right to remove it is read again, because what is cached may be out of date.
        if is_directory && removed == Err(Errno::ACCES) {
            connection.directories.forget_protection(directory.id);
            if self.walk().may_remove(op, &directory, here.uid)? {
                identity::assume_server()?;
                removed = directory.handle.remove(name);
            }
        }
        match removed {
            Err(Errno::EXIST) => return Err(Errno::NOTEMPTY),
            done => done?,
        }
        connection.note_name(directory.id, name, false);
        if here.links > 1 {
            connection.note_links();
        }
        connection.note_file(here.id);
        connection.note_removed(&here);
        if is_directory {
            connection.directories.forget_name(directory.id, name);
            connection.directories.forget(here.id);
            connection.log.unknown(here.id);
        }
        let links = if is_directory { 0 } else { here.links.saturating_sub(1) };
        // A link that leads to the file is not one of its names.
        Ok(Removed { links: (here.id == file).then_some(links) })
    }
}

/// Sets an initial ACL: first the security descriptor, which is valid only with the POSIX ACLs that follow. The thread
/// acts as the server afterwards.
fn set_initial_acl(source: Source<'_>, acl: &InitialAcl, lists: &[&(&'static str, Option<Vec<u8>>)]) -> Result<()> {
    identity::assume_server()?;
    let (name, value) = &acl.descriptor;
    source.set(name, value, 0)?;
    for (name, value) in lists {
        match value {
            Some(value) => source.set(name, value, 0)?,
            None => match source.remove(name) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(())
}
