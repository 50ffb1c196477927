//! Changes of rights and secrets.

use std::sync::Arc;

use proto::auth::ntlm::secret;
use proto::dtyp::{SecurityDescriptor, Sid};
use proto::rpc::lsarpc::opnum;
use proto::rpc::ndr::{ContextHandle, Decoder, Encoder};
use proto::status::Status;

use super::{is_in, open, status};
use crate::accounts::{Accounts, LsaDatabase};
use crate::policy::UserPattern;
use crate::rpc::interface::DISK_OPERATOR;
use crate::rpc::tests::client::PipeClient;
use crate::testing::{MACHINE, MemoryLsa, TestAccounts, TestClient, TestServer};

/// A server that alice administrates, and its database.
fn server() -> (TestServer, Arc<MemoryLsa>) {
    let lsa = Arc::new(MemoryLsa::default());
    let accounts = Accounts { lsa: lsa.clone(), ..Arc::new(TestAccounts).into() };
    let configure = |policy: &mut crate::policy::Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
    (TestServer::builder().configure(configure).accounts(accounts).start(), lsa)
}

fn pipe(server: &TestServer, user: &str) -> (PipeClient, ContextHandle) {
    let mut pipe = PipeClient::new(TestClient::logged_on(server, user), "lsarpc");
    let policy = open(&mut pipe).expect("the handle is granted");
    (pipe, policy)
}

fn named(handle: &ContextHandle, name: &str, more: &[u32]) -> Encoder {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.whole_unicode(name);
    more.iter().for_each(|number| out.u32(*number));
    out
}

fn handle(results: &[u8]) -> ContextHandle {
    Decoder::new(results).handle().expect("a handle")
}

/// Writes a pointer to a value.
fn value(value: Option<&[u8]>, out: &mut Encoder) {
    let Some(value) = value else { return out.null() };
    let length = value.len() as u32;
    out.pointer();
    [length, length].into_iter().for_each(|number| out.u32(number));
    out.pointer();
    [length, 0, length].into_iter().for_each(|number| out.u32(number));
    out.array(1, value);
}

/// The key that encrypts secrets.
fn session_key(pipe: &PipeClient) -> [u8; 16] {
    let keys = pipe.client.connection.channels()[0].session.keys().expect("a session with keys");
    keys.application.as_ref().expect("a secret key").as_bytes().try_into().expect("16 bytes")
}

#[test]
fn administrators_store_secrets() {
    let (server, _) = server();
    let (mut pipe, policy) = pipe(&server, "alice");
    let key = session_key(&pipe);
    let create = named(&policy, "service", &[0x0200_0000]).into_bytes();
    let created = pipe.call(opnum::LSAR_CREATE_SECRET, &create);
    assert_eq!(status(&created), Status::SUCCESS);
    assert_eq!(status(&pipe.call(opnum::LSAR_CREATE_SECRET, &create)), Status::OBJECT_NAME_COLLISION);
    let set = |handle: &ContextHandle, current: Option<&[u8]>| {
        let mut out = Encoder::default();
        out.array(4, handle);
        value(current, &mut out);
        out.array(4, &[]);
        out.null();
        out.into_bytes()
    };
    let opened = handle(&pipe.call(opnum::LSAR_OPEN_SECRET, &create));
    let cipher = secret::encrypt(b"first", &key);
    assert_eq!(status(&pipe.call(opnum::LSAR_SET_SECRET, &set(&opened, Some(&cipher)))), Status::SUCCESS);
    let broken: Vec<u8> = cipher.iter().map(|byte| byte ^ 1).collect();
    assert_eq!(status(&pipe.call(opnum::LSAR_SET_SECRET, &set(&opened, Some(&broken)))), Status::UNKNOWN_REVISION);
    let long = secret::encrypt(&[7; 5000], &key);
    assert_eq!(status(&pipe.call(opnum::LSAR_SET_SECRET, &set(&opened, Some(&long)))), Status::INSUFFICIENT_RESOURCES);
    // The current value, and no other result.
    let mut query = Encoder::default();
    query.array(4, &opened);
    query.pointer();
    (0..4).for_each(|_| query.null());
    let query = query.into_bytes();
    let found = pipe.call(opnum::LSAR_QUERY_SECRET, &query);
    assert_eq!(status(&found), Status::SUCCESS);
    assert!(found.windows(cipher.len()).any(|window| window == cipher));
    let retrieve = |name: &str| {
        let mut out = named(&policy, name, &[]);
        out.null();
        out.into_bytes()
    };
    let found = pipe.call(opnum::LSAR_RETRIEVE_PRIVATE_DATA, &retrieve("service"));
    assert!(found.windows(cipher.len()).any(|window| window == cipher));
    let store = |name: &str, data: Option<&[u8]>| {
        let mut out = named(&policy, name, &[]);
        out.array(4, &[]);
        value(data, &mut out);
        out.into_bytes()
    };
    for (name, data, expected) in [
        ("G$other", Some(&cipher[..]), Status::SUCCESS),
        ("G$other", None, Status::SUCCESS),
        ("G$other", None, Status::OBJECT_NAME_NOT_FOUND),
        ("L$other", Some(&cipher), Status::ACCESS_DENIED),
        ("$MACHINE.ACC", Some(&cipher), Status::ACCESS_DENIED),
        ("G$$TRUST", Some(&cipher), Status::INVALID_PARAMETER),
    ] {
        assert_eq!(status(&pipe.call(opnum::LSAR_STORE_PRIVATE_DATA, &store(name, data))), expected, "{name}");
    }
    // A policy cannot be deleted, and a deleted secret has no handles.
    assert_eq!(status(&pipe.call(opnum::LSAR_DELETE_OBJECT, &policy)), Status::INVALID_PARAMETER);
    assert_eq!(status(&pipe.call(opnum::LSAR_DELETE_OBJECT, &handle(&created))), Status::SUCCESS);
    assert_eq!(status(&pipe.call(opnum::LSAR_DELETE_OBJECT, &handle(&created))), Status::INVALID_HANDLE);
    assert_eq!(status(&pipe.call(opnum::LSAR_QUERY_SECRET, &query)), Status::INVALID_HANDLE);
}

