//! Buffers that requests are received into, shared by all connections.
//!
//! Memory fresh from the system costs a page fault for each 4 KiB, more than receiving into it. So a buffer is parked when
//! its connection is done with it, although a request may still be read from it; once that is answered, the buffer can be
//! had again.

use bytes::BytesMut;
use parking_lot::Mutex;

/// How many buffers are parked, and how large one may be to be worth it: a WRITE of 1 MiB with its headers, twice.
const PARKED: usize = 32;
const PARKED_BYTES: usize = 2 * 1024 * 1024 + 64 * 1024;

/// Parked buffers, the oldest first.
#[derive(Default)]
pub(crate) struct Inputs {
    parked: Mutex<Vec<BytesMut>>,
}

impl Inputs {
    /// An empty buffer with room for `room` bytes.
    pub(crate) fn take(&self, room: usize) -> BytesMut {
        let mut parked = self.parked.lock();
        // The youngest may still be in the processor's cache.
        match parked.iter_mut().rposition(|buffer| buffer.try_reclaim(room)) {
            Some(found) => parked.remove(found),
            None => {
                drop(parked);
                BytesMut::with_capacity(room)
            }
        }
    }

    /// Parks a buffer whose connection is done with it; it had room for `size` bytes when it was taken.
    pub(crate) fn park(&self, mut buffer: BytesMut, size: usize) {
        buffer.clear();
        if size == 0 || size > PARKED_BYTES {
            return;
        }
        let mut parked = self.parked.lock();
        if parked.len() == PARKED {
            parked.remove(0);
        }
        parked.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_had_again_when_its_request_is_done() {
        let inputs = Inputs::default();
        let mut buffer = inputs.take(1000);
        buffer.extend_from_slice(&[1; 900]);
        let (memory, size) = (buffer.as_ptr(), buffer.capacity());
        let request = buffer.split_to(900);
        inputs.park(buffer, size);
        assert_ne!(inputs.take(1000).as_ptr(), memory, "while the request is read from it");
        assert_eq!(request, [1; 900][..]);
        drop(request);
        let again = inputs.take(1000);
        assert_eq!((again.as_ptr(), again.len()), (memory, 0));
    }

    #[test]
    fn what_is_parked_is_bounded() {
        let inputs = Inputs::default();
        inputs.park(BytesMut::new(), PARKED_BYTES + 1);
        assert_eq!(inputs.parked.lock().len(), 0, "too large");
        for _ in 0..PARKED + 5 {
            inputs.park(BytesMut::new(), 10);
        }
        assert_eq!(inputs.parked.lock().len(), PARKED);
    }
}
