//! Shares that store no security descriptors: the file's permissions are shown and set as a descriptor.

use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, SecurityDescriptor, Sid};
use proto::smb2::create::CreateDisposition;
use proto::smb2::{FileId, SecurityInformation};
use proto::status::Status;
use server::answer::block_on;
use server::policy::Share;
use server::testing::status;
use server::vfs::SERVER;
use server::vfs::SetMetadata;

use crate::fixture::{ALICE, Fixture, OWNER_GROUP_DACL, allow, create, make, maximum, opened, rules, with_dacl};

/// A share that stores no descriptors, with a file of alice's that is writable for group 1000 and all others.
fn plain(adjust: impl FnOnce(&mut Share)) -> (Fixture, FileId) {
    let mut fixture = Fixture::with(|share| {
        share.acls.stored = None;
        adjust(share);
    });
    let file = make(&mut fixture.alice, "file", false);
    (fixture, file)
}

/// `nt acl support`, `acl map full control`, `force unknown acl user`, each as described in Samba's manual.
#[test]
fn permissions_are_shown_and_set() {
    let read_only = with_dacl(Control::NONE, vec![allow(ALICE, A::FILE_GENERIC_READ)]);
    let (mut fixture, file) = plain(|share| share.acls.nt_acl_support = false);
    let shown = fixture.alice.security(file, OWNER_GROUP_DACL);
    assert_eq!((shown.owner, shown.group, shown.dacl), (Some(Sid::EVERYONE), Some(Sid::EVERYONE), None));
    assert_eq!(fixture.alice.set_security(file, SecurityInformation::DACL, &read_only), Status::SUCCESS);
    assert_eq!(fixture.mode("file"), 0o666, "the mode is unchanged");
    for (maps, expected) in [(true, A::FILE_ALL_ACCESS.without(A::DELETE)), (false, A(0x12_01bf))] {
        let (mut fixture, file) = plain(|share| share.acls.acl_map_full_control = maps);
        fixture.chmod("file", 0o755);
        let shown = fixture.alice.security(file, SecurityInformation::DACL);
        assert_eq!(rules(&shown).first().map(|rule| (rule.0, rule.1)), Some((ALICE, expected)), "{maps}");
        assert_eq!(fixture.alice.set_security(file, SecurityInformation::DACL, &shown), Status::SUCCESS);
        assert_eq!(fixture.mode("file"), 0o755, "setting the shown descriptor restores the mode");
    }
    let stranger = Sid::of(5, [21, 9, 9, 9, 1104]);
    let owned = SecurityDescriptor { owner: Some(stranger), group: Some(stranger), ..SecurityDescriptor::default() };
    for (forces, expected) in [(false, Status::INVALID_OWNER), (true, Status::SUCCESS)] {
        for part in [SecurityInformation::OWNER, SecurityInformation::GROUP] {
            let (mut fixture, file) = plain(|share| share.acls.force_unknown_acl_user = forces);
            assert_eq!(fixture.alice.set_security(file, part, &owned), expected, "{part:?}");
            let metadata = block_on(fixture.node("file").metadata(&SERVER)).expect("the file has metadata");
            assert_eq!((metadata.uid, metadata.gid), (1000, 1000));
        }
        let list =
            with_dacl(Control::NONE, vec![allow(stranger, A::FILE_ALL_ACCESS), allow(ALICE, A::FILE_GENERIC_READ)]);
        let expected = if forces { (Status::SUCCESS, 0o400) } else { (Status::NOT_SUPPORTED, 0o666) };
        let (mut fixture, file) = plain(|share| share.acls.force_unknown_acl_user = forces);
        let status = fixture.alice.set_security(file, SecurityInformation::DACL, &list);
        assert_eq!((status, fixture.mode("file")), expected);
    }
}

/// `acl group control` and `dos filemode` let certain users besides the owner change the ACL, and no others.
#[test]
fn users_who_may_change_permissions_of_others_files() {
    let read_only = with_dacl(Control::NONE, vec![allow(ALICE, A::FILE_GENERIC_READ)]);
    let cases: [(bool, bool, u32, u32, Status); 5] = [
        (false, false, 1001, 0o666, Status::ACCESS_DENIED),
        (true, false, 1001, 0o600, Status::SUCCESS),
        (true, false, 1000, 0o666, Status::ACCESS_DENIED),
        (false, true, 1000, 0o666, Status::SUCCESS),
        (false, true, 1000, 0o644, Status::ACCESS_DENIED),
    ];
    for (group_control, dos_filemode, gid, mode, expected) in cases {
        let (mut fixture, file) = plain(|share| {
            (share.acls.acl_group_control, share.acls.dos_filemode) = (group_control, dos_filemode);
        });
        fixture.alice.close(file);
        let given = SetMetadata { gid: Some(gid), mode: Some(mode), ..SetMetadata::default() };
        fixture.set_metadata("file", given);
        let response = create(&mut fixture.bob, "file", A::WRITE_DAC, CreateDisposition::OPEN, false);
        assert_eq!(status(&response), expected, "{group_control} {dos_filemode} {gid} {mode:o}");
        assert!(maximum(&mut fixture.alice, "file").contains(A::WRITE_DAC));
        if expected == Status::SUCCESS {
            let file = opened(&response);
            assert_eq!(fixture.bob.set_security(file, SecurityInformation::DACL, &read_only), Status::SUCCESS);
            assert_eq!(fixture.mode("file"), 0o400);
        }
    }
}
