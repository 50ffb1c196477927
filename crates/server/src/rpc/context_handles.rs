//! Context handles of the objects that a client has opened through one pipe (C706 appendix N). They are closed with the
//! pipe.

use proto::rpc::ndr::ContextHandle;

use super::enumeration_positions::{Enumeration, Position, Positions};
use crate::environment::Environment;
use crate::policy::limits::HANDLES_PER_PIPE;

/// The object of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Object {
    /// The policy of the local security authority ([MS-LSAD] 2.2.2.1).
    Policy,
    /// The account database ([MS-SAMR] 3.1.1.10, "Server").
    Sam,
    /// A domain of the account database.
    SamDomain(SamDomain),
    /// A user of the server's domain, by RID.
    SamUser(u32),
    /// A group of the server's domain.
    SamGroup(u32),
    /// An alias.
    SamAlias(SamDomain, u32),
}

/// The domains of the account database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SamDomain {
    /// The domain of the server's accounts.
    Own,
    /// BUILTIN.
    Builtin,
}

struct Opened {
    handle: ContextHandle,
    object: Object,
    positions: Positions,
}

/// The handles of one pipe.
#[derive(Default)]
pub(super) struct ContextHandles(Vec<Opened>);

impl ContextHandles {
    /// Opens a handle of `object`; returns `None` if there are too many.
    pub(super) fn open(&mut self, object: Object, environment: &dyn Environment) -> Option<ContextHandle> {
        if self.0.len() >= HANDLES_PER_PIPE {
            return None;
        }
        let mut handle = [0; 20];
        environment.random(&mut handle[4..]);
        self.0.push(Opened { handle, object, positions: Positions::default() });
        Some(handle)
    }

    /// Returns the object of `handle`.
    pub(super) fn get(&self, handle: &ContextHandle) -> Option<Object> {
        self.0.iter().find(|opened| opened.handle == *handle).map(|opened| opened.object)
    }

    /// Returns the last known position at or before entry `number` of `enumeration`, for queries with `handle`.
    pub(super) fn position(&self, handle: &ContextHandle, enumeration: Enumeration, number: u32) -> Option<Position> {
        self.0
            .iter()
            .find(|opened| opened.handle == *handle)
            .and_then(|opened| opened.positions.before(enumeration, number))
    }

    /// Stores a position.
    pub(super) fn put_position(&mut self, handle: &ContextHandle, position: Position) {
        if let Some(opened) = self.0.iter_mut().find(|opened| opened.handle == *handle) {
            opened.positions.put(position);
        }
    }

    /// Closes a handle; returns `false` if there is no such handle.
    pub(super) fn close(&mut self, handle: &ContextHandle) -> bool {
        let before = self.0.len();
        self.0.retain(|opened| opened.handle != *handle);
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Still;

    #[test]
    fn handles_are_counted_and_closed_once() {
        let (environment, mut handles) = (Still::default(), ContextHandles::default());
        let first = handles.open(Object::Policy, &environment).expect("capacity for one handle");
        assert_eq!((handles.get(&first), handles.get(&[7; 20])), (Some(Object::Policy), None));
        assert!(handles.close(&first) && !handles.close(&first));
        let count = (0..2 * HANDLES_PER_PIPE).filter_map(|_| handles.open(Object::Policy, &environment)).count();
        assert_eq!(count, HANDLES_PER_PIPE);
    }
}
