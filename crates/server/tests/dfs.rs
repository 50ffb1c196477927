//! DFS: shares that refer clients to other servers ([MS-DFSC] 3.2, [MS-SMB2] 3.3.5.9, 3.3.5.15.2).

use std::collections::BTreeSet;
use std::sync::Arc;

use proto::bytes::{utf16_bytes, utf16_units};
use proto::dfsc::{HeaderFlags, ReferralRequest, ReferralResponse, ServerType, Version};
use proto::dtyp::{Acl, SecurityDescriptor};
use proto::fscc::{FileAttributes, FileInformationClass, FileRenameInformation, ReparseTag};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::{Command, Flags};
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use proto::smb2::negotiate::{Capabilities, NegotiateResponse, SecurityMode};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_connect::{
    ShareCapabilities, ShareFlags, TreeConnectFlags, TreeConnectRequest, TreeConnectResponse,
};
use proto::smb2::{FileId, InfoType};
use proto::status::Status;
use server::policy::{Encryption, Guest, MapToGuest, Policy, Share, ShareAcls, UserPattern, fold};
use server::testing::{TestClient, TestServer, status};
use server::vfs::{Access, Create, Identity, NewFile};

const READ_ATTRIBUTES: u32 = 0x80;
const DELETE: u32 = 0x0001_0000;

/// A server whose share `share` is the root of a namespace, and a client that is connected to it.
struct Fixture {
    server: TestServer,
    client: TestClient,
}

fn fixture() -> Fixture {
    fixture_with(|_| {}, |_| {})
}

fn fixture_with(share: impl FnOnce(&mut Share), configure: impl FnOnce(&mut Policy)) -> Fixture {
    let builder = TestServer::builder().share(|it| {
        it.dfs.root = true;
        share(it);
    });
    let server = builder.configure(configure).start();
    for name in ["dir", "dir/sub"] {
        server.create_locally(name, NewFile::new(Create::Directory, 0o777));
    }
    for name in ["file", "dir/file"] {
        server.create_locally(name, NewFile::new(Create::File(Access::default()), 0o666));
    }
    for (name, target) in [
        ("link", r"msdfs:one\data"),
        ("dir/deep", r"msdfs:one\data\below,two\data,three/data"),
        ("empty", "msdfs:"),
        ("wrong", "msdfs:server"),
        ("plain", "file"),
        ("to_dir", "dir"),
        ("to_link", "link"),
        ("dangling", "nothing"),
        ("loop", "."),
    ] {
        server.create_locally(name, NewFile::symlink(target.as_bytes(), None));
    }
    Fixture { client: TestClient::logged_on(&server, "alice"), server }
}

