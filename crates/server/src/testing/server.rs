//! A server whose parts a test chooses.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proto::dtyp::Guid;

use super::{ManualClock, MemoryStore, TestAccounts, volume};
use crate::accounts::Accounts;
use crate::answer::block_on;
use crate::audit::Destinations;
use crate::domain::Domain;
use crate::environment::Environment;
use crate::interfaces::Interfaces;
use crate::policy::{Policy, Share, ShareChanges};
use crate::printing::PrintSystem;
use crate::restrictions::Restrictions;
use crate::state::durable::Store;
use crate::state::{Server, ServerParts};
use crate::tickets::Tickets;
use crate::vfs::memory::Options;
use crate::vfs::{NewFile, Vfs};

/// A function that returns the volume of a server with this environment.
type OpenVolume = Box<dyn FnOnce(Arc<dyn Environment>) -> Arc<dyn Vfs>>;

/// A server with one volume for all its shares. It dereferences to the [`Server`].
pub struct TestServer {
    server: Arc<Server>,
    /// The volume, as local programs see it.
    pub volume: Arc<dyn Vfs>,
    /// The clock, unless the server was given another environment.
    pub clock: ManualClock,
    /// The records of persistent opens.
    pub store: Arc<MemoryStore>,
    parts: Parts,
}

/// The parts from which a server is started, and started again.
#[derive(Clone)]
struct Parts {
    policy: Policy,
    environment: Arc<dyn Environment>,
    accounts: Accounts,
    domain: Option<Arc<dyn Domain>>,
    restrictions: Option<Arc<dyn Restrictions>>,
    tickets: Option<Arc<dyn Tickets>>,
    interfaces: Option<Arc<dyn Interfaces>>,
    audit: Option<Arc<dyn Destinations>>,
    share_changes: Option<Arc<dyn ShareChanges>>,
    print_system: Option<Arc<dyn PrintSystem>>,
}

impl Parts {
    fn start(&self, volume: &Arc<dyn Vfs>, store: &Arc<MemoryStore>) -> Arc<Server> {
        let Parts {
            policy,
            environment,
            accounts,
            domain,
            restrictions,
            tickets,
            interfaces,
            audit,
            share_changes,
            print_system,
        } = self.clone();
        let volumes = Arc::new(volume::SingleVolume(volume.clone()));
        let store = Some(store.clone() as Arc<dyn Store>);
        let parts = ServerParts {
            environment,
            accounts,
            volumes,
            domain,
            restrictions,
            tickets,
            interfaces,
            store,
            audit,
            share_changes,
            print_system,
        };
        let server = Server::new(policy, Guid([9; 16]), parts);
        block_on(server.restore()).expect("the record store in memory does not fail");
        server
    }
}

impl TestServer {
    /// Returns a server with [`policy`](super::policy), an empty volume and a ticking clock.
    pub fn new() -> TestServer {
        TestServer::builder().start()
    }

    /// Returns a server with this configuration, an empty volume and a ticking clock.
    pub fn with_policy(policy: Policy) -> TestServer {
        TestServer::builder().policy(policy).start()
    }

    /// Returns a server with an empty volume, whose time only the test advances.
    pub fn with_stopped_clock() -> TestServer {
        TestServer::builder().clock(ManualClock::new()).start()
    }

    /// Returns the default parts.
    pub fn builder() -> TestServerBuilder {
        let clock = ManualClock::ticking();
        TestServerBuilder {
            parts: Parts {
                policy: super::policy(),
                environment: Arc::new(clock.clone()),
                accounts: Arc::new(TestAccounts).into(),
                domain: None,
                restrictions: None,
                tickets: None,
                interfaces: None,
                audit: None,
                share_changes: None,
                print_system: None,
            },
            clock,
            open_volume: Box::new(|environment| volume::new(environment, volume::options())),
        }
    }

    /// Simulates a crash of the server and starts another one on the same volume.
    pub fn crash(&mut self) {
        self.server = self.parts.start(&self.volume, &self.store);
    }

