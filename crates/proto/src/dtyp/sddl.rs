//! Security descriptors as text ([MS-DTYP] 2.5.1, SDDL): `O:BAG:BUD:P(A;OICI;FA;;;WD)`.
//!
//! Read are all of the grammar's parts in any order, in capitals or not, with white space between parts and entries, and
//! what Windows writes past the grammar: `NO_ACCESS_CONTROL` for a NULL list, `AL` and `OL` for alarms, the rights of
//! files (`FA`, `FR`, `FW`, `FX`) and of directory services (`CC` to `CR`), which are the same bits. Left out are
//! conditional entries and resource attributes: they are an error both ways, which names them.
//!
//! A text holds less than a descriptor: it has no word for parts that are a default, nor for the revision of a list.

use std::fmt;

use super::acl::{Ace, AceBody, AceFlags, AceType};
use super::security_descriptor::Control;
use super::{AccessMask, Acl, Guid, SecurityDescriptor, Sid};
use crate::bytes::{Reader, Writer};

/// Whose SIDs the aliases mean that are relative to a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Domains {
    /// The machine's own domain of accounts: `LA`, `LG`.
    pub machine: Option<Sid>,
    /// The domain that it belongs to, or its own: `DA`, `DU`, `EA` and so on.
    pub domain: Option<Sid>,
}

impl Domains {
    /// A machine that belongs to no domain.
    pub const fn standalone(machine: Sid) -> Domains {
        Domains { machine: Some(machine), domain: Some(machine) }
    }
}

/// A text that is no descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SddlError {
    /// Where, in bytes from the start of the text.
    pub position: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl fmt::Display for SddlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at position {}: {}", self.position, self.reason)
    }
}

impl std::error::Error for SddlError {}

/// An entry that has no text here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inexpressible(pub AceType);

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an entry of the type {:?} cannot be written in SDDL", self.0)
    }
}

impl std::error::Error for Inexpressible {}

/// Aliases that are the same SID everywhere ([MS-DTYP] 2.5.1.1 and 2.4.2.4).
const WELL_KNOWN: [(&str, Sid); 47] = [
    ("WD", Sid::EVERYONE),
    ("CO", Sid::CREATOR_OWNER),
    ("CG", Sid::CREATOR_GROUP),
    ("OW", Sid::OWNER_RIGHTS),
    ("NU", Sid::NETWORK),
    ("IU", Sid::of(5, [4])),
    ("SU", Sid::of(5, [6])),
    ("AN", Sid::ANONYMOUS),
    ("ED", Sid::of(5, [9])),
    ("PS", Sid::PRINCIPAL_SELF),
    ("AU", Sid::AUTHENTICATED_USERS),
    ("RC", Sid::of(5, [12])),
    ("SY", Sid::SYSTEM),
    ("LS", Sid::of(5, [19])),
    ("NS", Sid::of(5, [20])),
    ("WR", Sid::of(5, [33])),
    ("UD", Sid::of(5, [84, 0, 0, 0, 0, 0])),
    ("BA", Sid::BUILTIN_ADMINISTRATORS),
    ("BU", Sid::BUILTIN_USERS),
    ("BG", Sid::BUILTIN_GUESTS),
    ("PU", Sid::of(5, [32, 547])),
    ("AO", Sid::of(5, [32, 548])),
    ("SO", Sid::of(5, [32, 549])),
    ("PO", Sid::of(5, [32, 550])),
    ("BO", Sid::of(5, [32, 551])),
    ("RE", Sid::of(5, [32, 552])),
    ("RU", Sid::of(5, [32, 554])),
    ("RD", Sid::of(5, [32, 555])),
    ("NO", Sid::of(5, [32, 556])),
    ("MU", Sid::of(5, [32, 558])),
    ("LU", Sid::of(5, [32, 559])),
    ("IS", Sid::of(5, [32, 568])),
    ("CY", Sid::of(5, [32, 569])),
    ("ER", Sid::of(5, [32, 573])),
    ("CD", Sid::of(5, [32, 574])),
    ("RA", Sid::of(5, [32, 575])),
    ("ES", Sid::of(5, [32, 576])),
    ("MS", Sid::of(5, [32, 577])),
    ("HA", Sid::of(5, [32, 578])),
    ("AA", Sid::of(5, [32, 579])),
    ("RM", Sid::of(5, [32, 580])),
    ("AC", Sid::of(15, [2, 1])),
    ("LW", Sid::of(16, [4_096])),
    ("ME", Sid::of(16, [8_192])),
    ("MP", Sid::of(16, [8_448])),
    ("HI", Sid::of(16, [12_288])),
    ("SI", Sid::of(16, [16_384])),
];