#[test]
fn other_users_get_no_secrets() {
    let (server, lsa) = server();
    let (mut admin, policy) = pipe(&server, "alice");
    let name = |policy: &ContextHandle| named(policy, "service", &[0x0200_0000]).into_bytes();
    assert_eq!(status(&admin.call(opnum::LSAR_CREATE_SECRET, &name(&policy))), Status::SUCCESS);
    let (mut pipe, policy) = pipe(&server, "bob");
    let mut retrieve = named(&policy, "service", &[]);
    retrieve.null();
    let retrieve = retrieve.into_bytes();
    for (opnum, stub) in [
        (opnum::LSAR_CREATE_SECRET, named(&policy, "mine", &[0x0200_0000]).into_bytes()),
        (opnum::LSAR_OPEN_SECRET, name(&policy)),
        (opnum::LSAR_STORE_PRIVATE_DATA, retrieve.clone()),
        (opnum::LSAR_RETRIEVE_PRIVATE_DATA, retrieve),
    ] {
        assert_eq!(status(&pipe.call(opnum, &stub)), Status::ACCESS_DENIED, "{opnum}");
    }
    assert!(futures_now(lsa.secret("mine")).is_err() && futures_now(lsa.secret("service")).is_ok());
}

/// Returns an answer that is ready.
fn futures_now<T>(answer: crate::answer::Answer<T>) -> T {
    match answer {
        crate::answer::Answer::Now(Some(value)) => value,
        _ => panic!("the answer is not ready"),
    }
}

/// A policy and a SID, then what `fill` adds.
fn of(policy: &ContextHandle, sid: &Sid, fill: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, policy);
    out.sid(sid);
    fill(&mut out);
    out.into_bytes()
}

fn rights(names: &[&str], out: &mut Encoder) {
    out.u32(names.len() as u32);
    out.pointer();
    out.u32(names.len() as u32);
    names.iter().for_each(|name| out.unicode(name));
    names.iter().for_each(|name| out.text(name));
}

#[test]
fn only_those_who_act_as_root_grant_rights_that_the_server_honours() {
    let (server, lsa) = server();
    let bob = MACHINE.with_rid(1001);
    let (mut pipe_of_bob, policy_of_bob) = pipe(&server, "bob");
    let add = |policy: &ContextHandle, name: &str| of(policy, &bob, |out| rights(&[name], out));
    let refused = pipe_of_bob.call(opnum::LSAR_ADD_ACCOUNT_RIGHTS, &add(&policy_of_bob, DISK_OPERATOR));
    assert_eq!((status(&refused), lsa.rights(&bob)), (Status::ACCESS_DENIED, None));
    let (mut pipe, policy) = pipe(&server, "alice");
    for (name, expected) in [
        (DISK_OPERATOR, Status::SUCCESS),
        ("SeBackupPrivilege", Status::NOT_SUPPORTED),
        ("SeNothingPrivilege", Status::NO_SUCH_PRIVILEGE),
    ] {
        assert_eq!(status(&pipe.call(opnum::LSAR_ADD_ACCOUNT_RIGHTS, &add(&policy, name))), expected, "{name}");
    }
    let shown = pipe.call(opnum::LSAR_ENUMERATE_ACCOUNT_RIGHTS, &of(&policy, &bob, |_| {}));
    assert!(is_in(DISK_OPERATOR, &shown) && !is_in("SeBackupPrivilege", &shown));
    let remove = |all: u8, names: &[&str]| {
        of(&policy, &bob, |out| {
            out.array(1, &[all]);
            rights(names, out);
        })
    };
    let unknown = pipe.call(opnum::LSAR_REMOVE_ACCOUNT_RIGHTS, &remove(0, &["SeNothingPrivilege"]));
    assert_eq!(status(&unknown), Status::NO_SUCH_PRIVILEGE);
    assert_eq!(status(&pipe.call(opnum::LSAR_REMOVE_ACCOUNT_RIGHTS, &remove(1, &[]))), Status::SUCCESS);
    // The account object was deleted with its last right.
    let gone = pipe.call(opnum::LSAR_REMOVE_ACCOUNT_RIGHTS, &remove(1, &[]));
    assert_eq!((status(&gone), lsa.rights(&bob)), (Status::OBJECT_NAME_NOT_FOUND, None));
}

