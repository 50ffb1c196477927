//! QUERY_DIRECTORY ([MS-SMB2] 3.3.5.18, [MS-FSA] 2.1.5.6.3): directory listings, one buffer at a time.
//!
//! Entries are read in batches and kept with the handle until they are sent, so that a small buffer does not cause
//! entries to be read twice. A pattern without wildcards is a single name, which is looked up as in CREATE.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::dtyp::FileTime;
use proto::fscc::{
    DirectoryClass, DirectoryEntry, EntryChain, FileAttributes, FileInformationClass, MacAttributes, ReparseTag,
    ShortName,
};
use proto::mac::afp_info::compressed;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::status::Status;

use super::audit;
use super::convert::convert;
use crate::attributes;
use crate::error::{Error, Result};
use crate::information::posix;
use crate::links;
use crate::name;
use crate::name::short::{is_short, mangle, may_be_mangled};
use crate::name::wildcard::{Matcher, Pattern};
use crate::reparse;
use crate::request::{Reply, Request};
use crate::security::access;
use crate::state::open::{FileOpen, Listing, Open};
use crate::streams::Streams;
use crate::streams::convert::candidates;
use crate::streams::doubles::Doubles;
use crate::streams::layout::is_store_name;
use crate::streams::listed::{Directory, shows_doubles};
use crate::tree::Disk;
use crate::vfs::{self, Case, Entry, Errno, Kind, ListRequest, Lookup, Metadata, Node, RelPath, Time};
use crate::yielding::{Work, yield_now};

/// The cost of an entry, and of checking whether the user may read it ([`Work::spend`]).
const ENTRY: u32 = 4;
const CHECK: u32 = 12;

/// The number of entries read ahead for a user above their memory bound.
const FEW: usize = 8;

pub(crate) async fn query_directory(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = QueryDirectoryRequest::decode(request.message)?;
    let space = asked.output_buffer_length as usize;
    if request.connection.negotiated().is_some_and(|it| asked.output_buffer_length > it.max_transact) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the length exceeds MaxTransactSize"));
    }
    request.check_charge(space)?;
    let open = request.open(asked.file_id, reply)?;
    let disk = request.disk()?;
    let file = open.file().ok_or(Error::new(Status::INVALID_PARAMETER))?;
    if file.kind != Kind::Directory {
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    if open.granted.0 & AccessMask::FILE_LIST_DIRECTORY.0 == 0 {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let class = FileInformationClass(asked.file_information_class);
    let is_known = class != FileInformationClass::POSIX || file.posix;
    let class = DirectoryClass::new(class).filter(|_| is_known).ok_or(Error::new(Status::INVALID_INFO_CLASS))?;
    let mut listing = file.listing.lock().await;
    listing.begin(&asked, disk, file.posix)?;
    QueryDirectoryResponse::begin(&mut reply.body());
    let batch = request.connection.server.policy().limits.listing_batch;
    let single = asked.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY);
    // Only this class has room for what Macs see in listings.
    let shows_streams = class.class() == FileInformationClass::ID_BOTH_DIRECTORY;
    let lists_for_mac = shows_streams && request.session()?.mac.lists_attributes();
    let mut page = Page {
        class,
        chain: EntryChain::new(&reply.body(), DirectoryClass::ALIGNMENT, space),
        space,
        single,
        batch: if open.charge.payer().is_overdrawn() { FEW } else { batch },
        matcher: listing.pattern.as_ref().map(Pattern::matcher),
        newest: newest(request, disk),
        mac: lists_for_mac.then_some(&request.connection.server.opens.streams),
        hides_ids: request.hides_ids(disk),
        posix: file.posix,
        work: Work::new(),
    };
    let first = !listing.begun;
    let status = fill(disk, &open, file, &mut listing, &mut page, reply).await;
    listing.account(&open);
    if first {
        audit::listed(disk, file, &status);
    }
    let status = status?;
    QueryDirectoryResponse::finish(&mut reply.body());
    Ok(status)
}

