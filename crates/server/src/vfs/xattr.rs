//! The extended attributes in which Samba stores metadata that Linux has no field for. They are kept byte for byte, so
//! that a share can be moved between the two servers without loss.
//!
//! `user.DOSATTRIB`: the DOS attributes and the creation time. Samba 4.17 writes version 5 of its structure. The older
//! versions and the plain text of the oldest releases can be read.
//!
//! A change time set by a client has no field on Linux and none in version 5. It is stored in version 3, which has one.
//! The write time that the file had then is stored with it, in a field (the file's size) that Samba no longer reads.
//! Once the file has been written to again, Linux's own change time is the right one.

use proto::bytes::{Reader, Writer};
use proto::dtyp::FileTime;

use super::{Kind, Time};

/// The attribute's name.
pub const DOSATTRIB: &str = "user.DOSATTRIB";

/// The content of `user.DOSATTRIB`.
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
    /// The time that was set.
    pub time: Time,
    /// The file's write time at that moment. If the write time is a different one, `time` is out of date.
    pub modified: Time,
}

impl ChangeTime {
    /// Returns whether the change time is still valid for a file last written to at `modified`. The structure's unit is
    /// 100 ns.
    pub fn holds(&self, modified: Time) -> bool {
        FileTime::from(self.modified) == FileTime::from(modified)
    }
}

const HAS_ATTRIBUTES: u32 = 0x01;
const HAS_CREATION_TIME: u32 = 0x10;
const HAS_CHANGE_TIME: u32 = 0x20;

/// FILE_ATTRIBUTE_DIRECTORY ([MS-FSCC] 2.6), which Samba stores with the others.
const DIRECTORY: u32 = 0x10;

impl DosAttributes {
    /// Parses the value; `None` for an unknown version.
    ///
    /// It is NDR: the attributes as text (`0x22`; empty from version 4 on), the version, the version again as the
    /// discriminant of a union, and the fields of that version. The oldest releases stored only the text.
    pub fn decode(value: &[u8]) -> Option<DosAttributes> {
        let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
        let (text, _) = value.split_at_checked(end)?;
        if value.len() <= end + 1 {
            let digits = std::str::from_utf8(text.strip_prefix(b"0x")?).ok()?;
            let attributes = u32::from_str_radix(digits, 16).ok()?;
            return Some(DosAttributes { attributes: Some(attributes), created: None, changed: None });
        }
        let mut reader = Reader::new(value);
        reader.skip((end + 1).next_multiple_of(2)).ok()?;
        let version = reader.u16().ok()?;
        reader.skip(2).ok()?;
        reader.skip(reader.position().next_multiple_of(4) - reader.position()).ok()?;
        let valid = match version {
            1 => HAS_ATTRIBUTES | HAS_CREATION_TIME,
            // Its flags have another meaning, and Samba takes no time from it.
            2 => reader.skip(4).ok().map(|()| HAS_ATTRIBUTES)?,
            3..=5 => reader.u32().ok()?,
            _ => return None,
        };
        let attributes = reader.u32().ok()?;
        // The size of its extended attributes, its own size and its allocation size; or the time that forms a file
        // identity.
        let mut modified = 0;
        match version {
            1..=3 => {
                reader.skip(4).ok()?;
                modified = reader.u64().ok()?;
                reader.skip(8).ok()?;
            }
            4 => reader.skip(8).ok()?,
            _ => {}
        }
        let created = reader.u64().ok()?;
        let sets_change_time = version == 3 && valid & HAS_CHANGE_TIME != 0 && modified != 0;
        let changed = if sets_change_time { Some(reader.u64().ok()?) } else { None };
        Some(DosAttributes {
            attributes: (valid & HAS_ATTRIBUTES != 0).then_some(attributes),
            created: (valid & HAS_CREATION_TIME != 0 && created != 0).then(|| time(created)),
            changed: changed.map(|changed| ChangeTime { time: time(changed), modified: time(modified) }),
        })
    }

    /// Returns these attributes as they read back for a file of `kind` once stored: directories have the directory
    /// attribute, and times are multiples of 100 ns.
    pub fn as_stored(self, kind: Kind) -> DosAttributes {
        let directory = if kind == Kind::Directory { DIRECTORY } else { 0 };
        let whole = |time: Time| Time { nanos: time.nanos / 100 * 100, ..time };
        let changed = |set: ChangeTime| ChangeTime { time: whole(set.time), modified: whole(set.modified) };
        DosAttributes {
            attributes: self.attributes.map(|attributes| attributes | directory),
            created: self.created.map(whole),
            changed: self.changed.map(changed),
        }
    }

