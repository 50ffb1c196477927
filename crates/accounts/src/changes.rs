//! Changes of accounts that a running server makes itself: password changes by their owners, and locks after wrong
//! passwords.

use anyhow::Result;
use server::accounts::{NotChanged, NtHash};
use server::answer::Answer;

use super::Directory;
use crate::when;

impl Directory {
    /// Runs [`server::accounts::Authenticator::change_password`] on a thread that may block.
    pub(super) fn change_password_later(&self, name: &str, old: NtHash, new: NtHash) -> Answer<Result<(), NotChanged>> {
        let (this, name) = (self.clone(), name.to_owned());
        Answer::later(async move {
            let done = tokio::task::spawn_blocking(move || this.change_password_now(&name, &old, &new));
            done.await.unwrap_or_else(|_| Err(NotChanged::Unavailable("internal error; see the log".into())))
        })
    }

    pub(super) fn change_password_now(&self, name: &str, old: &NtHash, new: &NtHash) -> Result<(), NotChanged> {
        let failed = |error: anyhow::Error| NotChanged::Unavailable(format!("{error:#}"));
        let remembers = self.own.policy().password_history > 0;
        if remembers && (old.0 == new.0 || self.own.had_password(name, new).map_err(failed)?) {
            return Err(NotChanged::InHistory);
        }
        let Some((backend, _)) = self.entry(name).map_err(failed)? else { return Err(NotChanged::Wrong) };
        let mut changed = false;
        let edited = backend.edit(name, &mut |record| {
            changed = record.nt_hash.as_ref().is_some_and(|present| present.0 == old.0);
            if changed {
                record.nt_hash = Some(new.clone());
                record.password_last_set = Some(when::now());
                record.must_change = false;
            }
        });
        match edited.map_err(failed)? {
            Some(_) if changed => {}
            _ => return Err(NotChanged::Wrong),
        }
        // The previous password is in the history only if it was set under this policy.
        if let Err(error) = self.own.remember_password(name, new) {
            // The password has already changed, so reporting a failure would suggest that the old one is still valid.
            tracing::error!(account = name, "the new password could not be added to the password history: {error:#}");
        }
        Ok(())
    }

    /// Runs [`server::accounts::Authenticator::lock`] on a thread that may block, without waiting for its end.
    pub(super) fn lock_later(&self, name: &str) {
        let (this, name) = (self.clone(), name.to_owned());
        let lock = move || {
            let locked = this.entry(&name).and_then(|found| match found {
                Some((backend, _)) => backend.edit(&name, &mut |record| record.locked = true).map(|_| ()),
                None => Ok(()),
            });
            if let Err(error) = locked {
                tracing::error!(
                    account = name,
                    "cannot store the lock, so it lasts only until the server restarts: {error:#}"
                );
            }
        };
        tokio::task::spawn_blocking(lock);
    }
}
