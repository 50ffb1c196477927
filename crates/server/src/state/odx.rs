//! The tokens of offloaded copies (ODX, [MS-FSCC] 2.1.11), each of which represents a range of an open file. A token is
//! valid in the session that requested it, as long as the open exists, until the file changes or the token expires.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::accounting::Charge;
use crate::policy::Limits;
use crate::state::open::Open;
use crate::vfs::{FileId, Metadata, Time};

/// Unpredictable bytes.
pub(crate) type Secret = [u8; 16];

/// What a token represents and until when it is valid.
#[derive(Clone)]
pub(crate) struct Token {
    /// The source open.
    pub(crate) source: Weak<Open>,
    /// The offset of the range.
    pub(crate) offset: u64,
    /// The length of the range in bytes; bytes beyond the end of the file are zeros.
    pub(crate) length: u64,
    /// The state of the file when the token was issued.
    pub(crate) state: FileState,
    /// The secret that the client must present.
    pub(crate) secret: Secret,
    /// The session that it was issued to.
    pub(crate) session: u64,
    /// The accounting charge for the token.
    pub(crate) _charge: Arc<Charge>,
    /// When the token expires, in `Environment::uptime`.
    pub(crate) expires: Duration,
}

/// Metadata that differs once a file has changed.
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

/// The tokens that were issued.
#[derive(Default)]
pub(crate) struct Tokens {
    by_file: Mutex<HashMap<FileId, Vec<Token>>>,
    /// The number of tokens, to check without the lock whether there are any.
    count: AtomicUsize,
}

impl Tokens {
    /// Issues a token for a range of `file`. If the open has too many, its oldest token is removed.
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

    /// Removes tokens that are no longer valid.
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

    /// Returns the token with this secret, if it is still valid.
    pub(crate) fn find(&self, file: FileId, secret: &Secret, session: u64, now: Duration) -> Option<Token> {
        let by_file = self.by_file.lock();
        let good = |token: &&Token| token.secret == *secret && token.session == session && token.is_alive(now);
        by_file.get(&file)?.iter().find(good).cloned()
    }

    /// Invalidates the tokens of a file whose content is about to change.
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
