//! QUERY_DIRECTORY ([MS-SMB2] 3.3.5.18, [MS-FSA] 2.1.5.6.3): the entries that match a pattern, and the cost of the
//! search.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::fscc::FileInformationClass;
use proto::smb2::FileId;
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::{Command, Header};
use proto::smb2::query_directory::{QueryDirectoryFlags as Flags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::status::Status;
use server::answer::block_on;
use server::environment::Environment;
use server::name::short::mangle;
use server::policy::Share;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script};
use server::vfs::{Access, Create, Lookup, LookupOptions, NewFile, RelPath, SetMetadata, SymlinkPolicy, Time};

const NONE: Flags = Flags(0);

/// Counts file system calls.
#[derive(Default)]
struct Counting(Mutex<HashMap<Operation, usize>>);

impl Script for Counting {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        *self.0.lock().entry(operation).or_default() += 1;
        Fault::default()
    }
}

impl Counting {
    fn take(&self, operation: Operation) -> usize {
        self.0.lock().remove(&operation).unwrap_or(0)
    }
}

struct Fixture {
    client: TestClient,
    server: TestServer,
    calls: Arc<Counting>,
}

fn fixture(configure: impl Fn(&mut Share)) -> Fixture {
    let calls = Arc::new(Counting::default());
    let script = calls.clone();
    let server = TestServer::builder().share(configure).wrap_volume(|volume| Faulty::new(volume, script)).start();
    Fixture { client: TestClient::logged_on(&server, "alice"), server, calls }
}

impl Fixture {
    /// Creates files owned by root.
    fn make(&self, names: &[&str], mode: u32) {
        for name in names {
            let path = RelPath::root().join(name.as_bytes()).expect("a valid name");
            let what = Create::File(Access { read: true, write: true });
            block_on(self.server.volume.create(&testing::root(), &path, NewFile::new(what, mode))).expect("a new file");
        }
    }

    fn root(&mut self) -> FileId {
        let root = self.client.open("", AccessMask::FILE_LIST_DIRECTORY);
        self.calls.0.lock().clear();
        root
    }

    /// Returns the names in one response.
    fn query(&mut self, file_id: FileId, pattern: &str, flags: Flags) -> Result<Vec<String>, Status> {
        let pattern = utf16_bytes(pattern);
        let query = QueryDirectoryRequest {
            file_information_class: FileInformationClass::NAMES.0,
            flags,
            file_id,
            file_name: &pattern,
            output_buffer_length: 4096,
            ..QueryDirectoryRequest::default()
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        if status(&response) != Status::SUCCESS {
            return Err(status(&response));
        }
        let buffer = QueryDirectoryResponse::decode(&response).expect("entries").buffer;
        // [MS-FSCC] 2.4.33: NextEntryOffset, FileIndex, FileNameLength, FileName.
        let number = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().expect("four")) as usize;
        let (mut names, mut at) = (Vec::new(), 0);
        loop {
            let name = &buffer[at + 12..at + 12 + number(at + 8)];
            let units: Vec<u16> = name.chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
            names.push(String::from_utf16(&units).expect("text"));
            match number(at) {
                0 => return Ok(names),
                next => at += next,
            }
        }
    }

    /// Checks the names that a new handle finds.
    #[track_caller]
    fn finds(&mut self, pattern: &str, expected: &[&str]) {
        let root = self.root();
        let mut found = self.query(root, pattern, NONE).unwrap_or_default();
        found.sort();
        assert_eq!(found, expected, "{pattern}");
        self.client.close(root);
    }

    /// Returns whether a new handle finds the name.
    fn finds_any(&mut self, name: &str) -> bool {
        let root = self.root();
        let found = self.query(root, name, NONE);
        self.client.close(root);
        assert!(found.is_ok() || found == Err(Status::NO_SUCH_FILE), "{found:?}");
        found.is_ok()
    }
}

#[test]
fn a_name_without_wildcards_is_looked_up() {
    let mut fixture = fixture(|_| {});
    let names: Vec<String> = (0..2000).map(|number| format!("File {number}")).collect();
    fixture.make(&names.iter().map(String::as_str).collect::<Vec<_>>(), 0o644);
    for (pattern, found) in [("File 7", true), ("fILE 1999", true), ("none", false)] {
        let root = fixture.root();
        match found {
            true => {
                let name = format!("File {}", &pattern[5..]);
                assert_eq!(fixture.query(root, pattern, NONE), Ok(vec![name]), "as it is on disk");
            }
            false => assert_eq!(fixture.query(root, pattern, NONE), Err(Status::NO_SUCH_FILE)),
        }
        assert_eq!(fixture.query(root, pattern, NONE), Err(Status::NO_MORE_FILES), "{pattern}: the second time");
        assert_eq!((fixture.calls.take(Operation::List), fixture.calls.take(Operation::Entry)), (0, 1), "{pattern}");
        let again = fixture.query(root, "", Flags::RESTART_SCANS | Flags::RETURN_SINGLE_ENTRY);
        assert_eq!(again.is_ok(), found, "{pattern}: from the start");
        assert_eq!((fixture.calls.take(Operation::List), fixture.calls.take(Operation::Entry)), (0, 1), "{pattern}");
        fixture.client.close(root);
    }
    // Nothing is cached of the previous content.
    let root = fixture.root();
    assert_eq!(fixture.query(root, "late", NONE), Err(Status::NO_SUCH_FILE));
    fixture.make(&["late"], 0o644);
    assert_eq!(fixture.query(root, "", Flags::RESTART_SCANS), Ok(vec!["late".into()]));
}

