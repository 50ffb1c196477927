//! The connection to a volume, with what all shares in the volume have in common: threads, caches, and the knowledge of
//! changes.

use std::collections::HashMap;
use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use backing::Wait;
use backing::attribute_locks::AttributeLocks;
use backing::attribute_table::AttributeTable;
use backing::change_log::{ChangeLog, Coherence, LoggedChanges};
use backing::clock::Clock;
use backing::directory_cache::{Directory, DirectoryCache, Protection};
use backing::hits::Hits;
use backing::metadata::{MetadataCache, Stat};
use backing::name_index::budget::Budget;
use backing::name_index::{self, Name, NameIndexes, Stamp};
use backing::predictor::Predictor;
use backing::recent_metadata::RecentMetadata;
use backing::walk::Storage;
use backing::workers::{Lane, Settings, Workers};
use parking_lot::Mutex;
use server::acl::model::posix_acl::{self, PosixAcl};
use server::acl::ntacl;
use server::answer::Answer;
use server::policy::{self, GlusterVolume};
use server::vfs::xattr::DosAttributes;
use server::vfs::{
    AclKind, Capabilities, Changes, Enforcement, Errno, Features, FileId, Kind, Op, Result, Time, WantedXattrs,
};

use crate::attributes::Source;
use crate::claims::Claims;
use crate::exclusive::{Beside, beside};
use crate::identity::{self, LibraryIdentity};
use crate::open_files::OpenFiles;
use crate::outages::Outages;
use crate::sizes::Sizes;
use crate::stamps::Stamps;
use crate::sys::{self, Client, Object};
use crate::volfile::Volfile;

/// How long the library itself may answer from its cache by default (`performance.md-cache-timeout`).
const LIBRARY_CACHE: Duration = Duration::from_secs(1);

/// The longest time from a change by another client to the report of a brick.
const REPORT_DELAY: Duration = Duration::from_millis(100);

/// The directory in the root of a volume in which the library describes itself, and the identity of the root. Clients
/// may not see it, because it has the settings of the connection, such as the password for bricks.
const DESCRIPTION: &[u8] = b".meta";
const ROOT: u128 = 1;

/// The virtual attribute of a directory that has the part on which a file is whose name follows.
const PART_OF_NAME: &[u8] = b"dht.file.hashed-subvol.";

/// The maximum length of the name of a part.
const NAME: usize = 1024;

/// A connection to a volume.
pub(crate) struct Connection {
    pub(crate) client: Arc<Client>,
    settings: GlusterVolume,
    pub(crate) workers: Workers<LibraryIdentity>,
    pub(crate) coherence: Coherence,
    pub(crate) log: ChangeLog,
    pub(crate) names: Arc<NameIndexes<LoggedChanges>>,
    /// How long the library may answer from its cache.
    pub(crate) cached_for: Duration,
    /// How often a name index had an answer.
    pub(crate) name_hits: Hits,
    pub(crate) directories: DirectoryCache<Object>,
    /// Files by directory and name. Each is asked for its attributes before it is used.
    pub(crate) files: DirectoryCache<Object>,
    /// DOS attributes of new files that are being stored.
    pub(crate) unstored: Mutex<HashMap<FileId, DosAttributes>>,
    pub(crate) cache: MetadataCache,
    pub(crate) recent: RecentMetadata,
    /// Whether the server asks for the protection of a file after it has looked it up.
    pub(crate) asks: Predictor,
    pub(crate) locks: AttributeLocks,
    pub(crate) claims: Claims,
    pub(crate) stamps: Stamps,
    pub(crate) sizes: Sizes<Object>,
    pub(crate) open_files: OpenFiles,
    pub(crate) outages: Outages,
    pub(crate) capabilities: Capabilities,
    /// Distinguishes the files of this volume from those of others.
    pub(crate) device: u64,
    /// Whether a write may be accepted before a brick has it.
    pub(crate) writes_behind: bool,
    /// The file in which the library says which parts of a distributed volume are connected.
    parts: Option<CString>,
}

/// The open connections, by their settings.
type Open = HashMap<String, Weak<Connection>>;

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