/// Aliases of the machine's own accounts, by RID.
const OF_MACHINE: [(&str, u32); 2] = [("LA", 500), ("LG", 501)];

/// Aliases relative to the domain, by RID. Those of the forest's root domain are taken to be of the domain, too.
const OF_DOMAIN: [(&str, u32); 12] = [
    ("RO", 498),
    ("DA", 512),
    ("DU", 513),
    ("DG", 514),
    ("DC", 515),
    ("DD", 516),
    ("CA", 517),
    ("SA", 518),
    ("EA", 519),
    ("PA", 520),
    ("CN", 522),
    ("RS", 553),
];

/// The types that are a mask and a SID.
const PLAIN: [(&str, AceType); 6] = [
    ("A", AceType::ACCESS_ALLOWED),
    ("D", AceType::ACCESS_DENIED),
    ("AU", AceType::SYSTEM_AUDIT),
    ("AL", AceType::SYSTEM_ALARM),
    ("ML", AceType::SYSTEM_MANDATORY_LABEL),
    ("SP", AceType::SYSTEM_SCOPED_POLICY_ID),
];

/// The types that may name a kind of object.
const OBJECT: [(&str, AceType); 4] = [
    ("OA", AceType::ACCESS_ALLOWED_OBJECT),
    ("OD", AceType::ACCESS_DENIED_OBJECT),
    ("OU", AceType::SYSTEM_AUDIT_OBJECT),
    ("OL", AceType::SYSTEM_ALARM_OBJECT),
];

/// The types that end in an expression or a claim.
const CONDITIONAL: [&str; 5] = ["XA", "XD", "ZA", "XU", "RA"];

const ACE_FLAGS: [(&str, AceFlags); 8] = [
    ("OI", AceFlags::OBJECT_INHERIT),
    ("CI", AceFlags::CONTAINER_INHERIT),
    ("NP", AceFlags::NO_PROPAGATE_INHERIT),
    ("IO", AceFlags::INHERIT_ONLY),
    ("ID", AceFlags::INHERITED),
    // Windows' own: the entry may not be taken away by a filter.
    ("CR", AceFlags(0x20)),
    ("SA", AceFlags::SUCCESSFUL_ACCESS),
    ("FA", AceFlags::FAILED_ACCESS),
];

/// Rights that are written by their names when the mask is nothing else.
const WHOLE: [(&str, AccessMask); 4] = [
    ("FA", AccessMask::FILE_ALL_ACCESS),
    ("FR", AccessMask::FILE_GENERIC_READ),
    ("FW", AccessMask::FILE_GENERIC_WRITE),
    ("FX", AccessMask::FILE_GENERIC_EXECUTE),
];

/// Rights that are written one after the other when the mask has no others.
const SINGLE: [(&str, AccessMask); 8] = [
    ("GA", AccessMask::GENERIC_ALL),
    ("GR", AccessMask::GENERIC_READ),
    ("GW", AccessMask::GENERIC_WRITE),
    ("GX", AccessMask::GENERIC_EXECUTE),
    ("RC", AccessMask::READ_CONTROL),
    ("SD", AccessMask::DELETE),
    ("WD", AccessMask::WRITE_DAC),
    ("WO", AccessMask::WRITE_OWNER),
];

