//! AV_PAIR lists ([MS-NLMP] 2.2.2.1): attributes of the server in the challenge and of the client in the response.

use crate::bytes::{Malformed, Reader, Result, Writer};

/// `AvId`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AvId(pub u16);

impl AvId {
    /// The end of the list.
    pub const EOL: AvId = AvId(0);
    /// The server's NetBIOS computer name.
    pub const NB_COMPUTER_NAME: AvId = AvId(1);
    /// The server's NetBIOS domain name.
    pub const NB_DOMAIN_NAME: AvId = AvId(2);
    /// The server's fully qualified name.
    pub const DNS_COMPUTER_NAME: AvId = AvId(3);
    /// The fully qualified name of the server's domain.
    pub const DNS_DOMAIN_NAME: AvId = AvId(4);
    /// The fully qualified name of the server's forest.
    pub const DNS_TREE_NAME: AvId = AvId(5);
    /// [`AvFlags`].
    pub const FLAGS: AvId = AvId(6);
    /// The server's time as a FILETIME.
    pub const TIMESTAMP: AvId = AvId(7);
    /// `Single_Host_Data`: the machine that the client runs on.
    pub const SINGLE_HOST: AvId = AvId(8);
    /// The SPN of the server that the client intends to reach.
    pub const TARGET_NAME: AvId = AvId(9);
    /// MD5 of the channel bindings; zero if there are none.
    pub const CHANNEL_BINDINGS: AvId = AvId(10);
}

crate::flags::flags! {
    /// The value of [`AvId::FLAGS`].
    pub struct AvFlags(u32) {
        /// The user account's authentication is constrained.
        CONSTRAINED = 0x0000_0001;
        /// The AUTHENTICATE_MESSAGE carries a MIC.
        MIC_PROVIDED = 0x0000_0002;
        /// The SPN comes from an untrusted source.
        UNTRUSTED_SPN = 0x0000_0004;
    }
}

/// A decoded list. If several pairs have the same id, the first one applies.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct AvPairs<'a>(Vec<(AvId, &'a [u8])>);

/// The maximum number of pairs in a list; the specification defines ten.
const MAX_PAIRS: usize = 64;

impl<'a> AvPairs<'a> {
    /// Reads pairs up to `MsvAvEOL`; the bytes after it are ignored. A list that ends without it is malformed.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut pairs = Vec::new();
        loop {
            let id = AvId(reader.u16()?);
            let length = usize::from(reader.u16()?);
            let value = reader.take(length)?;
            if id == AvId::EOL {
                return Ok(AvPairs(pairs));
            }
            if pairs.len() == MAX_PAIRS {
                return Err(Malformed::Value);
            }
            pairs.push((id, value));
        }
    }

    /// Iterates over all pairs in order, without the end marker.
    pub fn iter(&self) -> impl Iterator<Item = (AvId, &'a [u8])> + '_ {
        self.0.iter().copied()
    }

    /// The value of `id`.
    pub fn get(&self, id: AvId) -> Option<&'a [u8]> {
        self.iter().find(|(each, _)| *each == id).map(|(_, value)| value)
    }

    /// Returns the flags; none if the pair is missing. Malformed if the value is not 4 bytes.
    pub fn flags(&self) -> Result<AvFlags> {
        match self.get(AvId::FLAGS) {
            None => Ok(AvFlags::NONE),
            Some(value) => Ok(AvFlags(u32::from_le_bytes(value.try_into().map_err(|_| Malformed::Value)?))),
        }
    }

    /// Returns the server's time, a FILETIME. Malformed if the value is not 8 bytes.
    pub fn timestamp(&self) -> Result<Option<u64>> {
        match self.get(AvId::TIMESTAMP) {
            None => Ok(None),
            Some(value) => Ok(Some(u64::from_le_bytes(value.try_into().map_err(|_| Malformed::Value)?))),
        }
    }
}

/// Appends one pair. A value too long for the 16-bit length is truncated at a whole UTF-16 unit.
pub fn encode(writer: &mut Writer<'_>, id: AvId, value: &[u8]) {
    let value = &value[..value.len().min(0xFFFE)];
    writer.u16(id.0);
    writer.u16(value.len() as u16);
    writer.bytes(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_at_its_terminator() {
        let pairs = AvPairs::decode(&[7, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 6, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 9]);
        let pairs = pairs.expect("a complete list");
        assert_eq!(pairs.timestamp(), Ok(Some(0x0807_0605_0403_0201)));
        assert_eq!(pairs.flags(), Ok(AvFlags::MIC_PROVIDED));
        assert_eq!(pairs.get(AvId::NB_COMPUTER_NAME), None);
        assert_eq!(pairs.iter().count(), 2);
    }

    #[test]
    fn lists_that_are_refused() {
        for bytes in [&[][..], &[0, 0], &[1, 0, 2, 0, b'A', 0], &[1, 0, 2, 0, b'A'], &[0, 0, 1, 0]] {
            assert_eq!(AvPairs::decode(bytes), Err(Malformed::Truncated), "{bytes:?}");
        }
        let mut many = [1, 0, 0, 0].repeat(65);
        many.extend_from_slice(&[0; 4]);
        assert_eq!(AvPairs::decode(&many), Err(Malformed::Value));
        assert!(AvPairs::decode(&many[4..]).is_ok());
        let wrong = AvPairs::decode(&[6, 0, 1, 0, 2, 7, 0, 1, 0, 2, 0, 0, 0, 0]).expect("a complete list");
        assert_eq!(wrong.flags(), Err(Malformed::Value));
        assert_eq!(wrong.timestamp(), Err(Malformed::Value));
    }
}
