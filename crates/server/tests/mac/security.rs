//! Modes in security descriptors.

use std::sync::Arc;

use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::{AccessMask as A, Acl, Sid};
use proto::smb2::SecurityInformation;
use proto::status::Status;
use server::answer::block_on;
use server::policy::MetadataPlace;
use server::testing::{self, TestServer};
use server::vfs::SERVER;

use crate::fixture::{Client, dacl, mode_entry, with};

#[test]
fn a_mode_does_not_void_a_stored_descriptor() {
    let server = with(MetadataPlace::Netatalk, |policy| {
        let mac = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
        mac.acls.stored = Some(testing::stored_acls());
    });
    let mut alice = Client::mac(&server, "alice", "mac");
    let file = alice.open("f");
    let own = Ace::allow(Sid::unix_user(1000), A::FILE_ALL_ACCESS, AceFlags::NONE);
    let parts = SecurityInformation::DACL;
    assert_eq!(alice.client.set_security(file, parts, &dacl(vec![own.clone()])), Status::SUCCESS);
    let of = |alice: &mut Client| alice.client.security(file, parts).dacl.map(Acl::into_aces).unwrap_or_default();
    assert!(of(&mut alice).contains(&own));
    assert_eq!(alice.client.set_security(file, parts, &dacl(vec![mode_entry(0o644)])), Status::SUCCESS);
    assert!(of(&mut alice).contains(&own));
    let both = dacl(vec![own.clone(), mode_entry(0o666)]);
    assert_eq!(alice.client.set_security(file, parts, &both), Status::SUCCESS);
    assert!(of(&mut alice).contains(&own));
    let mut bob = Client::new(&server, "bob", "mac");
    assert_eq!(bob.look("f"), Status::ACCESS_DENIED);
}

#[test]
fn a_mode_is_set_where_no_descriptors_are_stored() {
    let mode = |server: &TestServer| testing::volume::node(&server.volume, "f").metadata(&SERVER);
    let mode = |server: &TestServer| block_on(mode(server)).expect("it is there").mode & 0o777;
    for (share, supported, changes) in [("mac", true, true), ("mac", false, false), ("share", true, false)] {
        let server = with(MetadataPlace::Netatalk, |policy| {
            let mac = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
            mac.acls.nt_acl_support = supported;
        });
        let mut alice = Client::mac(&server, "alice", share);
        let file = alice.open("f");
        let before = mode(&server);
        let done = alice.client.set_security(file, SecurityInformation::DACL, &dacl(vec![mode_entry(0o100_751)]));
        assert_eq!(done, Status::SUCCESS);
        assert_eq!(mode(&server), if changes { 0o751 } else { before }, "{share} {supported}");
    }
}
