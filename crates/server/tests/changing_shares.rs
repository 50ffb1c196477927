//! Shares that are not the same for all clients or at all times: those of users, those of single sessions, and those
//! restricted by host names.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::{AccessMask, Sid};
use proto::rpc::pdu::{self, Bind, Context, Header as Pdu, PduFlags, PduType};
use proto::rpc::srvsvc;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use proto::smb2::negotiate::SecurityMode;
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest, TreeConnectResponse};
use proto::status::Status;
use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::hosts::{HostNames, HostRule};
use server::policy::template::Variable;
use server::policy::{
    Complete, Policy, SESSION_VARIABLES, SessionPolicies, SessionValues, Share, UserPattern, UserShareAcl, UserShares,
};
use server::testing::{self, PASSWORD, TestClient, TestServer, status};

const HERE: [u8; 4] = [10, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [10, 0, 0, 2];

/// The access that programs request on a pipe.
const READ_WRITE: AccessMask = AccessMask(0x0012_019f);

/// Logs on as `user` from an address.
fn log_on(server: &TestServer, user: &str, address: [u8; 4]) -> TestClient {
    let mut client = TestClient::from_address(server, (address, 50_000).into());
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on(user, PASSWORD, 0), Status::SUCCESS);
    client
}

/// Returns whether the client may write to a share; an error if it may not connect.
fn writes(client: &mut TestClient, share: &str) -> Result<bool, Status> {
    let path = utf16_bytes(&format!(r"\\server\{share}"));
    let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
    let response = client.request(Command::TREE_CONNECT, |out| tree.encode(out));
    match status(&response) {
        Status::SUCCESS => {
            let granted = TreeConnectResponse::decode(&response).expect("a response").maximal_access;
            Ok(AccessMask(granted).contains(AccessMask::FILE_WRITE_DATA))
        }
        refused => Err(refused),
    }
}

fn whole(kind: PduType, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
    Pdu { kind, flags, frag_length: 0, auth_length: 0, call_id: 1 }.encode(&mut out);
    body(&mut out);
    pdu::finish(&mut out);
    bytes
}

/// Returns the response to a call of srvsvc as text.
fn call(client: &mut TestClient, opnum: u16, stub: &[u32]) -> String {
    assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
    let pipe = client.open("srvsvc", READ_WRITE);
    let mut transceive = |input: &[u8]| {
        let (ctl_code, flags) = (FsctlCode::PIPE_TRANSCEIVE, IoctlFlags::IS_FSCTL);
        let request = IoctlRequest {
            ctl_code,
            file_id: pipe,
            input,
            max_output_response: 65_536,
            flags,
            ..IoctlRequest::default()
        };
        let response = client.request(Command::IOCTL, |out| request.encode(out));
        IoctlResponse::decode(&response).expect("an answer").output.to_vec()
    };
    let contexts = vec![Context { id: 0, interface: srvsvc::INTERFACE, transfer_syntaxes: vec![pdu::NDR] }];
    let bind = Bind { max_xmit_frag: 4280, max_recv_frag: 4280, assoc_group_id: 0, contexts };
    transceive(&whole(PduType::BIND, |out| bind.encode(out)));
    let bytes = transceive(&whole(PduType::REQUEST, |out| {
        out.u32(0);
        out.u16(0);
        out.u16(opnum);
        stub.iter().for_each(|field| out.u32(*field));
    }));
    bytes.into_iter().filter(u8::is_ascii_graphic).map(char::from).collect()
}

/// Returns the response to NetrShareEnum as text.
fn list(client: &mut TestClient) -> String {
    call(client, srvsvc::opnum::NETR_SHARE_ENUM, &[0, 1, 1, 0x20000, 0, 0, u32::MAX, 0])
}

/// Returns the response to NetrShareGetInfo for the share `music` as text.
fn info_of_music(client: &mut TestClient) -> String {
    let letters = |pair: [u8; 2]| u32::from(pair[0]) | u32::from(pair[1]) << 16;
    let name = [letters(*b"mu"), letters(*b"si"), letters(*b"c\0")];
    let stub = [&[0, 6, 0, 6][..], &name, &[1]].concat();
    call(client, srvsvc::opnum::NETR_SHARE_GET_INFO, &stub)
}

/// One share, `music`, while it is defined.
#[derive(Debug)]
struct OneShare {
    defined: Arc<AtomicBool>,
    available: bool,
    acl: UserShareAcl,
}

impl OneShare {
    fn get(&self) -> Option<Arc<Share>> {
        let mut share = Share::new("Music", "/share");
        share.available = self.available;
        share.access.read_only = false;
        share.access.user_share_acl = Some(self.acl.clone());
        self.defined.load(Ordering::Relaxed).then(|| Arc::new(share))
    }
}

impl UserShares for OneShare {
    fn share(&self, name: &str) -> Answer<Result<Option<Arc<Share>>, Unavailable>> {
        Answer::now(Ok(self.get().filter(|_| name.eq_ignore_ascii_case("music"))))
    }

    fn list(&self) -> Answer<Result<Vec<Arc<Share>>, Unavailable>> {
        Answer::now(Ok(self.get().into_iter().collect()))
    }
}

