//! Security descriptors as stored by Samba's module `acl_xattr`, in the extended attribute `security.NTACL`.
//!
//! The value is an NDR structure (`xattr_NTACL` of Samba's interface definitions). It has a version, and depending on
//! that the descriptor alone (1) or with hashes (2 to 4). Samba has written version 4 since 4.0. Its second hash covers
//! the POSIX ACLs, owner and mode that the file had at that time ([`system_hash`]), so that changes by other programs
//! are detected. The other hash of versions 2, 3 and 4 covers the descriptor that Samba itself would synthesize from
//! the POSIX ACLs. It is neither checked nor written, because computing it needs Samba's own account database.

use proto::bytes::{Malformed, Reader, Result, Writer};
use proto::crypto::digest::sha256;
use proto::dtyp::{FileTime, SecurityDescriptor};

use crate::acl::model::posix_acl::{Entry, PosixAcl, Tag};
use crate::vfs::{Kind, Metadata};

/// Samba's default name of the attribute, changed by `acl_xattr:security_acl_name`. Only root can write it.
pub const ATTRIBUTE: &str = "security.NTACL";

/// Maximum size in bytes of an attribute value in Linux.
pub const LONGEST: usize = 65_536;

/// The hash type SHA-256.
const HASH_TYPE_SHA256: u16 = 1;

/// Size of a hash field. SHA-256 leaves the second half zero.
const HASH_SIZE: usize = 64;

/// Samba's description of a hash over POSIX ACLs.
const DESCRIPTION: &[u8] = b"posix_acl\0";

/// The value of the first non-NULL pointer. Each further one is 4 higher.
const FIRST_POINTER: u32 = 0x0002_0000;

/// A stored descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The descriptor.
    pub descriptor: SecurityDescriptor,
    /// The condition under which the descriptor is valid.
    pub condition: Condition,
}

/// The condition under which a stored descriptor is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// No condition (versions 1 and 2).
    Always,
    /// The POSIX ACLs have this [`system_hash`] (version 4).
    SystemHash([u8; 32]),
    /// It is not known whether the POSIX ACLs changed (version 3, as written by Samba 3, and with `ignore system
    /// acls`).
    Unknown,
}

/// Decodes a stored value. `None` for an unknown version, which is treated as if nothing were stored.
pub fn decode(value: &[u8]) -> Result<Option<Stored>> {
    let mut reader = Reader::new(value);
    let (version, of_union, pointer) = (reader.u16()?, reader.u16()?, reader.u32()?);
    if !(1..=4).contains(&version) {
        return Ok(None);
    }
    if of_union != version || pointer == 0 || version > 1 && reader.u32()? == 0 {
        return Err(Malformed::Value);
    }
    let condition = match version {
        1 => Condition::Always,
        2 => {
            reader.skip(16)?;
            Condition::Always
        }
        3 => {
            reader.skip(2 + HASH_SIZE)?;
            Condition::Unknown
        }
        _ => {
            let hash_type = reader.u16()?;
            reader.skip(HASH_SIZE)?;
            while reader.u8()? != 0 {}
            align(&mut reader)?;
            FileTime::decode(&mut reader)?;
            let hash = reader.array()?;
            reader.skip(HASH_SIZE - 32)?;
            if hash_type == HASH_TYPE_SHA256 { Condition::SystemHash(hash) } else { Condition::Unknown }
        }
    };
    align(&mut reader)?;
    let descriptor = descriptor_at(value, reader.position())?;
    Ok(Some(Stored { descriptor, condition }))
}

/// NDR aligns 4-byte integers to 4 bytes; Samba does so with times, too.
fn align(reader: &mut Reader<'_>) -> Result<()> {
    reader.skip(reader.position().wrapping_neg() % 4)
}

/// Positions of the offset fields in a security descriptor.
const OFFSETS: [usize; 4] = [4, 8, 12, 16];

