//! LOCK ([MS-SMB2] 2.2.26, 2.2.27).

use super::{FileId, body, empty_bodies, u16_of};
use crate::bytes::{Reader, Result, Writer};
use crate::flags::flags;

flags! {
    /// The operation on a range ([MS-SMB2] 2.2.26.1).
    pub struct LockFlags(u32) {
        /// Take a shared lock.
        SHARED_LOCK = 0x0000_0001;
        /// Take an exclusive lock.
        EXCLUSIVE_LOCK = 0x0000_0002;
        /// Unlock.
        UNLOCK = 0x0000_0004;
        /// Fail instead of waiting.
        FAIL_IMMEDIATELY = 0x0000_0010;
    }
}

/// One range (SMB2_LOCK_ELEMENT, 2.2.26.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LockElement {
    /// The first byte.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
    /// The operation.
    pub flags: LockFlags,
}

impl LockElement {
    const SIZE: usize = 24;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let element = LockElement { offset: reader.u64()?, length: reader.u64()?, flags: LockFlags(reader.u32()?) };
        reader.skip(4)?;
        Ok(element)
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.u64(self.offset);
        out.u64(self.length);
        out.u32(self.flags.0);
        out.u32(0);
    }
}

/// Locks or unlocks ranges. `LockCount` may be 0 here; the server refuses it (3.3.5.14).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LockRequest {
    /// Number (low 4 bits) and index (the rest) of the lock sequence; to be ignored by 2.0.2.
    pub lock_sequence: u32,
    /// The open.
    pub file_id: FileId,
    /// The ranges.
    pub locks: Vec<LockElement>,
}

impl LockRequest {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = body(message, 48)?;
        let lock_count = usize::from(reader.u16()?);
        let lock_sequence = reader.u32()?;
        let file_id = FileId::decode(&mut reader)?;
        // A count that cannot fit is refused before memory is allocated for it.
        let mut elements = Reader::new(reader.take(lock_count * LockElement::SIZE)?);
        let locks = (0..lock_count).map(|_| LockElement::decode(&mut elements)).collect::<Result<_>>()?;
        Ok(LockRequest { lock_sequence, file_id, locks })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(48);
        out.u16(u16_of(self.locks.len()));
        out.u32(self.lock_sequence);
        self.file_id.encode(out);
        self.locks.iter().for_each(|element| element.encode(out));
    }

    /// `LockSequenceNumber`.
    pub fn lock_sequence_number(&self) -> u8 {
        (self.lock_sequence & 0xf) as u8
    }

    /// `LockSequenceIndex`, 1 to 64; 0 if there is none.
    pub fn lock_sequence_index(&self) -> u32 {
        self.lock_sequence >> 4
    }
}

empty_bodies! {
    /// The response to LOCK.
    LockResponse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.26: StructureSize, LockCount, LockSequence, FileId, Locks; 2.2.26.1: Offset, Length, Flags, Reserved.
    #[test]
    fn the_request() {
        let request = LockRequest {
            lock_sequence: 0x23,
            file_id: FileId { persistent: 1, volatile: 2 },
            locks: vec![
                LockElement { offset: 3, length: 4, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY },
                LockElement { offset: 5, length: u64::MAX, flags: LockFlags::UNLOCK },
            ],
        };
        assert_eq!((request.lock_sequence_number(), request.lock_sequence_index()), (3, 2));
        golden!(
            LockRequest,
            request.clone(),
            "3000 0200 23000000 0100000000000000 0200000000000000
             0300000000000000 0400000000000000 12000000 00000000
             0500000000000000 ffffffffffffffff 04000000 00000000"
        );
    }

    #[test]
    fn a_count_beyond_the_message_is_refused() {
        let body =
            "3000 ffff 00000000 0100000000000000 0200000000000000 0300000000000000 0400000000000000 0000000000000000";
        assert_eq!(LockRequest::decode(&message(body)), Err(Malformed::Truncated));
        let none = message("3000 0000 00000000 0100000000000000 0200000000000000");
        assert_eq!(LockRequest::decode(&none).map(|request| request.locks), Ok(vec![]));
    }

    // 2.2.27: StructureSize, Reserved.
    #[test]
    fn the_response() {
        golden!(LockResponse, LockResponse, "0400 0000");
    }

    round_trips! {
        requests_round_trip: LockRequest = |s| LockRequest {
            lock_sequence: s.u32(),
            file_id: s.file_id(),
            locks: s.list(|s| LockElement { offset: s.u64(), length: s.u64(), flags: LockFlags(s.u32()) }),
        };
    }
}