impl Listing {
    fn begin(&mut self, asked: &QueryDirectoryRequest<'_>, disk: &Disk, posix: bool) -> Result<()> {
        let reopen = asked.flags.contains(QueryDirectoryFlags::REOPEN);
        let restart = reopen || asked.flags.contains(QueryDirectoryFlags::RESTART_SCANS);
        if restart {
            let (pattern, name, charge) = (self.pattern.take(), self.name.take(), self.charge.take());
            *self = Listing { pattern, name, charge, answered: self.answered && !reopen, ..Listing::default() };
        }
        if self.pattern.is_none() || (restart && !asked.file_name.is_empty()) {
            let mut units = proto::bytes::utf16_units(asked.file_name).ok_or(Error::new(Status::INVALID_PARAMETER))?;
            if units.is_empty() {
                units.push(u16::from(b'*'));
            }
            let names = &disk.share.names;
            let ignores_case = !posix && (!names.case_sensitive || names.has_one_case());
            let pattern = Pattern::new(&units, ignores_case);
            let pattern = pattern.map_err(|_| Error::new(Status::OBJECT_NAME_INVALID))?;
            let named = |units: &[u16]| match posix {
                true => name::from_wire(units),
                false => names.asked_name(names.characters.from_wire(units)),
            };
            self.name = pattern.exact().map(|_| named(&units).into());
            self.pattern = Some(pattern);
        }
        Ok(())
    }
}

/// The response buffer of one request.
struct Page<'a> {
    class: DirectoryClass,
    chain: EntryChain,
    space: usize,
    single: bool,
    batch: usize,
    matcher: Option<Matcher>,
    /// The streams, if the client is a Mac that sees Finder info in listings.
    mac: Option<&'a Streams>,
    /// Ids of files are not told.
    hides_ids: bool,
    /// The directory was opened with POSIX semantics.
    posix: bool,
    /// Entries written later are hidden by `hide new files timeout`.
    newest: Option<Time>,
    work: Work,
}

impl Page<'_> {
    /// Returns whether an entry with any name fits after `.` and `..`. Otherwise the directory is not read yet: files
    /// that are deleted before the next request are not listed.
    fn has_room_after_dots(&self) -> bool {
        let name = 2 * 255;
        !self.single && self.space >= 3 * (self.class.name_offset() + name)
    }

    /// Returns whether the pattern matches the name `on_disk` or its 8.3 name ([MS-FSA] 2.1.5.6.3).
    fn matches(&self, disk: &Disk, on_disk: &[u8], units: &[u16]) -> bool {
        let Some(matcher) = &self.matcher else { return true };
        let short = || -> Vec<u16> { mangle(on_disk).encode_utf16().collect() };
        matcher.matches(units) || !self.posix && (has_short_name(disk, on_disk) && matcher.matches(&short()))
    }
}

/// Fills the page with as many entries as fit.
async fn fill(
    disk: &Disk,
    open: &Open,
    file: &FileOpen,
    listing: &mut Listing,
    page: &mut Page<'_>,
    reply: &mut Reply,
) -> Result<Status> {
    loop {
        let Some(entry) = listing.next(disk, file, page).await? else {
            let first = !std::mem::replace(&mut listing.answered, true);
            return match (page.chain.is_empty(), first) {
                (true, true) => Err(Error::new(Status::NO_SUCH_FILE)),
                (true, false) => Err(Error::new(Status::NO_MORE_FILES)),
                _ => Ok(Status::SUCCESS),
            };
        };
        page.work.spend(ENTRY).await;
        let (entry, is_dfs_link) = if page.posix { (entry, false) } else { followed(disk, file, entry).await };
        let Some((units, mut metadata)) = shown(disk, listing, page, &entry) else { continue };
        if is_dfs_link {
            // As in Samba, a link of a DFS namespace is a directory that is a reparse point.
            metadata = Metadata { kind: Kind::Directory, dos_attributes: None, ..metadata };
        } else if disk.share.names.hides_by_access() {
            page.work.spend(CHECK).await;
            if !is_accessible(disk, open, &entry, &metadata).await {
                continue;
            }
        }
        let name: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let tag = match is_dfs_link {
            true => ReparseTag::DFS,
            false => reparse_tag(disk, file, &entry, &metadata).await,
        };
        let mut encoded = directory_entry(disk, &entry, &name, &metadata, tag);
        if page.mac.is_some() {
            page.work.spend(CHECK).await;
            encoded.mac = Some(mac_attributes(disk, file, listing, &entry, &metadata).await);
        }
        if page.posix {
            describe(&mut encoded, &metadata, tag);
        }
        if page.hides_ids {
            (encoded.file_id, encoded.file_id_128) = (0, [0; 16]);
        }
        if !encoded.push(page.class, &mut page.chain, &mut reply.body()) {
            listing.ahead.push_front(entry);
            if !page.chain.is_empty() {
                listing.answered = true;
                return Ok(Status::SUCCESS);
            }
            // [MS-FSA] 2.1.5.6.3: at least the first entry's fixed part must fit. Here the whole entry must.
            let fixed = page.space >= page.class.name_offset();
            return Err(Error::new(if fixed { Status::BUFFER_OVERFLOW } else { Status::INFO_LENGTH_MISMATCH }));
        }
        if page.single {
            listing.answered = true;
            return Ok(Status::SUCCESS);
        }
    }
}

