//! Renames and hard links of open files ([MS-FSA] 2.1.5.15.6, 2.1.5.15.11).

use std::sync::Arc;

use proto::bytes::Reader;
use proto::fscc::{FileLinkInformation, FileRenameInformation};
use proto::smb2::change_notify::CompletionFilter;
use proto::status::Status;

use super::rename_stream;
use crate::command::{directory_lease, oplock_break, snapshots};
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::files::oplock::Wait;
use crate::files::{NameInUse, NameReplacement};
use crate::links;
use crate::name::{self, Stream};
use crate::reparse;
use crate::request::{Reply, Request};
use crate::security::access;
use crate::state::Server;
use crate::state::open::{FileOpen, Open};
use crate::streams;
use crate::streams::beside::{self, Moved};
use crate::streams::layout::is_store;
use crate::tree::Disk;
use crate::vfs::{
    Access, Case, Errno, FileId, Kind, Lookup, Metadata, Node, Parent, RelPath, Removed, RenameRequest, Replace,
    SymlinkPolicy,
};

/// How often a rename is started.
const ATTEMPTS: usize = 16;

/// The end of an attempt to rename.
pub(super) enum Attempt {
    Done,
    /// A client must first close its cached handle to the file.
    HandleBreak(FileId, Wait),
    /// Another file got the new name after the look-up.
    NameTaken,
}

/// The relation of the new name to the current one.
#[derive(Clone, Copy)]
pub(crate) enum NewName {
    /// Rename.
    Instead,
    /// Hard link.
    AsWell,
}

/// Renames the open file, or adds a hard link. Leases with handle caching on the file, on the file being replaced, or
/// on files below it are broken first, so that clients close cached handles ([MS-FSA] 2.1.5.15.11, 2.1.5.15.6).
pub(crate) async fn name(
    request: &Request<'_>,
    reply: &mut Reply,
    new: NewName,
    buffer: &[u8],
    open: &Arc<Open>,
    file: &FileOpen,
    disk: &Disk,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let attempt = match new {
            NewName::Instead => rename(request, buffer, open, file, disk).await?,
            NewName::AsWell => link(request, buffer, open, file, disk).await?,
        };
        match attempt {
            Attempt::Done => return Ok(()),
            Attempt::HandleBreak(held, wait) => oplock_break::wait(request, reply, held, wait).await?,
            Attempt::NameTaken => {}
        }
        file.still_open()?;
    }
    Err(Error::because(Status::SHARING_VIOLATION, "other clients keep opening the file or creating the new name"))
}

