//! The policies of sessions: the configuration with the files whose names have variables (`include = smb.conf.%m`).
//!
//! If a session has such a file, the configuration is built again with it. The other files are those of the last
//! reload. A policy is cached until one of the session's files changes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::template::Variable;
use server::policy::{Complete, Policy, SESSION_VARIABLES, SessionPolicies, SessionValues, Template};
use tokio::sync::Semaphore;

use super::problem::Problems;
use super::{Names, add_shares, finish, read_file, read_for};

/// The most configurations that are built at once.
const AT_A_TIME: usize = 2;
/// The most shares in all cached policies together.
const CACHED_SHARES: usize = 20_000;
/// The most cached policies.
const CACHED_POLICIES: usize = 256;
/// How long a client waits.
const LIMIT: Duration = Duration::from_secs(10);

/// The configuration, from which the policies of sessions are built.
pub(super) struct Sessions {
    inner: Arc<Inner>,
    turns: Arc<Semaphore>,
}

struct Inner {
    path: PathBuf,
    shares: Vec<(String, PathBuf)>,
    names: Arc<dyn Names + Send + Sync>,
    /// The files of the last reload.
    files: HashMap<PathBuf, Vec<u8>>,
    /// The names of the files that depend on the session.
    includes: Vec<Template>,
    complete: OnceLock<Complete>,
    cache: Mutex<Cache>,
}

/// Policies, the one used last at the end.
#[derive(Default)]
struct Cache(Vec<Entry>);

struct Entry {
    values: SessionValues,
    files: Vec<(PathBuf, Stamp)>,
    policy: Built,
}

/// A policy, or why there is none.
type Built = Result<Arc<Policy>, String>;

/// Identifies a version of a file; `None` if there is no file.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.len()))
}

/// Returns the path of a file for a session in which the variables have these values. Characters that a NetBIOS name
/// cannot have become `_`, as in Samba, so a client cannot choose another directory.
pub(super) fn expand(template: &Template, values: &SessionValues) -> Option<PathBuf> {
    template.expand_path(|variable| {
        let at = SESSION_VARIABLES.iter().position(|known| *known == variable)?;
        let value = values[at].as_deref()?;
        let is_address = [Variable::CLIENT_ADDRESS, Variable::SERVER_ADDRESS].contains(&variable);
        let kept = |letter: char| letter.is_alphanumeric() || " .-_".contains(letter) || is_address && letter == ':';
        let plain: String = value.chars().map(|letter| if kept(letter) { letter } else { '_' }).collect();
        Some(plain.replace("..", "__"))
    })
}

/// Returns whether the name of an included file may have all of the template's variables.
pub(super) fn is_possible(template: &Template) -> bool {
    template.variables().all(|variable| SESSION_VARIABLES.contains(&variable))
}

impl Sessions {
    /// `files` are the files of the configuration in `path`, which includes the files `includes` for each session.
    /// Returns `None` if there are no such files, or the host cannot be queried later.
    pub(super) fn new(
        path: &Path,
        shares: &[(String, PathBuf)],
        names: &dyn Names,
        files: HashMap<PathBuf, Vec<u8>>,
        includes: Vec<Template>,
    ) -> Option<Sessions> {
        if includes.is_empty() {
            return None;
        }
        let inner = Inner {
            path: path.to_owned(),
            shares: shares.to_vec(),
            names: names.owned()?,
            files,
            includes,
            complete: OnceLock::new(),
            cache: Mutex::default(),
        };
        Some(Sessions { inner: Arc::new(inner), turns: Arc::new(Semaphore::new(AT_A_TIME)) })
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sessions").field(&self.inner.includes).finish()
    }
}

