//! The number that identifies a file to clients.

use super::Metadata;

impl Metadata {
    /// Returns the 64-bit file ID that clients are given ([MS-FSCC] 2.4.26 and 2.4.27, [MS-SMB2] 2.2.14.2.9). The low
    /// bits are the inode number and the high bits are derived from the birth time, where NTFS has a sequence number.
    /// The ID of a file never changes, and existing files have different IDs. A file that reuses an inode number gets a
    /// different ID unless both files have the same birth time. If the file system does not report birth times, or uses
    /// all 64 bits, the ID is the inode number.
    pub fn file_id(&self) -> u64 {
        /// Marks the form for inode numbers of more than 32 bits.
        const LONG: u64 = 1 << 63;
        let inode = self.id.inode;
        let Some(born) = self.born else { return inode };
        let mut mixed = (born.secs as u64).wrapping_mul(1_000_000_000).wrapping_add(born.nanos.into());
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        match inode {
            0..=0xffff_ffff => inode | (mixed >> 33) << 32,
            0x1_0000_0000..=0xffff_ffff_ffff => inode | (mixed >> 49) << 48 | LONG,
            _ => inode,
        }
    }
}
