//! The parts of a security descriptor to query or set ([MS-DTYP] 2.4.7).

use crate::flags::flags;

flags! {
    /// Parts of a security descriptor.
    pub struct SecurityInformation(u32) {
        /// The owner.
        OWNER = 0x0000_0001;
        /// The primary group.
        GROUP = 0x0000_0002;
        /// The DACL.
        DACL = 0x0000_0004;
        /// The SACL except the parts that have their own flags.
        SACL = 0x0000_0008;
        /// The mandatory integrity label of the SACL.
        LABEL = 0x0000_0010;
        /// The resource attributes of the SACL.
        ATTRIBUTE = 0x0000_0020;
        /// The central policy id of the SACL.
        SCOPE = 0x0000_0040;
        /// Reserved.
        PROCESS_TRUST_LABEL = 0x0000_0080;
        /// The descriptor is read or written for a backup.
        BACKUP = 0x0001_0000;
        /// The SACL inherits.
        UNPROTECTED_SACL = 0x1000_0000;
        /// The DACL inherits.
        UNPROTECTED_DACL = 0x2000_0000;
        /// The SACL does not inherit.
        PROTECTED_SACL = 0x4000_0000;
        /// The DACL does not inherit.
        PROTECTED_DACL = 0x8000_0000;
    }
}
