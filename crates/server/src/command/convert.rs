//! The conversion of AppleDouble files that macOS wrote, when a client that may write to the file looks for its
//! streams.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::fscc::FileAttributes;

use crate::attributes;
use crate::security::access;
use crate::streams::convert::{self, Base};
use crate::streams::{StreamNode, Streams};
use crate::tree::Disk;
use crate::vfs::{Access, Kind, Metadata, Node, RelPath};

const WRITE: Access = Access { read: false, write: true };

/// Converts the AppleDouble file of the file at `path`, if there is one and the user may write to both. Returns whether
/// it has.
pub(crate) async fn convert(
    streams: &Streams,
    disk: &Disk,
    (node, metadata, path): (&Arc<dyn Node>, &Metadata, &RelPath),
) -> bool {
    if !convert::is_on(disk) || !matches!(metadata.kind, Kind::File | Kind::Directory) {
        return false;
    }
    let Some(found) = convert::find(streams, disk, path, metadata).await else { return false };
    let shown = attributes::file_attributes(disk, path.name(), metadata);
    let is_readonly = shown.contains(FileAttributes::READONLY) && metadata.kind == Kind::File;
    let wanted = AccessMask::FILE_WRITE_DATA | AccessMask::FILE_WRITE_EA;
    let may_write = !is_readonly
        && access::permits(disk, path, node, metadata, wanted).await.unwrap_or(false)
        && StreamNode::check(node, &disk.op, WRITE).await.is_ok();
    if !may_write || (disk.share_rights & wanted) != wanted {
        return false;
    }
    let Some(file) = convert::read(streams, disk, &found).await else { return false };
    match convert::convert(streams, disk, &Base { node, metadata }, file).await {
        Ok(_) => true,
        Err(errno) => {
            convert::failed(streams, disk, &found, errno);
            tracing::debug!(share = disk.share.name, %path, ?errno, "the AppleDouble file of a file is not converted, \
                                                                    because it has something that is not \
                                                                    understood, or streams of the file have other \
                                                                    content");
            false
        }
    }
}
