//! Changes by clients, which a back end records.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::auth::ntlm::change::{SEALED_PASSWORD, seal_password};
use proto::auth::ntlm::nt_hash;
use proto::dtyp::Sid;
use proto::rpc::ndr::{ContextHandle, Decoder, Encoder};
use proto::rpc::samr::opnum;
use proto::status::Status;

use super::super::tests::{OWN, Samr, numbers, status};
use crate::accounts::principals::SidNameUse;
use crate::accounts::{Accounts, Administration, GroupChange, NotDone, UserChange};
use crate::answer::Answer;
use crate::policy::UserPattern;
use crate::testing::{self, TestAccounts, TestClient, TestServer};

/// A back end that records changes and makes none.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn record<T: Send + 'static>(&self, what: String, result: Result<T, NotDone>) -> Answer<Result<T, NotDone>> {
        self.0.lock().push(what);
        Answer::now(result)
    }

    fn recorded(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Administration for Recorder {
    fn add_user(&self, name: &str) -> Answer<Result<Sid, NotDone>> {
        let known = ["alice", "bob"].contains(&name);
        let sid = testing::MACHINE.with_rid(1002);
        self.record(format!("add {name}"), if known { Err(NotDone::Exists) } else { Ok(sid) })
    }

    fn change_user(&self, name: &str, change: UserChange) -> Answer<Result<(), NotDone>> {
        let UserChange { full_name, nt_hash: hash, disabled, locked, must_change, never_expires, expires } = change;
        let password = hash.map(|hash| hash.0 == nt_hash("new secret"));
        let flags = (disabled, locked, must_change, never_expires);
        let expires = expires.map(|time| time.map(|time| time.secs));
        self.record(format!("{name}: {full_name:?} {password:?} {flags:?} {expires:?}"), Ok(()))
    }

    fn delete_user(&self, name: &str) -> Answer<Result<(), NotDone>> {
        self.record(format!("delete {name}"), Ok(()))
    }

    fn add_group(&self, name: &str, kind: SidNameUse) -> Answer<Result<Sid, NotDone>> {
        let missing = Err(NotDone::NoUnixObject("no such UNIX group".into()));
        let sid = testing::MACHINE.with_rid(2000);
        let result = if name == "missing" { missing } else { Ok(sid) };
        self.record(format!("add group {name} {}", kind.0), result)
    }

    fn change_group(&self, name: &str, change: GroupChange) -> Answer<Result<(), NotDone>> {
        self.record(format!("group {name} {change:?}"), Ok(()))
    }

    fn delete_group(&self, name: &str) -> Answer<Result<(), NotDone>> {
        self.record(format!("delete group {name}"), Ok(()))
    }

    fn set_policies(&self, policies: Vec<(&'static str, i64)>) -> Answer<Result<(), NotDone>> {
        self.record(format!("{policies:?}"), Ok(()))
    }
}

/// Logs on to a server that alice administrates.
fn server(user: &str) -> (Samr, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let accounts = Accounts { administration: recorder.clone(), ..Arc::new(TestAccounts).into() };
    let configure = |policy: &mut crate::policy::Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
    let server = TestServer::builder().configure(configure).accounts(accounts).start();
    (Samr::of(TestClient::logged_on(&server, user)), recorder)
}

/// A handle and a name, then numbers.
fn named(handle: &ContextHandle, name: &str, numbers: &[u32]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.whole_unicode(name);
    numbers.iter().for_each(|number| out.u32(*number));
    out.into_bytes()
}

/// A handle, an information class and what `fill` adds.
fn settings(handle: &ContextHandle, class: u16, fill: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u16(class);
    out.u16(class);
    fill(&mut out);
    out.into_bytes()
}

/// SAMPR_USER_ALL_INFORMATION with a name and a full name.
fn all(out: &mut Encoder, which: u32, full_name: &str, control: u32) {
    (0..6).for_each(|_| out.array(4, &0_u64.to_le_bytes()));
    out.unicode("bob");
    out.unicode(full_name);
    // The other texts, the hashes, the private data and the descriptor.
    (0..12).for_each(|_| out.array(4, &[0; 8]));
    [0, 513, control, which].into_iter().for_each(|number| out.u32(number));
    out.array(2, &[0; 2]);
    out.null();
    out.array(1, &[0; 12]);
    out.text("bob");
    out.text(full_name);
}

fn session_key(samr: &Samr) -> [u8; 16] {
    let keys = samr.0.client.connection.channels()[0].session.keys().expect("a session with keys");
    keys.application.as_ref().expect("a secret key").as_bytes().try_into().expect("16 bytes")
}

#[test]
fn administrators_create_and_delete_accounts() {
    let (mut samr, recorder) = server("alice");
    let domain = samr.domain(OWN);
    let created = samr.0.call(opnum::SAMR_CREATE_USER_2_IN_DOMAIN, &named(&domain, "new", &[0x10, 0]));
    let mut from = Decoder::new(&created);
    let handle = from.handle().expect("a handle");
    assert_eq!((from.u32(), from.u32()), (Ok(0x000f_07ff), Ok(1002)));
    assert_eq!(status(&created), Status::SUCCESS);
    assert_eq!(status(&samr.0.call(opnum::SAMR_DELETE_USER, &numbers(&handle, &[]))), Status::SUCCESS);
    // The handle is closed.
    assert_eq!(status(&samr.0.call(opnum::SAMR_DELETE_USER, &numbers(&handle, &[]))), Status::INVALID_HANDLE);
    assert_eq!(recorder.recorded(), ["add new", "delete carol"]);
    for (name, kind, expected) in [
        ("bob", 0x10, Status::USER_EXISTS),
        ("machine$", 0x80, Status::NOT_SUPPORTED),
        ("odd", 0x11, Status::INVALID_PARAMETER),
    ] {
        let stub = named(&domain, name, &[kind, 0]);
        assert_eq!(status(&samr.0.call(opnum::SAMR_CREATE_USER_2_IN_DOMAIN, &stub)), expected, "{name}");
    }
    let builtin = samr.domain("S-1-5-32");
    let stub = named(&builtin, "new", &[0]);
    assert_eq!(status(&samr.0.call(opnum::SAMR_CREATE_USER_IN_DOMAIN, &stub)), Status::ACCESS_DENIED);
}

#[test]
fn administrators_set_fields_and_passwords() {
    let (mut samr, recorder) = server("alice");
    let domain = samr.domain(OWN);
    let bob = samr.open(opnum::SAMR_OPEN_USER, &numbers(&domain, &[0, 1001])).expect("bob");
    let key = session_key(&samr);
    let (sealed, _) = seal_password(&key, "new secret", &[7; SEALED_PASSWORD]).expect("it fits");
    let (unsealed, _) = seal_password(&[9; 16], "new secret", &[7; SEALED_PASSWORD]).expect("it fits");
    let (empty, _) = seal_password(&key, "", &[7; SEALED_PASSWORD]).expect("it fits");
    let set = |password: &[u8; SEALED_PASSWORD], expired: u8| {
        settings(&bob, 24, |out| {
            out.array(1, password);
            out.array(1, &[expired]);
        })
    };
    let full_name = settings(&bob, 8, |out| out.whole_unicode("Bob B."));
    let control = |control: u32| settings(&bob, 16, |out| out.u32(control));
    for (stub, expected) in [
        (set(&sealed, 1), Status::SUCCESS),
        (set(&unsealed, 0), Status::WRONG_PASSWORD),
        (set(&empty, 0), Status::PASSWORD_RESTRICTION),
        (full_name, Status::SUCCESS),
        (control(0x211), Status::SUCCESS),
        (control(0x10 | 0x80), Status::INVALID_PARAMETER),
        (settings(&bob, 17, |out| out.array(4, &116_444_736_070_000_000_u64.to_le_bytes())), Status::SUCCESS),
        (settings(&bob, 21, |out| all(out, 0x10_0003, "B", 0x10)), Status::SUCCESS),
        // UserId, and no field.
        (settings(&bob, 21, |out| all(out, 0x4, "B", 0x10)), Status::INVALID_PARAMETER),
        (settings(&bob, 21, |out| all(out, 0, "B", 0x10)), Status::INVALID_PARAMETER),
        // Another name, and the path of a profile, which no back end stores.
        (settings(&bob, 7, |out| out.whole_unicode("robert")), Status::NOT_SUPPORTED),
        (settings(&bob, 12, |out| out.whole_unicode("\\\\server\\bob")), Status::NOT_SUPPORTED),
        (settings(&bob, 12, |out| out.whole_unicode("")), Status::SUCCESS),
        (settings(&bob, 1, |_| {}), Status::INVALID_INFO_CLASS),
    ] {
        assert_eq!(status(&samr.0.call(opnum::SAMR_SET_INFORMATION_USER_2, &stub)), expected, "{stub:?}");
    }
    assert_eq!(
        recorder.recorded(),
        [
            "bob: None Some(true) (None, None, Some(true), None) None",
            "bob: Some(\"Bob B.\") None (None, None, None, None) None",
            "bob: None None (Some(true), Some(false), None, Some(true)) None",
            "bob: None None (None, None, None, None) Some(Some(7))",
            "bob: Some(\"B\") None (Some(false), Some(false), None, Some(false)) None",
            "bob: None None (None, None, None, None) None",
        ]
    );
}

#[test]
fn administrators_change_groups_and_policies() {
    let (mut samr, recorder) = server("alice");
    let domain = samr.domain(OWN);
    for (name, expected) in [("staff", Status::SUCCESS), ("missing", Status::NO_SUCH_ALIAS)] {
        let created = samr.0.call(opnum::SAMR_CREATE_ALIAS_IN_DOMAIN, &named(&domain, name, &[0]));
        assert_eq!(status(&created), expected, "{name}");
    }
    let none = samr.open(opnum::SAMR_OPEN_GROUP, &numbers(&domain, &[0, 513])).expect("the group of all users");
    for (opnum, member, expected) in [
        (opnum::SAMR_ADD_MEMBER_TO_GROUP, 1001, Status::MEMBER_IN_GROUP),
        (opnum::SAMR_REMOVE_MEMBER_FROM_GROUP, 1001, Status::MEMBERS_PRIMARY_GROUP),
        (opnum::SAMR_ADD_MEMBER_TO_GROUP, 77, Status::NO_SUCH_USER),
        (opnum::SAMR_DELETE_GROUP, 0, Status::SPECIAL_GROUP),
    ] {
        assert_eq!(samr.status(opnum, &none, &[member, 7]), expected, "{opnum} {member}");
    }
    let comment = settings(&none, 4, |out| out.whole_unicode("all users"));
    assert_eq!(status(&samr.0.call(opnum::SAMR_SET_INFORMATION_GROUP, &comment)), Status::SUCCESS);
    let day = -864_000_000_000_i64;
    let password = |properties: u32, age: i64| {
        settings(&domain, 1, |out| {
            out.u16(8);
            out.u16(3);
            out.u32(properties);
            out.array(4, &age.to_le_bytes());
            out.array(4, &0_i64.to_le_bytes());
        })
    };
    for (stub, expected) in [
        (password(0, day), Status::SUCCESS),
        (password(1, day), Status::NOT_SUPPORTED),
        (password(0, -day), Status::INVALID_PARAMETER),
        (settings(&domain, 5, |_| {}), Status::INVALID_INFO_CLASS),
    ] {
        assert_eq!(status(&samr.0.call(opnum::SAMR_SET_INFORMATION_DOMAIN, &stub)), expected, "{stub:?}");
    }
    assert_eq!(
        recorder.recorded(),
        [
            "add group staff 4",
            "add group missing 4",
            "group None GroupChange { name: None, comment: Some(\"all users\"), add: [], remove: [] }",
            "[(\"min password length\", 8), (\"password history\", 3), (\"maximum password age\", 86400), \
             (\"minimum password age\", 0)]",
        ]
    );
}

#[test]
fn other_users_change_nothing() {
    let (mut samr, recorder) = server("bob");
    let domain = samr.domain(OWN);
    let bob = samr.open(opnum::SAMR_OPEN_USER, &numbers(&domain, &[0, 1001])).expect("bob");
    let none = samr.open(opnum::SAMR_OPEN_GROUP, &numbers(&domain, &[0, 513])).expect("the group of all users");
    for (opnum, stub) in [
        (opnum::SAMR_CREATE_USER_IN_DOMAIN, named(&domain, "new", &[0])),
        (opnum::SAMR_CREATE_USER_2_IN_DOMAIN, named(&domain, "new", &[0x10, 0])),
        (opnum::SAMR_CREATE_GROUP_IN_DOMAIN, named(&domain, "new", &[0])),
        (opnum::SAMR_CREATE_ALIAS_IN_DOMAIN, named(&domain, "new", &[0])),
        (opnum::SAMR_SET_INFORMATION_USER_2, settings(&bob, 8, |out| out.whole_unicode("Bob B."))),
        (opnum::SAMR_SET_INFORMATION_GROUP, settings(&none, 4, |out| out.whole_unicode("all"))),
        (opnum::SAMR_SET_INFORMATION_DOMAIN, settings(&domain, 9, |out| out.u16(1))),
        (opnum::SAMR_ADD_MEMBER_TO_GROUP, numbers(&none, &[1001, 7])),
        (opnum::SAMR_DELETE_GROUP, numbers(&none, &[])),
        (opnum::SAMR_DELETE_USER, numbers(&bob, &[])),
    ] {
        assert_eq!(status(&samr.0.call(opnum, &stub)), Status::ACCESS_DENIED, "{opnum}");
        // A wrong type of handle is named first.
        let foreign = [&[3; 20], &stub[20..]].concat();
        assert_eq!(status(&samr.0.call(opnum, &foreign)), Status::INVALID_HANDLE, "{opnum}");
    }
    assert!(recorder.recorded().is_empty());
}
