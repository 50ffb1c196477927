//! Renames of alternate streams ([MS-FSA] 2.1.5.15.12.1), within their file, to names that begin with a colon.
//!
//! Renaming a file's unnamed stream to an alternate one is not implemented, because no client requests it.

use std::sync::Arc;

use proto::fscc::FileRenameInformation;
use proto::status::Status;

use super::rename::Attempt;
use crate::error::{Error, Result};
use crate::files::NameInUse;
use crate::files::notify::Change;
use crate::name::{Name, Stream, fold_key};
use crate::request::Request;
use crate::state::open::FileOpen;
use crate::streams::beside::Located;
use crate::streams::{self, StreamNode, Target};
use crate::tree::Disk;
use crate::vfs::{Access, Kind, Node};

pub(crate) async fn rename(
    request: &Request<'_>,
    asked: &FileRenameInformation<'_>,
    file: &FileOpen,
    disk: &Disk,
) -> Result<Attempt> {
    let Some(StreamNode { stream, file: base, .. }) = streams::of(&file.node) else {
        return Err(Error::because(Status::NOT_SUPPORTED, "the unnamed stream cannot become an alternate stream"));
    };
    let to = target(asked.file_name, disk)?;
    let server = &request.connection.server;
    if server.opens.files.is_delete_pending(file.file) {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    let (mut replacement, mut replaced) = (None, None);
    let to = match to {
        None => Target::Unnamed(own_content(base, file).await?),
        Some(name) => {
            let same = |own: Arc<str>| fold_key(own.as_bytes()) == fold_key(name.as_bytes());
            if stream.name().is_some_and(same) {
                return Ok(Attempt::Done);
            }
            let layout = disk.share.streams.as_ref().ok_or(Error::new(Status::NOT_SUPPORTED))?;
            let place = Arc::clone(&file.name) as Arc<dyn Located>;
            let other = server.opens.streams.stream(disk, layout, (stream.file(), Some(place)), &name);
            replacement = match server.opens.files.begin_replacement(other.id, server.environment.uptime(), false) {
                Ok(replacement) => Some(replacement),
                Err(NameInUse::Replaced(wait)) => return Ok(Attempt::HandleBreak(other.id, wait)),
                Err(NameInUse::Open) if !asked.replace_if_exists => {
                    return Err(Error::new(Status::OBJECT_NAME_COLLISION));
                }
                Err(NameInUse::Open) => {
                    return Err(Error::because(Status::INVALID_PARAMETER, "the file that would be replaced is open"));
                }
            };
            if other.exists(base, &file.op).await? {
                if !asked.replace_if_exists {
                    return Err(Error::new(Status::OBJECT_NAME_COLLISION));
                }
                if other.metadata(base).await?.size > 0 {
                    return Err(Error::because(
                        Status::INVALID_PARAMETER,
                        "the stream that would be replaced has content",
                    ));
                }
                other.make_way(base, &file.op).await?;
            }
            replaced = Some(other);
            Target::Named(name)
        }
    };
    let (from, path) = (stream.name(), file.name.path.lock().clone());
    let renamed = stream.rename(base, &file.op, to).await;
    if let Some(replaced) = replaced {
        replaced.made_way();
    }
    drop(replacement);
    renamed?;
    if let Some(from) = from {
        server.stream_changed(disk, &path, &from, Change::stream_removed());
    }
    match stream.name() {
        Some(to) => server.stream_changed(disk, &path, &to, Change::stream_added()),
        None => server.changed(disk, &path, Change::resized()),
    }
    Ok(Attempt::Done)
}

/// Returns the name of an alternate stream, or `None` for the unnamed one.
fn target(wire_name: &[u8], disk: &Disk) -> Result<Option<String>> {
    if !wire_name.starts_with(b":\0") {
        // As Windows answers a path: a stream cannot replace an open file.
        return Err(Error::because(Status::SHARING_VIOLATION, "a stream can only be renamed within its file"));
    }
    match disk.share.names.characters.parse(wire_name) {
        Ok(Name { stream: Stream::Alternate(name), trailing_backslash: false, .. }) => Ok(Some(name)),
        Ok(Name { stream: Stream::Data, trailing_backslash: false, .. }) => Ok(None),
        Ok(Name { stream: Stream::Index, .. }) => Err(Error::new(Status::OBJECT_TYPE_MISMATCH)),
        _ => Err(Error::because(Status::INVALID_PARAMETER, "not a valid stream name")),
    }
}

/// Returns the file's unnamed stream, to be replaced; it must be empty.
async fn own_content(base: &Arc<dyn Node>, file: &FileOpen) -> Result<Arc<dyn Node>> {
    let metadata = base.metadata(&file.op).await?;
    if metadata.kind == Kind::Directory || metadata.size > 0 {
        return Err(Error::because(
            Status::INVALID_PARAMETER,
            "the target is a directory, or its unnamed stream has content",
        ));
    }
    Ok(base.open(&file.op, Access { read: true, write: true }).await?)
}
