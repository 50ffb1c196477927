//! The streams of a file ([MS-FSA] 2.1.5.12.29), and the names of open streams.

use proto::fscc::{EntryChain, FileStreamInformation};

use super::file::padded;
use crate::error::Result;
use crate::information::Answer;
use crate::information::encoded;
use crate::state::Server;
use crate::state::open::FileOpen;
use crate::streams::layout::TYPE;
use crate::streams::{self, StreamNode};
use crate::tree::Disk;
use crate::vfs::{Errno, Kind};

/// The entry of one stream in the list.
struct Listed {
    /// `:name:$DATA`, UTF-16LE.
    name: Vec<u8>,
    size: u64,
    allocated: u64,
}

/// FileStreamInformation: the unnamed stream, which a directory does not have, and the alternate streams. The result is
/// the same for the file and for each of its streams.
pub(crate) async fn query(server: &Server, file: &FileOpen, disk: &Disk) -> Result<Answer> {
    let node = streams::of(&file.node).map_or(&file.node, |stream| &stream.file);
    let metadata = node.metadata(&file.op).await?;
    let mut listed = Vec::new();
    if metadata.kind == Kind::File {
        listed.push(Listed {
            name: proto::bytes::utf16_bytes(&format!(":{TYPE}")),
            size: metadata.size,
            allocated: metadata.allocated,
        });
    }
    if let Some(layout) = &disk.share.streams {
        for stored in streams::list_all(node, &file.op, layout, metadata.kind).await? {
            let at = streams::beside::at(&file.name, metadata.kind);
            let stream = server.opens.streams.stream(disk, layout, (metadata.id, at), &stored.name);
            let name = proto::bytes::utf16_bytes(&format!(":{}{TYPE}", disk.share.names.characters.show(&stored.name)));
            match stream.is_at(node, &stored).await {
                // The file beside belongs to another user.
                Err(Errno::ACCES) if stored.inline.is_none() && stored.overflow.is_none() => continue,
                known => known?,
            }
            let shown = stream.metadata(node).await?;
            if !stream.is_shown(node, shown.size).await {
                continue;
            }
            listed.push(Listed { name, size: shown.size, allocated: shown.allocated });
        }
    }
    let bytes = encoded(|out| {
        let mut chain = EntryChain::new(out, FileStreamInformation::ALIGNMENT, usize::MAX);
        for Listed { name, size, allocated } in &listed {
            let entry =
                FileStreamInformation { stream_size: *size, stream_allocation_size: *allocated, stream_name: name };
            entry.push(&mut chain, out);
        }
    });
    let fixed = if bytes.is_empty() { 0 } else { padded(FileStreamInformation::FIXED_SIZE + 2, 8) };
    Ok(Answer::variable(bytes, fixed))
}

/// Returns the suffix of the file's name for an open stream: `:name` in UTF-16; empty for the file itself.
pub(super) fn suffix(file: &FileOpen, disk: &Disk) -> Vec<u16> {
    let name = streams::of(&file.node).and_then(|StreamNode { stream, .. }| stream.name());
    let shown = |name: &str| disk.share.names.characters.show(name);
    name.map(|name| format!(":{}", shown(&name)).encode_utf16().collect()).unwrap_or_default()
}
