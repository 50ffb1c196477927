//! The packets of the name service ([RFC 1002] 4.2).

use std::net::Ipv4Addr;

use super::name::{Encoded, Name};

/// The types of resource records.
pub(crate) const NB: u16 = 0x20;
pub(crate) const NBSTAT: u16 = 0x21;
const IN: u16 = 1;

/// Operations.
pub(crate) const QUERY: u16 = 0;
pub(crate) const REGISTRATION: u16 = 5;
pub(crate) const RELEASE: u16 = 6;
/// The registration of a host with several addresses, by which Windows registers.
pub(crate) const MULTIHOMED_REGISTRATION: u16 = 15;

/// Flags of the header: a response, from the owner of the name; recursion is desired, and available; a broadcast.
pub(crate) const RESPONSE: u16 = 0x8000;
pub(crate) const AUTHORITATIVE: u16 = 0x0400;
pub(crate) const RECURSION_DESIRED: u16 = 0x0100;
pub(crate) const RECURSION_AVAILABLE: u16 = 0x0080;
pub(crate) const BROADCAST: u16 = 0x0010;
const OPCODE_SHIFT: u32 = 11;
const RESULT: u16 = 15;
/// The result of a registration that the owner of the name refuses (ACT_ERR).
pub(crate) const ACTIVE: u16 = 6;

/// The flag of a name of a group, and those of a name in the table of a node that is in use, and in conflict.
pub(crate) const GROUP: u16 = 0x8000;
pub(crate) const IN_USE: u16 = 0x0400;
/// A pointer to the name after the header.
const FIRST_NAME: u16 = 0xc00c;
/// The bytes of the statistics in the response to a node status request, of which the first 6 are the address of the
/// network card.
const STATISTICS: usize = 46;

/// A packet that was received, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) id: u16,
    flags: u16,
    /// The name of the question of a request, or of the answer of a response.
    pub(crate) name: Encoded<'a>,
    /// The type of the question or the answer.
    pub(crate) kind: u16,
    /// Whether a name is registered as one of a group.
    pub(crate) is_group: bool,
}

impl<'a> Message<'a> {
    /// Reads a request with one question, or a response with one answer.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Message<'a>> {
        let mut rest = bytes;
        let mut word = || read_word(&mut rest);
        let (id, flags) = (word()?, word()?);
        let counts = [word()?, word()?, word()?, word()?];
        let is_response = flags & RESPONSE != 0;
        if counts[..2] != [u16::from(!is_response), u16::from(is_response)] {
            return None;
        }
        let (name, mut rest) = Encoded::read(rest)?;
        let (kind, class) = (read_word(&mut rest)?, read_word(&mut rest)?);
        if class != IN {
            return None;
        }
        let message = Message { id, flags, name, kind, is_group: false };
        match message.opcode() {
            REGISTRATION | MULTIHOMED_REGISTRATION if !is_response => {
                let is_group = counts[3] == 1 && read_flags(rest)? & GROUP != 0;
                Some(Message { is_group, ..message })
            }
            _ => Some(message),
        }
    }

    pub(crate) fn is_response(&self) -> bool {
        self.flags & RESPONSE != 0
    }

    pub(crate) fn opcode(&self) -> u16 {
        self.flags >> OPCODE_SHIFT & 15
    }

    pub(crate) fn is_refusal(&self) -> bool {
        self.is_response() && self.flags & RESULT != 0
    }

    pub(crate) fn desires_recursion(&self) -> bool {
        self.flags & RECURSION_DESIRED != 0
    }
}

fn read_word(from: &mut &[u8]) -> Option<u16> {
    let (word, rest) = from.split_first_chunk::<2>()?;
    *from = rest;
    Some(u16::from_be_bytes(*word))
}

/// Reads the flags of the name in the additional record of a registration.
fn read_flags(record: &[u8]) -> Option<u16> {
    let mut rest = record;
    if rest.first()? & 0xc0 == 0xc0 {
        read_word(&mut rest)?;
    } else {
        rest = Encoded::read(rest)?.1;
    }
    // Type, class, TTL and length precede the flags.
    rest = rest.get(10..)?;
    read_word(&mut rest)
}

/// Returns the flags of a header.
pub(crate) const fn header(opcode: u16, flags: u16) -> u16 {
    opcode << OPCODE_SHIFT | flags
}

/// A name and the address that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    /// The encoded name.
    pub(crate) name: &'a [u8],
    pub(crate) is_group: bool,
    pub(crate) address: Ipv4Addr,
    /// How many seconds others may remember it.
    pub(crate) ttl: u32,
}

impl Claim<'_> {
    fn append(&self, to: &mut Vec<u8>) {
        for word in [NB, IN] {
            to.extend(word.to_be_bytes());
        }
        to.extend(self.ttl.to_be_bytes());
        // The other flags are those of a node that uses broadcasts.
        let flags = if self.is_group { GROUP } else { 0 };
        for word in [6, flags] {
            to.extend(word.to_be_bytes());
        }
        to.extend(self.address.octets());
    }

    /// Returns a request to register or to release the name ([RFC 1002] 4.2.2, 4.2.3, 4.2.9).
    pub(crate) fn request(&self, id: u16, flags: u16) -> Vec<u8> {
        let mut bytes = start(id, flags, [1, 0, 0, 1], self.name);
        for word in [NB, IN, FIRST_NAME] {
            bytes.extend(word.to_be_bytes());
        }
        self.append(&mut bytes);
        bytes
    }

    /// Returns a response with the name ([RFC 1002] 4.2.6, 4.2.13).
    pub(crate) fn response(&self, id: u16, flags: u16) -> Vec<u8> {
        let mut bytes = start(id, flags, [0, 1, 0, 0], self.name);
        self.append(&mut bytes);
        bytes
    }
}

/// Returns the response to a node status request: the names of the node, each with its flags, and the address of its
/// network card ([RFC 1002] 4.2.18).
pub(crate) fn status(id: u16, asked: &[u8], names: &[(Name, u16)], card: [u8; 6]) -> Vec<u8> {
    let mut bytes = start(id, RESPONSE | AUTHORITATIVE, [0, 1, 0, 0], asked);
    let count = u8::try_from(names.len()).unwrap_or(u8::MAX);
    let length = 1 + 18 * u16::from(count) + STATISTICS as u16;
    for word in [NBSTAT, IN, 0, 0, length] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.push(count);
    for (name, flags) in names.iter().take(usize::from(count)) {
        bytes.extend(name.0);
        bytes.extend(flags.to_be_bytes());
    }
    bytes.extend(card);
    bytes.extend([0; STATISTICS - 6]);
    bytes
}

fn start(id: u16, flags: u16, counts: [u16; 4], name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + name.len() + 26);
    for word in [id, flags].into_iter().chain(counts) {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(name);
    bytes
}