impl Connection {
    /// Returns the connection to a volume, which all shares with the same settings use, and all shares of an exclusive
    /// volume. Two calls at the same time may make two connections, of which the first is used.
    ///
    /// # Errors
    /// The text says what happened and what to do.
    pub(crate) fn open(volume: &GlusterVolume) -> std::result::Result<Arc<Connection>, String> {
        Connection::open_beside(volume, beside)
    }

    /// Like [`Connection::open`], for trials: a connection of its own for these settings, also beside an exclusive one.
    pub(crate) fn open_for_trial(volume: &GlusterVolume) -> std::result::Result<Arc<Connection>, String> {
        Connection::open_beside(volume, |_, _| Ok(Beside::Independent))
    }

    /// Returns the connection to a volume, as far as `beside` permits it with other connections to the same volume.
    fn open_beside(
        volume: &GlusterVolume,
        beside: impl Fn(&GlusterVolume, &GlusterVolume) -> std::result::Result<Beside, String>,
    ) -> std::result::Result<Arc<Connection>, String> {
        let key = format!("{volume:?}");
        let usable = |open: &Open, is_same: &dyn Fn(&Connection) -> bool| {
            if let Some(known) = open.get(&key).and_then(Weak::upgrade) {
                return Ok(Some(known));
            }
            for other in open.values().filter_map(Weak::upgrade).filter(|other| is_same(other)) {
                if let Beside::Together = beside(volume, &other.settings)? {
                    tracing::warn!(
                        volume = volume.volume,
                        "the volume is open with other settings of this or another \
                                                            share, which stay in use until the server is restarted"
                    );
                    return Ok(Some(other));
                }
            }
            Ok::<_, String>(None)
        };
        let names = |volume: &GlusterVolume| (volume.volume.clone(), volume.servers.clone());
        let is_named = |other: &Connection| names(&other.settings) == names(volume);
        if let Some(known) = usable(OPEN.lock().get_or_insert_default(), &is_named)? {
            return Ok(known);
        }
        let made = Connection::new(volume)?;
        let mut open = OPEN.lock();
        let open = open.get_or_insert_default();
        open.retain(|_, connection| connection.strong_count() > 0);
        // A server may have several names.
        if let Some(known) = usable(open, &|other| other.device == made.device)? {
            return Ok(known);
        }
        open.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    /// Returns the open connections.
    pub(crate) fn all() -> Vec<Arc<Connection>> {
        OPEN.lock().iter().flat_map(HashMap::values).filter_map(Weak::upgrade).collect()
    }

    /// Returns the value of `frevo:coherence` in effect.
    pub(crate) fn coherence(&self) -> policy::Coherence {
        match self.coherence {
            Coherence::Own => policy::Coherence::Exclusive,
            Coherence::Callback { .. } => policy::Coherence::Callback,
            Coherence::Timestamp { .. } => policy::Coherence::Timestamp,
        }
    }

    fn new(volume: &GlusterVolume) -> std::result::Result<Arc<Connection>, String> {
        let client = Arc::new(Client::connect(volume)?);
        let text = client.volfile().map_err(|error| format!("no volume file ({error})"))?;
        let volfile = Volfile::parse(&text);
        let parts = Volfile::distribution(&text)
            .and_then(|name| CString::new(format!("/.meta/graphs/active/{name}/private")).ok());
        let mut hasher = DefaultHasher::new();
        client.volume_id().map_err(|error| format!("the volume has no identifier ({error})"))?.hash(&mut hasher);
        let valid = volfile.cached_for.unwrap_or(LIBRARY_CACHE);
        let coherence = match volume.coherence {
            Some(policy::Coherence::Exclusive) => Coherence::Own,
            Some(policy::Coherence::Callback) => Coherence::Callback { valid },
            None if volfile.invalidates => Coherence::Callback { valid },
            Some(policy::Coherence::Timestamp) | None => Coherence::Timestamp { valid },
        };
        let clock = match coherence {
            Coherence::Own => Clock::ticking(Duration::ZERO),
            Coherence::Callback { .. } => Clock::ticking(REPORT_DELAY),
            // No age of a change says that the attributes have not changed since.
            Coherence::Timestamp { .. } => Clock::ticking(Duration::MAX),
        };
        // A client of the volume stamps each of its changes by its own clock, in nanoseconds.
        let granularity = Duration::ZERO;
        let changes = match coherence {
            Coherence::Own => Changes::Own { granularity },
            Coherence::Callback { .. } => Changes::Callback { granularity, delay: REPORT_DELAY },
            // With `features.ctime`, the times of a file do not show changes of its extended attributes.
            Coherence::Timestamp { valid } => Changes::Unknown { valid: valid + LIBRARY_CACHE },
        };
        let settings = Settings { threads: Some(volume.threads), ..Settings::limited("gluster", volume.timeout) };
        let log = ChangeLog::default();
        let connection = Arc::new(Connection {
            cached_for: valid,
            workers: Workers::new(LibraryIdentity, settings),
            coherence,
            name_hits: Hits::default(),
            names: NameIndexes::new(Some(log.queue(coherence)), clock, Budget::of_process()),
            log,
            directories: DirectoryCache::new(coherence),
            files: DirectoryCache::new(coherence),
            unstored: Mutex::default(),
            cache: MetadataCache::new(clock, AttributeTable::of_process()),
            recent: RecentMetadata::default(),
            asks: Predictor::default(),
            locks: AttributeLocks::default(),
            claims: Claims::default(),
            stamps: Stamps::default(),
            sizes: Sizes::default(),
            open_files: OpenFiles::default(),
            outages: Outages::default(),
            capabilities: Capabilities {
                acls: AclKind::Posix,
                changes,
                leases: false,
                locks: false,
                enforcement: Enforcement::ExceptRoot,
                attributes: WantedXattrs::new([ntacl::ATTRIBUTE]),
                features: Features { clones: false, compresses: false, punches: true, shows_reserved: false },
            },
            device: hasher.finish(),
            writes_behind: volfile.writes_behind,
            parts,
            settings: volume.clone(),
            client,
        });
        if matches!(coherence, Coherence::Callback { .. }) {
            connection.follow_changes()?;
        }
        Ok(connection)
    }

    /// Has the changes of other clients end what is cached.
    fn follow_changes(self: &Arc<Self>) -> std::result::Result<(), String> {
        let weak = Arc::downgrade(self);
        let changed = move |gfids: &[u128]| {
            let Some(connection) = weak.upgrade() else { return };
            for &gfid in gfids {
                let id = connection.id_of(gfid);
                connection.renew(id);
                connection.directories.forget(id);
                connection.files.forget(id);
                connection.log.unknown(id);
            }
        };
        self.client
            .on_changes(Box::new(changed))
            .map_err(|error| format!("the changes of other clients cannot be followed ({error})"))
    }

    /// Forgets everything, because a brick is not connected: it does not report changes until it is asked again.
    fn lose_reports(&self) {
        self.directories.clear();
        self.files.clear();
        self.log.lost();
        self.stamps.renew_all();
        self.recent.clear();
    }

    /// Returns the names of the parts of a distributed volume that are not connected. The thread acts as the server
    /// afterwards.
    fn lacking_parts(&self) -> Result<Vec<String>> {
        let Some(path) = &self.parts else { return Ok(Vec::new()) };
        identity::assume_server()?;
        match self.client.own_file(path) {
            Ok(text) => Ok(lacking(&text)),
            Err(error) => {
                tracing::debug!(%error, "the library does not say which bricks are connected");
                Ok(Vec::new())
            }
        }
    }

    /// Looks up a name in a directory. The thread may act as the server afterwards.
    ///
    /// While a part of a distributed volume is not connected, the library says that its files do not exist.
    pub(crate) fn look_up(&self, directory: &Object, name: &[u8]) -> Result<(Object, libc::stat)> {
        if name == DESCRIPTION && self.id(directory) == self.id_of(ROOT) {
            return Err(Errno::NOENT);
        }
        let found = directory.child(name);
        if !matches!(found, Err(Errno::NOENT)) {
            return found;
        }
        let lacking = self.lacking_parts()?;
        if lacking.is_empty() {
            return found;
        }
        let question = CString::new([PART_OF_NAME, name].concat()).map_err(|_| Errno::NOENT)?;
        let mut part = vec![0; NAME];
        let length = directory.get_xattr(Some(&question), &mut part).unwrap_or_default();
        let part = String::from_utf8_lossy(part.get(..length).unwrap_or_default());
        let part = part.trim_end_matches('\0');
        // The library does not know the part if it is one that is not connected.
        if part.is_empty() || lacking.iter().any(|lacking| lacking == part) { Err(Errno::NOTCONN) } else { found }
    }

    /// Makes calls for a user on a worker.
    pub(crate) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        op: &Op,
        work: impl FnOnce(&Arc<Connection>) -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let this = Arc::clone(self);
        self.workers.later_as(op, Lane::Data, move || {
            let done = work(&this);
            let failed = done.as_ref().is_err_and(|error| *error == Errno::NOTCONN);
            this.outages.note(failed);
            if failed {
                this.lose_reports();
            }
            done
        })
    }

