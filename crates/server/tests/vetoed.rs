//! `delete veto files = yes`: directories in which clients see nothing. Three shares show one directory: `veto` hides
//! and deletes names, `keep` only hides them, and `share` shows them.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{FileInformationClass as Class, FileRenameInformation};
use proto::smb2::FileId;
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::Command;
use proto::smb2::negotiate::SecurityMode;
use proto::smb2::query_info::InfoType;
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;
use server::answer::block_on;
use server::audit::{Destinations, Queue};
use server::policy::audit::{Audit, Destination, Operations};
use server::policy::recycle::Recycle;
use server::policy::stream_layout::Layout;
use server::policy::{MacPolicy, MacStreams, MetadataPlace, Policy, ResourcePlace, Share};
use server::testing::{self, PASSWORD, TestClient, TestServer, TestServerBuilder, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script, Wait};
use server::vfs::{Access, Create, Kind, Lookup, LookupOptions, NewFile, SymlinkPolicy, Vfs};

const DELETE: u32 = 0x0001_0081;
const READ: u32 = 0x81;

fn configure(policy: &mut Policy, change: impl FnOnce(&mut Share)) {
    let mut share = Share::clone(&policy.shares["share"]);
    share.names.veto_files = vec!["*.tmp".to_owned(), ".veto".to_owned()];
    share.name = "keep".to_owned();
    policy.shares.insert("keep".into(), share.clone().into());
    share.name = "veto".to_owned();
    share.names.delete_veto_files = true;
    change(&mut share);
    policy.shares.insert("veto".into(), share.into());
}

fn builder(change: impl FnOnce(&mut Share)) -> TestServerBuilder {
    TestServer::builder().configure(|policy| configure(policy, change))
}

fn server() -> TestServer {
    builder(|_| ()).start()
}

fn on(server: &TestServer, user: &str, share: &str) -> TestClient {
    let mut client = TestClient::new(server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on(user, PASSWORD, 0), Status::SUCCESS);
    assert_eq!(client.tree_connect(share), Status::SUCCESS);
    client
}

/// Creates directories, and a file with content for each path that does not end with a slash.
fn make(volume: &Arc<dyn Vfs>, paths: &[&str]) {
    for path in paths {
        let (name, create, mode) = match path.strip_suffix('/') {
            Some(name) => (name, Create::Directory, 0o777),
            None => (*path, Create::File(Access { read: true, write: true }), 0o666),
        };
        let made = volume.create(&testing::root(), &testing::volume::path(name), NewFile::new(create, mode));
        let node = block_on(made).expect("root may").node;
        if !path.ends_with('/') {
            block_on(node.write(&testing::root(), 0, Bytes::from_static(b"data").into(), false)).expect("space");
        }
    }
}

fn link(server: &TestServer, path: &str, target: &str) {
    let create = Create::Symlink { target: target.as_bytes().into(), replaces: None };
    server.create_locally(path, NewFile::new(create, 0o777));
}

fn exists(server: &TestServer, path: &str) -> bool {
    let options = LookupOptions::exact(SymlinkPolicy::NONE.to_last());
    let found = block_on(server.volume.lookup(&testing::root(), &testing::volume::path(path), options));
    matches!(found, Ok(Lookup::Found { .. }))
}

/// Removes a name locally.
fn unlink(server: &TestServer, path: &str, kind: Kind) {
    let root = testing::root();
    let id = block_on(testing::volume::node(&server.volume, path).metadata(&root)).expect("it exists").id;
    block_on(server.volume.unlink(&root, &testing::volume::path(path), id, kind)).expect("root may");
}

#[track_caller]
fn exist(server: &TestServer, paths: &[&str], expected: bool) {
    for path in paths {
        assert_eq!(exists(server, path), expected, "{path}");
    }
}

fn open(client: &mut TestClient, path: &str, access: u32, options: u32) -> Result<FileId, Status> {
    let name = utf16_bytes(path);
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN,
        create_options: CreateOptions(options),
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    match status(&response) {
        Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a well-formed message").file_id),
        failed => Err(failed),
    }
}

