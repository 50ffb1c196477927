//! Snapshots that are found without configuration (`frevo:snapshots = auto`).
//!
//! They are searched in the directories `.snapshots` and `.zfs/snapshot` of the share and of the mount point above it,
//! which on btrfs is the root of the subvolume. Such a directory is used only if nobody but root can have created the
//! names in it: it belongs to root and is not writable by others, or is one that ZFS shows. Everybody else could
//! present files of their own as earlier ones. The names are read by the server once for all users, but shown only to
//! users with the right to list the directory. A snapshot itself is opened as the user.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::folders;
use super::links::is_of_root;
use super::{BATCH, COMPARE, join, relative};
use crate::error::Result;
use crate::policy::Storage;
use crate::policy::limits::{
    FOUND_SNAPSHOTS_MAX, SNAPPER_SNAPSHOTS_MAX, SNAPSHOT_ENTRIES_MAX, SNAPSHOT_INFO_MAX, SNAPSHOT_TWINS_MAX,
};
use crate::policy::snapshots::{Automatic, PLACES, Place as Names, is_trusted, recognize, snapper_time};
use crate::state::SnapshotSearch;
use crate::tree::{Catalogue, Disk, Place, Volume};
use crate::vfs::{
    self, Access, Errno, FileId, Kind, ListRequest, Lookup, LookupOptions, Node, Op, RelPath, SERVER, SymlinkPolicy,
    Time, Vfs, read_into,
};
use crate::yielding::Work;

/// The permission to list a directory and to search it.
const LIST_AND_SEARCH: u32 = 0o5;
/// The bits of the mode that are permissions.
const MODE: u32 = 0o7777;
/// The cost of reading the description of a snapshot ([`Work::spend`]).
const DESCRIPTION: u32 = 64;
/// The longest number of a snapshot of snapper, in digits.
const NUMBER: usize = 9;

/// A directory with snapshots that the user may list.
struct Holder {
    volume: Volume,
    path: RelPath,
    /// The share in a snapshot.
    within: RelPath,
    id: FileId,
    /// The inode number by which it is trusted.
    control: Option<u64>,
    /// The name of the directory that was snapshotted; `None` if that does not matter.
    prefix: Option<Box<[u8]>>,
    stamped: Time,
}

/// Returns the times of all snapshots of the share.
pub(super) async fn moments(search: SnapshotSearch<'_>, disk: &Disk, automatic: Automatic) -> Result<Vec<i64>> {
    let mut moments = Vec::new();
    for holder in holders(search, disk).await? {
        let Some(catalogue) = catalogue(search, disk, automatic, &holder).await else { continue };
        moments.extend(catalogue.iter().map(|(moment, _)| *moment));
    }
    Ok(moments)
}

/// Returns the share's copy in the snapshot of `moment`, after the number of the volume that has the snapshot.
pub(super) async fn view(
    search: SnapshotSearch<'_>,
    disk: &Disk,
    automatic: Automatic,
    moment: i64,
) -> Result<Option<(u64, Volume)>> {
    for holder in holders(search, disk).await? {
        let Some(catalogue) = catalogue(search, disk, automatic, &holder).await else { continue };
        let first = catalogue.partition_point(|(at, _)| *at < moment);
        let twins = catalogue[first..].iter().take_while(|(at, _)| *at == moment).take(SNAPSHOT_TWINS_MAX);
        for (_, name) in twins {
            let snapshot = join(&holder.path, name.split(|letter| *letter == b'/'));
            let root = snapshot.and_then(|snapshot| join(&snapshot, holder.within.components()));
            let Some(root) = root else { continue };
            if let Some(view) = search.views.open(|| search.next_id(), disk, &holder.volume, &root).await
                && !is_mount_point(disk, &view.1).await
            {
                return Ok(Some((holder.volume.0, view)));
            }
        }
    }
    Ok(None)
}

/// Returns whether the root of a view is the mount point of a snapshot that is not mounted. `frevo snapshot` gives it
/// mode 0. Users without the rights of root cannot open it, and the others would take an empty directory for the share.
async fn is_mount_point(disk: &Disk, view: &Arc<dyn Vfs>) -> bool {
    let root = view.lookup(&disk.op, &RelPath::root(), exact()).await;
    matches!(root, Ok(Lookup::Found { metadata, .. }) if metadata.uid == 0 && metadata.mode & MODE == 0)
}