    /// Returns the protection of a directory, with whether it has a default ACL. The thread may act as the server
    /// afterwards.
    pub(crate) fn protection(&self, directory: &Directory<Object>) -> Result<Protection> {
        let now = self.directories.now();
        let known = self.directories.protection(directory.id);
        if let Some(known) = known.as_ref().filter(|known| known.has_default_acl().is_some()) {
            return Ok(known.clone());
        }
        let protection = match known {
            Some(known) => known,
            None => Protection::of(&Storage::stat(self, &directory.handle)?),
        };
        identity::assume_server()?;
        let source = Source { object: &directory.handle, file: None };
        let default = match source.xattr(posix_acl::DEFAULT) {
            Err(Errno::OPNOTSUPP) => None,
            found => found?,
        };
        let protection = protection.with_default_acl(default.is_some());
        self.directories.put_protection(now, directory.id, protection.clone());
        Ok(protection)
    }

    /// Records that the user changed the names in a directory: the name was added, or removed.
    pub(crate) fn note_name(&self, directory: FileId, name: &[u8], added: bool) {
        self.files.forget_name(directory, name);
        self.recent.forget(directory);
        if added {
            self.log.added(directory, name);
        } else {
            self.log.removed(directory, name);
        }
    }

    /// Ends what is known of the attributes of a file.
    pub(crate) fn renew(&self, file: FileId) {
        self.stamps.renew(file);
        self.recent.forget(file);
    }