async fn rename(
    request: &Request<'_>,
    buffer: &[u8],
    open: &Arc<Open>,
    file: &FileOpen,
    disk: &Disk,
) -> Result<Attempt> {
    let asked = FileRenameInformation::decode(&mut Reader::new(buffer))?;
    if streams::of(&file.node).is_some() || asked.file_name.starts_with(b":\0") {
        return rename_stream::rename(request, &asked, file, disk).await;
    }
    let server = &request.connection.server;
    let files = &server.opens.files;
    let now = server.environment.uptime();
    let from = file.name.path.lock().clone();
    if from.is_root() {
        return Err(Error::because(Status::ACCESS_DENIED, "not permitted for the share's root"));
    }
    if files.is_delete_pending(file.file) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    if has_open_streams(request, file.file) {
        return Err(Error::because(Status::ACCESS_DENIED, "a stream of the file is open"));
    }
    let target = target(disk, asked.file_name, &from, file.posix).await?;
    let directory = match target.directory {
        None => directory(disk, &target.path).await?,
        known => known,
    };
    if directory.is_some_and(|directory| !files.admits_new_name(directory) && has_open(request, directory)) {
        return Err(Error::because(Status::SHARING_VIOLATION, "the destination directory is open for deletion"));
    }
    if let Some(wait) = files.name_changes(file.file, open.persistent_id, file.lease_id(), true, now) {
        return Ok(Attempt::HandleBreak(file.file, wait));
    }
    if !files.shares_delete(file.file, open.persistent_id) {
        return Err(Error::because(Status::SHARING_VIOLATION, "another open does not share deletion"));
    }
    if file.kind == Kind::Directory {
        if let Some((held, wait)) = files.names_beneath_change(disk.volume, &from, now).await {
            return Ok(Attempt::HandleBreak(held, wait));
        }
        let is_open = match renames_over_open_files(request, disk) {
            true => depends_on_name(server, disk, &from).await,
            false if file.posix => {
                files.is_open_beneath(disk.volume, &from, true).await || depends_on_name(server, disk, &from).await
            }
            false => files.is_open_beneath(disk.volume, &from, false).await,
        };
        if is_open {
            return Err(Error::because(Status::ACCESS_DENIED, "a file in the directory is open"));
        }
        if target.path.is_beneath(&from) {
            return Err(Error::because(Status::INVALID_PARAMETER, "a directory cannot be moved into itself"));
        }
    }
    let itself = target.is_own || target.existing.as_ref().is_some_and(|existing| existing.id == file.file);
    if itself && target.path == from {
        return Ok(Attempt::Done);
    }
    let replaces = target.existing.is_some() && !itself;
    let has_files_beside = beside::are_used(disk);
    if has_files_beside && Box::pin(beside::is_stuck(disk, &file.op, &from, &target.path, replaces)).await {
        return Err(Error::because(
            Status::OBJECT_NAME_INVALID,
            "the file's AppleDouble file cannot follow to that name",
        ));
    }
    let replacement = match target.existing.as_ref().filter(|_| !itself) {
        Some(existing) => match replace(request, &target, existing, open, asked.replace_if_exists, file.posix)? {
            Replacing::Now(replacement) => Some(replacement),
            Replacing::After(wait) => return Ok(Attempt::HandleBreak(existing.id, wait)),
        },
        None => None,
    };
    access::may_name(disk, file.kind == Kind::Directory, Some(&from), &target.path, replaces).await?;
    let renaming = RenameRequest::new(&from, file.file, &target.path).replacing(target.replace());
    let moving = beside::moving(disk, &server.opens.doubles, &from, file.file.device).await;
    match disk.vfs.rename(&file.op, renaming).await {
        // A directory replaces nothing, and with two names of one file, a link would replace its own target.
        Err(Errno::EXIST) if asked.replace_if_exists && file.kind != Kind::Directory && !itself => {
            return Ok(Attempt::NameTaken);
        }
        renamed => renamed?,
    }
    // At once, because other requests look for the new name.
    files.renamed(file.file, disk.volume, &from, &target.path, file.kind);
    replaced(request, disk, &target).await;
    if has_files_beside {
        for Moved { id, from, to } in Box::pin(beside::moved(disk, &file.op, &from, &target.path, replaces)).await {
            files.renamed(id, disk.volume, &from, &to, Kind::File);
            request.connection.server.name_changed(disk, &from, &to, Kind::File, false);
        }
    }
    drop((replacement, moving));
    request.connection.server.name_changed(disk, &from, &target.path, file.kind, replaces);
    if file.kind == Kind::File {
        // A rename sets ARCHIVE and may restore the creation time of a file that had the name ([MS-FSA] 2.1.5.15.12).
        file.unreported.add(CompletionFilter::ATTRIBUTES | CompletionFilter::CREATION);
    }
    directory_lease::entry_changes(server, disk, &from, file.lease.and_then(|lease| lease.parent_id())).await;
    directory_lease::entry_of_changes(server, disk, file).await;
    Ok(Attempt::Done)
}

async fn link(request: &Request<'_>, buffer: &[u8], open: &Arc<Open>, file: &FileOpen, disk: &Disk) -> Result<Attempt> {
    let asked = FileLinkInformation::decode(&mut Reader::new(buffer))?;
    if streams::of(&file.node).is_some() {
        return Err(Error::because(Status::INVALID_PARAMETER, "a stream cannot have a hard link"));
    }
    if file.kind == Kind::Directory {
        return Err(Error::new(Status::FILE_IS_A_DIRECTORY));
    }
    if request.connection.server.opens.files.is_delete_pending(file.file) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let from = file.name.path.lock().clone();
    let target = target(disk, asked.file_name, &from, file.posix).await?;
    let mut replacement = None;
    if let Some(existing) = &target.existing {
        if (target.is_own || existing.id == file.file) && target.path == from {
            return Ok(Attempt::Done);
        }
        match replace(request, &target, existing, open, asked.replace_if_exists, file.posix)? {
            Replacing::Now(now) => replacement = Some(now),
            Replacing::After(wait) => return Ok(Attempt::HandleBreak(existing.id, wait)),
        }
    }
    access::may_name(disk, false, None, &target.path, target.existing.is_some()).await?;
    match disk.vfs.link(&file.op, &file.node, &target.path, target.replace()).await {
        Err(Errno::EXIST) if asked.replace_if_exists => return Ok(Attempt::NameTaken),
        linked => linked?,
    }
    replaced(request, disk, &target).await;
    drop(replacement);
    let change = if target.existing.is_some() { Change::replaced() } else { Change::added(Kind::File) };
    request.connection.server.changed(disk, &target.path, change);
    let by = file.lease.and_then(|lease| lease.parent_id());
    directory_lease::entry_changes(&request.connection.server, disk, &target.path, by).await;
    Ok(Attempt::Done)
}