#[test]
fn wildcards_read_the_directory() {
    let mut fixture = fixture(|_| {});
    fixture.make(&["a", "ab", "a.b", "b"], 0o644);
    for (pattern, expected) in [
        ("a*", &["a", "a.b", "ab"][..]),
        ("a?", &["ab"]),
        ("a\"", &["a"]),
        ("<", &["a", "ab", "b"]),
        (">", &["a", "b"]),
    ] {
        let root = fixture.root();
        let mut found = fixture.query(root, pattern, NONE).expect("some match");
        found.retain(|name| name != "." && name != "..");
        found.sort();
        assert_eq!(found, expected, "{pattern}");
        assert!(fixture.calls.take(Operation::List) > 0, "{pattern}");
        fixture.client.close(root);
    }
}

#[test]
fn dots_are_entries_of_their_own() {
    let mut fixture = fixture(|_| {});
    fixture.make(&[".a", "a."], 0o644);
    fixture.finds(".", &["."]);
    fixture.finds("..", &[".."]);
    // The file that the name opens is found, and shown in a form that Windows can display.
    fixture.finds("a.", &["a\u{f029}"]);
    fixture.finds("a\u{f029}", &["a\u{f029}"]);
    fixture.finds(".A", &[".a"]);
}

#[test]
fn a_restart_may_use_another_pattern() {
    let mut fixture = fixture(|_| {});
    fixture.make(&["one", "two"], 0o644);
    let root = fixture.root();
    assert_eq!(fixture.query(root, "one", NONE), Ok(vec!["one".into()]));
    assert_eq!(fixture.query(root, "two", NONE), Err(Status::NO_MORE_FILES), "the pattern does not change");
    assert_eq!(fixture.query(root, "two", Flags::RESTART_SCANS), Ok(vec!["two".into()]));
    assert_eq!(fixture.query(root, "", Flags::RESTART_SCANS), Ok(vec!["two".into()]));
    // It is no longer the first query ([MS-FSA] 2.1.5.6.3), unless the directory is reopened.
    assert_eq!(fixture.query(root, "none", Flags::RESTART_SCANS), Err(Status::NO_MORE_FILES));
    assert_eq!(fixture.query(root, "none", Flags::REOPEN), Err(Status::NO_SUCH_FILE));
    assert_eq!(fixture.query(root, "*e", Flags::REOPEN), Ok(vec!["one".into()]));
    assert_eq!(fixture.query(root, "a|b", Flags::REOPEN), Err(Status::OBJECT_NAME_INVALID));
}

/// smbtorture's smb2.dir.fixed: a response that has space for the dots alone does not read the directory.
#[test]
fn files_created_after_the_dots_are_found() {
    let mut fixture = fixture(|_| {});
    let root = fixture.root();
    assert_eq!(fixture.query(root, "*", Flags::RETURN_SINGLE_ENTRY), Ok(vec![".".into()]));
    fixture.make(&["new"], 0o644);
    assert_eq!(fixture.query(root, "*", NONE), Ok(vec!["..".into(), "new".into()]));
}

#[test]
fn hidden_files_are_not_found_by_their_names() {
    let mut fixture = fixture(|share| {
        share.names.veto_files = vec!["secret*".into()];
        share.names.hide_unreadable = true;
        share.names.hide_special_files = true;
    });
    fixture.make(&["secret.txt", "SECRETS", "plain"], 0o644);
    fixture.make(&["private"], 0o600);
    fixture.make(&[".frevo-streams"], 0o644);
    for name in ["secret.txt", "SECRET.TXT", "secrets", "private", "PRIVATE", ".frevo-streams"] {
        fixture.finds(name, &[]);
    }
    fixture.finds("PLAIN", &["plain"]);
}

