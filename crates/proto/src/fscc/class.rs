//! The numbers of information classes: of files ([MS-FSCC] 2.4) and of file systems ([MS-FSCC] 2.5). Constants have the
//! specification's names without `File`, `FileFs` and `Information`.

use crate::values::values;

values! {
    /// The structure that QUERY_INFO, SET_INFO or QUERY_DIRECTORY refers to ([MS-FSCC] 2.4).
    pub struct FileInformationClass(u8) {
        /// FileDirectoryInformation.
        DIRECTORY = 1;
        /// FileFullDirectoryInformation.
        FULL_DIRECTORY = 2;
        /// FileBothDirectoryInformation.
        BOTH_DIRECTORY = 3;
        /// FileBasicInformation.
        BASIC = 4;
        /// FileStandardInformation.
        STANDARD = 5;
        /// FileInternalInformation.
        INTERNAL = 6;
        /// FileEaInformation.
        EA = 7;
        /// FileAccessInformation.
        ACCESS = 8;
        /// FileNameInformation.
        NAME = 9;
        /// FileRenameInformation.
        RENAME = 10;
        /// FileLinkInformation.
        LINK = 11;
        /// FileNamesInformation.
        NAMES = 12;
        /// FileDispositionInformation.
        DISPOSITION = 13;
        /// FilePositionInformation.
        POSITION = 14;
        /// FileFullEaInformation.
        FULL_EA = 15;
        /// FileModeInformation.
        MODE = 16;
        /// FileAlignmentInformation.
        ALIGNMENT = 17;
        /// FileAllInformation.
        ALL = 18;
        /// FileAllocationInformation.
        ALLOCATION = 19;
        /// FileEndOfFileInformation.
        END_OF_FILE = 20;
        /// FileAlternateNameInformation.
        ALTERNATE_NAME = 21;
        /// FileStreamInformation.
        STREAM = 22;
        /// FilePipeInformation.
        PIPE = 23;
        /// FilePipeLocalInformation.
        PIPE_LOCAL = 24;
        /// FilePipeRemoteInformation.
        PIPE_REMOTE = 25;
        /// FileMailslotQueryInformation.
        MAILSLOT_QUERY = 26;
        /// FileMailslotSetInformation.
        MAILSLOT_SET = 27;
        /// FileCompressionInformation.
        COMPRESSION = 28;
        /// FileObjectIdInformation.
        OBJECT_ID = 29;
        /// FileMoveClusterInformation.
        MOVE_CLUSTER = 31;
        /// FileQuotaInformation.
        QUOTA = 32;
        /// FileReparsePointInformation.
        REPARSE_POINT = 33;
        /// FileNetworkOpenInformation.
        NETWORK_OPEN = 34;
        /// FileAttributeTagInformation.
        ATTRIBUTE_TAG = 35;
        /// FileTrackingInformation.
        TRACKING = 36;
        /// FileIdBothDirectoryInformation.
        ID_BOTH_DIRECTORY = 37;
        /// FileIdFullDirectoryInformation.
        ID_FULL_DIRECTORY = 38;
        /// FileValidDataLengthInformation.
        VALID_DATA_LENGTH = 39;
        /// FileShortNameInformation.
        SHORT_NAME = 40;
        /// FileSfioReserveInformation.
        SFIO_RESERVE = 44;
        /// FileSfioVolumeInformation.
        SFIO_VOLUME = 45;
        /// FileHardLinkInformation.
        HARD_LINK = 46;
        /// FileNormalizedNameInformation.
        NORMALIZED_NAME = 48;
        /// FileIdGlobalTxDirectoryInformation.
        ID_GLOBAL_TX_DIRECTORY = 50;
        /// FileStandardLinkInformation.
        STANDARD_LINK = 54;
        /// FileIdInformation.
        ID = 59;
        /// FileIdExtdDirectoryInformation.
        ID_EXTD_DIRECTORY = 60;
        /// FileDispositionInformationEx.
        DISPOSITION_EX = 64;
        /// FileRenameInformationEx.
        RENAME_EX = 65;
        /// FileId64ExtdDirectoryInformation.
        ID_64_EXTD_DIRECTORY = 78;
        /// FileId64ExtdBothDirectoryInformation.
        ID_64_EXTD_BOTH_DIRECTORY = 79;
        /// FileIdAllExtdDirectoryInformation.
        ID_ALL_EXTD_DIRECTORY = 80;
        /// FileIdAllExtdBothDirectoryInformation.
        ID_ALL_EXTD_BOTH_DIRECTORY = 81;
        /// FilePosixInformation of the POSIX extensions, also of a directory listing.
        POSIX = 100;
    }

    /// The structure that QUERY_INFO or SET_INFO of a file system refers to ([MS-FSCC] 2.5).
    pub struct FsInformationClass(u8) {
        /// FileFsVolumeInformation.
        VOLUME = 1;
        /// FileFsLabelInformation.
        LABEL = 2;
        /// FileFsSizeInformation.
        SIZE = 3;
        /// FileFsDeviceInformation.
        DEVICE = 4;
        /// FileFsAttributeInformation.
        ATTRIBUTE = 5;
        /// FileFsControlInformation.
        CONTROL = 6;
        /// FileFsFullSizeInformation.
        FULL_SIZE = 7;
        /// FileFsObjectIdInformation.
        OBJECT_ID = 8;
        /// FileFsDriverPathInformation.
        DRIVER_PATH = 9;
        /// FileFsVolumeFlagsInformation.
        VOLUME_FLAGS = 10;
        /// FileFsSectorSizeInformation.
        SECTOR_SIZE = 11;
        /// FileFsPosixInformation of the POSIX extensions.
        POSIX = 100;
    }
}
