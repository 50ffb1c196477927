use parking_lot::Mutex;
use proto::dtyp::Sid;
use proto::rpc::ndr::Encoder;
use proto::rpc::srvsvc::opnum;

use super::*;
use crate::named_pipe::BoxFuture;
use crate::policy::{Share, ShareChanges, UserPattern};
use crate::rpc::tests::client::PipeClient;
use crate::rpc::tests::lists::last;
use crate::testing::{TestClient, TestServer};

/// A daemon that records changes, and refuses them for a reason.
#[derive(Default)]
struct Recorder {
    made: Mutex<Vec<ShareChange>>,
    refusal: Mutex<Option<ShareRefusal>>,
}

impl ShareChanges for Recorder {
    fn change(&self, change: ShareChange) -> BoxFuture<'static, Result<(), ShareRefusal>> {
        self.made.lock().push(change);
        let refusal = self.refusal.lock().clone();
        Box::pin(async move { refusal.map_or(Ok(()), Err) })
    }
}

impl Recorder {
    /// Returns the only change since the last call.
    fn only(&self) -> ShareChange {
        let made = std::mem::take(&mut *self.made.lock());
        let [change] = <[ShareChange; 1]>::try_from(made).expect("one change");
        change
    }
}

/// A server with the share `data`, which alice administrates.
fn server() -> (TestServer, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let configure = |policy: &mut Policy| {
        policy.admin_users = vec![UserPattern::User("alice".into())];
        let mut share = Share::new("data", "/srv/data");
        share.comment = "old".into();
        policy.shares.insert("data".into(), share.into());
    };
    (TestServer::builder().configure(configure).share_changes(recorder.clone()).start(), recorder)
}

fn pipe(server: &TestServer, user: &str) -> PipeClient {
    PipeClient::new(TestClient::logged_on(server, user), "srvsvc")
}

/// A SHARE_INFO of level 502 for a share to add.
fn wanted() -> ShareInfo {
    ShareInfo {
        name: Some("New".into()),
        kind: Some(STYPE_DISKTREE),
        remark: Some("a comment".into()),
        max_uses: Some(7),
        path: Some("c:\\srv\\new\\".into()),
        flags: None,
        security: None,
    }
}

fn pointer(out: &mut Encoder, is_there: bool) {
    if is_there { out.pointer() } else { out.null() }
}

/// Encodes the level, the structure and a pointer for the invalid member.
fn encode(out: &mut Encoder, level: u32, info: &ShareInfo) {
    let ShareInfo { name, kind, remark, max_uses, path, flags, security } = info;
    out.u32(level);
    out.u32(level);
    out.pointer();
    let detailed = matches!(level, 2 | 502);
    if detailed || level == 1 {
        pointer(out, name.is_some());
        out.u32(kind.unwrap_or_default());
        pointer(out, remark.is_some());
    }
    if detailed {
        [0, max_uses.unwrap_or_default(), 0].into_iter().for_each(|number| out.u32(number));
        pointer(out, path.is_some());
        out.null();
    }
    match level {
        1004 => pointer(out, remark.is_some()),
        1005 => out.u32(flags.unwrap_or_default()),
        1006 => out.u32(max_uses.unwrap_or_default()),
        502 | 1501 => {
            out.u32(security.as_ref().map_or(0, |bytes| bytes.len() as u32));
            pointer(out, security.is_some());
        }
        _ => {}
    }
    let texts = match level {
        1004 => [None, remark.as_ref(), None],
        _ if detailed => [name.as_ref(), remark.as_ref(), path.as_ref()],
        1 => [name.as_ref(), remark.as_ref(), None],
        _ => [None, None, None],
    };
    texts.into_iter().flatten().for_each(|text| out.string(text));
    if let Some(bytes) = security.as_ref().filter(|_| matches!(level, 502 | 1501)) {
        out.u32(bytes.len() as u32);
        out.array(1, bytes);
    }
    out.pointer();
    out.u32(0);
}

/// Returns the invalid member and the status.
fn add(pipe: &mut PipeClient, level: u32, info: &ShareInfo) -> Failure {
    let mut out = Encoder::default();
    out.null();
    encode(&mut out, level, info);
    results(&pipe.call(opnum::NETR_SHARE_ADD, &out.into_bytes()))
}

fn set(pipe: &mut PipeClient, name: &str, level: u32, info: &ShareInfo) -> Failure {
    let mut out = Encoder::default();
    out.null();
    out.string(name);
    encode(&mut out, level, info);
    results(&pipe.call(opnum::NETR_SHARE_SET_INFO, &out.into_bytes()))
}

fn results(bytes: &[u8]) -> Failure {
    match bytes.len() {
        12 => (u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes")), last(bytes)),
        _ => (0, last(bytes)),
    }
}

fn del(pipe: &mut PipeClient, call: u16, name: &str) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    out.string(name);
    out.u32(0);
    pipe.call(call, &out.into_bytes())
}

