use proto::rpc::enumeration::error;
use proto::rpc::ndr::{ContextHandle, Decoder, Encoder};
use proto::rpc::svcctl::{opnum, rights};

use crate::policy::{Policy, UserPattern};
use crate::rpc::tests::client::PipeClient;
use crate::rpc::tests::lists::last;
use crate::testing::{TestClient, TestServer};

/// A server that alice administrates.
fn server() -> TestServer {
    let configure = |policy: &mut Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
    TestServer::builder().configure(configure).start()
}

struct Manager(PipeClient);

impl Manager {
    fn of(server: &TestServer, user: &str) -> Manager {
        Manager(PipeClient::new(TestClient::logged_on(server, user), "svcctl"))
    }

    fn opened(results: &[u8]) -> Result<ContextHandle, u32> {
        match last(results) {
            error::SUCCESS => Ok(Decoder::new(results).handle().expect("a handle")),
            status => Err(status),
        }
    }

    fn open(&mut self, database: Option<&str>, desired: u32) -> Result<ContextHandle, u32> {
        let mut out = Encoder::default();
        out.null();
        match database {
            Some(name) => {
                out.pointer();
                out.string(name);
            }
            None => out.null(),
        }
        out.u32(desired);
        Manager::opened(&self.0.call(opnum::R_OPEN_SC_MANAGER_W, &out.into_bytes()))
    }

    fn service(&mut self, manager: &ContextHandle, name: &str, desired: u32) -> Result<ContextHandle, u32> {
        Manager::opened(&self.0.call(opnum::R_OPEN_SERVICE_W, &named(manager, name, desired)))
    }

    /// Executes a call with a handle and numbers, and returns its results.
    fn call(&mut self, opnum: u16, handle: &ContextHandle, numbers: &[u32]) -> Vec<u8> {
        let mut out = Encoder::default();
        out.array(4, handle);
        numbers.iter().for_each(|number| out.u32(*number));
        self.0.call(opnum, &out.into_bytes())
    }
}

fn named(handle: &ContextHandle, name: &str, number: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.string(name);
    out.u32(number);
    out.into_bytes()
}

/// Returns the text at an offset of a buffer.
fn text(buffer: &[u8], at: usize) -> String {
    let units = buffer[at..].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<_>>())
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[test]
fn services_are_listed_and_described() {
    let server = server();
    let mut bob = Manager::of(&server, "bob");
    let manager = bob.open(Some("servicesactive"), rights::SC_MANAGER_ENUMERATE_SERVICE).expect("the manager");
    assert_eq!(bob.open(Some("ServicesFailed"), 0), Err(error::DATABASE_DOES_NOT_EXIST));
    let sizes = bob.call(opnum::R_ENUM_SERVICES_STATUS_W, &manager, &[0x30, 3, 0, 0]);
    assert_eq!((number(&sizes, 8), last(&sizes)), (0, error::MORE_DATA));
    let size = number(&sizes, 4);
    let results = bob.call(opnum::R_ENUM_SERVICES_STATUS_W, &manager, &[0x30, 3, size, 0]);
    assert_eq!(last(&results), error::SUCCESS);
    let buffer = &results[4..4 + size as usize];
    let listed: Vec<(String, u32)> =
        (0..5).map(|at| (text(buffer, number(buffer, at * 36) as usize), number(buffer, at * 36 + 12))).collect();
    let expected = [("LanmanServer", 4), ("NETLOGON", 1), ("RemoteRegistry", 4), ("Spooler", 1), ("WINS", 1)];
    assert_eq!(listed, expected.map(|(name, state)| (name.to_owned(), state)));
    let running = bob.call(opnum::R_ENUM_SERVICES_STATUS_EX_W, &manager, &[0, 0x30, 1, 4096, 0, 0]);
    assert_eq!((number(&running, 4 + 4096 + 4), last(&running)), (2, error::SUCCESS));
    let unknown = bob.call(opnum::R_ENUM_SERVICES_STATUS_EX_W, &manager, &[1, 0x30, 1, 4096, 0, 0]);
    assert_eq!(last(&unknown), error::INVALID_LEVEL);

    let service = bob.service(&manager, "lanmanserver", rights::SERVICE_QUERY_STATUS | rights::SERVICE_QUERY_CONFIG);
    let service = service.expect("the service");
    assert_eq!(bob.service(&manager, "none", 1), Err(error::SERVICE_DOES_NOT_EXIST));
    let status = bob.call(opnum::R_QUERY_SERVICE_STATUS, &service, &[]);
    assert_eq!((number(&status, 4), last(&status)), (4, error::SUCCESS));
    for (size, expected) in [(35, error::INSUFFICIENT_BUFFER), (36, error::SUCCESS)] {
        let status = bob.call(opnum::R_QUERY_SERVICE_STATUS_EX, &service, &[0, size]);
        assert_eq!((number(&status, status.len() - 8), last(&status)), (36, expected));
    }
    let config = bob.call(opnum::R_QUERY_SERVICE_CONFIG_W, &service, &[0]);
    let needed = number(&config, config.len() - 8);
    assert_eq!(last(&config), error::INSUFFICIENT_BUFFER);
    assert_eq!(last(&bob.call(opnum::R_QUERY_SERVICE_CONFIG_W, &service, &[needed])), error::SUCCESS);
    let description = bob.call(opnum::R_QUERY_SERVICE_CONFIG_2_W, &service, &[1, 1024]);
    assert!(text(&description, 8).starts_with("Shares files"), "{}", text(&description, 8));
    assert_eq!(last(&bob.call(opnum::R_QUERY_SERVICE_CONFIG_2_W, &service, &[99, 1024])), error::INVALID_LEVEL);

    for (call, name, found) in [
        (opnum::R_GET_SERVICE_DISPLAY_NAME_W, "spooler", "Print Spooler"),
        (opnum::R_GET_SERVICE_KEY_NAME_W, "print spooler", "Spooler"),
    ] {
        let results = bob.0.call(call, &named(&manager, name, 100));
        assert_eq!((Decoder::new(&results).string(), last(&results)), (Ok(found.into()), error::SUCCESS));
        assert_eq!(last(&bob.0.call(call, &named(&manager, name, 3))), error::INSUFFICIENT_BUFFER);
        assert_eq!(last(&bob.0.call(call, &named(&manager, "none", 3))), error::SERVICE_DOES_NOT_EXIST);
    }
    assert_eq!(last(&bob.call(opnum::R_CLOSE_SERVICE_HANDLE, &service, &[])), error::SUCCESS);
    assert_eq!(last(&bob.call(opnum::R_QUERY_SERVICE_STATUS, &service, &[])), error::INVALID_HANDLE);
}

