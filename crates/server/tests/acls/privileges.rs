//! Privileges of `admin users` only: the SACL, and backup and restore of trees.

use proto::bytes::utf16_bytes;
use proto::dtyp::acl::{Ace, AceFlags, AceType};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, ShareAccess};
use proto::smb2::header::Command;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::{InfoType, SecurityInformation};
use proto::status::Status;
use server::policy::UserPattern;
use server::testing::{TestClient, status};

use crate::fixture::{BOB, Fixture, INHERITED, allow, create, make, open, opened, rules, with_dacl};

/// Returns a fixture in which alice is one of the share's `admin users`.
fn administered() -> Fixture {
    Fixture::with(|share| share.access.admin_users = vec![UserPattern::User("alice".into())])
}

#[test]
fn parts_of_the_sacl_require_their_rights() {
    type Part = SecurityInformation;
    let mut fixture = administered();
    let ace = |ace_type, mask| Ace { ace_type, ..allow(Sid::EVERYONE, mask) };
    let sacl = vec![
        ace(AceType::SYSTEM_AUDIT, A::FILE_READ_DATA),
        Ace { ace_type: AceType::SYSTEM_MANDATORY_LABEL, ..allow(Sid::of(16, [0x1000]), A(1)) },
    ];
    let given = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::SACL_PRESENT | Control::SACL_PROTECTED,
        sacl: Acl::new(Acl::REVISION, sacl),
        ..SecurityDescriptor::default()
    };
    make(&mut fixture.bob, "file", false);
    let open_for =
        |client: &mut TestClient, access| opened(&create(client, "file", access, CreateDisposition::OPEN, false));
    let all = A::MAXIMUM_ALLOWED | A::ACCESS_SYSTEM_SECURITY;
    assert_eq!(open(&mut fixture.bob, "file", all), Status::PRIVILEGE_NOT_HELD);
    let hers = open_for(&mut fixture.alice, all);
    assert_eq!(
        fixture.alice.set_security(hers, Part::BACKUP, &with_dacl(Control::NONE, vec![allow(BOB, A::FILE_ALL_ACCESS)])),
        Status::SUCCESS
    );
    assert_eq!(fixture.alice.set_security(hers, Part::SACL | Part::LABEL, &given), Status::SUCCESS);
    assert_eq!(fixture.alice.security(hers, Part::SACL | Part::LABEL), given);
    let types = |descriptor: SecurityDescriptor| {
        descriptor.sacl.map(|sacl| sacl.aces().iter().map(|ace| ace.ace_type).collect::<Vec<_>>())
    };
    let his = open_for(&mut fixture.bob, A::READ_CONTROL | A::WRITE_DAC);
    assert_eq!(types(fixture.bob.security(his, Part::LABEL)), Some(vec![AceType::SYSTEM_MANDATORY_LABEL]));
    assert_eq!(types(fixture.bob.security(his, Part::DACL)), None);
    for part in [Part::SACL, Part::LABEL, Part::SCOPE, Part::BACKUP, Part::OWNER] {
        assert_eq!(fixture.bob.set_security(his, part, &given), Status::ACCESS_DENIED, "{part:?}");
    }
    assert_eq!(fixture.bob.set_security(his, Part::ATTRIBUTE, &given), Status::SUCCESS);
    let everything = fixture.alice.security(hers, Part::BACKUP);
    assert_eq!((everything.sacl.clone(), rules(&everything).len()), (given.sacl, 1));
    for length in [0, 19, everything.to_bytes().len() as u32 - 1] {
        let query = QueryInfoRequest {
            info_type: InfoType::SECURITY,
            file_info_class: 0,
            output_buffer_length: length,
            additional_information: Part::BACKUP.0,
            file_id: hers,
            ..QueryInfoRequest::default()
        };
        let response = fixture.alice.request(Command::QUERY_INFO, |out| query.encode(out));
        assert_eq!(status(&response), Status::BUFFER_TOO_SMALL, "{length}");
        let needed = everything.to_bytes().len() as u32;
        assert!(response.ends_with(&needed.to_le_bytes()), "{length}");
    }
}

