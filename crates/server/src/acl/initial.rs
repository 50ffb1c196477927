//! Initial security descriptors of new files, as last computed by `security::set::new_file`.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::acl::cache::{By, VolumeView};
use crate::policy::limits::CACHED_INITIAL_ACL_BYTES;
use crate::policy::limits::CACHED_INITIAL_ACLS;
use crate::vfs::InitialAcl;

/// The properties of a new file that its initial descriptor depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct New {
    pub(crate) gid: u32,
    pub(crate) directory: bool,
    pub(crate) executable: bool,
    /// The directory passes its group on to new files (setgid).
    pub(crate) hands_group_on: bool,
}

/// Key of a cached result: all inputs except the mapping of SIDs to ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct InitialAclKey {
    pub(crate) from: By,
    pub(crate) stored: bool,
    pub(crate) place: VolumeView,
    pub(crate) token: u64,
    pub(crate) new: New,
}

/// The results computed last.
#[derive(Default)]
pub(crate) struct InitialAcls {
    /// The latest is last.
    known: Mutex<VecDeque<(InitialAclKey, Duration, Option<InitialAcl>)>>,
}

impl InitialAcls {
    /// Lifetime of a result. After the SID of an account changes, new files get the old one for at most this long.
    const LIFE: Duration = Duration::from_secs(5);

    /// Returns the result cached at most [`InitialAcls::LIFE`] before `uptime`. `Some(None)` if nothing is inherited.
    pub(crate) fn find(&self, key: &InitialAclKey, uptime: Duration) -> Option<Option<InitialAcl>> {
        let known = self.known.lock();
        let (_, since, initial) = known.iter().find(|(known, ..)| known == key)?;
        (uptime.saturating_sub(*since) < InitialAcls::LIFE).then(|| initial.clone())
    }

    /// Caches the result for the inputs `key`, unless it is too long.
    pub(crate) fn keep(&self, key: InitialAclKey, uptime: Duration, initial: Option<InitialAcl>) {
        let length = |initial: &InitialAcl| {
            let lists = initial.lists.iter().filter_map(|(_, value)| value.as_ref());
            initial.descriptor.1.len() + lists.map(Vec::len).sum::<usize>()
        };
        if initial.as_ref().map_or(0, length) > CACHED_INITIAL_ACL_BYTES {
            return;
        }
        let mut known = self.known.lock();
        known.retain(|(known, ..)| *known != key);
        if known.len() == CACHED_INITIAL_ACLS {
            known.pop_front();
        }
        known.push_back((key, uptime, initial));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn initial(length: usize) -> InitialAcl {
        InitialAcl { owner: (1, 1), mode: None, lists: Vec::new(), descriptor: (String::new(), vec![0; length]) }
    }

    fn key(inputs_hash: u64) -> InitialAclKey {
        let new = New { gid: 1, directory: false, executable: false, hands_group_on: false };
        InitialAclKey { from: By::AclInputs(inputs_hash), stored: false, place: VolumeView::default(), token: 1, new }
    }

    #[test]
    fn cached_guards_are_valid_for_the_same_input_and_a_limited_time() {
        let initial_acls = InitialAcls::default();
        assert_eq!(initial_acls.find(&key(1), at(9)), None);
        initial_acls.keep(key(1), at(9), Some(initial(1)));
        initial_acls.keep(key(2), at(9), None);
        assert_eq!(initial_acls.find(&key(1), at(9)), Some(Some(initial(1))));
        assert_eq!(initial_acls.find(&key(2), at(13)), Some(None));
        assert_eq!(initial_acls.find(&key(1), at(14)), None, "the entry is outdated");
        let other = |change: fn(&mut InitialAclKey)| {
            let mut key = key(1);
            change(&mut key);
            initial_acls.find(&key, at(9))
        };
        for change in [
            |key: &mut InitialAclKey| key.from = By::Descriptor(1),
            |key: &mut InitialAclKey| key.stored = true,
            |key: &mut InitialAclKey| key.token = 2,
            |key: &mut InitialAclKey| key.new.gid = 2,
            |key: &mut InitialAclKey| key.new.directory = true,
            |key: &mut InitialAclKey| key.new.executable = true,
            |key: &mut InitialAclKey| key.new.hands_group_on = true,
        ] {
            assert_eq!(other(change), None);
        }
        initial_acls.keep(key(1), at(14), Some(initial(2)));
        assert_eq!(initial_acls.find(&key(1), at(14)), Some(Some(initial(2))), "the newer entry is valid");
    }

    #[test]
    fn few_guards_are_cached_and_no_long_ones() {
        let initial_acls = InitialAcls::default();
        initial_acls.keep(key(0), at(0), Some(initial(CACHED_INITIAL_ACL_BYTES + 1)));
        assert_eq!(initial_acls.find(&key(0), at(0)), None);
        (0..100).for_each(|inputs_hash| {
            initial_acls.keep(key(inputs_hash), at(0), Some(initial(CACHED_INITIAL_ACL_BYTES)))
        });
        let known = (0..100).filter(|&inputs_hash| initial_acls.find(&key(inputs_hash), at(0)).is_some()).count();
        assert_eq!((known, initial_acls.find(&key(99), at(0)).is_some()), (CACHED_INITIAL_ACLS, true));
    }
}