#[test]
fn services_cannot_be_changed_and_only_administrators_may_lock_the_database() {
    let server = server();
    for (user, all) in [("alice", true), ("bob", false)] {
        let mut pipe = Manager::of(&server, user);
        let refused = (!all).then_some(error::ACCESS_DENIED);
        assert_eq!(pipe.open(None, rights::SC_MANAGER_ALL_ACCESS).err(), refused, "{user}");
        let manager = pipe.open(None, 0x0200_0000).expect("the manager");
        assert_eq!(pipe.service(&manager, "Spooler", rights::SERVICE_ALL_ACCESS).err(), refused, "{user}");
        let service = pipe.service(&manager, "Spooler", 0x0200_0000).expect("the service");
        for call in [
            opnum::R_START_SERVICE_W,
            opnum::R_DELETE_SERVICE,
            opnum::R_CREATE_SERVICE_W,
            opnum::R_CHANGE_SERVICE_CONFIG_W,
            opnum::R_SET_SERVICE_OBJECT_SECURITY,
        ] {
            assert_eq!(last(&pipe.call(call, &service, &[])), error::ACCESS_DENIED, "{user} {call}");
        }
        assert_eq!(last(&pipe.call(opnum::R_CONTROL_SERVICE, &service, &[1])), error::ACCESS_DENIED);
        assert_eq!(last(&pipe.call(opnum::R_CONTROL_SERVICE, &service, &[4])), error::SERVICE_NOT_ACTIVE);
        assert_eq!(last(&pipe.call(opnum::R_ENUM_DEPENDENT_SERVICES_W, &service, &[3, 0])), error::SUCCESS);
        let security = pipe.call(opnum::R_QUERY_SERVICE_OBJECT_SECURITY, &service, &[7, 1024]);
        assert_eq!(last(&security), error::SUCCESS);
        assert_eq!(
            last(&pipe.call(opnum::R_QUERY_SERVICE_OBJECT_SECURITY, &manager, &[8, 1024])),
            error::ACCESS_DENIED
        );

        assert_eq!(last(&pipe.call(opnum::R_QUERY_SERVICE_LOCK_STATUS_W, &manager, &[64])), error::SUCCESS);
        let locked = pipe.call(opnum::R_LOCK_SERVICE_DATABASE, &manager, &[]);
        assert_eq!(last(&locked), if all { error::SUCCESS } else { error::ACCESS_DENIED });
        if let Ok(lock) = Manager::opened(&locked) {
            assert_eq!(last(&pipe.call(opnum::R_UNLOCK_SERVICE_DATABASE, &lock, &[])), error::SUCCESS);
            assert_eq!(last(&pipe.call(opnum::R_UNLOCK_SERVICE_DATABASE, &lock, &[])), error::INVALID_SERVICE_LOCK);
        }
    }
}
