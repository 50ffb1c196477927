//! Open files and what belongs to them.

use std::sync::Arc;

use super::awaited::Awaited;
use crate::environment::Environment;
use crate::file_lock::FileLocks;
use crate::files;
use crate::state::abandoned::AbandonedFiles;
use crate::state::band_counts::BandCounts;
use crate::state::bins::Bins;
use crate::state::durable::{Creations, Instances, Registry};
use crate::state::odx::Tokens;
use crate::state::open::Lingering;
use crate::streams::Streams;
use crate::streams::beside::DoubleMoves;
use crate::tree::{Catalogues, SnapshotNames, Views};

/// The tables of open files.
pub(crate) struct OpenState {
    /// Share modes, locks and caches of open files.
    pub(crate) files: files::Table,
    /// Opens that are closed when the changes through them have ended.
    pub(crate) lingering: Lingering,
    /// Locks of requests that append to a file.
    pub(crate) appends: FileLocks,
    /// Watches of CHANGE_NOTIFY.
    pub(crate) watches: files::notify::Watches,
    /// The streams of open files.
    pub(crate) streams: Streams,
    /// AppleDouble files that follow a file, or are removed with a directory.
    pub(crate) doubles: DoubleMoves,
    /// The numbers of bands in bundles of Time Machine.
    pub(crate) band_counts: BandCounts,
    /// Recently removed names.
    pub(crate) tunnel: files::Tunnel,
    /// Tokens of offloaded copies.
    pub(crate) offloads: Tokens,
    /// Files to be deleted because the last open was that of a CREATE that failed.
    pub(crate) abandoned: AbandonedFiles,
    /// Durable, resilient and persistent opens that currently have no session.
    pub(crate) durable: Registry,
    /// CREATE requests, by which replayed ones are recognized.
    pub(crate) creations: Creations,
    /// Opens of application instances.
    pub(crate) instances: Instances,
    /// Oplock breaks that local programs wait for.
    pub(crate) awaited: Awaited,
    /// Views of snapshots in which a file is open.
    pub(crate) views: Views,
    /// Names of snapshots that were opened.
    pub(crate) snapshot_names: SnapshotNames,
    /// Snapshots that were found automatically.
    pub(crate) catalogues: Catalogues,
    /// Recycle bins from which old files are deleted.
    pub(crate) bins: Bins,
}

impl OpenState {
    /// Creates empty tables.
    pub(crate) fn new(environment: Arc<dyn Environment>) -> OpenState {
        OpenState {
            files: files::Table::default(),
            lingering: Lingering::default(),
            appends: FileLocks::default(),
            watches: files::notify::Watches::default(),
            band_counts: BandCounts::new(environment.clone()),
            streams: Streams::new(environment),
            doubles: DoubleMoves::default(),
            tunnel: files::Tunnel::default(),
            offloads: Tokens::default(),
            abandoned: AbandonedFiles::default(),
            durable: Registry::default(),
            creations: Creations::default(),
            instances: Instances::default(),
            awaited: Awaited::default(),
            views: Views::default(),
            snapshot_names: SnapshotNames::default(),
            catalogues: Catalogues::default(),
            bins: Bins::default(),
        }
    }
}
