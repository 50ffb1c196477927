//! Calls by clients and their results.

use proto::rpc::ndr::{ContextHandle, Decoder, Encoder};
use proto::rpc::samr::opnum;
use proto::status::Status;

use crate::rpc::tests::client::PipeClient;
use crate::testing::{self, TestClient, TestServer};

/// Encodes a handle and numbers as arguments.
pub(super) fn numbers(handle: &ContextHandle, numbers: &[u32]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    numbers.iter().for_each(|number| out.u32(*number));
    out.into_bytes()
}

/// Returns the status at the end of results.
pub(super) fn status(results: &[u8]) -> Status {
    Status(u32::from_le_bytes(results[results.len() - 4..].try_into().expect("four bytes")))
}

/// The arguments of SamrConnect2: no name, and MAXIMUM_ALLOWED.
const MAXIMUM: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 2];

pub(super) struct Samr(pub(super) PipeClient);

impl Samr {
    pub(super) fn of(client: TestClient) -> Samr {
        Samr(PipeClient::new(client, "samr"))
    }

    fn as_alice() -> Samr {
        Samr::of(TestClient::logged_on(&TestServer::new(), "alice"))
    }

    /// Executes a call that opens a handle; returns the handle or the status.
    pub(super) fn open(&mut self, opnum: u16, stub: &[u8]) -> Result<ContextHandle, Status> {
        let results = self.0.call(opnum, stub);
        match status(&results) {
            Status::SUCCESS => Ok(Decoder::new(&results).handle().expect("a handle")),
            status => Err(status),
        }
    }

    /// Opens the domain with this SID.
    pub(super) fn domain(&mut self, sid: &str) -> ContextHandle {
        let server = self.open(opnum::SAMR_CONNECT_2, &MAXIMUM).expect("the handle is granted");
        let mut out = Encoder::default();
        out.array(4, &server);
        out.u32(0x200);
        out.sid(&sid.parse().expect("a SID"));
        self.open(opnum::SAMR_OPEN_DOMAIN, &out.into_bytes()).expect("a domain")
    }

    pub(super) fn status(&mut self, opnum: u16, handle: &ContextHandle, arguments: &[u32]) -> Status {
        status(&self.0.call(opnum, &numbers(handle, arguments)))
    }

    /// The result of an enumeration: the context for the next part, RIDs with names, and the status.
    fn enumerate(&mut self, opnum: u16, handle: &ContextHandle, arguments: &[u32]) -> (u32, Vec<String>, Status) {
        let results = self.0.call(opnum, &numbers(handle, arguments));
        let mut from = Decoder::new(&results);
        let context = from.u32().expect("a context");
        let mut names = Vec::new();
        if from.pointer().expect("a pointer") {
            let count = from.u32().expect("a count");
            from.pointer().expect("a pointer");
            from.u32().expect("a count");
            (0..count).for_each(|_| _ = (from.u32().expect("a RID"), from.unicode().expect("a valid name")));
            names = (0..count).map(|_| from.string().expect("its text")).collect();
        }
        (context, names, status(&results))
    }
}

pub(super) const OWN: &str = "S-1-5-21-1-2-3";
const BUILTIN: &str = "S-1-5-32";

#[test]
fn lists_of_users_are_sent_in_parts_that_continue() {
    let mut samr = Samr::as_alice();
    let domain = samr.domain(OWN);
    let mut part = |context, filter, length| {
        let (next, names, status) =
            samr.enumerate(opnum::SAMR_ENUMERATE_USERS_IN_DOMAIN, &domain, &[context, filter, length]);
        (next, names.join(" "), status)
    };
    assert_eq!(part(0, 0, u32::MAX), (3, "alice bob carol".into(), Status::SUCCESS));
    // At least one entry is returned, whatever the size limit.
    assert_eq!(part(0, 0, 0), (1, "alice".into(), Status::MORE_ENTRIES));
    assert_eq!(part(1, 0, 1), (2, "bob".into(), Status::MORE_ENTRIES));
    assert_eq!(part(2, 0, 1), (3, "carol".into(), Status::SUCCESS));
    // In arbitrary order, and beyond the end.
    assert_eq!(part(1, 0, u32::MAX), (3, "bob carol".into(), Status::SUCCESS));
    assert_eq!(part(77, 0, u32::MAX), (77, String::new(), Status::SUCCESS));
    // Disabled accounts and machine accounts.
    assert_eq!(part(0, 1, u32::MAX), (1, "carol".into(), Status::SUCCESS));
    assert_eq!(part(0, 0x80, u32::MAX), (0, String::new(), Status::SUCCESS));
}