fn acl() -> SecurityDescriptor {
    SecurityDescriptor { owner: Some(Sid::BUILTIN_ADMINISTRATORS), ..SecurityDescriptor::default() }
}

#[test]
fn administrators_add_shares() {
    let (server, recorder) = server();
    let mut alice = pipe(&server, "alice");
    assert_eq!(add(&mut alice, 2, &wanted()), (0, error::SUCCESS));
    let expected = |acl: Option<SecurityDescriptor>, max_connections| ShareChange::Add {
        name: "New".into(),
        path: "/srv/new".into(),
        comment: "a comment".into(),
        max_connections,
        acl: acl.map(Box::new),
    };
    assert_eq!(recorder.only(), expected(None, 7));
    let secured = ShareInfo { security: Some(acl().to_bytes()), max_uses: Some(u32::MAX), ..wanted() };
    assert_eq!(add(&mut alice, 502, &secured), (0, error::SUCCESS));
    match recorder.only() {
        ShareChange::Add { acl: Some(found), max_connections: 0, .. } => {
            assert_eq!(found.owner, Some(Sid::BUILTIN_ADMINISTRATORS));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(add(&mut pipe(&server, "bob"), 2, &wanted()), (0, error::ACCESS_DENIED));
    assert!(recorder.made.lock().is_empty());
}

#[test]
fn shares_that_are_not_valid_are_not_added() {
    let (server, recorder) = server();
    let mut alice = pipe(&server, "alice");
    let text = |text: &str| Some(text.to_owned());
    let long = "x".repeat(81);
    for (info, expected) in [
        (ShareInfo { name: None, ..wanted() }, invalid(member::SHARE_NETNAME)),
        (ShareInfo { name: text(""), ..wanted() }, invalid(member::SHARE_NETNAME)),
        (ShareInfo { name: text(&long), ..wanted() }, invalid(member::SHARE_NETNAME)),
        (ShareInfo { name: text("PIPE"), ..wanted() }, DENIED),
        (ShareInfo { name: text("DATA"), ..wanted() }, (0, error::DUPLICATE_SHARE)),
        (ShareInfo { name: text("ipc$"), ..wanted() }, (0, error::DUPLICATE_SHARE)),
        (ShareInfo { kind: Some(1), ..wanted() }, invalid(member::SHARE_TYPE)),
        (ShareInfo { kind: Some(0x4000_0000), ..wanted() }, invalid(member::SHARE_TYPE)),
        (ShareInfo { remark: text(&long[..49]), ..wanted() }, invalid(member::SHARE_REMARK)),
        (ShareInfo { path: None, ..wanted() }, invalid(member::SHARE_PATH)),
        (ShareInfo { path: text("srv"), ..wanted() }, invalid(member::SHARE_PATH)),
        (ShareInfo { path: text("D:\\srv"), ..wanted() }, invalid(member::SHARE_PATH)),
        (ShareInfo { path: text("C:\\srv\\..\\etc"), ..wanted() }, invalid(member::SHARE_PATH)),
        (ShareInfo { path: text("C:\\.\\srv"), ..wanted() }, invalid(member::SHARE_PATH)),
        (ShareInfo { security: Some(vec![1; 30]), ..wanted() }, invalid(member::SHARE_FILE_SD)),
    ] {
        assert_eq!(add(&mut alice, 502, &info), expected, "{info:?}");
    }
    // The union has no arm for the level.
    let stub = [0_u32, 3, 3].map(u32::to_le_bytes).concat();
    assert_eq!(last(&alice.call(opnum::NETR_SHARE_ADD, &stub)), error::INVALID_LEVEL);
    let null = [0_u32, 2, 2, 0, 0].map(u32::to_le_bytes).concat();
    assert_eq!(last(&alice.call(opnum::NETR_SHARE_ADD, &null)), error::INVALID_PARAMETER);
    assert!(recorder.made.lock().is_empty());
    for (refusal, expected) in [
        (ShareRefusal::BadName, (member::SHARE_NETNAME, error::INVALID_NAME)),
        (ShareRefusal::BadValue("path".into()), invalid(member::SHARE_PATH)),
        (ShareRefusal::BadAcl, invalid(member::SHARE_FILE_SD)),
        (ShareRefusal::Exists, (0, error::DUPLICATE_SHARE)),
        (ShareRefusal::NotOurs, DENIED),
        (ShareRefusal::NoDirectory, (0, error::UNKNOWN_DEV_DIR)),
        (ShareRefusal::Failed("disk full".into()), (0, error::GEN_FAILURE)),
    ] {
        *recorder.refusal.lock() = Some(refusal);
        assert_eq!(add(&mut alice, 2, &wanted()), expected);
    }
}

#[test]
fn administrators_change_shares() {
    let (server, recorder) = server();
    let mut alice = pipe(&server, "alice");
    let none = || ShareChange::Set {
        name: "data".into(),
        comment: None,
        max_connections: None,
        csc_policy: None,
        hide_unreadable: None,
        acl: None,
    };
    let new = ShareInfo { remark: Some("new".into()), max_uses: Some(3), ..ShareInfo::default() };
    let changed = |new_comment: bool, new_max: bool| match none() {
        ShareChange::Set { name, csc_policy, hide_unreadable, acl, .. } => ShareChange::Set {
            name,
            comment: new_comment.then(|| "new".into()),
            max_connections: new_max.then_some(3),
            csc_policy,
            hide_unreadable,
            acl,
        },
        other => other,
    };
    for (level, expected) in [
        (1, changed(true, false)),
        (2, changed(true, true)),
        (502, changed(true, true)),
        (1004, changed(true, false)),
        (1006, changed(false, true)),
    ] {
        assert_eq!(set(&mut alice, "DATA", level, &new), (0, error::SUCCESS), "{level}");
        assert_eq!(recorder.only(), expected, "{level}");
    }
    // What the client has received is not a change.
    let same = ShareInfo { remark: Some("old".into()), max_uses: Some(u32::MAX), ..ShareInfo::default() };
    assert_eq!(set(&mut alice, "data", 2, &same), (0, error::SUCCESS));
    assert_eq!(set(&mut alice, "data", 1005, &same), (0, error::SUCCESS));
    assert!(recorder.made.lock().is_empty());
    let flags = ShareFlags::NO_CACHING | ShareFlags::ACCESS_BASED_DIRECTORY_ENUM;
    assert_eq!(set(&mut alice, "data", 1005, &ShareInfo { flags: Some(flags.0), ..same.clone() }), (0, error::SUCCESS));
    let ShareChange::Set { csc_policy, hide_unreadable, .. } = recorder.only() else { panic!("another change") };
    assert_eq!((csc_policy, hide_unreadable), (Some(CscPolicy::Disable), Some(true)));
    let secured = ShareInfo { security: Some(acl().to_bytes()), ..same.clone() };
    for level in [502, 1501] {
        assert_eq!(set(&mut alice, "data", level, &secured), (0, error::SUCCESS));
        let ShareChange::Set { comment: None, max_connections, acl: Some(_), .. } = recorder.only() else {
            panic!("another change")
        };
        // Level 502 has a number of clients, which is not the one of the share.
        assert_eq!(max_connections, None);
    }
    for (name, level, info, expected) in [
        ("", 1, &new, invalid(0)),
        ("none", 1, &new, (0, error::NET_NAME_NOT_FOUND)),
        ("IPC$", 1, &new, DENIED),
        ("data", 1005, &ShareInfo { flags: Some(0x2000), ..same.clone() }, (0, error::NOT_SUPPORTED)),
        ("data", 1501, &ShareInfo { security: Some(vec![9; 24]), ..same.clone() }, invalid(member::SHARE_FILE_SD)),
        ("data", 1, &ShareInfo { remark: Some("x".repeat(49)), ..same.clone() }, invalid(member::SHARE_REMARK)),
    ] {
        assert_eq!(set(&mut alice, name, level, info), expected, "{name} {level}");
    }
    assert_eq!(set(&mut pipe(&server, "bob"), "data", 1, &new), DENIED);
    assert!(recorder.made.lock().is_empty());
}

#[test]
fn administrators_remove_shares() {
    let (server, recorder) = server();
    let mut alice = pipe(&server, "alice");
    let mut bob = pipe(&server, "bob");
    for call in [opnum::NETR_SHARE_DEL, opnum::NETR_SHARE_DEL_STICKY] {
        assert_eq!(last(&del(&mut alice, call, "DATA")), error::SUCCESS);
        assert_eq!(recorder.only(), ShareChange::Remove { name: "data".into() });
        assert_eq!(last(&del(&mut bob, call, "data")), error::ACCESS_DENIED);
        assert_eq!(last(&del(&mut alice, call, "none")), error::NET_NAME_NOT_FOUND);
        assert_eq!(last(&del(&mut alice, call, "IPC$")), error::ACCESS_DENIED);
        assert_eq!(last(&del(&mut alice, call, "")), error::INVALID_PARAMETER);
    }
    assert_eq!(last(&del(&mut bob, opnum::NETR_SHARE_DEL_START, "data")), error::ACCESS_DENIED);
    let started = del(&mut alice, opnum::NETR_SHARE_DEL_START, "data");
    assert_eq!(last(&started), error::SUCCESS);
    assert!(recorder.made.lock().is_empty(), "the share stays until the second call");
    // The handle is one of alice's pipe.
    assert_eq!(last(&bob.call(opnum::NETR_SHARE_DEL_COMMIT, &started[..20])), error::INVALID_PARAMETER);
    let committed = alice.call(opnum::NETR_SHARE_DEL_COMMIT, &started[..20]);
    assert_eq!((&committed[..20], last(&committed)), (&[0; 20][..], error::SUCCESS));
    assert_eq!(recorder.only(), ShareChange::Remove { name: "data".into() });
    let again = alice.call(opnum::NETR_SHARE_DEL_COMMIT, &started[..20]);
    assert_eq!(last(&again), error::INVALID_PARAMETER);
}
