//! QUERY_DIRECTORY ([MS-SMB2] 3.3.5.18, [MS-FSA] 2.1.5.6.3): listings, one buffer at a time.
//!
//! Entries are read in batches and kept with the handle until the client has had them, so that a small buffer costs no
//! second look at any of them.

use std::collections::VecDeque;
use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::dtyp::FileTime;
use proto::fscc::{DirectoryClass, DirectoryEntry, EntryChain, FileInformationClass, ReparseTag, ShortName};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::status::Status;

use crate::attributes;
use crate::conn::{Reply, Request};
use crate::error::{Error, Result};
use crate::name;
use crate::name::short::{is_short, mangle};
use crate::name::wildcard::Pattern;
use crate::open::{FileOpen, Open};
use crate::reparse;
use crate::streams::layout::is_store_name;
use crate::tree::Disk;
use crate::vfs::{Case, Entry, Kind, Links, Lookup, Metadata, Node};

/// Where the listing of one handle stands.
#[derive(Default)]
pub struct Listing {
    /// The search pattern: the first request's, until REOPEN ([MS-FSA] 2.1.5.6.3).
    pattern: Option<Pattern>,
    /// The position in the directory behind `ahead`.
    cursor: u64,
    /// Read but not sent yet.
    ahead: VecDeque<Entry>,
    /// `.` and `..` were read already.
    dots: bool,
    /// The directory has no further entries.
    ended: bool,
    /// Something matched since the listing began: then the end is NO_MORE_FILES, else NO_SUCH_FILE.
    matched: bool,
}

pub(crate) async fn query_directory(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = QueryDirectoryRequest::decode(request.message)?;
    let room = asked.output_buffer_length as usize;
    if request.connection.negotiated().is_some_and(|it| asked.output_buffer_length > it.max_transact) {
        return Err(Error::because(Status::INVALID_PARAMETER, "longer than MaxTransactSize"));
    }
    request.check_charge(room)?;
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
    let class = DirectoryClass::new(class).ok_or(Error::new(Status::INVALID_INFO_CLASS))?;
    let mut listing = file.listing.lock().await;
    listing.begin(&asked, disk)?;
    QueryDirectoryResponse::begin(&mut reply.body());
    let single = asked.flags.contains(QueryDirectoryFlags::RETURN_SINGLE_ENTRY);
    let mut page = Page {
        class,
        chain: EntryChain::new(&reply.body(), DirectoryClass::ALIGNMENT, room),
        room,
        single,
        batch: request.connection.server.policy().limits.listing_batch,
    };
    let status = fill(disk, &open, file, &mut listing, &mut page, reply).await?;
    QueryDirectoryResponse::finish(&mut reply.body());
    Ok(status)
}

impl Listing {
    fn begin(&mut self, asked: &QueryDirectoryRequest<'_>, disk: &Disk) -> Result<()> {
        let reopen = asked.flags.contains(QueryDirectoryFlags::REOPEN);
        if reopen || asked.flags.contains(QueryDirectoryFlags::RESTART_SCANS) {
            let pattern = self.pattern.take().filter(|_| !reopen);
            *self = Listing { pattern, ..Listing::default() };
        }
        if self.pattern.is_none() || (reopen && !asked.file_name.is_empty()) {
            let mut units = proto::bytes::utf16_units(asked.file_name).ok_or(Error::new(Status::INVALID_PARAMETER))?;
            if units.is_empty() {
                units.push(u16::from(b'*'));
            }
            let pattern = Pattern::new(&units, !disk.share.case_sensitive);
            self.pattern = Some(pattern.map_err(|_| Error::new(Status::OBJECT_NAME_INVALID))?);
        }
        Ok(())
    }
}

/// The buffer that one request fills.
struct Page {
    class: DirectoryClass,
    chain: EntryChain,
    room: usize,
    single: bool,
    batch: usize,
}

/// Fills the page with as many entries as fit.
async fn fill(
    disk: &Disk,
    open: &Open,
    file: &FileOpen,
    listing: &mut Listing,
    page: &mut Page,
    reply: &mut Reply,
) -> Result<Status> {
    loop {
        let Some(entry) = listing.next(disk, file, page.batch).await? else {
            return match (page.chain.is_empty(), listing.matched) {
                (true, false) => Err(Error::new(Status::NO_SUCH_FILE)),
                (true, true) => Err(Error::new(Status::NO_MORE_FILES)),
                _ => Ok(Status::SUCCESS),
            };
        };
        let entry = followed(disk, file, entry).await;
        let Some((units, metadata)) = shown(disk, listing, &entry) else { continue };
        if disk.share.hide_unreadable && !is_readable(disk, open, &entry, &metadata).await {
            continue;
        }
        listing.matched = true;
        let name: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let tag = reparse_tag(disk, file, &entry, &metadata).await;
        let encoded = directory_entry(disk, &entry, &name, &metadata, tag);
        if !encoded.push(page.class, &mut page.chain, &mut reply.body()) {
            listing.ahead.push_front(entry);
            if !page.chain.is_empty() {
                return Ok(Status::SUCCESS);
            }
            // [MS-FSA] 2.1.5.6.3: the first entry's fixed part must fit at least; here the whole entry must.
            let fixed = page.room >= page.class.name_offset();
            return Err(Error::new(if fixed { Status::BUFFER_OVERFLOW } else { Status::INFO_LENGTH_MISMATCH }));
        }
        if page.single {
            return Ok(Status::SUCCESS);
        }
    }
}

