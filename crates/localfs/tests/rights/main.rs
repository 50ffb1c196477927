//! Consistency of clients' and local users' rights: every access that the server grants is also granted by the kernel,
//! and never more.
//!
//! The tests use random POSIX ACLs and random Windows ACLs on the machine's file system. Each user requests every right
//! from the server, and a thread with that user's identity asks the kernel. Root is required, because otherwise no
//! other identity can be assumed.

mod fixture;

use std::cell::RefCell;

use backing::permissions::{EXECUTE, Permissions, READ, WRITE};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use proto::dtyp::acl::{Ace, AceFlags, AceType};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use server::acl::model::evaluate;
use server::acl::model::evaluate::Token;
use server::acl::model::posix_acl::{Entry, PosixAcl, Tag};
use server::vfs::{Identity, Kind};

use fixture::{Fixture, GIDS, USERS, User};

/// The individual rights to a file.
const RIGHTS: [A; 13] = [
    A::FILE_READ_DATA,
    A::FILE_WRITE_DATA,
    A::FILE_APPEND_DATA,
    A::FILE_READ_EA,
    A::FILE_WRITE_EA,
    A::FILE_EXECUTE,
    A::FILE_DELETE_CHILD,
    A::FILE_READ_ATTRIBUTES,
    A::FILE_WRITE_ATTRIBUTES,
    A::DELETE,
    A::READ_CONTROL,
    A::WRITE_DAC,
    A::WRITE_OWNER,
];

fn runner(cases: u32) -> TestRunner {
    let cases = std::env::var("FREVO_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    let config = Config { cases, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
}

/// Owner, group and POSIX ACL of a file.
#[derive(Clone, Debug)]
struct Linux {
    uid: u32,
    gid: u32,
    access: PosixAcl,
    sticky: bool,
}

impl Linux {
    fn permissions(&self, kind: Kind) -> Permissions<'_> {
        let mode = self.access.mode() | if self.sticky && kind == Kind::Directory { 0o1000 } else { 0 };
        let list = Some(&self.access).filter(|list| !list.is_minimal());
        Permissions::new(kind, mode, (self.uid, self.gid), list)
    }
}

fn identity(index: usize) -> Identity {
    let User { uid, gid, groups } = USERS[index];
    Identity { uid, gid, groups: groups.into() }
}

fn uid() -> impl Strategy<Value = u32> {
    proptest::sample::select(&USERS[..]).prop_map(|user| user.uid)
}

fn gid() -> impl Strategy<Value = u32> {
    proptest::sample::select(&GIDS[..])
}

fn linux() -> impl Strategy<Value = Linux> {
    let tag = prop_oneof![uid().prop_map(Tag::User), gid().prop_map(Tag::Group)];
    let named = proptest::collection::btree_map(tag, 0..8u8, 0..5);
    (uid(), gid(), 0..0o1000u32, named, proptest::option::of(0..8u8), any::<bool>()).prop_map(
        |(uid, gid, mode, named, mask, sticky)| {
            let mut entries = PosixAcl::of_mode(mode).entries().to_vec();
            let mask = mask.filter(|_| !named.is_empty()).map(|permissions| Entry { tag: Tag::Mask, permissions });
            entries.extend(named.into_iter().map(|(tag, permissions)| Entry { tag, permissions }).chain(mask));
            Linux { uid, gid, access: PosixAcl::new(entries), sticky }
        },
    )
}

