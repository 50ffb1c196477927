//! Buffers for responses, shared by all connections. An idle connection owns none.
//!
//! The threads of different processors keep theirs apart, so that neither a lock nor the memory of a buffer moves from
//! one processor to another with each response.
//!
//! The number of buffers is bounded by how many were in use at once: a returned buffer serves the next frame of any
//! kind, so memory stops growing after the peak load. Buffers that stay unused for a while are freed.

use parking_lot::Mutex;

use crate::per_processor::PerProcessor;

/// How many buffers of each kind are kept, but at least [`KEPT_EACH`] for each processor.
const KEPT: usize = 32;
const KEPT_EACH: usize = 4;
/// The size of a buffer for a READ of 1 MiB.
const USUAL: usize = 1024 * 1024 + HEADERS;
/// The size up to which a buffer is kept: a READ of 8 MiB, the default of `smb2 max read`.
const HUGE: usize = 8 * 1024 * 1024 + HEADERS;
/// Buffers of at least this length held data. They keep their length, so that data can be read over the old bytes.
const LARGE: usize = 32 * 1024;
/// Space for data is allocated in steps of this size, plus some for headers, so that a buffer also serves READs of
/// other lengths.
const STEP: usize = 64 * 1024;
const HEADERS: usize = 4096;

/// Buffers that are not in use.
pub(crate) struct Buffers(PerProcessor<Pool>);

/// The buffers of one processor.
#[derive(Default)]
struct Pool {
    small: Mutex<Kept>,
    large: Mutex<Kept>,
}

/// Buffers of one kind.
#[derive(Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    /// How many are kept.
    most: usize,
    /// How many bytes are kept, for large buffers.
    most_bytes: usize,
    /// The lowest number of buffers since unused ones were last freed.
    least: usize,
}

impl Kept {
    fn take(&mut self, index: usize) -> Vec<u8> {
        let buffer = self.buffers.remove(index);
        self.least = self.least.min(self.buffers.len());
        buffer
    }

    /// Frees the buffers that were not needed since the last call; returns the number of bytes.
    fn release(&mut self) -> usize {
        let unused = self.least.min(self.buffers.len());
        let bytes = self.buffers.drain(..unused).map(|buffer| buffer.capacity()).sum();
        self.least = self.buffers.len();
        bytes
    }

    /// Keeps a small buffer, unless there are enough.
    fn keep(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < self.most {
            self.buffers.push(buffer);
        }
    }

    /// Keeps a large buffer; if there are enough, it replaces the smallest one. Those that were not needed for the
    /// longest time are freed if they have too many bytes together.
    fn keep_largest(&mut self, buffer: Vec<u8>) {
        if buffer.len() > self.most_bytes {
            return;
        }
        let mut bytes = buffer.len() + self.buffers.iter().map(Vec::len).sum::<usize>();
        while bytes > self.most_bytes {
            bytes -= self.take(0).len();
        }
        if self.buffers.len() < self.most {
            return self.buffers.push(buffer);
        }
        if let Some(smallest) = self.buffers.iter_mut().min_by_key(|kept| kept.len())
            && smallest.len() < buffer.len()
        {
            *smallest = buffer;
        }
    }
}

impl Pool {
    /// Creates one of `count` pools, which keep large buffers of `bytes` bytes together.
    fn new(count: usize, bytes: usize) -> Pool {
        let most = (KEPT / count).max(KEPT_EACH);
        let most_bytes = bytes / count;
        let kept = || Mutex::new(Kept { most, most_bytes, ..Kept::default() });
        Pool { small: kept(), large: kept() }
    }
}

impl Buffers {
    /// Creates buffers. Free ones of at most `bytes` bytes are kept, and some small ones for each processor.
    pub(crate) fn new(bytes: usize) -> Buffers {
        Buffers(PerProcessor::new(|count| Pool::new(count, bytes)))
    }

