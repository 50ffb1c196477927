use super::super::ndr::Encoder;
use super::*;
use crate::status::Status;

const HANDLE: ContextHandle = [9; 20];

fn lookup(names: &[&str]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, &HANDLE);
    out.u32(names.len() as u32);
    out.u32(names.len() as u32);
    names.iter().for_each(|name| out.unicode(name));
    names.iter().for_each(|name| out.text(name));
    out.u32(0);
    out.null();
    out.u16(1);
    out.u32(0);
    out.into_bytes()
}

#[test]
fn names_and_sids_are_read() {
    let stub = lookup(&["ann", "SRV\\bob", ""]);
    let names = ["ann", "SRV\\bob", ""].map(str::to_string).to_vec();
    let expected = LookupNames { handle: HANDLE, names, level: LookupLevel::WORKSTATION };
    assert_eq!(LookupNames::decode(&stub), Ok(expected));

    let mut out = Encoder::default();
    out.array(4, &HANDLE);
    out.u32(2);
    out.pointer();
    out.u32(2);
    out.pointer();
    out.pointer();
    out.sid(&Sid::EVERYONE);
    out.sid(&Sid::BUILTIN_USERS);
    out.u32(0);
    out.null();
    out.u16(1);
    let stub = out.into_bytes();
    let sids = vec![Sid::EVERYONE, Sid::BUILTIN_USERS];
    let expected = LookupSids { handle: HANDLE, sids, level: LookupLevel::WORKSTATION };
    assert_eq!(LookupSids::decode(&stub), Ok(expected));
    for length in 0..stub.len() {
        assert!(LookupSids::decode(&stub[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn counts_are_bounded_before_memory_is_allocated() {
    for count in [1001, u32::MAX] {
        let mut stub = lookup(&["ann"]);
        stub[20..24].copy_from_slice(&count.to_le_bytes());
        stub[24..28].copy_from_slice(&count.to_le_bytes());
        assert_eq!(LookupNames::decode(&stub), Err(Malformed::Value), "{count}");
    }
}

/// The expected bytes follow from [MS-LSAT]'s types and the rules of NDR, counted by hand.
#[test]
fn responses_have_the_form_that_clients_expect() {
    let domains = [ReferencedDomain { name: "AB".into(), sid: Some(Sid::of(5, [21, 1, 2, 3])) }];
    let sid = TranslatedSid { kind: SidNameUse::USER, sid: Sid::of(5, [21, 1, 2, 3, 1000]).into(), domain: Some(0) };
    let lost = TranslatedSid { kind: SidNameUse::UNKNOWN, sid: None, domain: None };
    let answer = names_response(&domains, &[sid, lost], Generation::First);
    // Pointer, count, pointer, MaxEntries, array count, name (8), SID pointer; "AB" (12 + 4), SID (4 + 24).
    let list = 4 * 5 + 8 + 4 + 16 + 28;
    let number = |at: usize| u32::from_le_bytes(answer[at..at + 4].try_into().expect("four bytes"));
    assert_eq!([number(list), number(list + 8)], [2, 2]);
    assert_eq!([number(list + 12), number(list + 16), number(list + 20)], [1, 1000, 0]);
    assert_eq!([number(list + 24), number(list + 28), number(list + 32)], [8, 0, u32::MAX]);
    assert_eq!([number(list + 36), number(list + 40)], [1, Status::SOME_NOT_MAPPED.0]);
    assert_eq!(answer.len(), list + 44);
    let none = names_response(&[], &[lost], Generation::Second);
    assert_eq!(none[none.len() - 4..], Status::NONE_MAPPED.0.to_le_bytes());
    assert!(information_response(PolicyInformationClass(2), &some_domains()).is_none());
    assert_eq!(accounts_response(1, &[Sid::EVERYONE]).len(), 4 + 8 + 4);
}

fn some_domains() -> Domains {
    let domain = ReferencedDomain { name: "SRV".into(), sid: None };
    Domains { account: domain.clone(), primary: domain, dns: String::new() }
}
