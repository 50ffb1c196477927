//! Windows ACLs seen from the client's side: what is set comes back, what is made inherits, and what is not granted is
//! refused ([MS-FSA] 2.1.5.1.2.1, 2.1.5.14, 2.1.5.17).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::bytes::utf16_bytes;
use proto::dtyp::acl::{Ace, AceFlags, AceType};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::fscc::FileInformationClass;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{CreateContext, QueryMaximalAccessResponse, name};
use proto::smb2::header::Command;
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType, SecurityInformation};
use proto::status::Status;
use server::answer::block_on;
use server::policy::{AclStyle, InheritOwner, Share, StoredAcls, UserPattern};
use server::rig::{self, Client, status};
use server::security::store;
use server::server::Server;
use server::vfs::faulty::{Fault, Faulty, Operation, Script};
use server::vfs::{Case, Errno, Identity, Links, Lookup, Node, RelPath, SetMetadata, Time, Vfs};

const ALICE: Sid = Sid::unix_user(1000);
const BOB: Sid = Sid::unix_user(1001);
/// The SIDs of the rig's accounts: domain 1-2-3, and the user's id.
const BOBS_ACCOUNT: Sid = Sid::of(5, [21, 1, 2, 3, 1001]);
const INHERITED: AceFlags = AceFlags(AceFlags::OBJECT_INHERIT.0 | AceFlags::CONTAINER_INHERIT.0);
const OWNER_GROUP_DACL: SecurityInformation = SecurityInformation(7);

/// A server whose share stores descriptors, with alice and bob on it.
struct Scene {
    server: Arc<Server>,
    volume: Arc<dyn Vfs>,
    alice: Client,
    bob: Client,
}

impl Scene {
    fn new() -> Scene {
        Scene::with(|_| {})
    }

    fn with(adjust: impl FnOnce(&mut Share)) -> Scene {
        let world: Arc<dyn server::world::World> = Arc::new(rig::Still::default());
        let volume = rig::memory(world.clone());
        let mut policy = rig::policy();
        let mut share = Share::clone(&policy.shares["share"]);
        share.acls = Some(StoredAcls {
            attribute: "security.NTACL".into(),
            ignore_system_acls: false,
            default_style: AclStyle::Posix,
        });
        adjust(&mut share);
        policy.shares.insert("share".into(), Arc::new(share));
        let server = rig::server(policy, world, volume.clone());
        let [alice, bob] = ["alice", "bob"].map(|user| Client::logged_on(&server, user));
        Scene { server, volume, alice, bob }
    }

    /// The file as the kernel has it.
    fn node(&self, name: &str) -> Arc<dyn Node> {
        let root = Arc::new(root());
        let join = |path: RelPath, part: &str| path.join(part.as_bytes()).expect("a name");
        let path = name.split('/').fold(RelPath::root(), join);
        match block_on(self.volume.lookup(&root, &path, Case::Sensitive, Links::default())) {
            Ok(Lookup::Found { node, .. }) => node,
            _ => panic!("{name} is not there"),
        }
    }

    fn mode(&self, name: &str) -> u32 {
        block_on(self.node(name).metadata()).expect("it has some").mode
    }
}

fn root() -> Identity {
    Identity { uid: 0, gid: 0, groups: Box::new([]) }
}

fn create(client: &mut Client, path: &str, access: A, disposition: CreateDisposition, directory: bool) -> Vec<u8> {
    create_with(client, path, access, disposition, directory, Vec::new())
}

fn create_with(
    client: &mut Client,
    path: &str,
    access: A,
    disposition: CreateDisposition,
    directory: bool,
    contexts: Vec<CreateContext<'_>>,
) -> Vec<u8> {
    let path = utf16_bytes(path);
    let create = CreateRequest {
        desired_access: access.0,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        create_options: if directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions(0) },
        name: &path,
        create_contexts: contexts,
        ..CreateRequest::default()
    };
    client.request(Command::CREATE, |out| create.encode(out))
}

fn opened(response: &[u8]) -> FileId {
    assert_eq!(status(response), Status::SUCCESS);
    CreateResponse::decode(response).expect("it decodes").file_id
}

fn make(client: &mut Client, path: &str, directory: bool) -> FileId {
    opened(&create(client, path, A::FILE_ALL_ACCESS, CreateDisposition::CREATE, directory))
}

/// What opening for `access` ends with; an open is closed again.
fn open(client: &mut Client, path: &str, access: A) -> Status {
    let response = create(client, path, access, CreateDisposition::OPEN, false);
    if status(&response) == Status::SUCCESS {
        close(client, opened(&response));
    }
    status(&response)
}

fn close(client: &mut Client, file_id: FileId) {
    let close = CloseRequest { flags: CloseFlags(0), file_id };
    client.request(Command::CLOSE, |out| close.encode(out));
}

/// All rights that the `MxAc` context tells.
fn maximum(client: &mut Client, path: &str) -> A {
    let asked = vec![CreateContext::new(name::QUERY_MAXIMAL_ACCESS, Vec::new())];
    let response = create_with(client, path, A::READ_CONTROL, CreateDisposition::OPEN, false, asked);
    let contexts = CreateResponse::decode(&response).expect("it decodes").create_contexts;
    let context = CreateContext::find(&contexts, name::QUERY_MAXIMAL_ACCESS).expect("it was asked for");
    let answer = QueryMaximalAccessResponse::decode(&context.data).expect("it decodes");
    close(client, opened(&response));
    A(answer.maximal_access)
}

fn set(client: &mut Client, file_id: FileId, parts: SecurityInformation, descriptor: &SecurityDescriptor) -> Status {
    let buffer = descriptor.to_bytes();
    let set = SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_info_class: 0,
        additional_information: parts.0,
        file_id,
        buffer: &buffer,
    };
    status(&client.request(Command::SET_INFO, |out| set.encode(out)))
}

