//! Formats a descriptor as text.

use super::words::{ACE_FLAGS, NULL_LIST, OBJECT, OF_DACL, OF_SACL, PLAIN, SINGLE, WELL_KNOWN, WHOLE};
use super::{Inexpressible, object};
use crate::dtyp::{AccessMask, Ace, AceBody, SecurityDescriptor, Sid};

/// Formats a descriptor. Aliases are used only for SIDs that are the same on every machine.
pub fn encode(descriptor: &SecurityDescriptor) -> Result<String, Inexpressible> {
    let mut text = String::new();
    for (head, sid) in [("O:", descriptor.owner), ("G:", descriptor.group)] {
        if let Some(sid) = sid {
            text += head;
            text += &encode_sid(&sid);
        }
    }
    for (head, list, bits) in [("D:", &descriptor.dacl, OF_DACL), ("S:", &descriptor.sacl, OF_SACL)] {
        let present = descriptor.control.contains(bits.present);
        if list.is_none() && !present {
            continue;
        }
        text += head;
        for (name, bit) in bits.flags {
            text += if descriptor.control.contains(bit) { name } else { "" };
        }
        match list {
            Some(list) => {
                for ace in list.aces() {
                    text += &encode_ace(ace)?;
                }
            }
            None => text += NULL_LIST,
        }
    }
    Ok(text)
}

/// Formats one entry, with its brackets.
pub fn encode_ace(ace: &Ace) -> Result<String, Inexpressible> {
    let flags: String =
        ACE_FLAGS.iter().filter(|(_, flag)| ace.ace_flags.contains(*flag)).map(|(name, _)| *name).collect();
    let (kinds, object) = match &ace.body {
        AceBody::Trustee { mask, sid } => (&PLAIN[..], Some((*mask, String::from(";"), *sid))),
        AceBody::Raw(bytes) => (&OBJECT[..], object::parts_of(bytes)),
    };
    let kind = kinds.iter().find(|(_, kind)| *kind == ace.ace_type);
    let (Some((kind, _)), Some((mask, guids, sid))) = (kind, object) else {
        return Err(Inexpressible(ace.ace_type));
    };
    Ok(format!("({kind};{flags};{};{guids};{})", encode_rights(mask), encode_sid(&sid)))
}

/// Formats a SID, by its alias if that is the same on every machine.
pub fn encode_sid(sid: &Sid) -> String {
    let alias = WELL_KNOWN.iter().find(|(_, known)| known == sid);
    alias.map_or_else(|| sid.to_string(), |(alias, _)| (*alias).to_owned())
}

/// Formats rights: by name if names cover the whole mask, otherwise as a number.
pub fn encode_rights(mask: AccessMask) -> String {
    if let Some((name, _)) = WHOLE.iter().find(|(_, whole)| *whole == mask) {
        return (*name).to_owned();
    }
    let named = SINGLE.iter().fold(AccessMask::NONE, |sum, (_, right)| sum | *right);
    if mask.is_empty() || !named.contains(mask) {
        return format!("0x{:x}", mask.0);
    }
    SINGLE.iter().filter(|(_, right)| mask.contains(*right)).map(|(name, _)| *name).collect()
}
