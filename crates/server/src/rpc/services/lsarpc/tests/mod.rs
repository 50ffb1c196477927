//! Look-ups by clients.

use proto::dtyp::Sid;
use proto::rpc::lsarpc::opnum;
use proto::rpc::ndr::{ContextHandle, Decoder, Encoder};
use proto::smb2::negotiate::SecurityMode;
use proto::status::Status;

use crate::accounts::IdMap;
use crate::rpc::tests::client::PipeClient;
use crate::testing::{self, TestClient, TestServer};

/// Opens a policy handle.
fn open(pipe: &mut PipeClient) -> Result<ContextHandle, Status> {
    let results = pipe.call(opnum::LSAR_OPEN_POLICY_2, &[0; 64]);
    match status(&results) {
        Status::SUCCESS => Ok(Decoder::new(&results).handle().expect("a handle")),
        refused => Err(refused),
    }
}

fn status(results: &[u8]) -> Status {
    Status(u32::from_le_bytes(results[results.len() - 4..].try_into().expect("four bytes")))
}

/// Appends the end of the arguments: no translations yet, and the workstation's look-up level.
fn end(mut out: Encoder) -> Vec<u8> {
    out.u32(0);
    out.null();
    out.u16(1);
    out.u32(0);
    out.into_bytes()
}

fn names(handle: &ContextHandle, names: &[&str]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(names.len() as u32);
    out.u32(names.len() as u32);
    names.iter().for_each(|name| out.unicode(name));
    names.iter().for_each(|name| out.text(name));
    end(out)
}

fn sids(handle: &ContextHandle, sids: &[Sid]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(sids.len() as u32);
    out.pointer();
    out.u32(sids.len() as u32);
    sids.iter().for_each(|_| out.pointer());
    sids.iter().for_each(|sid| out.sid(sid));
    end(out)
}

fn server(restrict_anonymous: u8) -> TestServer {
    let mut policy = testing::policy();
    policy.restrict_anonymous = restrict_anonymous;
    TestServer::with_policy(policy)
}

fn anonymous(restrict_anonymous: u8) -> TestClient {
    let mut client = TestClient::new(&server(restrict_anonymous));
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on_anonymously(), Status::SUCCESS);
    client
}

fn is_in(text: &str, results: &[u8]) -> bool {
    let text = proto::bytes::utf16_bytes(text);
    results.windows(text.len()).any(|window| window == text)
}

#[test]
fn anonymous_callers_learn_nothing_about_accounts() {
    for mut pipe in
        [PipeClient::new(anonymous(0), "lsarpc"), PipeClient::new(TestClient::logged_on(&server(0), "alice"), "lsarpc")]
    {
        let has_account = pipe.client.connection.channels()[0].session.user().is_some_and(|user| !user.anonymous);
        let handle = open(&mut pipe).expect("the handle is granted");
        let asked = [testing::TestAccounts.domain().with_rid(1001), Sid::BUILTIN_USERS];
        let results = pipe.call(opnum::LSAR_LOOKUP_SIDS, &sids(&handle, &asked));
        assert_eq!((is_in("bob", &results), is_in("Users", &results)), (has_account, true));
        let expected = if has_account { Status::SUCCESS } else { Status::SOME_NOT_MAPPED };
        assert_eq!(status(&results), expected);
        let results = pipe.call(opnum::LSAR_LOOKUP_NAMES, &names(&handle, &["bob", "Everyone"]));
        assert_eq!(status(&results), expected);
    }
}

#[test]
fn anonymous_callers_may_look_up_names_only_if_configured() {
    assert_eq!(crate::policy::Policy::default().restrict_anonymous, 1);
    assert_eq!(open(&mut PipeClient::new(anonymous(1), "lsarpc")), Err(Status::ACCESS_DENIED));
}

/// A thousand cached names are looked up with yields to other requests.
#[test]
fn long_lists_let_other_requests_run() {
    let mut pipe = PipeClient::new(TestClient::logged_on(&server(1), "alice"), "lsarpc");
    let handle = open(&mut pipe).expect("the handle is granted");
    for (stub, opnum) in [
        (names(&handle, &["bob"; 1000]), opnum::LSAR_LOOKUP_NAMES),
        (sids(&handle, &[testing::TestAccounts.domain().with_rid(1001); 1000]), opnum::LSAR_LOOKUP_SIDS),
    ] {
        assert!(pipe.waits_for(opnum, &stub), "{opnum}");
    }
}

#[test]
fn privileges_are_listed_and_only_administrators_have_them() {
    let mut pipe = PipeClient::new(TestClient::logged_on(&server(1), "alice"), "lsarpc");
    let policy = open(&mut pipe).expect("the handle is granted");
    let list = |from: u32, length: u32| {
        let mut out = Encoder::default();
        out.array(4, &policy);
        out.u32(from);
        out.u32(length);
        out.into_bytes()
    };
    for (from, length, expected, next) in [
        (0, u32::MAX, Status::SUCCESS, 9),
        (0, 0, Status::SUCCESS, 9),
        (8, 0, Status::SUCCESS, 9),
        (9, u32::MAX, Status::NO_MORE_ENTRIES, 9),
    ] {
        let results = pipe.call(opnum::LSAR_ENUMERATE_PRIVILEGES, &list(from, length));
        assert_eq!((status(&results), Decoder::new(&results).u32()), (expected, Ok(next)), "{from} {length}");
    }
    let of = |sid: &Sid, more: &[u32]| {
        let mut out = Encoder::default();
        out.array(4, &policy);
        out.sid(sid);
        more.iter().for_each(|number| out.u32(*number));
        out.into_bytes()
    };
    for (sid, expected, has) in [
        (Sid::BUILTIN_ADMINISTRATORS, Status::SUCCESS, true),
        (Sid::BUILTIN_USERS, Status::SUCCESS, false),
        (testing::TestAccounts.domain().with_rid(1001), Status::OBJECT_NAME_NOT_FOUND, false),
    ] {
        let rights = pipe.call(opnum::LSAR_ENUMERATE_ACCOUNT_RIGHTS, &of(&sid, &[]));
        assert_eq!((status(&rights), is_in("SeBackupPrivilege", &rights)), (expected, has), "{sid}");
        let opened = pipe.call(opnum::LSAR_OPEN_ACCOUNT, &of(&sid, &[0x0200_0000]));
        assert_eq!(status(&opened), expected, "{sid}");
        if expected == Status::SUCCESS {
            let set = pipe.call(opnum::LSAR_ENUMERATE_PRIVILEGES_ACCOUNT, &opened[..20]);
            assert_eq!((status(&set), Decoder::new(&set[4..]).u32()), (Status::SUCCESS, Ok(if has { 8 } else { 0 })));
        }
    }
    // A policy is not an account.
    assert_eq!(status(&pipe.call(opnum::LSAR_ENUMERATE_PRIVILEGES_ACCOUNT, &policy)), Status::INVALID_HANDLE);
}

mod changes;

#[test]
fn a_domain_is_found_by_its_name_alone() {
    let mut pipe = PipeClient::new(TestClient::logged_on(&server(1), "alice"), "lsarpc");
    let handle = open(&mut pipe).expect("the handle is granted");
    for (name, expected) in [
        ("", Status::SUCCESS),
        ("BUILTIN\\", Status::SUCCESS),
        ("alice", Status::SUCCESS),
        ("alice\\", Status::NONE_MAPPED),
    ] {
        let results = pipe.call(opnum::LSAR_LOOKUP_NAMES, &names(&handle, &[name]));
        assert_eq!(status(&results), expected, "{name:?}");
    }
}