fn dispose(client: &mut TestClient, file_id: FileId) -> Status {
    let set = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: Class::DISPOSITION.0,
        additional_information: 0,
        file_id,
        buffer: &[1],
    };
    status(&client.request(Command::SET_INFO, |out| set.encode(out)))
}

/// Deletes a directory, and returns the response to the request for it.
fn delete(client: &mut TestClient, path: &str) -> Status {
    let directory = open(client, path, DELETE, 1).expect("it can be opened");
    let asked = dispose(client, directory);
    client.close(directory);
    asked
}

#[test]
fn vetoed_names_go_with_their_directory() {
    let server = server();
    let mut alice = on(&server, "alice", "veto");
    make(
        &server.volume,
        &["other/", "other/kept", "d/", "d/a.tmp", "d/B.TMP", "d/.veto/", "d/.veto/seen", "d/.veto/e/"],
    );
    make(&server.volume, &["d/.veto/e/f", "d/.veto/e/g.tmp", "d/empty.tmp/"]);
    link(&server, "d/link.tmp", "../other");
    link(&server, "d/dangling.tmp", "nowhere");
    link(&server, "d/.veto/link", "../../other");
    link(&server, "d/.veto/file", "../../other/kept");
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);
    exist(&server, &["other", "other/kept"], true);
    // By the option of CREATE.
    make(&server.volume, &["d/", "d/a.tmp"]);
    let directory = open(&mut alice, "d", DELETE, 0x1001).expect("it can be opened");
    alice.close(directory);
    exist(&server, &["d"], false);
}

#[test]
fn they_keep_their_directory_unless_it_is_configured() {
    let server = server();
    let mut alice = on(&server, "alice", "keep");
    make(&server.volume, &["d/", "d/a.tmp"]);
    assert_eq!(delete(&mut alice, "d"), Status::DIRECTORY_NOT_EMPTY);
    let directory = open(&mut alice, "d", DELETE, 0x1001).expect("it can be opened");
    alice.close(directory);
    exist(&server, &["d/a.tmp"], true);
}

#[test]
fn names_that_are_not_vetoed_keep_all() {
    let server = server();
    let mut alice = on(&server, "alice", "veto");
    for kept in ["d/file", "d/sub/", "d/a.tmp.not"] {
        make(&server.volume, &["d/", "d/a.tmp", "d/.veto/", "d/.veto/in", kept]);
        assert_eq!(delete(&mut alice, "d"), Status::DIRECTORY_NOT_EMPTY, "{kept}");
        let directory = open(&mut alice, "d", DELETE, 0x1001).expect("it can be opened");
        alice.close(directory);
        let kept = kept.trim_end_matches('/');
        exist(&server, &["d/a.tmp", "d/.veto/in", kept], true);
        unlink(&server, kept, if kept == "d/sub" { Kind::Directory } else { Kind::File });
        assert_eq!(delete(&mut alice, "d"), Status::SUCCESS, "{kept}");
        exist(&server, &["d"], false);
    }
    // Clients do not reach a link that leads nowhere, but it is not vetoed.
    make(&server.volume, &["d/", "d/a.tmp"]);
    link(&server, "d/dangling", "nowhere");
    assert_eq!(delete(&mut alice, "d"), Status::DIRECTORY_NOT_EMPTY);
    exist(&server, &["d/a.tmp", "d/dangling"], true);
}

#[test]
fn a_name_that_appears_before_the_last_close_keeps_all() {
    let server = server();
    let mut alice = on(&server, "alice", "veto");
    make(&server.volume, &["d/", "d/a.tmp"]);
    let directory = open(&mut alice, "d", DELETE, 1).expect("it can be opened");
    assert_eq!(dispose(&mut alice, directory), Status::SUCCESS);
    make(&server.volume, &["d/late"]);
    alice.close(directory);
    exist(&server, &["d/a.tmp", "d/late"], true);
}

