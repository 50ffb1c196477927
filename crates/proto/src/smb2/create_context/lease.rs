//! `RqLs`, a requested or granted lease ([MS-SMB2] 2.2.13.2.8, 2.2.13.2.10, 2.2.14.2.10, 2.2.14.2.11). Request and
//! response have the same layout.

use super::{CreateContext, LeaseState, context, exactly, name};
use crate::bytes::{Malformed, Result};
use crate::flags::flags;

flags! {
    /// Properties of a lease ([MS-SMB2] 2.2.13.2.10, 2.2.14.2.10, 2.2.14.2.11).
    pub struct LeaseFlags(u32) {
        /// A break is in progress; responses only.
        BREAK_IN_PROGRESS = 0x0000_0002;
        /// `parent_lease_key` is set; version 2 only.
        PARENT_LEASE_KEY_SET = 0x0000_0004;
    }
}

/// SMB2_CREATE_REQUEST_LEASE and SMB2_CREATE_RESPONSE_LEASE ([MS-SMB2] 2.2.13.2.8, 2.2.14.2.10).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaseV1 {
    /// Identifies the lease within the client.
    pub lease_key: [u8; 16],
    /// The requested or granted state.
    pub lease_state: LeaseState,
    /// Its properties; reserved in a request.
    pub lease_flags: LeaseFlags,
}

impl LeaseV1 {
    /// The size of the data in bytes.
    pub const SIZE: usize = 32;

    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, Self::SIZE)?;
        Ok(LeaseV1 {
            lease_key: reader.array()?,
            lease_state: LeaseState(reader.u32()?),
            lease_flags: LeaseFlags(reader.u32()?),
        })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::REQUEST_LEASE, |out| {
            out.bytes(&self.lease_key);
            out.u32(self.lease_state.0);
            out.u32(self.lease_flags.0);
            out.u64(0);
        })
    }
}

/// SMB2_CREATE_REQUEST_LEASE_V2 and SMB2_CREATE_RESPONSE_LEASE_V2 ([MS-SMB2] 2.2.13.2.10, 2.2.14.2.11).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaseV2 {
    /// Identifies the lease within the client.
    pub lease_key: [u8; 16],
    /// The requested or granted state.
    pub lease_state: LeaseState,
    /// Its properties.
    pub flags: LeaseFlags,
    /// Identifies the lease of the parent directory.
    pub parent_lease_key: [u8; 16],
    /// Counts the state changes.
    pub epoch: u16,
}

impl LeaseV2 {
    /// The size of the data in bytes.
    pub const SIZE: usize = 52;

    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, Self::SIZE)?;
        let (lease_key, lease_state, flags) = (reader.array()?, LeaseState(reader.u32()?), LeaseFlags(reader.u32()?));
        reader.skip(8)?;
        Ok(LeaseV2 { lease_key, lease_state, flags, parent_lease_key: reader.array()?, epoch: reader.u16()? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::REQUEST_LEASE, |out| {
            out.bytes(&self.lease_key);
            out.u32(self.lease_state.0);
            out.u32(self.flags.0);
            out.u64(0);
            out.bytes(&self.parent_lease_key);
            out.u16(self.epoch);
            out.u16(0);
        })
    }
}

/// The data of `RqLs`. The two versions differ in length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lease {
    /// 32 bytes.
    V1(LeaseV1),
    /// 52 bytes; 3.x only.
    V2(LeaseV2),
}

impl Lease {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        match data.len() {
            LeaseV1::SIZE => LeaseV1::decode(data).map(Lease::V1),
            LeaseV2::SIZE => LeaseV2::decode(data).map(Lease::V2),
            _ => Err(Malformed::Structure),
        }
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        match self {
            Lease::V1(lease) => lease.to_context(),
            Lease::V2(lease) => lease.to_context(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::context_bodies;

    // 2.2.13.2.8: LeaseKey, LeaseState, LeaseFlags, LeaseDuration; 2.2.13.2.10 adds ParentLeaseKey, Epoch, Reserved.
    context_bodies! {
        lease_v1: LeaseV1,
            LeaseV1 {
                lease_key: [7; 16],
                lease_state: LeaseState::READ_CACHING | LeaseState::WRITE_CACHING,
                lease_flags: LeaseFlags::BREAK_IN_PROGRESS,
            } => "07070707070707070707070707070707 05000000 02000000 0000000000000000",
            |s| LeaseV1 {
                lease_key: s.array(),
                lease_state: LeaseState(s.u32()),
                lease_flags: LeaseFlags(s.u32()),
            };
        lease_v2: LeaseV2,
            LeaseV2 {
                lease_key: [7; 16],
                lease_state: LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING,
                flags: LeaseFlags::PARENT_LEASE_KEY_SET,
                parent_lease_key: [8; 16],
                epoch: 0x0102,
            } => "07070707070707070707070707070707 03000000 04000000 0000000000000000
                  08080808080808080808080808080808 0201 0000",
            |s| LeaseV2 {
                lease_key: s.array(),
                lease_state: LeaseState(s.u32()),
                flags: LeaseFlags(s.u32()),
                parent_lease_key: s.array(),
                epoch: s.u16(),
            };
        the_length_tells_the_versions_apart: Lease,
            Lease::V1(LeaseV1::default()) => "0000000000000000000000000000000000000000000000000000000000000000",
            |s| match s.u8() & 1 {
                0 => Lease::V1(LeaseV1 { lease_key: s.array(), ..LeaseV1::default() }),
                _ => Lease::V2(LeaseV2 { lease_key: s.array(), ..LeaseV2::default() }),
            };
    }

    #[test]
    fn other_lengths_are_refused() {
        for length in [0, 31, 33, 51, 53] {
            assert_eq!(Lease::decode(&vec![0; length]), Err(Malformed::Structure), "{length} bytes");
        }
    }
}