/// Decodes the descriptor at `start`, whose offsets are relative to the start of the value.
fn descriptor_at(value: &[u8], start: usize) -> Result<SecurityDescriptor> {
    let mut bytes = value.get(start..).ok_or(Malformed::Truncated)?.to_vec();
    for place in OFFSETS {
        let field = bytes.get_mut(place..place + 4).ok_or(Malformed::Truncated)?;
        let offset = u32::from_le_bytes(field.try_into().map_err(|_| Malformed::Truncated)?);
        if offset != 0 {
            let moved = offset.checked_sub(start as u32).filter(|&moved| moved != 0).ok_or(Malformed::Offset)?;
            field.copy_from_slice(&moved.to_le_bytes());
        }
    }
    SecurityDescriptor::decode(&bytes)
}

/// Encodes the value that stores `descriptor` at `time` for a file whose POSIX ACLs have the hash `system_hash`
/// (version 4).
pub fn encode(descriptor: &SecurityDescriptor, system_hash: [u8; 32], time: FileTime) -> Vec<u8> {
    let mut value = Vec::with_capacity(160 + descriptor.size());
    let mut out = begin(&mut value, 4);
    out.bytes(DESCRIPTION);
    out.pad_to(4);
    time.encode(&mut out);
    out.bytes(&system_hash);
    out.zeros(HASH_SIZE - system_hash.len());
    append(&mut value, descriptor);
    value
}

/// Position of the time in a value of version 4 with our [`DESCRIPTION`].
const TIME: usize = 88;

/// Sets the time of a `value` that was encoded by [`encode`].
pub(crate) fn set_time(value: &mut [u8], time: FileTime) {
    if let Some(field) = value.get_mut(TIME..TIME + 8) {
        field.copy_from_slice(&time.0.to_le_bytes());
    }
}

/// Encodes the value that stores `descriptor` where POSIX ACLs are ignored (version 3): `ignore system acls`.
pub fn encode_unconditional(descriptor: &SecurityDescriptor) -> Vec<u8> {
    let mut value = Vec::with_capacity(80 + descriptor.size());
    begin(&mut value, 3).pad_to(4);
    append(&mut value, descriptor);
    value
}

/// Writes version, pointers, and an all-zero hash that matches no descriptor.
fn begin(value: &mut Vec<u8>, version: u16) -> Writer<'_> {
    let mut out = Writer::new(value);
    out.u16(version);
    out.u16(version);
    out.u32(FIRST_POINTER);
    out.u32(FIRST_POINTER + 4);
    out.u16(HASH_TYPE_SHA256);
    out.zeros(HASH_SIZE);
    out
}

fn append(value: &mut Vec<u8>, descriptor: &SecurityDescriptor) {
    let start = value.len();
    let mut bytes = descriptor.to_bytes();
    for place in OFFSETS {
        if let Some(field) = bytes.get_mut(place..place + 4)
            && field != [0; 4]
        {
            let offset = u32::from_le_bytes([field[0], field[1], field[2], field[3]]) + start as u32;
            field.copy_from_slice(&offset.to_le_bytes());
        }
    }
    value.extend_from_slice(&bytes);
}

/// Computes the SHA-256 of a file's permissions in Linux, in Samba's layout (`smb_acl_wrapper`): the POSIX ACLs, owner,
/// group, and mode with the type of file. A directory always has a second ACL, which may be empty.
pub fn system_hash(metadata: &Metadata, access: &PosixAcl, default: Option<&PosixAcl>) -> [u8; 32] {
    hash_of(metadata.kind, (metadata.uid, metadata.gid), metadata.mode, access, default)
}

/// As [`system_hash`], for a file of this kind, owner and group.
pub(crate) fn hash_of(
    kind: Kind,
    (uid, gid): (u32, u32),
    mode: u32,
    access: &PosixAcl,
    default: Option<&PosixAcl>,
) -> [u8; 32] {
    let directory = kind == Kind::Directory;
    let kind = match kind {
        Kind::Directory => 0o040_000,
        Kind::Symlink => 0o120_000,
        Kind::File | Kind::Special => 0o100_000,
    };
    let mut bytes = Vec::with_capacity(256);
    let mut out = Writer::new(&mut bytes);
    out.u32(FIRST_POINTER);
    out.u32(if directory { FIRST_POINTER + 4 } else { 0 });
    out.u64(uid.into());
    out.u64(gid.into());
    out.u32(kind | mode);
    list(&mut out, access.entries());
    if directory {
        list(&mut out, default.map_or(&[], PosixAcl::entries));
    }
    sha256(&bytes)
}