#[test]
fn every_domain_has_its_groups() {
    let mut samr = Samr::as_alice();
    let (own, builtin) = (samr.domain(OWN), samr.domain(BUILTIN));
    let mut list = |opnum, domain| samr.enumerate(opnum, domain, &[0, u32::MAX]).1.join(" ");
    assert_eq!(list(opnum::SAMR_ENUMERATE_GROUPS_IN_DOMAIN, &own), "None");
    assert_eq!(list(opnum::SAMR_ENUMERATE_ALIASES_IN_DOMAIN, &own), "");
    assert_eq!(list(opnum::SAMR_ENUMERATE_GROUPS_IN_DOMAIN, &builtin), "");
    assert!(list(opnum::SAMR_ENUMERATE_ALIASES_IN_DOMAIN, &builtin).starts_with("Administrators Users Guests"));
}

#[test]
fn a_handle_is_valid_for_its_object_and_rights() {
    let mut samr = Samr::as_alice();
    let (own, builtin) = (samr.domain(OWN), samr.domain(BUILTIN));
    let mut open = |opnum, domain, rid| samr.open(opnum, &numbers(domain, &[0x0200_0000, rid]));
    let alice = open(opnum::SAMR_OPEN_USER, &own, 1000).expect("alice");
    assert_eq!(open(opnum::SAMR_OPEN_USER, &own, 77), Err(Status::NO_SUCH_USER));
    assert_eq!(open(opnum::SAMR_OPEN_USER, &own, 513), Err(Status::NO_SUCH_USER));
    assert_eq!(open(opnum::SAMR_OPEN_GROUP, &own, 1000), Err(Status::NO_SUCH_GROUP));
    assert_eq!(open(opnum::SAMR_OPEN_ALIAS, &own, 544), Err(Status::NO_SUCH_ALIAS));
    assert_eq!(open(opnum::SAMR_OPEN_USER, &alice, 1000), Err(Status::OBJECT_TYPE_MISMATCH));
    assert_eq!(open(opnum::SAMR_OPEN_USER, &[7; 20], 1000), Err(Status::INVALID_HANDLE));
    let everybody = open(opnum::SAMR_OPEN_GROUP, &own, 513).expect("all users");
    let admins = open(opnum::SAMR_OPEN_ALIAS, &builtin, 544).expect("administrators");
    for class in 1..40 {
        let is_answered = [1..=14, 16..=17, 20..=21].iter().any(|classes| classes.contains(&class));
        let expected = if is_answered { Status::SUCCESS } else { Status::INVALID_INFO_CLASS };
        assert_eq!(samr.status(opnum::SAMR_QUERY_INFORMATION_USER, &alice, &[class]), expected, "{class}");
    }
    for (opnum, good) in [
        (opnum::SAMR_QUERY_INFORMATION_USER_2, &alice),
        (opnum::SAMR_GET_GROUPS_FOR_USER, &alice),
        (opnum::SAMR_QUERY_INFORMATION_GROUP, &everybody),
        (opnum::SAMR_GET_MEMBERS_IN_GROUP, &everybody),
        (opnum::SAMR_QUERY_INFORMATION_ALIAS, &admins),
        (opnum::SAMR_GET_MEMBERS_IN_ALIAS, &admins),
    ] {
        for handle in [&alice, &everybody, &admins] {
            let expected = if handle == good { Status::SUCCESS } else { Status::OBJECT_TYPE_MISMATCH };
            assert_eq!(samr.status(opnum, handle, &[1]), expected, "{opnum}");
        }
    }
}

