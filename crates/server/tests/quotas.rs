//! Quotas: the quota file, queries and changes, free space within a quota, and writes beyond it.

use std::sync::Arc;
use std::time::Duration;

use proto::bytes::{Reader, Writer, utf16_bytes};
use proto::dtyp::{AccessMask, Sid};
use proto::fscc::{
    EntryChain, FileFsAttributeInformation, FileFsControlInformation, FileFsFullSizeInformation, FileFsSizeInformation,
    FileGetQuotaInformation, FileInformationClass, FileQuotaInformation, FileSystemAttributes, FileSystemControlFlags,
    FsInformationClass,
};
use proto::smb2::FileId;
use proto::smb2::create::{CreateDisposition, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};
use proto::smb2::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse, QueryQuotaInfo};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::status::Status;
use server::audit::{Destinations, Queue};
use server::policy::audit::{Audit, Destination, Operations, Overflow};
use server::policy::{Share, Template, UserPattern};
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::memory::Options;

const QUOTA_FILE: &str = r"$Extend\$Quota:$Q:$INDEX_ALLOCATION";
const KIB: u64 = 1024;
const NONE: u64 = u64::MAX;
/// The uid of the account of bob.
const BOB: u32 = 1001;

/// A server on which alice is an administrator of the share.
fn server() -> TestServer {
    let options = Options { quotas: true, mode: 0o777, ..Options::default() };
    let builder = TestServer::builder().volume_options(options);
    let configure = |share: &mut Share| {
        share.access.admin_users = vec![UserPattern::User("alice".into())];
        share.sync.strict_allocate = true;
    };
    builder.share(configure).start()
}

fn create(client: &mut TestClient, path: &str, access: u32, disposition: CreateDisposition) -> Status {
    let name = utf16_bytes(path);
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        name: &name,
        ..CreateRequest::default()
    };
    status(&client.request(Command::CREATE, |out| create.encode(out)))
}

fn administrator(server: &TestServer) -> (TestClient, FileId) {
    let mut client = TestClient::logged_on(server, "alice");
    let file = client.open(QUOTA_FILE, AccessMask(0x0016_019f));
    (client, file)
}

/// Makes a query and returns the entries of the response.
fn query(
    client: &mut TestClient,
    file_id: FileId,
    wanted: QueryQuotaInfo<'_>,
    space: usize,
) -> Result<Vec<FileQuotaInformation>, Status> {
    let mut buffer = Vec::new();
    wanted.encode(&mut Writer::new(&mut buffer));
    let asked = QueryInfoRequest {
        info_type: InfoType::QUOTA,
        file_info_class: FileInformationClass::QUOTA.0,
        output_buffer_length: space as u32,
        file_id,
        buffer: &buffer,
        ..QueryInfoRequest::default()
    };
    let response = client.request(Command::QUERY_INFO, |out| asked.encode(out));
    match status(&response) {
        Status::SUCCESS => {
            let response = QueryInfoResponse::decode(&response).expect("a well-formed message");
            Ok(FileQuotaInformation::list(response.buffer).collect::<Result<_, _>>().expect("well-formed entries"))
        }
        status => Err(status),
    }
}

fn sid_list(sids: &[Sid]) -> Vec<u8> {
    let mut list = Vec::new();
    let mut out = Writer::new(&mut list);
    let mut chain = EntryChain::new(&out, FileGetQuotaInformation::ALIGNMENT, 1 << 20);
    for sid in sids {
        assert!(FileGetQuotaInformation { sid: *sid }.push(&mut chain, &mut out));
    }
    list
}

/// Returns what a user occupies, the threshold and the limit.
fn quota(client: &mut TestClient, file: FileId, sid: Sid) -> (u64, u64, u64) {
    let list = sid_list(&[sid]);
    let found = query(client, file, QueryQuotaInfo { sid_list: &list, ..QueryQuotaInfo::default() }, 4096);
    let found = found.expect("a quota");
    assert_eq!((found.len(), found[0].sid), (1, sid));
    (found[0].quota_used, found[0].quota_threshold, found[0].quota_limit)
}