    /// Records that a file was removed, replaced, moved or lost a name.
    pub(crate) fn note_file(&self, file: FileId) {
        self.cache.forget(file);
        self.recent.forget(file);
    }

    /// Records that one name of a file was removed. If it was the last one, the file is not asked for its size any
    /// more: the distribution layer would look for it on all bricks, and log an error.
    pub(crate) fn note_removed(&self, before: &Stat) {
        if before.kind == Kind::File && before.links <= 1 && self.open_files.get(before.id).is_none() {
            self.sizes.removed(before.id);
        }
    }

    /// Records that a file has another number of names. The library's cache does not learn of it by all ways.
    pub(crate) fn note_links(&self) {
        self.files.clear();
        self.recent.clear();
    }

    /// Records that the permissions or attributes of a file were changed.
    pub(crate) fn note_attributes(&self, file: FileId) {
        self.renew(file);
        self.directories.forget_protection(file);
        self.log.attributes(file);
    }
}

impl Storage for Connection {
    type Handle = Object;

    fn child(&self, op: &Op, directory: &Directory<Object>, name: &[u8]) -> Result<(Arc<Object>, Stat)> {
        identity::assume(op)?;
        // A look-up reaches a brick even if nothing has changed since the file was created or written to.
        for cache in [&self.files, &self.directories] {
            let Some(known) = cache.child(directory.id, name) else { continue };
            if let Ok(stat) = self.stat(Source { object: &known.handle, file: None }) {
                return Ok((Arc::clone(&known.handle), stat));
            }
            cache.forget_name(directory.id, name);
        }
        let now = self.files.now();
        let (object, stat) = self.look_up(&directory.handle, name)?;
        let stat = self.certain(&object, self.report(&object, &stat));
        let object = Arc::new(object);
        if stat.kind == Kind::File {
            self.files.put(now, directory.id, name, &Directory { handle: Arc::clone(&object), id: stat.id });
        }
        Ok((object, stat))
    }

