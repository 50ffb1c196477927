//! Repeatable random choices: the same seed gives the same requests on every machine.
//!
//! The generator is SplitMix64 (Steele, Lea, Flood 2014). It is for load, never for secrets.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator from `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an exponentially distributed number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Mixes the bits of a number so that it looks random.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Recognizable file content: every 16 bytes are derived from the file's number and their offset, so a block that is
/// wrong, stale, shifted or from another file is detected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// The number of the file.
    pub file: u64,
}

/// Selects how much of the content is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Every byte.
    Every,
    /// One line of 16 bytes in every 4 KiB: enough to detect a wrong page, and almost free.
    Pages,
}

impl Content {
    const LINE: u64 = 16;
    const PAGE: u64 = 4096;

    fn line(self, number: u64) -> [u8; 16] {
        let first = self.file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
        // One half contains the position in plain form, the other half is spread over all bits.
        let mut line = [0; 16];
        line[..8].copy_from_slice(&first.to_le_bytes());
        line[8..].copy_from_slice(&first.wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29).to_le_bytes());
        line
    }

    /// Fills `out` with the content at `offset`.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        // Fast path: almost all buffers begin and end at a line.
        if let (0, (lines, [])) = (offset % Self::LINE, out.as_chunks_mut::<16>()) {
            for (number, line) in (offset / Self::LINE..).zip(lines) {
                *line = self.line(number);
            }
            return;
        }
        self.for_each_line(offset, out.len(), Self::LINE, |range, line| out[range].copy_from_slice(line));
    }

    /// Returns the first offset at which `data`, read at `offset`, is wrong.
    pub fn wrong_at(self, offset: u64, data: &[u8], look: Look) -> Option<u64> {
        let step = if look == Look::Every { Self::LINE } else { Self::PAGE };
        let mut wrong = None;
        self.for_each_line(offset, data.len(), step, |range, line| {
            if wrong.is_none() && data[range.clone()] != *line {
                wrong = Some(offset + range.start as u64);
            }
        });
        wrong
    }

    /// Calls `each` with the parts of lines in the range, every `step` bytes from its beginning.
    fn for_each_line(self, offset: u64, length: usize, step: u64, mut each: impl FnMut(std::ops::Range<usize>, &[u8])) {
        let end = offset + length as u64;
        let mut at = offset;
        while at < end {
            let number = at / Self::LINE;
            let line_end = ((number + 1) * Self::LINE).min(end);
            let within = (at % Self::LINE) as usize;
            let line = self.line(number);
            each(
                (at - offset) as usize..(line_end - offset) as usize,
                &line[within..within + (line_end - at) as usize],
            );
            at = (at / step + 1) * step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_does_not_depend_on_the_size_of_pieces() {
        let content = Content { file: 3 };
        let mut whole = vec![0; 10_000];
        content.fill(100, &mut whole);
        for (start, end) in [(0, 1), (1, 17), (5, 4096), (9_990, 10_000)] {
            let mut piece = vec![0; end - start];
            content.fill(100 + start as u64, &mut piece);
            assert_eq!(piece, whole[start..end], "{start}..{end}");
        }
        assert_eq!(content.wrong_at(100, &whole, Look::Every), None);
        assert_eq!(content.wrong_at(100, &whole, Look::Pages), None);
    }

    #[test]
    fn wrong_content_is_found() {
        let content = Content { file: 3 };
        let mut data = vec![0; 16_384];
        content.fill(0, &mut data);
        assert_eq!(content.wrong_at(4096, &data, Look::Pages), Some(4096), "shifted by a page");
        assert_eq!(Content { file: 4 }.wrong_at(0, &data, Look::Pages), Some(0), "of another file");
        data[9001] ^= 1;
        assert_eq!(content.wrong_at(0, &data, Look::Every), Some(8992), "one bit");
        data[8192..12_288].fill(0);
        assert_eq!(content.wrong_at(0, &data, Look::Pages), Some(8192), "a lost page");
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            let mut order: Vec<u64> = (0..20).collect();
            random.shuffle(&mut order);
            (order, random.below(10), random.bits())
        };
        assert_eq!(numbers(5), numbers(5));
        assert_ne!(numbers(5), numbers(6));
        assert!((0..1000).all(|seed| Random::new(seed).below(7) < 7));
    }
}
