//! OPLOCK_BREAK ([MS-SMB2] 2.2.23 to 2.2.25): the server's notification, the client's acknowledgment and the server's
//! response. Each has a form for oplocks and one for leases, distinguished by `StructureSize`. A client distinguishes a
//! notification from a response by its `MessageId`, [`super::header::Header::UNSOLICITED`].

use super::header::Header;
use super::{FileId, LeaseState, OplockLevel};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;

flags! {
    /// Flags of a lease break notification ([MS-SMB2] 2.2.23.2).
    pub struct LeaseBreakFlags(u32) {
        /// The break must be acknowledged.
        ACK_REQUIRED = 0x01;
    }
}

/// The oplock form of all three messages (2.2.23.1, 2.2.24.1, 2.2.25.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OplockBreak {
    /// The oplock level after the break.
    pub oplock_level: OplockLevel,
    /// The open.
    pub file_id: FileId,
}

impl OplockBreak {
    const STRUCTURE_SIZE: u16 = 24;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let oplock_level = OplockLevel(reader.u8()?);
        reader.skip(5)?;
        Ok(OplockBreak { oplock_level, file_id: FileId::decode(reader)? })
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.u16(Self::STRUCTURE_SIZE);
        out.u8(self.oplock_level.0);
        out.zeros(5);
        self.file_id.encode(out);
    }
}

/// The lease form of the acknowledgment and the response (2.2.24.2, 2.2.25.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaseBreak {
    /// Identifies the lease within the client.
    pub lease_key: [u8; 16],
    /// The lease state after the break.
    pub lease_state: LeaseState,
}

impl LeaseBreak {
    const STRUCTURE_SIZE: u16 = 36;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        reader.skip(6)?;
        let lease_break = LeaseBreak { lease_key: reader.array()?, lease_state: LeaseState(reader.u32()?) };
        reader.skip(8)?;
        Ok(lease_break)
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.u16(Self::STRUCTURE_SIZE);
        out.zeros(6);
        out.bytes(&self.lease_key);
        out.u32(self.lease_state.0);
        out.zeros(8);
    }
}

/// The lease form of the notification (2.2.23.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaseBreakNotification {
    /// Counts the state changes; 3.x only.
    pub new_epoch: u16,
    /// Whether the break must be acknowledged.
    pub flags: LeaseBreakFlags,
    /// Identifies the lease within the client.
    pub lease_key: [u8; 16],
    /// The lease state before the break.
    pub current_lease_state: LeaseState,
    /// The lease state after the break.
    pub new_lease_state: LeaseState,
}

impl LeaseBreakNotification {
    const STRUCTURE_SIZE: u16 = 44;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let notification = LeaseBreakNotification {
            new_epoch: reader.u16()?,
            flags: LeaseBreakFlags(reader.u32()?),
            lease_key: reader.array()?,
            current_lease_state: LeaseState(reader.u32()?),
            new_lease_state: LeaseState(reader.u32()?),
        };
        reader.skip(12)?;
        Ok(notification)
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.u16(Self::STRUCTURE_SIZE);
        out.u16(self.new_epoch);
        out.u32(self.flags.0);
        out.bytes(&self.lease_key);
        out.u32(self.current_lease_state.0);
        out.u32(self.new_lease_state.0);
        out.zeros(12);
    }
}

/// The server's notification of an oplock or lease break (2.2.23).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OplockBreakNotification {
    /// An oplock.
    Oplock(OplockBreak),
    /// A lease.
    Lease(LeaseBreakNotification),
}

impl OplockBreakNotification {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let (structure_size, mut reader) = start(message)?;
        match structure_size {
            OplockBreak::STRUCTURE_SIZE => OplockBreak::decode(&mut reader).map(Self::Oplock),
            LeaseBreakNotification::STRUCTURE_SIZE => LeaseBreakNotification::decode(&mut reader).map(Self::Lease),
            _ => Err(Malformed::Structure),
        }
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Oplock(oplock) => oplock.encode(out),
            Self::Lease(lease) => lease.encode(out),
        }
    }
}

/// The client's acknowledgment (2.2.24).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OplockBreakAcknowledgment {
    /// An oplock.
    Oplock(OplockBreak),
    /// A lease.
    Lease(LeaseBreak),
}

/// The server's response (2.2.25), which has the same layout as the acknowledgment.
pub type OplockBreakResponse = OplockBreakAcknowledgment;

