//! The extended attributes that decide on the protection of a file. The server asks for one after another, so the first
//! request for one of them reads those that follow as well.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::acl::model::posix_acl;
use server::acl::ntacl;
use server::vfs::{Kind, Op, Result, Time};

use crate::node::Open;

/// The attributes in the order in which the server asks for them. Only directories have the last one.
const PROTECTION: [&str; 3] = [ntacl::ATTRIBUTE, posix_acl::ACCESS, posix_acl::DEFAULT];

/// How long a value that was read in advance may be used.
const LIFETIME: Duration = Duration::from_millis(100);

/// The most bytes of values that a handle keeps, because a client may leave many handles open.
const KEPT: usize = 1024;

/// The value of an attribute, or why it could not be read.
type Value = Result<Option<Vec<u8>>>;

/// Values that were read in advance for one handle. Each is used once.
#[derive(Default)]
pub(crate) struct Advance(Mutex<Option<Values>>);

struct Values {
    op: Op,
    /// The stamp of the file's last change of attributes.
    stamp: Time,
    read: Instant,
    values: Vec<(&'static str, Value)>,
    /// Whether the look-up read them, and none was used.
    is_guess: bool,
}

impl Open {
    /// Returns the value of an attribute that was read in advance for this user, if the file has not changed since.
    pub(crate) fn take_advance(&self, op: &Op, name: &str) -> Option<Value> {
        let mut advance = self.advance.0.lock();
        let known = advance.as_mut()?;
        let position = known.values.iter().position(|(known, _)| *known == name)?;
        let is_valid = known.op == *op && known.read.elapsed() < LIFETIME && known.stamp == self.stamp();
        if !is_valid {
            *advance = None;
            return None;
        }
        known.is_guess = false;
        let value = known.values.swap_remove(position).1;
        if known.values.is_empty() {
            *advance = None;
        }
        Some(value)
    }

    /// Reads an attribute, and those that the server is going to ask for next.
    pub(crate) fn get_xattr_with_next(&self, op: &Op, name: &str) -> Value {
        let Some(position) = PROTECTION.iter().position(|known| *known == name) else {
            return self.get_xattr_now(op, name);
        };
        if position == 0 {
            self.connection().asks.hit();
        }
        let stamp = self.stamp();
        let value = self.get_xattr_now(op, name);
        if value.is_ok() {
            self.read_from(position + 1, op, stamp, false);
        }
        value
    }

    /// Reads all of the attributes if the server is expected to ask for them.
    pub(crate) fn guess(&self, op: &Op) {
        if matches!(self.kind, Kind::File | Kind::Directory) && self.connection().asks.expects() {
            self.read_from(0, op, self.stamp(), true);
        }
    }

    fn read_from(&self, position: usize, op: &Op, stamp: Time, is_guess: bool) {
        let last = if self.kind == Kind::Directory { PROTECTION.len() } else { PROTECTION.len() - 1 };
        let names = PROTECTION.get(position..last).unwrap_or_default();
        let values: Vec<_> = names.iter().map(|name| (*name, self.get_xattr_now(op, name))).collect();
        let bytes = |(_, value): &(_, Value)| value.as_ref().map_or(0, |value| value.as_ref().map_or(0, Vec::len));
        let is_small = values.iter().map(bytes).sum::<usize>() <= KEPT;
        if is_guess && !is_small {
            self.connection().asks.miss();
        }
        let read = Instant::now();
        let known = Values { op: op.clone(), stamp, read, values, is_guess };
        *self.advance.0.lock() = Some(known).filter(|known| is_small && !known.values.is_empty());
    }

    /// Records whether the server asked for what the look-up has read.
    pub(crate) fn judge_guess(&mut self) {
        if self.advance.0.get_mut().as_ref().is_some_and(|known| known.is_guess) {
            self.connection().asks.miss();
        }
    }

    fn stamp(&self) -> Time {
        self.connection().stamps.of(self.id, Time::default())
    }
}
