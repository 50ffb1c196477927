//! The recycle bin: names and conditions of moved files, and the deletion of old ones by the server.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::Command;
use proto::status::Status;
use server::answer::block_on;
use server::name::glob::Globs;
use server::policy::recycle::Recycle;
use server::policy::{Policy, Share, Template};
use server::testing::{self, ManualClock, TestClient, TestServer, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script};
use server::vfs::{
    Access, Create, Errno, Lookup, LookupOptions, Metadata, NewFile, RenameRequest, SetMetadata, SymlinkPolicy,
};

const DAY: u64 = 86_400;

/// A server whose share has a recycle bin, and a client of it.
struct Fixture {
    server: TestServer,
    client: TestClient,
}

impl Fixture {
    fn new(recycle: Recycle) -> Fixture {
        let builder = TestServer::builder().clock(ManualClock::new());
        let server = builder.share(|share| share.recycle = Some(Arc::new(recycle))).start();
        let client = TestClient::logged_on(&server, "alice");
        Fixture { server, client }
    }

    /// As [`Fixture::new`], with renames that fail.
    fn failing(errno: Errno) -> Fixture {
        let builder = TestServer::builder().clock(ManualClock::new());
        let builder = builder.share(|share| share.recycle = Some(Arc::new(Recycle::default())));
        let server = builder.wrap_volume(move |volume| Faulty::new(volume, Arc::new(FailingRenames(errno)))).start();
        let client = TestClient::logged_on(&server, "alice");
        Fixture { server, client }
    }

    fn find(&self, path: &str) -> Option<Metadata> {
        let options = LookupOptions::exact(SymlinkPolicy::NONE);
        match block_on(self.server.volume.lookup(&testing::root(), &testing::volume::path(path), options)) {
            Ok(Lookup::Found { metadata, .. }) => Some(metadata),
            _ => None,
        }
    }

    #[track_caller]
    fn exist(&self, paths: &[&str]) {
        for path in paths {
            assert!(self.find(path).is_some(), "{path} is missing");
        }
    }

    #[track_caller]
    fn are_gone(&self, paths: &[&str]) {
        for path in paths {
            assert!(self.find(path).is_none(), "{path} exists");
        }
    }

    fn directory(&self, path: &str) {
        self.server.create_locally(path, NewFile::new(Create::Directory, 0o777));
    }

    /// Creates a file of `size` bytes.
    fn file(&self, path: &str, size: usize) {
        let new = NewFile::new(Create::File(Access { read: true, write: true }), 0o666);
        self.server.create_locally(path, new);
        let node = testing::volume::node(&self.server.volume, path);
        let node = block_on(node.open(&testing::root(), Access { read: true, write: true })).expect("root may");
        block_on(node.write(&testing::root(), 0, Bytes::from(vec![b'x'; size]).into(), false)).expect("there is space");
    }

    /// Deletes a file or directory as a client.
    fn delete(&mut self, path: &str) -> Status {
        let name = utf16_bytes(&path.replace('/', "\\"));
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: AccessMask::DELETE.0,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN,
            create_options: CreateOptions::DELETE_ON_CLOSE,
            name: &name,
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        let status = status(&response);
        if status == Status::SUCCESS {
            self.client.close(CreateResponse::decode(&response).expect("a response").file_id);
        }
        status
    }

    #[track_caller]
    fn delete_new(&mut self, path: &str, size: usize) {
        self.file(path, size);
        assert_eq!(self.delete(path), Status::SUCCESS, "{path}");
        self.are_gone(&[path]);
    }

    /// Lets the server delete what is old now.
    fn purge(&self) {
        let mut work = pin!(self.server.scavenge());
        for _ in 0..200 {
            assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            self.server.clock.advance(Duration::from_millis(60));
        }
    }

    /// Checks that the `count` files called `name` are purged, and that the purge pauses after at most 64 of them.
    #[track_caller]
    fn purges_in_steps(&self, count: usize, name: impl Fn(usize) -> String) {
        let left = || (0..count).filter(|number| self.find(&name(*number)).is_some()).count();
        let mut work = pin!(self.server.scavenge());
        let mut before = left();
        while before > 0 {
            assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let after = left();
            assert!(before - after <= 64, "{before} {after}");
            before = after;
            self.server.clock.advance(Duration::from_millis(60));
        }
    }
}

/// Fails all renames.
struct FailingRenames(Errno);

impl Script for FailingRenames {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        Fault { error: (operation == Operation::Rename).then_some(self.0), ..Fault::default() }
    }
}

