use proto::rpc::enumeration::error;
use proto::rpc::ndr::{ContextHandle, Decoder, Encoder};
use proto::rpc::winreg::{opnum, rights};

use crate::policy::{Policy, UserPattern};
use crate::rpc::tests::client::PipeClient;
use crate::rpc::tests::lists::last;
use crate::testing::{TestClient, TestServer};

const MAXIMUM_ALLOWED: u32 = 0x0200_0000;

/// A server that alice administrates.
fn server() -> TestServer {
    let configure = |policy: &mut Policy| {
        policy.admin_users = vec![UserPattern::User("alice".into())];
        policy.server_string = "a server".into();
    };
    TestServer::builder().configure(configure).start()
}

struct Registry(PipeClient);

impl Registry {
    fn of(server: &TestServer, user: &str) -> Registry {
        Registry(PipeClient::new(TestClient::logged_on(server, user), "winreg"))
    }

    fn opened(results: &[u8]) -> Result<ContextHandle, u32> {
        match last(results) {
            error::SUCCESS => Ok(Decoder::new(results).handle().expect("a handle")),
            status => Err(status),
        }
    }

    fn root(&mut self, opnum: u16, desired: u32) -> Result<ContextHandle, u32> {
        let mut out = Encoder::default();
        out.null();
        out.u32(desired);
        Registry::opened(&self.0.call(opnum, &out.into_bytes()))
    }

    fn machine(&mut self) -> ContextHandle {
        self.root(opnum::OPEN_LOCAL_MACHINE, MAXIMUM_ALLOWED).expect("the handle is granted")
    }

    fn open(&mut self, below: &ContextHandle, path: &str, desired: u32) -> Result<ContextHandle, u32> {
        let mut out = with_name(below, path);
        out.u32(0);
        out.u32(desired);
        Registry::opened(&self.0.call(opnum::BASE_REG_OPEN_KEY, &out.into_bytes()))
    }

    /// Returns the name of a subkey.
    fn subkey(&mut self, key: &ContextHandle, index: u32, space: u16) -> Result<String, u32> {
        let mut out = Encoder::default();
        out.array(4, key);
        out.u32(index);
        empty_name(&mut out, space);
        out.null();
        out.null();
        let results = self.0.call(opnum::BASE_REG_ENUM_KEY, &out.into_bytes());
        if last(&results) != error::SUCCESS {
            return Err(last(&results));
        }
        let mut decoder = Decoder::new(&results);
        assert!(decoder.unicode().expect("a name"));
        Ok(decoder.string().expect("a text"))
    }

    /// Returns the type and the data of a value.
    fn value(&mut self, key: &ContextHandle, name: &str, size: u32) -> Result<(u32, Vec<u8>), u32> {
        let mut out = with_name(key, name);
        buffer(&mut out, size);
        let results = self.0.call(opnum::BASE_REG_QUERY_VALUE, &out.into_bytes());
        if last(&results) != error::SUCCESS {
            return Err(last(&results));
        }
        let mut decoder = Decoder::new(&results);
        let mut next = || decoder.u32().expect("a number");
        let (_, kind, _, _, _, length) = (next(), next(), next(), next(), next(), next());
        Ok((kind, decoder.bytes(length as usize).expect("data").to_vec()))
    }
}

/// Encodes a handle and a name.
fn with_name(key: &ContextHandle, name: &str) -> Encoder {
    let mut out = Encoder::default();
    out.array(4, key);
    let bytes = (name.encode_utf16().count() as u16 + 1) * 2;
    out.array(4, &bytes.to_le_bytes());
    out.u16(bytes);
    out.pointer();
    out.string(name);
    out
}

/// Encodes an empty name with space for another one.
fn empty_name(out: &mut Encoder, space: u16) {
    out.array(4, &[0, 0]);
    out.u16(space);
    out.pointer();
    [u32::from(space) / 2, 0, 0].iter().for_each(|number| out.u32(*number));
}