/// Rights that are read and never written: of directory services, registry keys and integrity labels.
const READ_ONLY: [(&str, AccessMask); 16] = [
    ("CC", AccessMask(0x001)),
    ("DC", AccessMask(0x002)),
    ("LC", AccessMask(0x004)),
    ("SW", AccessMask(0x008)),
    ("RP", AccessMask(0x010)),
    ("WP", AccessMask(0x020)),
    ("DT", AccessMask(0x040)),
    ("LO", AccessMask(0x080)),
    ("CR", AccessMask(0x100)),
    ("KA", AccessMask(0x000f_003f)),
    ("KR", AccessMask(0x0002_0019)),
    ("KX", AccessMask(0x0002_0019)),
    ("KW", AccessMask(0x0002_0006)),
    ("NW", AccessMask(0x1)),
    ("NR", AccessMask(0x2)),
    ("NX", AccessMask(0x4)),
];

/// What stands for a NULL list.
const NULL_LIST: &str = "NO_ACCESS_CONTROL";

/// ACE_OBJECT_TYPE_PRESENT of an object entry ([MS-DTYP] 2.4.4.3).
const OBJECT_TYPE: u32 = 1;
/// ACE_INHERITED_OBJECT_TYPE_PRESENT.
const INHERITED_OBJECT_TYPE: u32 = 2;

/// The control bits of one list.
struct ListBits {
    present: Control,
    protected: Control,
    required: Control,
    inherited: Control,
}

const OF_DACL: ListBits = ListBits {
    present: Control::DACL_PRESENT,
    protected: Control::DACL_PROTECTED,
    required: Control::DACL_COMPUTED_INHERITANCE_REQUIRED,
    inherited: Control::DACL_AUTO_INHERITED,
};

const OF_SACL: ListBits = ListBits {
    present: Control::SACL_PRESENT,
    protected: Control::SACL_PROTECTED,
    required: Control::SACL_COMPUTED_INHERITANCE_REQUIRED,
    inherited: Control::SACL_AUTO_INHERITED,
};

/// Reads a descriptor. A part that the text does not have is not there.
pub fn decode(text: &str, domains: &Domains) -> Result<SecurityDescriptor, SddlError> {
    Parser { text, at: 0, domains }.descriptor()
}

/// Reads a SID or one of the aliases.
pub fn decode_sid(text: &str, domains: &Domains) -> Result<Sid, SddlError> {
    let mut parser = Parser { text, at: 0, domains };
    let sid = parser.sid()?;
    if parser.rest().is_empty() { Ok(sid) } else { Err(parser.error("a SID should end here")) }
}

