//! The cached policies of sessions, bounded by their estimated size.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::policy::{Policy, SESSION_VARIABLES, SessionValues, Share, Template};

use crate::raw::{Raw, Setting};

/// The most bytes of all cached policies together, unless one policy alone is larger.
const CACHED_BYTES: usize = 64 << 20;

/// The memory of a text in a policy, in relation to its length.
const BYTES_PER_BYTE: usize = 4;

/// The files of a session that the configuration of the server includes, in the order of the `include` lines; `None` if
/// there is no such file. Sessions with the same files share a policy.
pub(super) type Key = Vec<Option<PathBuf>>;

/// A policy, or why there is none.
pub(super) type Built = Result<Arc<Policy>, String>;

/// Identifies a version of a file; `None` if there is no file.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

/// Returns the version of a file.
pub(super) fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.len()))
}

/// A cached policy.
pub(super) struct Entry {
    values: Vec<(usize, Option<String>)>,
    files: Vec<(PathBuf, Stamp)>,
    pub(super) policy: Built,
    bytes: usize,
}

impl Entry {
    /// Creates an entry. `nested` are the names of files that the session's own files include, and `files` are all
    /// files of the session.
    pub(super) fn new(
        policy: Built,
        raw: &Raw,
        files: Vec<(PathBuf, Stamp)>,
        nested: &[&Template],
        values: &SessionValues,
    ) -> Entry {
        let is_used =
            |at: &usize| nested.iter().any(|name| name.variables().any(|used| used == SESSION_VARIABLES[*at]));
        let values = (0..values.len()).filter(is_used).map(|at| (at, values[at].clone())).collect();
        let bytes = size(raw, policy.as_ref());
        Entry { values, files, policy, bytes }
    }

    fn is_of(&self, values: &SessionValues) -> bool {
        self.values.iter().all(|(at, value)| values[*at] == *value)
    }

    /// Returns whether no file of the session has changed. Blocks.
    pub(super) fn is_current(&self) -> bool {
        self.files.iter().all(|(path, version)| stamp(path) == *version)
    }
}

/// Estimates the memory of a policy. Each share has its own copy of lists that `[global]` sets.
fn size(raw: &Raw, policy: Result<&Arc<Policy>, &String>) -> usize {
    let text = |settings: &[Setting]| settings.iter().map(|it| it.name.len() + it.value.len()).sum::<usize>();
    let global = BYTES_PER_BYTE * text(&raw.global);
    match policy {
        Ok(policy) => {
            let own: usize = raw.shares.iter().map(|share| BYTES_PER_BYTE * text(&share.settings)).sum();
            size_of::<Policy>() + global + own + policy.shares.len() * (size_of::<Share>() + global)
        }
        Err(why) => why.len(),
    }
}

/// The cached policies.
#[derive(Default)]
pub(super) struct Cache {
    /// Entries with the time of their last use.
    entries: HashMap<Key, Vec<(u64, Arc<Entry>)>>,
    bytes: usize,
    uses: u64,
}

impl Cache {
    /// Returns the entry of a session, which may not be current.
    pub(super) fn get(&mut self, key: &Key, values: &SessionValues) -> Option<Arc<Entry>> {
        let (used, entry) = self.entries.get_mut(key)?.iter_mut().find(|(_, entry)| entry.is_of(values))?;
        self.uses += 1;
        *used = self.uses;
        Some(Arc::clone(entry))
    }

    /// Adds an entry, and removes those that were not used for the longest time if there are too many.
    pub(super) fn put(&mut self, key: Key, values: &SessionValues, entry: Entry) {
        self.uses += 1;
        self.bytes += entry.bytes;
        let same = self.entries.entry(key).or_default();
        same.retain(|(_, former)| {
            let stays = !former.is_of(values);
            self.bytes -= if stays { 0 } else { former.bytes };
            stays
        });
        same.push((self.uses, Arc::new(entry)));
        while self.bytes > CACHED_BYTES && self.remove_oldest() {}
    }

    /// Removes the entry that was not used for the longest time, unless it is the only one.
    fn remove_oldest(&mut self) -> bool {
        let all = self.entries.iter().flat_map(|(key, same)| same.iter().map(move |(used, _)| (*used, key)));
        let Some((oldest, key)) = all.min_by_key(|(used, _)| *used).filter(|(used, _)| *used != self.uses) else {
            return false;
        };
        let key = key.clone();
        if let Some(same) = self.entries.get_mut(&key) {
            let bytes = &mut self.bytes;
            same.extract_if(.., |(used, _)| *used == oldest).for_each(|(_, entry)| *bytes -= entry.bytes);
            if same.is_empty() {
                self.entries.remove(&key);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(user: &str, bytes: usize) -> (SessionValues, Entry) {
        let values = SESSION_VARIABLES.map(|_| Some(user.to_owned()));
        let nested = Template::parse("of-%U").expect("a variable");
        let entry = Entry::new(Err(String::new()), &Raw::default(), Vec::new(), &[&nested], &values);
        (values, Entry { bytes, ..entry })
    }

    #[test]
    fn policies_are_bounded_by_their_size() {
        let (mut cache, key) = (Cache::default(), |name: &str| vec![Some(PathBuf::from(name)), None]);
        for (file, user) in [("a", "ann"), ("a", "bob"), ("b", "ann")] {
            let (values, entry) = entry(user, CACHED_BYTES / 3);
            cache.put(key(file), &values, entry);
        }
        let has = |cache: &mut Cache, file, user| cache.get(&key(file), &entry(user, 0).0).is_some();
        assert!(has(&mut cache, "a", "bob") && has(&mut cache, "b", "ann") && has(&mut cache, "a", "ann"));
        assert!(!has(&mut cache, "a", "joe") && !has(&mut cache, "c", "ann"));
        let (values, again) = entry("ann", CACHED_BYTES / 3);
        cache.put(key("a"), &values, again);
        let (values, fourth) = entry("ann", CACHED_BYTES / 3);
        cache.put(key("d"), &values, fourth);
        assert!(!has(&mut cache, "a", "bob"), "it was not used for the longest time");
        assert!(has(&mut cache, "b", "ann") && has(&mut cache, "a", "ann") && has(&mut cache, "d", "ann"));
        let (values, huge) = entry("eve", CACHED_BYTES + 1);
        cache.put(key("e"), &values, huge);
        assert!(has(&mut cache, "e", "eve"), "the policy in use stays");
        assert_eq!((cache.entries.len(), cache.bytes), (1, CACHED_BYTES + 1));
    }
}
