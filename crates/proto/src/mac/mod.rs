//! Apple's extensions of SMB 2, as macOS and Samba's module `fruit` use them: the create context `AAPL`, entries of
//! listings with Finder info, the stream `AFP_AfpInfo`, and AppleDouble data.
//!
//! All numbers of the stream and of AppleDouble data are big-endian.

pub mod aapl;
pub mod afp_info;
pub mod apple_double;

/// The name of the stream with the Finder info.
pub const AFP_INFO: &str = "AFP_AfpInfo";
/// The name of the stream with the resource fork.
pub const AFP_RESOURCE: &str = "AFP_Resource";

/// Seconds from 1970 to 2000, the epoch of dates in Apple's structures.
pub const EPOCH: i64 = 946_684_800;

/// Returns the date of a time in seconds since 1970.
pub fn date(seconds: i64) -> u32 {
    let since = seconds.saturating_sub(EPOCH).clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    // Dates before 2000 are negative.
    since as i32 as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_2000() {
        assert_eq!(date(EPOCH), 0);
        assert_eq!(date(EPOCH + 1), 1);
        assert_eq!(date(EPOCH - 1), u32::MAX);
        assert_eq!((date(i64::MIN), date(i64::MAX)), (0x8000_0000, 0x7fff_ffff));
    }
}