/// Returns the directories with snapshots of the share, the nearest first.
async fn holders(search: SnapshotSearch<'_>, disk: &Disk) -> Result<Vec<Holder>> {
    let share = &disk.share.path;
    let mut found = Vec::new();
    let mut look = async |volume: &Volume, base: &Path, within: RelPath| {
        for names in &PLACES {
            found.extend(holder(disk, volume, names, base, &within).await);
        }
    };
    look(&(disk.volume, disk.vfs.clone()), share, RelPath::root()).await;
    let mount_point = search.mount_point(&disk.share).await?;
    if let Some(within) = share.strip_prefix(&mount_point).ok().and_then(relative)
        && within != RelPath::root()
        && let Some(volume) = folders::volume(search, disk, &mount_point).await
    {
        look(&volume, &mount_point, within).await;
    }
    Ok(found)
}

/// Returns the directory `names` of the root of `volume`, which is `base` on the host, if it can be trusted and the
/// user may list it.
async fn holder(disk: &Disk, volume: &Volume, names: &Names, base: &Path, within: &RelPath) -> Option<Holder> {
    use std::os::unix::ffi::OsStrExt;
    let (mut path, mut last) = (RelPath::root(), None);
    for step in names.path {
        path = path.join(step.name.as_bytes())?;
        let Ok(Lookup::Found { node, metadata, .. }) = volume.1.lookup(&disk.op, &path, exact()).await else {
            return None;
        };
        if metadata.kind != Kind::Directory || !is_trusted(metadata.uid, metadata.mode, metadata.id.inode, step.control)
        {
            return None;
        }
        last = Some((node, metadata, step.control));
    }
    let (node, metadata, control) = last?;
    if node.permissions(&disk.op).await.ok()? & LIST_AND_SEARCH != LIST_AND_SEARCH {
        return None;
    }
    let own = || base.file_name().map(|name| name.as_bytes().into()).unwrap_or_default();
    Some(Holder {
        volume: volume.clone(),
        path,
        within: within.clone(),
        id: metadata.id,
        control,
        prefix: (!names.any_prefix).then(own),
        stamped: metadata.stamped,
    })
}

/// Returns the snapshots in a directory, as they were read before or now.
async fn catalogue(
    search: SnapshotSearch<'_>,
    disk: &Disk,
    automatic: Automatic,
    holder: &Holder,
) -> Option<Catalogue> {
    let known = search.catalogues;
    let volume = if disk.share.storage == Storage::Directory { 0 } else { holder.volume.0 };
    let place: Place = (volume, holder.id, holder.prefix.clone().unwrap_or_default());
    let find = || known.find(&place, holder.stamped, search.environment.uptime());
    if let Some(found) = find() {
        return found;
    }
    let gate = known.gate(&place);
    let _reading = {
        // The file system may hang.
        let mut time_up = disk.op.timeout().map(|timeout| search.environment.sleep(timeout));
        let mut reading = pin!(gate.lock());
        let either = poll_fn(|context| {
            if let Poll::Ready(reading) = reading.as_mut().poll(context) {
                return Poll::Ready(Some(reading));
            }
            let is_late = time_up.as_mut().is_some_and(|time_up| time_up.as_mut().poll(context).is_ready());
            if is_late { Poll::Ready(None) } else { Poll::Pending }
        });
        either.await?
    };
    if let Some(found) = find() {
        return found;
    }
    let (now, uptime) = (search.environment.now(), search.environment.uptime());
    let read = async {
        let view = holder.volume.1.beneath(&disk.op, &holder.path).await?;
        read(&SERVER.clone().within(disk.op.timeout()), &view, automatic, holder).await
    };
    let catalogue: Option<Catalogue> = match read.await {
        Ok(read) => Some(read.into()),
        // The others that wait would fail as well.
        Err(Errno::TIMEDOUT | Errno::IO) => None,
        // Another user may have the permission, and another request is not cancelled.
        Err(_) => return None,
    };
    // A failure is as old as its end.
    let uptime = if catalogue.is_some() { uptime } else { search.environment.uptime() };
    known.add(place, holder.stamped, now, uptime, catalogue.clone());
    catalogue
}

