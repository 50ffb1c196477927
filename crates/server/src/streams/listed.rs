//! The Finder info and the length of the resource fork of the entries of a listing, which Macs see there.
//!
//! A list of attributes is read for each entry, without opening it. Most files have neither. That is remembered under
//! the file's change time, so that the next listing reads nothing. It does not depend on the user, because everybody
//! may list the names of attributes.

use std::collections::HashMap;
use std::sync::Arc;

use proto::mac::afp_info::FinderInfo;
use proto::mac::{AFP_INFO, AFP_RESOURCE};

use super::beside::{self, Beside};
use super::doubles::Doubles;
use super::mac::{self, NETATALK};
use super::remembered::is_settled;
use super::{Streams, layout, store};
use crate::links;
use crate::policy::stream_layout::Layout;
use crate::tree::Disk;
use crate::vfs::{Case, Entry, EntryXattr, Errno, Kind, Lookup, Metadata, Node, Op, RelPath, XattrFilter};
use crate::yielding::Work;

/// The cost of an entry that shows something ([`Work::spend`]). Its resource fork may be in the store.
const SHOWN: u32 = 12;

/// What an entry shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Listed {
    /// The Finder info.
    pub(crate) finder: Option<FinderInfo>,
    /// The length of the resource fork.
    pub(crate) fork: u64,
    /// The file beside has extended attributes, as macOS writes them.
    pub(crate) is_convertible: bool,
}

/// A directory that is listed.
#[derive(Clone, Copy)]
pub(crate) struct Directory<'a> {
    pub(crate) node: &'a Arc<dyn Node>,
    pub(crate) path: &'a RelPath,
    pub(crate) doubles: &'a Doubles,
}

impl Streams {
    /// Returns what the `entries` of a directory show, by their names. Entries that show nothing are omitted.
    pub(crate) async fn listed<'a>(
        &self,
        disk: &Disk,
        op: &Op,
        Directory { node, path, doubles }: Directory<'_>,
        entries: impl Iterator<Item = &'a Entry>,
    ) -> HashMap<Box<[u8]>, Listed> {
        let mut all = HashMap::new();
        // Shares without the extensions have such streams, too. Macs stored them as ordinary ones.
        let Some(layout) = &disk.share.streams else { return all };
        let entries: Vec<&Entry> = entries.filter(|entry| !disk.veto.matches(&entry.name)).collect();
        forks_beside(disk, path, doubles, &entries, &mut all).await;
        let key = self.without.layout(layout);
        let may_have = |entry: &&Entry| {
            let is_kind = |metadata: &Metadata| matches!(metadata.kind, Kind::File | Kind::Directory);
            entry
                .metadata
                .as_ref()
                .is_some_and(|metadata| is_kind(metadata) && !self.without.has(metadata.id, key, &metadata.stamped))
                && !matches!(&*entry.name, b"." | b"..")
        };
        let asked: Vec<&Entry> = entries.into_iter().filter(may_have).collect();
        if asked.is_empty() {
            return all;
        }
        // Whether a later change gets another time is known only before the attributes are read.
        let settled = |metadata| is_settled(disk, metadata);
        let settled: Vec<bool> = asked.iter().map(|entry| entry.metadata.as_ref().is_some_and(settled)).collect();
        let names = asked.iter().map(|entry| entry.name.clone()).collect();
        let wanted: XattrFilter = {
            let layout = layout.clone();
            Arc::new(move |attribute: &str| layout.is_of_mac(attribute))
        };
        let found = match node.entry_xattrs(op, names, Arc::clone(&wanted)).await {
            Err(Errno::OPNOTSUPP) => opened(disk, op, path, &asked, &*wanted).await,
            found => found.unwrap_or_default(),
        };
        let mut work = Work::new();
        for ((entry, settled), found) in asked.into_iter().zip(settled).zip(found) {
            let (Some(metadata), Some(found)) = (&entry.metadata, found) else { continue };
            if !found.is_empty() {
                work.spend(SHOWN).await;
                let shown = self.shown(disk, layout, metadata, &found).await;
                let listed = all.entry(entry.name.clone()).or_insert(Listed::default());
                // A fork in the file beside counts.
                listed.finder = shown.finder;
                listed.fork = if listed.fork > 0 { listed.fork } else { shown.fork };
            } else if settled {
                self.without.note(metadata.id, key, metadata.stamped);
            }
        }
        all
    }

    async fn shown(&self, disk: &Disk, layout: &Layout, metadata: &Metadata, found: &[EntryXattr]) -> Listed {
        let streams = layout.streams(found.iter().map(|attribute| attribute.name.clone()).collect());
        let of = |name: Option<String>| found.iter().find(|attribute| Some(&attribute.name) == name.as_ref());
        let mut listed = Listed::default();
        if let Some(info) = layout::find(streams.clone(), AFP_INFO).and_then(|stream| of(stream.inline)) {
            let content = match info.name == NETATALK {
                true => mac::content(&info.value),
                false => Some(layout::content(info.value.clone())),
            };
            listed.finder = content.and_then(|content| mac::shown(&content));
        }
        let Some(fork) = layout::find(streams, AFP_RESOURCE) else { return listed };
        let names_file = |attribute: &&EntryXattr| store::is_name(&attribute.value);
        let small = of(fork.inline);
        match (of(fork.overflow).or(small.filter(names_file)), small) {
            (Some(large), _) => {
                let store = self.store(disk);
                if let Ok(sidecar) = store.open(&large.value, metadata).await
                    && let Ok(stored) = sidecar.node.metadata(store.own()).await
                {
                    listed.fork = stored.size;
                }
            }
            (None, Some(small)) => listed.fork = small.length.saturating_sub(1) as u64,
            (None, None) => {}
        }
        listed
    }
}

