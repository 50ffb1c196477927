//! A cache of file attributes, shared by all volumes: a table of fixed maximum size whose parts are allocated when
//! needed.
//!
//! Files are stored by inode number. The inodes of a directory were usually created in sequence and are adjacent in the
//! table, so that a few files take a few kilobytes and a listing accesses the table sequentially. If a set of slots is
//! full, the least recently used file of the set is replaced.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use server::vfs::xattr::{ChangeTime, DosAttributes};
use server::vfs::{FileId, Time};

/// Slots in a set, all of which are searched for a file.
const WAYS: usize = 4;
/// Sets in a chunk, which is allocated as a whole: 14 KiB.
const SETS: usize = 64;
/// Chunks of the process's table: slots for 131,072 files, 7 MiB once all of them are allocated.
const CHUNKS: usize = 512;

/// The table of this process.
static PROCESS: LazyLock<Arc<AttributeTable>> = LazyLock::new(|| Arc::new(AttributeTable::new(CHUNKS)));

/// A table of attributes.
pub struct AttributeTable {
    chunks: Box<[Mutex<Option<Box<Chunk>>>]>,
}

type Chunk = [[Slot; WAYS]; SETS];

/// The entry of one file. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Default)]
struct Slot {
    device: u64,
    inode: u64,
    stamped: i64,
    created: i64,
    changed: i64,
    modified: i64,
    attributes: u32,
    has: u8,
}

/// Bits of [`Slot::has`]: the slot is in use, and the file has the respective attributes.
const FILE: u8 = 1;
const ATTRIBUTES: u8 = 2;
const CREATED: u8 = 4;
const CHANGED: u8 = 8;
/// It is known to have no security descriptor.
const NO_DESCRIPTOR: u8 = 16;
/// At the last look it had neither a security descriptor nor attributes.
const EMPTY: u8 = 32;

impl AttributeTable {
    /// Returns the table common to all volumes.
    pub fn of_process() -> Arc<AttributeTable> {
        PROCESS.clone()
    }

    /// Creates a table of at most `chunks` chunks, each of which has slots for 256 files in 14 KiB.
    pub fn new(chunks: usize) -> AttributeTable {
        AttributeTable { chunks: (0..chunks).map(|_| Mutex::new(None)).collect() }
    }

    /// Returns the attributes of `file` if they were read after its last change at `stamped`, and whether it is known
    /// to have no security descriptor.
    pub fn get(&self, file: FileId, stamped: Time) -> Option<(DosAttributes, bool)> {
        let (chunk, set) = self.location(file);
        let mut chunk = chunk.lock();
        let set = &mut chunk.as_mut()?[set];
        let way = set.iter().position(|slot| slot.is_of(file))?;
        let found = set[way].attributes_of(stamped)?;
        let no_descriptor = set[way].has & NO_DESCRIPTOR != 0;
        set[..=way].rotate_right(1);
        Some((found, no_descriptor))
    }

    /// Returns whether `file` had neither attributes nor a security descriptor at the last look, in which case it
    /// usually still has none. `None` if nothing is cached for it.
    pub fn was_empty(&self, file: FileId) -> Option<bool> {
        let (chunk, set) = self.location(file);
        let chunk = chunk.lock();
        let slot = chunk.as_ref()?[set].iter().find(|slot| slot.is_of(file))?;
        Some(slot.has & EMPTY != 0)
    }

    /// Records that `file` is no longer empty.
    pub fn note_filled(&self, file: FileId) {
        let (chunk, set) = self.location(file);
        let mut chunk = chunk.lock();
        let slots = chunk.iter_mut().flat_map(|chunk| chunk[set].iter_mut());
        slots.filter(|slot| slot.is_of(file)).for_each(|slot| slot.has &= !EMPTY);
    }

    /// Records that `file` had no security descriptor after its last change at `stamped`, if its attributes of that
    /// time are cached. Returns whether it has no attributes either.
    pub fn note_no_descriptor(&self, file: FileId, stamped: Time) -> bool {
        let (chunk, set) = self.location(file);
        let mut chunk = chunk.lock();
        let mut slots = chunk.iter_mut().flat_map(|chunk| chunk[set].iter_mut());
        let is_it = |slot: &&mut Slot| slot.is_of(file) && nanos(stamped) == Some(slot.stamped);
        let Some(slot) = slots.find(is_it) else { return false };
        let is_empty = slot.has & (ATTRIBUTES | CREATED | CHANGED) == 0;
        slot.has |= if is_empty { NO_DESCRIPTOR | EMPTY } else { NO_DESCRIPTOR };
        is_empty
    }

