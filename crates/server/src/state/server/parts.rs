//! The parts of a server that the daemon implements.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::accounts::Accounts;
use crate::answer::Answer;
use crate::domain::Domain;
use crate::environment::Environment;
use crate::interfaces::Interfaces;
use crate::policy::Share;
use crate::state::durable::Store;
use crate::tickets::Tickets;
use crate::vfs::{self, Vfs};

/// The services of the daemon that a server uses, given once to [`Server::new`](super::Server::new).
pub struct ServerParts {
    /// Clock and random numbers.
    pub environment: Arc<dyn Environment>,
    /// The user accounts that may log on.
    pub accounts: Arc<dyn Accounts>,
    /// The file systems behind shares.
    pub volumes: Arc<dyn Volumes>,
    /// The domain that the server is a member of.
    pub domain: Option<Arc<dyn Domain>>,
    /// The Kerberos ticket validator. Without it, Kerberos is unavailable.
    pub tickets: Option<Arc<dyn Tickets>>,
    /// The network interfaces. Without it, clients see none.
    pub interfaces: Option<Arc<dyn Interfaces>>,
    /// The store for persistent opens. Without it, no open is persistent.
    pub store: Option<Arc<dyn Store>>,
}

impl ServerParts {
    /// Returns the parts that every server has, without any of the others.
    pub fn new(environment: Arc<dyn Environment>, accounts: Arc<dyn Accounts>, volumes: Arc<dyn Volumes>) -> Self {
        ServerParts { environment, accounts, volumes, domain: None, tickets: None, interfaces: None, store: None }
    }
}

/// Opens the file systems behind shares.
pub trait Volumes: Send + Sync {
    /// Returns the file system that `share` serves. Called once for each path and its rules for symbolic links. Errors
    /// are reported to the client that connects.
    fn volume(&self, share: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>>;

    /// Returns the mount point of the file system that contains the directory `path`, or `path` itself if it is
    /// unknown.
    fn mount_point(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}
