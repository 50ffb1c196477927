//! CHANGE_NOTIFY through the whole state machine ([MS-SMB2] 3.3.5.19): one client watches, another one makes changes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use proto::bytes::utf16_bytes;
use proto::dtyp::{Ace, AceBody, Acl, SecurityDescriptor, Sid};
use proto::fscc::{
    FileAction, FileAttributes, FileBasicInformation, FileDispositionInformation, FileEndOfFileInformation,
    FileInformationClass, FileLinkInformation, FileNotifyInformation, FileRenameInformation,
};
use proto::smb2::cancel::CancelRequest;
use proto::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse, CompletionFilter};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::{Command, Header};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType, SecurityInformation};
use proto::status::Status;
use server::answer::block_on;
use server::policy::{Limits, Policy, Share};
use server::testing::{self, TestClient, TestServer, chain, status};
use server::vfs::SetMetadata;

const ALL: CompletionFilter = CompletionFilter(0xfff);

/// A client that watches the directory `dir`, and one that makes changes.
struct Fixture {
    server: TestServer,
    /// The server's background work, which is independent of connections.
    housekeeping: Pin<Box<dyn Future<Output = ()>>>,
    watcher: TestClient,
    other: TestClient,
    directory: FileId,
}

fn open(client: &mut TestClient, name: &str, change: impl FnOnce(&mut CreateRequest<'_>)) -> Result<FileId, Status> {
    let name = utf16_bytes(name);
    let mut create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: 0x0013_019f,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    change(&mut create);
    let response = client.request(Command::CREATE, |out| create.encode(out));
    CreateResponse::decode(&response).map(|response| response.file_id).map_err(|_| status(&response))
}

fn directory(create: &mut CreateRequest<'_>) {
    create.create_options = CreateOptions::DIRECTORY_FILE;
}

fn set(client: &mut TestClient, file_id: FileId, class: FileInformationClass, buffer: &[u8]) -> Status {
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        additional_information: SecurityInformation::NONE.0,
        file_id,
        buffer,
    };
    status(&client.request(Command::SET_INFO, |out| request.encode(out)))
}

fn encoded(encode: impl FnOnce(&mut proto::bytes::Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut proto::bytes::Writer::new(&mut bytes));
    bytes
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(testing::policy())
    }

    fn with(policy: Policy) -> Fixture {
        let server = TestServer::with_policy(policy);
        let mut watcher = TestClient::logged_on(&server, "alice");
        let directory = open(&mut watcher, "dir", directory).expect("the directory can be created");
        let other = TestClient::logged_on(&server, "alice");
        let scavenged = Arc::clone(&server);
        let housekeeping = Box::pin(async move { scavenged.scavenge().await });
        Fixture { server, housekeeping, watcher, other, directory }
    }

    /// Returns a [`Fixture`] in which bob makes changes, and alice watches the root of a share with these parameters.
    fn of_two(change: impl FnOnce(&mut Share)) -> Fixture {
        let mut policy = testing::policy();
        change(policy.shares.get_mut("share").map(Arc::make_mut).expect("the share"));
        let mut fixture = Fixture::with(policy);
        fixture.other = TestClient::logged_on(&fixture.server, "bob");
        fixture.directory = open(&mut fixture.watcher, "", directory).expect("the root can be opened");
        fixture
    }

    /// Completes the pending access checks.
    fn settle(&mut self) {
        for _ in 0..100 {
            assert!(self.housekeeping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }

    /// Changes permissions as a local program would.
    fn set_mode(&self, path: &str, mode: u32) {
        let node = testing::volume::node(&self.server.volume, &path.replace('\\', "/"));
        let set = SetMetadata { mode: Some(mode), ..SetMetadata::default() };
        block_on(node.set_metadata(&testing::root(), set)).expect("root has permission");
    }

    fn make(&mut self, path: &str) {
        let made = open(&mut self.other, path, |_| {}).expect("a file can be created");
        self.other.close(made);
    }

    fn message(&mut self, change: impl FnOnce(&mut ChangeNotifyRequest)) -> Vec<u8> {
        let mut notify = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::WATCH_TREE,
            output_buffer_length: 4096,
            file_id: self.directory,
            completion_filter: ALL,
        };
        change(&mut notify);
        self.watcher.compose(Command::CHANGE_NOTIFY, |out| notify.encode(out))
    }

    /// Sends a request and returns its first response.
    fn ask(&mut self, change: impl FnOnce(&mut ChangeNotifyRequest)) -> Vec<u8> {
        let message = self.message(change);
        self.watcher.send(&message).pop().expect("every request is answered at once, if only by an interim response")
    }

    fn cancel(&mut self, message_id: u64) -> Vec<Vec<u8>> {
        let mut cancel = self.watcher.header(Command::CANCEL);
        self.watcher.next_message -= 1;
        cancel.message_id = message_id;
        let mut message = Vec::new();
        let mut out = proto::bytes::Writer::new(&mut message);
        cancel.encode(&mut out);
        CancelRequest.encode(&mut out);
        self.watcher.send(&message)
    }

    /// Starts the watch without leaving a request pending.
    fn watch(&mut self, change: impl FnOnce(&mut ChangeNotifyRequest)) {
        assert_eq!(status(&self.ask(change)), Status::PENDING);
        self.cancel(self.watcher.next_message - 1);
    }

    /// Returns the changes since the last call: `+name` and so on.
    fn seen(&mut self) -> Vec<String> {
        self.settle();
        let response = self.ask(|_| {});
        match status(&response) {
            Status::SUCCESS => changes(&response),
            Status::PENDING => {
                self.cancel(self.watcher.next_message - 1);
                Vec::new()
            }
            other => vec![other.to_string()],
        }
    }
}