fn set_dacl(client: &mut Client, file_id: FileId, aces: Vec<Ace>) {
    let status = set(client, file_id, SecurityInformation::DACL, &with_dacl(Control::NONE, aces));
    assert_eq!(status, Status::SUCCESS);
}

fn with_dacl(control: Control, aces: Vec<Ace>) -> SecurityDescriptor {
    SecurityDescriptor {
        control: control | Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Acl::new(Acl::REVISION, aces),
        ..SecurityDescriptor::default()
    }
}

fn query(client: &mut Client, file_id: FileId, parts: SecurityInformation) -> SecurityDescriptor {
    let query = QueryInfoRequest {
        info_type: InfoType::SECURITY,
        file_info_class: 0,
        output_buffer_length: 65_536,
        additional_information: parts.0,
        file_id,
        ..QueryInfoRequest::default()
    };
    let response = client.request(Command::QUERY_INFO, |out| query.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    let answer = QueryInfoResponse::decode(&response).expect("it decodes");
    SecurityDescriptor::decode(answer.buffer).expect("it decodes")
}

fn rules(descriptor: &SecurityDescriptor) -> Vec<(Sid, A, AceFlags)> {
    let of = |ace: &Ace| ace.trustee().map(|(mask, sid)| (*sid, mask, ace.ace_flags));
    descriptor.dacl.iter().flat_map(Acl::aces).filter_map(of).collect()
}

fn allow(sid: Sid, mask: A) -> Ace {
    Ace::allow(sid, mask, AceFlags::NONE)
}

#[test]
fn what_is_set_is_what_is_shown() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    let stranger = Sid::of(5, [21, 9, 9, 9, 1104]);
    let aces = vec![
        Ace::deny(stranger, A::FILE_WRITE_DATA, AceFlags::NONE),
        allow(ALICE, A::GENERIC_ALL),
        allow(Sid::EVERYONE, A::FILE_READ_DATA),
        Ace::allow(Sid::SYSTEM, A::FILE_ALL_ACCESS, AceFlags(0x13)),
    ];
    let flags = Control::DACL_PROTECTED | Control::DACL_AUTO_INHERITED | Control::DACL_COMPUTED_INHERITANCE_REQUIRED;
    let given = SecurityDescriptor { group: Some(stranger), ..with_dacl(flags, aces.clone()) };
    assert_eq!(set(&mut scene.alice, file, OWNER_GROUP_DACL, &given), Status::SUCCESS);
    let shown = query(&mut scene.alice, file, OWNER_GROUP_DACL);
    let expanded = [aces[0].clone(), allow(ALICE, A::FILE_ALL_ACCESS), aces[2].clone(), aces[3].clone()].to_vec();
    assert_eq!(shown.dacl, Acl::new(Acl::REVISION, expanded));
    assert_eq!((shown.owner, shown.group), (Some(ALICE), Some(stranger)));
    let kept = Control::SELF_RELATIVE | Control::DACL_PRESENT | Control::DACL_PROTECTED | Control::DACL_AUTO_INHERITED;
    assert_eq!(shown.control, kept);
    let dacl = query(&mut scene.alice, file, SecurityInformation::DACL);
    assert_eq!((dacl.owner, dacl.dacl), (None, shown.dacl));
    assert_eq!(scene.mode("file"), 0o744, "Linux is told as well as it can be");
}

/// As in Samba, where the file keeps the SID that it was given.
#[test]
fn a_group_that_linux_does_not_know_is_the_callers_own_there() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    let gid = |scene: &Scene| block_on(scene.node("file").metadata()).expect("it has some").gid;
    let own = gid(&scene);
    let other = SetMetadata { gid: Some(own + 7), ..SetMetadata::default() };
    block_on(scene.node("file").set_metadata(&Arc::new(root()), other)).expect("root may");
    let group = Some(Sid::of(5, [21, 9, 9, 9, 513]));
    let given = SecurityDescriptor { group, ..SecurityDescriptor::default() };
    assert_eq!(set(&mut scene.alice, file, SecurityInformation::GROUP, &given), Status::SUCCESS);
    assert_eq!((gid(&scene), query(&mut scene.alice, file, SecurityInformation::GROUP).group), (own, group));
}

/// Both users are in the group that the file then has in Linux, and neither is in the SID's.
#[test]
fn nobody_is_a_member_of_a_group_that_linux_does_not_know() {
    let strangers = Sid::of(5, [21, 9, 9, 9, 512]);
    for is_set_first in [true, false] {
        let mut scene = Scene::with(|share| share.force_group = Some(500));
        let file = make(&mut scene.alice, "file", false);
        let group = SecurityDescriptor { group: Some(strangers), ..SecurityDescriptor::default() };
        if is_set_first {
            assert_eq!(set(&mut scene.alice, file, SecurityInformation::GROUP, &group), Status::SUCCESS);
        }
        let lists = vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(strangers, A::FILE_ALL_ACCESS)];
        set_dacl(&mut scene.alice, file, lists);
        if !is_set_first {
            assert_eq!(set(&mut scene.alice, file, SecurityInformation::GROUP, &group), Status::SUCCESS);
        }
        assert_eq!(query(&mut scene.alice, file, SecurityInformation::GROUP).group, Some(strangers));
        assert_eq!(block_on(scene.node("file").metadata()).expect("it has some").gid, 500);
        assert_eq!(scene.mode("file"), 0o700, "the kernel lets nobody in either");
        for access in [A::FILE_READ_DATA, A::FILE_WRITE_DATA, A::READ_CONTROL, A::DELETE] {
            let expected = if access == A::DELETE { Status::SUCCESS } else { Status::ACCESS_DENIED };
            assert_eq!(open(&mut scene.bob, "file", access), expected, "{access:?}: the directory lets him delete");
        }
        // What is denied to them is not denied to the group's members.
        let denied =
            vec![Ace::deny(strangers, A::FILE_READ_DATA, AceFlags::NONE), allow(Sid::EVERYONE, A::FILE_GENERIC_READ)];
        set_dacl(&mut scene.alice, file, denied);
        assert_eq!(open(&mut scene.bob, "file", A::FILE_READ_DATA), Status::SUCCESS);
    }
}