/// Returns whether the client is a Mac, and may rename a directory although files in it are open.
fn renames_over_open_files(request: &Request<'_>, disk: &Disk) -> bool {
    disk.share.mac.as_ref().is_some_and(|mac| mac.posix_rename) && request.is_of_mac()
}

/// Returns whether an open below the directory depends on its present name: the record of a persistent open has the
/// path, and so has the deletion of a file by its last CLOSE.
async fn depends_on_name(server: &Server, disk: &Disk, directory: &RelPath) -> bool {
    server.opens.files.is_deleted_beneath(disk.volume, directory).await
        || server.opens.durable.is_persistent_beneath(disk.volume, directory)
}

/// Records that the previous file of the new name has lost it.
async fn replaced(request: &Request<'_>, disk: &Disk, target: &Target) {
    if let Some(node) = &target.node {
        request.connection.server.opens.streams.unlinked(disk, node, Removed { links: None }).await;
    }
}

/// The new name.
struct Target {
    path: RelPath,
    /// The file that has the name now.
    existing: Option<Metadata>,
    /// The node of that file.
    node: Option<Arc<dyn Node>>,
    /// The name is that of the open file, possibly in another case.
    is_own: bool,
    /// The file is a directory, or a symbolic link to one.
    is_directory: bool,
    /// The directory of the name, if the look-up has told it.
    directory: Option<FileId>,
}

impl Target {
    fn free(path: RelPath, parent: &Parent) -> Target {
        let Parent { version, opened } = parent;
        let opened = opened.as_ref().map(|(_, metadata)| metadata.id);
        let directory = version.map(|version| version.id).or(opened);
        Target { path, existing: None, node: None, is_own: false, is_directory: false, directory }
    }

    /// Returns the file that may be replaced: only the one that was looked up, for which the checks were made. It may
    /// be the open file itself, under another name or with the same name in another case.
    fn replace(&self) -> Replace {
        self.existing.as_ref().map_or(Replace::Nothing, |existing| Replace::File(existing.id))
    }
}

async fn target(disk: &Disk, wire_name: &[u8], from: &RelPath, posix: bool) -> Result<Target> {
    // Some clients begin the new name with a backslash although it is relative to the share.
    let wire_name = wire_name.strip_prefix(b"\\\0").unwrap_or(wire_name);
    let parsed = match posix {
        true => name::parse_posix(wire_name),
        false => disk.share.names.characters.parse(wire_name),
    };
    let mut name = parsed.map_err(|error| Error::new(error.status()))?;
    if !posix {
        name.path = disk.share.names.asked(name.path);
    }
    if name.stream != Stream::Unnamed {
        return Err(Error::because(Status::NOT_SUPPORTED, "streams cannot be renamed here"));
    }
    if name.path.is_root() {
        return Err(Error::new(Status::OBJECT_NAME_INVALID));
    }
    if snapshots::token(disk, &name.path).is_some() {
        return Err(Error::because(Status::MEDIA_WRITE_PROTECTED, "the name is in a snapshot"));
    }
    if is_store(&name.path) {
        return Err(Error::because(Status::ACCESS_DENIED, "the name belongs to the server's stream store"));
    }
    if !disk.veto.is_empty() && name.path.components().any(|component| disk.veto.matches(component)) {
        return Err(Error::because(Status::ACCESS_DENIED, "the name matches `veto files`"));
    }
    if posix {
        return exact_target(disk, name.path, from).await;
    }
    let case = if disk.share.names.case_sensitive { Case::Sensitive } else { Case::Insensitive };
    // A symbolic link with the new name is itself replaced.
    let links = disk.share.links().to_last();
    let mut found = links::look_up_with(disk, &disk.op, &name.path, case, links, Access::default()).await?;
    if let Lookup::Missing { path, .. } = &found
        && disk.share.names.case_sensitive
    {
        // Another file may have the name in the other case.
        name.path = disk.share.names.spelled(path.clone());
        found = links::look_up_with(disk, &disk.op, &name.path, case, links, Access::default()).await?;
    }
    match found {
        Lookup::Missing { path, parent } => Ok(Target::free(disk.share.names.spelled(path), &parent)),
        Lookup::NoParent => Err(Error::new(Status::OBJECT_PATH_NOT_FOUND)),
        Lookup::Found { path, metadata, node } => {
            // If only the case changes, the client's spelling is the new name.
            let spelled = path.parent().zip(name.path.name()).and_then(|(parent, last)| parent.join(last));
            let same = path == *from;
            let path = if same { spelled.map_or(path, |path| disk.share.names.spelled(path)) } else { path };
            let is_directory = match metadata.kind {
                Kind::Symlink => reparse::leads_to_directory(disk, &path).await == Some(true),
                kind => kind == Kind::Directory,
            };
            Ok(Target { path, existing: Some(metadata), node: Some(node), is_own: same, is_directory, directory: None })
        }
    }
}