impl Listing {
    /// Returns the next entry of the directory; `.` and `..` are first.
    async fn next(&mut self, disk: &Disk, file: &FileOpen, page: &Page<'_>) -> Result<Option<Entry>> {
        if !self.begun {
            self.begun = true;
            self.first(disk, file, page).await?;
        }
        while self.ahead.is_empty() && !self.ended {
            self.read(file, page.batch).await?;
        }
        if let Some(streams) = page.mac
            && std::mem::take(&mut self.is_undescribed)
        {
            self.describe(streams, disk, file, page).await;
        }
        Ok(self.ahead.pop_front())
    }

    /// Finds what Macs see of the entries that were read, and converts AppleDouble files.
    async fn describe(&mut self, streams: &Streams, disk: &Disk, file: &FileOpen, page: &Page<'_>) {
        // For a few entries, reading the directory costs more.
        let reads = self.name.is_none() && !page.single && page.batch > FEW && shows_doubles(disk);
        if reads && matches!(self.doubles, Doubles::Unread) {
            self.doubles = streams.doubles(disk, &file.op, &*file.node).await;
        }
        let path = file.name.path.lock().clone();
        let directory = Directory { node: &file.node, path: &path, doubles: &self.doubles };
        self.listed = streams.listed(disk, &file.op, directory, self.ahead.iter()).await;
        let mut converted = Vec::new();
        for entry in candidates(disk, self.ahead.iter(), &self.listed) {
            yield_now().await;
            if let Some((node, metadata)) = found(disk, file, &entry.name).await
                && let Some(path) = path.join(&entry.name)
                && convert(streams, disk, (&node, &metadata, &path)).await
                && let Ok(metadata) = node.metadata(&file.op).await
            {
                converted.push(Entry { metadata: Some(metadata), ..entry.clone() });
            }
        }
        if !converted.is_empty() {
            let shown = streams.listed(disk, &file.op, directory, converted.iter()).await;
            self.listed.extend(shown);
        }
    }

    /// Reads the next entries. Returns the metadata of the directory's parent if they came with the entries.
    async fn read(&mut self, file: &FileOpen, batch: usize) -> Result<Option<Metadata>> {
        let page = file.node.list(&file.op, ListRequest { cursor: self.cursor, count: batch, metadata: true }).await?;
        self.ended = page.is_last || page.entries.is_empty();
        self.cursor = page.next;
        self.is_undescribed = true;
        self.ahead.extend(page.entries.into_iter().filter(|entry| !is_store_name(&entry.name)));
        Ok(page.parent)
    }