fn changes(response: &[u8]) -> Vec<String> {
    let response = ChangeNotifyResponse::decode(response).expect("a well-formed response with changes");
    let shown = |change: FileNotifyInformation<'_>| {
        let units: Vec<_> = change.file_name.chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
        let sign = match change.action {
            FileAction::ADDED => '+',
            FileAction::REMOVED => '-',
            FileAction::MODIFIED => '!',
            FileAction::RENAMED_OLD_NAME => '<',
            FileAction::RENAMED_NEW_NAME => '>',
            other => return format!("{}{}", other.0, String::from_utf16_lossy(&units)),
        };
        format!("{sign}{}", String::from_utf16_lossy(&units))
    };
    let list = FileNotifyInformation::list(response.buffer);
    list.map(|change| shown(change.expect("a well-formed change"))).collect()
}

/// Runs `act` with a new file `dir\f` and checks the reports of a watch with `filter`.
#[track_caller]
fn check(filter: CompletionFilter, expected: &[&str], act: impl FnOnce(&mut TestClient, FileId)) {
    let mut fixture = Fixture::new();
    let file = open(&mut fixture.other, r"dir\f", |_| {}).expect("the file can be created");
    fixture.watch(|notify| notify.completion_filter = filter);
    act(&mut fixture.other, file);
    assert_eq!(fixture.seen(), expected);
}

fn rename(client: &mut TestClient, file: FileId, to: &str, replace: bool) {
    let name = utf16_bytes(to);
    let rename = FileRenameInformation { replace_if_exists: replace, root_directory: 0, file_name: &name };
    let buffer = encoded(|out| rename.encode(out));
    assert_eq!(set(client, file, FileInformationClass::RENAME, &buffer), Status::SUCCESS);
}

