//! The extended attributes in which Samba keeps what Linux has no place for, byte for byte, so that a share changes
//! hands without losing any of it.
//!
//! `user.DOSATTRIB`: the DOS attributes and the creation time. Samba 4.17 writes version 5 of its structure; versions 1,
//! 3 and 4 and the plain text of the oldest releases are read.
//!
//! A change time that a client set has no place on Linux and none in version 5. It is kept in version 3, which has one,
//! together with the write time beside which it was set, in a field (the file's size) that Samba no longer reads: once
//! the file was written to again, Linux's own change time is the right one.

use proto::bytes::{Reader, Writer};
use proto::dtyp::FileTime;

use super::Time;

/// The attribute's name.
pub const DOSATTRIB: &str = "user.DOSATTRIB";

/// What `user.DOSATTRIB` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DosAttributes {
    /// The attributes ([MS-FSCC] 2.6 bits), where they are stored.
    pub attributes: Option<u32>,
    /// The creation time, where it is stored.
    pub created: Option<Time>,
    /// The change time that a client set.
    pub changed: Option<ChangeTime>,
}

/// A change time that a client set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeTime {
    /// What it set.
    pub time: Time,
    /// The write time that the file had then: with another one, `time` is out of date.
    pub modified: Time,
}

impl ChangeTime {
    /// Whether it still holds for a file that was last written to at `modified`. The structure counts 100 ns.
    pub fn holds(&self, modified: Time) -> bool {
        FileTime::from(self.modified) == FileTime::from(modified)
    }
}

const HAS_ATTRIBUTES: u32 = 0x01;
const HAS_CREATION_TIME: u32 = 0x10;
const HAS_CHANGE_TIME: u32 = 0x20;

impl DosAttributes {
    /// Reads the value; `None` where it is of no version that is known.
    pub fn decode(value: &[u8]) -> Option<DosAttributes> {
        if let Some(text) = value.strip_prefix(b"0x") {
            let digits = text.split(|&byte| byte == 0).next()?;
            let attributes = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            return Some(DosAttributes { attributes: Some(attributes), created: None, changed: None });
        }
        let mut reader = Reader::new(value);
        // An empty text, the version, and the version once more as the discriminant of a union.
        reader.skip(2).ok()?;
        let version = reader.u16().ok()?;
        reader.skip(4).ok()?;
        match version {
            1 => {
                let attributes = reader.u32().ok()?;
                reader.skip(4 + 8 + 8).ok()?;
                let created = reader.u64().ok()?;
                Some(Self::of(HAS_ATTRIBUTES | HAS_CREATION_TIME, attributes, created))
            }
            3 => {
                let (valid, attributes) = (reader.u32().ok()?, reader.u32().ok()?);
                reader.skip(4).ok()?;
                let modified = reader.u64().ok()?;
                reader.skip(8).ok()?;
                let read = Self::of(valid, attributes, reader.u64().ok()?);
                let changed = reader.u64().ok()?;
                let set = valid & HAS_CHANGE_TIME != 0 && modified != 0;
                let changed = set.then(|| ChangeTime { time: time(changed), modified: time(modified) });
                Some(DosAttributes { changed, ..read })
            }
            4 | 5 => {
                let (valid, attributes) = (reader.u32().ok()?, reader.u32().ok()?);
                reader.skip(if version == 4 { 8 } else { 0 }).ok()?;
                Some(Self::of(valid, attributes, reader.u64().ok()?))
            }
            _ => None,
        }
    }

    fn of(valid: u32, attributes: u32, created: u64) -> DosAttributes {
        DosAttributes {
            attributes: (valid & HAS_ATTRIBUTES != 0).then_some(attributes),
            created: (valid & HAS_CREATION_TIME != 0 && created != 0).then(|| time(created)),
            changed: None,
        }
    }

    /// Writes the value, in version 5, or in version 3 where it holds a change time.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(52);
        let mut out = Writer::new(&mut value);
        let version = if self.changed.is_some() { 3 } else { 5 };
        out.u16(0);
        out.u16(version);
        out.u32(version.into());
        let valid = self.attributes.map_or(0, |_| HAS_ATTRIBUTES)
            | self.created.map_or(0, |_| HAS_CREATION_TIME)
            | self.changed.map_or(0, |_| HAS_CHANGE_TIME);
        out.u32(valid);
        out.u32(self.attributes.unwrap_or(0));
        if let Some(changed) = self.changed {
            out.u32(0);
            out.u64(FileTime::from(changed.modified).0);
            out.u64(0);
        }
        out.u64(self.created.map_or(0, |time| FileTime::from(time).0));
        if let Some(changed) = self.changed {
            out.u64(FileTime::from(changed.time).0);
        }
        value
    }
}

fn time(wire: u64) -> Time {
    let (secs, nanos) = FileTime(wire).to_unix();
    Time { secs, nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `getfattr -e hex` of a file that Samba 4.17.12 made and set HIDDEN and SYSTEM on.
    const SAMBA_4_17: [u8; 24] = [
        0x00, 0x00, 0x05, 0x00, 0x05, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x00, 0x26, 0x00, 0x00, 0x00, 0x98, 0x88,
        0xd6, 0x79, 0x89, 0x79, 0xdd, 0x01,
    ];

    #[test]
    fn what_samba_wrote_is_read_and_written_back_byte_for_byte() {
        let decoded = DosAttributes::decode(&SAMBA_4_17).unwrap();
        assert_eq!(decoded.attributes, Some(0x26));
        assert_eq!(decoded.created.unwrap().secs, 1_795_245_925);
        assert_eq!(decoded.encode(), SAMBA_4_17);
    }

    #[test]
    fn a_change_time_is_kept_beside_its_write_time() {
        let at = |secs| Time { secs, nanos: 100 };
        let changed = ChangeTime { time: at(-1), modified: at(1_795_245_925) };
        let kept = DosAttributes { attributes: Some(0x20), created: Some(at(5)), changed: Some(changed) };
        assert_eq!(DosAttributes::decode(&kept.encode()), Some(kept));
        assert!(changed.holds(Time { secs: 1_795_245_925, nanos: 199 }));
        assert!(!changed.holds(Time { secs: 1_795_245_925, nanos: 200 }));
    }

    #[test]
    fn old_and_broken_values() {
        assert_eq!(DosAttributes::decode(b"0x22\0").unwrap().attributes, Some(0x22));
        for length in 0..SAMBA_4_17.len() {
            assert_eq!(DosAttributes::decode(&SAMBA_4_17[..length]), None, "{length}");
        }
    }
}
