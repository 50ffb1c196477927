//! File attributes ([MS-FSCC] 2.6) and reparse tags ([MS-FSCC] 2.1.2.1).

use crate::flags::flags;
use crate::values::values;

flags! {
    /// The attributes of a file or directory.
    pub struct FileAttributes(u32) {
        /// Cannot be written or deleted.
        READONLY = 0x0000_0001;
        /// Not shown in an ordinary listing.
        HIDDEN = 0x0000_0002;
        /// Belongs to the operating system.
        SYSTEM = 0x0000_0004;
        /// A directory.
        DIRECTORY = 0x0000_0010;
        /// To be archived.
        ARCHIVE = 0x0000_0020;
        /// No other attribute is set; only valid alone.
        NORMAL = 0x0000_0080;
        /// Holds temporary data.
        TEMPORARY = 0x0000_0100;
        /// Sparse.
        SPARSE_FILE = 0x0000_0200;
        /// Has a reparse point, or is a symbolic link.
        REPARSE_POINT = 0x0000_0400;
        /// Stored compressed.
        COMPRESSED = 0x0000_0800;
        /// The data is not immediately available.
        OFFLINE = 0x0000_1000;
        /// Not to be indexed.
        NOT_CONTENT_INDEXED = 0x0000_2000;
        /// Stored encrypted.
        ENCRYPTED = 0x0000_4000;
        /// Has an integrity stream.
        INTEGRITY_STREAM = 0x0000_8000;
        /// Skipped by the integrity scanner.
        NO_SCRUB_DATA = 0x0002_0000;
        /// Opening it fetches it from remote storage.
        RECALL_ON_OPEN = 0x0004_0000;
        /// To be kept in local storage.
        PINNED = 0x0008_0000;
        /// Need not be kept in local storage.
        UNPINNED = 0x0010_0000;
        /// Reading it fetches it from remote storage.
        RECALL_ON_DATA_ACCESS = 0x0040_0000;
    }
}

