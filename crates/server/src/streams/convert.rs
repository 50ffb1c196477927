//! The conversion of AppleDouble files that macOS wrote to a share without streams (`fruit:convert_adouble`): Finder
//! info and extended attributes become streams.
//!
//! Everything is done as the user. A file is converted as a whole or left as it is: if anything in it is not
//! understood, or if a stream of the same name has another content, it stays. The streams are on disk before the file
//! changes. Its change is one write of four bytes, by which the Finder info no longer contains the attributes. The
//! resource fork stays where it is, or moves to its stream if the share stores it there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use proto::mac::afp_info::AfpInfo;
use proto::mac::apple_double::{self, AppleDouble, BLANK_FORK_SIZE, id};
use proto::mac::{AFP_INFO, AFP_RESOURCE};

use super::Streams;
use super::beside;
use super::listed::Listed;
use super::remembered::is_settled;
use crate::policy::limits::LONGEST_CONVERTED;
use crate::policy::stream_layout::Layout;
use crate::tree::Disk;
use crate::vfs::{Access, Entry, Errno, Extent, FileId, Kind, Metadata, Node, RelPath, Result, Time, read_into};

/// The number of bytes of a resource fork that are copied at once.
const STEP: usize = 1 << 20;
const BOTH: Access = Access { read: true, write: true };
const READ: Access = Access { read: true, write: false };
/// The bits of [`Node::permissions`] for both.
const READ_AND_WRITE: u32 = 6;

/// A file whose AppleDouble file may have to be converted.
pub(crate) struct Base<'a> {
    pub(crate) node: &'a Arc<dyn Node>,
    pub(crate) metadata: &'a Metadata,
}

/// Returns the entries of a listing that may have an AppleDouble file to be converted: those of which a listing with
/// forks has found one, or which are listed with the AppleDouble file.
pub(crate) fn candidates<'a>(
    disk: &Disk,
    entries: impl Iterator<Item = &'a Entry> + Clone,
    listed: &HashMap<Box<[u8]>, Listed>,
) -> Vec<&'a Entry> {
    if !is_on(disk) {
        return Vec::new();
    }
    let doubles: HashSet<&[u8]> = match beside::are_used(disk) {
        true => listed.iter().filter(|(_, shown)| shown.is_convertible).map(|(name, _)| &**name).collect(),
        false => entries.clone().filter_map(|entry| entry.name.strip_prefix(beside::PREFIX)).collect(),
    };
    if doubles.is_empty() { Vec::new() } else { entries.filter(|entry| doubles.contains(&*entry.name)).collect() }
}

/// An AppleDouble file to be converted.
pub(crate) struct Convertible {
    node: Arc<dyn Node>,
    id: FileId,
    path: RelPath,
    double: AppleDouble,
    /// Everything before the resource fork.
    bytes: Vec<u8>,
}

/// Whether the share converts AppleDouble files.
pub(crate) fn is_on(disk: &Disk) -> bool {
    let converts = disk.share.mac.as_ref().is_some_and(|mac| mac.converts_files);
    converts && disk.share.streams.is_some() && !disk.read_only && disk.snapshot.is_none()
}

/// A file that may be an AppleDouble file to be converted.
pub(crate) struct Candidate {
    node: Arc<dyn Node>,
    metadata: Metadata,
    path: RelPath,
    /// Its state and that of its file, if every later change gets another one.
    state: Option<State>,
}

/// The change times of an AppleDouble file and its file, and the file.
pub(super) type State = (Time, Time, FileId);

impl Candidate {
    /// Called if a request would have the same outcome again: the file is not read before it or its file has changed.
    fn note(&self, streams: &Streams, disk: &Disk) {
        if let (Some(state), Some(layout)) = (self.state, &disk.share.streams) {
            streams.unconverted.note(self.metadata.id, streams.unconverted.layout(layout), state);
        }
    }
}

/// Returns the AppleDouble file of the file at `path`, whose metadata is `base`, unless it is known that it cannot be
/// converted or need not be. It is not read.
pub(crate) async fn find(streams: &Streams, disk: &Disk, path: &RelPath, base: &Metadata) -> Option<Candidate> {
    let path = beside::path_of(path)?;
    let (node, metadata) = beside::look_up(&*disk.vfs, &disk.op, &path, disk.share.links()).await.ok()??;
    let state = (metadata.stamped, base.stamped, base.id);
    let unconverted = &streams.unconverted;
    if unconverted.has(metadata.id, unconverted.layout(disk.share.streams.as_ref()?), &state) {
        return None;
    }
    let is_settled = is_settled(disk, &metadata) && is_settled(disk, base);
    Some(Candidate { node, metadata, path, state: is_settled.then_some(state) })
}