impl SessionPolicies for Sessions {
    fn policy(&self, values: SessionValues) -> Answer<Result<Option<Arc<Policy>>, Unavailable>> {
        let (inner, turns) = (self.inner.clone(), self.turns.clone());
        let late = || Unavailable("the configuration was not read in time".into());
        Answer::later(async move {
            let work = async move {
                let turn = turns.acquire_owned().await.map_err(|_| late())?;
                let read = tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    inner.policy(&values)
                });
                read.await.map_err(|error| Unavailable(format!("reading the configuration: {error}")))?
            };
            tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| Err(late()))
        })
    }

    fn complete_with(&self, complete: Complete) {
        // A second call would be one for the same policy.
        let _ = self.inner.complete.set(complete);
    }
}

impl Inner {
    /// Returns the policy of a session; `None` if the session has no files of its own. Blocks.
    fn policy(&self, values: &SessionValues) -> Result<Option<Arc<Policy>>, Unavailable> {
        let files = self.includes.iter().filter_map(|include| expand(include, values));
        // A file that cannot be examined may restrict the session; `build` then fails.
        if !files.into_iter().any(|file| file.try_exists().unwrap_or(true)) {
            return Ok(None);
        }
        let key = self.key(values, &self.includes);
        if let Some(policy) = self.cache().get(&key) {
            return policy.map(Some).map_err(Unavailable);
        }
        let (policy, files, includes) = self.build(values);
        // A file of the session may depend on more variables.
        if self.key(values, &includes) == key {
            self.cache().put(Entry { values: key, files, policy: policy.clone() });
        }
        policy.map(Some).map_err(Unavailable)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the values of the variables on which `includes` depend.
    fn key(&self, values: &SessionValues, includes: &[Template]) -> SessionValues {
        let mut key = values.clone();
        for (variable, value) in SESSION_VARIABLES.iter().zip(&mut key) {
            if !includes.iter().any(|include| include.variables().any(|used| used == *variable)) {
                *value = None;
            }
        }
        key
    }

    /// Reads the configuration with the files of the session. Returns these files, and the includes that depend on the
    /// session.
    fn build(&self, values: &SessionValues) -> (Built, Vec<(PathBuf, Stamp)>, Vec<Template>) {
        let own = RefCell::new(Vec::new());
        let read = |path: &Path| match self.files.get(path) {
            Some(bytes) => Ok(bytes.clone()),
            None => {
                own.borrow_mut().push((path.to_owned(), stamp(path)));
                read_file(path)
            }
        };
        let mut problems = Problems::default();
        let mut raw = read_for(&self.path, &read, &*self.names, Some(values), &mut problems);
        add_shares(&mut raw, &self.shares, &mut problems);
        let built = finish(&raw, problems, &*self.names);
        let built = match built {
            Ok(loaded) => {
                for problem in loaded.warnings.shares_not_served() {
                    tracing::error!("in the configuration of a session: {problem}");
                }
                let complete = self.complete.get();
                Ok(Arc::new(complete.map_or(loaded.policy.clone(), |complete| complete(loaded.policy))))
            }
            Err(problems) => Err(format!("the configuration of the session has errors\n{problems}")),
        };
        (built, own.into_inner(), raw.includes)
    }
}

impl Cache {
    /// Returns the policy for these values, unless one of its files has changed.
    fn get(&mut self, values: &SessionValues) -> Option<Built> {
        let at = self.0.iter().position(|entry| entry.values == *values)?;
        let entry = self.0.remove(at);
        if entry.files.iter().any(|(path, version)| stamp(path) != *version) {
            return None;
        }
        let policy = entry.policy.clone();
        self.0.push(entry);
        Some(policy)
    }

    /// Adds a policy, and removes those that were not used for the longest time if there are too many.
    fn put(&mut self, entry: Entry) {
        self.0.retain(|other| other.values != entry.values);
        self.0.push(entry);
        let shares = |entry: &Entry| entry.policy.as_ref().map_or(0, |policy| policy.shares.len());
        while self.0.len() > 1
            && (self.0.len() > CACHED_POLICIES || self.0.iter().map(shares).sum::<usize>() > CACHED_SHARES)
        {
            self.0.remove(0);
        }
    }
}