/// What no account has in the owner's place is the SID of the file's owner; what one has is that account's.
#[test]
fn the_owner_in_linux_is_an_owner_whom_nobody_knows_and_nobody_else() {
    let stranger = Sid::of(5, [21, 9, 9, 9, 1104]);
    for (owner, alices) in [(stranger, Status::SUCCESS), (BOBS_ACCOUNT, Status::ACCESS_DENIED)] {
        let mut scene = Scene::with(|share| {
            share.acls.as_mut().expect("they are stored").ignore_system_acls = true;
        });
        make(&mut scene.alice, "file", false);
        let list = with_dacl(Control::NONE, vec![allow(owner, A::FILE_ALL_ACCESS)]);
        let restored = store::encode_unconditional(&SecurityDescriptor { owner: Some(owner), ..list });
        let node = scene.node("file");
        block_on(node.set_xattr(&Arc::new(root()), "security.NTACL", Some(restored))).expect("root may");
        assert_eq!(open(&mut scene.alice, "file", A::WRITE_DAC | A::FILE_READ_DATA), alices, "{owner}");
    }
}

#[test]
fn what_is_not_granted_is_refused() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    assert_eq!(open(&mut scene.bob, "file", A::FILE_WRITE_DATA), Status::SUCCESS, "create mask = 0666");
    set_dacl(&mut scene.alice, file, vec![allow(Sid::EVERYONE, A(0x1_0003)), allow(ALICE, A::FILE_EXECUTE)]);
    let cases = [
        (A::FILE_READ_DATA, Status::SUCCESS, Status::SUCCESS),
        (A(0x1_0003), Status::SUCCESS, Status::SUCCESS),
        (A::FILE_EXECUTE, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::FILE_APPEND_DATA, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
        (A::FILE_READ_ATTRIBUTES, Status::SUCCESS, Status::SUCCESS),
        (A::READ_CONTROL, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::WRITE_DAC, Status::SUCCESS, Status::ACCESS_DENIED),
        (A::WRITE_OWNER, Status::ACCESS_DENIED, Status::ACCESS_DENIED),
        (A::ACCESS_SYSTEM_SECURITY, Status::PRIVILEGE_NOT_HELD, Status::PRIVILEGE_NOT_HELD),
    ];
    for (access, alices, bobs) in cases {
        let ended = (open(&mut scene.alice, "file", access), open(&mut scene.bob, "file", access));
        assert_eq!(ended, (alices, bobs), "{access:?}");
    }
    let expected = A(0x1_0003) | A::FILE_EXECUTE | A::READ_CONTROL | A::WRITE_DAC | A::FILE_READ_ATTRIBUTES;
    assert_eq!(maximum(&mut scene.alice, "file"), expected);
}

#[test]
fn accounts_count_as_the_users_that_they_are() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    set_dacl(&mut scene.alice, file, vec![allow(BOBS_ACCOUNT, A::READ_CONTROL | A::FILE_READ_EA)]);
    assert_eq!(open(&mut scene.bob, "file", A::READ_CONTROL), Status::SUCCESS);
    assert_eq!(open(&mut scene.bob, "file", A::FILE_WRITE_EA), Status::ACCESS_DENIED);
}

