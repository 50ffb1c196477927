//! The control codes ([MS-SMB2] 2.2.31, [MS-FSCC] 2.3; those of shared virtual disks [MS-RSVD] 2.2.2).

use crate::values::values;

values! {
    /// A control code.
    pub struct FsctlCode(u32) {
        /// DFS referrals.
        DFS_GET_REFERRALS = 0x0006_0194;
        /// DFS referrals with a site name.
        DFS_GET_REFERRALS_EX = 0x0006_01b0;
        /// Check that a path is well formed.
        IS_PATHNAME_VALID = 0x0009_002c;
        /// Return the compression state of a file.
        GET_COMPRESSION = 0x0009_003c;
        /// Set compression of a file.
        SET_COMPRESSION = 0x0009_c040;
        /// Boot sector of a FAT volume.
        QUERY_FAT_BPB = 0x0009_0058;
        /// Statistics of the volume.
        FILESYSTEM_GET_STATISTICS = 0x0009_0060;
        /// Properties of an NTFS volume.
        GET_NTFS_VOLUME_DATA = 0x0009_0064;
        /// Extents on the volume.
        GET_RETRIEVAL_POINTERS = 0x0009_0073;
        /// Files of an owner.
        FIND_FILES_BY_SID = 0x0009_008f;
        /// Set the object id.
        SET_OBJECT_ID = 0x0009_0098;
        /// The object id.
        GET_OBJECT_ID = 0x0009_009c;
        /// Remove the object id.
        DELETE_OBJECT_ID = 0x0009_00a0;
        /// Set a reparse point.
        SET_REPARSE_POINT = 0x0009_00a4;
        /// Return the data of a reparse point.
        GET_REPARSE_POINT = 0x0009_00a8;
        /// Delete a reparse point.
        DELETE_REPARSE_POINT = 0x0009_00ac;
        /// Set the extended part of the object id.
        SET_OBJECT_ID_EXTENDED = 0x0009_00bc;
        /// Return the object id, and create it if necessary.
        CREATE_OR_GET_OBJECT_ID = 0x0009_00c0;
        /// Make a file sparse.
        SET_SPARSE = 0x0009_00c4;
        /// Encrypt on disk.
        SET_ENCRYPTION = 0x0009_00d7;
        /// Journal record of a file.
        READ_FILE_USN_DATA = 0x0009_00eb;
        /// Write a journal record.
        WRITE_USN_CLOSE_RECORD = 0x0009_00ef;
        /// Mark the open.
        MARK_HANDLE = 0x0009_00fc;
        /// Single-instance copy.
        SIS_COPYFILE = 0x0009_0100;
        /// Fetch from slow storage.
        RECALL_FILE = 0x0009_0117;
        /// Defect management of optical media.
        QUERY_SPARING_INFO = 0x0009_0138;
        /// Properties of optical media.
        QUERY_ON_DISK_VOLUME_INFO = 0x0009_013c;
        /// Zero clusters as they are freed.
        SET_ZERO_ON_DEALLOCATION = 0x0009_0194;
        /// Checksums of a file.
        GET_INTEGRITY_INFORMATION = 0x0009_027c;
        /// Ranges and their usage.
        QUERY_FILE_REGIONS = 0x0009_0284;
        /// Properties of a ReFS volume.
        GET_REFS_VOLUME_DATA = 0x0009_02d8;
        /// Shared virtual disk: a tunnelled operation.
        SVHDX_SYNC_TUNNEL_REQUEST = 0x0009_0304;
        /// Shared virtual disk: query support.
        QUERY_SHARED_VIRTUAL_DISK_SUPPORT = 0x0009_0300;
        /// Set checksums of a file, extended.
        SET_INTEGRITY_INFORMATION_EX = 0x0009_0380;
        /// Extents with reference counts.
        GET_RETRIEVAL_POINTERS_AND_REFCOUNT = 0x0009_03d3;
        /// The number of extents.
        GET_RETRIEVAL_POINTER_COUNT = 0x0009_042b;
        /// Snapshots of a stream.
        REFS_STREAM_SNAPSHOT_MANAGEMENT = 0x0009_0440;
        /// Ranges that hold data.
        QUERY_ALLOCATED_RANGES = 0x0009_40cf;
        /// A token for offloaded copying.
        OFFLOAD_READ = 0x0009_4264;
        /// Zero a range.
        SET_ZERO_DATA = 0x0009_80c8;
        /// Defect management of optical media.
        SET_DEFECT_MANAGEMENT = 0x0009_8134;
        /// Free ranges on the disk.
        FILE_LEVEL_TRIM = 0x0009_8208;
        /// Copy with a token.
        OFFLOAD_WRITE = 0x0009_8268;
        /// Share extents with another file.
        DUPLICATE_EXTENTS_TO_FILE = 0x0009_8344;
        /// Share extents with another file atomically.
        DUPLICATE_EXTENTS_TO_FILE_EX = 0x0009_83e8;
        /// Set checksums of a file.
        SET_INTEGRITY_INFORMATION = 0x0009_c280;
        /// Wait for a pipe.
        PIPE_WAIT = 0x0011_0018;
        /// Read data from a pipe without removing it.
        PIPE_PEEK = 0x0011_400c;
        /// Write to a pipe and read the response.
        PIPE_TRANSCEIVE = 0x0011_c017;
        /// A key for server-side copying.
        SRV_REQUEST_RESUME_KEY = 0x0014_0078;
        /// Link tracking.
        LMR_SET_LINK_TRACKING_INFORMATION = 0x0014_00ec;
        /// Make the open resilient.
        LMR_REQUEST_RESILIENCY = 0x0014_01d4;
        /// The server's network interfaces.
        QUERY_NETWORK_INTERFACE_INFO = 0x0014_01fc;
        /// Check that NEGOTIATE was not tampered with.
        VALIDATE_NEGOTIATE_INFO = 0x0014_0204;
        /// List snapshots.
        SRV_ENUMERATE_SNAPSHOTS = 0x0014_4064;
        /// Copy on the server, to an open with read access.
        SRV_COPYCHUNK = 0x0014_40f2;
        /// Branch cache hashes.
        SRV_READ_HASH = 0x0014_41bb;
        /// Copy on the server.
        SRV_COPYCHUNK_WRITE = 0x0014_80f2;
    }
}
