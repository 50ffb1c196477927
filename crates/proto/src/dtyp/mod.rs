//! The common data types of Windows protocols ([MS-DTYP]): GUID, FILETIME, SID, access masks and security descriptors.
//!
//! Conditional expressions and claims inside callback ACEs ([MS-DTYP] 2.4.4.17, 2.4.10) stay raw bytes.

pub mod access_mask;
pub mod acl;
pub mod filetime;
pub mod guid;
pub mod sddl;
pub mod security_descriptor;
pub mod security_information;
pub mod sid;

pub use access_mask::{AccessMask, GenericMapping};
pub use acl::{Ace, AceBody, AceFlags, AceType, Acl};
pub use filetime::FileTime;
pub use guid::Guid;
pub use security_descriptor::{Control, SecurityDescriptor};
pub use security_information::SecurityInformation;
pub use sid::Sid;
