//! Private directories: those that belong to root and grant no permission to any other user.

use std::sync::Arc;

use super::inode::Body;
use super::{ROOT, Shared, resolve};
use crate::answer::Answer;
use crate::vfs::{Access, Case, Errno, Identity, Kind, Metadata, Node, Private, RelPath, Result, SymlinkPolicy};

/// A private directory, identified by its inode number because its name may later belong to another directory.
pub(super) struct Directory {
    shared: Arc<Shared>,
    number: u64,
}

fn own() -> Identity {
    Identity { uid: 0, gid: 0, groups: Box::new([]) }
}

impl Directory {
    pub(super) fn open(
        shared: &Arc<Shared>,
        above: u64,
        root: &RelPath,
        name: &[u8],
        make: bool,
    ) -> Result<Option<Arc<dyn Private>>> {
        let mut state = shared.state.lock();
        let resolve::Found::Inode { number: parent, .. } =
            state.resolve_from(above, &own(), root, Case::Sensitive, SymlinkPolicy::NONE)?
        else {
            return Err(Errno::NOENT);
        };
        let number = match state.directory(parent)?.get(name) {
            Some(number) => number,
            None if !make => return Ok(None),
            None => shared.add_in(&mut state, &own(), parent, name, Body::directory(parent), 0o700)?,
        };
        let found = state.inode(number)?;
        if found.body.kind() != Kind::Directory || found.uid != 0 || found.mode & 0o077 != 0 {
            return Err(Errno::PERM);
        }
        Ok(Some(Arc::new(Directory { shared: Arc::clone(shared), number })))
    }
}

impl Private for Directory {
    fn find(&self, name: &str) -> Answer<Result<Option<(Arc<dyn Node>, Metadata)>>> {
        let mut state = self.shared.state.lock();
        let found = state.directory(self.number).map(|directory| directory.get(name.as_bytes()));
        let number = match found {
            Ok(Some(number)) => number,
            Ok(None) => return Answer::now(Ok(None)),
            Err(errno) => return Answer::now(Err(errno)),
        };
        Answer::now(match state.inode(number) {
            Ok(inode) if inode.body.kind() == Kind::File && inode.links == 1 => {
                self.shared.handle(&mut state, ROOT, number, Access::default()).map(Some)
            }
            Ok(_) => Err(Errno::PERM),
            Err(errno) => Err(errno),
        })
    }

    fn create(&self, name: &str) -> Answer<Result<(Arc<dyn Node>, Metadata)>> {
        let mut state = self.shared.state.lock();
        let made = self.shared.add_in(&mut state, &own(), self.number, name.as_bytes(), Body::file(), 0o600);
        let both = Access { read: true, write: true };
        Answer::now(made.and_then(|number| self.shared.handle(&mut state, ROOT, number, both)))
    }

    fn remove(&self, name: &str) -> Answer<Result<()>> {
        let mut state = self.shared.state.lock();
        let found =
            state.directory(self.number).and_then(|directory| directory.get(name.as_bytes()).ok_or(Errno::NOENT));
        let kind = found.and_then(|number| state.inode(number).map(|inode| inode.body.kind()));
        Answer::now(match kind {
            Ok(Kind::Directory) => Err(Errno::ISDIR),
            Ok(_) => state.detach(self.number, name.as_bytes(), self.shared.environment.now()),
            Err(errno) => Err(errno),
        })
    }
}
