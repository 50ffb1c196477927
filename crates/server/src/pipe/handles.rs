//! Context handles: what a client has opened through one pipe (C706 appendix N). They end with the pipe.

use proto::rpc::ndr::ContextHandle;

use crate::world::World;

/// How many handles one pipe may have: clients use a few, and close them.
const MOST: usize = 64;

/// What stands behind a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Object {
    /// The policy of the local security authority ([MS-LSAD] 2.2.2.1).
    Policy,
    /// The accounts as a whole ([MS-SAMR] 3.1.1.10, "Server").
    Sam,
    /// A domain of them.
    SamDomain,
}

/// The handles of one pipe.
#[derive(Default)]
pub(super) struct Handles(Vec<(ContextHandle, Object)>);

impl Handles {
    /// A handle of `object`; `None` where there are too many.
    pub(super) fn open(&mut self, object: Object, world: &dyn World) -> Option<ContextHandle> {
        if self.0.len() >= MOST {
            return None;
        }
        let mut handle = [0; 20];
        world.random(&mut handle[4..]);
        self.0.push((handle, object));
        Some(handle)
    }

    /// What `handle` was opened for.
    pub(super) fn get(&self, handle: &ContextHandle) -> Option<Object> {
        self.0.iter().find(|(known, _)| known == handle).map(|(_, object)| *object)
    }

    /// Closes a handle; `false` where there is none such.
    pub(super) fn close(&mut self, handle: &ContextHandle) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != handle);
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Still;

    #[test]
    fn handles_are_counted_and_closed_once() {
        let (world, mut handles) = (Still::default(), Handles::default());
        let first = handles.open(Object::Policy, &world).expect("room for one");
        assert_eq!((handles.get(&first), handles.get(&[7; 20])), (Some(Object::Policy), None));
        assert!(handles.close(&first) && !handles.close(&first));
        let count = (0..2 * MOST).filter_map(|_| handles.open(Object::Policy, &world)).count();
        assert_eq!(count, MOST);
    }
}