/// Encodes the pointers of a query with space for data of this size.
fn buffer(out: &mut Encoder, size: u32) {
    out.pointer();
    out.u32(0);
    out.pointer();
    [size, 0, 0].iter().for_each(|number| out.u32(*number));
    out.pointer();
    out.u32(size);
    out.pointer();
    out.u32(0);
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

#[test]
fn keys_are_walked_and_values_read() {
    let server = server();
    let mut bob = Registry::of(&server, "bob");
    let machine = bob.machine();
    assert_eq!(
        (bob.subkey(&machine, 0, 512), bob.subkey(&machine, 1, 512)),
        (Ok("SOFTWARE".into()), Ok("SYSTEM".into()))
    );
    assert_eq!(bob.subkey(&machine, 2, 512), Err(error::NO_MORE_ITEMS));
    assert_eq!(bob.subkey(&machine, 0, 16), Err(error::MORE_DATA));
    assert_eq!(bob.subkey(&machine, 0, 18), Ok("SOFTWARE".into()));
    let services = bob.open(&machine, r"System\CurrentControlSet\Services", rights::KEY_READ).expect("a key");
    let parameters = bob.open(&services, r"LanmanServer\Parameters", rights::KEY_READ).expect("a key");
    assert_eq!(bob.value(&parameters, "SRVCOMMENT", 100), Ok((1, utf16("a server"))));
    assert_eq!(bob.value(&parameters, "SMB1", 100), Ok((4, vec![0; 4])));
    assert_eq!(bob.value(&parameters, "srvcomment", 17), Err(error::MORE_DATA));
    assert_eq!(bob.value(&parameters, "none", 100), Err(error::FILE_NOT_FOUND));
    assert_eq!(bob.open(&services, "none", rights::KEY_READ), Err(error::FILE_NOT_FOUND));

    let mut out = Encoder::default();
    out.array(4, &parameters);
    out.u32(5);
    empty_name(&mut out, 64);
    buffer(&mut out, 64);
    let results = bob.0.call(opnum::BASE_REG_ENUM_VALUE, &out.into_bytes());
    let mut decoder = Decoder::new(&results);
    assert!(decoder.unicode().expect("a name"));
    assert_eq!((decoder.string(), last(&results)), (Ok("srvcomment".into()), error::SUCCESS));
    for (index, name, data, expected) in [(5, 20, 64, error::MORE_DATA), (5, 64, 4, error::MORE_DATA), (6, 64, 64, 259)]
    {
        let mut out = Encoder::default();
        out.array(4, &parameters);
        out.u32(index);
        empty_name(&mut out, name);
        buffer(&mut out, data);
        assert_eq!(last(&bob.0.call(opnum::BASE_REG_ENUM_VALUE, &out.into_bytes())), expected, "{index} {name} {data}");
    }

    let info = bob.0.call(opnum::BASE_REG_QUERY_INFO_KEY, &with_name(&parameters, "").into_bytes());
    let numbers: Vec<u32> =
        info[8..].chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes"))).collect();
    assert_eq!(numbers[..3], [0, 0, 0], "no subkeys");
    assert_eq!(numbers[3..6], [6, "RequireSecuritySignature".len() as u32 * 2, 18]);
    assert_eq!(last(&bob.0.call(opnum::BASE_REG_GET_VERSION, &parameters)), error::SUCCESS);
    assert_eq!(last(&bob.0.call(opnum::BASE_REG_FLUSH_KEY, &parameters)), error::SUCCESS);
    for size in [0, 1024] {
        let mut out = Encoder::default();
        out.array(4, &parameters);
        out.u32(7);
        out.null();
        out.u32(size);
        out.u32(0);
        let results = bob.0.call(opnum::BASE_REG_GET_KEY_SECURITY, &out.into_bytes());
        assert_eq!(last(&results), if size == 0 { error::INSUFFICIENT_BUFFER } else { error::SUCCESS });
    }
    assert_eq!(last(&bob.0.call(opnum::BASE_REG_CLOSE_KEY, &parameters)), error::SUCCESS);
    assert_eq!(last(&bob.0.call(opnum::BASE_REG_CLOSE_KEY, &parameters)), error::INVALID_HANDLE);
    assert_eq!(bob.value(&parameters, "SMB1", 100), Err(error::INVALID_HANDLE));
}

#[test]
fn nobody_changes_a_key_and_only_administrators_may_ask_to() {
    let server = server();
    for (user, all) in [("alice", true), ("bob", false)] {
        let mut registry = Registry::of(&server, user);
        let opened = registry.root(opnum::OPEN_LOCAL_MACHINE, rights::KEY_ALL_ACCESS);
        assert_eq!(opened.is_ok(), all, "{user}");
        let key = registry.machine();
        let opened = registry.open(&key, "SOFTWARE", rights::KEY_WRITE);
        assert_eq!(opened.err(), (!all).then_some(error::ACCESS_DENIED), "{user}");
        for call in [
            opnum::BASE_REG_CREATE_KEY,
            opnum::BASE_REG_DELETE_KEY,
            opnum::BASE_REG_DELETE_VALUE,
            opnum::BASE_REG_SET_VALUE,
            opnum::BASE_REG_SET_KEY_SECURITY,
        ] {
            let stub = with_name(&key, "SOFTWARE").into_bytes();
            assert_eq!(last(&registry.0.call(call, &stub)), error::ACCESS_DENIED, "{user} {call}");
        }
        assert_eq!(registry.root(opnum::OPEN_USERS, rights::KEY_READ).err(), None);
        assert_eq!(registry.root(opnum::OPEN_CURRENT_USER, rights::KEY_READ), Err(error::FILE_NOT_FOUND));
        let only = registry.root(opnum::OPEN_LOCAL_MACHINE, rights::KEY_QUERY_VALUE).expect("a handle");
        assert_eq!(registry.subkey(&only, 0, 512), Err(error::ACCESS_DENIED));
    }
}

#[test]
fn anonymous_users_open_no_key() {
    let server = TestServer::new();
    let mut client = TestClient::new(&server);
    client.negotiate(proto::smb2::negotiate::SecurityMode::SIGNING_ENABLED);
    client.log_on_anonymously();
    let mut registry = Registry(PipeClient::new(client, "winreg"));
    assert_eq!(registry.root(opnum::OPEN_LOCAL_MACHINE, rights::KEY_READ), Err(error::ACCESS_DENIED));
}
