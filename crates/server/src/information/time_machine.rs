//! The size of a volume for Time Machine (`fruit:time machine max size`).
//!
//! As in Samba, the backups are those in bundles in the share's root. The space that a bundle uses is the number of its
//! bands, which are files of one size, times that size. The bands are counted again when their directory has changed. A
//! directory with many bands is counted at most once in some seconds, because a running backup changes it all the time,
//! and so is the total of a share.

use std::sync::Arc;

use crate::links;
use crate::policy::limits::{BUNDLE_ENTRIES_LIMIT, BUNDLES_LIMIT, LARGEST_BAND_LIMIT};
use crate::request::Request;
use crate::state::band_counts::BandCounts;
use crate::tree::Disk;
use crate::vfs::{
    self, Access, Case, Errno, Kind, ListRequest, Lookup, Metadata, Node, RelPath, Result, SERVER, Space, SymlinkPolicy,
};
use crate::yielding::Work;

/// The block size that clients are told.
const BLOCK: u32 = 1024;
/// Number of entries that are read at once.
const BATCH: usize = 512;
/// The most bytes of a bundle's description that are read.
const DESCRIPTION: usize = 64 * 1024;
/// The end of the name of a bundle.
const BUNDLE: &[u8] = b".sparsebundle";

/// Returns the space of the share that clients see.
pub(super) async fn bounded(request: &Request<'_>, disk: &Disk, space: Space) -> Space {
    let Some(most) = disk.share.mac.as_ref().and_then(|mac| mac.time_machine_max_size) else { return space };
    let counts = &request.connection.server.opens.band_counts;
    let used = match directory(disk, &RelPath::root()).await {
        Ok(Some((root, metadata))) => counts.total(metadata.id, all_bundles(disk, counts, &root)).await,
        _ => 0,
    };
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(space.block_size));
    let left = most.saturating_sub(used);
    let free = |blocks| bytes(blocks).min(left) / u64::from(BLOCK);
    Space {
        block_size: BLOCK,
        blocks: most / u64::from(BLOCK),
        free: free(space.free),
        available: free(space.available),
        ..space
    }
}

/// Returns the number of bytes that the bundles in the directory `root` use.
async fn all_bundles(disk: &Disk, counts: &BandCounts, root: &Arc<dyn Node>) -> Result<u64> {
    let (mut cursor, mut total, mut work) = (0, 0_u64, Work::new());
    let (mut entries, mut bundles) = (0, 0);
    loop {
        let page = root.list(&SERVER, ListRequest { cursor, count: BATCH, metadata: false }).await?;
        for entry in &page.entries {
            work.spend(1).await;
            let Some(path) = RelPath::root().join(&entry.name).filter(|_| entry.name.ends_with(BUNDLE)) else {
                continue;
            };
            bundles += 1;
            if bundles > BUNDLES_LIMIT || entries > BUNDLE_ENTRIES_LIMIT {
                tracing::warn!(share = %disk.share.name, "a share for Time Machine has more bundles than are counted; \
                                                         use several shares");
                return Ok(total);
            }
            // A link, or something else of such a name, is not a bundle.
            if let Some(Bundle { size, bands }) = bundle(disk, counts, &path).await? {
                total = total.saturating_add(size);
                entries += bands;
            }
        }
        entries += page.entries.len() as u64;
        if page.is_last || page.entries.is_empty() || entries > BUNDLE_ENTRIES_LIMIT {
            return Ok(total);
        }
        cursor = page.next;
    }
}

/// What a bundle uses.
struct Bundle {
    /// The number of bytes.
    size: u64,
    /// The number of bands.
    bands: u64,
}

/// Returns what the bundle at `path` uses; `None` for something else of such a name.
async fn bundle(disk: &Disk, counts: &BandCounts, path: &RelPath) -> Result<Option<Bundle>> {
    let (Some(description), Some(bands)) = (path.join(b"Info.plist"), path.join(b"bands")) else { return Ok(None) };
    let Some(band_size) = band_size(disk, &description).await? else { return Ok(None) };
    let Some((node, metadata)) = directory(disk, &bands).await? else { return Ok(None) };
    let settled = {
        let granularity = disk.vfs.capabilities().changes.granularity(metadata.stamped);
        disk.descriptors.is_settled(&metadata, granularity)
    };
    let bands = match counts.known(&metadata) {
        Some(bands) => bands,
        None => {
            let bands = count(&node).await?;
            counts.note(&metadata, settled, bands);
            bands
        }
    };
    Ok(Some(Bundle { size: band_size.saturating_mul(bands), bands }))
}

async fn count(directory: &Arc<dyn Node>) -> Result<u64> {
    let (mut cursor, mut count, mut work) = (0, 0, Work::new());
    loop {
        let page = directory.list(&SERVER, ListRequest { cursor, count: BATCH, metadata: false }).await?;
        work.spend(page.entries.len() as u32).await;
        count += page.entries.len() as u64;
        if page.is_last || page.entries.is_empty() || count > BUNDLE_ENTRIES_LIMIT {
            return Ok(count);
        }
        cursor = page.next;
    }
}

async fn directory(disk: &Disk, path: &RelPath) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    Ok(found(disk, path).await?.filter(|(_, metadata)| metadata.kind == Kind::Directory))
}

/// Looks up the path as the server. Links are not followed, because users can make them.
async fn found(disk: &Disk, path: &RelPath) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
    match links::look_up_with(disk, &SERVER, path, Case::Sensitive, SymlinkPolicy::NONE, Access::default()).await {
        Ok(Lookup::Found { node, metadata, .. }) => Ok(Some((node, metadata))),
        Ok(_) | Err(Errno::LOOP | Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns the size of the bands according to the description of the bundle.
async fn band_size(disk: &Disk, path: &RelPath) -> Result<Option<u64>> {
    let Some((node, metadata)) = found(disk, path).await? else { return Ok(None) };
    if metadata.kind != Kind::File {
        return Ok(None);
    }
    let node = node.open(&SERVER, Access { read: true, write: false }).await?;
    let length = usize::try_from(metadata.size).unwrap_or(DESCRIPTION).min(DESCRIPTION);
    let (bytes, read) = vfs::read_into(&node, &SERVER, 0, vec![0; length], 0).await;
    let read = read?;
    Ok(bytes.get(..read).and_then(parse))
}

/// Returns the value of the key `band-size` of a property list.
fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("<key>band-size</key>")?;
    let (number, _) = rest.trim_start().strip_prefix("<integer>")?.split_once("</integer>")?;
    number.trim().parse().ok().filter(|size| (1..=LARGEST_BAND_LIMIT).contains(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_band_is_read_from_the_property_list() {
        let list = |value: &str| format!("<dict>\n\t<key>band-size</key>\n\t{value}\n</dict>").into_bytes();
        assert_eq!(parse(&list("<integer>8388608</integer>")), Some(8_388_608));
        for wrong in [
            "<integer>-1</integer>",
            "<integer>0</integer>",
            "<integer>9223372036854775808</integer>",
            "<string>8</string>",
            "<integer>8",
            "",
        ] {
            assert_eq!(parse(&list(wrong)), None, "{wrong}");
        }
        assert_eq!(parse(b"\xff"), None);
    }
}
