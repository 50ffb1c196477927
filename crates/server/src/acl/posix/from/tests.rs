use std::collections::BTreeMap;

use proptest::prelude::*;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proto::dtyp::Acl;

use super::*;
use crate::acl::model::evaluate::{Token, granted};
use crate::acl::posix::{UnixSids, to_descriptor};
use crate::vfs::Identity;

fn from_rules(file: &Posix, rules: &[Rule], sids: &(dyn Sids + Sync), duty: Duty) -> Result<Posix, Inexpressible> {
    finished(super::from_rules(file, rules, sids, duty))
}

fn from_descriptor(
    file: &Posix,
    descriptor: &SecurityDescriptor,
    sids: &(dyn Sids + Sync),
    duty: Duty,
) -> Result<Posix, Inexpressible> {
    finished(super::from_descriptor(file, descriptor, sids, duty))
}

/// Returns the output of a future that only yields.
fn finished<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
    }
}

const OWNER: Sid = Sid::unix_user(10);
const EVERYONE: Sid = Sid::EVERYONE;
const ALL: u32 = 0x1f_01ff;
const ALONE: Duty = Duty::Alone { strangers: false };
const TO_ALL: Inheritance = Inheritance { files: true, directories: true, only: true };

fn file(mode: u32, directory: bool) -> Posix {
    Posix { directory, uid: 10, gid: 20, access: PosixAcl::of_mode(mode), default: None }
}

fn rule(sid: Sid, mask: u32, allow: bool) -> Rule {
    Rule { allow, sid, mask: AccessMask(mask), inheritance: Inheritance::default() }
}

