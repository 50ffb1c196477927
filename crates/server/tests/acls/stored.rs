//! When a stored descriptor is valid: changes behind the server's back, damaged descriptors, and unreadable ones.

use std::sync::Arc;

use proto::dtyp::acl::AceFlags;
use proto::dtyp::{AccessMask as A, Sid};
use proto::smb2::SecurityInformation;
use proto::status::Status;
use server::answer::block_on;
use server::testing::{self, TestClient};
use server::vfs::faulty::Operation;
use server::vfs::{Errno, SetXattr, Time};

use crate::fixture::{ALICE, BOB, Fixture, OWNER_GROUP_DACL, OneFails, allow, make, open, rules, set_dacl};

#[test]
fn permission_changes_by_other_programs_are_honoured() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    set_dacl(&mut fixture.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(BOB, A::READ_CONTROL)]);
    assert_eq!(open(&mut fixture.bob, "file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
    fixture.chmod("file", 0o666);
    assert_eq!(open(&mut fixture.bob, "file", A::FILE_WRITE_DATA), Status::SUCCESS);
    let shown = fixture.alice.security(file, OWNER_GROUP_DACL);
    assert_eq!(
        rules(&shown).iter().map(|rule| rule.0).collect::<Vec<_>>(),
        [ALICE, Sid::unix_group(1000), Sid::EVERYONE]
    );
    // A descriptor that is set again is valid again.
    set_dacl(&mut fixture.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    assert_eq!(open(&mut fixture.bob, "file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
}

#[test]
fn the_protection_of_a_file_is_read_once_until_it_changes() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    set_dacl(&mut fixture.alice, file, vec![allow(Sid::EVERYONE, A::FILE_GENERIC_READ)]);
    fixture.alice.close(file);
    let misses = |fixture: &mut Fixture, wanted: A, expected: Status| {
        let before = server::status::snapshot(&fixture.server, Time::default()).acl_cache;
        assert_eq!(open(&mut fixture.bob, "file", wanted), expected);
        server::status::snapshot(&fixture.server, Time::default()).acl_cache.misses - before.misses
    };
    assert_eq!(misses(&mut fixture, A::FILE_READ_ATTRIBUTES, Status::SUCCESS), 0, "attributes are not protected");
    assert_ne!(misses(&mut fixture, A::FILE_READ_DATA, Status::SUCCESS), 0);
    assert_eq!(misses(&mut fixture, A::FILE_READ_DATA, Status::SUCCESS), 0);
    assert_eq!(misses(&mut fixture, A::WRITE_DAC, Status::ACCESS_DENIED), 0);
    // Every change of the file's owner, mode, ACLs or descriptor also changes its time, even behind the server's back.
    fixture.chmod("file", fixture.mode("file") & 0o700);
    assert_ne!(misses(&mut fixture, A::FILE_READ_DATA, Status::ACCESS_DENIED), 0);
}

#[test]
fn a_damaged_descriptor_denies_all_access_until_it_is_replaced() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    let attribute = Some(b"\x04\0\x04\0damaged".to_vec());
    block_on(fixture.node("file").set_xattr(&testing::root(), "security.NTACL", attribute, SetXattr::Any))
        .expect("root has permission");
    assert_eq!(open(&mut fixture.alice, "file", A::FILE_READ_DATA), Status::ACCESS_DENIED);
    set_dacl(&mut fixture.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    assert_eq!(open(&mut fixture.alice, "file", A::FILE_READ_DATA), Status::SUCCESS);
}

/// This applies to the stored descriptor and to the POSIX ACLs below it, which determine whether it is valid.
#[test]
fn an_unreadable_descriptor_is_not_treated_as_missing() {
    let mut fixture = Fixture::with_posix_acls();
    let file = make(&mut fixture.alice, "file", false);
    set_dacl(&mut fixture.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    let opened = |number: u64| {
        let script = OneFails { kinds: &[Operation::GetXattr], error: Errno::IO, before: number.into() };
        let server = fixture.faulty(Arc::new(script));
        open(&mut TestClient::logged_on(&server, "alice"), "file", A::FILE_READ_DATA)
    };
    let failed = (0..8).filter(|&number| opened(number) == Status::IO_DEVICE_ERROR).count();
    assert!(failed >= 2, "{failed}");
}

#[test]
fn only_descriptors_apply_if_system_acls_are_ignored() {
    let mut fixture = Fixture::with(|share| {
        share.acls.stored.as_mut().expect("the share stores ACLs").ignore_system_acls = true;
    });
    let file = make(&mut fixture.alice, "file", false);
    // As smbd 4.17 then shows a file of mode 0666.
    let (read_write, all) = (A(0x12_01bf), A::FILE_ALL_ACCESS);
    let expected = [(ALICE, all), (Sid::unix_group(1000), read_write), (Sid::EVERYONE, read_write), (Sid::SYSTEM, all)];
    let shown = fixture.alice.security(file, SecurityInformation::DACL);
    assert_eq!(rules(&shown), expected.map(|(sid, mask)| (sid, mask, AceFlags::NONE)));
    set_dacl(&mut fixture.alice, file, vec![allow(BOB, A::FILE_READ_DATA)]);
    fixture.chmod("file", 0o666);
    assert_eq!(open(&mut fixture.bob, "file", A::FILE_READ_DATA), Status::SUCCESS);
    assert_eq!(open(&mut fixture.bob, "file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
}