#[test]
fn account_objects_are_created_changed_and_deleted() {
    let (server, lsa) = server();
    let (mut pipe, policy) = pipe(&server, "alice");
    let carol = MACHINE.with_rid(1002);
    let create = of(&policy, &carol, |out| out.u32(0x0200_0000));
    let created = pipe.call(opnum::LSAR_CREATE_ACCOUNT, &create);
    assert_eq!(status(&created), Status::SUCCESS);
    assert_eq!(status(&pipe.call(opnum::LSAR_CREATE_ACCOUNT, &create)), Status::OBJECT_NAME_COLLISION);
    let set = |handle: &ContextHandle, head: &[u8], luid: u32| {
        let mut out = Encoder::default();
        out.array(4, handle);
        out.array(1, head);
        [1, 1, 0, luid, 0, 0].into_iter().for_each(|number| out.u32(number));
        out.into_bytes()
    };
    let account = handle(&created);
    for (luid, expected) in
        [(0x1003, Status::SUCCESS), (0x11, Status::NOT_SUPPORTED), (0x7777, Status::INVALID_PARAMETER)]
    {
        let added = pipe.call(opnum::LSAR_ADD_PRIVILEGES_TO_ACCOUNT, &set(&account, &[], luid));
        assert_eq!(status(&added), expected, "{luid}");
    }
    // AllPrivileges is not set, and the set follows behind a pointer.
    let removed =
        pipe.call(opnum::LSAR_REMOVE_PRIVILEGES_FROM_ACCOUNT, &set(&account, &[0, 0, 0, 0, 1, 0, 0, 0], 0x1003));
    assert_eq!(status(&removed), Status::SUCCESS);
    assert!(lsa.rights(&carol).is_some_and(|account| account.privileges.is_empty()));
    // What an account has by default can be removed and restored.
    let opened = pipe.call(opnum::LSAR_OPEN_ACCOUNT, &of(&policy, &Sid::BUILTIN_ADMINISTRATORS, |out| out.u32(0)));
    let administrators = handle(&opened);
    let change = set(&administrators, &[0, 0, 0, 0, 1, 0, 0, 0], 0x11);
    assert_eq!(status(&pipe.call(opnum::LSAR_REMOVE_PRIVILEGES_FROM_ACCOUNT, &change)), Status::SUCCESS);
    assert_eq!(lsa.rights(&Sid::BUILTIN_ADMINISTRATORS).map(|account| account.privileges.len()), Some(7));
    let restored = pipe.call(opnum::LSAR_ADD_PRIVILEGES_TO_ACCOUNT, &set(&administrators, &[], 0x11));
    assert_eq!((status(&restored), lsa.rights(&Sid::BUILTIN_ADMINISTRATORS)), (Status::SUCCESS, None));
    let access = |bits: u32| [&account[..], &bits.to_le_bytes()].concat();
    for (bits, expected) in [(0, Status::SUCCESS), (2, Status::NOT_SUPPORTED), (8, Status::INVALID_PARAMETER)] {
        let set = pipe.call(opnum::LSAR_SET_SYSTEM_ACCESS_ACCOUNT, &access(bits));
        assert_eq!(status(&set), expected, "{bits}");
    }
    let security = |parts: u32| [&account[..], &parts.to_le_bytes()].concat();
    for (parts, expected) in [(7, Status::SUCCESS), (4, Status::SUCCESS), (8, Status::ACCESS_DENIED)] {
        let found = pipe.call(opnum::LSAR_QUERY_SECURITY_OBJECT, &security(parts));
        assert_eq!(status(&found), expected, "{parts}");
        if expected == Status::SUCCESS {
            let descriptor = SecurityDescriptor::decode(&found[16..found.len() - 4]).expect("a descriptor");
            assert_eq!((descriptor.owner.is_some(), descriptor.dacl.is_some()), (parts & 1 != 0, true));
        }
    }
    assert_eq!(status(&pipe.call(opnum::LSAR_DELETE_OBJECT, &account)), Status::SUCCESS);
    assert_eq!(lsa.rights(&carol), None);
    let deleted = pipe.call(opnum::LSAR_DELETE_OBJECT, &administrators);
    assert_eq!(status(&deleted), Status::SUCCESS);
    let gone = pipe.call(opnum::LSAR_ENUMERATE_ACCOUNT_RIGHTS, &of(&policy, &Sid::BUILTIN_ADMINISTRATORS, |_| {}));
    assert_eq!(status(&gone), Status::OBJECT_NAME_NOT_FOUND);
}