#[test]
fn no_information_class_contains_a_hash() {
    let mut samr = Samr::as_alice();
    let own = samr.domain(OWN);
    let alice = samr.open(opnum::SAMR_OPEN_USER, &numbers(&own, &[0, 1000])).expect("alice");
    let hash = proto::auth::ntlm::nt_hash(testing::PASSWORD);
    for class in 0..40 {
        let results = samr.0.call(opnum::SAMR_QUERY_INFORMATION_USER, &numbers(&alice, &[class]));
        assert!(!results.windows(16).any(|window| window == hash), "{class}");
    }
}

#[test]
fn anonymous_callers_cannot_list_users() {
    let mut policy = testing::policy();
    policy.restrict_anonymous = 0;
    let server = TestServer::with_policy(policy);
    let mut client = TestClient::new(&server);
    client.negotiate(proto::smb2::negotiate::SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on_anonymously(), Status::SUCCESS);
    let mut samr = Samr::of(client);
    let own = samr.domain(OWN);
    for (opnum, arguments) in [
        (opnum::SAMR_ENUMERATE_USERS_IN_DOMAIN, &[0, 0, u32::MAX][..]),
        (opnum::SAMR_ENUMERATE_GROUPS_IN_DOMAIN, &[0, u32::MAX]),
        (opnum::SAMR_ENUMERATE_ALIASES_IN_DOMAIN, &[0, u32::MAX]),
        (opnum::SAMR_QUERY_DISPLAY_INFORMATION, &[1, 0, 100, u32::MAX]),
        (opnum::SAMR_LOOKUP_IDS_IN_DOMAIN, &[1, 1000, 0, 1, 1000]),
        (opnum::SAMR_OPEN_USER, &[0, 1000]),
        (opnum::SAMR_OPEN_GROUP, &[0, 513]),
        (opnum::SAMR_QUERY_INFORMATION_DOMAIN, &[2]),
    ] {
        assert_eq!(samr.status(opnum, &own, arguments), Status::ACCESS_DENIED, "{opnum}");
    }
    // Password policies are accessible, because a password change needs them.
    assert_eq!(samr.status(opnum::SAMR_QUERY_INFORMATION_DOMAIN, &own, &[1]), Status::SUCCESS);
}

#[test]
fn a_handle_of_the_server_has_the_requested_rights() {
    let mut samr = Samr::as_alice();
    let connect = |access: u32| [0_u32.to_le_bytes(), access.to_le_bytes()].concat();
    // SHUTDOWN, an undefined right and a SACL are not for users who are not administrators.
    for refused in [0x2, 0x40, 0x0100_0000, 0x1000_0000] {
        assert_eq!(samr.open(opnum::SAMR_CONNECT_2, &connect(refused)), Err(Status::ACCESS_DENIED), "{refused:x}");
    }
    for (access, enumerates) in [(0, false), (0x20, false), (0x10, true), (0x0200_0000, true), (0x8000_0000, true)] {
        let server = samr.open(opnum::SAMR_CONNECT_2, &connect(access)).expect("the handle is granted");
        let expected = if enumerates { Status::SUCCESS } else { Status::ACCESS_DENIED };
        let found = samr.status(opnum::SAMR_ENUMERATE_DOMAINS_IN_SAM_SERVER, &server, &[0, u32::MAX]);
        assert_eq!(found, expected, "{access:x}");
    }
    // The calls that are refused to everybody.
    let own = samr.domain(OWN);
    for opnum in [opnum::SAMR_SET_SECURITY_OBJECT, opnum::SAMR_SET_MEMBER_ATTRIBUTES_OF_GROUP] {
        assert_eq!(samr.status(opnum, &own, &[0; 64]), Status::ACCESS_DENIED, "{opnum}");
    }
}
