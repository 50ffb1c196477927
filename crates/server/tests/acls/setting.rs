//! A descriptor that was set is returned, and setting is atomic ([MS-FSA] 2.1.5.14, 2.1.5.17).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::smb2::SecurityInformation;
use proto::smb2::create::CreateDisposition;
use proto::smb2::header::Command;
use proto::status::Status;
use server::answer::block_on;
use server::testing::{self, TestClient, status};
use server::vfs::faulty::Operation;
use server::vfs::{Errno, SERVER, SetMetadata};

use crate::fixture::{
    ALICE, BOB, Fixture, OWNER_GROUP_DACL, OneFails, allow, create, make, open, opened, rules, set_dacl, with_dacl,
};

#[test]
fn a_descriptor_is_shown_as_it_was_set() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    let stranger = Sid::of(5, [21, 9, 9, 9, 1104]);
    let aces = vec![
        Ace::deny(stranger, A::FILE_WRITE_DATA, AceFlags::NONE),
        allow(ALICE, A::GENERIC_ALL),
        allow(Sid::EVERYONE, A::FILE_READ_DATA),
        Ace::allow(Sid::SYSTEM, A::FILE_ALL_ACCESS, AceFlags(0x13)),
    ];
    let flags = Control::DACL_PROTECTED | Control::DACL_AUTO_INHERITED | Control::DACL_COMPUTED_INHERITANCE_REQUIRED;
    let given = SecurityDescriptor { group: Some(stranger), ..with_dacl(flags, aces.clone()) };
    assert_eq!(fixture.alice.set_security(file, OWNER_GROUP_DACL, &given), Status::SUCCESS);
    let shown = fixture.alice.security(file, OWNER_GROUP_DACL);
    let expanded = [aces[0].clone(), allow(ALICE, A::FILE_ALL_ACCESS), aces[2].clone(), aces[3].clone()].to_vec();
    assert_eq!(shown.dacl, Acl::new(Acl::REVISION, expanded));
    assert_eq!((shown.owner, shown.group), (Some(ALICE), Some(stranger)));
    let kept = Control::SELF_RELATIVE | Control::DACL_PRESENT | Control::DACL_PROTECTED | Control::DACL_AUTO_INHERITED;
    assert_eq!(shown.control, kept);
    let dacl = fixture.alice.security(file, SecurityInformation::DACL);
    assert_eq!((dacl.owner, dacl.dacl), (None, shown.dacl));
    assert_eq!(fixture.mode("file"), 0o744, "the mode approximates the descriptor");
}

/// As in Samba, where the file keeps the SID that was set.
#[test]
fn an_unknown_group_becomes_the_callers_group_in_linux() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    let gid = |fixture: &Fixture| block_on(fixture.node("file").metadata(&SERVER)).expect("the file has metadata").gid;
    let own = gid(&fixture);
    let other = SetMetadata { gid: Some(own + 7), ..SetMetadata::default() };
    fixture.set_metadata("file", other);
    let group = Some(Sid::of(5, [21, 9, 9, 9, 513]));
    let given = SecurityDescriptor { group, ..SecurityDescriptor::default() };
    assert_eq!(fixture.alice.set_security(file, SecurityInformation::GROUP, &given), Status::SUCCESS);
    assert_eq!((gid(&fixture), fixture.alice.security(file, SecurityInformation::GROUP).group), (own, group));
}

#[test]
fn ownership_is_taken_and_never_given_away() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    let owner = |sid| SecurityDescriptor { owner: Some(sid), ..SecurityDescriptor::default() };
    let given = fixture.alice.set_security(file, SecurityInformation::OWNER, &owner(BOB));
    assert_eq!(given, Status::INVALID_OWNER);
    set_dacl(&mut fixture.alice, file, vec![allow(BOB, A::WRITE_OWNER | A::READ_CONTROL)]);
    let bobs =
        opened(&create(&mut fixture.bob, "file", A::WRITE_OWNER | A::READ_CONTROL, CreateDisposition::OPEN, false));
    assert_eq!(fixture.bob.set_security(bobs, SecurityInformation::OWNER, &owner(BOB)), Status::SUCCESS);
    assert_eq!(fixture.bob.security(bobs, SecurityInformation::OWNER).owner, Some(BOB));
    assert_eq!(block_on(fixture.node("file").metadata(&SERVER)).expect("the file has metadata").uid, 1001);
    let refused = fixture.bob.set_security(bobs, SecurityInformation::DACL, &with_dacl(Control::NONE, Vec::new()));
    assert_eq!(refused, Status::ACCESS_DENIED, "the handle has no WRITE_DAC");
    assert_eq!(open(&mut fixture.bob, "file", A::WRITE_DAC), Status::SUCCESS, "the owner may change the ACL");
}