    /// Returns an empty buffer, possibly with the capacity of an earlier frame.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut small = self.0.own().small.lock();
        let Some(last) = small.buffers.len().checked_sub(1) else { return Vec::new() };
        small.take(last)
    }

    /// Frees the buffers that were not needed since the last call; returns the number of bytes.
    pub(crate) fn release_unused(&self) -> usize {
        self.0.iter().map(|pool| pool.small.lock().release() + pool.large.lock().release()).sum()
    }

    /// Returns a buffer of `length` bytes that starts with those of `head`. The other bytes are unspecified, and the
    /// caller must overwrite them or cut them off. They are not zeroed, because zeroing a MiB takes as long as reading
    /// it from the page cache.
    pub(crate) fn stretch(&self, mut head: Vec<u8>, length: usize) -> Vec<u8> {
        if head.len() >= LARGE {
            // The frame already holds long responses, which are not copied for each further one.
            head.resize(length.max(head.len()), 0);
            return head;
        }
        if length < LARGE || length < head.len() {
            head.reserve_exact(length.saturating_sub(head.len()));
            head.resize(length, 0);
            return head;
        }
        let found = fitting(&mut self.0.own().large.lock(), length);
        let mut buffer = found.unwrap_or_else(|| vec![0; room_for(length)]);
        buffer.truncate(length);
        buffer[..head.len()].copy_from_slice(&head);
        self.put(head);
        buffer
    }

    /// Cuts a stretched buffer to its first `length` bytes. If most of it is unused, the bytes needed are copied and
    /// the large buffer is kept for the next frame. Otherwise it would be sent with a small frame, and eventually all
    /// buffers would be large.
    pub(crate) fn cut(&self, mut buffer: Vec<u8>, length: usize) -> Vec<u8> {
        if buffer.len() < LARGE || length > buffer.len() / 2 {
            buffer.truncate(length);
            return buffer;
        }
        let mut shorter = self.stretch(self.take(), length);
        shorter.copy_from_slice(&buffer[..length]);
        self.put(buffer);
        shorter
    }

    /// Returns a buffer to the pool.
    pub(crate) fn put(&self, mut buffer: Vec<u8>) {
        let space = buffer.capacity();
        if buffer.len() >= LARGE && space <= HUGE {
            // Zeroes the part that was cut off; that is short as long as buffers are no larger than needed.
            buffer.resize(space, 0);
            return self.0.own().large.lock().keep_largest(buffer);
        }
        // A medium-sized buffer that held little. Without this limit on size, small buffers would become large.
        if space > 0 && space <= 2 * LARGE {
            buffer.clear();
            self.0.own().small.lock().keep(buffer);
        }
    }
}

/// Returns the size of a new buffer for `length` bytes.
fn room_for(length: usize) -> usize {
    let step = match length {
        HUGE.. => return length,
        USUAL.. => USUAL - HEADERS,
        _ => STEP,
    };
    length.saturating_sub(HEADERS).next_multiple_of(step) + HEADERS
}

