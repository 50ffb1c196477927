//! Directories that only the server uses ([`Private`]), each held by its own handle.

use std::sync::Arc;

use backing::directory_cache::Directory;
use backing::metadata::Stat;
use server::answer::Answer;
use server::vfs::{Access, Errno, Kind, Op, Opened, Private, RelPath, Result, SERVER, SymlinkPolicy};

use crate::attributes::Source;
use crate::identity;
use crate::node::Open;
use crate::sys::Object;
use crate::volume::Volume;

/// An open private directory.
#[derive(Clone)]
struct PrivateDirectory {
    volume: Volume,
    directory: Directory<Object>,
}

/// Opens the private directory `name` below `root`, as specified by [`server::vfs::Vfs::private`].
pub(crate) fn open(
    volume: &Volume,
    op: &Op,
    root: &RelPath,
    name: &str,
    make: bool,
) -> Result<Option<Arc<dyn Private>>> {
    let parent = volume.walk().directory(op, root, SymlinkPolicy::NONE)?;
    let connection = &volume.connection;
    let look = || connection.look_up(&parent.handle, name.as_bytes());
    let (object, stat) = match look() {
        Err(Errno::NOENT) if !make => return Ok(None),
        Err(Errno::NOENT) => match parent.handle.create_directory(name.as_bytes(), 0o700) {
            Ok(made) => {
                connection.note_name(parent.id, name.as_bytes(), true);
                made
            }
            // Another server of the volume was faster; the directory is checked nevertheless.
            Err(Errno::EXIST) => look()?,
            Err(error) => return Err(error),
        },
        found => found?,
    };
    let found = connection.report(&object, &stat);
    // An ACL cannot grant more than the mode, because the group bits are the mask of an ACL.
    if found.kind != Kind::Directory || found.uid != SERVER.uid || found.mode & 0o077 != 0 {
        tracing::debug!(name, uid = found.uid, mode = format!("{:o}", found.mode), "does not belong to the server");
        return Err(Errno::PERM);
    }
    let directory = Directory { handle: Arc::new(object), id: found.id };
    Ok(Some(Arc::new(PrivateDirectory { volume: volume.clone(), directory })))
}

impl PrivateDirectory {
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PrivateDirectory) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let this = self.clone();
        self.volume.connection.run(&SERVER, move |_| work(&this))
    }

    fn opened(&self, open: Open, stat: &Stat) -> Result<Opened> {
        let metadata = self.volume.connection.metadata(stat, Source { object: &open.object, file: None })?;
        Ok((open.into_node(), metadata))
    }

    fn find_now(&self, name: &str) -> Result<Option<Opened>> {
        if name.contains('/') || name == ".." || name == "." {
            return Err(Errno::INVAL);
        }
        identity::assume_server()?;
        let (object, stat) = match self.volume.connection.look_up(&self.directory.handle, name.as_bytes()) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        let connection = &self.volume.connection;
        let stat = connection.certain(&object, connection.report(&object, &stat));
        if stat.kind != Kind::File || stat.links != 1 {
            return Err(Errno::PERM);
        }
        self.opened(Open::new(&self.volume, &Arc::new(object), stat.id, stat.kind, None), &stat).map(Some)
    }

    fn create_now(&self, name: &str) -> Result<Opened> {
        identity::assume_server()?;
        let (object, file, stat) = self.directory.handle.create(name.as_bytes(), libc::O_RDWR, 0o600)?;
        let stat = self.volume.connection.report(&object, &stat);
        let both = Access { read: true, write: true };
        self.opened(Open::new(&self.volume, &Arc::new(object), stat.id, stat.kind, Some((both, file))), &stat)
    }
}

impl Private for PrivateDirectory {
    fn find(&self, name: &str) -> Answer<Result<Option<Opened>>> {
        let name = name.to_owned();
        self.run(move |directory| directory.find_now(&name))
    }

    fn create(&self, name: &str) -> Answer<Result<Opened>> {
        let name = name.to_owned();
        self.run(move |directory| directory.create_now(&name))
    }

    fn remove(&self, name: &str) -> Answer<Result<()>> {
        let name = name.to_owned();
        self.run(move |directory| directory.directory.handle.remove(name.as_bytes()))
    }
}