impl Listing {
    /// The next entry of the directory, `.` and `..` first.
    async fn next(&mut self, disk: &Disk, file: &FileOpen, batch: usize) -> Result<Option<Entry>> {
        if !self.dots {
            self.dots = true;
            let here = file.node.metadata().await?;
            let above = parent_metadata(disk, file).await.unwrap_or(here);
            self.ahead.push_back(Entry { name: b"."[..].into(), metadata: Some(here) });
            self.ahead.push_back(Entry { name: b".."[..].into(), metadata: Some(above) });
        }
        while self.ahead.is_empty() && !self.ended {
            let (mut entries, cursor) = file.node.list(&file.identity, self.cursor, batch, true).await?;
            self.ended = entries.is_empty();
            self.cursor = cursor;
            entries.retain(|entry| !is_store_name(&entry.name));
            self.ahead.extend(entries);
        }
        Ok(self.ahead.pop_front())
    }
}

/// The directory above; the share's root has none to show but itself.
async fn parent_metadata(disk: &Disk, file: &FileOpen) -> Option<Metadata> {
    let parent = file.name.path.lock().parent()?;
    let links = Links { follow: disk.share.follow_symlinks, wide: disk.share.wide_links };
    match disk.vfs.lookup(&file.identity, &parent, Case::Sensitive, links).await.ok()? {
        Lookup::Found { metadata, .. } => Some(metadata),
        _ => None,
    }
}

/// An entry that is a link, as what the server follows it to: a client that opens it gets that, too. One that is not
/// followed stays a link.
async fn followed(disk: &Disk, file: &FileOpen, mut entry: Entry) -> Entry {
    let links = Links { follow: disk.share.follow_symlinks, wide: disk.share.wide_links };
    if links.follow
        && entry.metadata.is_some_and(|metadata| metadata.kind == Kind::Symlink)
        && let Some((_, metadata)) = found(disk, file, &entry.name, links).await
    {
        entry.metadata = Some(metadata);
    }
    entry
}

/// What the entry `name` of the directory is.
async fn found(disk: &Disk, file: &FileOpen, name: &[u8], links: Links) -> Option<(Arc<dyn Node>, Metadata)> {
    let path = file.name.path.lock().join(name)?;
    match disk.vfs.lookup(&file.identity, &path, Case::Sensitive, links).await {
        Ok(Lookup::Found { node, metadata, .. }) => Some((node, metadata)),
        _ => None,
    }
}

/// The tag of an entry that is a reparse point.
async fn reparse_tag(disk: &Disk, file: &FileOpen, entry: &Entry, metadata: &Metadata) -> ReparseTag {
    if metadata.kind == Kind::Symlink {
        return ReparseTag::SYMLINK;
    }
    if !reparse::is_stored(&disk.share, metadata) {
        return ReparseTag(0);
    }
    let links = Links { follow: disk.share.follow_symlinks, wide: disk.share.wide_links };
    match found(disk, file, &entry.name, links).await {
        Some((node, _)) => reparse::stored_tag(&*node, &file.identity).await,
        None => ReparseTag(0),
    }
}

/// The wire name of an entry that the client may see and has asked for.
fn shown(disk: &Disk, listing: &Listing, entry: &Entry) -> Option<(Vec<u16>, Metadata)> {
    if !disk.veto.is_empty() && disk.veto.matches(&entry.name) {
        return None;
    }
    let metadata = entry.metadata?;
    if disk.share.hide_special_files && metadata.kind == Kind::Special {
        return None;
    }
    let units = match &*entry.name {
        dots @ (b"." | b"..") => dots.iter().copied().map(u16::from).collect(),
        name => name::to_wire(name),
    };
    let matches = listing.pattern.as_ref().is_none_or(|pattern| pattern.is_everything() || pattern.matches(&units));
    matches.then_some((units, metadata))
}

/// `hide unreadable`: whether the user could open it for reading.
async fn is_readable(disk: &Disk, open: &Open, entry: &Entry, metadata: &Metadata) -> bool {
    let Some(file) = open.file() else { return false };
    if matches!(&*entry.name, b"." | b"..") {
        return true;
    }
    let Some(path) = file.name.path.lock().join(&entry.name) else { return false };
    crate::security::access::is_visible(disk, &path, metadata).await
}

/// The 8.3 name of an entry that has another name; none unless the share wants them.
fn short_name(disk: &Disk, name: &[u8]) -> ShortName {
    if !disk.share.mangled_names || matches!(name, b"." | b"..") || is_short(name) {
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
    let mut file_id_128 = [0; 16];
    file_id_128[..8].copy_from_slice(&metadata.id.inode.to_le_bytes());
    DirectoryEntry {
        file_index: 0,
        creation_time: FileTime::from(metadata.created),
        last_access_time: FileTime::from(metadata.accessed),
        last_write_time: FileTime::from(metadata.modified),
        change_time: FileTime::from(metadata.changed),
        end_of_file: attributes::end_of_file(metadata),
        allocation_size: attributes::allocation_size(metadata, 0),
        file_attributes: attributes::file_attributes(disk, Some(&entry.name), metadata),
        ea_size: 0,
        reparse_tag,
        short_name: short_name(disk, &entry.name),
        file_id: metadata.id.inode,
        file_id_128,
        file_name: name,
    }
}
