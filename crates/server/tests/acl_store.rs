//! `frevo:acl store`: which descriptors synthesized from POSIX ACLs are stored, and that storing them affects nothing
//! but the attribute.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use proto::bytes::utf16_bytes;
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, FileTime, SecurityDescriptor, Sid};
use proto::smb2::SecurityInformation;
use proto::smb2::create::{CreateDisposition, CreateRequest};
use proto::smb2::header::Command;
use proto::status::Status;
use server::acl::model::posix_acl;
use server::acl::model::posix_acl::{Entry, PosixAcl, Tag};
use server::acl::ntacl;
use server::acl::ntacl::Condition;
use server::answer::block_on;
use server::environment::Environment;
use server::policy::{AclStore, Entries, Share};
use server::state::Server;
use server::testing::{self, TestClient, TestServer};
use server::vfs::faulty::{Fault, Faulty, Operation, Script, Wait};
use server::vfs::memory::Options;
use server::vfs::{Access, Create, Errno, NewFile, Node, RelPath, SERVER, SetMetadata, SetXattr, Time, Vfs};

const ATTRIBUTE: &str = "security.NTACL";
const PARTS: SecurityInformation = SecurityInformation(7);

/// Number of entries of the files' ACLs; each file is named by its own.
const LENGTHS: [u32; 5] = [3, 4, 5, 6, 12];

/// A volume with a file for each of [`LENGTHS`], and the configuration of a server on it.
struct Fixture {
    plain: Arc<dyn Vfs>,
    seen: Arc<dyn Vfs>,
    share: Share,
}

impl Fixture {
    fn new(store: Entries) -> Fixture {
        let environment: Arc<dyn Environment> = Arc::new(testing::ManualClock::ticking());
        let options = Options { mode: 0o777, lists: true, ..Options::default() };
        let plain = testing::volume::new(environment, options);
        let mut share = Share::clone(&testing::policy().shares["share"]);
        share.acls.stored = Some(testing::stored_acls());
        share.acls.acl_store = AclStore::Said(store);
        let fixture = Fixture { seen: plain.clone(), plain, share };
        for length in LENGTHS {
            fixture.make(&length.to_string(), Create::File(Access::default()));
            fixture.put_list(&length.to_string(), posix_acl::ACCESS, length);
        }
        fixture
    }

    /// Like [`Fixture::new`], with a file system controlled by `script`.
    fn through(script: impl Script + 'static) -> Fixture {
        let fixture = Fixture::new(Entries::ALL);
        let seen = Arc::new(Faulty::new(fixture.plain.clone(), Arc::new(script)));
        Fixture { seen, ..fixture }
    }

    /// Returns a new server without cached state, and alice logged on to it.
    fn start(&self) -> (TestServer, TestClient) {
        let mut policy = testing::policy();
        policy.shares.insert("share".into(), Arc::new(self.share.clone()));
        let server = TestServer::builder().policy(policy).volume(self.seen.clone()).start();
        // Long after the files changed, because a descriptor is not cached for a change time that may repeat.
        server.advance_seconds(1_000);
        let alice = TestClient::logged_on(&server, "alice");
        (server, alice)
    }

    fn make(&self, name: &str, what: Create) {
        let path = RelPath::root().join(name.as_bytes()).expect("a valid name");
        block_on(self.plain.create(&testing::root(), &path, NewFile::new(what, 0o644))).expect("root has permission");
    }

    fn node(&self, name: &str) -> Arc<dyn Node> {
        testing::volume::node(&self.plain, name)
    }

    fn put_list(&self, name: &str, attribute: &str, length: u32) {
        if length > 3 {
            block_on(self.node(name).set_xattr(
                &testing::root(),
                attribute,
                Some(list(length).encode()),
                SetXattr::Any,
            ))
            .expect("root has permission");
        }
    }

    fn attribute(&self, name: &str) -> Option<Vec<u8>> {
        block_on(self.node(name).get_xattr(&testing::root(), ATTRIBUTE)).expect("root has permission")
    }

    fn stored(&self) -> Vec<u32> {
        LENGTHS.into_iter().filter(|length| self.attribute(&length.to_string()).is_some()).collect()
    }
}

/// Returns a POSIX ACL that lets every user read.
fn list(length: u32) -> PosixAcl {
    let own = [(Tag::Owner, 6), (Tag::OwningGroup, 4), (Tag::Other, 4), (Tag::Mask, 7)];
    let named = (0..length - 4).map(|index| (Tag::User(2000 + index), 6));
    PosixAcl::new(own.into_iter().chain(named).map(|(tag, permissions)| Entry { tag, permissions }).collect())
}

/// Returns the descriptor that a client sees.
fn look(client: &mut TestClient, name: &str) -> SecurityDescriptor {
    let file_id = client.open(name, A::READ_CONTROL);
    let descriptor = client.security(file_id, PARTS);
    client.close(file_id);
    descriptor
}

fn look_at_all(client: &mut TestClient) -> Vec<SecurityDescriptor> {
    LENGTHS.iter().map(|length| look(client, &length.to_string())).collect()
}

