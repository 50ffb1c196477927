//! Security descriptors in self-relative form ([MS-DTYP] 2.4.6). The absolute form and the RPC form are not
//! implemented.

use super::{Acl, Sid};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;

flags! {
    /// The control bits of a security descriptor.
    pub struct Control(u16) {
        /// OD: the owner was set by default.
        OWNER_DEFAULTED = 0x0001;
        /// GD: the group was set by default.
        GROUP_DEFAULTED = 0x0002;
        /// DP: there is a DACL, which may be a NULL DACL.
        DACL_PRESENT = 0x0004;
        /// DD: the DACL was set by default.
        DACL_DEFAULTED = 0x0008;
        /// SP: there is a SACL, which may be a NULL SACL.
        SACL_PRESENT = 0x0010;
        /// SD: the SACL was set by default.
        SACL_DEFAULTED = 0x0020;
        /// DT: the DACL comes from a trusted source.
        DACL_TRUSTED = 0x0040;
        /// SS: a server ACL is to be created.
        SERVER_SECURITY = 0x0080;
        /// DC: the DACL is to be computed through inheritance.
        DACL_COMPUTED_INHERITANCE_REQUIRED = 0x0100;
        /// SC: the SACL is to be computed through inheritance.
        SACL_COMPUTED_INHERITANCE_REQUIRED = 0x0200;
        /// DI: the DACL was created through inheritance.
        DACL_AUTO_INHERITED = 0x0400;
        /// SI: the SACL was created through inheritance.
        SACL_AUTO_INHERITED = 0x0800;
        /// PD: the DACL does not inherit.
        DACL_PROTECTED = 0x1000;
        /// PS: the SACL does not inherit.
        SACL_PROTECTED = 0x2000;
        /// RM: the resource manager's byte is valid.
        RM_CONTROL_VALID = 0x4000;
        /// SR: the descriptor is self-relative.
        SELF_RELATIVE = 0x8000;
    }
}

/// A security descriptor: the owner of an object and the access that users have to it.
///
/// A DACL has three states: present with an ACL; absent (`dacl` is `None` and [`Control::DACL_PRESENT`] is clear); and
/// a NULL DACL, which grants all access to everyone (`dacl` is `None` and the bit is set). The same applies to the
/// SACL.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SecurityDescriptor {
    /// The byte of the resource manager (Sbz1).
    pub resource_manager_control: u8,
    /// Control bits. On the wire, [`Control::SELF_RELATIVE`] and the presence bits of existing ACLs are always set.
    pub control: Control,
    /// The owner.
    pub owner: Option<Sid>,
    /// The primary group.
    pub group: Option<Sid>,
    /// The SACL: auditing.
    pub sacl: Option<Acl>,
    /// The DACL: access rights.
    pub dacl: Option<Acl>,
}

const REVISION: u8 = 1;

impl SecurityDescriptor {
    /// The size of the fixed part before SIDs and ACLs, in bytes.
    pub const FIXED_SIZE: usize = 20;

    /// Returns whether there is a NULL DACL.
    pub fn has_null_dacl(&self) -> bool {
        self.dacl.is_none() && self.control.contains(Control::DACL_PRESENT)
    }

    /// The size on the wire, in bytes.
    pub fn size(&self) -> usize {
        let sid = |sid: &Option<Sid>| sid.as_ref().map_or(0, Sid::size);
        let acl = |acl: &Option<Acl>| acl.as_ref().map_or(0, Acl::size);
        Self::FIXED_SIZE + sid(&self.owner) + sid(&self.group) + acl(&self.sacl) + acl(&self.dacl)
    }

