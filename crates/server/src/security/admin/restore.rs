//! Files that come back: out of the recycle bin, and out of a snapshot.

use std::sync::Arc;

use proto::status::Status;

use super::{AclAdmin, Item, OWN_NAMES};
use crate::acl::model::posix_acl;
use crate::error::{Error, Result};
use crate::name::same;
use crate::streams::layout::{OVERFLOW, is_store, is_store_name};
use crate::vfs::{
    Access, Case, CopyRange, Create, Errno, Extent, Kind, Lookup, LookupOptions, Metadata, NewFile, Node, RelPath,
    RenameRequest, Replace, SERVER, SetMetadata, SetXattr, SymlinkPolicy, copy_range,
};

/// The permission bits that a restored version keeps. A snapshot may be older than the decision to clear the others.
const PERMISSIONS: u32 = 0o777;

/// A file that a version may replace, and whether it still may, which is asked when the copy is complete.
pub(super) type Replaced<'a> = (&'a Metadata, &'a dyn Fn() -> bool);

/// Where a file is to be restored.
struct Destination {
    /// The path, with the names of directories as they are on disk.
    path: RelPath,
    /// The file that has the name.
    taken: Option<Metadata>,
}

impl AclAdmin {
    /// Gives `item`, which is in the recycle bin `bin`, the name `to`. Names are compared as the share compares them.
    /// Fails with `Errno::EXIST` if the name is taken, and with `Errno::LOOP` if its path contains a link. Fails with
    /// `STATUS_ACCESS_DENIED` if it is in the bin or clients cannot use it: names of the server's own files, and those
    /// that match `veto files`.
    pub async fn restore(&self, item: &Item, to: &RelPath, bin: &RelPath) -> Result<()> {
        if is_store(&item.path) {
            return denied();
        }
        let Destination { path, taken } = self.destination(to, Some(bin)).await?;
        if taken.is_some() {
            return Err(Errno::EXIST.into());
        }
        Ok(self.disk.vfs.rename(&SERVER, RenameRequest::new(&item.path, item.metadata.id, &path)).await?)
    }

    /// Returns the file that has the name `to`, under which a version is to be restored; `None` if it is free. The
    /// errors are those of [`AclAdmin::restore`], with the recycle bin `bin` if there is one.
    pub async fn present(&self, to: &RelPath, bin: Option<&RelPath>) -> Result<Option<Metadata>> {
        Ok(self.destination(to, bin).await?.taken)
    }

    /// Copies the file `version` of `snapshot` to the name `to`, with its owner, permissions, ACLs, attributes and the
    /// time of its last change. The name is taken when the copy is complete. With `replaces`, a file is replaced in
    /// one step, but only if it is this one; otherwise `Errno::EXIST` if the name is taken. `Errno::BUSY` if it may not
    /// be replaced any more. The other errors are those of [`AclAdmin::restore`].
    pub async fn restore_version(
        &self,
        snapshot: &AclAdmin,
        version: &Item,
        to: &RelPath,
        bin: Option<&RelPath>,
        replaces: Option<Replaced<'_>>,
    ) -> Result<()> {
        if version.metadata.kind != Kind::File {
            return Err(Errno::ISDIR.into());
        }
        if version.path.components().any(|name| snapshot.is_hidden(name)) {
            return denied();
        }
        let Destination { path, taken } = self.destination(to, bin).await?;
        let replace = match (taken, replaces) {
            (None, _) => Replace::Nothing,
            (Some(taken), Some((seen, _))) if taken.kind == Kind::File && taken.id == seen.id => {
                Replace::File(taken.id)
            }
            (Some(_), _) => return Err(Errno::EXIST.into()),
        };
        let mut random = [0; 8];
        self.environment.random(&mut random);
        let hidden = [OWN_NAMES, format!("restored-{:016x}", u64::from_le_bytes(random)).as_bytes()].concat();
        let hidden = path.parent().and_then(|parent| parent.join(&hidden)).ok_or(Errno::NAMETOOLONG)?;
        // Nobody else can open it before it has its own protection.
        let new = NewFile::new(Create::File(Access { read: true, write: true }), 0o600);
        let (node, created) = self.disk.vfs.create(&SERVER, &hidden, new).await?.opened();
        let done = async {
            let size = copy_content(&version.node, &node).await?;
            self.copy_protection(version, &node).await?;
            node.flush(&SERVER).await?;
            if node.metadata(&SERVER).await?.size != size {
                return Err(Errno::IO.into());
            }
            if replaces.is_some_and(|(_, may_replace)| !may_replace()) {
                return Err(Errno::BUSY.into());
            }
            let rename = RenameRequest::new(&hidden, created.id, &path).replacing(replace);
            Ok::<_, Error>(self.disk.vfs.rename(&SERVER, rename).await?)
        };
        let done = done.await;
        if done.is_err() {
            let _ = self.disk.vfs.unlink(&SERVER, &hidden, created.id, Kind::File).await;
        }
        done
    }

