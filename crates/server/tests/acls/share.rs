//! The ACL of a share, which limits what a user may do in it.

use std::sync::Arc;

use proto::dtyp::acl::Ace;
use proto::dtyp::{AccessMask as A, SecurityDescriptor, Sid};
use proto::smb2::create::CreateDisposition;
use proto::status::Status;
use server::policy::{Policy, ShareAcls};
use server::testing::{self, TestClient, TestServer, status};

use crate::fixture::{BOBS_ACCOUNT, allow, create, make, maximum, open, opened, with_dacl};

/// What `sharesec` calls CHANGE.
const CHANGE: A = A(0x0013_01ff);
/// What `sharesec` calls READ.
const READ: A = A(0x0012_00a9);

/// An ACL of every share.
struct One(Arc<SecurityDescriptor>);

impl ShareAcls for One {
    fn acl_of(&self, _: &str) -> Option<Arc<SecurityDescriptor>> {
        Some(self.0.clone())
    }
}

fn with_acl(aces: Vec<Ace>) -> Policy {
    let acl = with_dacl(Default::default(), aces);
    Policy { share_acls: Some(Arc::new(One(Arc::new(acl)))), ..testing::policy() }
}

fn connected(server: &TestServer, user: &str) -> Status {
    let mut client = TestClient::new(server);
    client.negotiate(Default::default());
    assert_eq!(client.log_on(user, testing::PASSWORD, 0), Status::SUCCESS);
    client.tree_connect("share")
}

#[test]
fn users_without_rights_cannot_connect() {
    let server = TestServer::with_policy(with_acl(vec![allow(BOBS_ACCOUNT, READ)]));
    assert_eq!((connected(&server, "bob"), connected(&server, "alice")), (Status::SUCCESS, Status::ACCESS_DENIED));
    let denied = Ace::deny(BOBS_ACCOUNT, A::FILE_ALL_ACCESS, Default::default());
    let server = TestServer::with_policy(with_acl(vec![denied, allow(Sid::EVERYONE, CHANGE)]));
    assert_eq!((connected(&server, "bob"), connected(&server, "alice")), (Status::ACCESS_DENIED, Status::SUCCESS));
    let nothing = TestServer::with_policy(with_acl(vec![allow(Sid::EVERYONE, A::READ_CONTROL)]));
    assert_eq!(connected(&nothing, "alice"), Status::ACCESS_DENIED);
}

#[test]
fn opens_have_at_most_the_rights_in_the_share() {
    let server = TestServer::with_policy(with_acl(vec![allow(Sid::EVERYONE, READ), allow(BOBS_ACCOUNT, CHANGE)]));
    let [mut alice, mut bob] = ["alice", "bob"].map(|user| TestClient::logged_on(&server, user));
    let new = |client: &mut TestClient, name, access, how| create(client, name, access, how, false);
    let file = opened(&new(&mut bob, "file", CHANGE, CreateDisposition::CREATE));
    bob.close(file);
    for (access, bobs, alices) in [
        (A::FILE_READ_DATA, Status::SUCCESS, Status::SUCCESS),
        (A::FILE_WRITE_DATA, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::FILE_WRITE_ATTRIBUTES, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::WRITE_DAC, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
        (A::GENERIC_ALL, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
    ] {
        assert_eq!((open(&mut bob, "file", access), open(&mut alice, "file", access)), (bobs, alices), "{access:?}");
    }
    assert_eq!(maximum(&mut bob, "file") | CHANGE, CHANGE);
    assert_eq!(maximum(&mut alice, "file") | READ, READ);
    // MAXIMUM_ALLOWED gives no more, for files that exist and for new ones.
    for name in ["file", "new", "file:stream"] {
        let open = opened(&new(&mut bob, name, A::MAXIMUM_ALLOWED, CreateDisposition::OPEN_IF));
        let refused =
            bob.set_security(open, proto::smb2::SecurityInformation::DACL, &with_dacl(Default::default(), Vec::new()));
        assert_eq!(refused, Status::ACCESS_DENIED, "{name}");
        bob.close(open);
    }
    assert_eq!(status(&new(&mut alice, "other", A::FILE_READ_DATA, CreateDisposition::CREATE)), Status::ACCESS_DENIED);
}

#[test]
fn a_share_without_an_acl_is_open_to_everyone() {
    let server = TestServer::with_policy(testing::policy());
    let mut alice = TestClient::logged_on(&server, "alice");
    let file = make(&mut alice, "file", false);
    alice.close(file);
    assert_eq!(open(&mut alice, "file", A::WRITE_DAC), Status::SUCCESS);
}
