//! Names that are being created, replaced or removed.
//!
//! A rename in a volume replaces a file of the new name, and there is no call that refuses to. The volume is therefore
//! asked for the name first. A name that another request creates meanwhile would be lost, so requests claim the names
//! that they are about to use. Requests of other clients of the volume cannot be kept out.
//!
//! A claim lasts until the change is recorded ([`Connection::note_name`](crate::connection::Connection::note_name)), so
//! that a name that was removed and created again is not recorded as missing.

use std::collections::HashMap;

use parking_lot::{Condvar, Mutex};
use server::vfs::{Errno, FileId, Result};

type Name = (FileId, Box<[u8]>);

/// The claimed names of a volume.
#[derive(Default)]
pub(crate) struct Claims {
    names: Mutex<HashMap<Name, Holders>>,
    ended: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holders {
    /// Requests that create the name, of which the storage lets one succeed.
    Creating(usize),
    /// A request that renames to the name.
    Renaming,
    /// A request that removes the name, or renames from it.
    Removing,
}

/// What a request does about the present holders of a name.
enum Next {
    Claim(Holders),
    Wait,
    Fail,
}

/// A claim, which ends when it is dropped.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    name: Name,
}

impl Claims {
    /// Claims a name in a directory in order to create it, after the end of its removal.
    ///
    /// # Errors
    /// `Errno::EXIST` if another file is being renamed to it.
    pub(crate) fn create(&self, directory: FileId, name: &[u8]) -> Result<Claim<'_>> {
        self.claim(directory, name, |holders| match holders {
            None => Next::Claim(Holders::Creating(1)),
            Some(Holders::Creating(others)) => Next::Claim(Holders::Creating(others + 1)),
            Some(Holders::Renaming) => Next::Fail,
            Some(Holders::Removing) => Next::Wait,
        })
    }

    /// Claims a name in a directory in order to rename a file to it. This never waits, because the request has claimed
    /// the file's own name already.
    ///
    /// # Errors
    /// `Errno::EXIST` if the name is being created or removed, or another file is being renamed to it.
    pub(crate) fn rename(&self, directory: FileId, name: &[u8]) -> Result<Claim<'_>> {
        self.claim(directory, name, |holders| match holders {
            None => Next::Claim(Holders::Renaming),
            Some(_) => Next::Fail,
        })
    }

    /// Claims a name in a directory in order to remove it, after the end of all other claims.
    ///
    /// # Errors
    /// None.
    pub(crate) fn remove(&self, directory: FileId, name: &[u8]) -> Result<Claim<'_>> {
        self.claim(directory, name, |holders| match holders {
            None => Next::Claim(Holders::Removing),
            Some(_) => Next::Wait,
        })
    }

    fn claim(&self, directory: FileId, name: &[u8], next: impl Fn(Option<Holders>) -> Next) -> Result<Claim<'_>> {
        let name = (directory, Box::from(name));
        let mut names = self.names.lock();
        loop {
            match next(names.get(&name).copied()) {
                Next::Claim(holders) => {
                    names.insert(name.clone(), holders);
                    return Ok(Claim { claims: self, name });
                }
                Next::Wait => self.ended.wait(&mut names),
                Next::Fail => return Err(Errno::EXIST),
            }
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut names = self.claims.names.lock();
        match names.get_mut(&self.name) {
            Some(Holders::Creating(count)) if *count > 1 => *count -= 1,
            _ => drop(names.remove(&self.name)),
        }
        self.claims.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: FileId = FileId { device: 1, inode: 1, stream: 0 };

    #[test]
    fn a_rename_is_alone_with_its_new_name() {
        let claims = Claims::default();
        let (first, second) = (claims.create(DIRECTORY, b"a"), claims.create(DIRECTORY, b"a"));
        assert!(first.is_ok() && second.is_ok(), "the storage decides between creations");
        assert_eq!(claims.rename(DIRECTORY, b"a").err(), Some(Errno::EXIST));
        drop(first);
        assert_eq!(claims.rename(DIRECTORY, b"a").err(), Some(Errno::EXIST));
        drop(second);
        let renaming = claims.rename(DIRECTORY, b"a");
        assert!(renaming.is_ok() && claims.rename(DIRECTORY, b"b").is_ok());
        assert_eq!(claims.create(DIRECTORY, b"a").err(), Some(Errno::EXIST));
        assert_eq!(claims.rename(DIRECTORY, b"a").err(), Some(Errno::EXIST));
        drop(renaming);
        assert!(claims.names.lock().is_empty());
    }

    #[test]
    fn a_removal_is_alone_with_its_name() {
        let claims = Claims::default();
        let removing = claims.remove(DIRECTORY, b"a").expect("nobody else has the name");
        assert_eq!(claims.rename(DIRECTORY, b"a").err(), Some(Errno::EXIST));
        assert!(claims.create(DIRECTORY, b"b").is_ok());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(claims.create(DIRECTORY, b"a").expect("nobody renames to the name")));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waiting.is_finished());
            drop(removing);
        });
        let creating = claims.create(DIRECTORY, b"a").expect("the removal has ended");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(claims.remove(DIRECTORY, b"a").expect("this has no errors")));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waiting.is_finished());
            drop(creating);
        });
        assert!(claims.names.lock().is_empty());
    }
}