    /// Prepares the first entries: the single name, or `.`, `..` and those that are read with the parent's metadata.
    async fn first(&mut self, disk: &Disk, file: &FileOpen, page: &Page<'_>) -> Result<()> {
        if let Some(name) = self.name.as_deref().filter(|name| !is_dots(name)) {
            let case = if disk.share.names.case_sensitive || page.posix { Case::Sensitive } else { Case::Insensitive };
            let found = file.node.entry(&file.op, name, case).await?;
            // Short names can be found only by reading the directory.
            let may_be_short = disk.share.names.mangled_names && !page.posix && may_be_mangled(name);
            let found = found.filter(|entry| !is_store_name(&entry.name));
            self.looked_up = found.is_some();
            self.ended = found.is_some() || !may_be_short;
            self.is_undescribed = true;
            self.ahead.extend(found);
            return Ok(());
        }
        let here = file.node.metadata(&file.op).await?;
        self.ended = self.name.is_some();
        // An error is returned when `.` and `..` have been.
        let reads = !self.ended && page.has_room_after_dots();
        let came = if reads { self.read(file, page.batch).await.ok().flatten() } else { None };
        let parent = file.name.path.lock().parent();
        let above = match (parent, came) {
            (None, _) => here,
            (Some(_), Some(above)) => above,
            (Some(parent), None) => parent_metadata(disk, file, &parent).await.unwrap_or(here),
        };
        self.ahead.push_front(Entry { name: b".."[..].into(), metadata: Some(above) });
        self.ahead.push_front(Entry { name: b"."[..].into(), metadata: Some(here) });
        Ok(())
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Returns the metadata of the directory `parent`.
async fn parent_metadata(disk: &Disk, file: &FileOpen, parent: &RelPath) -> Option<Metadata> {
    match links::look_up(disk, &file.op, parent, Case::Sensitive).await.ok()? {
        Lookup::Found { metadata, .. } => Some(metadata),
        _ => None,
    }
}

/// Replaces an entry that is a symbolic link by its target, if the server follows it, because opening it gives the
/// target. Otherwise it stays a link. Also returns whether it is a link of a DFS namespace.
async fn followed(disk: &Disk, file: &FileOpen, mut entry: Entry) -> (Entry, bool) {
    let is_link = entry.metadata.is_some_and(|metadata| metadata.kind == Kind::Symlink);
    if !is_link || !(disk.share.names.follow_symlinks || disk.is_dfs) {
        return (entry, false);
    }
    match look_up(disk, file, &entry.name).await {
        Ok(Some((_, metadata))) => {
            entry.metadata = Some(metadata);
            (entry, false)
        }
        found => (entry, disk.is_dfs && matches!(found, Err(Errno::REMOTE))),
    }
}

/// Looks up the entry `name` of the directory.
async fn look_up(disk: &Disk, file: &FileOpen, name: &[u8]) -> vfs::Result<Option<(Arc<dyn Node>, Metadata)>> {
    let Some(path) = file.name.path.lock().join(name) else { return Ok(None) };
    match links::look_up(disk, &file.op, &path, Case::Sensitive).await? {
        Lookup::Found { node, metadata, .. } => Ok(Some((node, metadata))),
        _ => Ok(None),
    }
}

/// Returns the node and metadata of the entry `name` of the directory.
async fn found(disk: &Disk, file: &FileOpen, name: &[u8]) -> Option<(Arc<dyn Node>, Metadata)> {
    look_up(disk, file, name).await.ok().flatten()
}

/// Returns the tag of an entry that is a reparse point.
async fn reparse_tag(disk: &Disk, file: &FileOpen, entry: &Entry, metadata: &Metadata) -> ReparseTag {
    if metadata.kind == Kind::Symlink {
        return ReparseTag::SYMLINK;
    }
    if !reparse::is_stored(&disk.share, metadata) {
        return ReparseTag(0);
    }
    match found(disk, file, &entry.name).await {
        Some((node, _)) => reparse::stored_tag(&*node, &file.op).await,
        None => ReparseTag(0),
    }
}

/// Returns the wire name of an entry that matches the pattern and is visible to the client.
fn shown(disk: &Disk, listing: &Listing, page: &Page<'_>, entry: &Entry) -> Option<(Vec<u16>, Metadata)> {
    let is_vetoed = !disk.veto.is_empty() && disk.veto.matches(&entry.name);
    if is_vetoed || !page.posix && disk.share.names.characters.hides(&entry.name) {
        return None;
    }
    let metadata = entry.metadata?;
    if disk.share.names.hide_special_files && metadata.kind == Kind::Special {
        return None;
    }
    let is_new = |newest: Time| (metadata.modified.secs, metadata.modified.nanos) > (newest.secs, newest.nanos);
    if page.newest.is_some_and(is_new) && !is_dots(&entry.name) {
        return None;
    }
    let units = match &*entry.name {
        dots @ (b"." | b"..") => dots.iter().copied().map(u16::from).collect(),
        name if page.posix => name::to_wire_posix(name),
        name => disk.share.names.characters.to_wire(name),
    };
    (listing.looked_up || page.matches(disk, &entry.name, &units)).then_some((units, metadata))
}

/// Returns the time of the last write after which an entry is hidden.
fn newest(request: &Request<'_>, disk: &Disk) -> Option<Time> {
    let age = i64::from(disk.share.names.hide_new_files_timeout);
    (age > 0).then(|| {
        let now = request.connection.server.environment.now();
        Time { secs: now.secs.saturating_sub(age), ..now }
    })
}

/// Returns whether the user could open the entry, for `hide unreadable` and `hide unwriteable files`.
async fn is_accessible(disk: &Disk, open: &Open, entry: &Entry, metadata: &Metadata) -> bool {
    let Some(file) = open.file() else { return false };
    if is_dots(&entry.name) {
        return true;
    }
    let Some(path) = file.name.path.lock().join(&entry.name) else { return false };
    crate::security::access::is_visible(disk, &path, metadata).await
}

/// Returns whether an entry has a separate 8.3 name; only with `mangled names`.
fn has_short_name(disk: &Disk, name: &[u8]) -> bool {
    disk.share.names.mangled_names && !is_dots(name) && !is_short(name)
}

/// Returns the 8.3 name of an entry whose name is not one.
fn short_name(disk: &Disk, name: &[u8]) -> ShortName {
    if !has_short_name(disk, name) {
        return ShortName::NONE;
    }
    let short: Vec<u8> = mangle(name).encode_utf16().flat_map(u16::to_le_bytes).collect();
    ShortName::new(&short).unwrap_or(ShortName::NONE)
}

fn directory_entry<'a>(
    disk: &Disk,
    entry: &Entry,
    name: &'a [u8],
    metadata: &Metadata,
    reparse_tag: ReparseTag,
) -> DirectoryEntry<'a> {
    let mut file_attributes = attributes::file_attributes(disk, Some(&entry.name), metadata);
    if reparse_tag == ReparseTag::DFS {
        file_attributes |= FileAttributes::REPARSE_POINT;
    }
    let mut file_id_128 = [0; 16];
    file_id_128[..8].copy_from_slice(&metadata.file_id().to_le_bytes());
    DirectoryEntry {
        file_index: 0,
        creation_time: FileTime::from(metadata.created),
        last_access_time: FileTime::from(metadata.accessed),
        last_write_time: FileTime::from(metadata.modified),
        change_time: FileTime::from(metadata.changed),
        end_of_file: attributes::end_of_file(metadata),
        allocation_size: attributes::allocation_size(metadata, 0),
        file_attributes,
        ea_size: 0,
        reparse_tag,
        short_name: short_name(disk, &entry.name),
        file_id: metadata.file_id(),
        file_id_128,
        mac: None,
        posix: None,
        file_name: name,
    }
}