    /// Gives the file `to` the owner, the permissions, the extended attributes of clients and the times of `version`.
    async fn copy_protection(&self, version: &Item, to: &Arc<dyn Node>) -> Result<()> {
        let Metadata { uid, gid, mode, modified, .. } = version.metadata;
        let owner = SetMetadata { uid: Some(uid), gid: Some(gid), ..SetMetadata::default() };
        to.set_metadata(&SERVER, owner).await?;
        // The directory's default ACL does not apply. With the new mode, its entries would become effective.
        match to.set_xattr(&SERVER, posix_acl::ACCESS, None, SetXattr::Any).await {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno.into()),
        }
        let descriptor = self.disk.share.acls.stored.as_ref().map(|stored| &*stored.attribute);
        // Others, such as capabilities of programs, are not the clients'.
        let is_copied = |name: &str| {
            // The content of a large stream is in the store.
            name.starts_with("user.") && !name.starts_with(OVERFLOW)
                || name == posix_acl::ACCESS
                || descriptor.is_some_and(|own| own == name)
        };
        for name in version.node.list_xattrs(&SERVER).await? {
            if is_copied(&name)
                && let Some(value) = version.node.get_xattr(&SERVER, &name).await?
            {
                to.set_xattr(&SERVER, &name, Some(value), SetXattr::Any).await?;
            }
        }
        // The last, so that the Windows ACL is there when the mode admits others.
        let mode = SetMetadata { mode: Some(mode & PERMISSIONS), ..SetMetadata::default() };
        to.set_metadata(&SERVER, mode).await?;
        let times = SetMetadata { modified: Some(modified), ..SetMetadata::default() };
        Ok(to.set_metadata(&SERVER, times).await?)
    }

    /// Returns whether clients cannot use a name.
    fn is_hidden(&self, name: &[u8]) -> bool {
        is_own(name) || self.disk.veto.matches(name) || self.disk.share.names.characters.hides(name)
    }

    /// Looks up the name `to`. Names are compared as the share compares them.
    async fn destination(&self, to: &RelPath, bin: Option<&RelPath>) -> Result<Destination> {
        let names = &self.disk.share.names;
        let is_same = |a: &[u8], b: &[u8]| if names.case_sensitive { a == b } else { same(a, b) };
        let is_in_bin = |path: &RelPath| {
            let mut path = path.components();
            bin.is_some_and(|bin| bin.components().all(|name| path.next().is_some_and(|other| is_same(name, other))))
        };
        let is_denied = |path: &RelPath| path.components().any(|name| self.is_hidden(name)) || is_in_bin(path);
        if is_denied(to) {
            return denied();
        }
        let case = if names.case_sensitive { Case::Sensitive } else { Case::Insensitive };
        let options = LookupOptions { case, links: SymlinkPolicy::NONE, access: Access::default() };
        // The names of the directories are those on disk, and the last one has the case that the share gives to names.
        let found = match self.disk.vfs.lookup(&SERVER, to, options).await? {
            Lookup::Missing { path, .. } => Destination { path: names.spelled(path), taken: None },
            Lookup::Found { path, metadata, .. } => Destination { path, taken: Some(metadata) },
            Lookup::NoParent => return Err(Errno::NOENT.into()),
        };
        // The names on disk may be others than those that were asked for.
        if is_denied(&found.path) { denied() } else { Ok(found) }
    }
}

/// Copies the content of a file to an empty one. Ranges without data stay so. Returns the size.
async fn copy_content(from: &Arc<dyn Node>, to: &Arc<dyn Node>) -> Result<u64> {
    let from = from.open(&SERVER, Access { read: true, write: false }).await?;
    let size = from.metadata(&SERVER).await?.size;
    to.set_extent(&SERVER, Extent::Size(size)).await?;
    // A snapshot on the same file system shares its space with the copy.
    let shared = to.copy(&SERVER, &from, CopyRange { source: 0, offset: 0, length: size, share: true }).await;
    if size == 0 || shared.is_ok() {
        return Ok(size);
    }
    let space = to.space(&SERVER).await?;
    if from.metadata(&SERVER).await?.allocated / u64::from(space.block_size.max(1)) > space.available {
        return Err(Errno::NOSPC.into());
    }
    let mut at = 0;
    while at < size {
        let ranges = from.data_ranges(&SERVER, at, size - at).await?;
        let Some(last) = ranges.last() else { break };
        at = last.offset + last.length;
        for range in &ranges {
            copy_range(&SERVER, &from, range.offset, to, range.offset, range.length).await?;
        }
    }
    Ok(size)
}

/// Returns whether a name is that of the server's own files.
fn is_own(name: &[u8]) -> bool {
    is_store_name(name) || name.get(..OWN_NAMES.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_NAMES))
}

fn denied<T>() -> Result<T> {
    Err(Error::because(Status::ACCESS_DENIED, "clients cannot use the name, or it is in the bin"))
}
