//! Rights that a security descriptor grants and refuses ([MS-FSA] 2.1.5.1.2.1).

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, SecurityDescriptor, Sid};
use proto::fscc::{FileAttributes, FileBasicInformation, FileInformationClass};
use proto::smb2::create::CreateDisposition;
use proto::smb2::header::Command;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{InfoType, SecurityInformation};
use proto::status::Status;
use server::acl::ntacl;
use server::answer::block_on;
use server::testing::{self, TestClient, status};
use server::vfs::{SERVER, SetXattr};

use crate::fixture::{
    ALICE, BOBS_ACCOUNT, Fixture, INHERITED, allow, create, make, maximum, open, opened, set_dacl, with_dacl,
};

#[test]
fn rights_that_are_not_granted_are_refused() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    assert_eq!(open(&mut fixture.bob, "file", A::FILE_WRITE_DATA), Status::SUCCESS, "create mask = 0666");
    set_dacl(&mut fixture.alice, file, vec![allow(Sid::EVERYONE, A(0x1_0003)), allow(ALICE, A::FILE_EXECUTE)]);
    let cases = [
        (A::FILE_READ_DATA, Status::SUCCESS, Status::SUCCESS),
        (A(0x1_0003), Status::SUCCESS, Status::SUCCESS),
        (A::FILE_EXECUTE, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::FILE_APPEND_DATA, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
        (A::FILE_READ_ATTRIBUTES, Status::SUCCESS, Status::SUCCESS),
        (A::READ_CONTROL, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::WRITE_DAC, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::WRITE_OWNER, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
        (A::ACCESS_SYSTEM_SECURITY, Status::PRIVILEGE_NOT_HELD, Status::PRIVILEGE_NOT_HELD),
    ];
    for (access, alices, bobs) in cases {
        let ended = (open(&mut fixture.alice, "file", access), open(&mut fixture.bob, "file", access));
        assert_eq!(ended, (alices, bobs), "{access:?}");
    }
    let expected = A(0x1_0003) | A::FILE_EXECUTE | A::READ_CONTROL | A::WRITE_DAC | A::FILE_READ_ATTRIBUTES;
    assert_eq!(maximum(&mut fixture.alice, "file"), expected);
}

#[test]
fn account_sids_match_their_users() {
    let mut fixture = Fixture::new();
    let file = make(&mut fixture.alice, "file", false);
    set_dacl(&mut fixture.alice, file, vec![allow(BOBS_ACCOUNT, A::READ_CONTROL | A::FILE_READ_EA)]);
    assert_eq!(open(&mut fixture.bob, "file", A::READ_CONTROL), Status::SUCCESS);
    assert_eq!(open(&mut fixture.bob, "file", A::FILE_WRITE_EA), Status::ACCESS_DENIED);
}

/// Both users are in the group that the file then has in Linux, and neither is in the group of the SID.
#[test]
fn no_user_is_a_member_of_an_unknown_group() {
    let strangers = Sid::of(5, [21, 9, 9, 9, 512]);
    for is_set_first in [true, false] {
        let mut fixture = Fixture::with(|share| share.access.force_group = Some(500));
        let file = make(&mut fixture.alice, "file", false);
        let group = SecurityDescriptor { group: Some(strangers), ..SecurityDescriptor::default() };
        if is_set_first {
            assert_eq!(fixture.alice.set_security(file, SecurityInformation::GROUP, &group), Status::SUCCESS);
        }
        let lists = vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(strangers, A::FILE_ALL_ACCESS)];
        set_dacl(&mut fixture.alice, file, lists);
        if !is_set_first {
            assert_eq!(fixture.alice.set_security(file, SecurityInformation::GROUP, &group), Status::SUCCESS);
        }
        assert_eq!(fixture.alice.security(file, SecurityInformation::GROUP).group, Some(strangers));
        assert_eq!(block_on(fixture.node("file").metadata(&SERVER)).expect("the file has metadata").gid, 500);
        assert_eq!(fixture.mode("file"), 0o700, "the kernel denies all users too");
        for access in [A::FILE_READ_DATA, A::FILE_WRITE_DATA, A::READ_CONTROL, A::DELETE] {
            let expected = if access == A::DELETE { Status::SUCCESS } else { Status::ACCESS_DENIED };
            assert_eq!(open(&mut fixture.bob, "file", access), expected, "{access:?}: the directory permits deletion");
        }
        // An ACE that denies them access does not deny it to the group's members.
        let denied =
            vec![Ace::deny(strangers, A::FILE_READ_DATA, AceFlags::NONE), allow(Sid::EVERYONE, A::FILE_GENERIC_READ)];
        set_dacl(&mut fixture.alice, file, denied);
        assert_eq!(open(&mut fixture.bob, "file", A::FILE_READ_DATA), Status::SUCCESS);
    }
}