values! {
    /// The owner of a reparse point, which determines the format of its data.
    pub struct ReparseTag(u32) {
        /// Not a reparse point.
        NONE = 0x0000_0000;
        /// IO_REPARSE_TAG_MOUNT_POINT.
        MOUNT_POINT = 0xa000_0003;
        /// IO_REPARSE_TAG_HSM.
        HSM = 0xc000_0004;
        /// IO_REPARSE_TAG_DRIVE_EXTENDER.
        DRIVE_EXTENDER = 0x8000_0005;
        /// IO_REPARSE_TAG_HSM2.
        HSM2 = 0x8000_0006;
        /// IO_REPARSE_TAG_SIS.
        SIS = 0x8000_0007;
        /// IO_REPARSE_TAG_WIM.
        WIM = 0x8000_0008;
        /// IO_REPARSE_TAG_CSV.
        CSV = 0x8000_0009;
        /// IO_REPARSE_TAG_DFS.
        DFS = 0x8000_000a;
        /// IO_REPARSE_TAG_FILTER_MANAGER.
        FILTER_MANAGER = 0x8000_000b;
        /// IO_REPARSE_TAG_SYMLINK.
        SYMLINK = 0xa000_000c;
        /// IO_REPARSE_TAG_IIS_CACHE.
        IIS_CACHE = 0xa000_0010;
        /// IO_REPARSE_TAG_DFSR.
        DFSR = 0x8000_0012;
        /// IO_REPARSE_TAG_DEDUP.
        DEDUP = 0x8000_0013;
        /// IO_REPARSE_TAG_APPXSTRM.
        APPXSTRM = 0xc000_0014;
        /// IO_REPARSE_TAG_NFS.
        NFS = 0x8000_0014;
        /// IO_REPARSE_TAG_FILE_PLACEHOLDER.
        FILE_PLACEHOLDER = 0x8000_0015;
        /// IO_REPARSE_TAG_DFM.
        DFM = 0x8000_0016;
        /// IO_REPARSE_TAG_WOF.
        WOF = 0x8000_0017;
        /// IO_REPARSE_TAG_WCI.
        WCI = 0x8000_0018;
        /// IO_REPARSE_TAG_WCI_1.
        WCI_1 = 0x9000_1018;
        /// IO_REPARSE_TAG_GLOBAL_REPARSE.
        GLOBAL_REPARSE = 0xa000_0019;
        /// IO_REPARSE_TAG_CLOUD.
        CLOUD = 0x9000_001a;
        /// IO_REPARSE_TAG_CLOUD_1.
        CLOUD_1 = 0x9000_101a;
        /// IO_REPARSE_TAG_CLOUD_2.
        CLOUD_2 = 0x9000_201a;
        /// IO_REPARSE_TAG_CLOUD_3.
        CLOUD_3 = 0x9000_301a;
        /// IO_REPARSE_TAG_CLOUD_4.
        CLOUD_4 = 0x9000_401a;
        /// IO_REPARSE_TAG_CLOUD_5.
        CLOUD_5 = 0x9000_501a;
        /// IO_REPARSE_TAG_CLOUD_6.
        CLOUD_6 = 0x9000_601a;
        /// IO_REPARSE_TAG_CLOUD_7.
        CLOUD_7 = 0x9000_701a;
        /// IO_REPARSE_TAG_CLOUD_8.
        CLOUD_8 = 0x9000_801a;
        /// IO_REPARSE_TAG_CLOUD_9.
        CLOUD_9 = 0x9000_901a;
        /// IO_REPARSE_TAG_CLOUD_A.
        CLOUD_A = 0x9000_a01a;
        /// IO_REPARSE_TAG_CLOUD_B.
        CLOUD_B = 0x9000_b01a;
        /// IO_REPARSE_TAG_CLOUD_C.
        CLOUD_C = 0x9000_c01a;
        /// IO_REPARSE_TAG_CLOUD_D.
        CLOUD_D = 0x9000_d01a;
        /// IO_REPARSE_TAG_CLOUD_E.
        CLOUD_E = 0x9000_e01a;
        /// IO_REPARSE_TAG_CLOUD_F.
        CLOUD_F = 0x9000_f01a;
        /// IO_REPARSE_TAG_APPEXECLINK.
        APPEXECLINK = 0x8000_001b;
        /// IO_REPARSE_TAG_PROJFS.
        PROJFS = 0x9000_001c;
        /// IO_REPARSE_TAG_LX_SYMLINK.
        LX_SYMLINK = 0xa000_001d;
        /// IO_REPARSE_TAG_STORAGE_SYNC.
        STORAGE_SYNC = 0x8000_001e;
        /// IO_REPARSE_TAG_STORAGE_SYNC_FOLDER.
        STORAGE_SYNC_FOLDER = 0x9000_0027;
        /// IO_REPARSE_TAG_WCI_TOMBSTONE.
        WCI_TOMBSTONE = 0xa000_001f;
        /// IO_REPARSE_TAG_UNHANDLED.
        UNHANDLED = 0x8000_0020;
        /// IO_REPARSE_TAG_ONEDRIVE.
        ONEDRIVE = 0x8000_0021;
        /// IO_REPARSE_TAG_PROJFS_TOMBSTONE.
        PROJFS_TOMBSTONE = 0xa000_0022;
        /// IO_REPARSE_TAG_AF_UNIX.
        AF_UNIX = 0x8000_0023;
        /// IO_REPARSE_TAG_LX_FIFO.
        LX_FIFO = 0x8000_0024;
        /// IO_REPARSE_TAG_LX_CHR.
        LX_CHR = 0x8000_0025;
        /// IO_REPARSE_TAG_LX_BLK.
        LX_BLK = 0x8000_0026;
        /// IO_REPARSE_TAG_WCI_LINK.
        WCI_LINK = 0xa000_0027;
        /// IO_REPARSE_TAG_WCI_LINK_1.
        WCI_LINK_1 = 0xa000_1027;
    }
}

impl ReparseTag {
    /// Returns whether the tag is one of Microsoft's, whose data has no GUID in front ([MS-FSCC] 2.1.2.2).
    pub const fn is_microsoft(self) -> bool {
        self.0 >> 31 != 0
    }

    /// Returns whether the reparse point represents another named object, as a link does.
    pub const fn is_name_surrogate(self) -> bool {
        self.0 >> 29 & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bits() {
        assert_eq!(format!("{:?}", FileAttributes(0x30)), "DIRECTORY|ARCHIVE");
        assert_eq!(format!("{:?} {:?}", ReparseTag::SYMLINK, ReparseTag(7)), "SYMLINK 0x7");
        for (tag, microsoft, surrogate) in [
            (ReparseTag::SYMLINK, true, true),
            (ReparseTag::MOUNT_POINT, true, true),
            (ReparseTag::NFS, true, false),
            (ReparseTag(0x0000_0123), false, false),
        ] {
            assert_eq!((tag.is_microsoft(), tag.is_name_surrogate()), (microsoft, surrogate), "{tag:?}");
        }
    }
}
