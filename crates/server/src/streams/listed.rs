//! The Finder info and the length of the resource fork of the entries of a listing, which Macs see there.
//!
//! A list of attributes is read for each entry, without opening it. Most files have neither. That is remembered under
//! the file's change time, so that the next listing reads nothing.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::mac::afp_info::{AfpInfo, FinderInfo};
use proto::mac::{AFP_INFO, AFP_RESOURCE};

use super::mac::{self, NETATALK};
use super::{Owner, Streams, layout, owner};
use crate::links;
use crate::policy::limits::LISTED_WITHOUT_FINDER_INFO_LIMIT;
use crate::policy::stream_layout::Layout;
use crate::tree::Disk;
use crate::vfs::{Case, Entry, EntryXattr, Errno, Kind, Lookup, Metadata, Node, Op, RelPath, Result, Time};

/// What an entry shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Listed {
    /// The Finder info.
    pub(crate) finder: Option<FinderInfo>,
    /// The length of the resource fork.
    pub(crate) fork: u64,
}

/// Files that had neither at their last change, in two generations: when the newer one is full, it becomes the older
/// one.
#[derive(Default)]
pub(super) struct Without {
    generations: Mutex<[HashMap<Owner, Time>; 2]>,
}

impl Without {
    fn has(&self, metadata: &Metadata) -> bool {
        let key = owner(metadata.id);
        self.generations.lock().iter().any(|known| known.get(&key) == Some(&metadata.stamped))
    }

    fn note(&self, metadata: &Metadata) {
        let mut generations = self.generations.lock();
        if generations[0].len() >= LISTED_WITHOUT_FINDER_INFO_LIMIT / 2 {
            generations.swap(0, 1);
            generations[0].clear();
        }
        generations[0].insert(owner(metadata.id), metadata.stamped);
    }
}

/// The attributes that are read, by their positions.
struct Attributes {
    names: Arc<[String]>,
}

impl Attributes {
    const INFO: usize = 0;
    const FORK: usize = 1;
    const LARGE_FORK: usize = 2;

    fn of(layout: &Layout) -> Result<Attributes> {
        let names = [layout.inline(AFP_INFO)?, layout.inline(AFP_RESOURCE)?, Layout::overflow(AFP_RESOURCE)?];
        Ok(Attributes { names: names.into() })
    }
}

impl Streams {
    /// Returns what the `entries` of the directory `node` at `path` show, by their names. Entries that show nothing are
    /// omitted.
    pub(crate) async fn listed<'a>(
        &self,
        disk: &Disk,
        op: &Op,
        (node, path): (&Arc<dyn Node>, &RelPath),
        entries: impl Iterator<Item = &'a Entry>,
    ) -> HashMap<Box<[u8]>, Listed> {
        let mut all = HashMap::new();
        let Some(layout) = disk.share.streams.as_ref().filter(|layout| layout.mac.is_some()) else { return all };
        let Ok(attributes) = Attributes::of(layout) else { return all };
        let may_have = |entry: &&Entry| {
            let is_kind = |metadata: &Metadata| matches!(metadata.kind, Kind::File | Kind::Directory);
            entry.metadata.as_ref().is_some_and(|metadata| is_kind(metadata) && !self.without.has(metadata))
                && !matches!(&*entry.name, b"." | b"..")
        };
        let asked: Vec<&Entry> = entries.filter(may_have).collect();
        if asked.is_empty() {
            return all;
        }
        // Whether a later change gets another time is known only before the attributes are read.
        let settled = |metadata: &Metadata| {
            let granularity = disk.vfs.capabilities().changes.granularity(metadata.stamped);
            disk.descriptors.is_settled(metadata, granularity)
        };
        let settled: Vec<bool> = asked.iter().map(|entry| entry.metadata.as_ref().is_some_and(settled)).collect();
        let names = asked.iter().map(|entry| entry.name.clone()).collect();
        let found = match node.entry_xattrs(op, names, Arc::clone(&attributes.names)).await {
            Err(Errno::OPNOTSUPP) => opened(disk, op, path, &asked, &attributes).await,
            found => found.unwrap_or_default(),
        };
        for ((entry, settled), found) in asked.into_iter().zip(settled).zip(found) {
            let Some(metadata) = &entry.metadata else { continue };
            if !found.is_empty() {
                all.insert(entry.name.clone(), self.shown(disk, metadata, &attributes, &found).await);
            } else if settled {
                self.without.note(metadata);
            }
        }
        all
    }

    async fn shown(&self, disk: &Disk, metadata: &Metadata, attributes: &Attributes, found: &[EntryXattr]) -> Listed {
        let mut listed = Listed::default();
        for EntryXattr { index, length, value } in found {
            match *index {
                Attributes::INFO if attributes.names[Attributes::INFO] == NETATALK => {
                    let content = mac::content(value).ok();
                    listed.finder = content.and_then(|content| AfpInfo::decode(&content).ok()).map(|info| info.finder);
                }
                Attributes::INFO => {
                    let info = AfpInfo::decode(&layout::content(value.clone()));
                    listed.finder = info.ok().map(|info| info.finder);
                }
                Attributes::FORK if listed.fork == 0 => listed.fork = length.saturating_sub(1) as u64,
                Attributes::LARGE_FORK => {
                    let store = self.store(disk);
                    if let Ok(sidecar) = store.open(value, metadata).await
                        && let Ok(stored) = sidecar.node.metadata(store.own()).await
                    {
                        listed.fork = stored.size;
                    }
                }
                _ => {}
            }
        }
        listed
    }
}

/// Reads the attributes of entries on a file system that has to open them.
async fn opened(
    disk: &Disk,
    op: &Op,
    path: &RelPath,
    entries: &[&Entry],
    attributes: &Attributes,
) -> Vec<Vec<EntryXattr>> {
    let mut all = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut found = Vec::new();
        if let Some(path) = path.join(&entry.name)
            && let Ok(Lookup::Found { node, .. }) = links::look_up(disk, op, &path, Case::Sensitive).await
        {
            for (index, name) in attributes.names.iter().enumerate() {
                if let Ok(Some(value)) = node.get_xattr(op, name).await {
                    let length = value.len();
                    let value = if length <= EntryXattr::SHOWN { value } else { Vec::new() };
                    found.push(EntryXattr { index, length, value });
                }
            }
        }
        all.push(found);
    }
    all
}
