//! The list of snapshots (SRV_SNAPSHOT_ARRAY, [MS-SMB2] 2.2.32.2).

use crate::bytes::{Malformed, Reader, Result, Writer, utf16_bytes, utf16_units};
use crate::smb2::{size, u32_of};

/// The output of FSCTL_SRV_ENUMERATE_SNAPSHOTS.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SnapshotArray {
    /// The number of snapshots.
    pub number_of_snapshots: u32,
    /// The size of the complete array in bytes, even if it is not included.
    pub snapshot_array_size: u32,
    /// The `@GMT-YYYY.MM.DD-HH.MM.SS` name of each snapshot; empty if the client's buffer was too small for all of
    /// them.
    pub snapshots: Vec<String>,
}

impl SnapshotArray {
    /// The size before the array, in bytes.
    pub const SIZE: usize = 12;

    /// The output for these snapshots in a buffer of `max_output_response` bytes: all of them or none.
    pub fn new(snapshots: Vec<String>, max_output_response: u32) -> Self {
        let array_size = Self::array(&snapshots).len();
        let fits = Self::SIZE + array_size <= size(max_output_response);
        SnapshotArray {
            number_of_snapshots: u32_of(snapshots.len()),
            snapshot_array_size: u32_of(array_size),
            snapshots: if fits { snapshots } else { Vec::new() },
        }
    }

    /// Encodes the names, each with a terminating null character, and one more at the end.
    fn array(snapshots: &[String]) -> Vec<u8> {
        let mut array: Vec<u8> = snapshots.iter().flat_map(|name| utf16_bytes(&format!("{name}\0"))).collect();
        array.extend([0, 0]);
        array
    }

    /// Decodes the output. Names that are not UTF-16 are refused.
    pub fn decode(output: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(output);
        let (number_of_snapshots, returned) = (reader.u32()?, size(reader.u32()?));
        let snapshot_array_size = reader.u32()?;
        let mut snapshots = Vec::new();
        if returned != 0 {
            let units = utf16_units(reader.take(size(snapshot_array_size))?).ok_or(Malformed::Value)?;
            for name in units.split(|unit| *unit == 0).take_while(|name| !name.is_empty()) {
                snapshots.push(String::from_utf16(name).map_err(|_| Malformed::Value)?);
            }
            if snapshots.len() != returned {
                return Err(Malformed::Value);
            }
        }
        Ok(SnapshotArray { number_of_snapshots, snapshot_array_size, snapshots })
    }

    /// Encodes the output. Without names it ends in four zero bytes, because Windows answers a probe with 16 bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.number_of_snapshots);
        out.u32(u32_of(self.snapshots.len()));
        out.u32(self.snapshot_array_size);
        if self.snapshots.is_empty() {
            out.zeros(4);
        } else {
            out.bytes(&Self::array(&self.snapshots));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden_part, hex, parts_round_trip};

    const NAME: &str = "@GMT-2000.01.02-03.04.05";

    // 2.2.32.2: NumberOfSnapShots, NumberOfSnapShotsReturned, SnapShotArraySize, SnapShots.
    #[test]
    fn all_names_or_none() {
        let names = vec![NAME.to_owned()];
        let array: String = NAME.bytes().map(|byte| format!("{byte:02x}00")).collect();
        let all = SnapshotArray::new(names.clone(), 12 + 52);
        golden_part!(SnapshotArray, all, &format!("01000000 01000000 34000000 {array} 0000 0000"));
        golden_part!(SnapshotArray, SnapshotArray::new(names, 12 + 51), "01000000 00000000 34000000 00000000");
    }

    #[test]
    fn missing_names_are_refused() {
        for (output, error) in [
            ("02000000 02000000 06000000 6100 0000 0000", Malformed::Value),
            ("01000000 01000000 06000000 6100 0000", Malformed::Truncated),
            ("01000000 01000000 05000000 6100 0000 00", Malformed::Value),
            ("01000000 01000000 06000000 00d8 0000 0000", Malformed::Value),
        ] {
            assert_eq!(SnapshotArray::decode(&hex(output)), Err(error), "{output}");
        }
    }

    parts_round_trip! {
        lists_round_trip: SnapshotArray = |s| {
            let names = s.list(|s| format!("@GMT-{:04}", s.u16()));
            SnapshotArray::new(names, s.u32())
        };
    }
}
