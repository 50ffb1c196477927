//! The custom-marshaled INFO structures ([MS-RPRN] 2.2.2): fixed parts from the start of the client's buffer, texts and
//! other data from its end towards the start. Offsets count from the start of the structure that has them.

use crate::calendar;

/// A point in time: SYSTEMTIME ([MS-DTYP] 2.3.13), in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemTime([u16; 8]);

impl SystemTime {
    /// Returns the time that is this number of seconds after 1970.
    pub fn from_unix(seconds: i64) -> SystemTime {
        let (days, seconds) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = calendar::date(days);
        // 1970 began with a Thursday.
        let weekday = (days + 4).rem_euclid(7);
        let parts = [year, month, weekday, day, seconds / 3600, seconds / 60 % 60, seconds % 60, 0];
        SystemTime(parts.map(|part| u16::try_from(part).unwrap_or(0)))
    }
}

/// Structures in a buffer of a client. Those that do not fit are only counted.
pub struct Infos {
    buffer: Vec<u8>,
    /// The end of the fixed parts, and the start of the structure that is being written.
    front: usize,
    start: usize,
    /// The bytes that data takes at the end.
    back: usize,
    count: u32,
}

impl Infos {
    /// Creates an empty buffer of `size` bytes, which the caller has charged.
    pub fn new(size: u32) -> Infos {
        Infos { buffer: vec![0; size as usize], front: 0, start: 0, back: 0, count: 0 }
    }

    /// Begins a structure.
    pub fn begin(&mut self) {
        self.start = self.front;
        self.count += 1;
    }

    fn put(&mut self, at: Option<usize>, bytes: &[u8]) {
        let end = at.and_then(|at| at.checked_add(bytes.len()));
        if let (Some(at), Some(end)) = (at, end)
            && let Some(place) = self.buffer.get_mut(at..end)
        {
            place.copy_from_slice(bytes);
        }
    }

    /// Writes numbers of the fixed part.
    pub fn numbers(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.put(Some(self.front), &number.to_le_bytes());
            self.front += 4;
        }
    }

    /// Writes a number of 16 bits.
    pub fn short(&mut self, number: u16) {
        self.put(Some(self.front), &number.to_le_bytes());
        self.front += 2;
    }

    /// Writes a time.
    pub fn time(&mut self, time: SystemTime) {
        time.0.iter().for_each(|part| self.short(*part));
    }

    /// Writes a text and its offset.
    pub fn text(&mut self, text: &str) {
        let bytes: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        self.data(&bytes, 2);
    }

    /// Writes a text and its offset, or a null pointer for an empty text.
    pub fn optional_text(&mut self, text: &str) {
        if text.is_empty() { self.numbers(&[0]) } else { self.text(text) }
    }

    /// Writes a text without an offset, which is all that is returned.
    pub fn whole_text(&mut self, text: &str) {
        text.encode_utf16().chain([0]).for_each(|unit| self.short(unit));
    }

    /// Writes data that begins at a multiple of four, and its offset.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.data(bytes, 4);
    }

    fn data(&mut self, bytes: &[u8], alignment: usize) {
        // The last bytes of a buffer whose size is not a multiple of four are not used.
        let end = self.buffer.len() & !3;
        self.back = (self.back + bytes.len()).next_multiple_of(alignment);
        let at = end.checked_sub(self.back);
        self.put(at, bytes);
        self.numbers(&[at.and_then(|at| u32::try_from(at.checked_sub(self.start)?).ok()).unwrap_or(0)]);
    }

    /// Returns the bytes that all structures need.
    pub fn needed(&self) -> u32 {
        u32::try_from((self.front + self.back).next_multiple_of(4)).unwrap_or(u32::MAX)
    }

    /// Returns the number of structures.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the buffer; `None` if not everything fits.
    pub(super) fn into_buffer(self) -> Option<Vec<u8>> {
        (self.needed() as usize <= self.buffer.len()).then_some(self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(size: u32) -> Infos {
        let mut infos = Infos::new(size);
        for (number, text) in [(7, "ab"), (8, "c")] {
            infos.begin();
            infos.numbers(&[number]);
            infos.text(text);
            infos.bytes(&[1, 2, 3]);
        }
        infos
    }

    fn number(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
    }

    #[test]
    fn offsets_count_from_the_structure_and_data_is_at_the_end() {
        let needed = two(0).needed();
        // Two fixed parts, "ab\0" and three bytes up to 12, "c\0" and three bytes up to 8.
        assert_eq!((needed, two(0).count()), (24 + 12 + 8, 2));
        for size in [needed, needed + 1, needed + 50] {
            let bytes = two(size).into_buffer().expect("it fits");
            for (start, first, text) in [(0, 7, "a\0b\0\0\0"), (12, 8, "c\0\0\0")] {
                assert_eq!(number(&bytes, start), first);
                let at = start + number(&bytes, start + 4);
                assert_eq!(&bytes[at..at + text.len()], text.as_bytes());
                let at = start + number(&bytes, start + 8);
                assert_eq!((at % 4, &bytes[at..at + 3]), (0, &[1, 2, 3][..]));
            }
            let end = size as usize & !3;
            assert_eq!(number(&bytes, 4), end - 6, "the first text is the last thing");
        }
        assert_eq!(two(needed - 1).into_buffer(), None);
    }

    #[test]
    fn times_have_days_of_the_week() {
        assert_eq!(SystemTime::from_unix(0), SystemTime([1970, 1, 4, 1, 0, 0, 0, 0]));
        assert_eq!(SystemTime::from_unix(951_827_696), SystemTime([2000, 2, 2, 29, 12, 34, 56, 0]));
    }
}