fn set_info(client: &mut TestClient, file_id: FileId, info_type: InfoType, class: u8, buffer: &[u8]) -> Status {
    let asked = SetInfoRequest { info_type, file_info_class: class, additional_information: 0, file_id, buffer };
    status(&client.request(Command::SET_INFO, |out| asked.encode(out)))
}

fn set(client: &mut TestClient, file: FileId, sid: Sid, quota_threshold: u64, quota_limit: u64) -> Status {
    let mut buffer = Vec::new();
    let mut out = Writer::new(&mut buffer);
    let mut chain = EntryChain::new(&out, FileQuotaInformation::ALIGNMENT, 4096);
    let (change_time, quota_used) = Default::default();
    let entry = FileQuotaInformation { change_time, quota_used, quota_threshold, quota_limit, sid };
    assert!(entry.push(&mut chain, &mut out));
    set_info(client, file, InfoType::QUOTA, FileInformationClass::QUOTA.0, &buffer)
}

fn file_system(client: &mut TestClient, file_id: FileId, class: FsInformationClass) -> Vec<u8> {
    let asked = QueryInfoRequest {
        info_type: InfoType::FILESYSTEM,
        file_info_class: class.0,
        output_buffer_length: 4096,
        file_id,
        ..QueryInfoRequest::default()
    };
    let response = client.request(Command::QUERY_INFO, |out| asked.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    QueryInfoResponse::decode(&response).expect("a well-formed message").buffer.to_vec()
}

fn control(client: &mut TestClient, file_id: FileId) -> FileFsControlInformation {
    let bytes = file_system(client, file_id, FsInformationClass::CONTROL);
    FileFsControlInformation::decode(&mut Reader::new(&bytes)).expect("a well-formed structure")
}

fn set_control(client: &mut TestClient, file: FileId, information: FileFsControlInformation) -> Status {
    let mut buffer = Vec::new();
    information.encode(&mut Writer::new(&mut buffer));
    set_info(client, file, InfoType::FILESYSTEM, FsInformationClass::CONTROL.0, &buffer)
}

/// Creates a file, and returns a handle to write it.
fn file(client: &mut TestClient, name: &str) -> FileId {
    assert_eq!(create(client, name, 0x0012_019f, CreateDisposition::CREATE), Status::SUCCESS);
    client.open(name, AccessMask(0x0012_019f))
}

fn write(client: &mut TestClient, file_id: FileId, offset: u64, data: &[u8]) -> Status {
    let length = data.len() as u32;
    let write = WriteRequest { length, offset, file_id, buffer: data, ..WriteRequest::default() };
    status(&client.request(Command::WRITE, |out| write.encode(out)))
}

#[test]
fn only_administrators_open_the_quota_file() {
    let server = server();
    let mut bob = TestClient::logged_on(&server, "bob");
    assert_eq!(create(&mut bob, QUOTA_FILE, 0x0012_0089, CreateDisposition::OPEN), Status::ACCESS_DENIED);
    let mut alice = TestClient::logged_on(&server, "alice");
    assert_eq!(create(&mut alice, QUOTA_FILE, 0x0012_0089, CreateDisposition::OPEN), Status::SUCCESS);
    assert_eq!(create(&mut alice, QUOTA_FILE, 0x0012_0089, CreateDisposition::CREATE), Status::OBJECT_NAME_COLLISION);
    assert_eq!(create(&mut alice, QUOTA_FILE, 0x0012_0089, CreateDisposition::OVERWRITE), Status::ACCESS_DENIED);
    let handle = alice.open(&QUOTA_FILE.to_lowercase(), AccessMask(0x0012_0089));
    assert_eq!(write(&mut alice, handle, 0, b"data"), Status::INVALID_DEVICE_REQUEST);
    assert_eq!(set(&mut alice, handle, Sid::unix_user(BOB), NONE, KIB), Status::ACCESS_DENIED, "read only");
    alice.close(handle);
    // No other handle will do.
    let own = sid_list(&[Sid::unix_user(BOB)]);
    let wanted = QueryQuotaInfo { sid_list: &own, ..QueryQuotaInfo::default() };
    for client in [&mut alice, &mut bob] {
        let root = client.open("", AccessMask(0x0012_0089));
        assert_eq!(query(client, root, wanted, 4096), Err(Status::INVALID_HANDLE));
        assert_eq!(set(client, root, Sid::unix_user(BOB), NONE, NONE), Status::INVALID_HANDLE);
        assert_eq!(set_control(client, root, FileFsControlInformation::default()), Status::INVALID_HANDLE);
        assert_eq!(set_info(client, root, InfoType::FILESYSTEM, 2, &[0; 64]), Status::NOT_SUPPORTED);
    }
}

#[test]
fn a_file_system_without_quotas() {
    let builder = TestServer::builder();
    let server = builder.share(|share| share.access.admin_users = vec![UserPattern::User("alice".into())]).start();
    let (mut alice, handle) = administrator(&server);
    assert_eq!(query(&mut alice, handle, QueryQuotaInfo::default(), 4096), Err(Status::NOT_SUPPORTED));
    assert_eq!(set(&mut alice, handle, Sid::unix_user(BOB), NONE, KIB), Status::NOT_SUPPORTED);
    let rules = control(&mut alice, handle);
    assert_eq!((rules.default_quota_limit, rules.file_system_control_flags.0), (NONE, 0));
}

#[test]
fn limits_are_set_and_queried() {
    let server = server();
    let (mut alice, handle) = administrator(&server);
    let bob = Sid::unix_user(BOB);
    assert_eq!(quota(&mut alice, handle, bob), (0, NONE, NONE));
    assert_eq!(set(&mut alice, handle, bob, 500 * KIB, 1000 * KIB), Status::SUCCESS);
    assert_eq!(quota(&mut alice, handle, bob), (0, 500 * KIB, 1000 * KIB));
    // A group, and a user without an account.
    let group = Sid::unix_group(77);
    assert_eq!(set(&mut alice, handle, group, NONE, 4096), Status::SUCCESS);
    assert_eq!(quota(&mut alice, handle, group), (0, NONE, 4096));
    let stranger = Sid::of(5, [21, 9, 9, 9, 1234]);
    assert_eq!(quota(&mut alice, handle, stranger), (0, 0, 0), "an unknown user has an entry of zeros");
    assert_eq!(set(&mut alice, handle, stranger, NONE, KIB), Status::INVALID_SID);
    // -2 deletes the entry.
    assert_eq!(set(&mut alice, handle, bob, 7, NONE - 1), Status::SUCCESS);
    assert_eq!(quota(&mut alice, handle, bob), (0, NONE, NONE));
    assert_eq!(set(&mut alice, handle, bob, 2000, 1000), Status::INVALID_PARAMETER);
    assert_eq!(set(&mut alice, handle, Sid::unix_user(0), NONE, KIB), Status::ACCESS_DENIED);
    assert_eq!(set(&mut alice, handle, Sid::BUILTIN_ADMINISTRATORS, NONE, KIB), Status::ACCESS_DENIED);
    assert_eq!(set(&mut alice, handle, Sid::BUILTIN_ADMINISTRATORS, NONE, NONE), Status::SUCCESS);
    assert_eq!(set_info(&mut alice, handle, InfoType::QUOTA, 32, &[]), Status::INVALID_PARAMETER);
    assert_eq!(set_info(&mut alice, handle, InfoType::QUOTA, 32, &[0; 9]), Status::INVALID_PARAMETER);
}

#[test]
fn users_are_enumerated_in_parts() {
    let server = server();
    let (mut alice, handle) = administrator(&server);
    let uids: Vec<u32> = (5000..5700).collect();
    for uid in &uids {
        assert_eq!(set(&mut alice, handle, Sid::unix_user(*uid), NONE, u64::from(*uid) * 4096), Status::SUCCESS);
    }
    let mut all = |space: usize, return_single: bool, limit: usize| {
        let mut found = Vec::new();
        let mut restart_scan = true;
        loop {
            let wanted = QueryQuotaInfo { return_single, restart_scan, ..QueryQuotaInfo::default() };
            match query(&mut alice, handle, wanted, space) {
                Ok(entries) => {
                    assert!(!entries.is_empty() && entries.len() <= limit, "{} entries", entries.len());
                    found.extend(entries.iter().filter_map(|entry| entry.sid.as_unix_user()));
                }
                Err(status) => {
                    assert_eq!(status, Status::NO_MORE_ENTRIES);
                    return found;
                }
            }
            restart_scan = false;
        }
    };
    // Root owns the root directory.
    let expected: Vec<u32> = [0].into_iter().chain(uids).collect();
    assert_eq!(all(65_536, false, 128), expected, "a large buffer");
    assert_eq!(all(200, false, 3), expected, "three fit");
    assert_eq!(all(65_536, true, 1), expected, "one at a time");
    // The end of the enumeration stays.
    assert_eq!(query(&mut alice, handle, QueryQuotaInfo::default(), 4096), Err(Status::NO_MORE_ENTRIES));
    let start = sid_bytes(Sid::unix_user(5697));
    let wanted = QueryQuotaInfo { start_sid: &start, ..QueryQuotaInfo::default() };
    let found = query(&mut alice, handle, wanted, 4096).expect("users after the first");
    assert_eq!(found.iter().filter_map(|entry| entry.sid.as_unix_user()).collect::<Vec<_>>(), [5698, 5699]);
    let restart = QueryQuotaInfo { restart_scan: true, ..QueryQuotaInfo::default() };
    for space in [0, 40, 55] {
        assert_eq!(query(&mut alice, handle, restart, space), Err(Status::BUFFER_TOO_SMALL), "{space}");
    }
}

fn sid_bytes(sid: Sid) -> Vec<u8> {
    let mut bytes = Vec::new();
    sid.encode(&mut Writer::new(&mut bytes));
    bytes
}

#[test]
fn a_list_of_users_is_bounded() {
    let server = server();
    let (mut alice, handle) = administrator(&server);
    let users = |count: u32| sid_list(&(0..count).map(|uid| Sid::unix_user(2000 + uid)).collect::<Vec<_>>());
    let list = users(3);
    let wanted = QueryQuotaInfo { sid_list: &list, ..QueryQuotaInfo::default() };
    assert_eq!(query(&mut alice, handle, wanted, 4096).map(|found| found.len()), Ok(3));
    assert_eq!(query(&mut alice, handle, wanted, 150).map(|found| found.len()), Ok(2), "what fits");
    assert_eq!(query(&mut alice, handle, wanted, 10), Err(Status::BUFFER_TOO_SMALL));
    let single = QueryQuotaInfo { return_single: true, ..wanted };
    assert_eq!(query(&mut alice, handle, single, 4096).map(|found| found.len()), Ok(1));
    let list = users(256);
    let wanted = QueryQuotaInfo { sid_list: &list, ..QueryQuotaInfo::default() };
    assert_eq!(query(&mut alice, handle, wanted, 60_000).map(|found| found.len()), Ok(256));
    let list = users(257);
    let wanted = QueryQuotaInfo { sid_list: &list, ..QueryQuotaInfo::default() };
    assert_eq!(query(&mut alice, handle, wanted, 60_000), Err(Status::INSUFFICIENT_RESOURCES));
    let wanted = QueryQuotaInfo { sid_list: &list[..21], ..QueryQuotaInfo::default() };
    assert_eq!(query(&mut alice, handle, wanted, 4096), Err(Status::INVALID_PARAMETER));
}

#[test]
fn the_rules_of_the_file_system() {
    let server = server();
    let (mut alice, handle) = administrator(&server);
    let mut rules = control(&mut alice, handle);
    assert_eq!(rules.file_system_control_flags, FileSystemControlFlags::QUOTA_ENFORCE);
    rules.default_quota_limit = 1 << 30;
    rules.file_system_control_flags = FileSystemControlFlags::QUOTA_TRACK;
    assert_eq!(set_control(&mut alice, handle, rules), Status::SUCCESS);
    assert_eq!(control(&mut alice, handle), rules);
    // Others do not see the default limits.
    let mut bob = TestClient::logged_on(&server, "bob");
    let root = bob.open("", AccessMask(0x0012_0089));
    let seen = control(&mut bob, root);
    assert_eq!((seen.default_quota_limit, seen.file_system_control_flags), (NONE, rules.file_system_control_flags));
    // Counting cannot end.
    rules.file_system_control_flags = FileSystemControlFlags(0);
    assert_eq!(set_control(&mut alice, handle, rules), Status::NOT_SUPPORTED);
    let class = FsInformationClass::CONTROL.0;
    assert_eq!(set_info(&mut alice, handle, InfoType::FILESYSTEM, class, &[0; 40]), Status::INFO_LENGTH_MISMATCH);
    assert_eq!(set_info(&mut alice, handle, InfoType::FILESYSTEM, 2, &[0; 64]), Status::NOT_SUPPORTED);
}

/// Returns the size and the free space in KiB, and whether the file system has more.
fn free(client: &mut TestClient, handle: FileId) -> (u64, u64, bool) {
    let bytes = file_system(client, handle, FsInformationClass::FULL_SIZE);
    let full = FileFsFullSizeInformation::decode(&mut Reader::new(&bytes)).expect("a well-formed structure");
    let bytes = file_system(client, handle, FsInformationClass::SIZE);
    let size = FileFsSizeInformation::decode(&mut Reader::new(&bytes)).expect("a well-formed structure");
    assert_eq!(full.total_allocation_units, size.total_allocation_units);
    assert_eq!(full.caller_available_allocation_units, size.available_allocation_units);
    let all = full.actual_available_allocation_units;
    (size.total_allocation_units * 4, size.available_allocation_units * 4, all > 1000)
}

#[test]
fn a_stream_has_the_space_of_its_file() {
    let server = server();
    let (mut alice, handle) = administrator(&server);
    assert_eq!(set(&mut alice, handle, Sid::unix_user(BOB), NONE, 256 * KIB), Status::SUCCESS);
    let mut bob = TestClient::logged_on(&server, "bob");
    let written = file(&mut bob, "written");
    let stream = file(&mut bob, "written:stream");
    assert_eq!(write(&mut bob, written, 0, &[1; 40 << 10]), Status::SUCCESS);
    let (size, left, more) = free(&mut bob, stream);
    assert!(size == 256 && left <= 216 && more, "{size} {left} {more}");
    assert_eq!(free(&mut bob, written), (size, left, more));
    let bytes = file_system(&mut bob, stream, FsInformationClass::ATTRIBUTE);
    let attributes = FileFsAttributeInformation::decode(&mut Reader::new(&bytes)).expect("a well-formed structure");
    assert!(attributes.file_system_attributes.contains(FileSystemAttributes::VOLUME_QUOTAS));
}

#[test]
fn free_space_and_writes_end_at_the_quota() {
    let server = server();
    let (mut alice, handle) = administrator(&server);
    assert_eq!(set(&mut alice, handle, Sid::unix_user(BOB), NONE, 64 * KIB), Status::SUCCESS);
    let mut bob = TestClient::logged_on(&server, "bob");
    let written = file(&mut bob, "written");
    assert_eq!(free(&mut bob, written), (64, 64, true));
    assert_eq!(write(&mut bob, written, 0, &[1; 40 << 10]), Status::SUCCESS);
    assert_eq!(quota(&mut alice, handle, Sid::unix_user(BOB)), (40 * KIB, NONE, 64 * KIB));
    assert_eq!(free(&mut bob, written), (64, 24, true));
    assert_eq!(write(&mut bob, written, 40 * KIB, &[1; 40 << 10]), Status::DISK_FULL, "never a short success");
    assert_eq!(quota(&mut alice, handle, Sid::unix_user(BOB)), (64 * KIB, NONE, 64 * KIB));
    assert_eq!(free(&mut bob, written), (64, 0, true));
    // Allocation of more fails, too, and root's own files are not limited.
    let more = (1u64 << 20).to_le_bytes();
    let class = FileInformationClass::ALLOCATION.0;
    assert_eq!(set_info(&mut bob, written, InfoType::FILE, class, &more), Status::DISK_FULL);
    let others = file(&mut alice, "others");
    assert_eq!(write(&mut alice, others, 0, &[1; 60 << 10]), Status::SUCCESS);
    assert_eq!(write(&mut alice, others, 60 << 10, &[1; 60 << 10]), Status::SUCCESS);
    let full = file_system(&mut alice, others, FsInformationClass::SIZE);
    let full = FileFsSizeInformation::decode(&mut Reader::new(&full)).expect("a well-formed structure");
    assert!(full.available_allocation_units > 1000, "{full:?}");
}

#[test]
fn holes_are_filled_beyond_the_soft_limit() {
    let server = server();
    let (mut alice, handle) = administrator(&server);
    assert_eq!(set(&mut alice, handle, Sid::unix_user(BOB), 4 * KIB, 64 * KIB), Status::SUCCESS);
    let mut bob = TestClient::logged_on(&server, "bob");
    let written = file(&mut bob, "written");
    assert_eq!(write(&mut bob, written, 0, &[1; 8 << 10]), Status::SUCCESS);
    let resize = |client: &mut TestClient, size: u64| {
        let class = FileInformationClass::END_OF_FILE.0;
        assert_eq!(set_info(client, written, InfoType::FILE, class, &size.to_le_bytes()), Status::SUCCESS);
    };
    let sparse = |client: &mut TestClient, sparse: u8| {
        let input = [sparse];
        let (ctl_code, flags) = (FsctlCode::SET_SPARSE, IoctlFlags::IS_FSCTL);
        let asked = IoctlRequest { ctl_code, file_id: written, input: &input, flags, ..IoctlRequest::default() };
        status(&client.request(Command::IOCTL, |out| asked.encode(out)))
    };
    assert_eq!(sparse(&mut bob, 1), Status::SUCCESS);
    resize(&mut bob, 16 * KIB);
    assert_eq!(sparse(&mut bob, 0), Status::SUCCESS, "the hard limit is not exceeded");
    assert_eq!(quota(&mut alice, handle, Sid::unix_user(BOB)).0, 16 * KIB);
    assert_eq!(sparse(&mut bob, 1), Status::SUCCESS);
    resize(&mut bob, 100 * KIB);
    assert_eq!(sparse(&mut bob, 0), Status::DISK_FULL, "the hard limit");
}

/// One queue for all destinations, which the test reads.
#[derive(Default)]
struct Lines(Arc<Queue>);

impl Destinations for Lines {
    fn queue(&self, _: &Destination) -> Arc<Queue> {
        Arc::clone(&self.0)
    }
}

#[test]
fn changes_are_in_the_audit() {
    let lines = Arc::<Queue>::default();
    let all = Operations::ALL;
    let audit = Audit { prefix: Template::parse("P").unwrap(), success: all, failure: all, ..Audit::default() };
    let configure = |share: &mut Share| {
        share.access.admin_users = vec![UserPattern::User("alice".into())];
        share.audit = Some(Arc::new(Audit { overflow: Overflow::Refuse, ..audit }));
    };
    let options = Options { quotas: true, mode: 0o777, ..Options::default() };
    let builder = TestServer::builder().volume_options(options).audit(Arc::new(Lines(Arc::clone(&lines))));
    let server = builder.share(configure).start();
    let new = || {
        let batch = lines.next(Duration::ZERO);
        lines.written(batch.events.len(), 0);
        batch.events.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (mut alice, handle) = administrator(&server);
    let file = "/share/$Extend/$Quota:$Q:$INDEX_ALLOCATION";
    assert_eq!(new(), ["P|connect|ok|share".to_owned(), format!("P|create_file|ok|0x16019f|file|open|{file}")]);
    assert_eq!(set(&mut alice, handle, Sid::unix_user(BOB), NONE, 4096), Status::SUCCESS);
    assert_eq!(set(&mut alice, handle, Sid::unix_user(BOB), 2000, 1000), Status::INVALID_PARAMETER);
    let rules = control(&mut alice, handle);
    assert_eq!(set_control(&mut alice, handle, rules), Status::SUCCESS);
    let expected = [
        format!("P|set_quota|ok|{file}|S-1-22-1-1001|-|4096"),
        format!("P|set_quota|fail (Invalid argument)|{file}|S-1-22-1-1001|2000|1000"),
        format!("P|set_quota|ok|{file}|0x2|-|-"),
    ];
    assert_eq!(new(), expected);
    let mut bob = TestClient::logged_on(&server, "bob");
    assert_eq!(create(&mut bob, QUOTA_FILE, 0x0012_0089, CreateDisposition::OPEN), Status::ACCESS_DENIED);
    assert_eq!(new().last(), Some(&format!("P|create_file|fail (Permission denied)|0x120089|file|open|{file}")));
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
