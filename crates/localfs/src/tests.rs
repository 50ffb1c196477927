//! The contract of [`Vfs`], and what only this file system does.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use server::vfs::contract::{self, Fixture};
use tempfile::TempDir;

use super::*;

/// A directory that is removed with the process's identity, whatever the thread has by then.
pub(crate) struct Temp(Option<TempDir>);

impl Temp {
    pub(crate) fn new() -> Temp {
        Temp(Some(identity::as_process(TempDir::new).expect("the process is itself").expect("a directory")))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.as_ref().expect("there until dropped").path().to_owned()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        drop(identity::as_process(|| self.0.take()));
    }
}

pub(crate) fn user(uid: u32) -> Arc<Identity> {
    Arc::new(Identity { uid, gid: uid, groups: Box::default() })
}

/// Who owns what the tests make: a user without a name where the process is root, else the process's user.
pub(crate) fn owner() -> Arc<Identity> {
    if identity::may_switch() {
        return user(61_001);
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Arc::new(Identity { uid, gid, groups: Box::default() })
}

fn fixture_in(keep: Box<dyn std::any::Any>, root: PathBuf) -> Fixture {
    rustix::process::umask(rustix::fs::Mode::empty());
    let owner = owner();
    identity::as_process(|| {
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("the process's own");
        chown(&root, Some(owner.uid), Some(owner.gid)).expect("root may give away");
    })
    .expect("the process is itself");
    let vfs = LocalFs::open(&root, Options::default()).expect("the directory opens");
    let link = move |path: &RelPath, target: &[u8]| {
        use std::os::unix::ffi::OsStrExt;
        let target = std::ffi::OsStr::from_bytes(target);
        let made = identity::as_process(|| symlink(target, root.join(path.as_path())));
        made.expect("the process is itself").expect("a free name");
    };
    let other = identity::may_switch().then(|| user(61_002));
    Fixture { vfs: Arc::new(vfs), owner, other, symlink: Some(Box::new(link)), keep }
}

#[test]
fn it_keeps_the_contract() {
    contract::check(&|| {
        let temp = Temp::new();
        let root = temp.path();
        fixture_in(Box::new(temp), root)
    });
}