impl Fixture {
    fn create(
        &mut self,
        name: &str,
        flags: Flags,
        access: u32,
        disposition: CreateDisposition,
        options: u32,
    ) -> Opened {
        let name = utf16_bytes(name);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access: ShareAccess(7),
            create_disposition: disposition,
            create_options: CreateOptions(options),
            name: &name,
            ..CreateRequest::default()
        };
        let message = self.client.compose_with(Command::CREATE, flags, |out| create.encode(out));
        let frames = self.client.send(&message);
        let response = self.client.finish(frames).expect("a response");
        match status(&response) {
            Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a response").file_id),
            refused => Err(refused),
        }
    }

    /// Opens a name relative to the share and closes it.
    fn open(&mut self, name: &str) -> Status {
        let opened = self.create(name, Flags(0), READ_ATTRIBUTES, CreateDisposition::OPEN, 0);
        self.end(opened)
    }

    /// Opens a path of the namespace and closes it.
    fn open_dfs(&mut self, path: &str) -> Status {
        let opened = self.create(path, Flags::DFS_OPERATIONS, READ_ATTRIBUTES, CreateDisposition::OPEN, 0);
        self.end(opened)
    }

    fn end(&mut self, opened: Opened) -> Status {
        match opened {
            Ok(file_id) => {
                self.client.close(file_id);
                Status::SUCCESS
            }
            Err(refused) => refused,
        }
    }

    fn ask(&mut self, code: FsctlCode, file_id: FileId, input: &[u8], space: u32) -> Result<Vec<u8>, Status> {
        let ioctl = IoctlRequest {
            ctl_code: code,
            file_id,
            input,
            max_output_response: space,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        let response = self.client.request(Command::IOCTL, |out| ioctl.encode(out));
        match status(&response) {
            Status::SUCCESS => Ok(IoctlResponse::decode(&response).expect("a response").output.to_vec()),
            refused => Err(refused),
        }
    }

    fn refer_in(&mut self, path: &str, level: u16, space: u32) -> Result<Answer, Status> {
        let name = utf16_bytes(path);
        let request = ReferralRequest { max_referral_level: level, request_file_name: &name, site_name: None };
        let mut input = Vec::new();
        request.encode(&mut proto::bytes::Writer::new(&mut input));
        self.ask(FsctlCode::DFS_GET_REFERRALS, FileId::ANY, &input, space).map(|output| Answer::decode(&output))
    }

    fn refer(&mut self, path: &str) -> Result<Answer, Status> {
        self.refer_in(path, 3, 4096)
    }

    /// Returns attributes and tag of the entry `name` of the directory.
    fn entry(&mut self, directory: &str, name: &str) -> (FileAttributes, ReparseTag) {
        let options = CreateOptions::DIRECTORY_FILE.0;
        let opened = self.create(directory, Flags(0), READ_ATTRIBUTES | 1, CreateDisposition::OPEN, options);
        let file_id = opened.expect("the directory");
        let pattern = utf16_bytes(name);
        let query = QueryDirectoryRequest {
            file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
            flags: QueryDirectoryFlags(0),
            file_id,
            file_name: &pattern,
            output_buffer_length: 4096,
            ..QueryDirectoryRequest::default()
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        let entry = QueryDirectoryResponse::decode(&response).expect("an entry").buffer;
        let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four"));
        // [MS-FSCC] 2.4.21: FileAttributes, and EaSize, which contains the tag of a reparse point.
        let found = (FileAttributes(number(56)), ReparseTag(number(64)));
        self.client.close(file_id);
        found
    }

    fn rename(&mut self, from: &str, to: &str) -> Status {
        let opened = self.create(from, Flags(0), DELETE | READ_ATTRIBUTES, CreateDisposition::OPEN, 0);
        let file_id = opened.expect("the file to rename");
        let target = utf16_bytes(to);
        let rename = FileRenameInformation { replace_if_exists: true, file_name: &target, ..Default::default() };
        let mut buffer = Vec::new();
        rename.encode(&mut proto::bytes::Writer::new(&mut buffer));
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: 10,
            file_id,
            buffer: &buffer,
            ..SetInfoRequest::default()
        };
        let renamed = status(&self.client.request(Command::SET_INFO, |out| set.encode(out)));
        self.client.close(file_id);
        renamed
    }

    /// Returns the response to a TREE_CONNECT.
    fn connect(&mut self, share: &str) -> Result<TreeConnectResponse, Status> {
        let path = utf16_bytes(&format!(r"\\server\{share}"));
        let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let response = self.client.request(Command::TREE_CONNECT, |out| tree.encode(out));
        match status(&response) {
            Status::SUCCESS => Ok(TreeConnectResponse::decode(&response).expect("a response")),
            refused => Err(refused),
        }
    }
}

type Opened = Result<FileId, Status>;

/// A referral as a client understands it.
#[derive(PartialEq, Eq, Debug)]
struct Answer {
    /// The part of the path that was resolved, in bytes.
    consumed: u16,
    flags: HeaderFlags,
    version: Version,
    kind: ServerType,
    path: String,
    targets: Vec<String>,
}

impl Answer {
    fn decode(output: &[u8]) -> Answer {
        let response = ReferralResponse::decode(output).expect("a referral");
        let text = |bytes: &[u8]| String::from_utf16(&utf16_units(bytes).expect("whole units")).expect("UTF-16");
        let first = response.referrals.first().expect("a target");
        assert!(
            response.referrals.iter().all(|it| it.dfs_path == first.dfs_path && it.server_type == first.server_type)
        );
        Answer {
            consumed: response.path_consumed,
            flags: response.header_flags,
            version: response.version,
            kind: first.server_type,
            path: text(first.dfs_path),
            targets: response.referrals.iter().map(|referral| text(referral.network_address)).collect(),
        }
    }

    fn link(path: &str, targets: &[&str]) -> Answer {
        Answer {
            consumed: 2 * path.len() as u16,
            flags: HeaderFlags::STORAGE_SERVERS,
            version: Version::V3,
            kind: ServerType::LINK,
            path: path.to_owned(),
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        }
    }