/// On a share without stored security descriptors, the server predicts exactly the rights that the kernel will grant.
#[test]
fn access_by_posix_acls() {
    let Some(fixture) = Fixture::new() else { return };
    let fixture = RefCell::new(fixture);
    let ran = runner(60).run(&(linux(), linux(), linux()), |(directory, file, inner)| {
        let mut fixture = fixture.borrow_mut();
        fixture.clear();
        fixture.make("d", true, &directory);
        fixture.make("d/f", false, &file);
        fixture.make("d/s", true, &inner);
        for index in 0..USERS.len() {
            for (name, is_directory) in [("d", true), ("d/f", false), ("d/s", true)] {
                as_the_kernel(&mut fixture, index, name, is_directory)?;
            }
            names_as_the_kernel(&mut fixture, index, "d/s", &file)?;
        }
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
}

/// Storage that checks no permissions gets the kernel's decisions from [`Permissions`].
#[test]
fn permissions_are_evaluated_as_by_the_kernel() {
    let Some(fixture) = Fixture::new() else { return };
    let ran = runner(60).run(&(linux(), linux()), |(directory, file)| {
        fixture.clear();
        for (linux, name, kind) in [(&directory, "d", Kind::Directory), (&file, "d/f", Kind::File)] {
            fixture.make(name, kind == Kind::Directory, linux);
            let permissions = linux.permissions(kind);
            let by_root = permissions.rwx(&Identity { uid: 0, gid: 0, groups: [].into() });
            prop_assert_eq!(by_root == 7, fixture.root_executes(name), "root executes {}", name);
            for index in 0..USERS.len() {
                // The kernel does not say anything about files that the user does not reach.
                let Some(kernel) = fixture.kernel(index, name, kind == Kind::Directory) else { continue };
                let who = identity(index);
                let bit = |has: bool, bit: u8| if has { u32::from(bit) } else { 0 };
                let expected = bit(kernel.read, READ) | bit(kernel.write, WRITE) | bit(kernel.execute, EXECUTE);
                prop_assert_eq!(permissions.rwx(&who), expected, "{} for user {}: {:?}", name, index, kernel);
                if kind == Kind::File {
                    prop_assert_eq!(permissions.permit(&who, READ | WRITE), kernel.both, "both for user {}", index);
                    let removes = directory.permissions(Kind::Directory).permit_removal(&who, file.uid);
                    prop_assert_eq!(removes, fixture.unlinks(index, name, false), "user {} removes {}", index, name);
                }
            }
        }
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
}

/// Compares the rights of user number `index` to `name` with the kernel's.
fn as_the_kernel(fixture: &mut Fixture, index: usize, name: &str, directory: bool) -> Result<(), TestCaseError> {
    let kernel = fixture.kernel(index, name, directory);
    let posix = fixture.posix[index];
    let Some(kernel) = kernel else {
        for right in RIGHTS {
            prop_assert!(!fixture.opens(posix, name, right), "{index} does not reach {name} for {right:?}");
        }
        return Ok(());
    };
    let maximum = fixture.maximum(posix, name).expect("a user who reaches a file may read its attributes");
    let deletes = fixture.unlinks(index, name, directory);
    for right in RIGHTS {
        let expected = match right {
            A::FILE_READ_DATA | A::FILE_READ_EA => kernel.read,
            A::FILE_WRITE_DATA | A::FILE_APPEND_DATA | A::FILE_WRITE_EA => kernel.write,
            A::FILE_DELETE_CHILD => kernel.write,
            A::FILE_EXECUTE if directory => kernel.execute,
            // A user who can read a file may execute it.
            A::FILE_EXECUTE => kernel.execute || kernel.read,
            A::FILE_READ_ATTRIBUTES | A::READ_CONTROL => true,
            A::FILE_WRITE_ATTRIBUTES => kernel.owns || kernel.write,
            A::WRITE_DAC | A::WRITE_OWNER => kernel.owns,
            A::DELETE => deletes,
            _ => continue,
        };
        prop_assert_eq!(maximum.contains(right), expected, "{:?} of {} for user {}: {:?}", right, name, index, kernel);
        prop_assert_eq!(fixture.opens(posix, name, right), expected, "{:?} of {} for user {}", right, name, index);
    }
    prop_assert!(fixture.opens(posix, name, A::MAXIMUM_ALLOWED), "all rights on {} of user {}", name, index);
    let both = fixture.opens(posix, name, A::FILE_READ_DATA | A::FILE_WRITE_DATA);
    prop_assert_eq!(both, kernel.both, "reading and writing {} for user {}: {:?}", name, index, kernel);
    if !directory {
        prop_assert_eq!(fixture.overwrites(posix, name), kernel.write, "overwriting {} for user {}", name, index);
    }
    Ok(())
}

/// Compares the results of creating and removing names in `directory` with the kernel's.
fn names_as_the_kernel(
    fixture: &mut Fixture,
    index: usize,
    directory: &str,
    file: &Linux,
) -> Result<(), TestCaseError> {
    let posix = fixture.posix[index];
    let new = format!("{directory}/new");
    let kernel = fixture.creates(index, &new);
    prop_assert_eq!(fixture.makes(posix, &new), kernel, "user {} creates {}", index, new);
    fixture.remove(&new);
    fixture.make(&new, false, file);
    let kernel = fixture.unlinks(index, &new, false);
    prop_assert_eq!(fixture.deletes(posix, &new), (kernel, kernel), "user {} removes {}", index, new);
    fixture.remove(&new);
    Ok(())
}

/// A share that stores security descriptors, with files that have none yet. The descriptor synthesized from a POSIX ACL
/// adds up the permissions of several entries, whereas the kernel uses one entry. If the kernel therefore refuses
/// writing to a user, the user must not be able to change anything else either.
#[test]
fn access_by_posix_acls_shown_as_windows_acls() {
    let Some(fixture) = Fixture::new() else { return };
    let fixture = RefCell::new(fixture);
    let ran = runner(100).run(&(linux(), linux()), |(file, directory)| {
        let mut fixture = fixture.borrow_mut();
        fixture.clear();
        fixture.make("f", false, &file);
        fixture.make("d", true, &directory);
        for (index, name) in (0..USERS.len()).flat_map(|index| [(index, "f"), (index, "d")]) {
            let kernel = fixture.kernel(index, name, name == "d").expect("every user reaches it");
            let stored = fixture.stored[index];
            let maximum = fixture.maximum(stored, name).expect("every user may read its attributes");
            for right in [A::FILE_WRITE_EA, A::FILE_WRITE_ATTRIBUTES, A::WRITE_DAC, A::WRITE_OWNER] {
                let opens = fixture.opens(stored, name, right);
                prop_assert_eq!(opens, maximum.contains(right), "{:?} of {} for user {}", right, name, index);
                let may = kernel.write || kernel.owns;
                prop_assert!(!opens || may, "{:?} of {} for user {}: {:?}", right, name, index, kernel);
            }
        }
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
}

/// A Windows ACL on a file or directory of some owner.
#[derive(Clone, Debug)]
struct Windows {
    directory: bool,
    uid: u32,
    gid: u32,
    aces: Vec<Ace>,
    /// Whether its parent directory lets every user delete.
    in_commons: bool,
}

/// Trustees of ACEs other than Linux users and groups.
const OTHERS: [Sid; 6] = [
    Sid::AUTHENTICATED_USERS,
    Sid::BUILTIN_USERS,
    Sid::OWNER_RIGHTS,
    Sid::SYSTEM,
    Sid::CREATOR_OWNER,
    Sid::of(5, [21, 4, 5, 6, 1107]),
];

/// Access masks in common use, with "modify" at the end.
const MASKS: [A; 8] = [
    A::FILE_ALL_ACCESS,
    A::FILE_GENERIC_READ,
    A::FILE_GENERIC_WRITE,
    A::FILE_GENERIC_EXECUTE,
    A::GENERIC_ALL,
    A::GENERIC_READ,
    A::GENERIC_WRITE,
    A(0x13_01bf),
];

fn ace() -> impl Strategy<Value = Ace> {
    let sid = prop_oneof![
        4 => uid().prop_map(Sid::unix_user),
        4 => gid().prop_map(Sid::unix_group),
        3 => Just(Sid::EVERYONE),
        1 => proptest::sample::select(&OTHERS[..]),
    ];
    let mask = prop_oneof![
        proptest::sample::select(&MASKS[..]),
        any::<u32>().prop_map(|bits| A(bits & A::FILE_ALL_ACCESS.0)),
        (0..9u32).prop_map(|bit| A(1 << bit)),
    ];
    (any::<bool>(), sid, mask, 0..8u8).prop_map(|(allow, sid, mask, flags)| {
        let flags = if flags == 0 { AceFlags(0x0b) } else { AceFlags::NONE };
        if allow { Ace::allow(sid, mask, flags) } else { Ace::deny(sid, mask, flags) }
    })
}

fn windows() -> impl Strategy<Value = Windows> {
    let aces = proptest::collection::vec(ace(), 0..7);
    (any::<bool>(), uid(), gid(), aces, any::<bool>()).prop_map(|(directory, uid, gid, aces, in_commons)| Windows {
        directory,
        uid,
        gid,
        aces,
        in_commons,
    })
}

/// Returns the token with which [MS-DTYP] 2.5.3.2 is evaluated for a user.
fn token(index: usize) -> Token {
    let user = USERS[index];
    let mut groups = vec![Sid::EVERYONE, Sid::NETWORK, Sid::AUTHENTICATED_USERS, Sid::BUILTIN_USERS];
    groups.extend(std::iter::once(&user.gid).chain(user.groups).map(|&gid| Sid::unix_group(gid)));
    Token { user: Sid::unix_user(user.uid), groups: groups.into(), security: false, take_ownership: false }
}

/// On a share that stores security descriptors, no user has a right that the descriptor does not grant or that the
/// kernel refuses, and the kernel grants every right that a POSIX ACL can express.
#[test]
fn access_by_windows_acls() {
    let Some(fixture) = Fixture::new() else { return };
    let fixture = RefCell::new(fixture);
    let ran = runner(150).run(&windows(), |case| {
        let mut fixture = fixture.borrow_mut();
        fixture.clear();
        let descriptor = place(&mut fixture, &case);
        for index in 0..USERS.len() {
            let granted = evaluate::granted(&token(index), &descriptor);
            as_the_descriptor(&mut fixture, index, &case, granted)?;
        }
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
}

/// Creates the file of `case` as an administrator would from a client.
fn place(fixture: &mut Fixture, case: &Windows) -> SecurityDescriptor {
    let everyone = |mask| vec![Ace::allow(Sid::EVERYONE, mask, AceFlags::NONE)];
    let commons = if case.in_commons { A::FILE_ALL_ACCESS } else { A::FILE_GENERIC_READ | A::FILE_EXECUTE };
    let set = |uid, gid, aces| SecurityDescriptor {
        owner: Some(Sid::unix_user(uid)),
        group: Some(Sid::unix_group(gid)),
        dacl: Acl::new(Acl::REVISION, aces),
        ..SecurityDescriptor::default()
    };
    fixture.administer("d", true, &set(0, 0, everyone(commons)));
    let descriptor = set(case.uid, case.gid, case.aces.clone());
    fixture.administer("d/x", case.directory, &descriptor);
    descriptor
}

fn as_the_descriptor(fixture: &mut Fixture, index: usize, case: &Windows, granted: A) -> Result<(), TestCaseError> {
    let (stored, name) = (fixture.stored[index], "d/x");
    let kernel = fixture.kernel(index, name, case.directory).expect("every user may pass through d");
    // A POSIX ACL has no ordered denials. For users that it names, it covers only the group memberships known to the
    // setter.
    let (user, own) = (USERS[index], USERS[index].uid == case.uid);
    let denies = case.aces.iter().any(|ace| ace.ace_type == AceType::ACCESS_DENIED);
    let named = case.aces.iter().filter_map(Ace::trustee).any(|(_, sid)| *sid == Sid::unix_user(user.uid));
    let expressible = !denies && (own || !named);
    let by_parent = if case.in_commons { A::DELETE } else { A::NONE };
    let most = granted | A::FILE_READ_ATTRIBUTES | by_parent;
    let maximum = fixture.maximum(stored, name).expect("every user may read its attributes");
    prop_assert!(most.contains(maximum), "{:?} beyond {:?}", maximum, most);
    for right in RIGHTS {
        let opens = fixture.opens(stored, name, right);
        prop_assert_eq!(opens, maximum.contains(right), "{:?} for user {}, {:?}", right, index, maximum);
        let by_kernel = match right {
            A::FILE_READ_DATA => kernel.read,
            A::FILE_WRITE_DATA | A::FILE_APPEND_DATA => kernel.write,
            A::FILE_DELETE_CHILD => kernel.write || !case.directory,
            _ => true,
        };
        prop_assert!(by_kernel || !expressible || !granted.contains(right), "{:?} for user {}", right, index);
        prop_assert!(!opens || by_kernel, "{:?} for user {}: {:?}", right, index, kernel);
        prop_assert!(opens || !most.contains(right) || !by_kernel, "{:?} for user {} of {:?}", right, index, most);
    }
    prop_assert!(fixture.opens(stored, name, A::MAXIMUM_ALLOWED), "all rights of user {} with {:?}", index, maximum);
    let both = A::FILE_READ_DATA | A::FILE_WRITE_DATA;
    prop_assert_eq!(
        fixture.opens(stored, name, both),
        maximum.contains(both) && kernel.both,
        "both for user {}",
        index
    );
    if !case.directory {
        let expected = maximum.contains(A::FILE_WRITE_DATA);
        prop_assert_eq!(fixture.overwrites(stored, name), expected, "overwriting for user {}, {:?}", index, maximum);
    }
    if case.directory {
        let new = format!("{name}/new");
        let made = fixture.makes(stored, &new);
        prop_assert!(!made || granted.contains(A::FILE_ADD_FILE), "user {} creates {}", index, new);
        fixture.remove(&new);
    }
    Ok(())
}

/// If one group may read and another write, one open gets either: the access requested by name, else reading.
#[test]
fn rights_of_two_groups_are_not_combined_in_one_open() {
    let Some(mut fixture) = Fixture::new() else { return };
    let entry = |tag, permissions| Entry { tag, permissions };
    let (reads, writes) = (entry(Tag::Group(GIDS[0]), 4), entry(Tag::Group(GIDS[1]), 2));
    let access = PosixAcl::new([PosixAcl::of_mode(0o600).entries(), &[reads, writes]].concat());
    let member = 2;
    assert!([GIDS[0], GIDS[1]].iter().all(|gid| USERS[member].groups.contains(gid)));
    fixture.clear();
    fixture.make("f", false, &Linux { uid: USERS[0].uid, gid: GIDS[3], access, sticky: false });
    let kernel = fixture.kernel(member, "f", false).expect("every user reaches it");
    assert!(kernel.read && kernel.write && !kernel.both, "{kernel:?}");
    let (read, write) = (A::FILE_READ_DATA, A::FILE_WRITE_DATA);
    for share in [fixture.posix[member], fixture.stored[member]] {
        assert!(
            fixture.maximum(share, "f").expect("the user reaches it").contains(read | write),
            "each right is granted by itself"
        );
        for (asked, granted) in [
            (read, Some(read)),
            (write, Some(write)),
            (read | write, None),
            (A::MAXIMUM_ALLOWED, Some(read)),
            (A::MAXIMUM_ALLOWED | read, Some(read)),
            (A::MAXIMUM_ALLOWED | write, Some(write)),
            (A::MAXIMUM_ALLOWED | read | write, None),
        ] {
            let data = fixture.granted(share, "f", asked).map(|all| all & (read | write));
            assert_eq!(data, granted, "{asked:?}");
        }
    }
}

/// Subdirectories of a set-group-ID directory get that bit from every creator. If a user who is not in the group sets
/// an ACL later, the bit is cleared, as with chmod(2). Both are as in Samba.
#[test]
fn users_outside_the_group_create_directories_that_pass_it_on() {
    let Some(mut fixture) = Fixture::new() else { return };
    let (gid, setgid) = (GIDS[3], 0o2000);
    assert!(USERS[0].gid != gid && !USERS[0].groups.contains(&gid));
    let list = |aces| SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Acl::new(Acl::REVISION, aces),
        ..SecurityDescriptor::default()
    };
    let everybody = |flags| Ace::allow(Sid::EVERYONE, A::FILE_ALL_ACCESS, flags);
    let own = Ace::allow(Sid::unix_user(USERS[0].uid), A::FILE_ALL_ACCESS, AceFlags::NONE);
    let named = Ace::allow(Sid::unix_user(USERS[1].uid), A::FILE_GENERIC_READ, AceFlags(3));
    for (share, aces) in [
        (fixture.posix[0], vec![]),
        (fixture.stored[0], vec![everybody(AceFlags::NONE)]),
        (fixture.stored[0], vec![everybody(AceFlags(3))]),
        (fixture.stored[0], vec![everybody(AceFlags(3)), named.clone()]),
    ] {
        fixture.clear();
        fixture.administer(
            "d",
            true,
            &SecurityDescriptor {
                owner: Some(Sid::unix_user(0)),
                group: Some(Sid::unix_group(0)),
                ..list(aces.clone())
            },
        );
        fixture.regroup("d", gid, 0o2777);
        // Setting the ACL again after that makes it valid.
        if !aces.is_empty() {
            let administrator = fixture.administrator;
            fixture.sets_list(administrator, "d", &list(aces.clone()));
        }
        for number in 0..6 {
            let made = fixture.makes_directory(share, &format!("d/{number}"), None);
            assert_eq!((made.0, made.1 & setgid), (gid, setgid), "{number} with {aces:?}");
        }
        let given = list(vec![own.clone(), named.clone()]);
        let made = fixture.makes_directory(share, "d/given", Some(&given));
        assert_eq!(made.0, gid);
        fixture.sets_list(share, "d/0", &given);
        assert_eq!(fixture.group_and_mode("d/0").1 & setgid, 0, "{aces:?}");
    }
}

/// A user excluded by a directory's default ACL is also excluded from files and directories that clients create in it.
/// ACEs that only allow, as they would be inherited, would grant access.
#[test]
fn a_default_acl_that_denies_a_user_denies_new_files_too() {
    let Some(mut fixture) = Fixture::new() else { return };
    let kept_out = Entry { tag: Tag::User(USERS[1].uid), permissions: 0 };
    let list = |mode| PosixAcl::new([PosixAcl::of_mode(mode).entries(), &[kept_out]].concat());
    let mut check = |share: fn(&Fixture) -> usize, mode, stranger: usize| {
        let client = share(&fixture);
        fixture.clear();
        let open = Linux { uid: USERS[0].uid, gid: GIDS[3], access: PosixAcl::of_mode(0o777), sticky: false };
        fixture.make("d", true, &open);
        fixture.hands_on("d", &list(mode));
        // The first access must not make the directory store ACEs that grant access.
        assert!(fixture.opens(client, "d", A::FILE_READ_DATA));
        assert!(fixture.makes(client, "d/f"));
        fixture.makes_directory(client, "d/d", None);
        for (name, directory) in [("d/f", false), ("d/d", true)] {
            let kernel = fixture.kernel(stranger, name, directory).expect("every user reaches it");
            assert!(!kernel.read && !kernel.write, "{name}, {mode:o}: {kernel:?}");
            for client in [fixture.posix[stranger], fixture.stored[stranger]] {
                let maximum = fixture.maximum(client, name).expect("every user may read its attributes");
                let more = maximum & (A::FILE_READ_DATA | A::FILE_WRITE_DATA | A::WRITE_DAC | A::WRITE_OWNER);
                assert_eq!(more, A::NONE, "{name}, {mode:o}, user {stranger}");
            }
        }
    };
    for (mode, stranger) in [(0o777, 1), (0o770, 1), (0o770, 3)] {
        check(|fixture| fixture.posix[0], mode, stranger);
        check(|fixture| fixture.stored[0], mode, stranger);
    }
}
