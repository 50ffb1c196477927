//! The values of extended attributes that this client has set.
//!
//! `performance/md-cache` caches extended attributes, which the answer of a brick to a look-up carries. It takes those
//! of any answer. If a brick processes a look-up before an attribute is set, and its answer arrives after that of the
//! change, the earlier value replaces the later one, or the attribute is missing. That is reported until the cache
//! ends, for ten minutes on volumes for Samba. With GlusterFS 10.3 that happened to one of some hundred new files that
//! others looked up at the same time.
//!
//! This module therefore knows what was set. Another value is asked of a brick.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::ffi::CStr;
use std::hash::BuildHasher;
use std::time::Instant;

use parking_lot::Mutex;

/// How long an attribute is known after it was set, in seconds: as long as the library may answer from its cache on
/// volumes for Samba, and the time in which the answers of earlier calls arrive.
const LASTING: u32 = 610;

/// Maximum number of attributes, which take at most 5.3 MiB. Beyond it, those that were recorded first are forgotten
/// earlier.
const MOST: usize = 60_000;

/// How often a brick is asked for an attribute while earlier answers arrive.
const ATTEMPTS: usize = 5;

/// The hash of an attribute's file and name. If two attributes have the same, a brick is asked more often.
type Key = u64;

/// Seconds since [`Values::started`].
type Seconds = u32;

/// The attributes that were set lately.
pub(super) struct Values {
    state: Mutex<State>,
    hasher: RandomState,
    started: Instant,
}

#[derive(Default)]
struct State {
    known: HashMap<Key, Known>,
    /// Each of the attributes once, the one that was recorded first at the front, with the earliest time of its last
    /// change.
    queue: VecDeque<(Seconds, Key)>,
}

/// What is known of an attribute.
struct Known {
    /// The hash of the value.
    value: u64,
    /// If not, a brick is asked: which of several changes came last is not known.
    is_certain: bool,
    /// Changes that are not complete.
    running: u16,
    /// The number of changes that began or ended.
    version: u32,
    changed: Seconds,
}

/// A change of an attribute that is not complete.
pub(super) struct Change {
    key: Key,
    value: u64,
    version: u32,
}

/// A value was reported that is not known to be the attribute's.
pub(super) struct Doubt {
    key: Key,
    version: u32,
}

/// What the library reports after a brick was asked for an attribute.
#[derive(PartialEq)]
pub(super) struct Answer {
    /// Whether the brick lists the name of the attribute; `None` if it lists too many names.
    pub(super) is_listed: Option<bool>,
    /// `None`: the attribute is missing.
    pub(super) value: Option<Vec<u8>>,
}

impl Default for Values {
    fn default() -> Self {
        Values { state: Mutex::default(), hasher: RandomState::default(), started: Instant::now() }
    }
}

impl Values {
    fn key(&self, gfid: u128, name: &CStr) -> Key {
        self.hasher.hash_one((gfid, name))
    }

    /// Returns the hash of a value (`None`: missing).
    fn hash(&self, value: Option<&[u8]>) -> u64 {
        self.hasher.hash_one(value)
    }