#[test]
fn files_that_cannot_be_written_are_hidden_on_request() {
    let mut by_mode = fixture(|share| share.names.hide_unwriteable_files = true);
    by_mode.make(&["readable"], 0o644);
    by_mode.make(&["writable", "Writable too"], 0o666);
    by_mode.make(&["only writable"], 0o622);
    let root = RelPath::root();
    let directory = NewFile::new(Create::Directory, 0o555);
    block_on(by_mode.server.volume.create(
        &testing::root(),
        &root.join(b"directory").expect("a valid name"),
        directory,
    ))
    .expect("the name is not in use");
    by_mode.calls.take(Operation::Lookup);
    for (name, shown) in
        [("readable", false), ("WRITABLE", true), ("writable too", true), ("only writable", true), ("directory", true)]
    {
        assert_eq!(by_mode.finds_any(name), shown, "{name}");
    }
    let root = by_mode.root();
    by_mode.calls.take(Operation::Lookup);
    let all = by_mode.query(root, "*", NONE).expect("entries");
    assert_eq!(all.len(), 6, "{all:?}");
    assert_eq!(by_mode.calls.take(Operation::Lookup), 0, "the metadata of the listing is enough");
    let mut both = fixture(|share| (share.names.hide_unwriteable_files, share.names.hide_unreadable) = (true, true));
    both.make(&["readable"], 0o644);
    both.make(&["writable"], 0o666);
    both.make(&["only writable"], 0o622);
    for (name, shown) in [("readable", false), ("writable", true), ("only writable", false)] {
        assert_eq!(both.finds_any(name), shown, "{name}");
    }
    let mut read_only = fixture(|share| (share.names.hide_unwriteable_files, share.access.read_only) = (true, true));
    read_only.make(&["writable"], 0o666);
    assert!(!read_only.finds_any("writable"), "nothing can be written");
}

#[test]
fn new_files_are_hidden_on_request() {
    let mut fixture = fixture(|share| share.names.hide_new_files_timeout = 3600);
    fixture.make(&["new", "old"], 0o666);
    let wrote = |fixture: &Fixture, name: &str, secs: i64| {
        let path = RelPath::root().join(name.as_bytes()).expect("a valid name");
        let now = fixture.server.clock.now();
        let modified = Some(Time { secs: now.secs + secs, ..now });
        let options = LookupOptions::exact(SymlinkPolicy::NONE);
        let Ok(Lookup::Found { node, .. }) = block_on(fixture.server.volume.lookup(&testing::root(), &path, options))
        else {
            panic!("{name} was created")
        };
        let set = SetMetadata { modified, ..SetMetadata::default() };
        block_on(node.set_metadata(&testing::root(), set)).expect("root has permission");
    };
    wrote(&fixture, "old", -7200);
    assert!(!fixture.finds_any("new") && fixture.finds_any("old"));
    wrote(&fixture, "new", -1800);
    assert!(!fixture.finds_any("new"), "it is not old enough");
    wrote(&fixture, "new", 3600);
    assert!(!fixture.finds_any("new"), "as in Samba, a time in the future is new");
    wrote(&fixture, "new", -7200);
    assert!(fixture.finds_any("new"));
    let root = fixture.root();
    let all = fixture.query(root, "*", NONE).expect("entries");
    assert!([".", ".."].iter().all(|dots| all.iter().any(|name| name == dots)), "{all:?}");
}

#[test]
fn case_matters_if_the_share_specifies_it() {
    let mut fixture = fixture(|share| share.names.case_sensitive = true);
    fixture.make(&["name", "NAME"], 0o644);
    fixture.finds("name", &["name"]);
    fixture.finds("NAME", &["NAME"]);
    fixture.finds("Name", &[]);
}

#[test]
fn short_names_match_if_the_share_has_them() {
    let long = "a long name.text";
    let short = mangle(long.as_bytes());
    let mut on = fixture(|share| share.names.mangled_names = true);
    on.make(&[long, "other name.text", "plain"], 0o644);
    on.finds(&short, &[long]);
    on.finds(&short.to_lowercase(), &[long]);
    on.finds(&format!("{}*", &short[..7]), &[long]);
    on.finds("ABCDEF~0.TEX", &[]);
    on.finds("PLAIN", &["plain"]);
    let mut off = fixture(|_| {});
    off.make(&[long], 0o644);
    off.finds(&short, &[]);
}

#[test]
fn a_long_search_lets_other_requests_run() {
    let mut fixture = fixture(|share| share.names.hide_unreadable = true);
    let names: Vec<String> = (0..2000).map(|number| format!("{number:04}{}", "a".repeat(200))).collect();
    fixture.make(&names.iter().map(String::as_str).collect::<Vec<_>>(), 0o644);
    let root = fixture.root();
    let pattern = utf16_bytes(&("*a".repeat(127) + "b"));
    let query = QueryDirectoryRequest {
        file_information_class: FileInformationClass::NAMES.0,
        file_id: root,
        file_name: &pattern,
        output_buffer_length: 4096,
        ..QueryDirectoryRequest::default()
    };
    let search = fixture.client.compose(Command::QUERY_DIRECTORY, |out| query.encode(out));
    let mut frames = fixture.client.send(&search);
    assert!(frames.iter().all(|frame| status(frame) == Status::PENDING), "the search is done in several steps");
    let echo = fixture.client.compose(Command::ECHO, |out| EchoRequest.encode(out));
    frames.extend(fixture.client.send(&echo));
    let answered = |frames: &[Vec<u8>], command| {
        let header = |frame: &Vec<u8>| Header::decode(frame).expect("a header");
        frames.iter().any(|frame| header(frame).command == command && status(frame) != Status::PENDING)
    };
    assert!(answered(&frames, Command::ECHO) && !answered(&frames, Command::QUERY_DIRECTORY));
    for _ in 0..1000 {
        frames.extend(fixture.client.proceed());
    }
    assert!(answered(&frames, Command::QUERY_DIRECTORY));
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