    /// Caches the attributes of `file`, which last changed at `stamped`. Times more than 292 years from 1970 are not
    /// cached.
    pub fn put(&self, file: FileId, stamped: Time, attributes: DosAttributes) {
        let Some(new) = Slot::of(file, stamped, attributes) else { return };
        let (chunk, set) = self.location(file);
        let mut chunk = chunk.lock();
        let set = &mut chunk.get_or_insert_with(|| Box::new([[Slot::default(); WAYS]; SETS]))[set];
        let way = set.iter().position(|slot| slot.is_of(file)).unwrap_or(WAYS - 1);
        let has_attributes = new.has & (ATTRIBUTES | CREATED | CHANGED) != 0;
        let was_empty = set[way].is_of(file) && !has_attributes && set[way].has & EMPTY != 0;
        set[..=way].rotate_right(1);
        set[0] = new;
        set[0].has |= if was_empty { EMPTY } else { 0 };
    }

    /// Removes a deleted file.
    pub fn forget(&self, file: FileId) {
        let (chunk, set) = self.location(file);
        if let Some(chunk) = chunk.lock().as_mut() {
            chunk[set].iter_mut().filter(|slot| slot.is_of(file)).for_each(|slot| *slot = Slot::default());
        }
    }

    /// Returns whether anything is cached for the file.
    pub fn contains(&self, file: FileId) -> bool {
        let (chunk, set) = self.location(file);
        chunk.lock().as_ref().is_some_and(|chunk| chunk[set].iter().any(|slot| slot.is_of(file)))
    }

    /// Returns the chunk of a file and the set in it. Consecutive inodes are in consecutive sets. Distant inodes, and
    /// those of other devices, are anywhere.
    fn location(&self, file: FileId) -> (&Mutex<Option<Box<Chunk>>>, usize) {
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let block = file.inode / SETS as u64;
        let far = ((block / CHUNKS as u64) ^ file.device.rotate_left(32)).wrapping_mul(SPREAD) >> 32;
        // Without the shift, file systems that skip numbers (for example every other one) would leave sets unused.
        let shift = block.wrapping_mul(SPREAD) >> 32;
        let chunk = block.wrapping_add(far) % self.chunks.len() as u64;
        (&self.chunks[chunk as usize], (file.inode ^ shift) as usize % SETS)
    }
}

impl Slot {
    fn of(file: FileId, stamped: Time, attributes: DosAttributes) -> Option<Slot> {
        let DosAttributes { attributes, created, changed } = attributes;
        let bit = |has: bool, bit: u8| if has { bit } else { 0 };
        Some(Slot {
            device: file.device,
            inode: file.inode,
            stamped: nanos(stamped)?,
            created: created.map_or(Some(0), nanos)?,
            changed: changed.map_or(Some(0), |set| nanos(set.time))?,
            modified: changed.map_or(Some(0), |set| nanos(set.modified))?,
            attributes: attributes.unwrap_or_default(),
            has: FILE
                | bit(attributes.is_some(), ATTRIBUTES)
                | bit(created.is_some(), CREATED)
                | bit(changed.is_some(), CHANGED),
        })
    }

    fn is_of(&self, file: FileId) -> bool {
        (self.inode, self.device) == (file.inode, file.device) && self.has & FILE != 0
    }

    fn attributes_of(&self, stamped: Time) -> Option<DosAttributes> {
        let changed = ChangeTime { time: time(self.changed), modified: time(self.modified) };
        (nanos(stamped) == Some(self.stamped)).then(|| DosAttributes {
            attributes: (self.has & ATTRIBUTES != 0).then_some(self.attributes),
            created: (self.has & CREATED != 0).then(|| time(self.created)),
            changed: (self.has & CHANGED != 0).then_some(changed),
        })
    }
}

const SECOND: i64 = 1_000_000_000;

fn nanos(time: Time) -> Option<i64> {
    time.secs.checked_mul(SECOND)?.checked_add(i64::from(time.nanos))
}

