//! A share in a GlusterFS volume: a storage back end on libgfapi, which is loaded when the first volume is opened.
//!
//! Files are reached by handles, one component of a path at a time ([`backing::walk`]), never by paths. Permissions are
//! enforced by the bricks, except for the right to search directories. Bricks do not check that right again for
//! directories that they know. Worker threads of the volume make the calls that may wait. They submit reads, writes and
//! flushes, which the library completes.
//!
//! These defects of GlusterFS 10 are avoided:
//!
//! - `glfs_open` of a directory leaves a descriptor open on the bricks. Directories are opened by `glfs_h_opendir`.
//! - `glfs_copy_file_range` fails on distributed volumes and writes one replica only on replicated ones. It is never
//!   called.
//! - Leases crash bricks. None are taken.
//! - `performance.nl-cache` hides names that this client created after it had found them missing. It is bypassed.
//! - Asynchronous calls of a file that is closed before their completion are never completed. They keep the file open.
//! - `glfs_close` of a file on a thread of the library waits for that thread. Workers close files.
//! - The library may report an earlier size of a file that several calls changed at the same time ([`sizes`]).
//! - `glfs_fini` takes up to eleven seconds. It is called on a thread of its own.
#![deny(unsafe_code)]

mod advance;
mod attributes;
mod changes;
mod claims;
mod connection;
mod content;
mod examine;
mod exclusive;
mod extents;
mod identity;
mod listing;
mod node;
mod open_files;
mod outages;
mod private;
mod sizes;
mod stamps;
mod status;
#[allow(unsafe_code, reason = "it wraps the library")]
mod sys;
mod volfile;
mod volume;

use std::sync::Arc;

use server::policy::GlusterVolume;
use server::vfs::Vfs;

pub use self::examine::{Bricks, Examination, Failure, examine};
pub use backing::hits::HitNumbers;

pub use self::exclusive::conflict;
pub use self::status::{OpenVolume, open_volumes};
pub use self::volfile::Volfile;

/// Opens the directory `path` of a volume, as the server. The calling thread must act as the process, because the
/// library starts threads that keep its identity. Waits until the volume answers.
///
/// # Errors
/// The text says what happened: the library is missing, no server knows the volume, the directory does not exist, or
/// the volume is open with other settings and one of its connections must be the only one.
pub fn open(volume: &GlusterVolume, path: &str) -> Result<Arc<dyn Vfs>, String> {
    let connection = connection::Connection::open(volume)
        .map_err(|error| format!("the volume {} cannot be used: {error}", volume.volume))?;
    let opened = volume::Volume::open(connection, path)
        .map_err(|error| format!("the directory {path} of the volume {} cannot be opened: {error}", volume.volume))?;
    Ok(Arc::new(opened))
}

#[cfg(test)]
mod tests;