/// A failed change has no effect: neither on the reported descriptor and the access rights, nor in Linux.
#[test]
fn a_request_that_fails_midway_changes_nothing() {
    let mut failures = 0;
    for number in 0..6 {
        let mut fixture = Fixture::new();
        let file = make(&mut fixture.alice, "file", false);
        let first = vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(BOB, A::FILE_GENERIC_READ)];
        set_dacl(&mut fixture.alice, file, first);
        fixture.alice.close(file);
        let kinds = &[Operation::SetXattr, Operation::SetMetadata];
        let script = Arc::new(OneFails { kinds, error: Errno::NOSPC, before: u64::MAX.into() });
        let server = fixture.faulty(script.clone());
        let mut alice = TestClient::logged_on(&server, "alice");
        let file = opened(&create(&mut alice, "file", A::FILE_ALL_ACCESS, CreateDisposition::OPEN, false));
        let before = (alice.security(file, OWNER_GROUP_DACL), fixture.mode("file"));
        script.before.store(number, Ordering::Relaxed);
        let second = vec![allow(ALICE, A::FILE_GENERIC_READ), allow(Sid::EVERYONE, A::FILE_ALL_ACCESS)];
        let group = Some(Sid::of(5, [21, 9, 9, 9, 1104]));
        let new = SecurityDescriptor { group, ..with_dacl(Control::NONE, second) };
        let ended = alice.set_security(file, SecurityInformation::GROUP | SecurityInformation::DACL, &new);
        script.before.store(u64::MAX, Ordering::Relaxed);
        let after = (alice.security(file, OWNER_GROUP_DACL), fixture.mode("file"));
        if ended == Status::SUCCESS {
            assert_ne!(after, before);
            continue;
        }
        failures += 1;
        assert_eq!((ended, after), (Status::DISK_FULL, before), "call {number}");
        let bobs = open(&mut TestClient::logged_on(&server, "bob"), "file", A::FILE_WRITE_DATA);
        assert_eq!(bobs, Status::ACCESS_DENIED, "call {number}");
    }
    assert!(failures >= 2, "{failures}");
}

/// ACLs of maximum length, and ACLs with false lengths.
#[test]
fn long_and_malformed_acls() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    let many = |count| {
        let others = (0..count).map(|rid| allow(Sid::of(5, [21, 7, 7, 7, rid]), A::FILE_GENERIC_READ));
        std::iter::once(allow(ALICE, A::FILE_ALL_ACCESS)).chain(others).collect::<Vec<_>>()
    };
    set_dacl(&mut fixture.alice, file, many(1_780));
    assert_eq!(rules(&fixture.alice.security(file, SecurityInformation::DACL)).len(), 1_781);
    // With its owner and group it is longer than a Linux attribute can be.
    let long = with_dacl(Control::NONE, many(1_817));
    assert_eq!(fixture.alice.set_security(file, SecurityInformation::DACL, &long), Status::INVALID_SECURITY_DESCR);
    assert_eq!(rules(&fixture.alice.security(file, SecurityInformation::DACL)).len(), 1_781);
    let honest = with_dacl(Control::NONE, many(3)).to_bytes();
    let mut send = |buffer: &[u8]| {
        let set = testing::set_security(file, SecurityInformation::DACL, buffer);
        status(&fixture.alice.request(Command::SET_INFO, |out| set.encode(out)))
    };
    // After the header: revision, size and count of the ACL, then the type, flags and size of the first ACE.
    for (at, value) in [(22, 0xffff), (22, 4), (24, 0xffff), (30, 0), (30, 3), (30, 0xffff), (30, 0x1000)] {
        let mut lying = honest.clone();
        lying[at..at + 2].copy_from_slice(&u16::to_le_bytes(value));
        assert_ne!(send(&lying), Status::SUCCESS, "{value:#x} at {at}");
    }
    for length in 0..honest.len() {
        assert_ne!(send(&honest[..length]), Status::SUCCESS, "{length} bytes");
    }
    assert_eq!(send(&honest), Status::SUCCESS);
}
