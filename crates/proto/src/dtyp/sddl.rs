//! Security descriptors as text ([MS-DTYP] 2.5.1, SDDL): `O:BAG:BUD:P(A;OICI;FA;;;WD)`.
//!
//! Read are all of the grammar's parts in any order, in capitals or not, with white space between parts and entries, and
//! what Windows writes past the grammar: `NO_ACCESS_CONTROL` for a NULL list, `AL` and `OL` for alarms, the rights of
//! files (`FA`, `FR`, `FW`, `FX`) and of directory services (`CC` to `CR`), which are the same bits. Left out are
//! conditional entries and resource attributes: they are an error both ways, which names them.
//!
//! A text holds less than a descriptor: it has no word for parts that are a default, nor for the revision of a list.
//!
//! The grammar's words are in `words`; `read` and `write` go by them.

mod object;
mod read;
mod words;
mod write;

use std::fmt;

use super::{AceType, Sid};

pub use read::{decode, decode_sid};
pub use write::{encode, encode_ace, encode_rights, encode_sid};

/// Whose SIDs the aliases mean that are relative to a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Domains {
    /// The machine's own domain of accounts: `LA`, `LG`.
    pub machine: Option<Sid>,
    /// The domain that it belongs to, or its own: `DA`, `DU`, `EA` and so on.
    pub domain: Option<Sid>,
}

impl Domains {
    /// A machine that belongs to no domain.
    pub const fn standalone(machine: Sid) -> Domains {
        Domains { machine: Some(machine), domain: Some(machine) }
    }
}

/// A text that is no descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SddlError {
    /// Where, in bytes from the start of the text.
    pub position: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl fmt::Display for SddlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at position {}: {}", self.position, self.reason)
    }
}

impl std::error::Error for SddlError {}

/// An entry that has no text here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inexpressible(pub AceType);

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an entry of the type {:?} cannot be written in SDDL", self.0)
    }
}

impl std::error::Error for Inexpressible {}

#[cfg(test)]
mod tests;