fn time(nanos: i64) -> Time {
    Time { secs: nanos.div_euclid(SECOND), nanos: nanos.rem_euclid(SECOND) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPED: Time = Time { secs: 1, nanos: 1 };

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode, stream: 0 }
    }

    fn attributes(bits: u32) -> DosAttributes {
        DosAttributes { attributes: Some(bits), ..DosAttributes::default() }
    }

    /// Returns the number of allocated chunks of `table`.
    fn chunks(table: &AttributeTable) -> usize {
        table.chunks.iter().filter(|chunk| chunk.lock().is_some()).count()
    }

    #[test]
    fn cached_attributes_are_returned_unchanged() {
        let at = |secs, nanos| Time { secs, nanos };
        let set = ChangeTime { time: at(7, 1), modified: at(-8, 2) };
        let table = AttributeTable::new(2);
        for (inode, stored) in [
            DosAttributes::default(),
            attributes(0),
            attributes(u32::MAX),
            DosAttributes { created: Some(at(0, 0)), ..DosAttributes::default() },
            DosAttributes { created: Some(at(-1, 999_999_999)), changed: Some(set), attributes: Some(0x22) },
        ]
        .into_iter()
        .enumerate()
        {
            // Zero is an inode number like any other here.
            let file = file(inode as u64);
            assert_eq!(table.get(file, STAMPED), None);
            table.put(file, STAMPED, stored);
            assert_eq!(table.get(file, STAMPED), Some((stored, false)));
            assert_eq!(table.get(file, at(1, 2)), None, "the entry is outdated");
            assert_eq!(table.get(FileId { device: 2, ..file }, STAMPED), None);
        }
        table.forget(file(0));
        assert!(!table.contains(file(0)) && table.contains(file(1)));
        let far = DosAttributes { created: Some(at(i64::MAX, 0)), ..DosAttributes::default() };
        table.put(file(0), STAMPED, far);
        assert_eq!(table.get(file(0), STAMPED), None, "the time does not fit the entry");
        table.put(file(1), at(2, 2), attributes(5));
        assert_eq!((table.get(file(1), STAMPED), table.get(file(1), at(2, 2))), (None, Some((attributes(5), false))));
    }

    #[test]
    fn a_file_is_known_to_have_no_descriptor_until_it_changes() {
        let (table, later) = (AttributeTable::new(1), Time { secs: 1, nanos: 2 });
        let no_descriptor = |stamped| table.get(file(1), stamped).map(|(_, known)| known);
        table.note_no_descriptor(file(1), STAMPED);
        assert_eq!(no_descriptor(STAMPED), None, "nothing is cached");
        table.put(file(1), STAMPED, attributes(7));
        table.note_no_descriptor(file(1), later);
        table.note_no_descriptor(file(2), STAMPED);
        assert_eq!(no_descriptor(STAMPED), Some(false), "another change time is another state");
        table.note_no_descriptor(file(1), STAMPED);
        assert_eq!(table.get(file(1), STAMPED), Some((attributes(7), true)));
        table.put(file(1), later, attributes(7));
        assert_eq!(no_descriptor(later), Some(false));
    }

    #[test]
    fn a_file_was_empty_until_it_has_attributes() {
        let (table, later) = (AttributeTable::new(1), Time { secs: 1, nanos: 2 });
        table.put(file(1), STAMPED, DosAttributes::default());
        assert_eq!(table.was_empty(file(1)), Some(false), "the descriptor was not looked up");
        assert!(table.note_no_descriptor(file(1), STAMPED) && !table.note_no_descriptor(file(2), STAMPED));
        assert_eq!((table.was_empty(file(1)), table.was_empty(file(2))), (Some(true), None));
        table.put(file(1), later, DosAttributes::default());
        assert_eq!(table.was_empty(file(1)), Some(true), "the file changed and still has no descriptor");
        table.note_filled(file(1));
        assert_eq!(table.was_empty(file(1)), Some(false), "the file has a descriptor");
        table.put(file(1), STAMPED, attributes(7));
        assert!(!table.note_no_descriptor(file(1), STAMPED));
        assert_eq!(table.was_empty(file(1)), Some(false));
    }

    #[test]
    fn entries_in_use_stay_cached() {
        let table = AttributeTable::new(1);
        for inode in 0..10_000 {
            table.put(file(inode), STAMPED, attributes(inode as u32));
            assert_eq!(table.get(file(0), STAMPED), Some((attributes(0), false)), "after {inode} was added");
        }
        let left = (0..10_000).filter(|&inode| table.contains(file(inode))).count();
        assert_eq!(left, WAYS * SETS);
    }

    #[test]
    fn files_created_in_sequence_do_not_evict_each_other() {
        for step in [1, 2, 32] {
            for begin in [128, 3 << 32] {
                let table = AttributeTable::new(CHUNKS);
                let files = || (0..100_000).map(|number| file(begin + number * step));
                let few = 1_000;
                files().take(few).for_each(|file| table.put(file, STAMPED, DosAttributes::default()));
                assert!(chunks(&table) <= few * step as usize / SETS + 2, "{} for {step}", chunks(&table));
                files().for_each(|file| table.put(file, STAMPED, DosAttributes::default()));
                let left = files().filter(|&file| table.contains(file)).count();
                assert!(left >= if step == 1 { 100_000 } else { 60_000 }, "{left} at each {step} from {begin}");
            }
        }
    }

    #[test]
    fn the_table_has_the_documented_size() {
        assert_eq!((size_of::<Chunk>(), size_of::<Chunk>() * CHUNKS), (14 << 10, 7 << 20));
    }
}