    fn root(path: &str) -> Answer {
        let flags = HeaderFlags::STORAGE_SERVERS | HeaderFlags::REFERRAL_SERVERS;
        Answer { kind: ServerType::ROOT, flags, ..Answer::link(path, &[path]) }
    }
}

#[test]
fn no_path_passes_a_link() {
    let mut fixture = fixture();
    let covered = Status::PATH_NOT_COVERED;
    for (path, expected) in [
        ("file", Status::SUCCESS),
        (r"dir\file", Status::SUCCESS),
        ("plain", Status::SUCCESS),
        (r"to_dir\file", Status::SUCCESS),
        ("link", covered),
        ("LINK", covered),
        (r"link\file", covered),
        (r"link\a\b\c", covered),
        (r"dir\deep", covered),
        (r"Dir\Deep\file", covered),
        (r"to_dir\deep\file", covered),
        (r"loop\loop\dir\deep", covered),
        ("empty", covered),
        ("link:stream", covered),
        ("nothing", Status::OBJECT_NAME_NOT_FOUND),
        ("to_link", Status::STOPPED_ON_SYMLINK),
        ("dangling", Status::STOPPED_ON_SYMLINK),
    ] {
        assert_eq!(fixture.open(path), expected, "{path}");
        let below = format!(r"server\share\{path}");
        assert_eq!(fixture.open_dfs(&below), expected, "{below}");
    }
    for (path, expected) in [
        ("", Status::SUCCESS),
        (r"server\share", Status::SUCCESS),
        (r"\server\share\", Status::SUCCESS),
        ("file", Status::SUCCESS),
        ("missing", Status::OBJECT_NAME_NOT_FOUND),
    ] {
        assert_eq!(fixture.open_dfs(path), expected, "{path}");
    }
    let dispositions = [CreateDisposition::CREATE, CreateDisposition::OPEN_IF];
    for (disposition, name) in dispositions.into_iter().flat_map(|it| [(it, "link"), (it, r"link\new")]) {
        for options in [0, CreateOptions::DIRECTORY_FILE.0, CreateOptions::OPEN_REPARSE_POINT.0] {
            let made = fixture.create(name, Flags(0), READ_ATTRIBUTES, disposition, options);
            assert_eq!(made, Err(covered), "{disposition:?} {name} {options:#x}");
        }
    }
}

#[test]
fn a_link_cannot_be_deleted_or_replaced() {
    let mut fixture = fixture();
    let itself = CreateOptions::OPEN_REPARSE_POINT.0 | CreateOptions::DELETE_ON_CLOSE.0;
    let deleted = fixture.create("link", Flags(0), DELETE, CreateDisposition::OPEN, itself);
    assert_eq!(deleted, Err(Status::PATH_NOT_COVERED));
    assert_eq!(fixture.rename("file", "link"), Status::PATH_NOT_COVERED);
    assert_eq!(fixture.rename("file", r"link\file"), Status::PATH_NOT_COVERED);
    assert_eq!(fixture.rename("file", r"dir\file2"), Status::SUCCESS);
    assert_eq!(fixture.refer(r"\server\share\link"), Ok(Answer::link(r"\server\share\link", &[r"\one\data"])));
}

#[test]
fn a_link_is_listed_as_a_directory_that_is_a_reparse_point() {
    let mut fixture = fixture_with(|share| share.names.hide_unreadable = true, |_| {});
    let link = (FileAttributes::DIRECTORY | FileAttributes::REPARSE_POINT, ReparseTag::DFS);
    assert_eq!(fixture.entry("", "link"), link);
    assert_eq!(fixture.entry("", "empty"), link);
    assert_eq!(fixture.entry("dir", "deep"), link);
    assert_eq!(fixture.entry("to_dir", "deep"), link);
    assert_eq!(fixture.entry("", "dir"), (FileAttributes::DIRECTORY, ReparseTag(0)));
    assert_eq!(fixture.entry("", "to_dir"), (FileAttributes::DIRECTORY, ReparseTag(0)));
    assert_eq!(fixture.entry("", "dangling").1, ReparseTag::SYMLINK);
}

#[test]
fn a_referral_has_the_targets_of_the_first_link_on_the_path() {
    let mut fixture = fixture();
    let deep = [r"\one\data\below", r"\two\data", r"\three\data"];
    for share in ["IPC$", "share"] {
        assert_eq!(fixture.client.tree_connect(share), Status::SUCCESS);
        for (path, expected) in [
            (r"\server\share\link", Answer::link(r"\server\share\link", &[r"\one\data"])),
            (r"\server\share\link\", Answer::link(r"\server\share\link", &[r"\one\data"])),
            (r"\10.0.0.1\SHARE\Link\a\b", Answer::link(r"\10.0.0.1\SHARE\Link", &[r"\one\data"])),
            (r"\server\share\dir\deep\a", Answer::link(r"\server\share\dir\deep", &deep)),
            (r"\server\share\to_dir\deep\a", Answer::link(r"\server\share\to_dir\deep", &deep)),
            (r"\server\share\loop\loop\dir\deep", Answer::link(r"\server\share\loop\loop\dir\deep", &deep)),
            (r"\server\share", Answer::root(r"\server\share")),
            (r"\server\share\", Answer::root(r"\server\share")),
        ] {
            assert_eq!(fixture.refer(path), Ok(expected), "{path}");
        }
        for path in
            [r"\server\share\dir", r"\server\share\missing\x", r"\server\share\dir\..\link", r"\server\share\a:b:c"]
        {
            assert_eq!(fixture.refer(path), Ok(Answer::root(r"\server\share")), "{path}");
        }
    }
}

#[test]
fn requests_without_a_referral() {
    let mut fixture = fixture_with(
        |share| share.names.veto_files = vec!["to_dir".into()],
        |policy| {
            let mut closed = Share::new("closed", "/closed");
            closed.dfs.root = true;
            closed.access.valid_users = vec![UserPattern::User("bob".into())];
            policy.shares.insert(fold("closed"), Arc::new(closed));
            policy.shares.insert(fold("plain"), Arc::new(Share::new("plain", "/plain")));
        },
    );
    for (path, expected) in [
        ("", Status::INVALID_PARAMETER),
        (r"\", Status::INVALID_PARAMETER),
        (r"\server", Status::INVALID_PARAMETER),
        (r"\server\none", Status::NOT_FOUND),
        (r"\server\plain", Status::NOT_FOUND),
        (r"\server\IPC$", Status::NOT_FOUND),
        (r"\server\share\empty", Status::NOT_FOUND),
        (r"\server\share\wrong\a", Status::NOT_FOUND),
        (r"\server\closed", Status::ACCESS_DENIED),
        (r"\server\closed\link", Status::ACCESS_DENIED),
    ] {
        assert_eq!(fixture.refer(path), Err(expected), "{path}");
    }
    let long = format!(r"\server\share{}", r"\a".repeat(16_374));
    assert_eq!((long.len(), fixture.refer(&long)), (32_761, Err(Status::INVALID_PARAMETER)));
    assert_eq!(fixture.refer(&long[..32_760]), Ok(Answer::root(r"\server\share")));
    let hidden = fixture.refer(r"\server\share\to_dir\deep");
    assert_eq!(hidden, Ok(Answer::root(r"\server\share")), "a vetoed name does not exist");
    let on_file = fixture.ask(FsctlCode::DFS_GET_REFERRALS, FileId { persistent: 1, volatile: 1 }, &[3, 0, 0, 0], 4096);
    assert_eq!(on_file, Err(Status::INVALID_PARAMETER));
    let ask = |fixture: &mut Fixture, input: &[u8]| fixture.ask(FsctlCode::DFS_GET_REFERRALS, FileId::ANY, input, 4096);
    assert_eq!(ask(&mut fixture, &[]), Err(Status::INVALID_PARAMETER));
    assert_eq!(ask(&mut fixture, &[3, 0, b'\\', 0]), Err(Status::INVALID_PARAMETER));
    let anonymous = &mut TestClient::new(&fixture.server);
    anonymous.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(anonymous.log_on_anonymously(), Status::SUCCESS);
    assert_eq!(anonymous.tree_connect("IPC$"), Status::SUCCESS);
    std::mem::swap(&mut fixture.client, anonymous);
    assert_eq!(fixture.refer(r"\server\share\link"), Err(Status::ACCESS_DENIED));
}

#[test]
fn a_response_has_a_version_that_the_client_understands_and_fits_its_buffer() {
    let mut fixture = fixture();
    let path = r"\server\share\dir\deep\a";
    assert_eq!(fixture.refer_in(path, 0, 4096), Err(Status::INVALID_PARAMETER));
    for (level, version) in [(1, Version::V1), (2, Version::V2), (3, Version::V3), (4, Version::V3), (9, Version::V3)] {
        let found = fixture.refer_in(path, level, 4096).expect("a referral");
        assert_eq!((found.version, found.targets.len(), found.consumed), (version, 3, 44), "{level}");
        let both = found.flags.contains(HeaderFlags::REFERRAL_SERVERS);
        assert_eq!(both, version == Version::V1, "{level}");
    }
    let mut counts = BTreeSet::new();
    for space in 0..400 {
        counts.insert(fixture.refer_in(path, 3, space).map_or_else(
            |refused| {
                assert_eq!(refused, Status::BUFFER_OVERFLOW, "{space}");
                0
            },
            |found| found.targets.len(),
        ));
    }
    assert_eq!(counts, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn an_extended_request_has_the_same_answer() {
    let mut fixture = fixture();
    let (name, site) = (utf16_bytes(r"\server\share\link\a"), utf16_bytes("site"));
    for site_name in [None, Some(&site[..])] {
        let request = ReferralRequest { max_referral_level: 4, request_file_name: &name, site_name };
        let mut input = Vec::new();
        request.encode_ex(&mut proto::bytes::Writer::new(&mut input));
        let output = fixture.ask(FsctlCode::DFS_GET_REFERRALS_EX, FileId::ANY, &input, 4096).expect("a referral");
        assert_eq!(Answer::decode(&output), Answer::link(r"\server\share\link", &[r"\one\data"]));
    }
}

#[test]
fn a_link_with_many_targets_is_bounded() {
    let mut fixture = fixture();
    let targets: Vec<String> = (0..300).map(|index| format!(r"s{index}\d")).collect();
    fixture.server.create_locally("many", NewFile::symlink(format!("msdfs:{}", targets.join(",")).as_bytes(), None));
    let found = fixture.refer_in(r"\server\share\many", 3, 65_536).expect("a referral");
    assert_eq!((found.targets.len(), &*found.targets[63]), (64, r"\s63\d"));
}

#[test]
fn targets_are_shuffled_if_the_share_says_so() {
    let mut fixture = fixture_with(|share| share.dfs.shuffle = true, |_| {});
    let mut orders = BTreeSet::new();
    for _ in 0..200 {
        orders.insert(fixture.refer(r"\server\share\dir\deep").expect("a referral").targets);
    }
    // The random numbers of the test are not random enough for every order.
    assert!(orders.len() > 1, "{orders:?}");
}

#[test]
fn a_proxy_is_only_a_referral() {
    let mut fixture = fixture_with(
        |_| {},
        |policy| {
            let mut proxy = Share::new("proxy", "");
            proxy.dfs.proxy = vec![r"\one\data".into(), r"\two\data".into()];
            policy.shares.insert(fold("proxy"), Arc::new(proxy));
        },
    );
    assert_eq!(fixture.connect("proxy"), Err(Status::BAD_NETWORK_NAME));
    let targets = [r"\one\data", r"\two\data"];
    for path in [r"\server\proxy", r"\server\proxy\a\b"] {
        assert_eq!(fixture.refer(path), Ok(Answer::link(r"\server\proxy", &targets)), "{path}");
    }
}

/// An empty ACL of the share with this name, and no ACLs of others.
struct Closed(&'static str);

impl ShareAcls for Closed {
    fn acl_of(&self, share: &str) -> Option<Arc<SecurityDescriptor>> {
        let acl = SecurityDescriptor { dacl: Acl::new(2, Vec::new()), ..SecurityDescriptor::default() };
        share.eq_ignore_ascii_case(self.0).then(|| Arc::new(acl))
    }
}

/// Adds a second root with the same path, and a proxy.
fn with_others(policy: &mut Policy, change: impl Fn(&mut Share)) {
    for name in ["other", "proxy"] {
        let mut share = Share::new(name, "/share");
        share.dfs.root = true;
        if name == "proxy" {
            share.dfs.proxy = vec![r"\one\data".into()];
        }
        change(&mut share);
        policy.shares.insert(fold(name), Arc::new(share));
    }
}

#[test]
fn a_share_acl_also_applies_to_referrals() {
    for (closed, other, proxy) in [("other", false, true), ("proxy", true, false), ("none", true, true)] {
        let mut fixture = fixture_with(
            |_| {},
            |policy| {
                policy.share_acls = Some(Arc::new(Closed(closed)));
                with_others(policy, |_| {});
            },
        );
        let mut is_denied = |path| match fixture.refer(path) {
            Ok(_) => false,
            Err(status) => {
                assert_eq!(status, Status::ACCESS_DENIED, "{path} if {closed} is closed");
                true
            }
        };
        assert_eq!((!is_denied(r"\server\other\link"), !is_denied(r"\server\proxy")), (other, proxy), "{closed}");
    }
}

/// A guest's session has no keys, so it cannot connect to the share, and is not told where its data is either.
#[test]
fn a_share_that_requires_encryption_refers_no_guests() {
    for (encryption, expected) in [(Encryption::Required, Err(Status::ACCESS_DENIED)), (Encryption::Off, Ok(()))] {
        let identity = Arc::new(Identity { uid: 65534, gid: 65534, groups: Box::new([]) });
        let mut fixture = fixture_with(
            |share| share.access.guest_ok = true,
            |policy| {
                policy.guest = Some(Guest { name: "nobody".into(), identity });
                policy.map_to_guest = MapToGuest::BadUser;
                with_others(policy, |share| {
                    (share.access.guest_ok, share.access.server_smb_encrypt) = (true, encryption);
                });
            },
        );
        fixture.client = TestClient::new(&fixture.server);
        fixture.client.negotiate(SecurityMode::SIGNING_ENABLED);
        assert_eq!(fixture.client.log_on("stranger", "", 0), Status::SUCCESS);
        assert_eq!(fixture.client.tree_connect("share"), Status::SUCCESS);
        for path in [r"\server\other\link", r"\server\proxy"] {
            assert_eq!(fixture.refer(path).map(drop), expected, "{path} with {encryption:?}");
        }
    }
}

/// Returns the capabilities in the response to NEGOTIATE.
fn capabilities(server: &TestServer) -> Capabilities {
    let response = TestClient::new(server).negotiate(SecurityMode::SIGNING_ENABLED);
    NegotiateResponse::decode(&response).expect("a response").capabilities
}

#[test]
fn dfs_is_announced_unless_it_is_off() {
    let mut on = fixture();
    assert!(capabilities(&on.server).contains(Capabilities::DFS));
    let share = on.connect("share").expect("the share");
    assert_eq!(share.capabilities, ShareCapabilities::DFS);
    assert!(share.share_flags.contains(ShareFlags::DFS | ShareFlags::DFS_ROOT));
    let pipes = on.connect("IPC$").expect("the pipes");
    assert!(pipes.capabilities.is_empty() && !pipes.share_flags.intersects(ShareFlags::DFS | ShareFlags::DFS_ROOT));

    let mut off = fixture_with(|share| share.dfs.proxy = vec![r"\one\data".into()], |policy| policy.host_msdfs = false);
    assert!(!capabilities(&off.server).contains(Capabilities::DFS));
    let share = off.connect("share").expect("the share");
    assert!(share.capabilities.is_empty() && !share.share_flags.intersects(ShareFlags::DFS | ShareFlags::DFS_ROOT));
    assert_eq!(off.refer(r"\server\share\link"), Err(Status::FS_DRIVER_REQUIRED));
    assert_eq!(off.open("link"), Status::STOPPED_ON_SYMLINK);
    assert_eq!(off.entry("", "link").1, ReparseTag::SYMLINK);
    assert_eq!(off.open_dfs(r"server\share\file"), Status::OBJECT_PATH_NOT_FOUND, "an ordinary path");
}

#[test]
fn other_shares_have_no_links_and_no_paths_of_the_namespace() {
    let mut fixture = fixture_with(|share| share.dfs.root = false, |_| {});
    assert_eq!(fixture.open("link"), Status::STOPPED_ON_SYMLINK);
    assert_eq!(fixture.open_dfs(r"server\share\file"), Status::OBJECT_PATH_NOT_FOUND);
    assert_eq!(fixture.refer(r"\server\share\link"), Err(Status::NOT_FOUND));
    let share = fixture.connect("share").expect("the share");
    assert!(share.capabilities.is_empty() && !share.share_flags.intersects(ShareFlags::DFS | ShareFlags::DFS_ROOT));
}

#[test]
fn a_directory_with_the_name_of_a_target_is_not_reached_by_the_link() {
    let mut fixture = fixture();
    fixture.server.create_locally("msdfs:x", NewFile::new(Create::Directory, 0o777));
    fixture.server.create_locally("trap", NewFile::symlink(b"msdfs:x", None));
    assert_eq!(fixture.open("trap"), Status::PATH_NOT_COVERED);
    assert_eq!(fixture.open(r"trap\file"), Status::PATH_NOT_COVERED);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    server::testing::passes_on_remote_storage(&[]);
}
