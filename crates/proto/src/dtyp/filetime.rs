//! FILETIME ([MS-DTYP] 2.3.3) as [MS-FSCC] 2.1.1 uses it, and its conversion from and to Unix time.

use crate::bytes::{Reader, Result, Writer};

/// Units of 100 ns since 1601-01-01 UTC. [MS-FSCC] 2.1.1 treats the 64 bits as signed: a negative value is not a time,
/// and two of the negative values have special meanings when times are set ([MS-FSCC] 2.4.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FileTime(pub u64);

const UNITS_PER_SECOND: i128 = 10_000_000;
const SECONDS_FROM_1601_TO_1970: i128 = 11_644_473_600;

impl FileTime {
    /// The size on the wire, in bytes.
    pub const SIZE: usize = 8;

    /// 0: in a response, the time is unknown; in a request, the time stays unchanged.
    pub const UNSET: FileTime = FileTime(0);

    /// -1 in a request: operations through this handle no longer update this time.
    pub const STOP_UPDATES: FileTime = FileTime(u64::MAX);

    /// -2 in a request: operations through this handle update this time again.
    pub const RESUME_UPDATES: FileTime = FileTime(u64::MAX - 1);

    /// The latest time.
    pub const MAX: FileTime = FileTime(i64::MAX as u64);

    /// The time `secs` and `nanos` after 1970-01-01 UTC, rounded down to 100 ns. `secs` may be negative; `nanos` counts
    /// forward. A time outside the years 1601 to 30828 becomes the nearest limit.
    pub fn from_unix(secs: i64, nanos: u32) -> FileTime {
        let units = (i128::from(secs) + SECONDS_FROM_1601_TO_1970) * UNITS_PER_SECOND + i128::from(nanos / 100);
        FileTime(units.clamp(0, i128::from(Self::MAX.0)) as u64)
    }

    /// Returns seconds and nanoseconds since 1970-01-01 UTC; the nanoseconds count forward. A value that is not a time
    /// becomes the latest time.
    pub fn to_unix(self) -> (i64, u32) {
        let units = i128::from(self.min(Self::MAX).0);
        let secs = units.div_euclid(UNITS_PER_SECOND) - SECONDS_FROM_1601_TO_1970;
        (secs as i64, (units.rem_euclid(UNITS_PER_SECOND) * 100) as u32)
    }

    /// Returns whether this is a point in time: neither 0 nor negative.
    pub const fn is_time(self) -> bool {
        self.0 != 0 && self.0 <= Self::MAX.0
    }

    /// Returns whether FileBasicInformation may contain this value when times are set: any value that is not below -2
    /// ([MS-FSCC] 2.4.7).
    pub const fn is_settable(self) -> bool {
        self.0 as i64 >= -2
    }

    /// Reads the next eight bytes.
    pub fn decode(reader: &mut Reader<'_>) -> Result<FileTime> {
        reader.u64().map(FileTime)
    }

    /// Appends the eight bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u64(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        for (units, secs, nanos) in [
            (116_444_736_000_000_000, 0, 0),
            (116_444_735_999_999_999, -1, 999_999_900),
            (125_911_584_000_000_000, 946_684_800, 0),
            (1, -11_644_473_600, 100),
            (0, -11_644_473_600, 0),
        ] {
            assert_eq!(FileTime(units).to_unix(), (secs, nanos));
            assert_eq!(FileTime::from_unix(secs, nanos), FileTime(units));
        }
    }

    #[test]
    fn times_out_of_range_saturate() {
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(0));
        assert_eq!(FileTime::from_unix(i64::MAX, u32::MAX), FileTime::MAX);
        assert_eq!(FileTime(u64::MAX).to_unix(), FileTime::MAX.to_unix());
        assert_eq!(FileTime::from_unix(0, 199), FileTime(116_444_736_000_000_001));
    }

    #[test]
    fn special_values() {
        for (time, is_time, is_settable) in [
            (FileTime::UNSET, false, true),
            (FileTime::STOP_UPDATES, false, true),
            (FileTime::RESUME_UPDATES, false, true),
            (FileTime((-3i64) as u64), false, false),
            (FileTime(1 << 63), false, false),
            (FileTime::MAX, true, true),
        ] {
            assert_eq!((time.is_time(), time.is_settable()), (is_time, is_settable), "{time:?}");
        }
    }

    proptest! {
        #[test]
        fn unix_times_round_trip(units in 0..=FileTime::MAX.0) {
            let (secs, nanos) = FileTime(units).to_unix();
            prop_assert!(nanos < 1_000_000_000);
            prop_assert_eq!(FileTime::from_unix(secs, nanos), FileTime(units));
        }
    }
}