    /// Advances the clock.
    pub fn advance_seconds(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Creates a file as a local program would.
    ///
    /// # Panics
    /// If the volume refuses.
    #[track_caller]
    pub fn create_locally(&self, path: &str, new: NewFile) {
        block_on(self.volume.create(&volume::root(), &volume::path(path), new)).expect("root has permission");
    }

    /// Makes the server omit lease and oplock breaks. A simulation that does not detect this is useless.
    pub fn suppress_breaks(&self) {
        self.server.opens.files.silent.store(true, Ordering::Relaxed);
    }

    /// Returns the number of files in the table of open files; 0 once everything is closed.
    pub fn open_files(&self) -> usize {
        self.server.opens.files.files()
    }

    /// Returns the number of leases.
    pub fn lease_count(&self) -> usize {
        self.server.opens.files.lease_count()
    }
}

impl Default for TestServer {
    fn default() -> Self {
        TestServer::new()
    }
}

impl Deref for TestServer {
    type Target = Arc<Server>;

    fn deref(&self) -> &Arc<Server> {
        &self.server
    }
}

/// The parts of a [`TestServer`] that is not started yet.
#[must_use]
pub struct TestServerBuilder {
    parts: Parts,
    clock: ManualClock,
    open_volume: OpenVolume,
}

impl TestServerBuilder {
    /// Replaces the configuration.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.parts.policy = policy;
        self
    }

    /// Changes the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.parts.policy);
        self
    }

    /// Changes the share `share`.
    pub fn share(self, change: impl FnOnce(&mut Share)) -> Self {
        self.configure(|policy| {
            change(policy.shares.get_mut("share").map(Arc::make_mut).expect("the configuration has this share"));
        })
    }

    /// Replaces the clock.
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.parts.environment = Arc::new(clock.clone());
        self.clock = clock;
        self
    }

    /// Replaces the clock by an environment that the test does not control.
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.parts.environment = environment;
        self
    }

    /// Replaces the accounts.
    pub fn accounts(mut self, accounts: impl Into<Accounts>) -> Self {
        self.parts.accounts = accounts.into();
        self
    }

    /// Makes the server a member of a domain.
    pub fn domain(mut self, domain: Arc<dyn Domain>) -> Self {
        self.parts.domain = Some(domain);
        self
    }

    /// Gives the host restrictions on logons.
    pub fn restrictions(mut self, restrictions: Arc<dyn Restrictions>) -> Self {
        self.parts.restrictions = Some(restrictions);
        self
    }

    /// Makes the server accept Kerberos tickets.
    pub fn tickets(mut self, tickets: Arc<dyn Tickets>) -> Self {
        self.parts.tickets = Some(tickets);
        self
    }

    /// Gives the server network interfaces.
    pub fn interfaces(mut self, interfaces: Arc<dyn Interfaces>) -> Self {
        self.parts.interfaces = Some(interfaces);
        self
    }

    /// Gives the server destinations for audit lines.
    pub fn audit(mut self, audit: Arc<dyn Destinations>) -> Self {
        self.parts.audit = Some(audit);
        self
    }

    /// Sets what changes shares at the request of administrators.
    pub fn share_changes(mut self, changes: Arc<dyn ShareChanges>) -> Self {
        self.parts.share_changes = Some(changes);
        self
    }

    /// Gives the host a print system.
    pub fn print_system(mut self, system: Arc<dyn PrintSystem>) -> Self {
        self.parts.print_system = Some(system);
        self
    }

    /// Replaces the volume.
    pub fn volume(mut self, volume: Arc<dyn Vfs>) -> Self {
        self.open_volume = Box::new(move |_| volume);
        self
    }

    /// Uses a new volume with these options.
    pub fn volume_options(mut self, options: Options) -> Self {
        self.open_volume = Box::new(move |environment| volume::new(environment, options));
        self
    }

    /// Wraps the volume, such as in a [`Faulty`](crate::vfs::faulty::Faulty).
    pub fn wrap_volume<V: Vfs + 'static>(mut self, wrap: impl FnOnce(Arc<dyn Vfs>) -> V + 'static) -> Self {
        let open = self.open_volume;
        self.open_volume = Box::new(move |environment| Arc::new(wrap(open(environment))));
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    /// If the server cannot be started.
    pub fn start(self) -> TestServer {
        let TestServerBuilder { parts, clock, open_volume } = self;
        let volume = open_volume(parts.environment.clone());
        let store = Arc::<MemoryStore>::default();
        TestServer { server: parts.start(&volume, &store), volume, clock, store, parts }
    }
}