fn list(out: &mut Writer<'_>, entries: &[Entry]) {
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    out.u32(count);
    out.pad_to(8);
    out.u32(count);
    out.u32(0);
    for entry in entries {
        let (tag, id) = match entry.tag {
            Tag::User(id) => (1, Some(id)),
            Tag::Owner => (2, None),
            Tag::Group(id) => (3, Some(id)),
            Tag::OwningGroup => (4, None),
            Tag::Other => (5, None),
            Tag::Mask => (6, None),
        };
        out.pad_to(8);
        out.u16(tag);
        out.u16(tag);
        if let Some(id) = id {
            out.pad_to(8);
            out.u64(id.into());
        }
        out.u32(entry.permissions.into());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto::dtyp::acl::{Ace, AceFlags};
    use proto::dtyp::security_descriptor::Control;
    use proto::dtyp::{AccessMask, Acl, Sid};

    use super::*;
    use crate::testing::metadata;

    /// Written by smbd 4.17.12 (Debian) for `smbcacls -S` with
    /// `OWNER:alice,GROUP:S-1-22-2-64210,ACL:alice:ALLOWED/0/FULL, ACL:S-1-22-2-64210:ALLOWED/0/R,ACL:bob:DENIED/0/W`
    /// on a file of user 64201 and group 64210.
    const FILE: &str = "
        04000400000002000400020001003030a2cfb797a14300cf5386d716bceb009769b04e07d83f6304d475ba049fb4000000000000000000
        0000000000000000000000000000000000000000000000706f7369785f61636c002833d66cb879dd01075b61425c77dc85f0470aceb98d
        49dc0b27064a49ea8be9fbe3ef8d0702bcfb00000000000000000000000000000000000000000000000000000000000000000100
        1480b4000000d000000000000000e00000000105000000000005150000006902a254dd626685c3803955e8030000010200000000001602
        000000d2fa0000030068000300000001002400160112000105000000000005150000006902a254dd626685c3803955e903000000001800
        89001200010200000000001602000000d2fa000000002400ff011f000105000000000005150000006902a254dd626685c3803955e80300
        00";
    /// `system.posix_acl_access` of that file at that time.
    const FILE_LIST: &str = "
        0200000001000700ffffffff02000700c9fa000002000400cafa000004000400ffffffff08000400d2fa000010000700ffffffff
        20000000ffffffff";
    /// The same server, `smbcacls -S ACL:alice:ALLOWED/0/FULL` on a directory of user and group 64201.
    const DIRECTORY: &str = "
        0400040000000200040002000100e88192ca701981fb1c435b9e726ed92879c45aa4f071ef9c68c3cde54ab66918000000000000000000
        0000000000000000000000000000000000000000000000706f7369785f61636c006e043060b879dd0162afcc74251542fce406efb62f68
        3bc47f51d95ccfc0d31a27aff5a711a2566f000000000000000000000000000000000000000000000000000000000000000001000480b4
        000000d000000000000000ec0000000105000000000005150000006902a254dd626685c3803955e8030000010500000000000515000000
        6902a254dd626685c38039550102000003002c000100000000002400ff011f000105000000000005150000006902a254dd626685c38039
        55e8030000";
    const DIRECTORY_LIST: &str = "
        0200000001000700ffffffff02000700c9fa000004000000ffffffff08000000c9fa000010000700ffffffff20000000ffffffff";
    /// The same server with `acl_xattr:ignore system acls = yes`: alice has full control, bob is denied writing.
    const IGNORING: &str = "
        0300030000000200040002000100000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000010004806400000080000000000000009000000001050000000000051500
        00006902a254dd626685c3803955e8030000010200000000001602000000c9fa0000030050000200000001002400160112000105000000
        000005150000006902a254dd626685c3803955e903000000002400ff011f000105000000000005150000006902a254dd626685c3803955
        e8030000";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn stored(hex: &str) -> Stored {
        decode(&bytes(hex)).expect("an attribute written by Samba").expect("a known version")
    }

    #[test]
    fn descriptors_stored_by_samba_are_read() {
        let account = |rid| Sid::of(5, [21, 0x54a2_0269, 0x8566_62dd, 0x5539_80c3, rid]);
        let (alice, bob) = (account(1000), account(1001));
        let full = Ace::allow(alice, AccessMask::FILE_ALL_ACCESS, AceFlags::NONE);
        let denied = Ace::deny(bob, AccessMask::FILE_GENERIC_WRITE, AceFlags::NONE);
        let read = Ace::allow(Sid::unix_group(64_210), AccessMask::FILE_GENERIC_READ, AceFlags::NONE);
        for (hex, group, aces) in [
            (FILE, Sid::unix_group(64_210), vec![denied.clone(), read, full.clone()]),
            (DIRECTORY, account(513), vec![full.clone()]),
            (IGNORING, Sid::unix_group(64_201), vec![denied, full]),
        ] {
            let Stored { descriptor, .. } = stored(hex);
            assert_eq!((descriptor.owner, descriptor.group), (Some(alice), Some(group)));
            assert_eq!(descriptor.dacl, Acl::new(3, aces));
        }
        assert_eq!(stored(IGNORING).condition, Condition::Unknown);
    }

    #[test]
    fn the_hash_is_samba_s() {
        let list = |hex| PosixAcl::decode(&bytes(hex)).expect("an ACL written by the kernel");
        for (hex, kind, gid, access) in
            [(FILE, Kind::File, 64_210, list(FILE_LIST)), (DIRECTORY, Kind::Directory, 64_201, list(DIRECTORY_LIST))]
        {
            let hash = |mode| system_hash(&metadata(kind, mode, (64_201, gid)), &access, None);
            assert_eq!(stored(hex).condition, Condition::SystemHash(hash(0o770)));
            assert_ne!(hash(0o771), hash(0o770));
        }
    }

    /// The value is as Samba writes it except for the hash that needs Samba's account database.
    #[test]
    fn written_values_match_those_of_samba() {
        for hex in [FILE, DIRECTORY] {
            let (mut theirs, read) = (bytes(hex), stored(hex));
            let Condition::SystemHash(hash) = read.condition else { panic!("version 4 has one") };
            theirs[14..46].fill(0);
            let time = FileTime(u64::from_le_bytes(theirs[88..96].try_into().expect("eight")));
            assert_eq!(encode(&read.descriptor, hash, time), theirs);
            let mut later = encode(&read.descriptor, hash, FileTime(1));
            set_time(&mut later, time);
            assert_eq!(later, theirs);
        }
        assert_eq!(encode_unconditional(&stored(IGNORING).descriptor), bytes(IGNORING));
    }

    #[test]
    fn older_and_newer_versions() {
        let descriptor = stored(FILE).descriptor;
        let with_head = |head: &[u8]| {
            let mut value = head.to_vec();
            append(&mut value, &descriptor);
            decode(&value)
        };
        let expected = Stored { descriptor: descriptor.clone(), condition: Condition::Always };
        assert_eq!(with_head(&[1, 0, 1, 0, 0, 0, 2, 0]), Ok(Some(expected.clone())));
        let mut second = vec![2, 0, 2, 0, 0, 0, 2, 0, 4, 0, 2, 0];
        second.resize(28, 7);
        assert_eq!(with_head(&second), Ok(Some(expected)));
        assert_eq!(with_head(&[5, 0, 5, 0, 0, 0, 2, 0]), Ok(None));
        assert_eq!(with_head(&[1, 0, 2, 0, 0, 0, 2, 0]), Err(Malformed::Value));
        assert_eq!(with_head(&[1, 0, 1, 0, 0, 0, 0, 0]), Err(Malformed::Value), "a NULL pointer");
        let null = SecurityDescriptor {
            control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
            ..SecurityDescriptor::default()
        };
        let value = encode(&null, [1; 32], FileTime(7));
        assert_eq!(decode(&value).map(|stored| stored.map(|stored| stored.descriptor)), Ok(Some(null)));
    }

    proptest! {
        #[test]
        fn damaged_values_never_panic(at in 0usize..330, value: u8, length in 0usize..=330) {
            let mut damaged = bytes(FILE);
            if let Some(byte) = damaged.get_mut(at) {
                *byte = value;
            }
            let _ = decode(&damaged[..length.min(damaged.len())]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
