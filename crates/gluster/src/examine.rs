//! Examines a volume, for an administrator: whether it can be used, its options, and what its bricks do.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt;
use std::time::{Duration, Instant};

use server::policy::{Coherence, GlusterVolume};
use server::vfs::{Errno, Result, Time};

use crate::attributes::Source;
use crate::connection::Connection;
use crate::sys::{NewAttributes, Object};
use crate::volfile::Volfile;
use crate::volume::Volume;
use crate::{identity, sys};

/// The size of the attribute that bricks are asked to store: nearly that of the largest value that Linux permits.
const LARGE: usize = 60_000;

/// The size of the largest value that Linux permits.
const LARGEST: usize = 65_536;

/// The attribute with which bricks are tried.
const ATTRIBUTE: &str = "user.frevo.examined";

/// The virtual attribute that names the bricks of a file.
const BRICKS: &CStr = c"trusted.glusterfs.pathinfo";

/// How many files are created for each part of a distributed volume at most until all of its bricks have had one.
const FILES_OF_PART: usize = 16;

/// How long a brick may take to report a change.
const REPORT: Duration = Duration::from_secs(2);

/// What was found in a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examination {
    /// The options of the volume.
    pub options: Volfile,
    /// How changes by others are noticed.
    pub coherence: Coherence,
    /// How long what was read may be cached; `None` if there is no limit.
    pub valid: Option<Duration>,
    /// What the bricks do with files of the directory; an error if no file can be created there.
    pub bricks: Result<Bricks>,
}

/// What bricks do with files that were created in a directory and removed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bricks {
    /// Those that had a file, as `HOST:PATH`.
    pub tried: BTreeSet<String>,
    /// Those that refuse attributes of 60,000 bytes.
    pub refuse_large_attributes: BTreeSet<String>,
    /// Whether a change by another client was reported; `None` if the coherence does not rely on that.
    pub report: Option<bool>,
}

/// The reason why a volume cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The library is missing, or too old. The text says what to do.
    Library(String),
    /// No server describes the volume, or it cannot be used. The text says what to do.
    Volume(String),
    /// The directory cannot be opened.
    Directory(Errno),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Library(text) | Failure::Volume(text) => out.write_str(text),
            Failure::Directory(error) => write!(out, "{error}"),
        }
    }
}

/// Examines a volume, and the directory `path` if there is one: files are created there and removed again. Waits until
/// the volume answers. Nothing is written to the log file of the volume.
///
/// # Errors
/// The volume or the directory cannot be used.
pub fn examine(volume: &GlusterVolume, path: Option<&str>) -> std::result::Result<Examination, Failure> {
    sys::load().map_err(Failure::Library)?;
    let volume = GlusterVolume { log_file: None, ..volume.clone() };
    let connection = Connection::open_for_trial(&volume).map_err(Failure::Volume)?;
    let text = connection.client.volfile().map_err(|error| Failure::Volume(format!("no volume file ({error})")))?;
    let options = Volfile::parse(&text);
    let coherence = connection.coherence();
    let valid = connection.coherence.lifetime();
    let bricks = match path {
        None => Ok(Bricks::default()),
        Some(path) => {
            let top = Volume::open(connection, path).map_err(Failure::Directory)?;
            try_bricks(&top, &options).and_then(|bricks| match coherence {
                Coherence::Callback => Ok(Bricks { report: Some(reports(&volume, path, &top)?), ..bricks }),
                _ => Ok(bricks),
            })
        }
    };
    Ok(Examination { options, coherence, valid, bricks })
}

/// A file that is removed when this is dropped.
struct Trial<'a> {
    directory: &'a Object,
    name: Vec<u8>,
    object: Object,
}

impl<'a> Trial<'a> {
    fn create(directory: &'a Object, number: usize) -> Result<Trial<'a>> {
        identity::assume_server()?;
        let name = format!(".frevo-check-{}-{number}", std::process::id()).into_bytes();
        let (object, file, _) = directory.create(&name, libc::O_RDWR, 0o600)?;
        let trial = Trial { directory, name, object };
        file.close()?;
        Ok(trial)
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        // A file that stays is empty and only the server's.
        let _ = self.directory.remove(&self.name);
    }
}

/// Has every brick store a large attribute. The name of a file decides which bricks it is on.
fn try_bricks(top: &Volume, options: &Volfile) -> Result<Bricks> {
    let mut bricks = Bricks::default();
    for number in 0..FILES_OF_PART * options.parts.max(1) {
        let trial = Trial::create(&top.root.handle, number)?;
        let mut value = vec![0; LARGEST];
        let length = trial.object.get_xattr(Some(BRICKS), &mut value)?;
        let names = bricks_in(&String::from_utf8_lossy(value.get(..length).unwrap_or_default()));
        if names.is_subset(&bricks.tried) {
            continue;
        }
        let source = Source { object: &trial.object, file: None };
        match source.set(ATTRIBUTE, &[b'x'; LARGE], 0) {
            Ok(()) => {}
            Err(Errno::TOOBIG | Errno::NOSPC | Errno::RANGE) => {
                bricks.refuse_large_attributes.extend(names.iter().cloned());
            }
            Err(error) => return Err(error),
        }
        bricks.tried.extend(names);
        if bricks.tried.len() >= options.bricks {
            break;
        }
    }
    Ok(bricks)
}

/// Returns the bricks that the attribute [`BRICKS`] names: `... <POSIX(PATH):HOST:PATH OF THE FILE> ...`.
fn bricks_in(text: &str) -> BTreeSet<String> {
    let of_brick = |brick: &str| {
        let (path, rest) = brick.split_once("):")?;
        let (host, _) = rest.split_once(':')?;
        Some(format!("{host}:{path}"))
    };
    text.split("<POSIX(").skip(1).filter_map(of_brick).collect()
}

/// Returns whether a change that another client makes to a file is reported to the connection of `top`.
fn reports(volume: &GlusterVolume, path: &str, top: &Volume) -> Result<bool> {
    let trial = Trial::create(&top.root.handle, FILES_OF_PART)?;
    let id = top.connection.id(&trial.object);
    let other = GlusterVolume { coherence: Some(Coherence::Timestamp), ..volume.clone() };
    let other = Volume::open(Connection::open_for_trial(&other).map_err(|_| Errno::NOTCONN)?, path)?;
    // A brick reports changes of the files that a client has asked for.
    top.root.handle.child(&trial.name)?;
    let stamp = || top.connection.stamps.of(id, Time::default());
    let before = stamp();
    let (theirs, _) = other.root.handle.child(&trial.name)?;
    theirs.set(&NewAttributes { mode: Some(0o640), ..NewAttributes::default() })?;
    let end = Instant::now() + REPORT;
    while stamp() == before {
        if Instant::now() >= end {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bricks_are_found_by_host_and_path() {
        let one = "(<DISTRIBUTE:d-dht> <POSIX(/b/d-2):vm:/b/d-2/dir/.x>)\0";
        assert_eq!(bricks_in(one), BTreeSet::from(["vm:/b/d-2".to_owned()]));
        let two = "(<REPLICATE:r-replicate-0> <POSIX(/b/r-2):a:/b/r-2/.x> <POSIX(/b/r-1):b:/b/r-1/.x>)";
        assert_eq!(bricks_in(two), BTreeSet::from(["a:/b/r-2".to_owned(), "b:/b/r-1".to_owned()]));
        assert_eq!(bricks_in("<POSIX(/b> <POSIX(/c):d"), BTreeSet::new());
    }
}
