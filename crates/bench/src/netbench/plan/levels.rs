//! Information levels of SMB 1's TRANS2, and the classes of [MS-FSCC] with the same data.
//!
//! | level | files | file systems | directories |
//! |---|---|---|---|
//! | 1 | NetworkOpen: times, sizes, attributes | Size | Directory |
//! | 2 | All: those and the size of the EAs | Volume | FullDirectory |
//! | 0x101 | Basic | | Directory |
//! | 0x102 | Standard | Volume | FullDirectory |
//! | 0x103 | Ea | Size | Names |
//! | 0x104 | All: includes the name | Device | BothDirectory |
//! | 0x105 | | Attribute | IdFullDirectory |
//! | 0x106 | | | IdBothDirectory |
//! | 0x107 | All | | |
//! | 0x108, 0x109, 0x10b | AlternateName, Stream, Compression | | |
//! | 1000 + n | class n | class n | class n |

use proto::fscc::{FileInformationClass as File, FsInformationClass as Fs};

/// First of the levels that are classes (the pass-through levels).
const CLASSES: u16 = 1000;

/// Buffer size for responses without a fixed size, in bytes.
const ROOM: u32 = 4096;

fn class_in(level: u16) -> Option<u8> {
    level.checked_sub(CLASSES).and_then(|class| u8::try_from(class).ok()).filter(|class| *class > 0)
}

/// Returns the file class for a level of `QUERY_PATH_INFORMATION` and `QUERY_FILE_INFORMATION`, and the size of its
/// response.
pub fn file(level: u16) -> Option<(File, u32)> {
    let class = match level {
        1 => File::NETWORK_OPEN,
        2 | 0x104 | 0x107 => File::ALL,
        0x101 => File::BASIC,
        0x102 => File::STANDARD,
        0x103 => File::EA,
        0x108 => File::ALTERNATE_NAME,
        0x109 => File::STREAM,
        0x10b => File::COMPRESSION,
        _ => File(class_in(level)?),
    };
    let space = match class {
        File::BASIC => 40,
        File::STANDARD => 24,
        File::INTERNAL | File::POSITION | File::ATTRIBUTE_TAG => 8,
        File::EA | File::ACCESS | File::MODE | File::ALIGNMENT => 4,
        File::NETWORK_OPEN => 56,
        File::COMPRESSION => 16,
        _ => ROOM,
    };
    Some((class, space))
}

/// Returns the file system class for a level of `QUERY_FS_INFORMATION`, and the size of its response.
pub fn file_system(level: u16) -> Option<(Fs, u32)> {
    let class = match level {
        1 | 0x103 => Fs::SIZE,
        2 | 0x102 => Fs::VOLUME,
        0x104 => Fs::DEVICE,
        0x105 => Fs::ATTRIBUTE,
        _ => Fs(class_in(level)?),
    };
    let space = match class {
        Fs::SIZE => 24,
        Fs::DEVICE => 8,
        Fs::FULL_SIZE => 32,
        _ => ROOM,
    };
    Some((class, space))
}

/// Returns the directory class for a level of `FIND_FIRST`.
pub fn directory(level: u16) -> Option<File> {
    Some(match level {
        1 | 0x101 => File::DIRECTORY,
        2 | 0x102 => File::FULL_DIRECTORY,
        0x103 => File::NAMES,
        0x104 => File::BOTH_DIRECTORY,
        0x105 => File::ID_FULL_DIRECTORY,
        0x106 => File::ID_BOTH_DIRECTORY,
        _ => File(class_in(level)?),
    })
}

/// Returns whether a level of `SET_FILE_INFORMATION` sets times and attributes.
pub fn sets_basic(level: u16) -> bool {
    matches!(level, 1 | 0x101) || class_in(level) == Some(File::BASIC.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_the_recorded_run_are_mapped() {
        assert_eq!(file(258), Some((File::STANDARD, 24)));
        assert_eq!(file(1004), Some((File::BASIC, 40)));
        assert_eq!(file(1005), Some((File::STANDARD, 24)));
        assert_eq!(file(1035), Some((File::ATTRIBUTE_TAG, 8)));
        assert_eq!(file_system(1), Some((Fs::SIZE, 24)));
        assert_eq!(file_system(259), Some((Fs::SIZE, 24)));
        assert_eq!(directory(260), Some(File::BOTH_DIRECTORY));
        assert!(sets_basic(1004) && !sets_basic(1020));
    }

    #[test]
    fn unknown_levels_are_refused() {
        for level in [0, 3, 0x100, 0x10c, 999, 1000, 1256] {
            assert_eq!((file(level), file_system(level), directory(level)), (None, None, None), "{level}");
        }
    }
}
