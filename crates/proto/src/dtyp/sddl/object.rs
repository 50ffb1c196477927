//! Object entries, which other code handles as bytes ([MS-DTYP] 2.4.4.3).

use crate::bytes::{Reader, Writer};
use crate::dtyp::{AccessMask, AceBody, Guid, Sid};

/// ACE_OBJECT_TYPE_PRESENT.
const OBJECT_TYPE: u32 = 1;
/// ACE_INHERITED_OBJECT_TYPE_PRESENT.
const INHERITED_OBJECT_TYPE: u32 = 2;

/// Returns the rights, the object types as text, and the SID of an object entry; `None` if it is malformed.
pub(super) fn parts_of(bytes: &[u8]) -> Option<(AccessMask, String, Sid)> {
    let mut reader = Reader::new(bytes);
    let (mask, present) = (AccessMask(reader.u32().ok()?), reader.u32().ok()?);
    if present & !(OBJECT_TYPE | INHERITED_OBJECT_TYPE) != 0 {
        return None;
    }
    let mut guids = String::new();
    for (bit, separator) in [(OBJECT_TYPE, ";"), (INHERITED_OBJECT_TYPE, "")] {
        if present & bit != 0 {
            guids += &Guid::decode(&mut reader).ok()?.to_string();
        }
        guids += separator;
    }
    let sid = Sid::decode(&mut reader).ok()?;
    (reader.position() == bytes.len()).then_some((mask, guids, sid))
}

/// Builds the part of an object entry after its header.
pub(super) fn body_of(mask: AccessMask, object: Option<Guid>, inherited: Option<Guid>, sid: &Sid) -> AceBody {
    let bit = |guid: Option<Guid>, bit| if guid.is_some() { bit } else { 0 };
    let mut bytes = Vec::with_capacity(40 + sid.size());
    let mut out = Writer::new(&mut bytes);
    out.u32(mask.0);
    out.u32(bit(object, OBJECT_TYPE) | bit(inherited, INHERITED_OBJECT_TYPE));
    for guid in [object, inherited].into_iter().flatten() {
        guid.encode(&mut out);
    }
    sid.encode(&mut out);
    AceBody::Raw(bytes.into())
}