#[test]
fn open_files_keep_all() {
    let server = server();
    let (mut alice, mut other) = (on(&server, "alice", "veto"), on(&server, "alice", "share"));
    make(&server.volume, &["d/", "d/a.tmp", "d/b.tmp", "d/.veto/", "d/.veto/in"]);
    for path in [r"d\b.tmp", r"d\.veto\in", r"d\.veto"] {
        let held = open(&mut other, path, READ, 0).expect("it is shown there");
        assert_eq!(delete(&mut alice, "d"), Status::DIRECTORY_NOT_EMPTY, "{path}");
        other.close(held);
        // It is opened between the request and the CLOSE.
        let directory = open(&mut alice, "d", DELETE, 1).expect("it can be opened");
        assert_eq!(dispose(&mut alice, directory), Status::SUCCESS, "{path}");
        let held = open(&mut other, path, READ, 0).expect("it is shown there");
        alice.close(directory);
        exist(&server, &["d/a.tmp", "d/b.tmp", "d/.veto/in"], true);
        other.close(held);
    }
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);
}

#[test]
fn what_the_user_may_not_delete_keeps_all() {
    let server = server();
    let mut bob = on(&server, "bob", "veto");
    make(&server.volume, &["d/", "d/a.tmp", "d/.veto/", "d/.veto/in"]);
    let set = |mode| {
        let set = server::vfs::SetMetadata { mode: Some(mode), ..Default::default() };
        let node = testing::volume::node(&server.volume, "d/.veto");
        block_on(node.set_metadata(&testing::root(), set)).expect("root may");
    };
    // Nothing in it may be removed; it may not be listed; in a sticky one, only own files may be removed.
    for mode in [0o555, 0o333, 0o1777] {
        set(mode);
        assert_eq!(delete(&mut bob, "d"), Status::DIRECTORY_NOT_EMPTY, "{mode:o}");
        exist(&server, &["d/a.tmp", "d/.veto/in"], true);
    }
    set(0o777);
    assert_eq!(delete(&mut bob, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);
}

#[test]
fn the_last_close_of_another_user_removes_nothing() {
    let server = server();
    let (mut alice, mut bob) = (on(&server, "alice", "veto"), on(&server, "bob", "veto"));
    make(&server.volume, &["d/", "d/a.tmp"]);
    let held = open(&mut bob, "d", READ, 1).expect("it can be opened");
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    bob.close(held);
    exist(&server, &["d/a.tmp"], true);
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);
}

#[test]
fn deep_and_large_directories_stay() {
    let server = server();
    let mut alice = on(&server, "alice", "veto");
    make(&server.volume, &["d/"]);
    let mut path = "d/.veto".to_owned();
    for _ in 0..32 {
        make(&server.volume, &[&format!("{path}/")]);
        path.push_str("/x");
    }
    make(&server.volume, &[&format!("{path}/")]);
    assert_eq!(delete(&mut alice, "d"), Status::DIRECTORY_NOT_EMPTY);
    exist(&server, &[&path], true);
    unlink(&server, &path, Kind::Directory);
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);

    make(&server.volume, &["d/", "d/.veto/"]);
    for number in 0..16_383 {
        server.create_locally(&format!("d/.veto/{number}"), NewFile::new(Create::Directory, 0o777));
    }
    make(&server.volume, &["d/last.tmp"]);
    assert_eq!(delete(&mut alice, "d"), Status::DIRECTORY_NOT_EMPTY);
    exist(&server, &["d/.veto/0", "d/.veto/16382", "d/last.tmp"], true);
    unlink(&server, "d/last.tmp", Kind::File);
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);
}

#[test]
fn removed_files_are_in_the_recycle_bin() {
    let recycle = |repository: &str| Recycle {
        repository: server::policy::Template::parse(repository).expect("no variables"),
        ..Recycle::default()
    };
    let server = builder(|share| share.recycle = Some(Arc::new(recycle(".recycle")))).start();
    let mut alice = on(&server, "alice", "veto");
    make(&server.volume, &["d/", "d/a.tmp", "d/.veto/", "d/.veto/in"]);
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);
    exist(&server, &[".recycle/a.tmp", ".recycle/in"], true);

    let server = builder(|share| share.recycle = Some(Arc::new(recycle("d/.veto")))).start();
    let mut alice = on(&server, "alice", "veto");
    make(&server.volume, &["d/", "d/.veto/", "d/.veto/deleted"]);
    assert_eq!(delete(&mut alice, "d"), Status::DIRECTORY_NOT_EMPTY);
    exist(&server, &["d/.veto/deleted"], true);
}

