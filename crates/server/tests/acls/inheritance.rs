//! Inheritance by new files and directories from their parent directory or from their creator.

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::smb2::SecurityInformation;
use proto::smb2::create::CreateDisposition;
use proto::smb2::create_context::{CreateContext, name};
use proto::status::Status;
use server::answer::block_on;
use server::policy::InheritOwner;
use server::testing::status;
use server::vfs::SERVER;
use server::vfs::SetMetadata;

use crate::fixture::{
    ALICE, BOB, Fixture, INHERITED, OWNER_GROUP_DACL, allow, create, create_with, make, open, opened, rules, set_dacl,
    with_dacl,
};

#[test]
fn new_files_inherit() {
    let mut fixture = Fixture::new();
    let directory = make(&mut fixture.alice, "directory", true);
    let aces = vec![
        allow(ALICE, A::FILE_ALL_ACCESS),
        Ace::allow(Sid::EVERYONE, A::FILE_GENERIC_READ, INHERITED),
        Ace::allow(Sid::CREATOR_OWNER, A::GENERIC_ALL, INHERITED | AceFlags::INHERIT_ONLY),
        Ace::allow(BOB, A::FILE_ADD_FILE | A::FILE_TRAVERSE, AceFlags::NONE),
        Ace::allow(Sid::EVERYONE, A::FILE_ADD_FILE, AceFlags::NONE),
    ];
    set_dacl(&mut fixture.alice, directory, aces);
    let file = make(&mut fixture.bob, r"directory\file", false);
    let shown = fixture.bob.security(file, OWNER_GROUP_DACL);
    assert_eq!(shown.owner, Some(BOB));
    let expected = [(Sid::EVERYONE, A::FILE_GENERIC_READ, AceFlags::NONE), (BOB, A::FILE_ALL_ACCESS, AceFlags::NONE)];
    assert_eq!(rules(&shown), expected);
    let refused = create(&mut fixture.bob, r"directory\new", A::FILE_ALL_ACCESS, CreateDisposition::CREATE, true);
    assert_eq!(status(&refused), Status::ACCESS_DENIED, "adding a directory is another right");
    assert_eq!(open(&mut fixture.alice, r"directory\file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
    assert_eq!(
        open(&mut fixture.alice, r"directory\file", A::DELETE),
        Status::SUCCESS,
        "the directory grants alice DELETE_CHILD"
    );
}

#[test]
fn a_descriptor_given_at_creation_applies_instead() {
    let mut fixture = Fixture::new();
    let given = |descriptor: &SecurityDescriptor| vec![CreateContext::new(name::SD_BUFFER, descriptor.to_bytes())];
    let own = with_dacl(Control::NONE, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    let (all, new) = (A::FILE_ALL_ACCESS, CreateDisposition::CREATE);
    let file = opened(&create_with(&mut fixture.alice, "own", all, new, false, given(&own)));
    assert_eq!(fixture.alice.security(file, SecurityInformation::DACL).dacl, own.dacl);
    assert_eq!(fixture.mode("own"), 0o700);
    let nothing = SecurityDescriptor { control: Control::SELF_RELATIVE, ..SecurityDescriptor::default() };
    let file = opened(&create_with(&mut fixture.alice, "inherited", all, new, false, given(&nothing)));
    assert!(!rules(&fixture.alice.security(file, SecurityInformation::DACL)).is_empty(), "ACEs are inherited");
    let audited = SecurityDescriptor { sacl: Some(Acl::empty()), ..own };
    let refused = create_with(&mut fixture.alice, "audited", all, new, false, given(&audited));
    assert_eq!(status(&refused), Status::PRIVILEGE_NOT_HELD);
    assert_eq!(
        open(&mut fixture.alice, "audited", A::READ_CONTROL),
        Status::OBJECT_NAME_NOT_FOUND,
        "the file was not created"
    );
}

#[test]
fn new_files_inherit_owner_and_permissions_of_their_directory() {
    for (inherit_owner, owner) in [(InheritOwner::UnixOnly, BOB), (InheritOwner::WindowsAndUnix, ALICE)] {
        let mut fixture =
            Fixture::with(|share| (share.acls.inherit_owner, share.modes.inherit_permissions) = (inherit_owner, true));
        make(&mut fixture.alice, "directory", true);
        let everybody = SetMetadata { mode: Some(0o1777), uid: Some(1000), ..SetMetadata::default() };
        fixture.set_metadata("directory", everybody);
        let file = make(&mut fixture.bob, r"directory\file", false);
        let metadata = block_on(fixture.node("directory/file").metadata(&SERVER)).expect("the file has metadata");
        assert_eq!(metadata.uid, 1000, "{inherit_owner:?}");
        assert_eq!(fixture.bob.security(file, SecurityInformation::OWNER).owner, Some(owner));
    }
    for stores in [true, false] {
        let mut fixture = Fixture::with(|share| {
            share.modes.inherit_permissions = true;
            share.acls.stored = share.acls.stored.take().filter(|_| stores);
        });
        let directory = make(&mut fixture.alice, "directory", true);
        if stores {
            set_dacl(&mut fixture.alice, directory, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
        } else {
            fixture.chmod("directory", 0o700);
        }
        make(&mut fixture.alice, r"directory\file", false);
        make(&mut fixture.alice, r"directory\inner", true);
        assert_eq!(
            (fixture.mode("directory/file"), fixture.mode("directory/inner")),
            (0o600, 0o700),
            "stores: {stores}"
        );
    }
}