/// Writes a descriptor. Aliases stand only for SIDs that are the same everywhere.
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
        for (name, bit) in [("P", bits.protected), ("AR", bits.required), ("AI", bits.inherited)] {
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

/// Writes one entry, with its brackets.
pub fn encode_ace(ace: &Ace) -> Result<String, Inexpressible> {
    let flags: String =
        ACE_FLAGS.iter().filter(|(_, flag)| ace.ace_flags.contains(*flag)).map(|(name, _)| *name).collect();
    let (kinds, object) = match &ace.body {
        AceBody::Trustee { mask, sid } => (&PLAIN[..], Some((*mask, String::from(";"), *sid))),
        AceBody::Raw(bytes) => (&OBJECT[..], object_of(bytes)),
    };
    let kind = kinds.iter().find(|(_, kind)| *kind == ace.ace_type);
    let (Some((kind, _)), Some((mask, guids, sid))) = (kind, object) else {
        return Err(Inexpressible(ace.ace_type));
    };
    Ok(format!("({kind};{flags};{};{guids};{})", encode_rights(mask), encode_sid(&sid)))
}

/// Rights, kinds of object as text, and SID of an object entry ([MS-DTYP] 2.4.4.3); `None` where it is none.
fn object_of(bytes: &[u8]) -> Option<(AccessMask, String, Sid)> {
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

/// Writes a SID, by its alias where that is the same everywhere.
pub fn encode_sid(sid: &Sid) -> String {
    let alias = WELL_KNOWN.iter().find(|(_, known)| known == sid);
    alias.map_or_else(|| sid.to_string(), |(alias, _)| (*alias).to_owned())
}

/// Writes rights: by name where names say all, else as a number.
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

/// Reads a text from its start. `at` is always at the start of a character.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    domains: &'a Domains,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, reason: &'static str) -> SddlError {
        SddlError { position: self.at, reason }
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Goes past `word`, in capitals or not.
    fn takes(&mut self, word: &str) -> bool {
        let found = self.rest().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &str, reason: &'static str) -> Result<(), SddlError> {
        if self.takes(word) { Ok(()) } else { Err(self.error(reason)) }
    }

    /// Goes past the first of the words in `table` that stands here.
    fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        table.iter().find(|(word, _)| self.takes(word)).map(|(_, value)| *value)
    }

    /// As many characters as `is` holds for, at most `most`.
    fn run(&mut self, is: fn(char) -> bool, most: usize) -> &'a str {
        let rest = self.rest();
        let length: usize = rest.chars().take(most).take_while(|character| is(*character)).map(char::len_utf8).sum();
        self.at += length;
        &rest[..length]
    }

    fn descriptor(&mut self) -> Result<SecurityDescriptor, SddlError> {
        let mut descriptor = SecurityDescriptor { control: Control::SELF_RELATIVE, ..SecurityDescriptor::default() };
        loop {
            self.skip_space();
            if self.rest().is_empty() {
                return Ok(descriptor);
            }
            let start = self.at;
            let again = SddlError { position: start, reason: "this part is there already" };
            if self.takes("O:") {
                let sid = self.sid()?;
                descriptor.owner.replace(sid).map_or(Ok(()), |_| Err(again))?;
            } else if self.takes("G:") {
                let sid = self.sid()?;
                descriptor.group.replace(sid).map_or(Ok(()), |_| Err(again))?;
            } else {
                let (bits, list) = if self.takes("D:") {
                    (OF_DACL, &mut descriptor.dacl)
                } else if self.takes("S:") {
                    (OF_SACL, &mut descriptor.sacl)
                } else {
                    return Err(self.error("one of O: (owner), G: (group), D: (DACL) and S: (SACL) should stand here"));
                };
                if descriptor.control.contains(bits.present) {
                    return Err(again);
                }
                let (control, entries) = self.list(&bits)?;
                descriptor.control |= control;
                *list = entries;
            }
        }
    }

    /// The flags and entries behind `D:` or `S:`.
    fn list(&mut self, bits: &ListBits) -> Result<(Control, Option<Acl>), SddlError> {
        let mut control = bits.present;
        loop {
            self.skip_space();
            if self.takes(NULL_LIST) {
                return Ok((control, None));
            }
            match self.one_of(&[("P", bits.protected), ("AR", bits.required), ("AI", bits.inherited)]) {
                Some(bit) => control |= bit,
                None => break,
            }
        }
        let start = self.at;
        let (mut aces, mut revision) = (Vec::new(), Acl::REVISION);
        while self.takes("(") {
            let ace = self.ace()?;
            if matches!(ace.body, AceBody::Raw(_)) {
                revision = Acl::REVISION_DS;
            }
            aces.push(ace);
            self.skip_space();
        }
        let too_long =
            SddlError { position: start, reason: "the entries are longer than a list can be (65,535 bytes)" };
        Ok((control, Some(Acl::new(revision, aces).ok_or(too_long)?)))
    }

    /// An entry behind its opening bracket.
    fn ace(&mut self) -> Result<Ace, SddlError> {
        const SEMICOLON: &str = "a semicolon should stand here: (type;flags;rights;object;inherited object;SID)";
        let start = self.at;
        let kind = self.run(|character| character.is_ascii_alphabetic(), 3);
        let of = |table: &[(&str, AceType)]| {
            table.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind)).map(|(_, kind)| *kind)
        };
        let (ace_type, is_object) = match (of(&PLAIN), of(&OBJECT)) {
            (Some(ace_type), _) => (ace_type, false),
            (None, Some(ace_type)) => (ace_type, true),
            (None, None) => {
                let conditional = CONDITIONAL.iter().any(|name| name.eq_ignore_ascii_case(kind));
                let reason = if conditional {
                    "conditional entries and resource attributes are not known here"
                } else {
                    "the type of an entry should stand here: A, D, AU, OA, OD, OU, ML or SP"
                };
                return Err(SddlError { position: start, reason });
            }
        };
        self.expect(";", SEMICOLON)?;
        let mut ace_flags = AceFlags::NONE;
        while let Some(flag) = self.one_of(&ACE_FLAGS) {
            ace_flags |= flag;
        }
        self.expect(";", "one of the flags OI, CI, NP, IO, ID, SA and FA or a semicolon should stand here")?;
        let mask = self.rights()?;
        self.expect(
            ";",
            "a right (GA, GR, GW, GX, RC, SD, WD, WO, FA, FR, FW, FX ...) or a semicolon should stand here",
        )?;
        let guids_at = self.at;
        let object = self.guid()?;
        self.expect(";", SEMICOLON)?;
        let inherited = self.guid()?;
        self.expect(";", SEMICOLON)?;
        if !is_object && (object.is_some() || inherited.is_some()) {
            let reason = "only entries of the types OA, OD, OU and OL have kinds of object";
            return Err(SddlError { position: guids_at, reason });
        }
        let sid = self.sid()?;
        self.expect(")", "a closing bracket should stand here")?;
        let body = if is_object { object_body(mask, object, inherited, &sid) } else { AceBody::Trustee { mask, sid } };
        Ok(Ace { ace_type, ace_flags, body })
    }

    /// Rights: names, or a number in hexadecimal, octal or decimal.
    fn rights(&mut self) -> Result<AccessMask, SddlError> {
        let start = self.at;
        if self.rest().starts_with(|character: char| character.is_ascii_digit()) {
            let (digits, radix) = if self.takes("0x") {
                (self.run(|character| character.is_ascii_hexdigit(), usize::MAX), 16)
            } else {
                let digits = self.run(|character| character.is_ascii_digit(), usize::MAX);
                (digits, if digits.starts_with('0') { 8 } else { 10 })
            };
            let value = u32::from_str_radix(digits, radix).ok();
            let reason = "rights are a number of at most 32 bits, as in 0x1f01ff";
            return value.map(AccessMask).ok_or(SddlError { position: start, reason });
        }
        let mut mask = AccessMask::NONE;
        loop {
            let right = self.one_of(&WHOLE).or_else(|| self.one_of(&SINGLE)).or_else(|| self.one_of(&READ_ONLY));
            match right {
                Some(right) => mask |= right,
                None => return Ok(mask),
            }
        }
    }

    fn guid(&mut self) -> Result<Option<Guid>, SddlError> {
        let start = self.at;
        let text = self.run(|character| character.is_ascii_hexdigit() || character == '-', usize::MAX);
        if text.is_empty() {
            return Ok(None);
        }
        let reason = "a GUID is 8-4-4-4-12 hexadecimal digits";
        text.parse().map(Some).map_err(|_| SddlError { position: start, reason })
    }

    /// A SID in its own form, which ends where no further sub-authority follows, or an alias.
    fn sid(&mut self) -> Result<Sid, SddlError> {
        let start = self.at;
        let fail = |reason| SddlError { position: start, reason };
        if self.takes("S-1-") {
            if self.takes("0x") {
                self.run(|character| character.is_ascii_hexdigit(), 12);
            } else {
                self.run(|character| character.is_ascii_digit(), usize::MAX);
            }
            while self.rest().starts_with('-') {
                self.at += 1;
                self.run(|character| character.is_ascii_digit(), usize::MAX);
            }
            return self.text[start..self.at].parse().map_err(|_| fail("this is no SID"));
        }
        if let Some(sid) = self.one_of(&WELL_KNOWN) {
            return Ok(sid);
        }
        let (relative, domain) = match self.one_of(&OF_MACHINE) {
            Some(rid) => (rid, self.domains.machine),
            None => match self.one_of(&OF_DOMAIN) {
                Some(rid) => (rid, self.domains.domain),
                None => return Err(fail("a SID (S-1-5-...) or an alias such as BA or WD should stand here")),
            },
        };
        let domain = domain.ok_or(fail("this alias is of a domain, and none is known here: write the SID itself"))?;
        domain.with_rid(relative).ok_or(fail("the SID of the domain is too long"))
    }
}