fn misses(server: &Server) -> u64 {
    server::status::snapshot(server, Time::default()).acl_cache.misses
}

#[track_caller]
fn check(store: Entries, expected: &[u32]) {
    let before = look_at_all(&mut Fixture::new(Entries::NONE).start().1);
    let fixture = Fixture::new(store.clone());
    let (server, mut alice) = fixture.start();
    assert_eq!(look_at_all(&mut alice), before, "{store}");
    assert_eq!(fixture.stored(), expected, "{store}");
    let known = misses(&server);
    assert_eq!(look_at_all(&mut alice), before, "{store}: again");
    assert_eq!(misses(&server), known, "{store}: the stored descriptor is cached under its new change time");
    assert_eq!(look_at_all(&mut fixture.start().1), before, "{store}: read by another server");
    assert_eq!(fixture.stored(), expected, "{store}: nothing else is stored");
}

#[test]
fn storing_depends_on_the_number_of_entries() {
    check(Entries::NONE, &[]);
    check(Entries::ALL, &LENGTHS);
    check(Entries::at_least(6), &[6, 12]);
    check(Entries::between(4, 6), &[4, 5, 6]);
}

#[test]
fn unmeasured_auto_stores_nothing() {
    let mut fixture = Fixture::new(Entries::ALL);
    fixture.share.acls.acl_store = AclStore::Auto(None);
    look_at_all(&mut fixture.start().1);
    assert_eq!(fixture.stored(), []);
    fixture.share.acls.acl_store = AclStore::Auto(Some(Entries::at_least(12)));
    look_at_all(&mut fixture.start().1);
    assert_eq!(fixture.stored(), [12]);
}

#[test]
fn both_acls_of_a_directory_are_counted() {
    for (default, stored) in [(4, false), (5, true)] {
        let fixture = Fixture::new(Entries::at_least(9));
        fixture.make("directory", Create::Directory);
        fixture.put_list("directory", posix_acl::ACCESS, 4);
        fixture.put_list("directory", posix_acl::DEFAULT, default);
        look(&mut fixture.start().1, "directory");
        assert_eq!(fixture.attribute("directory").is_some(), stored, "{default}");
    }
}

#[test]
fn a_stored_descriptor_is_valid_while_the_acls_are_unchanged() {
    let fixture = Fixture::new(Entries::ALL);
    look_at_all(&mut fixture.start().1);
    for length in LENGTHS {
        let value = fixture.attribute(&length.to_string()).expect("the attribute is stored");
        let stored = ntacl::decode(&value).expect("our own").expect("a known version");
        let access = if length == 3 { PosixAcl::of_mode(0o644) } else { list(length) };
        let metadata = block_on(fixture.node(&length.to_string()).metadata(&SERVER)).expect("the file has metadata");
        assert_eq!(stored.condition, Condition::SystemHash(ntacl::system_hash(&metadata, &access, None)));
    }
}

#[test]
fn acls_changed_later_apply_and_the_stored_descriptor_stays() {
    let fixture = Fixture::new(Entries::ALL);
    let (_server, mut alice) = fixture.start();
    let before = look(&mut alice, "6");
    let value = fixture.attribute("6");
    fixture.put_list("6", posix_acl::ACCESS, 8);
    let changed = look(&mut alice, "6");
    assert_eq!(changed.dacl.as_ref().map_or(0, |dacl| dacl.aces().len()), 7, "the mask is not a rule");
    assert_eq!(fixture.attribute("6"), value);
    fixture.put_list("6", posix_acl::ACCESS, 6);
    assert_eq!(look(&mut alice, "6"), before, "after changing back, the stored descriptor is valid again");
}

#[test]
fn nothing_is_stored_on_shares_that_are_read_only_or_store_no_acls() {
    let mut fixture = Fixture::new(Entries::ALL);
    fixture.share.access.read_only = true;
    look_at_all(&mut fixture.start().1);
    assert_eq!(fixture.stored(), []);
    fixture.share.access.read_only = false;
    fixture.share.acls.stored = None;
    look_at_all(&mut fixture.start().1);
    assert_eq!(fixture.stored(), []);
}

#[test]
fn a_client_that_sets_one_always_stores() {
    let fixture = Fixture::new(Entries::NONE);
    let (_server, mut alice) = fixture.start();
    block_on(
        fixture.node("3").set_metadata(&testing::root(), SetMetadata { uid: Some(1000), ..SetMetadata::default() }),
    )
    .expect("root has permission");
    let file_id = alice.open("3", A::WRITE_DAC);
    let rule = Ace::allow(Sid::unix_user(1000), A::FILE_ALL_ACCESS, AceFlags::NONE);
    let descriptor = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Acl::new(Acl::REVISION, vec![rule]),
        ..SecurityDescriptor::default()
    };
    assert_eq!(alice.set_security(file_id, SecurityInformation::DACL, &descriptor), Status::SUCCESS);
    assert_eq!(fixture.stored(), [3]);
}