    fn now(&self) -> Seconds {
        // A server does not run for 136 years.
        u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// Records that an attribute is about to be set, or with `None` removed.
    pub(super) fn begin(&self, gfid: u128, name: &CStr, value: Option<&[u8]>) -> Change {
        let (key, value, now) = (self.key(gfid, name), self.hash(value), self.now());
        let mut state = self.state.lock();
        let State { known, queue } = &mut *state;
        let entry = known.entry(key);
        if matches!(entry, Entry::Vacant(_)) {
            queue.push_back((now, key));
        }
        let of = entry.or_insert(Known { value, is_certain: false, running: 0, version: 0, changed: now });
        of.running = of.running.saturating_add(1);
        of.version = of.version.wrapping_add(1);
        let version = of.version;
        state.forget(now);
        Change { key, value, version }
    }

    /// Records that a change is complete.
    pub(super) fn end(&self, change: &Change, succeeded: bool) {
        let now = self.now();
        let mut state = self.state.lock();
        let Some(known) = state.known.get_mut(&change.key) else { return };
        known.is_certain = succeeded && known.version == change.version && known.running == 1;
        known.value = change.value;
        known.running = known.running.saturating_sub(1);
        known.version = known.version.wrapping_add(1);
        known.changed = now;
    }

    /// Returns a doubt if an attribute is known to have another value than this one (`None`: missing), or if it is not
    /// known which. While it is being changed, it may have any.
    pub(super) fn doubt(&self, gfid: u128, name: &CStr, value: Option<&[u8]>) -> Option<Doubt> {
        self.doubt_of(self.key(gfid, name), value)
    }

    fn doubt_of(&self, key: Key, value: Option<&[u8]>) -> Option<Doubt> {
        let now = self.now();
        let state = self.state.lock();
        let known = state.known.get(&key).filter(|known| known.running == 0 && !is_over(known.changed, now))?;
        let is_known = known.is_certain && known.value == self.hash(value);
        (!is_known).then_some(Doubt { key, version: known.version })
    }

    /// Calls `ask` until the value is known to be the attribute's, or until two answers in a row agree: an earlier
    /// answer may have arrived in between, and is not likely to do so twice. `ask` returns `None` if it fails.
    pub(super) fn ask_until_known(&self, doubt: &Doubt, mut ask: impl FnMut() -> Option<Answer>) {
        let mut before = None;
        for _ in 0..ATTEMPTS {
            let Some(answer) = ask() else { return };
            let value = answer.value.as_deref();
            if self.doubt_of(doubt.key, value).is_none() {
                return;
            }
            let contradicts_itself = answer.is_listed == Some(value.is_none());
            if !contradicts_itself && before.as_ref() == Some(&answer) {
                return self.settle(doubt, value);
            }
            before = Some(answer);
        }
    }

    /// Records the value that a brick reported after a doubt. It may be one that another client of the volume set.
    fn settle(&self, doubt: &Doubt, value: Option<&[u8]>) {
        let value = self.hash(value);
        let mut state = self.state.lock();
        if let Some(known) = state.known.get_mut(&doubt.key).filter(|known| known.version == doubt.version) {
            (known.value, known.is_certain) = (value, true);
        }
    }
}

fn is_over(changed: Seconds, now: Seconds) -> bool {
    now.saturating_sub(changed) >= LASTING
}

impl State {
    /// Forgets attributes that were not changed lately, a few with each change.
    fn forget(&mut self, now: Seconds) {
        for _ in 0..2 {
            let is_full = self.queue.len() > MOST;
            if !self.queue.front().is_some_and(|(changed, _)| is_full || is_over(*changed, now)) {
                return;
            }
            let Some((_, key)) = self.queue.pop_front() else { return };
            match self.known.get(&key) {
                Some(known) if known.running > 0 => self.queue.push_back((now, key)),
                Some(known) if !is_full && !is_over(known.changed, now) => self.queue.push_back((known.changed, key)),
                _ => {
                    self.known.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &CStr = c"user.attribute";

    fn set(values: &Values, file: u128, value: Option<&[u8]>) {
        let change = values.begin(file, NAME, value);
        values.end(&change, true);
    }

    #[test]
    fn another_value_than_the_one_that_was_set_is_doubted() {
        let values = Values::default();
        assert!(values.doubt(1, NAME, None).is_none(), "nothing is known of it");
        set(&values, 1, Some(b"new"));
        assert!(values.doubt(1, NAME, Some(b"new")).is_none());
        assert!(values.doubt(1, NAME, None).is_some());
        assert!(values.doubt(2, NAME, None).is_none(), "another file");
        assert!(values.doubt(1, c"user.other", None).is_none(), "another attribute");
        let doubt = values.doubt(1, NAME, Some(b"old")).expect("it was replaced");
        // Another client has set it.
        values.settle(&doubt, Some(b"theirs"));
        assert!(values.doubt(1, NAME, Some(b"theirs")).is_none());
        set(&values, 1, None);
        assert!(values.doubt(1, NAME, Some(b"theirs")).is_some());
        assert!(values.doubt(1, NAME, None).is_none());
    }

    #[test]
    fn a_value_is_not_doubted_while_it_is_changed() {
        let values = Values::default();
        set(&values, 1, Some(b"old"));
        let first = values.begin(1, NAME, Some(b"first"));
        let second = values.begin(1, NAME, Some(b"second"));
        assert!(values.doubt(1, NAME, None).is_none());
        values.end(&first, true);
        assert!(values.doubt(1, NAME, None).is_none());
        values.end(&second, true);
        // Which one is the last is not known.
        let doubt = values.doubt(1, NAME, Some(b"first")).expect("a brick has to be asked");
        values.settle(&doubt, Some(b"first"));
        assert!(values.doubt(1, NAME, Some(b"first")).is_none());
    }

    #[test]
    fn a_change_that_failed_may_have_been_made() {
        let values = Values::default();
        set(&values, 1, Some(b"old"));
        let change = values.begin(1, NAME, Some(b"new"));
        values.end(&change, false);
        assert!(values.doubt(1, NAME, Some(b"old")).is_some());
        assert!(values.doubt(1, NAME, Some(b"new")).is_some());
    }

    #[test]
    fn an_answer_from_before_a_change_settles_nothing() {
        let values = Values::default();
        set(&values, 1, Some(b"old"));
        let doubt = values.doubt(1, NAME, None).expect("it was set");
        set(&values, 1, Some(b"new"));
        values.settle(&doubt, Some(b"old"));
        assert!(values.doubt(1, NAME, Some(b"new")).is_none());
        assert!(values.doubt(1, NAME, Some(b"old")).is_some());
    }

    /// Sets the attribute to `set`, and then has a brick report `answers`, each with whether it lists the name. Returns
    /// the number of questions, and what is known afterwards.
    fn asked(answers: &[(bool, Option<&[u8]>)]) -> (usize, Values) {
        let values = Values::default();
        set(&values, 1, Some(b"set"));
        let doubt = values.doubt(1, NAME, None).expect("it was set");
        let mut questions = 0;
        values.ask_until_known(&doubt, || {
            let &(listed, value) = answers.get(questions)?;
            questions += 1;
            Some(Answer { is_listed: Some(listed), value: value.map(<[u8]>::to_vec) })
        });
        (questions, values)
    }

    fn is_known(values: &Values, value: Option<&[u8]>) -> bool {
        values.doubt(1, NAME, value).is_none()
    }

    #[test]
    fn a_brick_is_asked_until_it_reports_what_was_set() {
        let set: (bool, Option<&[u8]>) = (true, Some(b"set"));
        let early = (false, None);
        for (answers, expected) in [(&[set, set][..], 1), (&[early, set, set], 2), (&[], 0), (&[early], 1)] {
            let (questions, values) = asked(answers);
            assert_eq!(questions, expected);
            assert!(is_known(&values, Some(b"set")) && !is_known(&values, None));
        }
    }

    #[test]
    fn two_answers_that_agree_are_what_another_client_has_set() {
        let (theirs, early): ((bool, Option<&[u8]>), _) = ((true, Some(b"theirs")), (false, None));
        let (questions, values) = asked(&[early, theirs, theirs, theirs]);
        assert_eq!(questions, 3);
        assert!(is_known(&values, Some(b"theirs")) && !is_known(&values, Some(b"set")));
        let (questions, values) = asked(&[early, early]);
        assert_eq!(questions, 2);
        assert!(is_known(&values, None));
        // Answers of different times.
        let (questions, values) = asked(&[early, theirs, early, theirs, early, theirs]);
        assert_eq!(questions, ATTEMPTS);
        assert!(is_known(&values, Some(b"set")));
    }

    #[test]
    fn a_value_that_the_list_of_names_contradicts_is_not_known() {
        let cached: (bool, Option<&[u8]>) = (false, Some(b"old"));
        for contradiction in [cached, (true, None)] {
            let (questions, values) = asked(&[contradiction; 2 * ATTEMPTS]);
            assert_eq!(questions, ATTEMPTS);
            assert!(is_known(&values, Some(b"set")) && !is_known(&values, contradiction.1));
        }
    }

    #[test]
    fn the_number_of_attributes_is_limited() {
        let values = Values::default();
        let running = values.begin(0, NAME, Some(b"running"));
        for file in 1..=MOST as u128 + 100 {
            set(&values, file, Some(b"set"));
        }
        let state = values.state.lock();
        assert!(state.queue.len() <= MOST + 1 && state.known.len() == state.queue.len());
        // A control byte for each bucket, of which 7 in 8 are used at most.
        let table = (state.known.capacity() * 8).div_ceil(7) * (size_of::<(Key, Known)>() + 1);
        let allocated = table + state.queue.capacity() * size_of::<(Seconds, Key)>();
        assert!(allocated <= 5_400 << 10, "{allocated} bytes are allocated");
        drop(state);
        assert!(values.doubt(1, NAME, None).is_none(), "it is forgotten");
        values.end(&running, true);
        assert!(values.doubt(0, NAME, None).is_some(), "a change that goes on is kept");
    }

    #[test]
    fn what_was_not_changed_lately_is_forgotten() {
        let values = Values::default();
        set(&values, 1, Some(b"old"));
        set(&values, 2, Some(b"old"));
        let later = values.now() + LASTING;
        let mut state = values.state.lock();
        let changed = values.key(2, NAME);
        state.known.get_mut(&changed).expect("it is known").changed = later;
        state.forget(later);
        assert_eq!(state.known.keys().collect::<Vec<_>>(), [&changed]);
        assert_eq!(state.queue, [(later, changed)]);
    }
}