/// Users listed in `admin users` have backup privileges: they read everything with its complete descriptor, and create
/// it again elsewhere with the same owner. Other users gain nothing from requesting backup intent.
#[test]
fn a_tree_is_backed_up_and_restored() {
    let mut fixture = administered();
    let everything = SecurityInformation::BACKUP;
    let audit =
        Ace { ace_type: AceType::SYSTEM_AUDIT, ..Ace::allow(Sid::EVERYONE, A::DELETE, AceFlags::FAILED_ACCESS) };
    let lists = [
        ("tree", true, vec![Ace::allow(Sid::EVERYONE, A::FILE_ALL_ACCESS, INHERITED)]),
        (
            r"tree\his",
            false,
            vec![allow(BOB, A::FILE_GENERIC_READ), allow(Sid::of(5, [21, 9, 9, 9, 7]), A::FILE_ALL_ACCESS)],
        ),
        (r"tree\nobody's", false, vec![]),
        (r"tree\denying", false, vec![Ace::deny(Sid::EVERYONE, A::FILE_ALL_ACCESS, AceFlags::NONE), allow(BOB, A(1))]),
    ];
    let backup = A::MAXIMUM_ALLOWED | A::ACCESS_SYSTEM_SECURITY;
    for (name, directory, aces) in &lists {
        let file = make(&mut fixture.bob, name, *directory);
        fixture.bob.close(file);
        let file = opened(&intending(&mut fixture.alice, name, backup, CreateDisposition::OPEN, *directory));
        let flags = Control::SACL_PRESENT | Control::DACL_PROTECTED;
        let given = SecurityDescriptor {
            owner: Some(Sid::of(5, [21, 9, 9, 9, 1105])),
            group: Some(Sid::of(5, [21, 9, 9, 9, 513])),
            sacl: Acl::new(Acl::REVISION, vec![audit.clone()]),
            ..with_dacl(flags, aces.clone())
        };
        assert_eq!(fixture.alice.set_security(file, everything, &given), Status::SUCCESS, "{name}");
        fixture.alice.close(file);
    }
    for (name, directory, _) in &lists {
        for access in [A::FILE_READ_DATA, A::FILE_WRITE_DATA | A::WRITE_OWNER] {
            let plainly = status(&create(&mut fixture.bob, name, access, CreateDisposition::OPEN, *directory));
            let refused = status(&intending(&mut fixture.bob, name, access, CreateDisposition::OPEN, *directory));
            assert_eq!(refused, plainly, "{name}: a user without the privilege has the rights that the ACL grants");
        }
        let read = opened(&intending(&mut fixture.alice, name, backup, CreateDisposition::OPEN, *directory));
        let saved = fixture.alice.security(read, everything);
        let copy = name.replacen("tree", "restored", 1);
        let made = opened(&intending(&mut fixture.alice, &copy, backup, CreateDisposition::CREATE, *directory));
        assert_eq!(fixture.alice.set_security(made, everything, &saved), Status::SUCCESS, "{copy}");
        assert_eq!(fixture.alice.security(made, everything), saved, "{copy}");
    }
    assert_eq!(open(&mut fixture.bob, r"restored\nobody's", A::FILE_READ_DATA), Status::ACCESS_DENIED);
}

/// Sends a CREATE with FILE_OPEN_FOR_BACKUP_INTENT.
fn intending(
    client: &mut TestClient,
    path: &str,
    access: A,
    disposition: CreateDisposition,
    directory: bool,
) -> Vec<u8> {
    let path = utf16_bytes(path);
    let kind = if directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions(0) };
    let create = CreateRequest {
        desired_access: access.0,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        create_options: kind | CreateOptions::OPEN_FOR_BACKUP_INTENT,
        name: &path,
        ..CreateRequest::default()
    };
    client.request(Command::CREATE, |out| create.encode(out))
}