#[test]
fn new_files_inherit() {
    let mut scene = Scene::new();
    let directory = make(&mut scene.alice, "directory", true);
    let aces = vec![
        allow(ALICE, A::FILE_ALL_ACCESS),
        Ace::allow(Sid::EVERYONE, A::FILE_GENERIC_READ, INHERITED),
        Ace::allow(Sid::CREATOR_OWNER, A::GENERIC_ALL, INHERITED | AceFlags::INHERIT_ONLY),
        Ace::allow(BOB, A::FILE_ADD_FILE | A::FILE_TRAVERSE, AceFlags::NONE),
        Ace::allow(Sid::EVERYONE, A::FILE_ADD_FILE, AceFlags::NONE),
    ];
    set_dacl(&mut scene.alice, directory, aces);
    let file = make(&mut scene.bob, r"directory\file", false);
    let shown = query(&mut scene.bob, file, OWNER_GROUP_DACL);
    assert_eq!(shown.owner, Some(BOB));
    let expected = [(Sid::EVERYONE, A::FILE_GENERIC_READ, AceFlags::NONE), (BOB, A::FILE_ALL_ACCESS, AceFlags::NONE)];
    assert_eq!(rules(&shown), expected);
    let refused = create(&mut scene.bob, r"directory\new", A::FILE_ALL_ACCESS, CreateDisposition::CREATE, true);
    assert_eq!(status(&refused), Status::ACCESS_DENIED, "adding a directory is another right");
    assert_eq!(open(&mut scene.alice, r"directory\file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
    assert_eq!(
        open(&mut scene.alice, r"directory\file", A::DELETE),
        Status::SUCCESS,
        "her directory, her DELETE_CHILD"
    );
}

#[test]
fn a_descriptor_given_at_creation_counts_instead() {
    let mut scene = Scene::new();
    let given = |descriptor: &SecurityDescriptor| vec![CreateContext::new(name::SD_BUFFER, descriptor.to_bytes())];
    let own = with_dacl(Control::NONE, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    let (all, new) = (A::FILE_ALL_ACCESS, CreateDisposition::CREATE);
    let file = opened(&create_with(&mut scene.alice, "own", all, new, false, given(&own)));
    assert_eq!(query(&mut scene.alice, file, SecurityInformation::DACL).dacl, own.dacl);
    assert_eq!(scene.mode("own"), 0o700);
    let nothing = SecurityDescriptor { control: Control::SELF_RELATIVE, ..SecurityDescriptor::default() };
    let file = opened(&create_with(&mut scene.alice, "inherited", all, new, false, given(&nothing)));
    assert!(!rules(&query(&mut scene.alice, file, SecurityInformation::DACL)).is_empty(), "what comes down, comes");
    let audited = SecurityDescriptor { sacl: Some(Acl::empty()), ..own };
    let refused = create_with(&mut scene.alice, "audited", all, new, false, given(&audited));
    assert_eq!(status(&refused), Status::PRIVILEGE_NOT_HELD);
    assert_eq!(open(&mut scene.alice, "audited", A::READ_CONTROL), Status::OBJECT_NAME_NOT_FOUND, "nothing is left");
}

#[test]
fn who_changes_permissions_past_the_server_is_heeded() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    set_dacl(&mut scene.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(BOB, A::READ_CONTROL)]);
    assert_eq!(open(&mut scene.bob, "file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
    let mode = SetMetadata { mode: Some(0o666), ..SetMetadata::default() };
    block_on(scene.node("file").set_metadata(&Arc::new(root()), mode)).expect("root may");
    assert_eq!(open(&mut scene.bob, "file", A::FILE_WRITE_DATA), Status::SUCCESS);
    let shown = query(&mut scene.alice, file, OWNER_GROUP_DACL);
    assert_eq!(
        rules(&shown).iter().map(|rule| rule.0).collect::<Vec<_>>(),
        [ALICE, Sid::unix_group(1000), Sid::EVERYONE]
    );
    // A descriptor that is set again counts again.
    set_dacl(&mut scene.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    assert_eq!(open(&mut scene.bob, "file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
}

#[test]
fn what_protects_a_file_is_read_once_until_it_changes() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    set_dacl(&mut scene.alice, file, vec![allow(Sid::EVERYONE, A::FILE_GENERIC_READ)]);
    close(&mut scene.alice, file);
    let misses = |scene: &mut Scene, wanted: A, expected: Status| {
        let before = scene.server.snapshot(Time::default()).acl_cache;
        assert_eq!(open(&mut scene.bob, "file", wanted), expected);
        scene.server.snapshot(Time::default()).acl_cache.misses - before.misses
    };
    assert_ne!(misses(&mut scene, A::FILE_READ_DATA, Status::SUCCESS), 0);
    assert_eq!(misses(&mut scene, A::FILE_READ_DATA, Status::SUCCESS), 0);
    assert_eq!(misses(&mut scene, A::WRITE_DAC, Status::ACCESS_DENIED), 0);
    // Whoever changes the file's owner, mode, lists or descriptor changes its time as well, here past the server.
    let mode = Some(scene.mode("file") & 0o700);
    let set = SetMetadata { mode, ..SetMetadata::default() };
    block_on(scene.node("file").set_metadata(&Arc::new(root()), set)).expect("root may");
    assert_ne!(misses(&mut scene, A::FILE_READ_DATA, Status::ACCESS_DENIED), 0);
}

#[test]
fn a_damaged_descriptor_keeps_everybody_out_until_it_is_replaced() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    let attribute = Some(b"\x04\0\x04\0damaged".to_vec());
    block_on(scene.node("file").set_xattr(&Arc::new(root()), "security.NTACL", attribute)).expect("root may");
    assert_eq!(open(&mut scene.alice, "file", A::FILE_READ_DATA), Status::ACCESS_DENIED);
    set_dacl(&mut scene.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    assert_eq!(open(&mut scene.alice, "file", A::FILE_READ_DATA), Status::SUCCESS);
}

/// Fails one reading of an attribute.
struct OneFails(AtomicU64);

impl Script for OneFails {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let fails = operation == Operation::GetXattr && self.0.fetch_sub(1, Ordering::Relaxed) == 0;
        Fault { error: fails.then_some(Errno::IO), ..Fault::default() }
    }
}

/// The stored descriptor as well as the lists beneath, of which it depends whether it counts.
#[test]
fn what_cannot_be_read_is_not_taken_for_missing() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    set_dacl(&mut scene.alice, file, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
    let opened = |number: u64| {
        let volume = Faulty::new(scene.volume.clone(), Arc::new(OneFails(number.into())));
        let policy = server::policy::Policy::clone(&scene.server.policy());
        let server = rig::server(policy, Arc::new(rig::Still::default()), Arc::new(volume));
        open(&mut Client::logged_on(&server, "alice"), "file", A::FILE_READ_DATA)
    };
    let failed = (0..8).filter(|&number| opened(number) == Status::IO_DEVICE_ERROR).count();
    assert!(failed >= 2, "{failed}");
}

#[test]
fn files_are_taken_and_not_given_away() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    let owner = |sid| SecurityDescriptor { owner: Some(sid), ..SecurityDescriptor::default() };
    let given = set(&mut scene.alice, file, SecurityInformation::OWNER, &owner(BOB));
    assert_eq!(given, Status::INVALID_OWNER);
    set_dacl(&mut scene.alice, file, vec![allow(BOB, A::WRITE_OWNER | A::READ_CONTROL)]);
    let bobs =
        opened(&create(&mut scene.bob, "file", A::WRITE_OWNER | A::READ_CONTROL, CreateDisposition::OPEN, false));
    assert_eq!(set(&mut scene.bob, bobs, SecurityInformation::OWNER, &owner(BOB)), Status::SUCCESS);
    assert_eq!(query(&mut scene.bob, bobs, SecurityInformation::OWNER).owner, Some(BOB));
    assert_eq!(block_on(scene.node("file").metadata()).expect("it has some").uid, 1001);
    let refused = set(&mut scene.bob, bobs, SecurityInformation::DACL, &with_dacl(Control::NONE, Vec::new()));
    assert_eq!(refused, Status::ACCESS_DENIED, "the handle has no WRITE_DAC");
    assert_eq!(open(&mut scene.bob, "file", A::WRITE_DAC), Status::SUCCESS, "who owns it may change its list");
}

#[test]
fn a_protected_file_is_not_replaced() {
    let mut scene = Scene::new();
    let directory = make(&mut scene.alice, "directory", true);
    let adds = A::FILE_ADD_FILE | A::FILE_TRAVERSE | A::FILE_LIST_DIRECTORY;
    set_dacl(&mut scene.alice, directory, vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(Sid::EVERYONE, adds)]);
    let protected = make(&mut scene.alice, r"directory\protected", false);
    set_dacl(
        &mut scene.alice,
        protected,
        vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(Sid::EVERYONE, A::READ_CONTROL)],
    );
    close(&mut scene.alice, protected);
    close(&mut scene.alice, directory);
    let own = make(&mut scene.bob, "own", false);
    let mut rename = |to: &str, replace: u8| {
        let name = utf16_bytes(to);
        let mut buffer = vec![replace, 0, 0, 0, 0, 0, 0, 0];
        buffer.extend([0; 8]);
        buffer.extend((name.len() as u32).to_le_bytes());
        buffer.extend(&name);
        let class = FileInformationClass::RENAME.0;
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class,
            additional_information: 0,
            file_id: own,
            buffer: &buffer,
        };
        status(&scene.bob.request(Command::SET_INFO, |out| set.encode(out)))
    };
    assert_eq!(rename(r"directory\protected", 1), Status::ACCESS_DENIED);
    assert_eq!(rename(r"directory\other", 0), Status::SUCCESS);
    assert_eq!(open(&mut scene.alice, r"directory\protected", A::FILE_READ_DATA), Status::SUCCESS);
}