/// One queue for all destinations.
struct Lines(Arc<Queue>);

impl Destinations for Lines {
    fn queue(&self, _: &Destination) -> Arc<Queue> {
        Arc::clone(&self.0)
    }
}

#[test]
fn each_removal_is_recorded() {
    let lines = Arc::<Queue>::default();
    let audit = Audit { success: Operations::ALL, failure: Operations::ALL, ..Audit::default() };
    let builder = builder(|share| share.audit = Some(Arc::new(audit)));
    let server = builder.audit(Arc::new(Lines(Arc::clone(&lines)))).start();
    let mut alice = on(&server, "alice", "veto");
    make(&server.volume, &["d/", "d/.veto/", "d/.veto/in"]);
    assert_eq!(delete(&mut alice, "d"), Status::SUCCESS);
    let batch = lines.next(Duration::ZERO);
    let recorded: Vec<_> =
        batch.events.iter().map(ToString::to_string).filter(|line| line.contains("unlinkat")).collect();
    assert_eq!(recorded.len(), 3, "{recorded:?}");
    for (line, path) in recorded.iter().zip(["d/.veto/in", "d/.veto", "d"]) {
        assert!(line.contains("|ok|") && line.ends_with(path), "{line}");
    }
}

type Act = Box<dyn FnOnce(&Arc<dyn Vfs>) + Send>;

/// Acts, or waits for `gate`, before a call.
#[derive(Default)]
struct Interference {
    volume: Mutex<Option<Arc<dyn Vfs>>>,
    /// The operation, its number, and the action.
    acts: Mutex<Option<(Operation, u32, Act)>>,
    /// The operation that waits, and the number of those before it that do not.
    waits: Mutex<Option<(Operation, u32)>>,
    gate: Arc<AtomicBool>,
}

struct Interfering(Arc<Interference>);

impl Script for Interfering {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let Interfering(this) = self;
        let mut acts = this.acts.lock();
        if let Some((at, left, _)) = acts.as_mut()
            && *at == operation
        {
            if *left == 0 {
                let act = acts.take().map(|(_, _, act)| act);
                act.into_iter().zip(this.volume.lock().as_ref()).for_each(|(act, volume)| act(volume));
            } else {
                *left -= 1;
            }
        }
        let mut is_meant = false;
        if let Some((at, left)) = this.waits.lock().as_mut()
            && *at == operation
        {
            is_meant = *left == 0;
            *left = left.wrapping_sub(1);
        }
        let gate = Arc::clone(&this.gate);
        let wait = move || -> Wait {
            Box::pin(poll_fn(move |_| if gate.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }))
        };
        Fault { before: is_meant.then(wait), ..Fault::default() }
    }
}

fn interfered(builder: TestServerBuilder) -> (TestServer, Arc<Interference>) {
    let interference = Arc::<Interference>::default();
    let script = Arc::new(Interfering(Arc::clone(&interference)));
    let inner = Arc::clone(&interference);
    let wrap = move |volume: Arc<dyn Vfs>| {
        *inner.volume.lock() = Some(Arc::clone(&volume));
        Faulty::new(volume, script)
    };
    (builder.wrap_volume(wrap).start(), interference)
}

#[test]
fn names_that_appear_during_the_deletion_stay() {
    // Before each listing of the CLOSE, and before each removal.
    for (operation, number) in
        [(Operation::List, 0), (Operation::List, 1), (Operation::List, 2), (Operation::Unlink, 0)]
    {
        let (server, interference) = interfered(builder(|_| ()));
        let mut alice = on(&server, "alice", "veto");
        make(&server.volume, &["d/", "d/a.tmp"]);
        let directory = open(&mut alice, "d", DELETE, 1).expect("it can be opened");
        assert_eq!(dispose(&mut alice, directory), Status::SUCCESS);
        let act: Act = Box::new(|volume| make(volume, &["d/late"]));
        *interference.acts.lock() = Some((operation, number, act));
        alice.close(directory);
        assert!(interference.acts.lock().is_none(), "{operation:?} {number}");
        exist(&server, &["d/late"], true);
        // A name that has been examined before goes.
        exist(&server, &["d/a.tmp"], operation == Operation::List);
    }
}

