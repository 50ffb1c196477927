//! The POSIX extensions on the machine's file system: nothing leads out of the share or makes an open wait, and a new
//! file has the permissions that a local program would have given it. Names that differ only in case are found by other
//! clients.

#[path = "../../../server/tests/posix/client.rs"]
#[allow(dead_code, reason = "the tests of the server use the rest of it")]
mod client;
mod escapes;
mod new_files;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use localfs::{LocalFs, Options, identity};
use server::policy::Share;
use server::testing::TestServer;
use tempfile::TempDir;

use self::client::Client;

/// The user alice of the test accounts.
const ALICE: u32 = 1000;

/// Does `work` as the process, whatever identity the server has left on the thread.
fn as_root<T>(work: impl FnOnce() -> T) -> T {
    identity::as_process(work).expect("the thread can act as the process")
}

/// A directory with the directories `share`, which belongs to alice, and `outside`, which everyone may change.
struct Place {
    server: TestServer,
    /// Removed when dropped.
    directory: Option<TempDir>,
}

impl Place {
    /// Serves the share; `None` without root, because then no other identity can be assumed.
    fn new(configure: impl Fn(&mut Share)) -> Option<Place> {
        if !identity::may_switch() {
            eprintln!("does not apply: without root, every operation acts as the user of the process");
            return None;
        }
        // As `frevo serve`.
        rustix::process::umask(rustix::fs::Mode::empty());
        let directory = as_root(|| {
            let directory = TempDir::new().expect("a temporary directory");
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("root has permission");
            for name in ["share", "outside"] {
                let path = directory.path().join(name);
                fs::create_dir(&path).expect("new");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("root has permission");
                chown(&path, Some(ALICE), Some(ALICE)).expect("root has permission");
            }
            let secret = directory.path().join("outside/secret");
            fs::write(&secret, "secret").expect("root has permission");
            fs::set_permissions(&secret, fs::Permissions::from_mode(0o666)).expect("root has permission");
            directory
        });
        let volume = LocalFs::open(&directory.path().join("share"), Options::default()).expect("the directory opens");
        let server = TestServer::builder()
            .volume(Arc::new(volume))
            .configure(|policy| policy.smb3_unix_extensions = true)
            .share(configure)
            .start();
        Some(Place { server, directory: Some(directory) })
    }

    /// Returns the path of a file in the share.
    fn at(&self, name: &str) -> PathBuf {
        self.directory().join("share").join(name)
    }

    fn directory(&self) -> &Path {
        self.directory.as_ref().expect("it exists until it is dropped").path()
    }

    /// Returns alice with the extensions, and without.
    fn clients(&self) -> (Client, Client) {
        let mut clients = (Client::posix(&self.server, "alice"), Client::new(&self.server, "alice"));
        for client in [&mut clients.0, &mut clients.1] {
            client.client.waits_for_threads = true;
        }
        clients
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        as_root(|| self.directory.take());
    }
}
