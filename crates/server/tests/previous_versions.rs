//! Previous versions in isolation: snapshots on an in-memory file system, opened and listed by a client.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use proto::bytes::{utf16_bytes, utf16_units};
use proto::fscc::{FileInformationClass, FileRenameInformation};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::create_context::TimewarpToken;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, SnapshotArray};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType};
use proto::status::Status;
use server::answer::block_on;
use server::policy::snapshots::{Automatic, Format, Pattern, Prefix, Snapshots, Sort};
use server::policy::{Share, Storage};
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::{Access, Create, LookupOptions, NewFile, RelPath, RenameRequest, SetMetadata, Vfs};

const FIRST: &str = "@GMT-2015.10.31-19.40.30";
const SECOND: &str = "@GMT-2016.01.01-00.00.00";
const READING: u32 = 0x0012_0089;
const WRITING: u32 = 0x0012_019f;

fn path(text: &str) -> RelPath {
    let mut path = RelPath::root();
    assert!(text.split('/').all(|name| path.push(name.as_bytes())), "{text}");
    path
}

/// Creates a file with its own path as content, and its parent directories.
fn make(volume: &Arc<dyn Vfs>, file: &str) {
    let who = testing::root();
    for (at, _) in file.match_indices('/') {
        let _ = block_on(volume.create(&who, &path(&file[..at]), NewFile::new(Create::Directory, 0o777)));
    }
    let both = Access { read: true, write: true };
    let new = NewFile::new(Create::File(both), 0o666);
    let node = block_on(volume.create(&who, &path(file), new)).expect("the name is not in use").node;
    block_on(node.write(&who, 0, Bytes::copy_from_slice(file.as_bytes()).into(), false)).expect("there is free space");
}

/// Returns a client of a share with a file `dir/file` and two snapshots; `configure` sets the snapshots' location.
fn client(configure: impl FnOnce(&mut Snapshots)) -> (TestClient, Arc<dyn Vfs>) {
    client_with(configure, &[])
}

/// Like [`client`], with names matching `veto files`.
fn client_with(configure: impl FnOnce(&mut Snapshots), veto: &[&str]) -> (TestClient, Arc<dyn Vfs>) {
    client_of(configure, |share| share.names.veto_files = veto.iter().map(|name| name.to_string()).collect())
}

/// Like [`client`], with a share of the directory `path`.
fn client_at(path: &str, configure: impl FnOnce(&mut Snapshots)) -> (TestClient, Arc<dyn Vfs>) {
    client_of(configure, |share| share.path = path.into())
}

fn client_of(configure: impl FnOnce(&mut Snapshots), change: impl Fn(&mut Share)) -> (TestClient, Arc<dyn Vfs>) {
    let environment: Arc<dyn server::environment::Environment> = Arc::new(testing::ManualClock::ticking());
    let volume = testing::volume::new(environment, testing::volume::options());
    for folder in
        ["", ".snapshots/@GMT-2015.10.31-19.40.30/", ".snapshots/@GMT-2016.01.01-00.00.00/", "dir/old/20151031/"]
    {
        make(&volume, &format!("{folder}dir/file"));
    }
    make(&volume, "dir/old/20151031/file");
    make(&volume, ".snapshots/something else");
    let mut snapshots = Snapshots {
        directory: ".snapshots".into(),
        everywhere: false,
        cross_mount_points: false,
        mount_point: None,
        base: None,
        share_path: None,
        format: Format::token(),
        prefix: None,
        local: None,
        sort: Sort::Descending,
    };
    configure(&mut snapshots);
    let mut policy = testing::policy();
    for share in policy.shares.values_mut() {
        let share = Arc::make_mut(share);
        share.snapshots = Some(Arc::new(snapshots.clone()));
        change(share);
    }
    let server = TestServer::builder().policy(policy).volume(volume.clone()).start();
    (TestClient::logged_on(&server, "alice"), volume)
}

/// Returns a snapshot's time for the timewarp context.
fn timewarp(token: &str) -> TimewarpToken {
    let moment = Format::token().moment(token.as_bytes(), None).expect("a token");
    TimewarpToken { timestamp: proto::dtyp::FileTime::from_unix(moment, 0).0 }
}

struct Ask<'a> {
    name: &'a str,
    access: u32,
    disposition: CreateDisposition,
    options: u32,
    version: Option<&'a str>,
}