/// Reads the snapshots in the root of `view`, which is the directory of `holder`.
async fn read(
    op: &Op,
    view: &Arc<dyn Vfs>,
    automatic: Automatic,
    holder: &Holder,
) -> vfs::Result<Vec<(i64, Box<[u8]>)>> {
    let Lookup::Found { node, metadata, .. } = view.lookup(op, &RelPath::root(), exact()).await? else {
        return Err(Errno::NOENT);
    };
    // The name may lead to another directory by now.
    if metadata.id != holder.id || !is_trusted(metadata.uid, metadata.mode, metadata.id.inode, holder.control) {
        return Err(Errno::ACCES);
    }
    let node = node.open(op, Access { read: true, write: false }).await?;
    let (mut found, mut numbers) = (Vec::new(), Vec::new());
    let (mut cursor, mut work, mut seen) = (0, Work::new(), 0);
    while seen < SNAPSHOT_ENTRIES_MAX {
        let page = node.list(op, ListRequest { cursor, count: BATCH, metadata: false }).await?;
        if page.entries.is_empty() {
            break;
        }
        seen += page.entries.len();
        for entry in page.entries {
            work.spend(COMPARE).await;
            if let Some(number) = number(&entry.name) {
                numbers.push(number);
            } else if let Some(moment) = moment(&entry.name, automatic, holder.prefix.as_deref()) {
                found.push((moment, entry.name));
            }
        }
        cursor = page.next;
    }
    if holder.prefix.is_some() {
        numbers.sort_unstable();
        for number in numbers.into_iter().rev().take(SNAPPER_SNAPSHOTS_MAX) {
            work.spend(DESCRIPTION).await;
            if let Some(moment) = described(op, view, number).await? {
                found.push((moment, format!("{number}/snapshot").into_bytes().into()));
            }
        }
    }
    found.sort_unstable();
    let superfluous = found.len().saturating_sub(FOUND_SNAPSHOTS_MAX);
    found.drain(..superfluous);
    Ok(found)
}

/// Returns the time in the name of a snapshot of the directory that is called `own`.
fn moment(name: &[u8], automatic: Automatic, own: Option<&[u8]>) -> Option<i64> {
    let named = recognize(name, automatic.local)?;
    let is_own = |own| named.prefix == own || named.prefix.strip_prefix(b"@") == Some(own);
    (named.prefix.is_empty() || own.is_none_or(is_own)).then_some(named.moment)
}

/// Returns the number of a snapshot of snapper.
fn number(name: &[u8]) -> Option<u32> {
    let is_number = name.len() <= NUMBER && name.first() != Some(&b'0') && name.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(name).ok()?.parse().ok())?
}

/// Returns the time of a snapshot of snapper; `None` if it has none. Its description must be a file that only root
/// can have written. An error says nothing about the snapshot.
async fn described(op: &Op, view: &Arc<dyn Vfs>, number: u32) -> vfs::Result<Option<i64>> {
    match description(op, view, number).await {
        Err(errno @ (Errno::TIMEDOUT | Errno::CANCELED | Errno::AGAIN)) => Err(errno),
        read => Ok(read.ok().and_then(|info| snapper_time(&info))),
    }
}

/// Returns the description of a snapshot of snapper.
async fn description(op: &Op, view: &Arc<dyn Vfs>, number: u32) -> vfs::Result<Vec<u8>> {
    let folder = RelPath::root().join(number.to_string().as_bytes()).ok_or(Errno::NAMETOOLONG)?;
    let info = folder.join(b"info.xml").ok_or(Errno::NAMETOOLONG)?;
    // A user with permission to write to this directory could exchange the snapshot.
    let Lookup::Found { metadata, .. } = view.lookup(op, &folder, exact()).await? else { return Err(Errno::NOENT) };
    if metadata.kind != Kind::Directory || !is_of_root(&metadata) {
        return Err(Errno::ACCES);
    }
    let Lookup::Found { node, metadata, .. } = view.lookup(op, &info, exact()).await? else {
        return Err(Errno::NOENT);
    };
    if metadata.kind != Kind::File || metadata.size > SNAPSHOT_INFO_MAX as u64 || !is_of_root(&metadata) {
        return Err(Errno::ACCES);
    }
    let node: Arc<dyn Node> = node.open(op, Access { read: true, write: false }).await?;
    let (mut buffer, count) = read_into(&node, op, 0, vec![0; SNAPSHOT_INFO_MAX], 0).await;
    buffer.truncate(count?);
    Ok(buffer)
}

/// Symbolic links are not followed on the server's own paths.
fn exact() -> LookupOptions {
    LookupOptions::exact(SymlinkPolicy::NONE)
}