    /// Decodes a descriptor at the start of `bytes`. An ACL whose presence bit is clear is skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != REVISION {
            return Err(Malformed::Structure);
        }
        let resource_manager_control = reader.u8()?;
        let control = Control(reader.u16()?);
        if !control.contains(Control::SELF_RELATIVE) {
            return Err(Malformed::Structure);
        }
        let mut part = || -> Result<Option<Reader<'_>>> {
            match usize::try_from(reader.u32()?).map_err(|_| Malformed::Offset)? {
                0 => Ok(None),
                1..Self::FIXED_SIZE => Err(Malformed::Offset),
                offset => bytes.get(offset..).map(Reader::new).map(Some).ok_or(Malformed::Offset),
            }
        };
        let (owner, group, sacl, dacl) = (part()?, part()?, part()?, part()?);
        let acl = |part: Option<Reader<'_>>, present: Control| match part {
            Some(mut reader) if control.contains(present) => Acl::decode(&mut reader).map(Some),
            _ => Ok(None),
        };
        Ok(SecurityDescriptor {
            resource_manager_control,
            control,
            owner: owner.map(|mut reader| Sid::decode(&mut reader)).transpose()?,
            group: group.map(|mut reader| Sid::decode(&mut reader)).transpose()?,
            sacl: acl(sacl, Control::SACL_PRESENT)?,
            dacl: acl(dacl, Control::DACL_PRESENT)?,
        })
    }

    /// Encodes the descriptor. The parts are in the order of their offset fields, as Samba writes them.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let mut control = self.control | Control::SELF_RELATIVE;
        if self.sacl.is_some() {
            control |= Control::SACL_PRESENT;
        }
        if self.dacl.is_some() {
            control |= Control::DACL_PRESENT;
        }
        out.u8(REVISION);
        out.u8(self.resource_manager_control);
        out.u16(control.0);
        let mut offset = Self::FIXED_SIZE;
        for size in [
            self.owner.as_ref().map(Sid::size),
            self.group.as_ref().map(Sid::size),
            self.sacl.as_ref().map(Acl::size),
            self.dacl.as_ref().map(Acl::size),
        ] {
            let place = if size.is_some() { offset } else { 0 };
            out.u32(u32::try_from(place).expect("two SIDs and two ACLs of at most 64 KiB"));
            offset += size.unwrap_or(0);
        }
        for sid in [&self.owner, &self.group].into_iter().flatten() {
            sid.encode(out);
        }
        for acl in [&self.sacl, &self.dacl].into_iter().flatten() {
            acl.encode(out);
        }
    }

    /// Returns the encoded descriptor.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size());
        self.encode(&mut Writer::new(&mut bytes));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtyp::acl::{Ace, AceBody, AceFlags, AceType};
    use crate::dtyp::{AccessMask, Guid};
    use proptest::prelude::*;

    fn audit(sid: Sid, mask: AccessMask, ace_flags: AceFlags) -> Ace {
        Ace { ace_type: AceType::SYSTEM_AUDIT, ace_flags, body: AceBody::Trustee { mask, sid } }
    }

    fn acl(revision: u8, aces: Vec<Ace>) -> Option<Acl> {
        Some(Acl::new(revision, aces).expect("short"))
    }

    // The descriptor that Samba 4.17's `sharesec --setsddl` stored for
    // O:BAG:BUD:P(A;OICI;0x1f01ff;;;BA)(D;;0x1;;;WD)S:(AU;SA;0x1f01ff;;;WD)
    #[rustfmt::skip]
    const SAMBA: [u8; 132] = [
        1, 0, 0x14, 0x90, 0x14, 0, 0, 0, 0x24, 0, 0, 0, 0x34, 0, 0, 0, 0x50, 0, 0, 0,
        1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0,
        1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x21, 2, 0, 0,
        4, 0, 0x1c, 0, 1, 0, 0, 0,
        2, 0x40, 0x14, 0, 0xff, 1, 0x1f, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
        4, 0, 0x34, 0, 2, 0, 0, 0,
        0, 3, 0x18, 0, 0xff, 1, 0x1f, 0, 1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0,
        1, 0, 0x14, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
    ];

    fn sample() -> SecurityDescriptor {
        let inherit = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
        SecurityDescriptor {
            control: Control(0x9014),
            owner: Some(Sid::BUILTIN_ADMINISTRATORS),
            group: Some(Sid::BUILTIN_USERS),
            sacl: acl(
                Acl::REVISION_DS,
                vec![audit(Sid::EVERYONE, AccessMask::FILE_ALL_ACCESS, AceFlags::SUCCESSFUL_ACCESS)],
            ),
            dacl: acl(
                Acl::REVISION_DS,
                vec![
                    Ace::allow(Sid::BUILTIN_ADMINISTRATORS, AccessMask::FILE_ALL_ACCESS, inherit),
                    Ace::deny(Sid::EVERYONE, AccessMask::FILE_READ_DATA, AceFlags::NONE),
                ],
            ),
            ..Default::default()
        }
    }

    #[test]
    fn a_descriptor_that_samba_wrote() {
        assert_eq!(SecurityDescriptor::decode(&SAMBA), Ok(sample()));
        assert_eq!(sample().to_bytes(), SAMBA);
        assert_eq!(sample().size(), SAMBA.len());
        assert!(sample().control.contains(Control::DACL_PROTECTED));
    }

    #[test]
    fn no_dacl_a_null_dacl_and_an_empty_one_differ() {
        let none = SecurityDescriptor { control: Control::SELF_RELATIVE, ..Default::default() };
        let null = SecurityDescriptor { control: Control::SELF_RELATIVE | Control::DACL_PRESENT, ..Default::default() };
        let empty = SecurityDescriptor { dacl: Some(Acl::empty()), ..null.clone() };
        for (descriptor, length, has_null_dacl) in [(&none, 20, false), (&null, 20, true), (&empty, 28, false)] {
            let bytes = descriptor.to_bytes();
            assert_eq!(bytes.len(), length);
            let decoded = SecurityDescriptor::decode(&bytes).expect("the encoding of this implementation");
            assert_eq!((&decoded, decoded.has_null_dacl()), (descriptor, has_null_dacl));
        }
    }

    #[test]
    fn bounds() {
        let with = |at: usize, value: u8| {
            let mut bytes = SAMBA;
            bytes[at] = value;
            SecurityDescriptor::decode(&bytes)
        };
        assert_eq!(with(0, 2), Err(Malformed::Structure));
        assert_eq!(with(3, 0x10), Err(Malformed::Structure), "not self-relative");
        assert_eq!(with(4, 19), Err(Malformed::Offset), "the owner inside the fixed part");
        assert_eq!(with(4, 133), Err(Malformed::Offset), "the owner beyond the end");
        assert_eq!(with(4, 132), Err(Malformed::Truncated), "the owner at the end");
        assert_eq!(with(19, 1), Err(Malformed::Offset), "the DACL far beyond the end");
        assert_eq!(with(2, 0x10).map(|descriptor| descriptor.dacl), Ok(None), "DP is clear");
        assert_eq!(SecurityDescriptor::decode(&SAMBA[..3]), Err(Malformed::Truncated));
        assert_eq!(SecurityDescriptor::decode(&SAMBA[..131]), Err(Malformed::Truncated));
    }

    fn any_sid() -> impl Strategy<Value = Sid> {
        (0u64..1 << 48, proptest::collection::vec(any::<u32>(), 0..=15))
            .prop_map(|(authority, subs)| Sid::new(authority, &subs).expect("within bounds"))
    }

    fn any_ace() -> impl Strategy<Value = Ace> {
        let trustee = (any_sid(), any::<u32>(), prop_oneof![Just(0u8), Just(1), Just(2), Just(0x11)])
            .prop_map(|(sid, mask, kind)| (kind, AceBody::Trustee { mask: AccessMask(mask), sid }));
        let raw = (4u8..0x10, any::<[u8; 16]>()).prop_map(|(kind, guid)| (kind, AceBody::Raw(Guid(guid).0.into())));
        (prop_oneof![trustee, raw], any::<u8>()).prop_map(|((kind, body), flags)| Ace {
            ace_type: AceType(kind),
            ace_flags: AceFlags(flags),
            body,
        })
    }

    fn any_acl() -> impl Strategy<Value = Option<Acl>> {
        proptest::option::of(
            proptest::collection::vec(any_ace(), 0..8).prop_map(|aces| Acl::new(2, aces).expect("short")),
        )
    }

    proptest! {
        #[test]
        fn round_trips(
            owner in proptest::option::of(any_sid()),
            group in proptest::option::of(any_sid()),
            sacl in any_acl(),
            dacl in any_acl(),
            control: u16,
        ) {
            let mut control = Control(control) | Control::SELF_RELATIVE;
            if sacl.is_some() { control |= Control::SACL_PRESENT; }
            if dacl.is_some() { control |= Control::DACL_PRESENT; }
            let descriptor = SecurityDescriptor { resource_manager_control: 3, control, owner, group, sacl, dacl };
            let bytes = descriptor.to_bytes();
            prop_assert_eq!(bytes.len(), descriptor.size());
            prop_assert_eq!(SecurityDescriptor::decode(&bytes), Ok(descriptor));
        }

        #[test]
        fn damaged_bytes_never_panic(at in 0usize..132, value: u8, length in 0usize..=132) {
            let mut bytes = SAMBA;
            bytes[at] = value;
            if let Ok(descriptor) = SecurityDescriptor::decode(&bytes[..length]) {
                let again = SecurityDescriptor::decode(&descriptor.to_bytes());
                prop_assert_eq!(again, Ok(descriptor));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = SecurityDescriptor::decode(&bytes);
            let _ = Acl::decode(&mut Reader::new(&bytes));
        }
    }
}
