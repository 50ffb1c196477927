//! Parses the text of a descriptor.

use super::words::{
    ACE_FLAGS, CONDITIONAL, ListBits, NULL_LIST, OBJECT, OF_DACL, OF_DOMAIN, OF_MACHINE, OF_SACL, PLAIN, READ_ONLY,
    SINGLE, WELL_KNOWN, WHOLE,
};
use super::{Domains, SddlError, object};
use crate::dtyp::{AccessMask, Ace, AceBody, AceFlags, AceType, Acl, Control, Guid, SecurityDescriptor, Sid};

/// Parses a descriptor. A part that is missing in the text is absent in the descriptor.
pub fn decode(text: &str, domains: &Domains) -> Result<SecurityDescriptor, SddlError> {
    Parser { text, at: 0, domains }.descriptor()
}

/// Parses a SID or an alias.
pub fn decode_sid(text: &str, domains: &Domains) -> Result<Sid, SddlError> {
    let mut parser = Parser { text, at: 0, domains };
    let sid = parser.sid()?;
    if parser.rest().is_empty() { Ok(sid) } else { Err(parser.error("expected the end of the SID")) }
}

/// A parser that reads the text from its start. `at` is always at a character boundary.
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

    /// Skips `word` if it is next, in any case.
    fn takes(&mut self, word: &str) -> bool {
        let found = self.rest().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &str, reason: &'static str) -> Result<(), SddlError> {
        if self.takes(word) { Ok(()) } else { Err(self.error(reason)) }
    }

    /// Skips the first word of `table` that is next and returns its value.
    fn one_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        table.iter().find(|(word, _)| self.takes(word)).map(|(_, value)| *value)
    }

    /// Takes the characters for which `is` holds, at most `most`.
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
            let again = SddlError { position: start, reason: "this part is already present" };
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
                    return Err(self.error("expected one of O: (owner), G: (group), D: (DACL) and S: (SACL)"));
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

    /// Parses the flags and entries after `D:` or `S:`.
    fn list(&mut self, bits: &ListBits) -> Result<(Control, Option<Acl>), SddlError> {
        let mut control = bits.present;
        loop {
            self.skip_space();
            if self.takes(NULL_LIST) {
                return Ok((control, None));
            }
            match self.one_of(&bits.flags) {
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
            SddlError { position: start, reason: "the ACEs exceed the maximum size of an ACL (65,535 bytes)" };
        Ok((control, Some(Acl::new(revision, aces).ok_or(too_long)?)))
    }

    /// Parses an entry after its opening bracket.
    fn ace(&mut self) -> Result<Ace, SddlError> {
        const SEMICOLON: &str = "expected a semicolon: (type;flags;rights;object;inherited object;SID)";
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
                    "conditional ACEs and resource attributes are not supported"
                } else {
                    "expected the type of an ACE: A, D, AU, OA, OD, OU, ML or SP"
                };
                return Err(SddlError { position: start, reason });
            }
        };
        self.expect(";", SEMICOLON)?;
        let mut ace_flags = AceFlags::NONE;
        while let Some(flag) = self.one_of(&ACE_FLAGS) {
            ace_flags |= flag;
        }
        self.expect(";", "expected one of the flags OI, CI, NP, IO, ID, SA and FA or a semicolon")?;
        let mask = self.rights()?;
        self.expect(";", "expected a right (GA, GR, GW, GX, RC, SD, WD, WO, FA, FR, FW, FX ...) or a semicolon")?;
        let guids_at = self.at;
        let object = self.guid()?;
        self.expect(";", SEMICOLON)?;
        let inherited = self.guid()?;
        self.expect(";", SEMICOLON)?;
        if !is_object && (object.is_some() || inherited.is_some()) {
            let reason = "only ACEs of the types OA, OD, OU and OL have object types";
            return Err(SddlError { position: guids_at, reason });
        }
        let sid = self.sid()?;
        self.expect(")", "expected a closing bracket")?;
        let body =
            if is_object { object::body_of(mask, object, inherited, &sid) } else { AceBody::Trustee { mask, sid } };
        Ok(Ace { ace_type, ace_flags, body })
    }

    /// Parses rights: names, or a hexadecimal, octal or decimal number.
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
            let reason = "expected a number of at most 32 bits for the rights, as in 0x1f01ff";
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

    /// Parses a SID, which ends where no further sub-authority follows, or an alias.
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
            return self.text[start..self.at].parse().map_err(|_| fail("not a valid SID"));
        }
        if let Some(sid) = self.one_of(&WELL_KNOWN) {
            return Ok(sid);
        }
        let (relative, domain) = match self.one_of(&OF_MACHINE) {
            Some(rid) => (rid, self.domains.machine),
            None => match self.one_of(&OF_DOMAIN) {
                Some(rid) => (rid, self.domains.domain),
                None => return Err(fail("expected a SID (S-1-5-...) or an alias such as BA or WD")),
            },
        };
        let domain =
            domain.ok_or(fail("this alias needs a domain, and no domain is known here; write the SID itself"))?;
        domain.with_rid(relative).ok_or(fail("the SID of the domain is too long"))
    }
}