#[test]
fn what_is_made_takes_after_its_directory() {
    for (inherit_owner, owner) in [(InheritOwner::UnixOnly, BOB), (InheritOwner::WindowsAndUnix, ALICE)] {
        let mut scene = Scene::with(|share| (share.inherit_owner, share.inherit_permissions) = (inherit_owner, true));
        make(&mut scene.alice, "directory", true);
        let everybody = SetMetadata { mode: Some(0o1777), uid: Some(1000), ..SetMetadata::default() };
        block_on(scene.node("directory").set_metadata(&Arc::new(root()), everybody)).expect("root may");
        let file = make(&mut scene.bob, r"directory\file", false);
        let metadata = block_on(scene.node("directory/file").metadata()).expect("it has some");
        assert_eq!(metadata.uid, 1000, "{inherit_owner:?}");
        assert_eq!(query(&mut scene.bob, file, SecurityInformation::OWNER).owner, Some(owner));
    }
    for stores in [true, false] {
        let mut scene = Scene::with(|share| {
            share.inherit_permissions = true;
            share.acls = share.acls.take().filter(|_| stores);
        });
        let directory = make(&mut scene.alice, "directory", true);
        if stores {
            set_dacl(&mut scene.alice, directory, vec![allow(ALICE, A::FILE_ALL_ACCESS)]);
        } else {
            let mode = SetMetadata { mode: Some(0o700), ..SetMetadata::default() };
            block_on(scene.node("directory").set_metadata(&Arc::new(root()), mode)).expect("root may");
        }
        make(&mut scene.alice, r"directory\file", false);
        make(&mut scene.alice, r"directory\inner", true);
        assert_eq!((scene.mode("directory/file"), scene.mode("directory/inner")), (0o600, 0o700), "stores: {stores}");
    }
}

#[test]
fn descriptors_alone_count_where_system_lists_are_ignored() {
    let mut scene = Scene::with(|share| {
        share.acls.as_mut().expect("they are stored").ignore_system_acls = true;
    });
    let file = make(&mut scene.alice, "file", false);
    // As smbd 4.17 shows a file of mode 0666 then.
    let (read_write, all) = (A(0x12_01bf), A::FILE_ALL_ACCESS);
    let expected = [(ALICE, all), (Sid::unix_group(1000), read_write), (Sid::EVERYONE, read_write), (Sid::SYSTEM, all)];
    let shown = query(&mut scene.alice, file, SecurityInformation::DACL);
    assert_eq!(rules(&shown), expected.map(|(sid, mask)| (sid, mask, AceFlags::NONE)));
    set_dacl(&mut scene.alice, file, vec![allow(BOB, A::FILE_READ_DATA)]);
    let mode = SetMetadata { mode: Some(0o666), ..SetMetadata::default() };
    block_on(scene.node("file").set_metadata(&Arc::new(root()), mode)).expect("root may");
    assert_eq!(open(&mut scene.bob, "file", A::FILE_READ_DATA), Status::SUCCESS);
    assert_eq!(open(&mut scene.bob, "file", A::FILE_WRITE_DATA), Status::ACCESS_DENIED);
}

/// The kernel looks at the owner's entry alone, and at that of a user whom the list names.
#[test]
fn what_a_group_is_granted_its_members_have_whoever_owns_the_file() {
    let mut scene = Scene::new();
    let directory = make(&mut scene.alice, "directory", true);
    let staff = Sid::unix_group(1000);
    set_dacl(
        &mut scene.alice,
        directory,
        vec![
            allow(ALICE, A::FILE_ALL_ACCESS),
            Ace::allow(staff, A(0x13_01bf), INHERITED),
            Ace::allow(Sid::SYSTEM, A::FILE_ALL_ACCESS, INHERITED),
        ],
    );
    make(&mut scene.alice, r"directory\file", false);
    assert_eq!(open(&mut scene.alice, r"directory\file", A(3)), Status::SUCCESS);
}

