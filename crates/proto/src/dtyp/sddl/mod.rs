//! Security descriptors as text ([MS-DTYP] 2.5.1, SDDL): `O:BAG:BUD:P(A;OICI;FA;;;WD)`.
//!
//! The reader accepts all parts of the grammar in any order and in any case, with white space between parts and
//! entries. It also accepts what Windows writes in addition to the grammar: `NO_ACCESS_CONTROL` for a NULL ACL, `AL`
//! and `OL` for alarms, the rights of files (`FA`, `FR`, `FW`, `FX`) and of directory services (`CC` to `CR`), which
//! are the same bits. Conditional entries and resource attributes are not supported: reading or writing them is an
//! error that names them.
//!
//! The text does not express everything: it has no notation for defaulted parts or for the revision of an ACL.
//!
//! The vocabulary is in `words`; `read` and `write` use it.

mod object;
mod read;
mod words;
mod write;

use std::fmt;

use super::{AceType, Sid};

pub use read::{decode, decode_sid};
pub use write::{encode, encode_ace, encode_rights, encode_sid};

/// The domains of aliases for domain-relative SIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Domains {
    /// The machine's own account domain: `LA`, `LG`.
    pub machine: Option<Sid>,
    /// The domain of which the machine is a member, or its own: `DA`, `DU`, `EA` and so on.
    pub domain: Option<Sid>,
}

impl Domains {
    /// The domains of a machine that is not a domain member.
    pub const fn standalone(machine: Sid) -> Domains {
        Domains { machine: Some(machine), domain: Some(machine) }
    }
}

/// An error in the text of a descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SddlError {
    /// The position of the error, in bytes from the start of the text.
    pub position: usize,
    /// The reason.
    pub reason: &'static str,
}

impl fmt::Display for SddlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at position {}: {}", self.position, self.reason)
    }
}

impl std::error::Error for SddlError {}

/// The type of an entry that has no text form here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inexpressible(pub AceType);

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an ACE of the type {:?} cannot be written in SDDL", self.0)
    }
}

impl std::error::Error for Inexpressible {}

#[cfg(test)]
mod tests;