#[test]
fn files_are_moved_with_their_directories_and_versions() {
    let recycle = Recycle {
        keep_tree: true,
        versions: true,
        no_versions: Globs::new(["*.doc"], true),
        directory_mode: 0o750,
        subdir_mode: 0o711,
        ..Recycle::default()
    };
    let mut fixture = Fixture::new(recycle);
    fixture.directory("d");
    fixture.directory("d/e");
    for size in 1..=4 {
        fixture.delete_new("d/e/a", size);
        fixture.delete_new("x.DOC", size);
    }
    fixture.exist(&[".recycle/d/e/a", ".recycle/d/e/Copy #1 of a", ".recycle/d/e/Copy #3 of a", ".recycle/x.DOC"]);
    fixture.are_gone(&[".recycle/d/e/Copy #4 of a", ".recycle/Copy #1 of x.DOC"]);
    let size = |path: &str| fixture.find(path).map(|metadata| metadata.size);
    assert_eq!((size(".recycle/d/e/a"), size(".recycle/d/e/Copy #3 of a")), (Some(1), Some(4)));
    assert_eq!(size(".recycle/x.DOC"), Some(4));
    let mode = |path: &str| fixture.find(path).map(|metadata| metadata.mode);
    assert_eq!((mode(".recycle"), mode(".recycle/d")), (Some(0o750), Some(0o711)));
    // The first free name is used again, a file in the bin is deleted, and so is a directory.
    assert_eq!(fixture.delete(".recycle/d/e/Copy #1 of a"), Status::SUCCESS);
    fixture.are_gone(&[".recycle/d/e/Copy #1 of a"]);
    fixture.delete_new("d/e/a", 9);
    assert_eq!(fixture.find(".recycle/d/e/Copy #1 of a").map(|metadata| metadata.size), Some(9));
    assert_eq!((fixture.delete("d/e"), fixture.delete("d")), (Status::SUCCESS, Status::SUCCESS));
    fixture.are_gone(&["d", ".recycle/d/d"]);
}

#[test]
fn names_of_many_copies_are_found() {
    let mut fixture = Fixture::new(Recycle { versions: true, ..Recycle::default() });
    fixture.delete_new("a", 1);
    for number in 1..=300 {
        fixture.file(&format!(".recycle/Copy #{number} of a"), 1);
    }
    for number in 301..=303 {
        fixture.delete_new("a", number);
        let copy = fixture.find(&format!(".recycle/Copy #{number} of a"));
        assert_eq!(copy.map(|copy| copy.size), Some(number as u64));
    }
}

#[test]
fn excluded_names_and_sizes_are_deleted() {
    let recycle = Recycle {
        exclude: Globs::new(["*.tmp"], true),
        exclude_dir: Globs::new(["cache*"], true),
        min_size: 3,
        max_size: 10,
        ..Recycle::default()
    };
    let mut fixture = Fixture::new(recycle);
    fixture.directory("Cache1");
    fixture.directory("Cache1/d");
    for (path, size, moved) in [
        ("a.TMP", 5, None),
        ("Cache1/d/b", 5, None),
        ("two", 2, None),
        ("three", 3, Some(".recycle/three")),
        ("ten", 10, Some(".recycle/ten")),
        ("eleven", 11, None),
    ] {
        fixture.delete_new(path, size);
        let name = path.rsplit('/').next().unwrap_or_default();
        assert_eq!(fixture.find(&format!(".recycle/{name}")).is_some(), moved.is_some(), "{path}");
    }
}

#[test]
fn without_permission_for_the_bin_files_are_deleted() {
    let mut fixture = Fixture::new(Recycle::default());
    fixture.server.create_locally(".recycle", NewFile::new(Create::Directory, 0o700));
    fixture.delete_new("a", 1);
    fixture.are_gone(&[".recycle/a"]);
    // A file has the name of the bin.
    let mut fixture = Fixture::new(Recycle::default());
    fixture.file(".recycle", 1);
    fixture.delete_new("a", 1);
    fixture.exist(&[".recycle"]);
}

#[test]
fn a_file_stays_if_it_cannot_be_moved_now() {
    for (errno, stays) in [
        (Errno::TIMEDOUT, true),
        (Errno::IO, true),
        (Errno::MFILE, true),
        (Errno::NOMEM, true),
        (Errno::ACCES, false),
        (Errno::XDEV, false),
        (Errno::NOSPC, false),
        (Errno::DQUOT, false),
    ] {
        let mut fixture = Fixture::failing(errno);
        fixture.file("a", 1);
        assert_eq!(fixture.delete("a"), Status::SUCCESS);
        assert_eq!(fixture.find("a").is_some(), stays, "{errno}");
    }
}