/// Whether listings show the lengths of resource forks in files beside.
pub(crate) fn shows_doubles(disk: &Disk) -> bool {
    let is_asked_for = disk.share.mac.as_ref().is_none_or(|mac| mac.lists_fork || mac.converts_files);
    is_asked_for && beside::are_used(disk)
}

/// Adds the lengths of the resource forks that are in files beside the `entries` of the directory at `path`: one
/// look-up for each entry that may have one.
async fn forks_beside(
    disk: &Disk,
    path: &RelPath,
    doubles: &Doubles,
    entries: &[&Entry],
    all: &mut HashMap<Box<[u8]>, Listed>,
) {
    if !shows_doubles(disk) {
        return;
    }
    let mut work = Work::new();
    for entry in entries.iter().filter(|entry| doubles.may_have(&entry.name)) {
        work.spend(SHOWN).await;
        let kind = entry.metadata.as_ref().map(|metadata| metadata.kind);
        if matches!(kind, Some(Kind::File | Kind::Directory))
            && let Some(path) = path.join(&entry.name)
            && let Some(beside) = Beside::new(disk, Arc::new(path))
            && let Ok((fork, is_convertible)) = beside.lengths().await
            && (fork > 0 || is_convertible)
        {
            let fork = if kind == Some(Kind::File) { fork } else { 0 };
            all.insert(entry.name.clone(), Listed { fork, is_convertible, ..Listed::default() });
        }
    }
}

/// Reads the attributes of entries on a file system that has to open them.
async fn opened(
    disk: &Disk,
    op: &Op,
    path: &RelPath,
    entries: &[&Entry],
    wanted: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Vec<Option<Vec<EntryXattr>>> {
    let mut all = Vec::with_capacity(entries.len());
    for entry in entries {
        all.push(match path.join(&entry.name) {
            Some(path) => of_entry(disk, op, &path, wanted).await,
            None => None,
        });
    }
    all
}

/// Reads the attributes of the entry at `path`.
async fn of_entry(
    disk: &Disk,
    op: &Op,
    path: &RelPath,
    wanted: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Option<Vec<EntryXattr>> {
    let Ok(Lookup::Found { node, .. }) = links::look_up(disk, op, path, Case::Sensitive).await else { return None };
    let mut found = Vec::new();
    for name in node.list_xattrs(op).await.ok()?.into_iter().filter(|name| wanted(name)) {
        let value = node.get_xattr(op, &name).await.ok().flatten().unwrap_or_default();
        let length = value.len();
        let value = if length <= EntryXattr::SHOWN { value } else { Vec::new() };
        found.push(EntryXattr { name, length, value });
    }
    Some(found)
}
