//! Input buffers for requests, shared by all connections.
//!
//! Memory fresh from the system costs a page fault per 4 KiB, which is more than receiving into it. A buffer is
//! therefore parked when its connection is done with it, although a request may still refer to it. The buffer can be
//! reused once that request is answered. Each event loop parks its own.

use bytes::BytesMut;
use parking_lot::Mutex;
use server::per_processor::PerProcessor;

/// Number of parked buffers, but at least [`PARKED_EACH`] for each processor.
const PARKED: usize = 32;
const PARKED_EACH: usize = 4;
/// The size of one that any request may take: a WRITE of 1 MiB with its headers, twice.
const USUAL: usize = 2 * 1024 * 1024 + 64 * 1024;

/// The parked buffers of all event loops.
pub(crate) struct Inputs(PerProcessor<Mutex<Lot>>);

/// Parked buffers, oldest first.
struct Lot {
    buffers: Vec<Parked>,
    /// How many are parked, and how many bytes.
    most: usize,
    most_bytes: usize,
    /// The smallest number of parked buffers since unused ones were last released.
    least: usize,
}

impl Lot {
    /// Creates one of `count` lots, which have `bytes` bytes together.
    fn new(count: usize, bytes: usize) -> Mutex<Lot> {
        let most = (PARKED / count).max(PARKED_EACH);
        Mutex::new(Lot { buffers: Vec::new(), most, most_bytes: bytes / count, least: 0 })
    }

    fn take(&mut self, index: usize) -> BytesMut {
        let taken = self.buffers.remove(index);
        self.least = self.least.min(self.buffers.len());
        taken.buffer
    }

    fn release_unused(&mut self) -> usize {
        let unused = self.least.min(self.buffers.len());
        let bytes = self.buffers.drain(..unused).map(|it| it.size).sum();
        self.least = self.buffers.len();
        bytes
    }
}

struct Parked {
    buffer: BytesMut,
    /// Capacity in bytes when no request refers to the buffer.
    size: usize,
}

impl Inputs {
    /// Creates buffers, of which at most `bytes` bytes are parked.
    pub(crate) fn new(bytes: usize) -> Inputs {
        Inputs(PerProcessor::new(|count| Lot::new(count, bytes)))
    }

    /// Returns an empty buffer with capacity for `space` bytes.
    pub(crate) fn take(&self, space: usize) -> BytesMut {
        let mut parked = self.0.own().lock();
        // The most recently parked buffer may still be in the processor's cache. A request does not take one that is
        // much larger, because its connection is charged for all of it.
        let fits = |it: &Parked| (space..=USUAL.max(space.saturating_mul(2))).contains(&it.size);
        // Its whole capacity is reclaimed, so that it shows what the connection is charged for.
        let found = parked.buffers.iter_mut().rposition(|it| fits(it) && it.buffer.try_reclaim(it.size));
        if let Some(found) = found {
            return parked.take(found);
        }
        // The new buffer replaces a free one that is too small, so that there are never more buffers than were in use
        // at once.
        let smaller = parked.buffers.iter_mut().position(|it| it.size < space && it.buffer.try_reclaim(it.size));
        let smaller = smaller.map(|found| parked.take(found));
        drop(parked);
        drop(smaller);
        BytesMut::with_capacity(space)
    }

    /// Parks a buffer whose connection is done with it. `size` is the capacity that it had when it was taken.
    pub(crate) fn park(&self, mut buffer: BytesMut, size: usize) {
        buffer.clear();
        let mut parked = self.0.own().lock();
        if size == 0 || size > parked.most_bytes {
            return;
        }
        let mut bytes = size + parked.buffers.iter().map(|it| it.size).sum::<usize>();
        while parked.buffers.len() == parked.most || bytes > parked.most_bytes {
            bytes -= parked.buffers.remove(0).size;
        }
        parked.buffers.push(Parked { buffer, size });
    }

    /// Releases buffers that were not needed since the last call, and returns their size in bytes.
    pub(crate) fn release_unused(&self) -> usize {
        self.0.iter().map(|parked| parked.lock().release_unused()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARKED_BYTES: usize = PARKED * USUAL;

    fn with_one_processor() -> Inputs {
        Inputs(PerProcessor::with_count(1, |count| Lot::new(count, PARKED_BYTES)))
    }

    #[test]
    fn a_buffer_is_reused_after_its_request() {
        let inputs = with_one_processor();
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

    /// The connection is charged for the capacity.
    #[test]
    fn a_large_buffer_for_a_small_request_shows_its_capacity() {
        let inputs = with_one_processor();
        let mut buffer = inputs.take(1 << 20);
        let (memory, size) = (buffer.as_ptr(), buffer.capacity());
        buffer.extend_from_slice(&[0; 20]);
        drop(buffer.split_to(10));
        inputs.park(buffer, size);
        let again = inputs.take(1000);
        assert_eq!((again.as_ptr(), again.capacity()), (memory, size));
    }

    #[test]
    fn parked_buffers_are_bounded() {
        let inputs = with_one_processor();
        inputs.park(BytesMut::new(), PARKED_BYTES + 1);
        assert_eq!(inputs.0.own().lock().buffers.len(), 0, "too large");
        for _ in 0..PARKED + 5 {
            inputs.park(BytesMut::new(), 10);
        }
        assert_eq!(inputs.0.own().lock().buffers.len(), PARKED);
        let large = 4 * USUAL;
        for _ in 0..PARKED {
            inputs.park(BytesMut::new(), large);
        }
        assert_eq!(inputs.0.own().lock().buffers.len(), PARKED_BYTES / large);
    }

    #[test]
    fn a_large_buffer_serves_large_requests_only() {
        let inputs = with_one_processor();
        let large = inputs.take(8 << 20);
        let (memory, size) = (large.as_ptr(), large.capacity());
        inputs.park(large, size);
        assert_ne!(inputs.take(1000).as_ptr(), memory);
        assert_eq!(inputs.take(6 << 20).as_ptr(), memory);
    }

    #[test]
    fn growing_requests_leave_one_buffer() {
        let inputs = with_one_processor();
        for space in (1..200).map(|step| step * 1000) {
            let buffer = inputs.take(space);
            let size = buffer.capacity();
            inputs.park(buffer, size);
        }
        assert_eq!(inputs.0.own().lock().buffers.len(), 1);
    }

    #[test]
    fn unused_buffers_are_freed_after_a_while() {
        let inputs = with_one_processor();
        for _ in 0..3 {
            inputs.park(BytesMut::with_capacity(1000), 1000);
        }
        assert_eq!(inputs.release_unused(), 0, "they were just parked");
        inputs.park(inputs.take(1000), 1000);
        assert_eq!(inputs.release_unused(), 2000, "one of three buffers was needed");
        assert_eq!(inputs.release_unused(), 1000);
        assert_eq!(inputs.0.own().lock().buffers.len(), 0);
    }
}
