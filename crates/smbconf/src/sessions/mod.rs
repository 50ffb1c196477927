//! The policies of sessions: the configuration with the files whose names have variables (`include = smb.conf.%m`).
//!
//! If a session has such a file, the configuration is built again with it. The other files are those of the last
//! reload. A policy is cached until one of the session's files changes. Sessions without such a file, and those whose
//! policy is cached, do not wait for configurations that are read.

mod cache;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::template::Variable;
use server::policy::{Complete, Policy, SESSION_VARIABLES, SessionPolicies, SessionValues, Template};
use tokio::sync::Semaphore;

use super::problem::Problems;
use super::{Names, add_shares, added, finish, read_file, read_for};
use cache::{Built, Cache, Entry, Key, stamp};

/// The most configurations that are built at once.
const AT_A_TIME: usize = 2;
/// The most sessions whose files are looked up at once, because their file system may hang.
const LOOK_UPS: usize = 16;
/// How long a client waits.
const LIMIT: Duration = Duration::from_secs(10);

/// The configuration, from which the policies of sessions are built.
pub(super) struct Sessions {
    inner: Arc<Inner>,
    look_ups: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

struct Inner {
    path: PathBuf,
    shares: Vec<(String, PathBuf)>,
    /// The file of the added shares, and its content.
    added: Option<(PathBuf, Vec<u8>)>,
    names: Arc<dyn Names + Send + Sync>,
    /// The files of the last reload.
    files: HashMap<PathBuf, Vec<u8>>,
    /// The names of the files that depend on the session.
    includes: Vec<Template>,
    complete: OnceLock<Complete>,
    cache: Mutex<Cache>,
}

/// What is known of a session before its configuration is read.
enum Known {
    /// It has no files of its own.
    NoFiles,
    /// Its files were read before.
    Policy(Built),
    /// These files must be read.
    Files(Key),
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
        added: Option<(PathBuf, Vec<u8>)>,
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
            added,
            names: names.owned()?,
            files,
            includes,
            complete: OnceLock::new(),
            cache: Mutex::default(),
        };
        let [look_ups, turns] = [LOOK_UPS, AT_A_TIME].map(|most| Arc::new(Semaphore::new(most)));
        Some(Sessions { inner: Arc::new(inner), look_ups, turns })
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sessions").field(&self.inner.includes).finish()
    }
}

/// Does `work`, which may block, when one of `turns` is free.
async fn blocking<T: Send + 'static>(
    turns: Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unavailable> {
    let turn = turns.acquire_owned().await.map_err(|_| late())?;
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    done.await.map_err(|error| Unavailable(format!("reading the configuration: {error}")))
}

fn late() -> Unavailable {
    Unavailable("the configuration was not read in time".into())
}

impl SessionPolicies for Sessions {
    fn policy(&self, values: SessionValues) -> Answer<Result<Option<Arc<Policy>>, Unavailable>> {
        let (inner, look_ups, turns) = (self.inner.clone(), self.look_ups.clone(), self.turns.clone());
        let values = Arc::new(values);
        let work = async move {
            let (same, asked) = (inner.clone(), values.clone());
            let built = match blocking(look_ups, move || same.known(&asked)).await? {
                Known::NoFiles => return Ok(None),
                Known::Policy(built) => built,
                Known::Files(key) => blocking(turns, move || inner.policy(key, &values)).await?,
            };
            built.map(Some).map_err(Unavailable)
        };
        Answer::later(async move { tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| Err(late())) })
    }

    fn complete_with(&self, complete: Complete) {
        // A second call would be one for the same policy.
        let _ = self.inner.complete.set(complete);
    }
}

impl Inner {
    /// Returns what is known of a session. Blocks.
    fn known(&self, values: &SessionValues) -> Known {
        // A file that cannot be examined may restrict the session; `build` then fails.
        let file = |include| expand(include, values).filter(|file| file.try_exists().unwrap_or(true));
        let key: Key = self.includes.iter().map(file).collect();
        if key.iter().all(Option::is_none) {
            return Known::NoFiles;
        }
        self.cached(&key, values).map_or(Known::Files(key), Known::Policy)
    }

