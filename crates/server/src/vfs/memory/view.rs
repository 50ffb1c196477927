//! A file system whose root is a directory of another one. Names in its root can be removed; nothing else changes.

use std::sync::Arc;
use std::time::Duration;

use super::{Shared, private, resolve};
use crate::answer::Answer;
use crate::vfs::{
    Capabilities, Case, Changes, Created, Errno, FileId, Identity, Kind, Lookup, LookupOptions, NewFile, Node, Op,
    Private, RelPath, Removed, RenameRequest, Replace, Result, SymlinkPolicy, Vfs,
};

pub(super) struct View {
    shared: Arc<Shared>,
    root: u64,
    /// The view is of a snapshot, which does not change.
    capabilities: Capabilities,
}

impl View {
    /// Creates a view of the directory `path` below the directory `above`.
    pub(super) fn new(shared: &Arc<Shared>, above: u64, who: &Identity, path: &RelPath) -> Result<View> {
        let state = shared.state.lock();
        let root = match state.resolve_from(above, who, path, Case::Sensitive, SymlinkPolicy::NONE)? {
            resolve::Found::Inode { number, .. } => number,
            _ => return Err(Errno::NOENT),
        };
        match state.inode(root)? {
            inode if inode.body.kind() == Kind::Symlink => return Err(Errno::LOOP),
            inode if inode.body.kind() != Kind::Directory => return Err(Errno::NOTDIR),
            inode if inode.permissions(who) & 1 == 0 => return Err(Errno::ACCES),
            _ => {}
        }
        drop(state);
        let capabilities = shared.options.capabilities(Changes::Own { granularity: Duration::ZERO });
        Ok(View { shared: Arc::clone(shared), root, capabilities })
    }
}

impl Vfs for View {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn lookup(&self, op: &Op, path: &RelPath, options: LookupOptions) -> Answer<Result<Lookup>> {
        Answer::now(self.shared.find(self.root, op, path, options))
    }

    fn create(&self, _: &Op, _: &RelPath, _: NewFile) -> Answer<Result<Created>> {
        Answer::now(Err(Errno::ROFS))
    }

    fn rename(&self, _: &Op, _: RenameRequest) -> Answer<Result<()>> {
        Answer::now(Err(Errno::ROFS))
    }

    fn link(&self, _: &Op, _: &Arc<dyn Node>, _: &RelPath, _: Replace) -> Answer<Result<()>> {
        Answer::now(Err(Errno::ROFS))
    }

    /// Removes a name in the root of the view.
    fn unlink(&self, op: &Op, path: &RelPath, id: FileId, kind: Kind) -> Answer<Result<Removed>> {
        let name = path.name().filter(|_| path.parent().is_some_and(|parent| parent.is_root()));
        Answer::now(name.ok_or(Errno::ROFS).and_then(|name| self.shared.remove_name_in(self.root, op, name, id, kind)))
    }

    fn beneath(&self, op: &Op, path: &RelPath) -> Answer<Result<Arc<dyn Vfs>>> {
        Answer::now(View::new(&self.shared, self.root, op, path).map(|view| Arc::new(view) as Arc<dyn Vfs>))
    }

    /// Existing private directories can be read; none is created.
    fn private(&self, root: &RelPath, name: &'static str, _make: bool) -> Answer<Result<Option<Arc<dyn Private>>>> {
        Answer::now(private::Directory::open(&self.shared, self.root, root, name.as_bytes(), false))
    }
}