/// Runs a function just before the attribute is written, and makes the write fail.
struct AtWriting {
    error: Option<Errno>,
    before: Mutex<Box<dyn FnMut() + Send>>,
}

impl Script for AtWriting {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        if operation != Operation::SetXattr {
            return Fault::default();
        }
        (*self.before.lock())();
        Fault { error: self.error, ..Fault::default() }
    }
}

#[test]
fn a_failed_write_of_a_descriptor_harms_no_client() {
    let expected = look_at_all(&mut Fixture::new(Entries::NONE).start().1);
    for error in [Errno::NOSPC, Errno::ROFS, Errno::PERM, Errno::DQUOT, Errno::OPNOTSUPP, Errno::TOOBIG, Errno::IO] {
        let fixture = Fixture::through(AtWriting { error: Some(error), before: Mutex::new(Box::new(|| {})) });
        let (server, mut alice) = fixture.start();
        assert_eq!(look_at_all(&mut alice), expected, "{error:?}");
        assert_eq!(fixture.stored(), [], "{error:?}");
        let known = misses(&server);
        assert_eq!(look_at_all(&mut alice), expected, "{error:?}");
        assert_eq!(misses(&server), known, "{error:?}: the descriptor is cached nevertheless");
    }
}

/// Returns a fixture in which `act` runs between the conversion and the write.
fn between(act: impl Fn(&Fixture) + Send + 'static) -> Fixture {
    let slot: Arc<Mutex<Option<Fixture>>> = Arc::default();
    let own = slot.clone();
    let before = move || {
        if let Some(fixture) = own.lock().take() {
            act(&fixture);
        }
    };
    let fixture = Fixture::through(AtWriting { error: None, before: Mutex::new(Box::new(before)) });
    let beside = Fixture { plain: fixture.plain.clone(), seen: fixture.plain.clone(), share: fixture.share.clone() };
    *slot.lock() = Some(beside);
    fixture
}

#[test]
fn a_descriptor_stored_concurrently_stays() {
    let theirs = || ntacl::encode(&SecurityDescriptor::default(), [7; 32], FileTime(7));
    let fixture = between(move |fixture| {
        block_on(fixture.node("6").set_xattr(&testing::root(), ATTRIBUTE, Some(theirs()), SetXattr::Any))
            .expect("root has permission");
    });
    look(&mut fixture.start().1, "6");
    assert_eq!(fixture.attribute("6"), Some(theirs()));
}

#[test]
fn acls_changed_concurrently_apply() {
    let fixture = between(|fixture| fixture.put_list("6", posix_acl::ACCESS, 8));
    let (_server, mut alice) = fixture.start();
    look(&mut alice, "6");
    assert!(fixture.attribute("6").is_some(), "the change came too late to be detected");
    let shown = look(&mut alice, "6");
    assert_eq!(shown.dacl.map_or(0, |dacl| dacl.aces().len()), 7, "the ACEs of the new ACL");
}

/// Holds calls of one kind until they are released.
struct Holding {
    kind: Operation,
    held: Arc<AtomicBool>,
}

impl Script for Holding {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let held = self.held.clone();
        let wait = poll_fn(move |_| if held.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(()) });
        let before = (operation == self.kind).then(|| -> Wait { Box::pin(wait) });
        Fault { before, ..Fault::default() }
    }
}

/// If the client disconnects while a descriptor is being written, the descriptor is still in the cache. One that only
/// waited is stored after another client's request. The answers are the same in both cases, and nothing is held.
#[test]
fn a_closed_connection_leaves_no_conversions_behind() {
    let expected = look_at_all(&mut Fixture::new(Entries::NONE).start().1);
    for (kind, stored) in [(Operation::SetXattr, &[][..]), (Operation::Open, &LENGTHS[..])] {
        let held = Arc::new(AtomicBool::new(true));
        let fixture = Fixture::through(Holding { kind, held: held.clone() });
        let (server, mut alice) = fixture.start();
        for length in LENGTHS {
            let name = utf16_bytes(&length.to_string());
            // The file is opened for data once alice's access to it is determined.
            let create = CreateRequest {
                desired_access: A::MAXIMUM_ALLOWED.0,
                create_disposition: CreateDisposition::OPEN,
                name: &name,
                ..CreateRequest::default()
            };
            let message = alice.compose(Command::CREATE, |out| create.encode(out));
            alice.send(&message);
        }
        alice.disconnect();
        assert_eq!(fixture.stored(), [], "{kind:?}");
        held.store(false, Ordering::Relaxed);
        let mut bob = TestClient::logged_on(&server, "bob");
        assert_eq!(look_at_all(&mut bob), expected, "{kind:?}");
        assert_eq!(fixture.stored(), stored, "{kind:?}");
        assert_eq!(look_at_all(&mut fixture.start().1), expected, "{kind:?}: according to the stored descriptor");
        bob.disconnect();
        let gone = Arc::downgrade(&server);
        drop(server);
        assert!(gone.upgrade().is_none(), "{kind:?}: a reference keeps the server alive");
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}

#[test]
fn the_suite_passes_on_coherent_storage() {
    testing::passes_on_coherent_storage();
}
