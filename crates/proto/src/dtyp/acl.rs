//! Access control lists and their entries ([MS-DTYP] 2.4.4, 2.4.5). The order of entries is kept, canonical or not.
//!
//! Entries that consist of a mask and a SID are decoded. The others (object, callback, compound, resource attribute)
//! stay raw, because a file server has no object types and does not evaluate conditional expressions.

use super::{AccessMask, Sid};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;
use crate::values::values;

values! {
    /// The type of an entry ([MS-DTYP] 2.4.4.1).
    pub struct AceType(u8) {
        /// Grants rights.
        ACCESS_ALLOWED = 0x00;
        /// Denies rights.
        ACCESS_DENIED = 0x01;
        /// Generates audit messages.
        SYSTEM_AUDIT = 0x02;
        /// Reserved.
        SYSTEM_ALARM = 0x03;
        /// Reserved.
        ACCESS_ALLOWED_COMPOUND = 0x04;
        /// Grants rights to a type of object.
        ACCESS_ALLOWED_OBJECT = 0x05;
        /// Denies rights to a type of object.
        ACCESS_DENIED_OBJECT = 0x06;
        /// Audits a type of object.
        SYSTEM_AUDIT_OBJECT = 0x07;
        /// Reserved.
        SYSTEM_ALARM_OBJECT = 0x08;
        /// Grants rights under a condition.
        ACCESS_ALLOWED_CALLBACK = 0x09;
        /// Denies rights under a condition.
        ACCESS_DENIED_CALLBACK = 0x0a;
        /// Grants rights to a type of object under a condition.
        ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0b;
        /// Denies rights to a type of object under a condition.
        ACCESS_DENIED_CALLBACK_OBJECT = 0x0c;
        /// Audits under a condition.
        SYSTEM_AUDIT_CALLBACK = 0x0d;
        /// Reserved.
        SYSTEM_ALARM_CALLBACK = 0x0e;
        /// Audits a type of object under a condition.
        SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0f;
        /// Reserved.
        SYSTEM_ALARM_CALLBACK_OBJECT = 0x10;
        /// The integrity level.
        SYSTEM_MANDATORY_LABEL = 0x11;
        /// A claim about the object.
        SYSTEM_RESOURCE_ATTRIBUTE = 0x12;
        /// The central policy that applies.
        SYSTEM_SCOPED_POLICY_ID = 0x13;
    }
}

impl AceType {
    /// Returns whether an entry of this type consists of a mask and a SID only.
    const fn is_trustee(self) -> bool {
        matches!(self.0, 0x00..=0x03 | 0x11 | 0x13)
    }
}

flags! {
    /// How an entry is inherited and audited ([MS-DTYP] 2.4.4.1).
    pub struct AceFlags(u8) {
        /// Files inherit it.
        OBJECT_INHERIT = 0x01;
        /// Directories inherit it.
        CONTAINER_INHERIT = 0x02;
        /// Inherited by direct children only, which do not pass it on.
        NO_PROPAGATE_INHERIT = 0x04;
        /// It has no effect on the object itself.
        INHERIT_ONLY = 0x08;
        /// It was inherited.
        INHERITED = 0x10;
        /// Audits successful accesses.
        SUCCESSFUL_ACCESS = 0x40;
        /// Audits failed accesses.
        FAILED_ACCESS = 0x80;
    }
}

/// The part of an entry after its header.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AceBody {
    /// Rights and the trustee that they are for.
    Trustee {
        /// The rights.
        mask: AccessMask,
        /// The trustee.
        sid: Sid,
    },
    /// All bytes after the header of an entry of another type.
    Raw(Box<[u8]>),
}

/// An access control entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ace {
    /// The type.
    pub ace_type: AceType,
    /// How it is inherited and audited.
    pub ace_flags: AceFlags,
    /// The rights and the trustee, or raw bytes.
    pub body: AceBody,
}

const ACE_HEADER_SIZE: usize = 4;

impl Ace {
    /// Creates an entry that grants `mask` to `sid`.
    pub fn allow(sid: Sid, mask: AccessMask, ace_flags: AceFlags) -> Ace {
        Ace { ace_type: AceType::ACCESS_ALLOWED, ace_flags, body: AceBody::Trustee { mask, sid } }
    }