/// From the call on that it counts to, changes of attributes and metadata have no room.
struct NoRoom {
    left: AtomicU64,
    /// Only that one call fails.
    once: bool,
}

impl Script for NoRoom {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let changes = matches!(operation, Operation::SetXattr | Operation::SetMetadata);
        let fails = changes
            && match self.left.load(Ordering::Relaxed) {
                0 => true,
                u64::MAX => false,
                left => {
                    self.left.store(left - 1, Ordering::Relaxed);
                    false
                }
            };
        if fails && self.once {
            self.left.store(u64::MAX, Ordering::Relaxed);
        }
        Fault { error: fails.then_some(Errno::NOSPC), ..Fault::default() }
    }
}

/// What could not be set has changed nothing: neither what is shown nor who may what, nor what Linux knows.
#[test]
fn what_fails_half_way_has_changed_nothing() {
    let mut failures = 0;
    for number in 0..6 {
        let mut scene = Scene::new();
        let file = make(&mut scene.alice, "file", false);
        let first = vec![allow(ALICE, A::FILE_ALL_ACCESS), allow(BOB, A::FILE_GENERIC_READ)];
        set_dacl(&mut scene.alice, file, first);
        close(&mut scene.alice, file);
        let script = Arc::new(NoRoom { left: u64::MAX.into(), once: true });
        let volume = Faulty::new(scene.volume.clone(), script.clone());
        let policy = server::policy::Policy::clone(&scene.server.policy());
        let server = rig::server(policy, Arc::new(rig::Still::default()), Arc::new(volume));
        let mut alice = Client::logged_on(&server, "alice");
        let file = opened(&create(&mut alice, "file", A::FILE_ALL_ACCESS, CreateDisposition::OPEN, false));
        let before = (query(&mut alice, file, OWNER_GROUP_DACL), scene.mode("file"));
        script.left.store(number, Ordering::Relaxed);
        let second = vec![allow(ALICE, A::FILE_GENERIC_READ), allow(Sid::EVERYONE, A::FILE_ALL_ACCESS)];
        let group = Some(Sid::of(5, [21, 9, 9, 9, 1104]));
        let new = SecurityDescriptor { group, ..with_dacl(Control::NONE, second) };
        let status = set(&mut alice, file, SecurityInformation::GROUP | SecurityInformation::DACL, &new);
        script.left.store(u64::MAX, Ordering::Relaxed);
        let after = (query(&mut alice, file, OWNER_GROUP_DACL), scene.mode("file"));
        if status == Status::SUCCESS {
            assert_ne!(after, before);
            continue;
        }
        failures += 1;
        assert_eq!((status, after), (Status::DISK_FULL, before), "call {number}");
        let bobs = open(&mut Client::logged_on(&server, "bob"), "file", A::FILE_WRITE_DATA);
        assert_eq!(bobs, Status::ACCESS_DENIED, "call {number}");
    }
    assert!(failures >= 2, "{failures}");
}

/// Lists as long as they can be, and such that say they are longer.
#[test]
fn long_lists_and_lying_ones() {
    let mut scene = Scene::new();
    let file = make(&mut scene.alice, "file", false);
    let many = |count| {
        let others = (0..count).map(|rid| allow(Sid::of(5, [21, 7, 7, 7, rid]), A::FILE_GENERIC_READ));
        std::iter::once(allow(ALICE, A::FILE_ALL_ACCESS)).chain(others).collect::<Vec<_>>()
    };
    set_dacl(&mut scene.alice, file, many(1_780));
    assert_eq!(
        query(&mut scene.alice, file, SecurityInformation::DACL).dacl.map(|dacl| dacl.aces().len()),
        Some(1_781)
    );
    // With its owner and group it is longer than an attribute of Linux can be.
    let long = with_dacl(Control::NONE, many(1_817));
    assert_eq!(set(&mut scene.alice, file, SecurityInformation::DACL, &long), Status::INVALID_SECURITY_DESCR);
    assert_eq!(
        query(&mut scene.alice, file, SecurityInformation::DACL).dacl.map(|dacl| dacl.aces().len()),
        Some(1_781)
    );
    let honest = with_dacl(Control::NONE, many(3)).to_bytes();
    let mut send = |buffer: &[u8]| {
        let set = SetInfoRequest {
            info_type: InfoType::SECURITY,
            file_info_class: 0,
            additional_information: SecurityInformation::DACL.0,
            file_id: file,
            buffer,
        };
        status(&scene.alice.request(Command::SET_INFO, |out| set.encode(out)))
    };
    // Behind the header: revision, size and count of the list, then the first entry's type, flags and size.
    for (at, value) in [(22, 0xffff), (22, 4), (24, 0xffff), (30, 0), (30, 3), (30, 0xffff), (30, 0x1000)] {
        let mut lying = honest.clone();
        lying[at..at + 2].copy_from_slice(&u16::to_le_bytes(value));
        assert_ne!(send(&lying), Status::SUCCESS, "{value:#x} at {at}");
    }
    for length in 0..honest.len() {
        assert_ne!(send(&honest[..length]), Status::SUCCESS, "{length} bytes");
    }
    assert_eq!(send(&honest), Status::SUCCESS);
}

/// alice is of the share's `admin users`.
fn administered() -> Scene {
    Scene::with(|share| share.admin_users = vec![UserPattern::User("alice".into())])
}