fn write(client: &mut TestClient, file_id: FileId) {
    let write = WriteRequest { file_id, length: 7, buffer: b"content", ..WriteRequest::default() };
    assert_eq!(status(&client.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
}

#[test]
fn names() {
    check(ALL, &["+sub", r"+sub\f"], |client, _| {
        open(client, r"dir\sub", directory).expect("a directory can be created");
        open(client, r"dir\sub\f", |_| {}).expect("a file can be created");
    });
    check(CompletionFilter::FILE_NAME, &["<f", ">g"], |client, file| rename(client, file, r"dir\g", false));
    check(CompletionFilter::FILE_NAME, &["-f"], |client, file| rename(client, file, "g", false));
    check(CompletionFilter::DIR_NAME, &[], |client, file| rename(client, file, "g", false));
    check(CompletionFilter::FILE_NAME, &["+l"], |client, file| {
        let name = utf16_bytes(r"dir\l");
        let link = FileLinkInformation { replace_if_exists: false, root_directory: 0, file_name: &name };
        let buffer = encoded(|out| link.encode(out));
        assert_eq!(set(client, file, FileInformationClass::LINK, &buffer), Status::SUCCESS);
    });
}

#[test]
fn a_name_that_becomes_another_file() {
    check(CompletionFilter::FILE_NAME | CompletionFilter::SIZE, &["+g", "-f", "!g"], |client, file| {
        let other = open(client, r"dir\g", |_| {}).expect("a file can be created");
        client.close(other);
        rename(client, file, r"dir\g", true);
    });
}

/// [MS-FSA] 2.1.5.5, phase 5: changes of the file by a rename are reported when it is closed.
#[test]
fn a_renamed_file_is_modified_when_it_is_closed() {
    check(CompletionFilter::ATTRIBUTES, &[], |client, file| rename(client, file, r"dir\g", false));
    check(CompletionFilter::ATTRIBUTES, &["!g"], |client, file| {
        rename(client, file, r"dir\g", false);
        client.close(file);
    });
}

#[test]
fn content_and_metadata() {
    let size = encoded(|out| FileEndOfFileInformation { end_of_file: 3 }.encode(out));
    let attributes =
        FileBasicInformation { file_attributes: FileAttributes::HIDDEN, ..FileBasicInformation::default() };
    let attributes = encoded(|out| attributes.encode(out));
    let others = CompletionFilter(ALL.0 & !CompletionFilter::SIZE.0 & !CompletionFilter::LAST_WRITE.0);
    for filter in [CompletionFilter::SIZE, CompletionFilter::LAST_WRITE] {
        check(filter, &["!f"], |client, file| (0..3).for_each(|_| write(client, file)));
        check(filter, &["!f"], |client, file| {
            assert_eq!(set(client, file, FileInformationClass::END_OF_FILE, &size), Status::SUCCESS);
        });
    }
    check(others, &[], |client, file| {
        write(client, file);
        client.close(file);
    });
    check(CompletionFilter::ATTRIBUTES, &["!f"], |client, file| {
        assert_eq!(set(client, file, FileInformationClass::BASIC, &attributes), Status::SUCCESS);
    });
    check(CompletionFilter::CREATION, &[], |client, file| {
        assert_eq!(set(client, file, FileInformationClass::BASIC, &attributes), Status::SUCCESS);
    });
    check(CompletionFilter::SIZE, &["!f"], |client, _| {
        open(client, r"dir\f", |create| create.create_disposition = CreateDisposition::OVERWRITE).expect("overwritten");
    });
}

/// The name is removed with the last close, not when deletion is requested.
#[test]
fn deletion() {
    let delete = encoded(|out| FileDispositionInformation { delete_pending: true }.encode(out));
    check(ALL, &[], |client, file| {
        assert_eq!(set(client, file, FileInformationClass::DISPOSITION, &delete), Status::SUCCESS);
    });
    check(ALL, &["-f"], |client, file| {
        assert_eq!(set(client, file, FileInformationClass::DISPOSITION, &delete), Status::SUCCESS);
        client.close(file);
    });
}

#[test]
fn a_waiting_request_is_answered_by_the_next_change() {
    let mut fixture = Fixture::new();
    assert_eq!(status(&fixture.ask(|_| {})), Status::PENDING);
    assert_eq!(status(&fixture.ask(|_| {})), Status::PENDING);
    for name in ["a", "b"] {
        open(&mut fixture.other, &format!(r"dir\{name}"), |_| {}).expect("a file can be created");
        let frames = fixture.watcher.proceed();
        let told: Vec<_> = frames.iter().map(|frame| (status(frame), changes(frame))).collect();
        assert_eq!(told, [(Status::SUCCESS, vec![format!("+{name}")])]);
    }
}

#[test]
fn how_a_waiting_request_ends() {
    fn request(
        fixture: &mut Fixture,
        command: Command,
        encode: impl FnOnce(&mut proto::bytes::Writer<'_>),
    ) -> Vec<Vec<u8>> {
        let message = fixture.watcher.compose(command, encode);
        fixture.watcher.send(&message)
    }
    type End = fn(&mut Fixture) -> Vec<Vec<u8>>;
    let ends: [(&str, Status, End); 6] = [
        ("closed", Status::NOTIFY_CLEANUP, |fixture| {
            let close = CloseRequest { flags: CloseFlags::NONE, file_id: fixture.directory };
            request(fixture, Command::CLOSE, |out| close.encode(out))
        }),
        ("disconnected", Status::NOTIFY_CLEANUP, |fixture| {
            request(fixture, Command::TREE_DISCONNECT, |out| TreeDisconnectRequest.encode(out))
        }),
        ("logged off", Status::NOTIFY_CLEANUP, |fixture| {
            request(fixture, Command::LOGOFF, |out| LogoffRequest.encode(out))
        }),
        ("cancelled", Status::CANCELLED, |fixture| fixture.cancel(fixture.watcher.next_message - 1)),
        ("to be deleted", Status::DELETE_PENDING, |fixture| {
            let file = open(&mut fixture.other, "dir", directory).expect("the directory can be opened");
            let delete = encoded(|out| FileDispositionInformation { delete_pending: true }.encode(out));
            assert_eq!(set(&mut fixture.other, file, FileInformationClass::DISPOSITION, &delete), Status::SUCCESS);
            Vec::new()
        }),
        ("to be deleted by a close", Status::DELETE_PENDING, |fixture| {
            let delete = CreateOptions::DIRECTORY_FILE | CreateOptions::DELETE_ON_CLOSE;
            let file = open(&mut fixture.other, "dir", |create| create.create_options = delete);
            fixture.other.close(file.expect("the directory can be opened"));
            Vec::new()
        }),
    ];
    for (how, expected, end) in ends {
        let mut fixture = Fixture::new();
        assert_eq!(status(&fixture.ask(|_| {})), Status::PENDING, "{how}");
        let id = fixture.watcher.next_message - 1;
        let mut frames = end(&mut fixture);
        frames.extend(fixture.watcher.proceed());
        let is_ours = |frame: &&Vec<u8>| Header::decode(frame).is_ok_and(|header| header.message_id == id);
        assert_eq!(frames.iter().filter(is_ours).map(|frame| status(frame)).collect::<Vec<_>>(), [expected], "{how}");
    }
}

#[test]
fn requests_that_are_refused() {
    let mut fixture = Fixture::new();
    let file = open(&mut fixture.watcher, r"dir\f", |_| {}).expect("the file can be created");
    let blind = open(&mut fixture.watcher, "dir", |create| {
        directory(create);
        create.desired_access = 0x80;
    });
    let blind = blind.expect("the directory can be opened");
    assert_eq!(status(&fixture.ask(|notify| notify.file_id = file)), Status::INVALID_PARAMETER);
    assert_eq!(status(&fixture.ask(|notify| notify.file_id = blind)), Status::ACCESS_DENIED);
    assert_eq!(status(&fixture.ask(|notify| notify.output_buffer_length = u32::MAX)), Status::INVALID_PARAMETER);
    assert_eq!(status(&fixture.ask(|notify| notify.output_buffer_length = 65537)), Status::INVALID_PARAMETER);
    let requests = [fixture.message(|_| {}), fixture.message(|_| {})];
    let frames = fixture.watcher.send(&chain(&requests, false));
    assert_eq!(frames.iter().map(|frame| status(frame)).collect::<Vec<_>>(), [Status::INTERNAL_ERROR, Status::PENDING]);

    let mut fixture = Fixture::with(Policy { change_notify: false, ..testing::policy() });
    assert_eq!(status(&fixture.ask(|_| {})), Status::NOT_IMPLEMENTED);

    let limits = Limits { watches: 2, ..Limits::default() };
    let mut fixture = Fixture::with(Policy { limits, ..testing::policy() });
    let second = open(&mut fixture.watcher, "dir", directory).expect("the directory can be opened");
    fixture.watch(|_| {});
    assert_eq!(status(&fixture.ask(|notify| notify.file_id = second)), Status::INSUFFICIENT_RESOURCES);
    fixture.watcher.close(fixture.directory);
    assert_eq!(status(&fixture.ask(|notify| notify.file_id = second)), Status::PENDING);
}

#[test]
fn the_first_request_of_a_handle_decides() {
    let mut fixture = Fixture::new();
    fixture.watch(|notify| {
        notify.completion_filter = CompletionFilter::FILE_NAME;
        notify.flags = ChangeNotifyFlags::NONE;
        notify.output_buffer_length = 20;
    });
    for name in [r"dir\sub", r"dir\sub\sub"] {
        open(&mut fixture.other, name, directory).expect("a directory can be created");
    }
    open(&mut fixture.other, r"dir\sub\f", |_| {}).expect("a file can be created");
    assert_eq!(fixture.seen(), [""; 0]);
    open(&mut fixture.other, r"dir\f", |_| {}).expect("a file can be created");
    assert_eq!(fixture.seen(), ["+f"]);
    for name in [r"dir\g", r"dir\h"] {
        open(&mut fixture.other, name, |_| {}).expect("a file can be created");
    }
    assert_eq!(fixture.seen(), [Status::NOTIFY_ENUM_DIR.to_string()]);
    assert_eq!(fixture.seen(), [""; 0]);
}

/// A stream has its own filter bits and actions, and its name is `file:stream` ([MS-FSA] 2.1.4.1).
#[test]
fn streams() {
    let streams = CompletionFilter::STREAM_NAME | CompletionFilter::STREAM_SIZE | CompletionFilter::STREAM_WRITE;
    let delete = encoded(|out| FileDispositionInformation { delete_pending: true }.encode(out));
    let live = |client: &mut TestClient| {
        let stream = open(client, r"dir\f:s", |_| {}).expect("a stream can be created");
        write(client, stream);
        assert_eq!(set(client, stream, FileInformationClass::DISPOSITION, &delete), Status::SUCCESS);
        client.close(stream);
    };
    check(streams, &["6f:s", "8f:s", "7f:s"], |client, _| live(client));
    let files = CompletionFilter(ALL.0 & !streams.0);
    check(files, &[], |client, _| live(client));
}

/// A user who watches the whole share must not learn the names of another user's files.
#[test]
fn a_watcher_gets_no_names_in_directories_that_they_may_not_list() {
    for honor in [true, false] {
        let mut fixture = Fixture::of_two(|share| share.names.honor_change_notify_privilege = honor);
        fixture.watch(|_| {});
        open(&mut fixture.other, "bobs", directory).expect("a directory can be created");
        fixture.set_mode("bobs", 0o700);
        fixture.make(r"bobs\dismissal of alice.doc");
        open(&mut fixture.other, r"bobs\deep", directory).expect("a directory can be created");
        fixture.make(r"bobs\deep\another");
        fixture.make("public");
        let secrets = [r"+bobs\dismissal of alice.doc", r"+bobs\deep", r"+bobs\deep\another"];
        let secrets = if honor { &[][..] } else { &secrets };
        assert_eq!(fixture.seen(), [&["+bobs"], secrets, &["+public"]].concat(), "{honor}");
    }
}

/// Search permission alone is not enough to learn names, and list permission alone is not enough to learn the names
/// below.
#[test]
fn a_watcher_must_be_able_to_list_and_search_each_directory_on_the_way() {
    for (mode, expected) in [(0o755, 2), (0o711, 0), (0o744, 0), (0o700, 0)] {
        let mut fixture = Fixture::of_two(|_| {});
        open(&mut fixture.other, "a", directory).expect("a directory can be created");
        open(&mut fixture.other, r"a\b", directory).expect("a directory can be created");
        fixture.set_mode("a", mode);
        fixture.watch(|_| {});
        fixture.make(r"a\b\f");
        fixture.make(r"a\f");
        assert_eq!(fixture.seen().len(), expected, "{mode:o}");
    }
}

#[test]
fn a_watcher_gets_changes_in_order_while_a_directory_is_checked() {
    let mut fixture = Fixture::of_two(|_| {});
    let made = open(&mut fixture.other, "d", directory).expect("a directory can be created");
    fixture.other.close(made);
    assert_eq!(status(&fixture.ask(|_| {})), Status::PENDING);
    fixture.make(r"d\f");
    fixture.make("g");
    let file = open(&mut fixture.other, r"d\f", |create| create.desired_access |= 0x1_0000).expect("the file exists");
    rename(&mut fixture.other, file, r"d\h", false);
    assert!(fixture.watcher.proceed().is_empty(), "no change is reported unchecked");
    fixture.settle();
    assert_eq!(fixture.watcher.proceed().iter().flat_map(|frame| changes(frame)).collect::<Vec<_>>(), [r"+d\f"]);
    assert_eq!(fixture.seen(), ["+g", r"<d\f", r">d\h"]);
}

#[test]
fn changed_permissions_apply() {
    let mut fixture = Fixture::of_two(|share| share.acls.stored = Some(testing::stored_acls()));
    fixture.watch(|_| {});
    let held = open(&mut fixture.other, "d", |create| {
        directory(create);
        create.desired_access = 0x000e_019f;
    });
    let held = held.expect("a directory can be created");
    fixture.make(r"d\first");
    assert_eq!(fixture.seen(), ["+d", r"+d\first"]);
    // A change by a client takes effect at once.
    let parts = SecurityInformation::DACL;
    let before = fixture.other.security(held, parts);
    let is_known = |ace: &Ace| !matches!(&ace.body, AceBody::Trustee { sid, .. } if *sid == Sid::EVERYONE);
    let aces =
        before.dacl.clone().expect("the descriptor has a DACL").into_aces().into_iter().filter(is_known).collect();
    let own = SecurityDescriptor { dacl: Acl::new(Acl::REVISION, aces), ..before.clone() };
    fixture.other.set_security(held, parts, &own);
    fixture.make(r"d\second");
    assert_eq!(fixture.seen(), ["!d"]);
    fixture.other.set_security(held, parts, &before);
    fixture.make(r"d\third");
    assert_eq!(fixture.seen(), ["!d", r"+d\third"]);
}

/// The queue of pending checks is limited. A client whose changes exceed it is told to read the directory again.
#[test]
fn changes_waiting_for_a_check_are_bounded() {
    let mut fixture = Fixture::of_two(|_| {});
    open(&mut fixture.other, "d", directory).expect("a directory can be created");
    fixture.watch(|_| {});
    for number in 0..400 {
        fixture.make(&format!(r"d\{number}{}", "long".repeat(50)));
    }
    assert_eq!(fixture.seen(), [Status::NOTIFY_ENUM_DIR.to_string()]);
}

/// Paths in a volume are not those of this host, whatever the paths of the shares are.
#[test]
fn watches_see_only_changes_in_the_same_storage() {
    let shares = [("host", None), ("host-srv", None), ("v", Some("v")), ("v-srv", Some("v")), ("w", Some("w"))];
    let mut policy = testing::policy();
    policy.kernel_change_notify = false;
    let writable = (*policy.shares["share"]).clone();
    for (name, volume) in shares {
        let path = if name.ends_with("srv") { "/srv" } else { "/" };
        let storage = volume.map(testing::gluster).unwrap_or_default();
        let share = Share { name: name.to_owned(), path: path.into(), storage, ..writable.clone() };
        policy.shares.insert(name.to_owned(), Arc::new(share));
    }
    let mut fixture = Fixture::with(policy);
    // All shares have the same files here. The access check of a watch looks up the directory.
    open(&mut fixture.other, "srv", directory).expect("a directory can be created");
    for (watched, _) in shares {
        assert_eq!(fixture.watcher.tree_connect(watched), Status::SUCCESS);
        fixture.directory = open(&mut fixture.watcher, "", directory).expect("the root can be opened");
        fixture.watch(|_| {});
        for (changed, _) in shares {
            assert_eq!(fixture.other.tree_connect(changed), Status::SUCCESS);
            let delete = |create: &mut CreateRequest<'_>| create.create_options = CreateOptions::DELETE_ON_CLOSE;
            let made = open(&mut fixture.other, "f", delete).expect("a file can be created");
            fixture.other.close(made);
            let seen = fixture.seen();
            let expected: &[&str] = match (watched, changed) {
                _ if watched == changed => &["+f", "-f"],
                ("host", "host-srv") | ("v", "v-srv") => &[r"+srv\f", r"-srv\f"],
                _ => &[],
            };
            assert_eq!(seen, expected, "{changed} seen through {watched}");
        }
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