/// What follows the header of an object entry ([MS-DTYP] 2.4.4.3).
fn object_body(mask: AccessMask, object: Option<Guid>, inherited: Option<Guid>, sid: &Sid) -> AceBody {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MACHINE: Sid = Sid::of(5, [21, 1, 2, 3]);
    const DOMAIN: Sid = Sid::of(5, [21, 7, 8, 9]);
    const BOTH: Domains = Domains { machine: Some(MACHINE), domain: Some(DOMAIN) };

    /// The example of [MS-DTYP] 2.5.1.4.
    const EXAMPLE: &str =
        "O:BAG:BAD:P(A;OICI;GRGX;;;BU)(A;OICI;GA;;;BA)(A;OICI;GA;;;SY)(A;OICI;GA;;;CO)S:P(AU;FA;GR;;;WD)";

    /// The text comes back as it was.
    #[track_caller]
    fn check(text: &str) -> SecurityDescriptor {
        let descriptor = decode(text, &BOTH).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(encode(&descriptor).as_deref(), Ok(text));
        descriptor
    }

    #[test]
    fn the_example_of_the_specification() {
        // Its octets 0x14 to 0xaf in the order that this project writes the parts in.
        let descriptor = check(EXAMPLE);
        assert_eq!(descriptor.control, Control(0xb014));
        assert_eq!(
            (descriptor.owner, descriptor.group),
            (Some(Sid::BUILTIN_ADMINISTRATORS), Some(Sid::BUILTIN_ADMINISTRATORS))
        );
        let inherit = AceFlags(3);
        let aces = [
            Ace::allow(Sid::BUILTIN_USERS, AccessMask(0xa000_0000), inherit),
            Ace::allow(Sid::BUILTIN_ADMINISTRATORS, AccessMask::GENERIC_ALL, inherit),
            Ace::allow(Sid::SYSTEM, AccessMask::GENERIC_ALL, inherit),
            Ace::allow(Sid::CREATOR_OWNER, AccessMask::GENERIC_ALL, inherit),
        ];
        assert_eq!(descriptor.dacl, Acl::new(2, aces.into()));
    }

    #[test]
    fn texts_that_come_back() {
        for text in [
            "",
            "O:S-1-5-21-1-2-3-500",
            "O:S-1-5-21-1-2-3-500G:S-1-5-32-999D:",
            "O:S-1-0x010203040506D:",
            "D:NO_ACCESS_CONTROL",
            "D:PARAINO_ACCESS_CONTROL",
            "D:PARAI(D;OICINPIOID;0x1200a9;;;S-1-22-1-1000)",
            "D:(A;;0x0;;;OW)(A;;FA;;;WD)(A;;FR;;;AU)(A;;RCSDWDWO;;;CG)",
            "S:AI(AU;SAFA;GA;;;WD)(ML;;0x1;;;ME)(SP;;0x0;;;S-1-17-1)(AL;CR;FA;;;SY)",
            "D:(OA;CI;0x10;bf967aba-0de6-11d0-a285-00aa003049e2;;PS)(OD;;0x1;;4828cc14-1437-45bc-9b07-ad6f015e5f28;WD)",
            "D:(OA;;0x1;;;WD)",
        ] {
            check(text);
        }
    }

    #[test]
    fn other_ways_to_say_the_same() {
        for (text, same) in [
            ("o:bag:BUd:p(a;cioi;fa;;;wd)", "O:BAG:BUD:P(A;OICI;FA;;;WD)"),
            (" D: AI (A;;2032127;;;WD)\n (A;;0000011;;;BA) ", "D:AI(A;;FA;;;WD)(A;;0x9;;;BA)"),
            ("S:D:G:WDO:WD", "O:WDG:WDD:S:"),
            ("D:(A;;CCDCLCSWRPWPDTLOCR;;;WD)(A;;KA;;;WD)(A;;;;;WD)", "D:(A;;0x1ff;;;WD)(A;;0xf003f;;;WD)(A;;0x0;;;WD)"),
            ("D:(A;;FRFW;;;WD)(A;;0x80000000;;;WD)", "D:(A;;0x12019f;;;WD)(A;;GR;;;WD)"),
            ("O:LAG:DU", "O:S-1-5-21-1-2-3-500G:S-1-5-21-7-8-9-513"),
            ("O:EAG:S-1-5-32-544", "O:S-1-5-21-7-8-9-519G:BA"),
        ] {
            let descriptor = decode(text, &BOTH).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(encode(&descriptor).as_deref(), Ok(same), "{text}");
        }
    }

    #[test]
    fn errors_name_the_place() {
        for (text, position, reason) in [
            ("X", 0, "O: (owner)"),
            ("O:BAO:BA", 4, "already"),
            ("D:S:D:", 4, "already"),
            ("D:NO_ACCESS_CONTROLD:", 19, "already"),
            ("O:S-1-5-99999999999", 2, "no SID"),
            ("O:S-1-5-D:", 2, "no SID"),
            ("O:QQ", 2, "alias"),
            ("D:(A;;FA;;;WD", 13, "closing bracket"),
            ("D:(A;;FA;;;WD)x", 14, "O: (owner)"),
            ("D:(B;;FA;;;WD)", 3, "type"),
            ("D:(AUX;;FA;;;WD)", 3, "type"),
            ("D:(XA;;FA;;;WD;(a))", 3, "conditional"),
            ("D:(A;OIXX;FA;;;WD)", 7, "flags"),
            ("D:(A;;FAX;;;WD)", 8, "a right"),
            ("D:(A;;0x1ffffffff;;;WD)", 6, "32 bits"),
            ("D:(A;;0x;;;WD)", 6, "32 bits"),
            ("D:(A;;09;;;WD)", 6, "32 bits"),
            ("D:(OA;;FA;bf967aba;;WD)", 10, "GUID"),
            ("D:(A;;FA;bf967aba-0de6-11d0-a285-00aa003049e2;;WD)", 9, "kinds of object"),
            ("D:(A;;FA;;WD)", 10, "semicolon"),
            ("O:é", 2, "alias"),
        ] {
            let error = decode(text, &BOTH).expect_err(text);
            assert_eq!(error.position, position, "{text}: {error}");
            assert!(error.reason.contains(reason), "{text}: {error}");
        }
        let error = decode("O:BAG:DA", &Domains::default()).expect_err("no domain");
        assert_eq!((error.position, error.reason.contains("domain")), (6, true), "{error}");
        let long = format!("D:{}", "(A;;FA;;;WD)".repeat(4_000));
        assert_eq!(decode(&long, &BOTH).map_err(|error| error.position), Err(2), "longer than a list can be");
    }

    #[test]
    fn conditional_entries_are_named() {
        let body = AceBody::Raw([0xff; 16].into());
        // The last is an object entry that is damaged.
        for ace_type in
            [AceType::ACCESS_ALLOWED_CALLBACK, AceType::SYSTEM_RESOURCE_ATTRIBUTE, AceType::ACCESS_ALLOWED_OBJECT]
        {
            let ace = Ace { ace_type, ace_flags: AceFlags::NONE, body: body.clone() };
            assert_eq!(encode_ace(&ace), Err(Inexpressible(ace_type)));
        }
    }

    #[test]
    fn no_alias_stands_twice() {
        let names = || {
            let relative = OF_MACHINE.iter().chain(&OF_DOMAIN).map(|(name, _)| *name);
            WELL_KNOWN.iter().map(|(name, _)| *name).chain(relative)
        };
        for name in names() {
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
            assert!(decode_sid(name, &BOTH).is_ok(), "{name}");
        }
        assert!(decode_sid("BAx", &BOTH).is_err());
    }

    fn any_sid() -> impl Strategy<Value = Sid> {
        let made = (0u64..1 << 48, proptest::collection::vec(any::<u32>(), 0..=15))
            .prop_map(|(authority, subs)| Sid::new(authority, &subs).expect("within bounds"));
        prop_oneof![made, (0..WELL_KNOWN.len()).prop_map(|index| WELL_KNOWN[index].1)]
    }

    fn any_mask() -> impl Strategy<Value = AccessMask> {
        let named: Vec<_> = WHOLE.iter().chain(&SINGLE).map(|(_, mask)| *mask).collect();
        prop_oneof![any::<u32>().prop_map(AccessMask), proptest::sample::select(named)]
    }

    fn any_ace() -> impl Strategy<Value = Ace> {
        let plain = (0..PLAIN.len(), any_mask(), any_sid())
            .prop_map(|(kind, mask, sid)| (PLAIN[kind].1, AceBody::Trustee { mask, sid }));
        let guid = || proptest::option::of(any::<[u8; 16]>().prop_map(Guid));
        let object = (0..OBJECT.len(), any_mask(), guid(), guid(), any_sid())
            .prop_map(|(kind, mask, one, other, sid)| (OBJECT[kind].1, object_body(mask, one, other, &sid)));
        (prop_oneof![plain, object], any::<u8>()).prop_map(|((ace_type, body), flags)| Ace {
            ace_type,
            ace_flags: AceFlags(flags),
            body,
        })
    }

    fn any_list() -> impl Strategy<Value = Option<Acl>> {
        let revision = |aces: &[Ace]| {
            let has_objects = aces.iter().any(|ace| matches!(ace.body, AceBody::Raw(_)));
            if has_objects { Acl::REVISION_DS } else { Acl::REVISION }
        };
        proptest::option::of(
            proptest::collection::vec(any_ace(), 0..8)
                .prop_map(move |aces| Acl::new(revision(&aces), aces).expect("short")),
        )
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_it_was(
            owner in proptest::option::of(any_sid()),
            group in proptest::option::of(any_sid()),
            sacl in any_list(),
            dacl in any_list(),
            control: u16,
        ) {
            let mut bits = Control::SELF_RELATIVE;
            for (list, of) in [(&sacl, OF_SACL), (&dacl, OF_DACL)] {
                if list.is_some() || Control(control).contains(of.present) {
                    bits |= of.present | Control(control) & (of.protected | of.required | of.inherited);
                }
            }
            let descriptor = SecurityDescriptor { control: bits, owner, group, sacl, dacl, ..Default::default() };
            let text = encode(&descriptor).expect("nothing conditional");
            prop_assert_eq!(decode(&text, &BOTH), Ok(descriptor), "{}", text);
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            if let Err(error) = decode(&text, &BOTH) {
                prop_assert!(text.is_char_boundary(error.position));
            }
        }

        #[test]
        fn damaged_text_never_panics(at in 0..EXAMPLE.len(), with: char, until in 0..EXAMPLE.len()) {
            let damaged = format!("{}{with}{}", &EXAMPLE[..at], &EXAMPLE[until..]);
            if let Ok(descriptor) = decode(&damaged, &BOTH) {
                let text = encode(&descriptor).expect("nothing conditional");
                prop_assert_eq!(decode(&text, &BOTH), Ok(descriptor));
            }
        }
    }
}