/// Formats an ACL like getfacl, without the mask.
fn text(list: &PosixAcl) -> String {
    let entry = |entry: &Entry| {
        let whose = match entry.tag {
            Tag::Owner => "u".to_owned(),
            Tag::User(uid) => format!("u{uid}"),
            Tag::OwningGroup => "g".to_owned(),
            Tag::Group(gid) => format!("g{gid}"),
            Tag::Mask => return None,
            Tag::Other => "o".to_owned(),
        };
        Some(format!("{whose}:{}", entry.permissions))
    };
    list.entries().iter().filter_map(entry).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(rules: &[Rule], directory: bool, expected: &str) {
    let posix = from_rules(&file(0o640, directory), rules, &UnixSids, ALONE).unwrap();
    assert_eq!(posix.access.mode() & 0o070, 0o070, "the mask removes no rights");
    let default = posix.default.iter().map(|list| format!(" | {}", text(list)));
    assert_eq!(text(&posix.access) + &default.collect::<String>(), expected, "{rules:?}");
}

/// As getfacl shows it after Samba 4.17 was given the same DACL, except for the owner if no rule names them.
#[test]
fn acls_without_a_stored_descriptor() {
    let (five, seven) = (Sid::unix_user(5), Sid::unix_group(7));
    let cases: [(&[Rule], &str); 13] = [
        (&[], "u:0 u10:0 g:0 g20:0 o:0"),
        (&[rule(EVERYONE, ALL, true)], "u:7 u10:7 g:7 g20:7 o:7"),
        (&[rule(OWNER, ALL, true)], "u:7 u10:7 g:0 g20:0 o:0"),
        (&[rule(OWNER, 0x1, true), rule(EVERYONE, 0x3, true)], "u:4 u10:4 g:6 g20:6 o:6"),
        (&[rule(OWNER, 0x4000_0000, true), rule(EVERYONE, 0x8000_0000, true)], "u:2 u10:2 g:4 g20:4 o:4"),
        (&[rule(OWNER, ALL, true), rule(EVERYONE, 0x4, false), rule(EVERYONE, 0x3, true)], "u:7 u10:7 g:4 g20:4 o:4"),
        (&[rule(five, 0x8, false), rule(EVERYONE, ALL, true)], "u:7 u5:3 u10:7 g:7 g20:7 o:7"),
        (&[rule(five, 0x1, true), rule(EVERYONE, ALL, true)], "u:7 u5:4 u10:7 g:7 g20:7 o:7"),
        (&[rule(five, 0x40, true), rule(EVERYONE, 0x1, true)], "u:4 u5:0 u10:4 g:4 g20:4 o:4"),
        (&[rule(five, 0x100, false), rule(EVERYONE, 0x1, true)], "u:4 u10:4 g:4 g20:4 o:4"),
        (&[rule(seven, 0x2, false), rule(OWNER, ALL, true), rule(EVERYONE, 0x1, true)], "u:5 u10:5 g:4 g7:4 g20:4 o:4"),
        (&[rule(Sid::SYSTEM, ALL, true), rule(OWNER, 0x1, true)], "u:4 u10:4 g:0 g20:0 o:0"),
        (&[rule(Sid::SYSTEM, ALL, false), rule(OWNER, 0x1, true)], "u:4 u10:4 g:0 g20:0 o:0"),
    ];
    for (rules, expected) in cases {
        check(rules, false, expected);
    }
    // A deny rule after an allow rule has no effect.
    check(&[rule(five, ALL, true), rule(EVERYONE, 0x2, false)], false, "u:0 u5:7 u10:0 g:0 g20:0 o:0");
    // Without the right to delete children there is no `w` on a directory.
    check(&[rule(five, 0x40, false), rule(EVERYONE, ALL, true)], true, "u:7 u5:5 u10:7 g:7 g20:7 o:7");
    let null = SecurityDescriptor {
        control: proto::dtyp::security_descriptor::Control::DACL_PRESENT,
        ..SecurityDescriptor::default()
    };
    let everything = from_descriptor(&file(0, false), &null, &UnixSids, ALONE).unwrap();
    assert_eq!(text(&everything.access), "u:7 u10:7 g:7 g20:7 o:7");
}

#[test]
fn inexpressible_descriptors_are_refused() {
    let stranger = Sid::of(5, [21, 9, 9, 9, 1104]);
    let denies = |sid| [rule(sid, 0x2, false), rule(EVERYONE, 0x3, true)];
    let allows = |sid| [rule(sid, 0x2, true), rule(EVERYONE, 0x3, true)];
    let refusal =
        |rules: &[Rule], strangers| from_rules(&file(0, false), rules, &UnixSids, Duty::Alone { strangers }).err();
    // Members of this group may be members of the file's group.
    for sid in [Sid::unix_group(7), Sid::AUTHENTICATED_USERS, stranger] {
        assert_eq!(refusal(&denies(sid), true), Some(Inexpressible::Denied(sid)));
    }
    assert_eq!(refusal(&denies(Sid::unix_group(20)), false), None);
    for sid in [stranger, Sid::of(5, [80, 1, 2, 3, 4, 5]), Sid::of(15, [2, 1])] {
        assert_eq!(refusal(&allows(sid), false), Some(Inexpressible::Unknown(sid)));
        assert_eq!(refusal(&allows(sid), true), None);
    }
    assert_eq!(refusal(&allows(Sid::BUILTIN_USERS), false), None);
}

/// With a stored descriptor, the kernel must permit what the descriptor grants.
#[test]
fn acls_next_to_a_stored_descriptor() {
    let cases: [(&[Rule], bool, u32); 9] = [
        (&[rule(OWNER, 0x4, true)], false, 0o200),
        (&[rule(OWNER, 0x18, true)], false, 0o600),
        (&[rule(OWNER, 0x1_0000, true)], false, 0o000),
        (&[rule(OWNER, 0x1, true), rule(EVERYONE, 0x2, true)], false, 0o622),
        (&[rule(OWNER, 0x2, false), rule(OWNER, 0x1f_01ff, true)], false, 0o500),
        (&[rule(Sid::OWNER_RIGHTS, 0x1, true)], false, 0o400),
        (&[rule(Sid::AUTHENTICATED_USERS, 0x3, true)], false, 0o666),
        (&[rule(OWNER, 0x40, true), rule(EVERYONE, 0x1, true)], true, 0o755),
        (&[rule(Sid::SYSTEM, 0x2, false), rule(EVERYONE, 0x2, true)], false, 0o222),
    ];
    for (rules, directory, mode) in cases {
        let posix = from_rules(&file(0o640, directory), rules, &UnixSids, Duty::Beneath).unwrap();
        assert_eq!((posix.access.is_minimal(), posix.access.mode()), (true, mode), "{rules:?}");
    }
    let denied = [rule(Sid::unix_group(7), 0x2, false), rule(EVERYONE, 0x3, true)];
    let posix = from_rules(&file(0, false), &denied, &UnixSids, Duty::Beneath).unwrap();
    assert_eq!(text(&posix.access), "u:6 g:6 g7:4 o:6");
}

#[test]
fn inheritable_rules_make_a_default_acl() {
    let inherited = |rule| Rule { inheritance: TO_ALL, ..rule };
    let own = rule(OWNER, 0x3, true);
    let (group, creators) = (rule(Sid::unix_group(7), 0x1, true), rule(Sid::CREATOR_GROUP, 0x21, true));
    let rules = [own, inherited(group), inherited(creators)];
    check(&rules, true, "u:6 u10:6 g:0 g20:0 o:0 | u:6 g:5 g7:4 g20:0 o:0");
    check(&rules, false, "u:6 u10:6 g:0 g20:0 o:0");
    // An allow rule not inherited by everything is not in the default ACL; a deny rule always is.
    let made = |rules: &[(Rule, AceFlags)]| {
        let aces = rules.iter().map(|(rule, flags)| Ace { ace_flags: *flags, ..rule.to_ace() }).collect();
        let dacl = Acl::new(Acl::REVISION, aces);
        let descriptor = SecurityDescriptor { dacl, ..SecurityDescriptor::default() };
        from_descriptor(&file(0, true), &descriptor, &UnixSids, ALONE).unwrap().default.as_ref().map(text)
    };
    let (files, all) = (AceFlags::OBJECT_INHERIT, AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT);
    for flags in [files, AceFlags::CONTAINER_INHERIT, all | AceFlags::NO_PROPAGATE_INHERIT] {
        assert_eq!(made(&[(own, flags)]), None);
    }
    let denied = [(rule(Sid::unix_user(5), 0x2, false), files), (rule(EVERYONE, 0x3, true), all)];
    assert_eq!(made(&denied).as_deref(), Some("u:6 u5:4 g:6 g20:6 o:6"));
}

fn list() -> impl Strategy<Value = PosixAcl> {
    let named = proptest::collection::btree_map(
        prop_oneof![(1..9u32).prop_map(Tag::User), (1..9u32).prop_map(Tag::Group)],
        0..8u8,
        0..4,
    );
    (0..0o1000u32, named).prop_map(|(mode, named)| {
        let mut entries = PosixAcl::of_mode(mode).entries().to_vec();
        entries.extend(named.into_iter().map(|(tag, permissions)| Entry { tag, permissions }));
        PosixAcl::new(entries)
    })
}

/// Linux ids as SIDs, and the groups of some users.
struct Known(BTreeMap<u32, Vec<u32>>);

impl Sids for Known {
    fn user(&self, uid: u32) -> Sid {
        UnixSids.user(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        UnixSids.group(gid)
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        UnixSids.uid(sid)
    }

    fn gid(&self, sid: &Sid) -> Option<u32> {
        UnixSids.gid(sid)
    }

    fn is_member(&self, uid: u32, gid: u32) -> Option<bool> {
        self.0.get(&uid).map(|groups| groups.contains(&gid))
    }
}

fn identity(uid: u32, groups: &[u32]) -> Identity {
    Identity { uid, gid: groups.first().copied().unwrap_or(99), groups: groups.into() }
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let whom = prop_oneof![
        prop_oneof![Just(4u32), Just(5), Just(10)].prop_map(Sid::unix_user),
        prop_oneof![Just(7u32), Just(8), Just(20)].prop_map(Sid::unix_group),
        Just(EVERYONE),
        Just(Sid::OWNER_RIGHTS),
        Just(Sid::SYSTEM),
    ];
    let rights = prop_oneof![0..0x200u32, Just(0x1f_01ff), Just(0x12_0089), Just(0x12_0116), Just(0x1000_0000)];
    proptest::collection::vec((whom, rights, 0..3u8).prop_map(|(sid, mask, deny)| rule(sid, mask, deny > 0)), 0..7)
}

proptest! {
    /// For any membership and any knowledge of it.
    #[test]
    fn no_user_gets_more_than_the_rules_grant(
        rules in rules(),
        directory in any::<bool>(),
        people in proptest::collection::btree_map(
            prop_oneof![Just(4u32), Just(5), Just(6), Just(10)],
            (proptest::sample::subsequence(vec![7, 8, 20], 0..=3), any::<bool>()),
            1..4,
        ),
    ) {
        let known = people.iter().filter(|(_, (_, known))| *known).map(|(&uid, (groups, _))| (uid, groups.clone()));
        let Ok(made) = from_rules(&file(0o777, directory), &rules, &Known(known.collect()), ALONE) else {
            return Ok(());
        };
        let aces = rules.iter().map(|rule| rule.to_ace()).collect();
        let dacl = Acl::new(Acl::REVISION, aces);
        let descriptor = SecurityDescriptor { owner: Some(OWNER), dacl, ..SecurityDescriptor::default() };
        for (&uid, (groups, _)) in &people {
            let sids = groups.iter().map(|&gid| Sid::unix_group(gid)).chain([EVERYONE]).collect();
            let token = Token { user: Sid::unix_user(uid), groups: sids, security: false, take_ownership: false };
            let granted = granted(&token, &descriptor);
            for (bit, right) in
                [(4, AccessMask::FILE_READ_DATA), (2, AccessMask::FILE_WRITE_DATA), (1, AccessMask::FILE_EXECUTE)]
            {
                let has = made.access.permits(&identity(uid, groups), 10, 20, bit);
                prop_assert!(!has || granted.contains(right), "{uid} {groups:?} {bit}: {}", text(&made.access));
            }
        }
    }

    #[test]
    fn a_shown_descriptor_means_the_same_when_set(
        access in list(),
        default in proptest::option::of(list()),
        directory in any::<bool>(),
        who in (1..11u32, proptest::sample::subsequence(vec![1, 2, 3, 20], 0..=3)),
        wanted in 0..8u8,
    ) {
        let default = default.filter(|_| directory);
        let before = Posix { directory, uid: 10, gid: 20, access, default };
        let back = |file: &Posix| from_descriptor(file, &to_descriptor(file, &UnixSids), &UnixSids, ALONE).unwrap();
        let after = back(&before);
        let who = identity(who.0, &who.1);
        let [had, has] = [&before, &after].map(|file| file.access.permits(&who, 10, 20, wanted));
        prop_assert!(had || !has);
        // If the group class is empty, the kernel does not evaluate the ACL.
        prop_assert!(had == has || before.access.mode() & 0o070 == 0);
        prop_assert_eq!(back(&after), after);
        let unchanged = from_descriptor(&before, &SecurityDescriptor::default(), &UnixSids, ALONE);
        prop_assert_eq!(unchanged, Ok(before));
    }
}

/// The longest ACL that fits in a descriptor: two thousand users, each evaluated against two thousand rules.
#[test]
fn a_long_acl_yields() {
    let rules: Vec<_> = (0..2_000).map(|uid| rule(Sid::unix_user(1_000 + uid), ALL, true)).collect();
    let before = file(0, false);
    let mut future = pin!(super::from_rules(&before, &rules, &UnixSids, ALONE));
    let mut polls = 1;
    let after = loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(after) => break after.unwrap(),
            Poll::Pending => polls += 1,
        }
    };
    // Entries are added for the owner's and the group's ids, and for the mask.
    assert_eq!(after.access.entries().len(), 2_000 + 3 + 3);
    assert!(polls > 400, "{polls}");
}