fn open(name: &str) -> Ask<'_> {
    Ask { name, access: READING, disposition: CreateDisposition::OPEN, options: 0, version: None }
}

fn create(client: &mut TestClient, ask: &Ask<'_>) -> Result<FileId, Status> {
    let name = utf16_bytes(ask.name);
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: ask.access,
        share_access: ShareAccess(7),
        create_disposition: ask.disposition,
        create_options: CreateOptions(ask.options),
        name: &name,
        create_contexts: ask.version.map(|version| timewarp(version).to_context()).into_iter().collect(),
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    match status(&response) {
        Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a response").file_id),
        refused => Err(refused),
    }
}

fn read(client: &mut TestClient, file_id: FileId) -> String {
    let read = ReadRequest { length: 100, file_id, ..ReadRequest::default() };
    let response = client.request(Command::READ, |out| read.encode(out));
    String::from_utf8(ReadResponse::decode(&response).expect("data").buffer.to_vec()).expect("a valid path")
}

fn rename(client: &mut TestClient, file_id: FileId, to: &str) -> Status {
    let name = utf16_bytes(to);
    let rename = FileRenameInformation { replace_if_exists: true, root_directory: 0, file_name: &name };
    let mut buffer = Vec::new();
    rename.encode(&mut proto::bytes::Writer::new(&mut buffer));
    let (info_type, file_info_class) = (InfoType::FILE, FileInformationClass::RENAME.0);
    let set = SetInfoRequest { info_type, file_info_class, additional_information: 0, file_id, buffer: &buffer };
    status(&client.request(Command::SET_INFO, |out| set.encode(out)))
}

#[track_caller]
fn opens(client: &mut TestClient, ask: &Ask<'_>, content: &str) {
    let file = create(client, ask).unwrap_or_else(|refused| panic!("{}: {refused}", ask.name));
    assert_eq!(read(client, file), content, "{}", ask.name);
}