#[test]
fn parts_of_the_sacl_take_their_rights() {
    type Part = SecurityInformation;
    let mut scene = administered();
    let ace = |ace_type, mask| Ace { ace_type, ..allow(Sid::EVERYONE, mask) };
    let sacl = vec![
        ace(AceType::SYSTEM_AUDIT, A::FILE_READ_DATA),
        Ace { ace_type: AceType::SYSTEM_MANDATORY_LABEL, ..allow(Sid::of(16, [0x1000]), A(1)) },
    ];
    let given = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::SACL_PRESENT | Control::SACL_PROTECTED,
        sacl: Acl::new(Acl::REVISION, sacl),
        ..SecurityDescriptor::default()
    };
    make(&mut scene.bob, "file", false);
    let open_for =
        |client: &mut Client, access| opened(&create(client, "file", access, CreateDisposition::OPEN, false));
    let all = A::MAXIMUM_ALLOWED | A::ACCESS_SYSTEM_SECURITY;
    assert_eq!(open(&mut scene.bob, "file", all), Status::PRIVILEGE_NOT_HELD);
    let hers = open_for(&mut scene.alice, all);
    assert_eq!(
        set(&mut scene.alice, hers, Part::BACKUP, &with_dacl(Control::NONE, vec![allow(BOB, A::FILE_ALL_ACCESS)])),
        Status::SUCCESS
    );
    assert_eq!(set(&mut scene.alice, hers, Part::SACL | Part::LABEL, &given), Status::SUCCESS);
    assert_eq!(query(&mut scene.alice, hers, Part::SACL | Part::LABEL), given);
    let types = |descriptor: SecurityDescriptor| {
        descriptor.sacl.map(|sacl| sacl.aces().iter().map(|ace| ace.ace_type).collect::<Vec<_>>())
    };
    let his = open_for(&mut scene.bob, A::READ_CONTROL | A::WRITE_DAC);
    assert_eq!(types(query(&mut scene.bob, his, Part::LABEL)), Some(vec![AceType::SYSTEM_MANDATORY_LABEL]));
    assert_eq!(types(query(&mut scene.bob, his, Part::DACL)), None);
    for part in [Part::SACL, Part::LABEL, Part::SCOPE, Part::BACKUP, Part::OWNER] {
        assert_eq!(set(&mut scene.bob, his, part, &given), Status::ACCESS_DENIED, "{part:?}");
    }
    assert_eq!(set(&mut scene.bob, his, Part::ATTRIBUTE, &given), Status::SUCCESS);
    let everything = query(&mut scene.alice, hers, Part::BACKUP);
    assert_eq!((everything.sacl.clone(), rules(&everything).len()), (given.sacl, 1));
    for length in [0, 19, everything.to_bytes().len() as u32 - 1] {
        let query = QueryInfoRequest {
            info_type: InfoType::SECURITY,
            file_info_class: 0,
            output_buffer_length: length,
            additional_information: Part::BACKUP.0,
            file_id: hers,
            ..QueryInfoRequest::default()
        };
        let response = scene.alice.request(Command::QUERY_INFO, |out| query.encode(out));
        assert_eq!(status(&response), Status::BUFFER_TOO_SMALL, "{length}");
        let needed = everything.to_bytes().len() as u32;
        assert!(response.ends_with(&needed.to_le_bytes()), "{length}");
    }
}

/// Whom `admin users` names has the privileges of a backup: everything is read with its whole descriptor, and made again
/// elsewhere with the same owner. Nobody else gets anything by asking for it in the manner of a backup.
#[test]
fn a_tree_is_backed_up_and_restored() {
    let mut scene = administered();
    let everything = SecurityInformation::BACKUP;
    let audit =
        Ace { ace_type: AceType::SYSTEM_AUDIT, ..Ace::allow(Sid::EVERYONE, A::DELETE, AceFlags::FAILED_ACCESS) };
    let lists = [
        ("tree", true, vec![Ace::allow(Sid::EVERYONE, A::FILE_ALL_ACCESS, INHERITED)]),
        (
            r"tree\his",
            false,
            vec![allow(BOB, A::FILE_GENERIC_READ), allow(Sid::of(5, [21, 9, 9, 9, 7]), A::FILE_ALL_ACCESS)],
        ),
        (r"tree\nobody's", false, vec![]),
        (r"tree\denying", false, vec![Ace::deny(Sid::EVERYONE, A::FILE_ALL_ACCESS, AceFlags::NONE), allow(BOB, A(1))]),
    ];
    let backup = A::MAXIMUM_ALLOWED | A::ACCESS_SYSTEM_SECURITY;
    for (name, directory, aces) in &lists {
        let file = make(&mut scene.bob, name, *directory);
        close(&mut scene.bob, file);
        let file = opened(&intending(&mut scene.alice, name, backup, CreateDisposition::OPEN, *directory));
        let flags = Control::SACL_PRESENT | Control::DACL_PROTECTED;
        let given = SecurityDescriptor {
            owner: Some(Sid::of(5, [21, 9, 9, 9, 1105])),
            group: Some(Sid::of(5, [21, 9, 9, 9, 513])),
            sacl: Acl::new(Acl::REVISION, vec![audit.clone()]),
            ..with_dacl(flags, aces.clone())
        };
        assert_eq!(set(&mut scene.alice, file, everything, &given), Status::SUCCESS, "{name}");
        close(&mut scene.alice, file);
    }
    for (name, directory, _) in &lists {
        for access in [A::FILE_READ_DATA, A::FILE_WRITE_DATA | A::WRITE_OWNER] {
            let plainly = status(&create(&mut scene.bob, name, access, CreateDisposition::OPEN, *directory));
            let refused = status(&intending(&mut scene.bob, name, access, CreateDisposition::OPEN, *directory));
            assert_eq!(refused, plainly, "{name}: who has no privilege has what the list grants");
        }
        let read = opened(&intending(&mut scene.alice, name, backup, CreateDisposition::OPEN, *directory));
        let saved = query(&mut scene.alice, read, everything);
        let copy = name.replacen("tree", "restored", 1);
        let made = opened(&intending(&mut scene.alice, &copy, backup, CreateDisposition::CREATE, *directory));
        assert_eq!(set(&mut scene.alice, made, everything, &saved), Status::SUCCESS, "{copy}");
        assert_eq!(query(&mut scene.alice, made, everything), saved, "{copy}");
    }
    assert_eq!(open(&mut scene.bob, r"restored\nobody's", A::FILE_READ_DATA), Status::ACCESS_DENIED);
}