impl OplockBreakAcknowledgment {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let (structure_size, mut reader) = start(message)?;
        match structure_size {
            OplockBreak::STRUCTURE_SIZE => OplockBreak::decode(&mut reader).map(Self::Oplock),
            LeaseBreak::STRUCTURE_SIZE => LeaseBreak::decode(&mut reader).map(Self::Lease),
            _ => Err(Malformed::Structure),
        }
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Oplock(oplock) => oplock.encode(out),
            Self::Lease(lease) => lease.encode(out),
        }
    }
}

/// Returns the `StructureSize` of a body and a reader positioned after it.
fn start(message: &[u8]) -> Result<(u16, Reader<'_>)> {
    let mut reader = Reader::new(message);
    reader.skip(Header::SIZE)?;
    Ok((reader.u16()?, reader))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.23.1, 2.2.24.1, 2.2.25.1: StructureSize, OplockLevel, Reserved, Reserved2, FileId.
    #[test]
    fn an_oplock_is_encoded_alike_in_all_three_messages() {
        let oplock = OplockBreak { oplock_level: OplockLevel::II, file_id: FileId { persistent: 1, volatile: 2 } };
        let body = "1800 01 00 00000000 0100000000000000 0200000000000000";
        golden!(OplockBreakNotification, OplockBreakNotification::Oplock(oplock), body);
        golden!(OplockBreakAcknowledgment, OplockBreakAcknowledgment::Oplock(oplock), body);
    }

    // 2.2.23.2: StructureSize, NewEpoch, Flags, LeaseKey, CurrentLeaseState, NewLeaseState, BreakReason,
    // AccessMaskHint, ShareMaskHint.
    #[test]
    fn a_lease_notification() {
        let notification = LeaseBreakNotification {
            new_epoch: 3,
            flags: LeaseBreakFlags::ACK_REQUIRED,
            lease_key: [7; 16],
            current_lease_state: LeaseState(7),
            new_lease_state: LeaseState::READ_CACHING,
        };
        golden!(
            OplockBreakNotification,
            OplockBreakNotification::Lease(notification),
            "2c00 0300 01000000 07070707070707070707070707070707 07000000 01000000 00000000 00000000 00000000"
        );
    }

    // 2.2.24.2, 2.2.25.2: StructureSize, Reserved, Flags, LeaseKey, LeaseState, LeaseDuration.
    #[test]
    fn a_lease_acknowledgment() {
        let lease = LeaseBreak { lease_key: [7; 16], lease_state: LeaseState::READ_CACHING };
        golden!(
            OplockBreakResponse,
            OplockBreakResponse::Lease(lease),
            "2400 0000 00000000 07070707070707070707070707070707 01000000 0000000000000000"
        );
    }

    #[test]
    fn the_structure_size_decides() {
        for size in ["0000", "1700", "1900", "2500", "2c01"] {
            let message = message(&format!("{size} {}", "00".repeat(42)));
            assert_eq!(OplockBreakNotification::decode(&message), Err(Malformed::Structure), "{size}");
            assert_eq!(OplockBreakAcknowledgment::decode(&message), Err(Malformed::Structure), "{size}");
        }
        let acknowledgment = message(&format!("2400 {}", "00".repeat(34)));
        assert_eq!(OplockBreakNotification::decode(&acknowledgment), Err(Malformed::Structure));
    }

    round_trips! {
        notifications_round_trip: OplockBreakNotification = |s| match s.u8() & 1 {
            0 => OplockBreakNotification::Oplock(OplockBreak {
                oplock_level: OplockLevel(s.u8()),
                file_id: s.file_id(),
            }),
            _ => OplockBreakNotification::Lease(LeaseBreakNotification {
                new_epoch: s.u16(),
                flags: LeaseBreakFlags(s.u32()),
                lease_key: s.array(),
                current_lease_state: LeaseState(s.u32()),
                new_lease_state: LeaseState(s.u32()),
            }),
        };
        acknowledgments_round_trip: OplockBreakAcknowledgment = |s| match s.u8() & 1 {
            0 => OplockBreakAcknowledgment::Oplock(OplockBreak {
                oplock_level: OplockLevel(s.u8()),
                file_id: s.file_id(),
            }),
            _ => OplockBreakAcknowledgment::Lease(LeaseBreak {
                lease_key: s.array(),
                lease_state: LeaseState(s.u32()),
            }),
        };
    }
}