fn versions(client: &mut TestClient, name: &str, space: u32) -> SnapshotArray {
    let file_id = create(client, &open(name)).expect("it exists");
    let ioctl = IoctlRequest {
        ctl_code: FsctlCode::SRV_ENUMERATE_SNAPSHOTS,
        file_id,
        max_output_response: space,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    let response = client.request(Command::IOCTL, |out| ioctl.encode(out));
    assert_eq!(status(&response), Status::SUCCESS, "{name}");
    SnapshotArray::decode(IoctlResponse::decode(&response).expect("a response").output).expect("an array")
}

#[test]
fn a_version_is_named_by_a_context_or_by_a_token() {
    let (mut client, _) = client(|_| {});
    let old = ".snapshots/@GMT-2015.10.31-19.40.30/dir/file";
    opens(&mut client, &open(r"dir\file"), "dir/file");
    opens(&mut client, &Ask { version: Some(FIRST), ..open(r"dir\file") }, old);
    opens(&mut client, &Ask { version: Some(FIRST), ..open(r"DIR\FILE") }, old);
    opens(&mut client, &open(&format!(r"{FIRST}\dir\file")), old);
    opens(&mut client, &open(&format!(r".snapshots\{FIRST}\dir\file")), old);
    for (name, version) in [(r"dir\file", "@GMT-2014.10.31-19.40.30"), (r"dir\none", FIRST)] {
        let refused = create(&mut client, &Ask { version: Some(version), ..open(name) });
        assert_eq!(refused, Err(Status::OBJECT_NAME_NOT_FOUND), "{name} {version}");
    }
}

#[test]
fn a_version_cannot_be_changed() {
    let (mut client, _) = client(|_| {});
    let ask = |name| Ask { version: Some(FIRST), ..open(name) };
    let protected = Err(Status::MEDIA_WRITE_PROTECTED);
    let file_id = create(&mut client, &Ask { access: WRITING, ..ask(r"dir\file") }).expect("it opens, as on Windows");
    let write = WriteRequest { file_id, length: 3, buffer: b"new", ..WriteRequest::default() };
    let response = client.request(Command::WRITE, |out| write.encode(out));
    assert_eq!(status(&response), Status::MEDIA_WRITE_PROTECTED);
    let sparse = IoctlRequest {
        ctl_code: FsctlCode::SET_SPARSE,
        file_id,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    assert_eq!(status(&client.request(Command::IOCTL, |out| sparse.encode(out))), Status::MEDIA_WRITE_PROTECTED);
    for (name, disposition, options) in [
        ("new", CreateDisposition::OPEN_IF, 0),
        (r"dir\file", CreateDisposition::OVERWRITE, 0),
        (r"dir\file", CreateDisposition::OPEN, CreateOptions::DELETE_ON_CLOSE.0),
    ] {
        let changing = Ask { access: WRITING | 0x1_0000, disposition, options, ..ask(name) };
        assert_eq!(create(&mut client, &changing), protected, "{name} {disposition:?}");
    }
    opens(&mut client, &ask(r"dir\file"), ".snapshots/@GMT-2015.10.31-19.40.30/dir/file");
}

#[test]
fn no_file_gets_the_name_of_a_version() {
    let (mut client, volume) = client(|_| {});
    let file_id = create(&mut client, &Ask { access: 0x1_0000, ..open(r"dir\file") }).expect("it exists");
    for name in [FIRST.to_owned(), format!(r"{FIRST}\new"), "@GMT-2015.01.01-00.00.00".to_owned()] {
        assert_eq!(rename(&mut client, file_id, &name), Status::MEDIA_WRITE_PROTECTED, "{name}");
    }
    assert_eq!(rename(&mut client, file_id, "@GMT-other"), Status::SUCCESS);
    testing::volume::node(&volume, "@GMT-other");
}

#[test]
fn a_file_in_a_version_has_the_same_versions() {
    let (mut client, _) = client(|_| {});
    let name = format!(r"{FIRST}\dir\file");
    assert_eq!(versions(&mut client, &name, 4096).snapshots, [SECOND, FIRST]);
}

#[test]
fn a_version_shows_the_requested_name() {
    let (mut client, _) = client(|_| {});
    let file_id = create(&mut client, &Ask { version: Some(FIRST), ..open(r"dir\file") }).expect("it exists");
    let query = QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::ALL.0,
        output_buffer_length: 200,
        file_id,
        ..QueryInfoRequest::default()
    };
    let response = client.request(Command::QUERY_INFO, |out| query.encode(out));
    // [MS-FSCC] 2.4.2: the name comes last.
    let name = &QueryInfoResponse::decode(&response).expect("a valid name").buffer[100..];
    assert_eq!(String::from_utf16(&utf16_units(name).expect("UTF-16")).expect("text"), r"\dir\file");
}

#[test]
fn versions_are_listed_in_order() {
    let list = |sort, space| {
        let (mut client, _) = client(|snapshots| snapshots.sort = sort);
        versions(&mut client, "dir", space)
    };
    assert_eq!(list(Sort::Descending, 4096).snapshots, [SECOND, FIRST]);
    assert_eq!(list(Sort::Ascending, 4096).snapshots, [FIRST, SECOND]);
    let probe = list(Sort::Descending, 16);
    assert_eq!((probe.number_of_snapshots, probe.snapshot_array_size, probe.snapshots.len()), (2, 102, 0));
}

#[test]
fn each_directory_may_have_its_own_versions() {
    let (mut client, _) = client(|snapshots| {
        snapshots.everywhere = true;
        snapshots.directory = "old".into();
        snapshots.format = Format::parse("%Y%m%d", false).expect("a form");
    });
    let midnight = Some("@GMT-2015.10.31-00.00.00");
    opens(&mut client, &Ask { version: midnight, ..open(r"dir\file") }, "dir/old/20151031/file");
    assert_eq!(versions(&mut client, r"dir\file", 4096).snapshots, ["@GMT-2015.10.31-00.00.00"]);
    assert_eq!(versions(&mut client, ".snapshots", 4096).snapshots.len(), 0);
}

#[test]
fn vetoed_files_have_no_versions() {
    let everywhere = |snapshots: &mut Snapshots| {
        snapshots.everywhere = true;
        snapshots.directory = "old".into();
        snapshots.format = Format::parse("%Y%m%d", false).expect("a form");
    };
    let version = Some("@GMT-2015.10.31-00.00.00");
    for (veto, expected) in [("dir", false), ("old", true), ("file", false), ("else", true)] {
        let (mut client, _) = client_with(everywhere, &[veto]);
        for name in [r"dir\file", r"DIR\file"] {
            let found = create(&mut client, &Ask { version, ..open(name) });
            assert_eq!(found.is_ok(), expected && name.starts_with('d'), "{veto} {name} {found:?}");
        }
    }
}

#[test]
fn the_share_may_be_a_part_of_the_snapshots() {
    // Every directory outside the share is the same in-memory file system, so the snapshots are in its root.
    let (mut client, _) = client(|snapshots| {
        snapshots.directory = "/elsewhere".into();
        snapshots.base = Some(PathBuf::from("/"));
        snapshots.format = Format::parse("dir", false).expect("a form");
        snapshots.share_path = Some("old/20151031".into());
    });
    opens(&mut client, &Ask { version: Some(FIRST), ..open("file") }, "dir/old/20151031/file");
}

#[test]
fn users_without_access_to_the_snapshot_directory_see_no_versions() {
    let (mut client, volume) = client(|_| {});
    let root = testing::root();
    let found = block_on(volume.lookup(
        &root,
        &path(".snapshots"),
        LookupOptions {
            case: server::vfs::Case::Sensitive,
            links: server::vfs::SymlinkPolicy::default(),
            access: Access::default(),
        },
    ));
    let Ok(server::vfs::Lookup::Found { node, .. }) = found else { panic!("it was created") };
    block_on(node.set_metadata(&root, SetMetadata { mode: Some(0o700), ..SetMetadata::default() }))
        .expect("root has permission");
    let refused = create(&mut client, &Ask { version: Some(FIRST), ..open(r"dir\file") });
    assert_eq!(refused, Err(Status::OBJECT_NAME_NOT_FOUND));
    assert_eq!(versions(&mut client, "dir", 4096).number_of_snapshots, 0);
}

#[test]
fn no_link_in_a_version_leads_out_of_it() {
    let (mut client, volume) = client(|_| {});
    let first = ".snapshots/@GMT-2015.10.31-19.40.30";
    for (name, target) in [
        ("dir/beside", "file"),
        ("other", "../@GMT-2016.01.01-00.00.00/dir/file"),
        ("dir/live", "../../../dir/file"),
        ("up", ".."),
    ] {
        let link = path(&format!("{first}/{name}"));
        block_on(volume.create(&testing::root(), &link, NewFile::symlink(target.as_bytes(), None)))
            .expect("created by a local program");
    }
    let ask = |name| Ask { version: Some(FIRST), ..open(name) };
    opens(&mut client, &ask(r"dir\beside"), &format!("{first}/dir/file"));
    for name in ["other", r"dir\live", r"up\something else", r"up\@GMT-2016.01.01-00.00.00\dir\file"] {
        let found = create(&mut client, &ask(name));
        let hidden = [Err(Status::OBJECT_NAME_NOT_FOUND), Err(Status::OBJECT_PATH_NOT_FOUND)];
        assert!(hidden.contains(&found), "{name}: {found:?}");
    }
}

#[test]
fn a_share_without_snapshots_has_no_versions() {
    let mut client = TestClient::logged_on(&TestServer::new(), "alice");
    let made = Ask { access: WRITING, disposition: CreateDisposition::CREATE, ..open("file") };
    create(&mut client, &made).expect("the name is not in use");
    let refused = create(&mut client, &Ask { version: Some(FIRST), ..open("file") });
    assert_eq!(refused, Err(Status::OBJECT_NAME_NOT_FOUND));
    let token = create(&mut client, &open(&format!(r"{FIRST}\file")));
    assert_eq!(token, Err(Status::OBJECT_PATH_NOT_FOUND));
    assert_eq!(versions(&mut client, "file", 4096).number_of_snapshots, 0);
}

/// Matches text that begins with this.
#[derive(Debug)]
struct Beginning(&'static str);

impl Pattern for Beginning {
    fn matches(&self, text: &[u8]) -> bool {
        text.starts_with(self.0.as_bytes())
    }
}

/// Sets names as sanoid gives them: prefix, time, and interval.
fn named(snapshots: &mut Snapshots) {
    snapshots.directory = "taken".into();
    snapshots.format = Format::parse("_%Y-%m-%d_%H:%M:%S", false).expect("a form");
    snapshots.prefix = Some(Prefix { pattern: Arc::new(Beginning("auto")), delimiter: b"_".to_vec() });
}

#[test]
fn names_with_a_prefix_are_found_by_their_time() {
    let (mut client, volume) = client(named);
    let snapshots = [
        "auto_2015-10-31_19:40:30_hourly",
        "auto_2015-10-31_19:40:30_daily",
        "auto_2016-01-01_00:00:00",
        "manual_2017-01-01_00:00:00",
    ];
    for snapshot in snapshots {
        make(&volume, &format!("taken/{snapshot}/dir/file"));
    }
    assert_eq!(versions(&mut client, r"dir\file", 4096).snapshots, [SECOND, FIRST]);
    let ask = |version| Ask { version: Some(version), ..open(r"dir\file") };
    for _ in 0..2 {
        opens(&mut client, &ask(FIRST), "taken/auto_2015-10-31_19:40:30_daily/dir/file");
        opens(&mut client, &ask(SECOND), "taken/auto_2016-01-01_00:00:00/dir/file");
    }
    let refused = create(&mut client, &ask("@GMT-2017.01.01-00.00.00"));
    assert_eq!(refused, Err(Status::OBJECT_NAME_NOT_FOUND));
    // The name that was found before is not used for another snapshot.
    let root = testing::root();
    let [hourly, daily] = [snapshots[0], snapshots[1]].map(|name| path(&format!("taken/{name}")));
    let Ok(server::vfs::Lookup::Found { metadata, .. }) =
        block_on(volume.lookup(&root, &daily, LookupOptions::exact(server::vfs::SymlinkPolicy::NONE)))
    else {
        panic!("it exists")
    };
    block_on(volume.rename(&root, RenameRequest::new(&daily, metadata.id, &path("taken/gone"))))
        .expect("the name is free");
    opens(&mut client, &ask(FIRST), &format!("{hourly}/dir/file"));
}

#[test]
fn other_spellings_of_a_time_can_be_opened() {
    let (mut client, volume) = client(|_| {});
    make(&volume, ".snapshots/@GMT-2017.1.1-00.00.00 weekly/dir/file");
    let third = "@GMT-2017.01.01-00.00.00";
    assert_eq!(versions(&mut client, "dir", 4096).snapshots, [third, SECOND, FIRST]);
    let ask = Ask { version: Some(third), ..open(r"dir\file") };
    opens(&mut client, &ask, ".snapshots/@GMT-2017.1.1-00.00.00 weekly/dir/file");
}

#[test]
fn ten_thousand_snapshots_are_listed() {
    let (mut client, volume) = client(named);
    make(&volume, "taken/x/y");
    for number in 0..10_000 {
        let (minute, second) = (number / 60 % 60, number % 60);
        let name = format!("taken/auto_2015-10-31_{:02}:{minute:02}:{second:02}", number / 3600);
        block_on(volume.create(&testing::root(), &path(&name), NewFile::new(Create::Directory, 0o755)))
            .expect("the name is not in use");
    }
    assert_eq!(versions(&mut client, "dir", 4096).number_of_snapshots, 10_000);
}

#[test]
fn versions_above_a_directory_are_found_from_it() {
    let (mut client, volume) = client(|snapshots| snapshots.everywhere = true);
    make(&volume, "dir/.snapshots/@GMT-2016.06.01-00.00.00/file");
    let near = "@GMT-2016.06.01-00.00.00";
    assert_eq!(versions(&mut client, r"dir\file", 4096).snapshots, [near], "the nearest directory");
    for (version, content) in [
        (near, "dir/.snapshots/@GMT-2016.06.01-00.00.00/file"),
        (FIRST, ".snapshots/@GMT-2015.10.31-19.40.30/dir/file"),
    ] {
        opens(&mut client, &Ask { version: Some(version), ..open(r"dir\file") }, content);
    }
}

#[test]
fn versions_above_the_share_are_found_up_to_the_mount_point() {
    // Every directory outside the share is the same in-memory file system.
    for (cross, mount_point, found) in [
        (false, "/mount", Some((FIRST, "top/above/@GMT-2015.10.31-19.40.30/share/dir/file"))),
        (false, "/mount/top/share", None),
        (true, "/mount/top/share", Some((SECOND, "mount/top/above/@GMT-2016.01.01-00.00.00/share/dir/file"))),
    ] {
        let (mut client, volume) = client_at("/mount/top/share", |snapshots| {
            snapshots.everywhere = true;
            snapshots.directory = "above".into();
            snapshots.cross_mount_points = cross;
            snapshots.mount_point = Some(mount_point.into());
        });
        for (above, snapshot) in [("", FIRST), ("mount/", SECOND)] {
            make(&volume, &format!("{above}top/above/{snapshot}/share/dir/file"));
        }
        let listed = versions(&mut client, r"dir\file", 4096).snapshots;
        assert_eq!(listed, found.iter().map(|(version, _)| *version).collect::<Vec<_>>(), "{cross} {mount_point}");
        if let Some((version, content)) = found {
            opens(&mut client, &Ask { version: Some(version), ..open(r"dir\file") }, content);
        }
    }
}

/// The paths of the parameters are then paths in the volume, whatever this host has mounted.
#[test]
fn the_mount_point_of_a_volume_is_its_root() {
    for (storage, listed) in [(Storage::Directory, vec![]), (testing::gluster("v"), vec![SECOND, FIRST])] {
        let configure = |snapshots: &mut Snapshots| {
            snapshots.directory = "share/.snapshots".into();
            snapshots.base = Some("/share".into());
        };
        let (mut client, _) = client_of(configure, |share| share.storage = storage.clone());
        assert_eq!(versions(&mut client, r"dir\file", 4096).snapshots, listed);
    }
}

/// Returns a client of a share whose versions are found automatically, with the directory `dir/file` in each of
/// `folders`. The share is the directory `path`, whose file system is mounted at `/`.
fn finding(path: &str, folders: &[&str]) -> (TestClient, Arc<dyn Vfs>) {
    let (client, volume) = client_of(
        |_| {},
        |share| {
            share.path = path.into();
            share.snapshots = None;
            share.automatic_snapshots = Some(Automatic { local: |_| 0 });
        },
    );
    for folder in folders {
        make(&volume, &format!("{folder}/dir/file"));
    }
    for folder in [".snapshots", ".zfs", ".zfs/snapshot"] {
        protect(&volume, folder, 0, 0o755);
    }
    (client, volume)
}

/// Sets the owner and the mode of a file that may exist.
fn protect(volume: &Arc<dyn Vfs>, name: &str, uid: u32, mode: u32) {
    let exact = LookupOptions::exact(server::vfs::SymlinkPolicy::NONE);
    let found = block_on(volume.lookup(&testing::root(), &path(name), exact));
    let Ok(server::vfs::Lookup::Found { node, .. }) = found else { return };
    let set = SetMetadata { mode: Some(mode), uid: Some(uid), ..SetMetadata::default() };
    block_on(node.set_metadata(&testing::root(), set)).expect("root has permission");
}

#[test]
fn versions_of_common_programs_are_found() {
    let folders = [
        ".snapshots/2016-02-01_00-00-00",
        ".snapshots/share.20160201T0100",
        ".snapshots/other.20160201T0200",
        ".snapshots/7/snapshot",
        ".snapshots/8/snapshot",
        ".snapshots/9/snapshot",
        ".snapshots/10/snapshot",
        ".zfs/snapshot/autosnap_2016-02-01_04:00:00_hourly",
        ".zfs/snapshot/manual",
    ];
    let (mut client, volume) = finding("/share", &folders);
    for (number, content, mode) in [
        (7, "<snapshot><date>2016-02-01 03:00:00</date></snapshot>", 0o644),
        (8, "<snapshot></snapshot>", 0o644),
        (9, "<snapshot><date>2016-02-01 05:00:00</date></snapshot>", 0o666),
        (10, "<snapshot><date>2016-02-01 06:00:00</date></snapshot>", 0o644),
    ] {
        let info = format!(".snapshots/{number}/info.xml");
        make(&volume, &info);
        let exact = LookupOptions::exact(server::vfs::SymlinkPolicy::NONE);
        let found = block_on(volume.lookup(&testing::root(), &path(&info), exact));
        let Ok(server::vfs::Lookup::Found { node, .. }) = found else { panic!("it was created") };
        let node = block_on(node.open(&testing::root(), Access { read: true, write: true })).expect("a file");
        block_on(node.write(&testing::root(), 0, Bytes::from_static(content.as_bytes()).into(), false)).expect("space");
        protect(&volume, &info, 0, mode);
        protect(&volume, &format!(".snapshots/{number}"), 0, if number == 10 { 0o775 } else { 0o755 });
    }
    let [zfs, snapper, btrbk, plain] = [
        "@GMT-2016.02.01-04.00.00",
        "@GMT-2016.02.01-03.00.00",
        "@GMT-2016.02.01-01.00.00",
        "@GMT-2016.02.01-00.00.00",
    ];
    for _ in 0..2 {
        let listed = versions(&mut client, r"dir\file", 4096).snapshots;
        assert_eq!(listed, [zfs, snapper, btrbk, plain, SECOND, FIRST]);
        for (version, at) in [(zfs, folders[7]), (snapper, folders[3]), (btrbk, folders[1]), (plain, folders[0])] {
            let content = format!("{at}/dir/file");
            opens(&mut client, &Ask { version: Some(version), ..open(r"dir\file") }, &content);
            opens(&mut client, &open(&format!(r"{version}\dir\file")), &content);
        }
    }
    for version in ["@GMT-2016.02.01-02.00.00", "@GMT-2016.02.01-05.00.00", "@GMT-2016.02.01-06.00.00"] {
        let refused = create(&mut client, &Ask { version: Some(version), ..open(r"dir\file") });
        assert_eq!(refused, Err(Status::OBJECT_NAME_NOT_FOUND), "{version}");
    }
}

#[test]
fn versions_that_users_could_have_made_are_not_found() {
    for (uid, mode, found) in
        [(0, 0o755, 2), (1000, 0o755, 0), (0, 0o775, 0), (0, 0o757, 0), (0, 0o1777, 0), (0, 0o700, 0)]
    {
        let (mut client, volume) = finding("/share", &[]);
        protect(&volume, ".snapshots", uid, mode);
        assert_eq!(versions(&mut client, "dir", 4096).number_of_snapshots, found, "{uid} {mode:o}");
        let opened = create(&mut client, &Ask { version: Some(FIRST), ..open(r"dir\file") });
        assert_eq!(opened.is_ok(), found > 0, "{uid} {mode:o}: {opened:?}");
    }
}

/// `frevo snapshot` makes mount points with mode 0. An empty directory is not an earlier version of the share.
#[test]
fn a_mount_point_without_its_snapshot_is_not_a_version() {
    for (mode, expected) in [(0o755, Ok(())), (0, Err(Status::OBJECT_NAME_NOT_FOUND))] {
        let (mut client, volume) = finding("/share", &[]);
        protect(&volume, &format!(".snapshots/{FIRST}"), 0, mode);
        let opened = create(&mut client, &Ask { version: Some(FIRST), ..open("") });
        assert_eq!(opened.map(drop), expected, "{mode:o}");
    }
}

#[test]
fn a_link_to_a_directory_with_snapshots_is_not_followed() {
    let (mut client, volume) = finding("/share", &["taken/@GMT-2016.02.01-00.00.00", "else"]);
    for (link, target) in
        [(".zfs", "else"), ("else/snapshot", "../taken"), (".snapshots/@GMT-2017.01.01-00.00.00", "../else")]
    {
        let new = NewFile::symlink(target.as_bytes(), None);
        block_on(volume.create(&testing::root(), &path(link), new)).expect("the name is not in use");
    }
    protect(&volume, "taken", 0, 0o755);
    let refused = create(&mut client, &Ask { version: Some("@GMT-2017.01.01-00.00.00"), ..open(r"dir\file") });
    assert_eq!(refused, Err(Status::OBJECT_NAME_NOT_FOUND));
    let refused = create(&mut client, &Ask { version: Some("@GMT-2016.02.01-00.00.00"), ..open(r"dir\file") });
    assert_eq!(refused, Err(Status::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn new_versions_are_found_and_ten_thousand_are_listed() {
    let (mut client, volume) = finding("/share", &[]);
    assert_eq!(versions(&mut client, "dir", 4096).number_of_snapshots, 2);
    for number in 0..10_000 {
        let (minute, second) = (number / 60 % 60, number % 60);
        let name = format!(".snapshots/@GMT-2017.10.31-{:02}.{minute:02}.{second:02}", number / 3600);
        block_on(volume.create(&testing::root(), &path(&name), NewFile::new(Create::Directory, 0o755)))
            .expect("the name is not in use");
    }
    assert_eq!(versions(&mut client, "dir", 4096).number_of_snapshots, 10_002);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
