//! What the storage said about files with its replies, valid for a short time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::vfs::{FileId, Metadata, Node, Op, Result, SERVER, WantedXattrs};

/// How long an answer is valid. Another client of the storage may change the file meanwhile.
pub(super) const VALID: Duration = Duration::from_secs(1);

/// The attributes of a file.
#[derive(Clone)]
pub(super) struct Known {
    until: Duration,
    pub(super) metadata: Metadata,
    /// The names of its extended attributes.
    pub(super) names: Vec<String>,
    /// The values of those that are wanted.
    values: Vec<(String, Option<Vec<u8>>)>,
}

impl Known {
    /// Returns the value of a wanted attribute that every user may read.
    pub(super) fn value(&self, op: &Op, name: &str) -> Option<Option<Vec<u8>>> {
        let readable = op.is_server() || name.starts_with("security.") || name.starts_with("system.");
        let (_, value) = self.values.iter().find(|(known, _)| readable && known == name)?;
        Some(value.clone())
    }
}

/// The attributes of files by id.
#[derive(Default)]
pub(super) struct KnownFiles(Mutex<HashMap<FileId, Known>>);

impl KnownFiles {
    /// Returns the attributes of a file if they are valid at `uptime`.
    pub(super) fn get(&self, file: FileId, uptime: Duration) -> Option<Known> {
        self.0.lock().get(&file).filter(|known| uptime < known.until).cloned()
    }

    /// Records the attributes that a reply has for the file of `node`, and returns its metadata.
    pub(super) async fn read(&self, node: &Arc<dyn Node>, wanted: &WantedXattrs, uptime: Duration) -> Result<Metadata> {
        let metadata = node.metadata(&SERVER).await?;
        let names = node.list_xattrs(&SERVER).await?;
        let mut values = Vec::new();
        for name in wanted.iter() {
            // An attribute that files of this kind cannot have is absent.
            values.push((name.to_owned(), node.get_xattr(&SERVER, name).await.unwrap_or_default()));
        }
        self.0.lock().insert(metadata.id, Known { until: uptime + VALID, metadata, names, values });
        Ok(metadata)
    }

    /// Forgets everything, because names have changed: with them the directories, and the links and times of files.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