/// Returns the AppleDouble file, if it has to be converted and the user may write to it.
pub(crate) async fn read(streams: &Streams, disk: &Disk, candidate: &Candidate) -> Option<Convertible> {
    let Candidate { node, metadata, path, .. } = candidate;
    if node.permissions(&disk.op).await.ok()? & READ_AND_WRITE != READ_AND_WRITE {
        return None;
    }
    let reader = node.open(&disk.op, READ).await.ok()?;
    let head = beside::head(&reader, &disk.op).await.ok()?;
    let Ok(double) = AppleDouble::decode(&head, metadata.size) else {
        candidate.note(streams, disk);
        return None;
    };
    let has_fork = double.entry(id::RESOURCE_FORK).is_some_and(|fork| fork.length > 0);
    // A fork stays in the file where the share stores forks there.
    let has_more = |length| length > 32 || !beside::are_used(disk) && has_fork;
    let finder = double.entry(id::FINDER_INFO).filter(|entry| entry.length >= 32 && has_more(entry.length));
    let Some(finder) = finder else {
        candidate.note(streams, disk);
        return None;
    };
    if !double.is_of_macos(metadata.size) || finder.offset + finder.length > LONGEST_CONVERTED {
        candidate.note(streams, disk);
        tracing::debug!(share = disk.share.name, %path, "an AppleDouble file is not converted, because it has \
                                                        more than is understood");
        return None;
    }
    let node = node.open(&disk.op, BOTH).await.ok()?;
    let (mut bytes, count) = read_into(&node, &disk.op, 0, vec![0; finder.offset + finder.length], 0).await;
    bytes.truncate(count.ok()?);
    // The header may have changed meanwhile.
    let again = AppleDouble::decode(&bytes, metadata.size).ok()?;
    (again == double).then(|| Convertible { node, id: metadata.id, path: path.clone(), double, bytes })
}

/// Called after a conversion has failed with `errno`. It is not tried again as long as it would fail again.
pub(crate) fn failed(streams: &Streams, disk: &Disk, candidate: &Candidate, errno: Errno) {
    if matches!(errno, Errno::INVAL | Errno::EXIST | Errno::NAMETOOLONG) {
        candidate.note(streams, disk);
    }
}

/// Converts an AppleDouble file. Returns the path of one that was removed.
///
/// # Errors
/// It has something that is not understood or would be lost, or it cannot be stored. Nothing is lost.
pub(crate) async fn convert(
    streams: &Streams,
    disk: &Disk,
    base: &Base<'_>,
    file: Convertible,
) -> Result<Option<RelPath>> {
    let (Some(layout), Some(mac)) = (&disk.share.streams, &disk.share.mac) else { return Ok(None) };
    if !file.double.has_only_attributes(&file.bytes) {
        return Err(Errno::INVAL);
    }
    let attributes = file.double.attributes(&file.bytes).map_err(|_| Errno::INVAL)?;
    let named: Option<Vec<_>> =
        attributes.iter().map(|(name, value)| Some((stream_name(layout, name)?, *value))).collect();
    for (name, value) in named.ok_or(Errno::INVAL)? {
        add(streams, disk, base, &name, value).await?;
    }
    let mut has_own_info = false;
    // Finder info that the file has already is newer. That of the AppleDouble file stays there.
    let info = file.double.finder_info(&file.bytes).ok_or(Errno::INVAL)?;
    if info != [0; 32] {
        match add(streams, disk, base, AFP_INFO, &AfpInfo::of(info).encode()).await {
            Err(Errno::EXIST) => has_own_info = true,
            added => added?,
        }
    }
    // A client that has a stream of the file open may write its fork.
    let is_alone = streams.open(base.metadata.id).is_empty();
    let wipes = is_alone && mac.wipes_blank_forks && is_blank(disk, &file).await?;
    let moves = !wipes && !layout.has_files_beside() && base.metadata.kind == Kind::File;
    let moved = moves && copy_fork(streams, disk, base, &file).await?;
    base.node.flush(&disk.op).await?;
    let at = file.double.finder_info_length_at().ok_or(Errno::INVAL)?;
    file.node.write(&disk.op, at, Bytes::from_static(&[0, 0, 0, 32]).into(), true).await?;
    if wipes && is_blank(disk, &file).await? || moved {
        cut(disk, &file).await?;
    }
    if !mac.removes_empty_files || has_own_info || !is_alone || fork_length(disk, &file.node).await? != 0 {
        return Ok(None);
    }
    disk.vfs.unlink(&disk.op, &file.path, file.id, Kind::File).await?;
    Ok(Some(file.path))
}

/// Returns the name of the stream that a Mac would use for an extended attribute; `None` if no client could open it.
fn stream_name(layout: &Layout, attribute: &str) -> Option<String> {
    let is_stored_as_such = layout.has_colons;
    let special = [AFP_INFO, AFP_RESOURCE];
    if attribute.contains('/') || special.iter().any(|special| special.eq_ignore_ascii_case(attribute)) {
        return None;
    }
    if is_stored_as_such {
        return Some(attribute.to_owned());
    }
    attribute
        .chars()
        .map(|character| match character {
            '\x01'..='\x1f' => char::from_u32(0xf000 | u32::from(character)),
            _ => match "\"*:<>?\\|".find(character) {
                Some(at) => char::from_u32(0xf020 + at as u32),
                None => Some(character),
            },
        })
        .collect()
}