#[test]
fn a_directory_in_the_bin_is_not_in_the_way() {
    let mut fixture = Fixture::new(Recycle { keep_tree: true, ..Recycle::default() });
    fixture.directory("a");
    fixture.delete_new("a/x", 1);
    assert_eq!(fixture.delete("a"), Status::SUCCESS);
    fixture.delete_new("a", 2);
    fixture.exist(&[".recycle/a/x"]);
    assert_eq!(fixture.find(".recycle/Copy #1 of a").map(|copy| copy.size), Some(2));
}

#[test]
fn the_repository_depends_on_the_session() {
    let repository = Template::parse("bins/%U-%S").expect("known variables");
    let mut fixture = Fixture::new(Recycle { repository, directory_mode: 0o750, ..Recycle::default() });
    fixture.delete_new("a", 1);
    fixture.exist(&["bins/alice-share/a"]);
    let mode = |path: &str| fixture.find(path).map(|metadata| metadata.mode);
    assert_eq!((mode("bins"), mode("bins/alice-share")), (Some(0o750), Some(0o700)));
}

#[test]
fn times_are_set_if_configured() {
    for (touch, touch_modified) in [(false, false), (true, false), (true, true), (false, true)] {
        let mut fixture = Fixture::new(Recycle { touch, touch_modified, ..Recycle::default() });
        fixture.server.advance_seconds(10);
        fixture.file("a", 1);
        // The user who deletes the file owns it.
        let owner = SetMetadata { uid: Some(1000), ..SetMetadata::default() };
        block_on(testing::volume::node(&fixture.server.volume, "a").set_metadata(&testing::root(), owner))
            .expect("root");
        let before = fixture.find("a").expect("it exists");
        fixture.server.advance_seconds(10);
        assert_eq!(fixture.delete("a"), Status::SUCCESS);
        let after = fixture.find(".recycle/a").expect("it was moved");
        assert_eq!(after.accessed > before.accessed, touch || touch_modified);
        assert_eq!(after.modified > before.modified, touch_modified);
    }
}

#[test]
fn old_files_are_deleted_and_no_younger_one() {
    let keep = Some(Duration::from_secs(30 * DAY));
    let mut fixture = Fixture::new(Recycle { keep_tree: true, keep, ..Recycle::default() });
    fixture.directory("d");
    fixture.file("live", 1);
    fixture.delete_new("d/old", 1);
    fixture.delete_new("old", 1);
    fixture.server.advance_seconds(20 * DAY);
    fixture.delete_new("d/young", 1);
    fixture.delete_new("young", 1);
    fixture.server.advance_seconds(9 * DAY);
    fixture.purge();
    fixture.exist(&[".recycle/old", ".recycle/d/old", ".recycle/d/young", ".recycle/young"]);
    fixture.server.advance_seconds(2 * DAY);
    fixture.purge();
    fixture.are_gone(&[".recycle/old", ".recycle/d/old"]);
    fixture.exist(&[".recycle/d/young", ".recycle/young", "live"]);
    // An empty directory that the server made is removed a while after the last file.
    fixture.server.advance_seconds(40 * DAY);
    fixture.purge();
    fixture.are_gone(&[".recycle/d/young", ".recycle/young"]);
    fixture.server.advance_seconds(31 * DAY);
    fixture.purge();
    fixture.are_gone(&[".recycle/d"]);
    fixture.exist(&[".recycle", "live"]);
}

#[test]
fn files_in_a_directory_that_was_moved_are_as_young_as_it() {
    let mut fixture = Fixture::new(Recycle { keep: Some(Duration::from_secs(10 * DAY)), ..Recycle::default() });
    fixture.directory("docs");
    fixture.file("docs/a", 1);
    fixture.delete_new("x", 1);
    fixture.server.advance_seconds(20 * DAY);
    let docs = fixture.find("docs").expect("it exists");
    let (from, to) = (testing::volume::path("docs"), testing::volume::path(".recycle/docs"));
    block_on(fixture.server.volume.rename(&testing::root(), RenameRequest::new(&from, docs.id, &to)))
        .expect("root may");
    fixture.purge();
    fixture.are_gone(&[".recycle/x"]);
    fixture.exist(&[".recycle/docs/a"]);
    fixture.server.advance_seconds(11 * DAY);
    fixture.purge();
    fixture.are_gone(&[".recycle/docs/a"]);
    fixture.exist(&[".recycle/docs"]);
}

