//! Access masks ([MS-DTYP] 2.4.3) with the rights of files and directories ([MS-SMB2] 2.2.13.1), and the mapping of
//! generic rights. The server does the access check.

use crate::flags::flags;

flags! {
    /// Requested or granted rights.
    pub struct AccessMask(u32) {
        /// Read the data of a file or pipe.
        FILE_READ_DATA = 0x0000_0001;
        /// List a directory.
        FILE_LIST_DIRECTORY = 0x0000_0001;
        /// Write data.
        FILE_WRITE_DATA = 0x0000_0002;
        /// Create a file in a directory.
        FILE_ADD_FILE = 0x0000_0002;
        /// Append data.
        FILE_APPEND_DATA = 0x0000_0004;
        /// Create a directory in a directory.
        FILE_ADD_SUBDIRECTORY = 0x0000_0004;
        /// Read extended attributes.
        FILE_READ_EA = 0x0000_0008;
        /// Write extended attributes.
        FILE_WRITE_EA = 0x0000_0010;
        /// Execute a file.
        FILE_EXECUTE = 0x0000_0020;
        /// Pass through a directory.
        FILE_TRAVERSE = 0x0000_0020;
        /// Delete the entries of a directory.
        FILE_DELETE_CHILD = 0x0000_0040;
        /// Read attributes.
        FILE_READ_ATTRIBUTES = 0x0000_0080;
        /// Write attributes.
        FILE_WRITE_ATTRIBUTES = 0x0000_0100;
        /// Delete the object.
        DELETE = 0x0001_0000;
        /// Read the security descriptor except its SACL.
        READ_CONTROL = 0x0002_0000;
        /// Write the DACL.
        WRITE_DAC = 0x0004_0000;
        /// Change owner and group.
        WRITE_OWNER = 0x0008_0000;
        /// Wait on the object.
        SYNCHRONIZE = 0x0010_0000;
        /// Read and write the SACL.
        ACCESS_SYSTEM_SECURITY = 0x0100_0000;
        /// All rights that the caller can get.
        MAXIMUM_ALLOWED = 0x0200_0000;
        /// All rights of the object's type.
        GENERIC_ALL = 0x1000_0000;
        /// The rights to execute.
        GENERIC_EXECUTE = 0x2000_0000;
        /// The rights to write.
        GENERIC_WRITE = 0x4000_0000;
        /// The rights to read.
        GENERIC_READ = 0x8000_0000;
    }
}

impl AccessMask {
    /// The four generic rights.
    pub const GENERIC: AccessMask = AccessMask(0xf000_0000);

    /// The rights that GENERIC_READ maps to for a file ([MS-SMB2] 2.2.13.1.1).
    pub const FILE_GENERIC_READ: AccessMask = AccessMask(0x0012_0089);

    /// The rights that GENERIC_WRITE maps to for a file.
    pub const FILE_GENERIC_WRITE: AccessMask = AccessMask(0x0012_0116);

    /// The rights that GENERIC_EXECUTE maps to for a file.
    pub const FILE_GENERIC_EXECUTE: AccessMask = AccessMask(0x0012_00a0);

    /// The rights that GENERIC_ALL maps to for a file: all file rights and standard rights.
    pub const FILE_ALL_ACCESS: AccessMask = AccessMask(0x001f_01ff);

    /// Replaces the generic rights by those that `mapping` gives for them ([MS-DTYP] 2.5.3.2).
    pub const fn expand(self, mapping: &GenericMapping) -> AccessMask {
        let mut expanded = self.without(Self::GENERIC);
        if self.contains(Self::GENERIC_READ) {
            expanded = expanded.with(mapping.generic_read);
        }
        if self.contains(Self::GENERIC_WRITE) {
            expanded = expanded.with(mapping.generic_write);
        }
        if self.contains(Self::GENERIC_EXECUTE) {
            expanded = expanded.with(mapping.generic_execute);
        }
        if self.contains(Self::GENERIC_ALL) {
            expanded = expanded.with(mapping.generic_all);
        }
        expanded
    }
}

/// The mapping of the generic rights for one type of object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GenericMapping {
    /// GENERIC_READ.
    pub generic_read: AccessMask,
    /// GENERIC_WRITE.
    pub generic_write: AccessMask,
    /// GENERIC_EXECUTE.
    pub generic_execute: AccessMask,
    /// GENERIC_ALL.
    pub generic_all: AccessMask,
}

impl GenericMapping {
    /// Files, directories, pipes and printers, which share their bits ([MS-SMB2] 2.2.13.1).
    pub const FILE: GenericMapping = GenericMapping {
        generic_read: AccessMask::FILE_GENERIC_READ,
        generic_write: AccessMask::FILE_GENERIC_WRITE,
        generic_execute: AccessMask::FILE_GENERIC_EXECUTE,
        generic_all: AccessMask::FILE_ALL_ACCESS,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_mapping_is_the_sum_of_its_rights() {
        use AccessMask as A;
        let common = A::SYNCHRONIZE | A::READ_CONTROL;
        for (generic, rights) in [
            (A::GENERIC_READ, common | A::FILE_READ_DATA | A::FILE_READ_ATTRIBUTES | A::FILE_READ_EA),
            (
                A::GENERIC_WRITE,
                common | A::FILE_WRITE_DATA | A::FILE_APPEND_DATA | A::FILE_WRITE_ATTRIBUTES | A::FILE_WRITE_EA,
            ),
            (A::GENERIC_EXECUTE, common | A::FILE_READ_ATTRIBUTES | A::FILE_EXECUTE),
        ] {
            assert_eq!(generic.expand(&GenericMapping::FILE), rights);
            assert!(GenericMapping::FILE.generic_all.contains(rights));
        }
        let standard = common | A::DELETE | A::WRITE_DAC | A::WRITE_OWNER;
        assert_eq!(A::GENERIC_ALL.expand(&GenericMapping::FILE), standard | A(0x1ff));
    }

    #[test]
    fn other_bits_stay() {
        let asked = AccessMask::MAXIMUM_ALLOWED | AccessMask::DELETE | AccessMask::GENERIC_EXECUTE;
        assert_eq!(asked.expand(&GenericMapping::FILE), AccessMask(0x0213_00a0));
    }
}