    fn cached(&self, key: &Key, values: &SessionValues) -> Option<Built> {
        let entry = self.cache().get(key, values)?;
        entry.is_current().then(|| entry.policy.clone())
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the policy of a session with the files `key`. Blocks.
    fn policy(&self, key: Key, values: &SessionValues) -> Built {
        // Another session may have had the previous turn.
        if let Some(policy) = self.cached(&key, values) {
            return policy;
        }
        let entry = self.build(values);
        let policy = entry.policy.clone();
        self.cache().put(key, values, entry);
        policy
    }

    /// Reads the configuration with the files of the session.
    fn build(&self, values: &SessionValues) -> Entry {
        let own = RefCell::new(HashMap::new());
        let read = |path: &Path| match self.files.get(path) {
            Some(bytes) => Ok(bytes.clone()),
            None => {
                own.borrow_mut().entry(path.to_owned()).or_insert_with(|| stamp(path));
                read_file(path)
            }
        };
        let mut problems = Problems::default();
        let mut raw = read_for(&self.path, &read, &*self.names, Some(values), &mut problems);
        add_shares(&mut raw, &self.shares, &mut problems);
        if let Some((file, text)) = &self.added {
            added::add(&mut raw, file, text, &*self.names, &mut problems);
        }
        let built = match finish(&raw, problems, &*self.names) {
            Ok(loaded) => {
                for problem in loaded.warnings.shares_not_served() {
                    tracing::error!("in the configuration of a session: {problem}");
                }
                let complete = self.complete.get();
                Ok(Arc::new(complete.map_or(loaded.policy.clone(), |complete| complete(loaded.policy))))
            }
            Err(problems) => Err(format!("the configuration of the session has errors\n{problems}")),
        };
        let nested: Vec<&Template> = raw.includes.iter().filter(|name| !self.includes.contains(name)).collect();
        Entry::new(built, &raw, own.into_inner().into_iter().collect(), &nested, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Owned;

    /// Returns the policies of a configuration that includes `conf.%m`, which exists for the client `box` and includes
    /// `of-%U`.
    fn sessions(directory: &Path) -> Sessions {
        let path = directory.join("smb.conf");
        let main = format!("[global]\ninclude = {}/conf.%m\n[all]\npath = /\n", directory.display());
        std::fs::write(directory.join("conf.box"), "[box]\npath = /\ninclude = of-%U\n").expect("a file");
        let template = format!("{}/conf.%m", directory.display());
        let includes = vec![Template::parse(&template).expect("a variable")];
        let files = HashMap::from([(path.clone(), main.into_bytes())]);
        Sessions::new(&path, &[], None, &Owned, files, includes).expect("it depends on the session")
    }

    fn session(user: &str, client: &str) -> SessionValues {
        SESSION_VARIABLES.map(|variable| match variable {
            Variable::SESSION_USER => Some(user.to_owned()),
            Variable::CLIENT_NETBIOS_NAME => Some(client.to_owned()),
            Variable::CLIENT_ADDRESS => Some(format!("10.0.0.{}", user.len())),
            _ => None,
        })
    }

    #[tokio::test]
    async fn only_sessions_whose_files_must_be_read_wait_for_a_turn() {
        let directory = tempfile::tempdir().expect("a directory");
        let sessions = sessions(directory.path());
        let policy = |user, client| sessions.policy(session(user, client));
        let first = policy("ann", "box").await.expect("a policy").expect("another one");
        assert!(first.shares.contains_key("box"));
        let turns = sessions.turns.clone().acquire_many_owned(AT_A_TIME as u32).await.expect("all turns");
        for client in ["other", "third", ""] {
            assert!(policy("ann", client).await.expect("an answer").is_none(), "it has no files");
        }
        let again = policy("ann", "box").await.expect("a policy").expect("another one");
        assert!(Arc::ptr_eq(&first, &again));
        drop(turns);
        // A file of the session depends on the user.
        let bob = policy("bob", "box").await.expect("a policy").expect("another one");
        assert!(!Arc::ptr_eq(&first, &bob));
    }
}