    /// Creates an entry that denies `mask` to `sid`.
    pub fn deny(sid: Sid, mask: AccessMask, ace_flags: AceFlags) -> Ace {
        Ace { ace_type: AceType::ACCESS_DENIED, ace_flags, body: AceBody::Trustee { mask, sid } }
    }

    /// Returns the rights and the trustee of an entry that is not raw.
    pub fn trustee(&self) -> Option<(AccessMask, &Sid)> {
        match &self.body {
            AceBody::Trustee { mask, sid } => Some((*mask, sid)),
            AceBody::Raw(_) => None,
        }
    }

    /// The size on the wire, in bytes.
    pub fn size(&self) -> usize {
        ACE_HEADER_SIZE
            + match &self.body {
                AceBody::Trustee { sid, .. } => 4 + sid.size(),
                AceBody::Raw(bytes) => bytes.len(),
            }
    }

    // Bytes within AceSize after the SID of a trustee entry are not interpreted ([MS-DTYP] 2.4.4.1) and are dropped.
    fn decode(reader: &mut Reader<'_>) -> Result<Ace> {
        let ace_type = AceType(reader.u8()?);
        let ace_flags = AceFlags(reader.u8()?);
        let size = usize::from(reader.u16()?);
        if !size.is_multiple_of(4) {
            return Err(Malformed::Value);
        }
        let body = reader.take(size.checked_sub(ACE_HEADER_SIZE).ok_or(Malformed::Value)?)?;
        let body = if ace_type.is_trustee() {
            let mut reader = Reader::new(body);
            AceBody::Trustee { mask: AccessMask(reader.u32()?), sid: Sid::decode(&mut reader)? }
        } else {
            AceBody::Raw(body.into())
        };
        Ok(Ace { ace_type, ace_flags, body })
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.u8(self.ace_type.0);
        out.u8(self.ace_flags.0);
        out.u16(u16::try_from(self.size()).expect("Acl::new bounds the sum of all sizes"));
        match &self.body {
            AceBody::Trustee { mask, sid } => {
                out.u32(mask.0);
                sid.encode(out);
            }
            AceBody::Raw(bytes) => out.bytes(bytes),
        }
    }
}

/// An access control list that fits into its 16-bit size.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Acl {
    revision: u8,
    aces: Vec<Ace>,
}

impl Acl {
    /// ACL_REVISION: no object entries.
    pub const REVISION: u8 = 2;

    /// ACL_REVISION_DS: object entries may occur.
    pub const REVISION_DS: u8 = 4;

    const HEADER_SIZE: usize = 8;

    /// Creates an ACL of `aces` in this order; `None` if it is longer than 65,535 bytes, or if the size of a raw entry
    /// is not a multiple of four.
    pub fn new(revision: u8, aces: Vec<Ace>) -> Option<Acl> {
        let acl = Acl { revision, aces };
        let is_aligned = acl.aces.iter().all(|ace| ace.size().is_multiple_of(4));
        (is_aligned && acl.size() <= usize::from(u16::MAX)).then_some(acl)
    }

    /// An ACL without entries. As a DACL, it grants nothing.
    pub const fn empty() -> Acl {
        Acl { revision: Self::REVISION, aces: Vec::new() }
    }

    /// The revision.
    pub fn revision(&self) -> u8 {
        self.revision
    }

    /// The entries in their order.
    pub fn aces(&self) -> &[Ace] {
        &self.aces
    }

    /// Returns the entries in their order, for building another ACL.
    pub fn into_aces(self) -> Vec<Ace> {
        self.aces
    }

    /// Frees the spare capacity for entries. Used for an ACL that is kept.
    pub fn shrink_to_fit(&mut self) {
        self.aces.shrink_to_fit();
    }

    /// The size on the wire, in bytes.
    pub fn size(&self) -> usize {
        Self::HEADER_SIZE + self.aces.iter().map(Ace::size).sum::<usize>()
    }

