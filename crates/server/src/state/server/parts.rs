//! The parts of a server that the daemon implements.

use std::sync::Arc;

use super::volumes::Volumes;
use crate::accounts::Accounts;
use crate::audit::Destinations;
use crate::domain::Domain;
use crate::environment::Environment;
use crate::interfaces::Interfaces;
use crate::policy::ShareChanges;
use crate::printing::PrintSystem;
use crate::restrictions::Restrictions;
use crate::state::durable::Store;
use crate::tickets::Tickets;

/// The services of the daemon that a server uses, given once to [`Server::new`](super::Server::new).
pub struct ServerParts {
    /// Clock and random numbers.
    pub environment: Arc<dyn Environment>,
    /// The user accounts.
    pub accounts: Accounts,
    /// The file systems behind shares.
    pub volumes: Arc<dyn Volumes>,
    /// The domain that the server is a member of.
    pub domain: Option<Arc<dyn Domain>>,
    /// The restrictions of the host on logons. Without it, the host has none.
    pub restrictions: Option<Arc<dyn Restrictions>>,
    /// The Kerberos ticket validator. Without it, Kerberos is unavailable.
    pub tickets: Option<Arc<dyn Tickets>>,
    /// The network interfaces. Without it, clients see none.
    pub interfaces: Option<Arc<dyn Interfaces>>,
    /// The store for persistent opens. Without it, no open is persistent.
    pub store: Option<Arc<dyn Store>>,
    /// The destinations of audit lines. Without it, no share with an audit is served.
    pub audit: Option<Arc<dyn Destinations>>,
    /// The changes of shares by administrators. Without it, they cannot change shares.
    pub share_changes: Option<Arc<dyn ShareChanges>>,
    /// The print system. Without it, no print share is served.
    pub print_system: Option<Arc<dyn PrintSystem>>,
}

impl ServerParts {
    /// Returns the parts that every server has, without any of the others.
    pub fn new(environment: Arc<dyn Environment>, accounts: impl Into<Accounts>, volumes: Arc<dyn Volumes>) -> Self {
        let accounts = accounts.into();
        ServerParts {
            environment,
            accounts,
            volumes,
            domain: None,
            restrictions: None,
            tickets: None,
            interfaces: None,
            store: None,
            audit: None,
            share_changes: None,
            print_system: None,
        }
    }
}
