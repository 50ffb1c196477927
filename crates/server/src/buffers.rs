//! Buffers for responses, shared by all connections: an idle connection owns none.

use parking_lot::Mutex;

/// How many buffers are kept of each kind, and how large one may be to be worth keeping: a READ of 1 MiB.
const KEPT: usize = 32;
const KEPT_BYTES: usize = 1024 * 1024 + 4096;
/// A frame of this length held data: its bytes are kept as they are, for data to be read over them.
const LARGE: usize = 32 * 1024;

/// Buffers that nobody uses at the moment.
#[derive(Default)]
pub(crate) struct Buffers {
    small: Mutex<Vec<Vec<u8>>>,
    large: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// An empty buffer, its room perhaps from an earlier frame.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.small.lock().pop().unwrap_or_default()
    }

    /// A buffer of `length` bytes that begins with those of `head`; what the others are, nobody knows: whoever asks for
    /// them overwrites or cuts them off. To set a MiB to zero takes as long as to read it from the kernel's cache.
    pub(crate) fn stretch(&self, mut head: Vec<u8>, length: usize) -> Vec<u8> {
        let fitting = |large: &mut Vec<Vec<u8>>| {
            let all = large.iter().enumerate().filter(|(_, buffer)| buffer.len() >= length);
            let (index, _) = all.min_by_key(|(_, buffer)| buffer.len())?;
            Some(large.swap_remove(index))
        };
        let found = if length < LARGE { None } else { fitting(&mut self.large.lock()) };
        match found {
            Some(mut buffer) => {
                buffer.truncate(length);
                buffer[..head.len()].copy_from_slice(&head);
                self.put(head);
                buffer
            }
            None => {
                head.reserve_exact(length.saturating_sub(head.len()));
                head.resize(length, 0);
                head
            }
        }
    }

    /// Gives a buffer back.
    pub(crate) fn put(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() > KEPT_BYTES {
            return;
        }
        let kept = if buffer.len() < LARGE {
            buffer.clear();
            &self.small
        } else {
            &self.large
        };
        let mut kept = kept.lock();
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_used_again_behind_the_head() {
        let buffers = Buffers::default();
        buffers.put(vec![7; 2 * LARGE]);
        buffers.put(vec![8; LARGE]);
        let stretched = buffers.stretch(vec![1, 2, 3], LARGE);
        assert_eq!((stretched.len(), &stretched[..4]), (LARGE, &[1, 2, 3, 8][..]), "the one that fits best");
        let stretched = buffers.stretch(vec![1, 2, 3], LARGE + 1);
        assert_eq!((stretched.len(), &stretched[..4]), (LARGE + 1, &[1, 2, 3, 7][..]));
        let stretched = buffers.stretch(vec![1, 2, 3], LARGE);
        assert_eq!((stretched.len(), &stretched[..4]), (LARGE, &[1, 2, 3, 0][..]), "none is left");
    }

    #[test]
    fn what_was_said_is_not_said_again() {
        let buffers = Buffers::default();
        buffers.put(vec![9; 100]);
        assert_eq!(buffers.take(), b"");
        let small = buffers.stretch(vec![1], 100);
        assert_eq!((small[0], &small[1..]), (1, &[0; 99][..]));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let buffers = Buffers::default();
        buffers.put(vec![0; KEPT_BYTES + 1]);
        assert_eq!(buffers.large.lock().len(), 0, "too large");
        (0..KEPT + 5).for_each(|_| buffers.put(vec![0; LARGE]));
        assert_eq!(buffers.large.lock().len(), KEPT);
    }
}