    fn similar(&self, directory: &Directory<Object>, name: &[u8]) -> Result<(Option<Name>, Option<u64>)> {
        let indexed = Indexed { directory, connection: self };
        let (found, version) = self.names.find(&indexed, directory.id, name, Wait::Allowed)?;
        Ok((found, version.filter(|_| self.versions())))
    }

    fn known(&self, directory: &Directory<Object>, name: &[u8]) -> Option<(bool, Option<u64>)> {
        let (found, version) = self.name_hits.count(self.names.known(directory.id, name))?;
        Some((found, Some(version).filter(|_| self.versions())))
    }

    fn stat(&self, handle: &Object) -> Result<Stat> {
        identity::assume_server()?;
        self.stat(Source { object: handle, file: None })
    }

    fn access_acl(&self, handle: &Object) -> Result<Option<PosixAcl>> {
        identity::assume_server()?;
        Source { object: handle, file: None }.acl()
    }

    fn target(&self, link: &Object) -> Result<Vec<u8>> {
        identity::assume_server()?;
        link.read_link()
    }
}

impl Connection {
    /// Returns whether every change of a directory's permissions is known.
    fn versions(&self) -> bool {
        !matches!(self.coherence, Coherence::Timestamp { .. })
    }
}

/// A directory whose names are indexed.
struct Indexed<'a> {
    directory: &'a Directory<Object>,
    connection: &'a Connection,
}

impl name_index::Directory<LoggedChanges> for Indexed<'_> {
    type Listing = Listing;

    fn watch(&self, queue: &mut LoggedChanges) -> Option<FileId> {
        Some(queue.watch(self.directory.id))
    }

    fn stamp(&self) -> Result<Stamp> {
        identity::assume_server()?;
        stamp(&self.directory.handle)
    }

    /// The library leaves out the names of parts that are not connected. They must not count as missing.
    fn lists_all(&self) -> Result<bool> {
        Ok(self.connection.lacking_parts()?.is_empty())
    }

    fn open(&self) -> Result<Listing> {
        identity::assume_server()?;
        let handle = &self.directory.handle;
        Ok(Listing { object: Arc::clone(handle), directory: handle.read_directory()? })
    }
}

/// A directory whose names are read.
struct Listing {
    object: Arc<Object>,
    directory: sys::Directory,
}

impl name_index::Listing for Listing {
    fn stamp(&self) -> Result<Stamp> {
        stamp(&self.object)
    }

    fn each_name(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool> {
        while let Some(entry) = self.directory.next(false)? {
            if !matches!(&*entry.name, b"." | b"..") && !each(&entry.name) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the names of the parts that are not connected, from the library's description of the translator that
/// distributes files: `subvolumes[0] = TYPE.NAME`, `subvolume_status[0] = 0`.
fn lacking(text: &str) -> Vec<String> {
    let value = |key: String| text.lines().find_map(|line| line.strip_prefix(&*key));
    let mut found = Vec::new();
    for number in 0.. {
        let Some(status) = value(format!("subvolume_status[{number}] = ")) else { break };
        if status == "0" {
            let part = value(format!("subvolumes[{number}] = ")).unwrap_or_default();
            found.push(part.split_once('.').map_or(part, |(_, name)| name).to_owned());
        }
    }
    found
}

fn stamp(object: &Object) -> Result<Stamp> {
    let stat = object.stat()?;
    let time = |secs, nanos: i64| Time { secs, nanos: nanos as u32 };
    Ok(Stamp { changed: time(stat.st_ctime, stat.st_ctime_nsec), modified: time(stat.st_mtime, stat.st_mtime_nsec) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_not_connected_are_named() {
        let text = "subvol_cnt = 2\nsubvolumes[0] = protocol/client.v-client-0\nsubvolume_status[0] = 1\n\
                    subvolumes[1] = cluster/replicate.v-replicate-1\nsubvolume_status[1] = 0\nsearch_unhashed = 1\n";
        assert_eq!(lacking(text), ["v-replicate-1"]);
        assert!(lacking(&text.replace("] = 0\n", "] = 1\n")).is_empty());
        assert!(lacking("").is_empty());
    }
}