/// Stores a new stream on disk; `Errno::EXIST` if it exists with another content. What a conversion that a crash has
/// ended has stored is a beginning of the content.
async fn add(streams: &Streams, disk: &Disk, base: &Base<'_>, name: &str, content: &[u8]) -> Result<()> {
    let layout = disk.share.streams.as_ref().ok_or(Errno::INVAL)?;
    layout.inline(name)?;
    let stream = streams.stream(disk, layout, (base.metadata.id, None), name);
    if stream.exists(base.node, &disk.op).await? {
        let known = usize::try_from(stream.metadata(base.node).await?.size).unwrap_or(usize::MAX);
        let beginning = content.get(..known).ok_or(Errno::EXIST)?;
        if stream.content(base.node, &disk.op, 0, known).await? != beginning {
            return Err(Errno::EXIST);
        }
        if known == content.len() {
            return stream.flush(base.node, &disk.op).await;
        }
    } else {
        stream.create(base.node, &disk.op, false).await?;
    }
    let data = Bytes::copy_from_slice(content);
    if !data.is_empty() {
        stream.write(base.node, &disk.op, 0, data.into(), false).await?;
    }
    // A stream in the store is not written to disk with its file.
    stream.flush(base.node, &disk.op).await
}

async fn fork_length(disk: &Disk, node: &Arc<dyn Node>) -> Result<usize> {
    let size = node.metadata(&disk.op).await?.size;
    let double = AppleDouble::decode(&beside::head(node, &disk.op).await?, size).map_err(|_| Errno::IO)?;
    Ok(double.entry(id::RESOURCE_FORK).map_or(0, |fork| fork.length))
}

async fn is_blank(disk: &Disk, file: &Convertible) -> Result<bool> {
    let Some((fork, _)) = file.double.last_fork().filter(|(fork, _)| fork.length == BLANK_FORK_SIZE) else {
        return Ok(false);
    };
    let (bytes, count) = read_into(&file.node, &disk.op, fork.offset as u64, vec![0; fork.length], 0).await;
    Ok(count? == bytes.len() && apple_double::is_blank_fork(&bytes))
}

/// Removes the resource fork from an AppleDouble file.
async fn cut(disk: &Disk, file: &Convertible) -> Result<()> {
    let (fork, at) = file.double.last_fork().ok_or(Errno::IO)?;
    file.node.write(&disk.op, at, Bytes::from_static(&[0; 4]).into(), true).await?;
    file.node.set_extent(&disk.op, Extent::Size(fork.offset as u64)).await
}

/// Copies the resource fork to its stream, and returns whether it is on disk there. A stream with another content
/// stays. What a conversion that a crash has ended has copied is a beginning of the fork.
async fn copy_fork(streams: &Streams, disk: &Disk, base: &Base<'_>, file: &Convertible) -> Result<bool> {
    let Some((fork, _)) = file.double.last_fork().filter(|(fork, _)| fork.length > 0) else { return Ok(false) };
    let layout = disk.share.streams.as_ref().ok_or(Errno::INVAL)?;
    let stream = streams.stream(disk, layout, (base.metadata.id, None), AFP_RESOURCE);
    let known = match stream.exists(base.node, &disk.op).await? {
        true => stream.metadata(base.node).await?.size,
        false => 0,
    };
    let mut offset = 0;
    while offset < fork.length {
        let step = STEP.min(fork.length - offset);
        let (mut part, count) = read_into(&file.node, &disk.op, (fork.offset + offset) as u64, vec![0; step], 0).await;
        part.truncate(count?);
        if part.is_empty() {
            return Err(Errno::IO);
        }
        let at = offset as u64;
        let same = part.len().min(usize::try_from(known.saturating_sub(at)).unwrap_or(usize::MAX));
        if stream.content(base.node, &disk.op, at, same).await? != part[..same] {
            return Ok(false);
        }
        offset += part.len();
        if same < part.len() {
            let rest = Bytes::from(part).slice(same..);
            stream.write(base.node, &disk.op, at + same as u64, rest.into(), false).await?;
        }
    }
    stream.flush(base.node, &disk.op).await?;
    Ok(known <= fork.length as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::MacStreams;

    #[test]
    fn attributes_get_the_names_that_macs_use() {
        let layout = |has_colons| Layout { has_colons, mac: Some(MacStreams::default()), ..Layout::default() };
        assert_eq!(stream_name(&layout(true), "a:b"), Some("a:b".to_owned()));
        assert_eq!(stream_name(&layout(false), "a:b|\x01"), Some("a\u{f022}b\u{f027}\u{f001}".to_owned()));
        for wrong in ["a/b", "afp_afpinfo", "AFP_Resource"] {
            assert_eq!(stream_name(&layout(true), wrong), None);
        }
    }
}