#[test]
fn open_files_and_shares_without_a_time_are_left_alone() {
    let mut fixture = Fixture::new(Recycle { keep: Some(Duration::from_secs(DAY)), ..Recycle::default() });
    fixture.delete_new("a", 1);
    fixture.delete_new("b", 1);
    fixture.server.advance_seconds(3 * DAY);
    let open = fixture.client.open(r".recycle\a", AccessMask::FILE_GENERIC_READ);
    fixture.purge();
    fixture.are_gone(&[".recycle/b"]);
    fixture.exist(&[".recycle/a"]);
    fixture.client.close(open);
    fixture.purge();
    fixture.are_gone(&[".recycle/a"]);
    let mut fixture = Fixture::new(Recycle::default());
    fixture.delete_new("a", 1);
    fixture.server.advance_seconds(9_999 * DAY);
    fixture.purge();
    fixture.exist(&[".recycle/a"]);
}

#[test]
fn a_directory_that_is_no_longer_the_repository_is_left_alone() {
    let keep = |days| Some(Duration::from_secs(days * DAY));
    let mut fixture = Fixture::new(Recycle {
        repository: Template::parse("papers").expect("no variables"),
        keep: keep(1),
        ..Recycle::default()
    });
    fixture.delete_new("a", 1);
    let reload = |recycle: Option<Recycle>| {
        let mut policy = Policy::clone(&fixture.server.policy());
        for share in policy.shares.values_mut() {
            Arc::make_mut(share).recycle = recycle.clone().map(Arc::new);
        }
        fixture.server.reload(policy);
    };
    fixture.purge();
    fixture.server.advance_seconds(9 * DAY);
    for recycle in [None, Some(Recycle { keep: keep(1), ..Recycle::default() })] {
        reload(recycle);
        fixture.purge();
        fixture.exist(&["papers/a"]);
    }
    // Another time applies to the same repository.
    let repository = Template::parse("papers").expect("no variables");
    reload(Some(Recycle { repository, keep: keep(30), ..Recycle::default() }));
    fixture.purge();
    fixture.exist(&["papers/a"]);
    fixture.server.advance_seconds(30 * DAY);
    fixture.purge();
    fixture.are_gone(&["papers/a"]);
}

#[test]
fn the_bin_of_a_user_is_known_from_the_first_connect_on() {
    let repository = Template::parse("bins/%U").expect("known variables");
    let recycle = Recycle { repository, keep: Some(Duration::from_secs(DAY)), ..Recycle::default() };
    let builder = TestServer::builder().clock(ManualClock::new());
    let server = builder.share(|share| share.recycle = Some(Arc::new(recycle))).start();
    let background = Arc::clone(&*server);
    let mut work = pin!(background.scavenge());
    // The first pass, before any client connects.
    assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut fixture = Fixture { client: TestClient::logged_on(&server, "bob"), server };
    // A pass before the bin exists.
    fixture.server.advance_seconds(DAY);
    for _ in 0..100 {
        assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    fixture.delete_new("a", 1);
    fixture.exist(&["bins/bob/a"]);
    for _ in 0..30 {
        fixture.server.advance_seconds(3600);
        // Each call to remote storage needs a further poll.
        for _ in 0..100 {
            assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    fixture.are_gone(&["bins/bob/a"]);
}

#[test]
fn the_work_between_two_pauses_is_bounded() {
    let mut fixture = Fixture::new(Recycle { keep: Some(Duration::from_secs(DAY)), ..Recycle::default() });
    fixture.delete_new("a", 1);
    for number in 0..500 {
        fixture.file(&format!(".recycle/{number}"), 1);
    }
    fixture.server.advance_seconds(3 * DAY);
    fixture.purges_in_steps(500, |number| format!(".recycle/{number}"));
}

#[test]
fn the_work_in_many_bins_is_bounded() {
    let mut policy = testing::policy();
    let share = policy.shares.values().next().expect("a share").clone();
    for number in 0..300 {
        let repository = Template::parse(&format!("bin{number}")).expect("no variables");
        let recycle = Recycle { repository, keep: Some(Duration::from_secs(DAY)), ..Recycle::default() };
        let (name, recycle) = (format!("s{number}"), Some(Arc::new(recycle)));
        policy.shares.insert(name.clone(), Arc::new(Share { name, recycle, ..(*share).clone() }));
    }
    let server = TestServer::builder().policy(policy).clock(ManualClock::new()).start();
    let fixture = Fixture { client: TestClient::logged_on(&server, "alice"), server };
    for number in 0..300 {
        fixture.directory(&format!("bin{number}"));
        fixture.file(&format!("bin{number}/a"), 1);
    }
    fixture.server.advance_seconds(3 * DAY);
    fixture.purges_in_steps(300, |number| format!("bin{number}/a"));
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