#[test]
fn a_share_of_a_user_exists_while_it_is_defined_and_as_its_acl_says() {
    let everyone = || vec![UserPattern::Sid(Sid::EVERYONE)];
    let alice = || vec![UserPattern::User("alice".into())];
    // The ACL, and whether alice and bob may connect and write.
    let cases = [
        (UserShareAcl { connect: everyone(), ..UserShareAcl::default() }, Some(false), Some(false)),
        (UserShareAcl { connect: everyone(), write: alice(), ..UserShareAcl::default() }, Some(true), Some(false)),
        (UserShareAcl { connect: alice(), write: alice(), ..UserShareAcl::default() }, Some(true), None),
        (UserShareAcl { connect: everyone(), write: everyone(), refuse: alice() }, None, Some(true)),
    ];
    for (acl, of_alice, of_bob) in cases {
        let defined = Arc::new(AtomicBool::new(false));
        let shares = OneShare { defined: defined.clone(), available: true, acl: acl.clone() };
        let server = TestServer::builder().configure(|policy| policy.user_shares = Some(Arc::new(shares))).start();
        for (user, expected) in [("alice", of_alice), ("bob", of_bob)] {
            let mut client = log_on(&server, user, HERE);
            defined.store(false, Ordering::Relaxed);
            assert_eq!(writes(&mut client, "music"), Err(Status::BAD_NETWORK_NAME));
            assert!(!list(&mut client).contains("Music") && !info_of_music(&mut client).contains("Music"));
            defined.store(true, Ordering::Relaxed);
            assert!(list(&mut client).contains("Music") && info_of_music(&mut client).contains("Music"));
            let expected = expected.ok_or(Status::ACCESS_DENIED);
            assert_eq!(writes(&mut client, "MUSIC"), expected, "{user} {acl:?}");
        }
    }
}

#[test]
fn a_share_of_a_user_that_is_not_available_does_not_exist() {
    let shares = OneShare { defined: Arc::new(true.into()), available: false, acl: UserShareAcl::default() };
    let server = TestServer::builder().configure(|policy| policy.user_shares = Some(Arc::new(shares))).start();
    let mut client = log_on(&server, "alice", HERE);
    assert_eq!(writes(&mut client, "music"), Err(Status::BAD_NETWORK_NAME));
    assert!(!list(&mut client).contains("Music") && !info_of_music(&mut client).contains("Music"));
}

/// A share `private` for alice, and an error for clients that are not at [`HERE`].
#[derive(Debug)]
struct OfAlice;

impl SessionPolicies for OfAlice {
    fn policy(&self, values: SessionValues) -> Answer<Result<Option<Arc<Policy>>, Unavailable>> {
        let value = |variable| {
            let at = SESSION_VARIABLES.iter().position(|known| *known == variable).expect("a variable of sessions");
            values[at].as_deref()
        };
        let here = value(Variable::CLIENT_ADDRESS) == Some("10.0.0.1");
        Answer::now(match value(Variable::SESSION_USER) {
            _ if !here => Err(Unavailable("an error in a file of the client".into())),
            Some("alice") => {
                let mut policy = testing::policy();
                policy.shares.insert("private".into(), Arc::new(Share::new("private", "/share")));
                Ok(Some(Arc::new(policy)))
            }
            _ => Ok(None),
        })
    }

    fn complete_with(&self, _: Complete) {}
}

#[test]
fn a_session_has_the_shares_of_its_own_policy() {
    let server = TestServer::builder().configure(|policy| policy.sessions = Some(Arc::new(OfAlice))).start();
    let gone = Err(Status::BAD_NETWORK_NAME);
    let cases = [("alice", HERE, Ok(true), Ok(false)), ("bob", HERE, Ok(true), gone), ("alice", ELSEWHERE, gone, gone)];
    for (user, address, common, private) in cases {
        let mut client = log_on(&server, user, address);
        assert_eq!(writes(&mut client, "share"), common, "{user}");
        assert_eq!(writes(&mut client, "private"), private, "{user}");
        let list = list(&mut client);
        assert_eq!((list.contains("share"), list.contains("private")), (common.is_ok(), private.is_ok()), "{user}");
    }
}

/// Knows that 10.0.0.1 is in the netgroup `office`.
#[derive(Debug)]
struct Office;

impl HostNames for Office {
    fn resolve(&self, rules: Vec<HostRule>, address: IpAddr) -> Answer<Vec<Option<bool>>> {
        let office = HostRule::Netgroup("office".into());
        let known = |rule: &HostRule| (*rule == office).then_some(address == IpAddr::from(HERE));
        let answers = rules.iter().map(known).collect();
        Answer::later(async move { answers })
    }
}

#[test]
fn a_share_is_restricted_by_host_names() {
    let server = TestServer::builder()
        .configure(|policy| policy.host_names = Some(Arc::new(Office)))
        .share(|share| share.access.hosts.allow.any = vec![HostRule::Netgroup("office".into())])
        .start();
    for (address, expected) in [(HERE, Ok(true)), (ELSEWHERE, Err(Status::ACCESS_DENIED))] {
        let mut client = log_on(&server, "alice", address);
        assert_eq!(writes(&mut client, "share"), expected, "{address:?}");
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
