//! Initial security descriptors of new files, as last computed by `security::set::new_file`.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::acl::cache::{By, Place};
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
pub(crate) struct Heir {
    pub(crate) from: By,
    pub(crate) stored: bool,
    pub(crate) place: Place,
    pub(crate) token: u64,
    pub(crate) new: New,
}

/// The results computed last.
#[derive(Default)]
pub(crate) struct InitialAcls {
    /// The latest is last.
    known: Mutex<VecDeque<(Heir, Duration, Option<InitialAcl>)>>,
}

impl InitialAcls {
    /// Lifetime of a result. After the SID of an account changes, new files get the old one for at most this long.
    const LIFE: Duration = Duration::from_secs(5);

    /// Returns the result cached at most [`InitialAcls::LIFE`] before `uptime`. `Some(None)` if nothing is inherited.
    pub(crate) fn find(&self, heir: &Heir, uptime: Duration) -> Option<Option<InitialAcl>> {
        let known = self.known.lock();
        let (_, since, guard) = known.iter().find(|(known, ..)| known == heir)?;
        (uptime.saturating_sub(*since) < InitialAcls::LIFE).then(|| guard.clone())
    }

    /// Caches the result for the inputs `heir`, unless it is too long.
    pub(crate) fn keep(&self, heir: Heir, uptime: Duration, guard: Option<InitialAcl>) {
        let length = |guard: &InitialAcl| {
            let lists = guard.lists.iter().filter_map(|(_, value)| value.as_ref());
            guard.descriptor.1.len() + lists.map(Vec::len).sum::<usize>()
        };
        if guard.as_ref().map_or(0, length) > CACHED_INITIAL_ACL_BYTES {
            return;
        }
        let mut known = self.known.lock();
        known.retain(|(known, ..)| *known != heir);
        if known.len() == CACHED_INITIAL_ACLS {
            known.pop_front();
        }
        known.push_back((heir, uptime, guard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn guard(length: usize) -> InitialAcl {
        InitialAcl { owner: (1, 1), mode: None, lists: Vec::new(), descriptor: (String::new(), vec![0; length]) }
    }

    fn heir(print: u64) -> Heir {
        let new = New { gid: 1, directory: false, executable: false, hands_group_on: false };
        Heir { from: By::AclInputs(print), stored: false, place: Place::default(), token: 1, new }
    }

    #[test]
    fn cached_guards_are_valid_for_the_same_input_and_a_limited_time() {
        let heirs = InitialAcls::default();
        assert_eq!(heirs.find(&heir(1), at(9)), None);
        heirs.keep(heir(1), at(9), Some(guard(1)));
        heirs.keep(heir(2), at(9), None);
        assert_eq!(heirs.find(&heir(1), at(9)), Some(Some(guard(1))));
        assert_eq!(heirs.find(&heir(2), at(13)), Some(None));
        assert_eq!(heirs.find(&heir(1), at(14)), None, "the entry is outdated");
        let other = |change: fn(&mut Heir)| {
            let mut heir = heir(1);
            change(&mut heir);
            heirs.find(&heir, at(9))
        };
        for change in [
            |heir: &mut Heir| heir.from = By::Descriptor(1),
            |heir: &mut Heir| heir.stored = true,
            |heir: &mut Heir| heir.token = 2,
            |heir: &mut Heir| heir.new.gid = 2,
            |heir: &mut Heir| heir.new.directory = true,
            |heir: &mut Heir| heir.new.executable = true,
            |heir: &mut Heir| heir.new.hands_group_on = true,
        ] {
            assert_eq!(other(change), None);
        }
        heirs.keep(heir(1), at(14), Some(guard(2)));
        assert_eq!(heirs.find(&heir(1), at(14)), Some(Some(guard(2))), "the newer entry is valid");
    }

    #[test]
    fn few_guards_are_cached_and_no_long_ones() {
        let heirs = InitialAcls::default();
        heirs.keep(heir(0), at(0), Some(guard(CACHED_INITIAL_ACL_BYTES + 1)));
        assert_eq!(heirs.find(&heir(0), at(0)), None);
        (0..100).for_each(|print| heirs.keep(heir(print), at(0), Some(guard(CACHED_INITIAL_ACL_BYTES))));
        let known = (0..100).filter(|&print| heirs.find(&heir(print), at(0)).is_some()).count();
        assert_eq!((known, heirs.find(&heir(99), at(0)).is_some()), (CACHED_INITIAL_ACLS, true));
    }
}
