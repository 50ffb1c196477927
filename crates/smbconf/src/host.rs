//! The look-ups of the configuration on this machine: users and groups, the host name, environment variables.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use server::accounts::Unavailable;
use server::vfs::Identity;

use crate::Names;
use accounts::unix::names::{Names as UnixNames, Question, Reply};
use accounts::unix::{User, Users, group_by_name, user_by_name};

/// Access to this machine. Blocks if NSS uses the network.
#[derive(Clone)]
pub struct Host {
    only: Option<Arc<User>>,
    names: Arc<UnixNames>,
}

impl Host {
    /// Returns access to this machine through `users`. If every client acts as the process's own user, all users and
    /// groups that the configuration names map to that user, provided that they exist.
    pub fn new(users: &Users) -> Self {
        Host { only: users.only().cloned(), names: users.names().clone() }
    }

    /// Returns access to this machine as the present process sees it.
    pub fn of_process() -> io::Result<Self> {
        Users::of_host().map(|users| Self::new(&users))
    }
}

/// Returns the machine's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl Names for Host {
    fn user(&self, name: &str) -> Result<Option<Arc<Identity>>, String> {
        let found = user_by_name(name).map_err(|error| format!("cannot look up UNIX user {name:?}: {error}"))?;
        Ok(found.map(|user| self.only.as_ref().unwrap_or(&Arc::new(user)).identity.clone()))
    }

    fn group(&self, name: &str) -> Result<Option<u32>, String> {
        let found = group_by_name(name).map_err(|error| format!("cannot look up UNIX group {name:?}: {error}"))?;
        Ok(found.map(|gid| self.only.as_ref().map_or(gid, |only| only.identity.gid)))
    }

    fn home(&self, name: &str, uid: Option<u32>) -> Result<Option<PathBuf>, String> {
        let ask = |question| self.names.ask_blocking(&question).map_err(|Unavailable(why)| why);
        // If every client acts as the process's user, that user's home must not become everyone's.
        let known = match uid.filter(|_| self.only.is_none()) {
            Some(uid) => ask(Question::User(uid))?,
            None => None,
        };
        let unix = match known {
            Some(Reply::Named(unix, _)) => unix,
            _ => name.to_owned(),
        };
        for name in [unix.to_lowercase(), unix] {
            if let Some(Reply::Home(home)) = ask(Question::Home(name))? {
                return Ok(Some(home));
            }
        }
        Ok(None)
    }

    fn owned(&self) -> Option<Arc<dyn Names + Send + Sync>> {
        Some(Arc::new(self.clone()))
    }

    fn host(&self) -> String {
        host_name()
    }

    fn environment(&self, variable: &str) -> Option<String> {
        std::env::var(variable).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_from_the_host_or_the_process() {
        let root = user_by_name("root").unwrap().unwrap();
        let real = Host { only: None, names: UnixNames::of_host() };
        assert_eq!(real.user("root").unwrap().unwrap(), root.identity);
        assert_eq!(real.group(&root.groups[0]).unwrap(), Some(root.identity.gid));

        let identity = Arc::new(Identity { uid: 1234, gid: 1235, groups: Box::new([]) });
        let me = User { name: "me".into(), identity: identity.clone(), groups: Arc::new([]) };
        let mine = Host { only: Some(Arc::new(me)), names: UnixNames::of_host() };
        assert_eq!(mine.user("root").unwrap().unwrap(), identity);
        assert_eq!(mine.group(&root.groups[0]).unwrap(), Some(1235));

        for host in [real, mine] {
            assert!(host.user("no such user here").unwrap().is_none());
            assert!(host.group("no such group here").unwrap().is_none());
            assert!(!host.host().is_empty());
        }
    }
}