/// Adds what an entry shows to a POSIX client.
fn describe(encoded: &mut DirectoryEntry<'_>, metadata: &Metadata, tag: ReparseTag) {
    let tag = if matches!(metadata.kind, Kind::Symlink | Kind::Special) { posix::tag(metadata) } else { tag };
    encoded.file_attributes = posix::file_attributes(encoded.file_attributes, tag);
    encoded.reparse_tag = tag;
    encoded.short_name = ShortName::NONE;
    encoded.end_of_file = posix::end_of_file(metadata);
    encoded.allocation_size = metadata.allocated;
    encoded.posix = Some(posix::attributes(metadata, tag));
}

/// Returns what an entry shows to a Mac. Shares without the extensions are listed in the form for Macs, too, but the
/// rights on their entries are not determined, which may cost an open.
async fn mac_attributes(
    disk: &Disk,
    file: &FileOpen,
    listing: &Listing,
    entry: &Entry,
    metadata: &Metadata,
) -> MacAttributes {
    let own = disk.share.mac.as_deref();
    let listed = listing.listed.get(&entry.name).copied().unwrap_or_default();
    let path = match is_dots(&entry.name) {
        true => None,
        false => file.name.path.lock().join(&entry.name),
    };
    let maximal_access = match path.filter(|_| own.is_some_and(|own| own.lists_access)) {
        Some(path) => (access::listed(disk, &path, metadata).await & disk.share_rights).0,
        None => (AccessMask::FILE_ALL_ACCESS & disk.share_rights).0,
    };
    let finder = listed.finder.filter(|_| own.is_none_or(|own| own.lists_finder_info));
    let added = proto::mac::date(metadata.created.secs);
    MacAttributes {
        maximal_access,
        fork_length: if own.is_none_or(|own| own.lists_fork) { listed.fork } else { 0 },
        finder_info: finder.map(|finder| compressed(&finder, metadata.kind == Kind::File, added)).unwrap_or_default(),
        mode: mode(metadata),
    }
}

/// Returns the UNIX mode with the type of the file.
fn mode(metadata: &Metadata) -> u16 {
    let kind = match metadata.kind {
        Kind::File => 0o100_000,
        Kind::Directory => 0o040_000,
        Kind::Symlink => 0o120_000,
        Kind::Special => 0,
    };
    kind | (metadata.mode & 0o7777) as u16
}