/// An owner SID without a user account stands for the file's owner. An owner SID with an account is that account.
#[test]
fn an_unknown_owner_is_the_linux_owner_and_a_known_one_is_not() {
    let stranger = Sid::of(5, [21, 9, 9, 9, 1104]);
    for (owner, alices) in [(stranger, Status::SUCCESS), (BOBS_ACCOUNT, Status::ACCESS_DENIED)] {
        let mut fixture = Fixture::with(|share| {
            share.acls.stored.as_mut().expect("the share stores ACLs").ignore_system_acls = true;
        });
        make(&mut fixture.alice, "file", false);
        let list = with_dacl(Control::NONE, vec![allow(owner, A::FILE_ALL_ACCESS)]);
        let restored = ntacl::encode_unconditional(&SecurityDescriptor { owner: Some(owner), ..list });
        let node = fixture.node("file");
        block_on(node.set_xattr(&testing::root(), "security.NTACL", Some(restored), SetXattr::Any))
            .expect("root has permission");
        assert_eq!(open(&mut fixture.alice, "file", A::WRITE_DAC | A::FILE_READ_DATA), alices, "{owner}");
    }
}

#[test]
fn a_protected_file_is_not_replaced() {
    let mut fixture = Fixture::new();
    let directory = make(&mut fixture.alice, "directory", true);
    let adds = A::FILE_ADD_FILE | A::FILE_TRAVERSE | A::FILE_LIST_DIRECTORY;
    set_dacl(&mut fixture.alice, directory, vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(Sid::EVERYONE, adds)]);
    let protected = make(&mut fixture.alice, r"directory\protected", false);
    set_dacl(
        &mut fixture.alice,
        protected,
        vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(Sid::EVERYONE, A::READ_CONTROL)],
    );
    fixture.alice.close(protected);
    fixture.alice.close(directory);
    let own = make(&mut fixture.bob, "own", false);
    let mut rename = |to: &str, replace: u8| {
        let name = utf16_bytes(to);
        let mut buffer = vec![replace, 0, 0, 0, 0, 0, 0, 0];
        buffer.extend([0; 8]);
        buffer.extend((name.len() as u32).to_le_bytes());
        buffer.extend(&name);
        let class = FileInformationClass::RENAME.0;
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class,
            additional_information: 0,
            file_id: own,
            buffer: &buffer,
        };
        status(&fixture.bob.request(Command::SET_INFO, |out| set.encode(out)))
    };
    assert_eq!(rename(r"directory\protected", 1), Status::ACCESS_DENIED);
    assert_eq!(rename(r"directory\other", 0), Status::SUCCESS);
    assert_eq!(open(&mut fixture.alice, r"directory\protected", A::FILE_READ_DATA), Status::SUCCESS);
}

/// Attributes stored as permission bits (`store dos attributes = no`) cannot be changed by a user if the kernel refuses
/// it. Otherwise the stored descriptor would become invalid, and a user who may only append could write and change the
/// ACL.
#[test]
fn the_right_to_attributes_does_not_include_permission_bits() {
    for stores_attributes in [false, true] {
        let mut fixture = Fixture::with(|share| share.attributes.store_dos_attributes = stores_attributes);
        let file = make(&mut fixture.alice, "file", false);
        let appending = A::FILE_APPEND_DATA | A::FILE_WRITE_ATTRIBUTES | A::READ_CONTROL;
        set_dacl(&mut fixture.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(Sid::EVERYONE, appending)]);
        let attributes = |client: &mut TestClient| {
            let file_id = opened(&create(client, "file", A::FILE_WRITE_ATTRIBUTES, CreateDisposition::OPEN, false));
            let info = FileBasicInformation { file_attributes: FileAttributes::NORMAL, ..Default::default() };
            let mut buffer = Vec::new();
            info.encode(&mut Writer::new(&mut buffer));
            let set = SetInfoRequest {
                info_type: InfoType::FILE,
                file_info_class: FileInformationClass::BASIC.0,
                additional_information: 0,
                file_id,
                buffer: &buffer,
            };
            status(&client.request(Command::SET_INFO, |out| set.encode(out)))
        };
        let before = maximum(&mut fixture.bob, "file");
        let expected = if stores_attributes { Status::SUCCESS } else { Status::ACCESS_DENIED };
        assert_eq!(attributes(&mut fixture.bob), expected);
        assert_eq!(maximum(&mut fixture.bob, "file"), before, "and no other right");
        assert_eq!(attributes(&mut fixture.alice), Status::SUCCESS, "alice owns the file");
    }
}

/// The kernel evaluates only the owner's entry, or that of a user named in the POSIX ACL.
#[test]
fn members_have_the_rights_of_their_group_for_any_owner() {
    let mut fixture = Fixture::new();
    let directory = make(&mut fixture.alice, "directory", true);
    let staff = Sid::unix_group(1000);
    set_dacl(
        &mut fixture.alice,
        directory,
        vec![
            allow(ALICE, A::FILE_ALL_ACCESS),
            Ace::allow(staff, A(0x13_01bf), INHERITED),
            Ace::allow(Sid::SYSTEM, A::FILE_ALL_ACCESS, INHERITED),
        ],
    );
    make(&mut fixture.alice, r"directory\file", false);
    assert_eq!(open(&mut fixture.alice, r"directory\file", A(3)), Status::SUCCESS);
}
