//! Context handles of the objects that a client has opened through one pipe (C706 appendix N). They are closed with the
//! pipe.

use std::any::Any;

use proto::rpc::ndr::ContextHandle;

use crate::environment::Environment;
use crate::policy::limits::HANDLES_PER_PIPE;

struct Opened {
    handle: ContextHandle,
    object: Box<dyn Any + Send>,
}

/// The handles of one pipe. Their objects have any type that the service chooses.
#[derive(Default)]
pub(super) struct ContextHandles(Vec<Opened>);

impl ContextHandles {
    /// Opens a handle of `object`; returns `None` if there are too many.
    pub(super) fn open(&mut self, object: impl Any + Send, environment: &dyn Environment) -> Option<ContextHandle> {
        if self.0.len() >= HANDLES_PER_PIPE {
            return None;
        }
        let mut handle = [0; 20];
        environment.random(&mut handle[4..]);
        self.0.push(Opened { handle, object: Box::new(object) });
        Some(handle)
    }

    /// Returns the object of `handle`, if it has this type.
    pub(super) fn get<T: Any>(&mut self, handle: &ContextHandle) -> Option<&mut T> {
        self.0.iter_mut().find(|opened| opened.handle == *handle)?.object.downcast_mut()
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
    use crate::testing::ManualClock;

    #[test]
    fn handles_are_counted_and_closed_once() {
        let (environment, mut handles) = (ManualClock::ticking(), ContextHandles::default());
        let first = handles.open(7_u8, &environment).expect("capacity for one handle");
        assert_eq!(handles.get::<u8>(&first), Some(&mut 7));
        assert_eq!(handles.get::<u16>(&first), None);
        assert_eq!(handles.get::<u8>(&[7; 20]), None);
        assert!(handles.close(&first) && !handles.close(&first));
        let count = (0..2 * HANDLES_PER_PIPE).filter_map(|_| handles.open((), &environment)).count();
        assert_eq!(count, HANDLES_PER_PIPE);
    }
}
