use super::*;
use crate::bytes::Writer;
use crate::rpc::ndr::Encoder;

/// A serialized structure, with the fields that the tests vary.
#[derive(Clone)]
struct Sample {
    user: u32,
    flags: u32,
    groups: Vec<u32>,
    extra: Vec<Sid>,
    resource_groups: Vec<u32>,
    domain: bool,
}

const DOMAIN: Sid = Sid::of(5, [21, 1, 2, 3]);
const RESOURCES: Sid = Sid::of(5, [21, 7, 8, 9]);

fn sample() -> Sample {
    Sample {
        user: 1105,
        flags: 0x220,
        groups: vec![513, 1200],
        extra: vec![Sid::of(18, [1])],
        resource_groups: vec![44],
        domain: true,
    }
}

/// An encoder that aligns each number to 4 bytes, and the counter for referent ids.
struct Ndr(Vec<u8>, u32);

impl Ndr {
    fn u32(&mut self, value: u32) {
        let mut out = Writer::from(&mut self.0, 0);
        out.pad_to(4);
        out.u32(value);
    }

    fn pointer(&mut self, there: bool) {
        self.1 += 4;
        self.u32(if there { 0x0002_0000 + self.1 } else { 0 });
    }

    fn unicode_string(&mut self, text: &str) {
        let length = 2 * text.encode_utf16().count() as u32;
        self.u32(length | length << 16);
        self.pointer(true);
    }

    fn text(&mut self, text: &str) {
        let units: Vec<u16> = text.encode_utf16().collect();
        let count = units.len() as u32;
        [count, 0, count].into_iter().for_each(|word| self.u32(word));
        units.iter().for_each(|unit| self.0.extend(unit.to_le_bytes()));
    }

    fn zeros(&mut self, words: usize) {
        (0..words).for_each(|_| self.u32(0));
    }

    fn sid(&mut self, sid: Sid) {
        self.u32(sid.sub_authorities().len() as u32);
        sid.encode(&mut Writer::from(&mut self.0, 0));
    }

    fn memberships(&mut self, rids: &[u32]) {
        self.u32(rids.len() as u32);
        for rid in rids {
            self.u32(*rid);
            self.u32(7);
        }
    }
}

const STRINGS: [&str; 6] = ["ann", "Ann Ünlü", "", "", "", ""];

impl Sample {
    fn encode(&self) -> Vec<u8> {
        let mut ndr = Ndr(Vec::new(), 0);
        ndr.pointer(true);
        ndr.zeros(12);
        STRINGS.iter().for_each(|text| ndr.unicode_string(text));
        ndr.u32(0x0001_0002);
        ndr.u32(self.user);
        ndr.u32(513);
        ndr.u32(self.groups.len() as u32);
        ndr.pointer(true);
        ndr.u32(self.flags);
        ndr.zeros(4);
        ndr.unicode_string("DC1");
        ndr.unicode_string("EXAMPLE");
        ndr.pointer(self.domain);
        ndr.zeros(10);
        ndr.u32(self.extra.len() as u32);
        ndr.pointer(!self.extra.is_empty());
        ndr.pointer(true);
        ndr.u32(self.resource_groups.len() as u32);
        ndr.pointer(!self.resource_groups.is_empty());
        STRINGS.iter().for_each(|text| ndr.text(text));
        ndr.memberships(&self.groups);
        ["DC1", "EXAMPLE"].iter().for_each(|text| ndr.text(text));
        if self.domain {
            ndr.sid(DOMAIN);
        }
        if !self.extra.is_empty() {
            ndr.u32(self.extra.len() as u32);
            for _ in &self.extra {
                ndr.pointer(true);
                ndr.u32(7);
            }
            self.extra.iter().for_each(|sid| ndr.sid(*sid));
        }
        ndr.sid(RESOURCES);
        if !self.resource_groups.is_empty() {
            ndr.memberships(&self.resource_groups);
        }
        let mut bytes = COMMON_HEADER.to_vec();
        bytes.extend([0xCC; 4]);
        bytes.extend((ndr.0.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(ndr.0);
        bytes
    }
}

fn in_domain(rid: u32) -> Sid {
    DOMAIN.with_rid(rid).expect("space")
}

#[test]
fn the_user_and_the_groups_are_read() {
    let info = LogonInfo::decode(&sample().encode()).expect("a complete structure");
    assert_eq!((info.effective_name.as_str(), info.full_name.as_str()), ("ann", "Ann Ünlü"));
    assert_eq!(info.logon_domain_name, "EXAMPLE");
    let sids: Vec<Sid> = info.sids().collect();
    let resource = RESOURCES.with_rid(44).expect("space");
    assert_eq!(sids, [in_domain(1105), in_domain(513), in_domain(1200), Sid::of(18, [1]), resource]);
}

#[test]
fn fields_are_valid_only_if_their_flag_is_set() {
    let check = |sample: Sample, expected: &[Sid]| {
        let groups = LogonInfo::decode(&sample.encode()).map(|info| info.groups);
        assert_eq!(groups.as_deref(), Ok(expected), "{:#x}", sample.flags);
    };
    check(Sample { flags: 0, ..sample() }, &[in_domain(1200)]);
    check(Sample { flags: 0x20, ..sample() }, &[in_domain(1200), Sid::of(18, [1])]);
    check(Sample { extra: Vec::new(), resource_groups: Vec::new(), ..sample() }, &[in_domain(1200)]);
    check(Sample { groups: Vec::new(), flags: 0, ..sample() }, &[]);
}

#[test]
fn a_user_of_another_domain_is_the_first_extra_sid() {
    let elsewhere = Sid::of(5, [21, 4, 5, 6, 1000]);
    let foreign = Sample { user: 0, extra: vec![elsewhere, Sid::of(18, [1])], ..sample() };
    let info = LogonInfo::decode(&foreign.encode()).expect("a complete structure");
    assert_eq!(info.user, elsewhere);
    assert!(!info.groups.contains(&elsewhere));
    assert!(LogonInfo::decode(&Sample { extra: Vec::new(), ..foreign }.encode()).is_err());
}

#[test]
fn incomplete_structures_are_refused() {
    let whole = sample().encode();
    for end in 0..whole.len() {
        assert!(LogonInfo::decode(&whole[..end]).is_err(), "{end}");
    }
    assert!(LogonInfo::decode(&Sample { domain: false, ..sample() }.encode()).is_err());
    let mut nothing = Encoder::default();
    nothing.null();
    let mut bytes = whole[..HEADERS].to_vec();
    bytes.extend(nothing.into_bytes());
    assert!(LogonInfo::decode(&bytes).is_err());
    // Whatever byte is wrong, the worst outcome is an error, and no count allocates memory for absent elements.
    for position in 0..whole.len() {
        for value in [0, 0x7F, 0xFF] {
            let mut wrong = whole.clone();
            wrong[position] = value;
            if let Ok(info) = LogonInfo::decode(&wrong) {
                assert!(info.groups.len() <= whole.len() / 8);
            }
        }
    }
}
