//! The number by which clients know a file.

use super::Metadata;

impl Metadata {
    /// The 64-bit file ID that clients are given ([MS-FSCC] 2.4.26 and 2.4.27, [MS-SMB2] 2.2.14.2.9): the inode number, and above it bits
    /// of the file's birth time, as NTFS has a sequence number there. Two files that exist have different ones, a file
    /// keeps its own, and one that is made later with the same inode number has another, unless both were made in one tick
    /// of the file system's clock. Where the file system says no birth time, or uses all 64 bits, it is the inode number.
    pub fn file_id(&self) -> u64 {
        /// The form for inode numbers of more than 32 bits.
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
