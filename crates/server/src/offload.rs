//! Tokens that stand for a range of an open file ([MS-FSCC] 2.1.11), as this server gives them out: each is good in the
//! session that asked for it, while the open lives, until the file changes or the time is up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::accounting::Charge;
use crate::open::Open;
use crate::policy::Limits;
use crate::vfs::{FileId, Metadata, Time};

/// Bytes that nobody guesses.
pub(crate) type Secret = [u8; 16];

/// What a token stands for, and how long it is good.
#[derive(Clone)]
pub(crate) struct Token {
    /// The source.
    pub(crate) source: Weak<Open>,
    /// Where the range begins.
    pub(crate) offset: u64,
    /// How many bytes it has; what lies behind the end of the file is zeros.
    pub(crate) length: u64,
    /// The state of the file that the token stands for.
    pub(crate) state: FileState,
    /// What the client has to show.
    pub(crate) secret: Secret,
    /// The session that it was given to.
    pub(crate) session: u64,
    /// What pays for it.
    pub(crate) _charge: Arc<Charge>,
    /// Until when it is good, in time since the server's clock began.
    pub(crate) expires: Duration,
}

/// What differs once a file has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileState {
    size: u64,
    modified: Time,
    changed: Time,
}

impl From<&Metadata> for FileState {
    fn from(metadata: &Metadata) -> Self {
        FileState { size: metadata.size, modified: metadata.modified, changed: metadata.changed }
    }
}

/// The tokens that were given out.
#[derive(Default)]
pub(crate) struct Tokens {
    by_file: Mutex<HashMap<FileId, Vec<Token>>>,
    /// How many there are, for those who only want to know whether there is any.
    count: AtomicUsize,
}

impl Tokens {
    /// Gives out a token for a range of `file`. An open that has many gives up its oldest.
    pub(crate) fn issue(&self, file: FileId, token: Token, limits: &Limits) {
        let mut by_file = self.by_file.lock();
        let tokens = by_file.entry(file).or_default();
        let own = |other: &Token| Weak::ptr_eq(&other.source, &token.source);
        if tokens.iter().filter(|token| own(token)).count() >= limits.offload_tokens_per_open
            && let Some(oldest) = tokens.iter().position(own)
        {
            tokens.remove(oldest);
            self.count.fetch_sub(1, Ordering::Release);
        }
        tokens.push(token);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Removes the tokens that are good no longer.
    pub(crate) fn remove_ended(&self, now: Duration) {
        let mut count = 0;
        let mut by_file = self.by_file.lock();
        by_file.retain(|_, tokens| {
            tokens.retain(|token| token.is_alive(now));
            count += tokens.len();
            !tokens.is_empty()
        });
        self.count.store(count, Ordering::Release);
    }

    /// The token with this secret, where it is still good.
    pub(crate) fn find(&self, file: FileId, secret: &Secret, session: u64, now: Duration) -> Option<Token> {
        let by_file = self.by_file.lock();
        let good = |token: &&Token| token.secret == *secret && token.session == session && token.is_alive(now);
        by_file.get(&file)?.iter().find(good).cloned()
    }

    /// The content of the file is about to change.
    pub(crate) fn forget(&self, file: FileId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut by_file = self.by_file.lock();
        if let Some(tokens) = by_file.remove(&file) {
            self.count.fetch_sub(tokens.len(), Ordering::Release);
        }
    }
}

impl Token {
    fn is_alive(&self, now: Duration) -> bool {
        now < self.expires && self.source.strong_count() > 0
    }
}