#[test]
fn a_link_in_the_place_of_a_vetoed_directory_leads_nowhere() {
    for number in 0..8 {
        let (server, interference) = interfered(builder(|share| share.names.follow_symlinks = true));
        let mut alice = on(&server, "alice", "veto");
        make(&server.volume, &["other/", "other/in", "d/", "d/.veto/", "d/.veto/in"]);
        let directory = open(&mut alice, "d", DELETE, 1).expect("it can be opened");
        assert_eq!(dispose(&mut alice, directory), Status::SUCCESS);
        let act: Act = Box::new(|volume| {
            let root = testing::root();
            let id = |path| block_on(testing::volume::node(volume, path).metadata(&root)).expect("it exists").id;
            let [from, to] = ["d/.veto", "moved"].map(testing::volume::path);
            let renaming = server::vfs::RenameRequest::new(&from, id("d/.veto"), &to);
            block_on(volume.rename(&root, renaming)).expect("root may");
            let create = Create::Symlink { target: b"../other".as_slice().into(), replaces: None };
            block_on(volume.create(&root, &from, NewFile::new(create, 0o777))).expect("root may");
        });
        *interference.acts.lock() = Some((Operation::Entry, number, act));
        alice.close(directory);
        exist(&server, &["other/in"], true);
    }
}

#[test]
fn an_apple_double_file_follows_its_file_out_of_a_directory() {
    let (server, interference) = interfered(TestServer::builder().configure(|policy| {
        configure(policy, |share| {
            share.mac = Some(Arc::new(MacPolicy::default()));
            let mac = MacStreams { metadata: MetadataPlace::Netatalk, resource: ResourcePlace::File };
            share.streams = Some(Layout { mac: Some(mac), ..share.streams.take().unwrap_or_default() });
            share.names.veto_files = vec!["._*".to_owned()];
        });
    }));
    let (mut mac, mut other) = (on(&server, "alice", "veto"), on(&server, "alice", "veto"));
    make(&server.volume, &["d/", "d/f", "d/._f"]);
    let node = testing::volume::node(&server.volume, "d/._f");
    let node = block_on(node.open(&testing::root(), Access { read: true, write: true })).expect("root may");
    let double = proto::mac::apple_double::file();
    block_on(node.write(&testing::root(), 0, Bytes::from(double.to_vec()).into(), false)).expect("there is space");
    // An orphan alone is deleted, and a file of that kind whose file is there keeps all.
    assert_eq!(delete(&mut other, "d"), Status::DIRECTORY_NOT_EMPTY);
    let file = open(&mut mac, r"d\f", DELETE, 0).expect("it can be opened");
    *interference.waits.lock() = Some((Operation::Rename, 1));
    let name = utf16_bytes("g");
    let renaming = FileRenameInformation { replace_if_exists: false, root_directory: 0, file_name: &name };
    let mut buffer = Vec::new();
    renaming.encode(&mut Writer::new(&mut buffer));
    let (info_type, file_info_class) = (InfoType::FILE, Class::RENAME.0);
    let set = SetInfoRequest { info_type, file_info_class, additional_information: 0, file_id: file, buffer: &buffer };
    let rename = mac.compose(Command::SET_INFO, |out| set.encode(out));
    mac.post(&rename);
    let frames = mac.proceed();
    assert!(mac.is_waiting());
    exist(&server, &["d/f", "._g"], false);
    exist(&server, &["g", "d/._f"], true);
    assert_eq!(delete(&mut other, "d"), Status::SUCCESS);
    exist(&server, &["d/._f"], true);
    interference.gate.store(true, Ordering::Relaxed);
    assert_eq!(mac.finish(frames).map(|response| status(&response)), Some(Status::SUCCESS));
    mac.close(file);
    exist(&server, &["._g"], true);
    exist(&server, &["d/._f"], false);
    // One that belongs to no file goes, whatever it has.
    make(&server.volume, &["d/._gone"]);
    assert_eq!(delete(&mut other, "d"), Status::SUCCESS);
    exist(&server, &["d"], false);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
