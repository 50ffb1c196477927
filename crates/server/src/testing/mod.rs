//! A server and its clients in one thread, without sockets, runtime or real time, for tests, simulation and fuzzing.
//!
//! [`TestServer`] is a server with one share. Its volume, configuration and other parts are parameters. The bytes of a
//! client take the same path as in the daemon. [`TestClient`] waits for each response. [`PipelinedClient`] is built on
//! it and keeps several requests in flight.

mod accounts;
mod client;
mod clock;
mod lsa;
mod pipelined;
mod printer;
mod server;
mod store;
mod suite;
pub mod volume;

use std::sync::Arc;
use std::time::Duration;

use crate::policy::{AclStyle, GlusterVolume, Policy, Share, Storage, StoredAcls, VolfileServer};

pub use self::accounts::{MACHINE, NoAccounts, PASSWORD, TestAccounts, account, password_not_changed};
pub use self::client::{TestClient, chain, ntlm_logon, set_security, status};
pub use self::clock::ManualClock;
pub use self::lsa::MemoryLsa;
pub use self::pipelined::{Message, PipelinedClient, opened};
pub use self::printer::TestPrinter;
pub use self::server::{TestServer, TestServerBuilder};
pub use self::store::MemoryStore;
pub use self::suite::{passes_on_coherent_storage, passes_on_remote_storage};
pub use self::volume::{metadata, root};

/// Returns a configuration with one writable share, `share`.
pub fn policy() -> Policy {
    let mut policy = Policy::default();
    let mut share = Share::new("share", "/share");
    (share.access.read_only, share.modes.create_mask) = (false, 0o666);
    policy.shares.insert("share".into(), share.into());
    policy
}

/// Returns the storage of a share in the GlusterFS volume `name`, with the default settings.
pub fn gluster(name: &str) -> Storage {
    Storage::Gluster(Arc::new(GlusterVolume {
        volume: name.to_owned(),
        servers: vec![VolfileServer::Tcp { host: "localhost".to_owned(), port: 24007 }],
        log_file: None,
        log_level: 7,
        coherence: None,
        threads: 16,
        timeout: Duration::from_secs(30),
    }))
}

/// Returns the settings with which Samba stores security descriptors by default.
pub fn stored_acls() -> StoredAcls {
    StoredAcls {
        attribute: "security.NTACL".into(),
        ignore_system_acls: false,
        default_style: AclStyle::Posix,
        of_owner: None,
    }
}