/// Returns the new name that a POSIX client means: exactly this one, reached without a symbolic link.
async fn exact_target(disk: &Disk, path: RelPath, from: &RelPath) -> Result<Target> {
    let look_up = |path: RelPath| async move {
        let links = SymlinkPolicy::NONE.to_last();
        links::look_up_with(disk, &disk.op, &path, Case::Sensitive, links, Access::default()).await
    };
    let mut found = look_up(path.clone()).await?;
    if matches!(found, Lookup::Missing { .. } | Lookup::NoParent)
        && let Some(meant) = name::meant(&path)
    {
        if is_store(&meant) || meant.components().any(|component| disk.veto.matches(component)) {
            return Err(Error::because(Status::ACCESS_DENIED, "the name matches `veto files`"));
        }
        found = look_up(meant).await?;
    }
    match found {
        Lookup::Missing { path, parent } => Ok(Target::free(path, &parent)),
        Lookup::NoParent => Err(Error::new(Status::OBJECT_PATH_NOT_FOUND)),
        Lookup::Found { path, metadata, node } => {
            let (is_own, is_directory) = (path == *from, metadata.kind == Kind::Directory);
            Ok(Target { path, existing: Some(metadata), node: Some(node), is_own, is_directory, directory: None })
        }
    }
}

/// Returns the directory that contains `path`.
async fn directory(disk: &Disk, path: &RelPath) -> Result<Option<FileId>> {
    let Some(parent) = path.parent() else { return Ok(None) };
    match links::look_up(disk, &disk.op, &parent, Case::Sensitive).await? {
        Lookup::Found { metadata, .. } => Ok(Some(metadata.id)),
        _ => Ok(None),
    }
}

/// Returns whether the session itself has the directory open. Windows up to 11 refuses a rename if any client has the
/// destination open, current versions never do ([MS-FSA] 2.1.5.15.12, <185>), and Samba does if the same client has it
/// open.
fn has_open(request: &Request<'_>, directory: FileId) -> bool {
    let opens = request.session().map(|session| session.opens()).unwrap_or_default();
    opens.iter().any(|open| open.file().is_some_and(|file| file.file == directory))
}

/// Returns whether a stream of the file is open ([MS-FSA] 2.1.5.15.12: then the file cannot be renamed).
fn has_open_streams(request: &Request<'_>, file: FileId) -> bool {
    let server = &request.connection.server;
    server.opens.streams.open(file).iter().any(|stream| server.opens.files.is_open(stream.id))
}

/// Whether the file that has the new name can be replaced.
enum Replacing<'a> {
    /// Yes; opening it is blocked until this is dropped.
    Now(NameReplacement<'a>),
    /// A client must close it first.
    After(Wait),
}

fn replace<'a>(
    request: &'a Request<'_>,
    target: &Target,
    existing: &Metadata,
    open: &Open,
    replace: bool,
    posix: bool,
) -> Result<Replacing<'a>> {
    if !replace {
        return Err(Error::new(Status::OBJECT_NAME_COLLISION));
    }
    if target.is_directory {
        return Err(Error::because(Status::ACCESS_DENIED, "a directory cannot be replaced"));
    }
    let server = &request.connection.server;
    let now = server.environment.uptime();
    if let Some(wait) = server.opens.files.name_changes(existing.id, open.persistent_id, None, true, now) {
        return Ok(Replacing::After(wait));
    }
    match server.opens.files.begin_replacement(existing.id, now, posix) {
        Ok(replacement) => Ok(Replacing::Now(replacement)),
        Err(NameInUse::Replaced(wait)) => Ok(Replacing::After(wait)),
        Err(NameInUse::Open) => Err(Error::because(Status::ACCESS_DENIED, "the file that would be replaced is open")),
    }
}