/// Takes the smallest buffer that has `length` bytes and is not much larger, because `put` zeroes the rest of it. Of
/// equal ones it takes the last one returned, which may still be in the processor's cache.
fn fitting(large: &mut Kept, length: usize) -> Option<Vec<u8>> {
    let most = room_for(length).max((2 * length).min(USUAL));
    let fits = |buffer: &Vec<u8>| (length..=most).contains(&buffer.len());
    let all = large.buffers.iter().enumerate().rev().filter(|(_, buffer)| fits(buffer));
    let (index, _) = all.min_by_key(|(_, buffer)| buffer.len())?;
    Some(large.take(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT_BYTES: usize = KEPT * USUAL;

    fn with_processors(count: usize) -> Buffers {
        Buffers(PerProcessor::with_count(count, |count| Pool::new(count, KEPT_BYTES)))
    }

    /// The number of kept buffers, and their total capacity.
    fn kept(buffers: &Buffers) -> (usize, usize) {
        let (small, large) = (buffers.0.own().small.lock(), buffers.0.own().large.lock());
        let all = || small.buffers.iter().chain(large.buffers.iter());
        (all().count(), all().map(Vec::capacity).sum())
    }

    #[test]
    fn large_buffers_are_reused_after_the_header() {
        let buffers = with_processors(1);
        buffers.put(vec![7; 2 * LARGE]);
        buffers.put(vec![8; LARGE]);
        let stretched = buffers.stretch(vec![1, 2, 3], LARGE);
        assert_eq!((stretched.len(), &stretched[..4]), (LARGE, &[1, 2, 3, 8][..]), "the buffer that fits best");
        let stretched = buffers.stretch(vec![1, 2, 3], LARGE + 1);
        assert_eq!((stretched.len(), &stretched[..4]), (LARGE + 1, &[1, 2, 3, 7][..]));
        let stretched = buffers.stretch(vec![1, 2, 3], LARGE);
        assert_eq!((stretched.len(), &stretched[..4]), (LARGE, &[1, 2, 3, 0][..]), "no buffer is left");
    }

    #[test]
    fn a_large_buffer_is_not_used_for_short_data() {
        let buffers = with_processors(1);
        buffers.put(vec![7; 16 * LARGE]);
        assert_eq!(buffers.stretch(vec![1], LARGE)[1], 0);
        assert_eq!(buffers.stretch(vec![1], 8 * LARGE)[1], 7);
    }

    #[test]
    fn old_content_of_a_buffer_is_not_revealed() {
        let buffers = with_processors(1);
        buffers.put(vec![9; 100]);
        assert_eq!(buffers.take(), b"");
        let small = buffers.stretch(vec![1], 100);
        assert_eq!((small[0], &small[1..]), (1, &[0; 99][..]));
    }

    #[test]
    fn stored_data_is_bounded() {
        let buffers = with_processors(1);
        buffers.put(vec![0; HUGE + 1]);
        assert_eq!(buffers.0.own().large.lock().buffers.len(), 0, "too large");
        (0..KEPT + 5).for_each(|_| buffers.put(vec![0; LARGE]));
        assert_eq!(buffers.0.own().large.lock().buffers.len(), KEPT);
        buffers.put(vec![0; USUAL]);
        assert_eq!(
            buffers.0.own().large.lock().buffers.iter().map(Vec::len).max(),
            Some(USUAL),
            "instead of a smaller one"
        );
        assert_eq!(buffers.0.own().large.lock().buffers.len(), KEPT);
        (0..KEPT).for_each(|_| buffers.put(vec![0; HUGE]));
        assert_eq!(kept(&buffers), (KEPT_BYTES / HUGE, KEPT_BYTES / HUGE * HUGE), "the oldest are freed");
    }

    #[test]
    fn the_longest_responses_use_the_same_memory() {
        let buffers = with_processors(1);
        let first = buffers.stretch(vec![1], 8 << 20);
        let memory = first.as_ptr();
        buffers.put(first);
        let shorter = buffers.stretch(vec![1], 1 << 20);
        assert_ne!(shorter.as_ptr(), memory, "it does not take so much");
        let similar = buffers.stretch(vec![1], (7 << 20) + HEADERS + 1);
        assert_eq!(similar.as_ptr(), memory);
        let many = with_processors(4);
        many.put(similar);
        many.put(vec![0; USUAL]);
        assert_eq!(kept(&many), (1, USUAL), "the older one is freed");
        many.put(vec![0; HUGE]);
        assert_eq!(kept(&many), (1, HUGE), "a processor keeps no more than its part");
    }

    #[test]
    fn each_thread_gets_its_own_buffers_back() {
        let buffers = with_processors(64);
        buffers.put(vec![7; LARGE]);
        let other = std::thread::scope(|scope| scope.spawn(|| buffers.stretch(vec![1], LARGE)[1]).join());
        assert_eq!((other.expect("no panic"), buffers.stretch(vec![1], LARGE)[1]), (0, 7));
        assert_eq!(buffers.0.own().small.lock().most, KEPT_EACH);
    }

    /// Sends responses one after the other, given their requested and actual lengths.
    fn serve(buffers: &Buffers, reads: impl IntoIterator<Item = (usize, usize)>) {
        for (asked, got) in reads {
            let mut head = buffers.take();
            head.resize(100, 0);
            let frame = buffers.cut(buffers.stretch(head, 100 + asked), 100 + got);
            assert_eq!(frame.len(), 100 + got);
            buffers.put(frame);
        }
    }

    #[test]
    fn short_responses_leave_as_many_buffers_as_were_in_use() {
        const MIB: usize = 1 << 20;
        let cases = [
            ("the end of a file", (0..100).map(|_| (MIB, 0)).collect::<Vec<_>>()),
            ("small files, read with a large buffer", (0..100).map(|file| (MIB, file * 400)).collect()),
            ("files of any size, read with a large buffer", (0..100).map(|file| (MIB, file * 10_000)).collect()),
            ("short reads", (1..100).map(|length| (length * 300, length * 300)).collect()),
            ("shorter and shorter reads", (1..100).rev().map(|length| (length * 10_000, length * 10_000)).collect()),
            ("longer and longer reads", (1..100).map(|length| (length * 10_000, length * 10_000)).collect()),
        ];
        for (what, reads) in cases {
            let buffers = with_processors(1);
            // One response at a time. While it is cut there are two buffers, and one remains in each size class.
            serve(&buffers, reads.iter().copied());
            let before = kept(&buffers);
            assert!(before.0 <= 2 + MIB / STEP, "{what}: {} buffers", before.0);
            for _ in 0..3 {
                serve(&buffers, reads.iter().copied());
            }
            assert_eq!(kept(&buffers), before, "{what}");
        }
    }

    #[test]
    fn small_buffers_stay_small() {
        let buffers = with_processors(1);
        // All small buffers in turn, as when many connections are answered at the same time.
        for _ in 0..10 {
            let heads: Vec<_> = (0..KEPT).map(|_| buffers.take()).collect();
            for mut head in heads {
                head.resize(100, 0);
                buffers.put(buffers.cut(buffers.stretch(head, USUAL), 100));
            }
        }
        let (count, space) = kept(&buffers);
        assert!((count, space) <= (KEPT + 1, USUAL + KEPT * 1024), "{count} buffers with {space} bytes");
    }

    #[test]
    fn unused_buffers_are_freed_after_a_while() {
        let buffers = with_processors(1);
        (0..3).for_each(|_| buffers.put(vec![0; LARGE]));
        buffers.put(vec![0; 100]);
        assert_eq!(buffers.release_unused(), 0, "the buffers were just returned");
        buffers.put(buffers.stretch(Vec::new(), LARGE));
        assert_eq!(buffers.release_unused(), 2 * LARGE + 100, "one of three was needed");
        assert_eq!(kept(&buffers), (1, LARGE));
        assert_eq!(buffers.release_unused(), LARGE);
        assert_eq!(kept(&buffers), (0, 0));
    }
}