/// CREATE with FILE_OPEN_FOR_BACKUP_INTENT.
fn intending(client: &mut Client, path: &str, access: A, disposition: CreateDisposition, directory: bool) -> Vec<u8> {
    let path = utf16_bytes(path);
    let kind = if directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions(0) };
    let create = CreateRequest {
        desired_access: access.0,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        create_options: kind | CreateOptions::OPEN_FOR_BACKUP_INTENT,
        name: &path,
        ..CreateRequest::default()
    };
    client.request(Command::CREATE, |out| create.encode(out))
}

/// A share that stores no descriptors, with a file of alice's that group 1000 and everybody may write to.
fn plain(adjust: impl FnOnce(&mut Share)) -> (Scene, FileId) {
    let mut scene = Scene::with(|share| {
        share.acls = None;
        adjust(share);
    });
    let file = make(&mut scene.alice, "file", false);
    (scene, file)
}

/// `nt acl support`, `acl map full control`, `force unknown acl user`: each as Samba's manual says.
#[test]
fn how_permissions_are_shown_and_set() {
    let read_only = with_dacl(Control::NONE, vec![allow(ALICE, A::FILE_GENERIC_READ)]);
    let (mut scene, file) = plain(|share| share.nt_acl_support = false);
    let shown = query(&mut scene.alice, file, OWNER_GROUP_DACL);
    assert_eq!((shown.owner, shown.group, shown.dacl), (Some(Sid::EVERYONE), Some(Sid::EVERYONE), None));
    assert_eq!(set(&mut scene.alice, file, SecurityInformation::DACL, &read_only), Status::SUCCESS);
    assert_eq!(scene.mode("file"), 0o666, "what is set is left");
    let all = SetMetadata { mode: Some(0o755), ..SetMetadata::default() };
    for (maps, expected) in [(true, A::FILE_ALL_ACCESS.without(A::DELETE)), (false, A(0x12_01bf))] {
        let (mut scene, file) = plain(|share| share.acl_map_full_control = maps);
        block_on(scene.node("file").set_metadata(&Arc::new(root()), all)).expect("root may");
        let shown = query(&mut scene.alice, file, SecurityInformation::DACL);
        assert_eq!(rules(&shown).first().map(|rule| (rule.0, rule.1)), Some((ALICE, expected)), "{maps}");
        assert_eq!(set(&mut scene.alice, file, SecurityInformation::DACL, &shown), Status::SUCCESS);
        assert_eq!(scene.mode("file"), 0o755, "what is shown comes back");
    }
    let stranger = Sid::of(5, [21, 9, 9, 9, 1104]);
    let owned = SecurityDescriptor { owner: Some(stranger), group: Some(stranger), ..SecurityDescriptor::default() };
    for (forces, expected) in [(false, Status::INVALID_OWNER), (true, Status::SUCCESS)] {
        for part in [SecurityInformation::OWNER, SecurityInformation::GROUP] {
            let (mut scene, file) = plain(|share| share.force_unknown_acl_user = forces);
            assert_eq!(set(&mut scene.alice, file, part, &owned), expected, "{part:?}");
            let metadata = block_on(scene.node("file").metadata()).expect("it has some");
            assert_eq!((metadata.uid, metadata.gid), (1000, 1000));
        }
    }
}

/// `acl group control` and `dos filemode` let others than the owner change the list, and nobody else.
#[test]
fn who_besides_the_owner_changes_permissions() {
    let read_only = with_dacl(Control::NONE, vec![allow(ALICE, A::FILE_GENERIC_READ)]);
    let cases: [(bool, bool, u32, u32, Status); 5] = [
        (false, false, 1001, 0o666, Status::ACCESS_DENIED),
        (true, false, 1001, 0o600, Status::SUCCESS),
        (true, false, 1000, 0o666, Status::ACCESS_DENIED),
        (false, true, 1000, 0o666, Status::SUCCESS),
        (false, true, 1000, 0o644, Status::ACCESS_DENIED),
    ];
    for (group_control, dos_filemode, gid, mode, expected) in cases {
        let (mut scene, file) = plain(|share| {
            (share.acl_group_control, share.dos_filemode) = (group_control, dos_filemode);
        });
        close(&mut scene.alice, file);
        let given = SetMetadata { gid: Some(gid), mode: Some(mode), ..SetMetadata::default() };
        block_on(scene.node("file").set_metadata(&Arc::new(root()), given)).expect("root may");
        let response = create(&mut scene.bob, "file", A::WRITE_DAC, CreateDisposition::OPEN, false);
        assert_eq!(status(&response), expected, "{group_control} {dos_filemode} {gid} {mode:o}");
        assert!(maximum(&mut scene.alice, "file").contains(A::WRITE_DAC));
        if expected == Status::SUCCESS {
            let file = opened(&response);
            assert_eq!(set(&mut scene.bob, file, SecurityInformation::DACL, &read_only), Status::SUCCESS);
            assert_eq!(scene.mode("file"), 0o400);
        }
    }
}