    /// Decodes an ACL. Bytes within `AclSize` after the last entry are dropped.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Acl> {
        let revision = reader.u8()?;
        if !(Self::REVISION..=Self::REVISION_DS).contains(&revision) {
            return Err(Malformed::Value);
        }
        reader.skip(1)?;
        let size = usize::from(reader.u16()?);
        let count = reader.u16()?;
        reader.skip(2)?;
        let mut entries = Reader::new(reader.take(size.checked_sub(Self::HEADER_SIZE).ok_or(Malformed::Value)?)?);
        // The capacity is limited by the input, whatever count it claims.
        let mut aces = Vec::with_capacity(usize::from(count).min(entries.remaining() / ACE_HEADER_SIZE));
        for _ in 0..count {
            aces.push(Ace::decode(&mut entries)?);
        }
        Acl::new(revision, aces).ok_or(Malformed::Value)
    }

    /// Encodes the ACL.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let bounded = |number: usize| u16::try_from(number).expect("Acl::new bounds the sum of all sizes");
        out.u8(self.revision);
        out.u8(0);
        out.u16(bounded(self.size()));
        out.u16(bounded(self.aces.len()));
        out.u16(0);
        self.aces.iter().for_each(|ace| ace.encode(out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<&[Ace]>) {
        let decoded = Acl::decode(&mut Reader::new(bytes));
        assert_eq!(decoded.as_ref().map(Acl::aces).map_err(|malformed| *malformed), expected, "{bytes:?}");
    }

    #[test]
    fn sizes_are_checked() {
        let everyone = [Ace::allow(Sid::EVERYONE, AccessMask(1), AceFlags::INHERITED)];
        let ace = [0, 16, 20, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let with = |header: [u8; 8], ace: &[u8]| [&header[..], ace].concat();
        check(&[2, 0, 8, 0, 0, 0, 0, 0], Ok(&[]));
        check(&with([2, 0, 28, 0, 1, 0, 0, 0], &ace), Ok(&everyone));
        check(&with([2, 0, 32, 0, 1, 0, 0, 0], &[&ace[..], &[9; 4]].concat()), Ok(&everyone));
        check(&with([2, 0, 28, 0, 2, 0, 0, 0], &ace), Err(Malformed::Truncated));
        check(&with([2, 0, 29, 0, 1, 0, 0, 0], &ace), Err(Malformed::Truncated));
        check(&with([1, 0, 28, 0, 1, 0, 0, 0], &ace), Err(Malformed::Value));
        check(&with([5, 0, 28, 0, 1, 0, 0, 0], &ace), Err(Malformed::Value));
        check(&[2, 0, 7, 0, 0, 0, 0, 0], Err(Malformed::Value));
        for (size, why) in [(0, Malformed::Value), (16, Malformed::Truncated), (22, Malformed::Value)] {
            let mut short = ace;
            short[2] = size;
            check(&with([2, 0, 28, 0, 1, 0, 0, 0], &short), Err(why));
        }
        let mut longer = [&ace[..], &[7; 4]].concat();
        longer[2] = 24;
        check(&with([2, 0, 32, 0, 1, 0, 0, 0], &longer), Ok(&everyone));
    }

    #[test]
    fn other_types_are_preserved() {
        let bytes = [4, 0, 20, 0, 1, 0, 0, 0, 9, 0x80, 12, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let acl = Acl::decode(&mut Reader::new(&bytes)).expect("well-formed");
        assert_eq!(acl.aces()[0].body, AceBody::Raw([1, 2, 3, 4, 5, 6, 7, 8].into()));
        assert_eq!(acl.aces()[0].trustee(), None);
        let mut out = Vec::new();
        acl.encode(&mut Writer::new(&mut out));
        assert_eq!(out, bytes);
    }

    #[test]
    fn an_acl_has_at_most_64_kib() {
        let ace = Ace::allow(Sid::EVERYONE, AccessMask(1), AceFlags::NONE);
        let fitting = (65_535 - 8) / ace.size();
        assert!(Acl::new(Acl::REVISION, vec![ace.clone(); fitting]).is_some());
        assert_eq!(Acl::new(Acl::REVISION, vec![ace.clone(); fitting + 1]), None);
        let odd = Ace { ace_type: AceType(0x40), body: AceBody::Raw([1].into()), ..ace };
        assert_eq!(Acl::new(Acl::REVISION, vec![odd]), None);
    }
}
