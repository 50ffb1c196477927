//! Opens files by short names, on shares with `mangled names = yes`.

use crate::error::Result;
use crate::links;
use crate::name::short::{mangle, may_be_mangled};
use crate::state::Server;
use crate::tree::Disk;
use crate::vfs::{Case, ListRequest, Lookup, Page, RelPath};

/// Returns whether a path that was not found may contain short names.
pub(super) fn may_be(disk: &Disk, path: &RelPath) -> bool {
    disk.share.names.mangled_names && path.components().any(may_be_mangled)
}

/// Replaces each mangled component of the path by the long name, if there is one.
pub(super) async fn expand(server: &Server, disk: &Disk, path: &RelPath) -> Result<RelPath> {
    let batch = server.policy().limits.listing_batch;
    let mut expanded = RelPath::root();
    // The name may have been removed through another share, which hides other names.
    let gone = |directory: &RelPath, short| {
        let long = server.opens.tunnel.long_name(disk.volume, directory, short, server.environment.uptime());
        long.filter(|long| !disk.veto.matches(long))
    };
    for component in path.components() {
        let long = match may_be_mangled(component) {
            true => find(disk, &expanded, component, batch).await?.or_else(|| gone(&expanded, component)),
            false => None,
        };
        expanded = expanded.join(long.as_deref().unwrap_or(component)).unwrap_or(expanded);
    }
    Ok(expanded)
}

/// Returns the entry of a directory whose short name is `short`; entries hidden by `veto files` have none.
async fn find(disk: &Disk, directory: &RelPath, short: &[u8], batch: usize) -> Result<Option<Box<[u8]>>> {
    let found = links::look_up(disk, &disk.op, directory, Case::Insensitive).await?;
    let Lookup::Found { node, .. } = found else {
        return Ok(None);
    };
    let mut cursor = 0;
    loop {
        let Page { entries, next, .. } =
            node.list(&disk.op, ListRequest { cursor, count: batch, metadata: false }).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        cursor = next;
        let is_meant = |name: &[u8]| mangle(name).as_bytes().eq_ignore_ascii_case(short) && !disk.veto.matches(name);
        if let Some(entry) = entries.into_iter().find(|entry| is_meant(&entry.name)) {
            return Ok(Some(entry.name));
        }
    }
}