    /// Serializes the value, in version 5, or in version 3 if it holds a change time.
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

    /// Output of `getfattr -e hex` for a file that Samba 4.17.12 created and set HIDDEN and SYSTEM on.
    const SAMBA_4_17: [u8; 24] = [
        0x00, 0x00, 0x05, 0x00, 0x05, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x00, 0x26, 0x00, 0x00, 0x00, 0x98, 0x88,
        0xd6, 0x79, 0x89, 0x79, 0xdd, 0x01,
    ];

    #[test]
    fn values_written_by_samba_round_trip_byte_for_byte() {
        let decoded = DosAttributes::decode(&SAMBA_4_17).unwrap();
        assert_eq!(decoded.attributes, Some(0x26));
        assert_eq!(decoded.created.unwrap().secs, 1_795_245_925);
        assert_eq!(decoded.encode(), SAMBA_4_17);
    }

    #[test]
    fn a_change_time_is_stored_next_to_its_write_time() {
        let at = |secs| Time { secs, nanos: 100 };
        let changed = ChangeTime { time: at(-1), modified: at(1_795_245_925) };
        let kept = DosAttributes { attributes: Some(0x20), created: Some(at(5)), changed: Some(changed) };
        assert_eq!(DosAttributes::decode(&kept.encode()), Some(kept));
        assert!(changed.holds(Time { secs: 1_795_245_925, nanos: 199 }));
        assert!(!changed.holds(Time { secs: 1_795_245_925, nanos: 200 }));
    }

    /// The versions as the NDR library of Samba 4.17.12 packs them: attributes 0x26, created at 0x01dd798d57c22030.
    const VERSIONS: [&[u8]; 5] = [
        b"0x26\0\0\x01\0\x01\0\0\0\x26\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
          \x30\x20\xc2\x57\x8d\x79\xdd\x01\x05\0\0\0\0\0\0\0",
        b"0x26\0\0\x02\0\x02\0\0\0\0\0\0\0\x26\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
          \x30\x20\xc2\x57\x8d\x79\xdd\x01\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0nm\0",
        b"0x26\0\0\x03\0\x03\0\0\0\x11\0\0\0\x26\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
          \x30\x20\xc2\x57\x8d\x79\xdd\x01\x05\0\0\0\0\0\0\0",
        b"\0\0\x04\0\x04\0\0\0\x11\0\0\0\x26\0\0\0\x07\0\0\0\0\0\0\0\x30\x20\xc2\x57\x8d\x79\xdd\x01",
        b"\0\0\x05\0\x05\0\0\0\x11\0\0\0\x26\0\0\0\x30\x20\xc2\x57\x8d\x79\xdd\x01",
    ];

    #[test]
    fn every_version_is_read() {
        // 2026-11-21 07:53:06.0672560 UTC.
        let created = Some(Time { secs: 1_795_247_586, nanos: 67_256_000 });
        for (version, value) in (1..).zip(VERSIONS) {
            let expected =
                DosAttributes { attributes: Some(0x26), created: created.filter(|_| version != 2), changed: None };
            assert_eq!(DosAttributes::decode(value), Some(expected), "version {version}");
            let needed = if version == 4 || version == 5 { value.len() } else { 40 };
            for length in 5..needed {
                // Cut right after the text, it is a value as stored by the oldest releases.
                let cut = DosAttributes::decode(&value[..length]).filter(|_| length != 5);
                assert_eq!(cut, None, "version {version}, {length} bytes");
            }
        }
        assert_eq!(DosAttributes::decode(VERSIONS[4]).map(|read| read.encode()), Some(VERSIONS[4].to_vec()));
    }

    #[test]
    fn old_and_broken_values() {
        for text in [&b"0x22\0"[..], b"0x22"] {
            assert_eq!(
                DosAttributes::decode(text),
                Some(DosAttributes { attributes: Some(0x22), ..DosAttributes::default() })
            );
        }
        for broken in [&b""[..], b"\0", b"0x", b"0xg\0", b"22\0", &[0; 24], b"\0\0\x06\0\x06\0\0\0", &[0xff; 256]] {
            assert_eq!(DosAttributes::decode(broken), None, "{broken:02x?}");
        }
    }

    #[test]
    fn unknown_values_are_not_stored() {
        let (none, created) = (DosAttributes::default(), Some(Time { secs: -1, nanos: 999_999_900 }));
        for attributes in [DosAttributes { attributes: Some(0x2026), ..none }, DosAttributes { created, ..none }] {
            assert_eq!(DosAttributes::decode(&attributes.encode()), Some(attributes));
        }
    }
}
