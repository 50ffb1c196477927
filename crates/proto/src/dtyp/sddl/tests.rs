//! Round trips of text, and the position and reason of errors.

use proptest::prelude::*;

use super::words::{OBJECT, OF_DACL, OF_DOMAIN, OF_MACHINE, OF_SACL, PLAIN, SINGLE, WELL_KNOWN, WHOLE};
use super::*;
use crate::dtyp::{AccessMask, Ace, AceBody, AceFlags, Acl, Control, Guid, SecurityDescriptor};

const MACHINE: Sid = Sid::of(5, [21, 1, 2, 3]);
const DOMAIN: Sid = Sid::of(5, [21, 7, 8, 9]);
const BOTH: Domains = Domains { machine: Some(MACHINE), domain: Some(DOMAIN) };

/// The example of [MS-DTYP] 2.5.1.4.
const EXAMPLE: &str = "O:BAG:BAD:P(A;OICI;GRGX;;;BU)(A;OICI;GA;;;BA)(A;OICI;GA;;;SY)(A;OICI;GA;;;CO)S:P(AU;FA;GR;;;WD)";

/// Checks that the text survives a round trip.
#[track_caller]
fn check(text: &str) -> SecurityDescriptor {
    let descriptor = decode(text, &BOTH).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(encode(&descriptor).as_deref(), Ok(text));
    descriptor
}

#[test]
fn the_example_of_the_specification() {
    // Its bytes 0x14 to 0xaf, in this project's order of the parts.
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
fn texts_that_round_trip() {
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
fn other_notations_of_the_same_descriptor() {
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
fn errors_name_the_position() {
    for (text, position, reason) in [
        ("X", 0, "O: (owner)"),
        ("O:BAO:BA", 4, "already"),
        ("D:S:D:", 4, "already"),
        ("D:NO_ACCESS_CONTROLD:", 19, "already"),
        ("O:S-1-5-99999999999", 2, "not a valid SID"),
        ("O:S-1-5-D:", 2, "not a valid SID"),
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
        ("D:(A;;FA;bf967aba-0de6-11d0-a285-00aa003049e2;;WD)", 9, "object types"),
        ("D:(A;;FA;;WD)", 10, "semicolon"),
        ("O:é", 2, "alias"),
    ] {
        let error = decode(text, &BOTH).expect_err(text);
        assert_eq!(error.position, position, "{text}: {error}");
        assert!(error.reason.contains(reason), "{text}: {error}");
    }
    let error = decode("O:BAG:DA", &Domains::default()).expect_err("needs a domain");
    assert_eq!((error.position, error.reason.contains("domain")), (6, true), "{error}");
    let long = format!("D:{}", "(A;;FA;;;WD)".repeat(4_000));
    assert_eq!(decode(&long, &BOTH).map_err(|error| error.position), Err(2), "exceed the maximum size");
}

#[test]
fn conditional_entries_are_named() {
    let body = AceBody::Raw([0xff; 16].into());
    // The last one is a damaged object entry.
    for ace_type in
        [AceType::ACCESS_ALLOWED_CALLBACK, AceType::SYSTEM_RESOURCE_ATTRIBUTE, AceType::ACCESS_ALLOWED_OBJECT]
    {
        let ace = Ace { ace_type, ace_flags: AceFlags::NONE, body: body.clone() };
        assert_eq!(encode_ace(&ace), Err(Inexpressible(ace_type)));
    }
}

#[test]
fn no_alias_occurs_twice() {
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
        .prop_map(|(kind, mask, one, other, sid)| (OBJECT[kind].1, object::body_of(mask, one, other, &sid)));
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
    fn written_descriptors_read_back_unchanged(
        owner in proptest::option::of(any_sid()),
        group in proptest::option::of(any_sid()),
        sacl in any_list(),
        dacl in any_list(),
        control: u16,
    ) {
        let mut bits = Control::SELF_RELATIVE;
        for (list, of) in [(&sacl, OF_SACL), (&dacl, OF_DACL)] {
            if list.is_some() || Control(control).contains(of.present) {
                let flags = of.flags.iter().fold(Control::NONE, |flags, (_, flag)| flags | *flag);
                bits |= of.present | Control(control) & flags;
            }
        }
        let descriptor = SecurityDescriptor { control: bits, owner, group, sacl, dacl, ..Default::default() };
        let text = encode(&descriptor).expect("conditional ACEs are not generated");
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
            let text = encode(&descriptor).expect("conditional ACEs are not generated");
            prop_assert_eq!(decode(&text, &BOTH), Ok(descriptor));
        }
    }
}
