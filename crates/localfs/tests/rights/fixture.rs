//! A shared directory, its users as clients, and threads with those users' identities in the kernel.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use localfs::{LocalFs, Options, identity};
use proto::bytes::utf16_bytes;
use proto::dtyp::{AccessMask as A, SecurityDescriptor, Sid};
use proto::fscc::FileInformationClass;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{CreateContext, QueryMaximalAccessResponse, name as context};
use proto::smb2::header::Command;
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType, SecurityInformation};
use proto::status::Status;
use rustix::fs::{Access, XattrFlags, access, setxattr};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use server::acl::model::posix_acl;
use server::acl::model::posix_acl::PosixAcl;
use server::environment::Environment;
use server::policy::{AclStore, AclStyle, Entries, Policy, Share, StoredAcls};
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::{Identity, Time};

use super::Linux;

/// A Linux user without a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: &'static [u32],
}

/// Groups that own files and occur in ACLs.
pub(crate) const GIDS: [u32; 4] = [62_001, 62_002, 62_003, 62_004];

/// The requesting users.
pub(crate) const USERS: [User; 4] = [
    User { uid: 61_001, gid: 62_001, groups: &[] },
    User { uid: 61_002, gid: 62_002, groups: &[62_001] },
    User { uid: 61_003, gid: 62_003, groups: &[62_001, 62_002] },
    User { uid: 61_004, gid: 62_009, groups: &[] },
];

/// The machine's clock, because caching of a file depends on how long ago it changed.
struct Clock(Instant, AtomicU64);

impl Environment for Clock {
    fn now(&self) -> Time {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
        Time { secs: now.as_secs() as i64, nanos: now.subsec_nanos() }
    }

    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self, bytes: &mut [u8]) {
        let seed = self.1.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        bytes.iter_mut().zip(seed.into_iter().cycle()).for_each(|(byte, dice)| *byte = dice);
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// A thread with a user's identity in the kernel, assumed in another way than the server does.
struct Witness(Sender<Work>);

impl Witness {
    /// Starts a thread as `user`, or as root if there is none.
    fn new(user: Option<User>) -> Witness {
        let (ask, asked) = channel::<Work>();
        std::thread::spawn(move || {
            if let Some(User { uid, gid, groups }) = user {
                let gid = rustix::fs::Gid::from_raw(gid);
                let groups: Vec<_> = groups.iter().map(|&gid| rustix::fs::Gid::from_raw(gid)).collect();
                set_thread_groups(&groups).expect("root has permission");
                set_thread_res_gid(gid, gid, gid).expect("root has permission");
                let uid = rustix::fs::Uid::from_raw(uid);
                set_thread_res_uid(uid, uid, uid).expect("root has permission");
            }
            asked.into_iter().for_each(|work| work());
        });
        Witness(ask)
    }

    fn ask<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        let work = move || tell.send(work()).expect("another thread waits");
        self.0.send(Box::new(work)).expect("the thread runs as long as the fixture");
        told.recv().expect("the job does not panic")
    }
}

/// The access to a file that the kernel grants a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Reading and writing in one open; for a directory, either of them.
    pub(crate) both: bool,
    pub(crate) execute: bool,
    pub(crate) owns: bool,
}

/// The directory, the clients by number, and the witnesses.
pub(crate) struct Fixture {
    directory: PathBuf,
    clients: Vec<TestClient>,
    /// The client of each user on the share without stored security descriptors.
    pub(crate) posix: [usize; 4],
    /// The client of each user on the share that stores security descriptors.
    pub(crate) stored: [usize; 4],
    /// Root's client on the share that stores security descriptors.
    pub(crate) administrator: usize,
    root: Witness,
    witnesses: Vec<Witness>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let directory = self.directory.clone();
        self.root.ask(move || {
            fs::remove_dir_all(directory.parent().expect("the directory has a parent")).expect("root has permission")
        });
    }
}

impl Fixture {
    /// Creates the fixture; `None` without root, which is printed.
    pub(crate) fn new() -> Option<Fixture> {
        if !identity::may_switch() {
            eprintln!("does not apply: without root, every operation acts as the user of the process");
            return None;
        }
        rustix::process::umask(rustix::fs::Mode::empty());
        // Started before this thread switches identity, because threads inherit it.
        let root = Witness::new(None);
        let witnesses = USERS.iter().map(|user| Witness::new(Some(*user))).collect();
        let directory = root.ask(|| {
            let directory = tempfile::tempdir().expect("a temporary directory").keep();
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("root has permission");
            let shared = directory.join("share");
            fs::create_dir(&shared).expect("the name is not in use");
            shared
        });
        let volume = LocalFs::open(&directory, Options::default()).expect("the directory opens");
        let server = TestServer::builder()
            .policy(policy())
            .environment(Arc::new(Clock(Instant::now(), AtomicU64::new(1))))
            .volume(Arc::new(volume))
            .start();
        let mut clients = Vec::new();
        let mut connect = |share: String| {
            let mut client = TestClient::logged_on(&server, "alice");
            assert_eq!(client.tree_connect(&share), Status::SUCCESS, "{share}");
            clients.push(client);
            clients.len() - 1
        };
        let posix = [0, 1, 2, 3].map(|index| connect(format!("posix{index}")));
        let stored = [0, 1, 2, 3].map(|index| connect(format!("stored{index}")));
        let administrator = connect("administrator".to_owned());
        Some(Fixture { directory, clients, posix, stored, administrator, root, witnesses })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Removes everything.
    pub(crate) fn clear(&self) {
        let directory = self.directory.clone();
        self.root.ask(move || {
            for entry in fs::read_dir(directory).expect("root has permission").flatten() {
                discard(&entry.path());
            }
        });
    }

    /// Removes one file or directory if it exists.
    pub(crate) fn remove(&self, name: &str) {
        let path = self.at(name);
        self.root.ask(move || discard(&path));
    }

    /// Creates a file or directory behind the server's back.
    pub(crate) fn make(&self, name: &str, directory: bool, linux: &Linux) {
        let (path, linux) = (self.at(name), linux.clone());
        self.root.ask(move || {
            if directory {
                fs::create_dir(&path).expect("the name is not in use");
            } else {
                fs::write(&path, "content").expect("root has permission");
            }
            chown(&path, Some(linux.uid), Some(linux.gid)).expect("root has permission");
            let mode = linux.access.mode() | if linux.sticky && directory { 0o1000 } else { 0 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root has permission");
            if !linux.access.is_minimal() {
                let list = linux.access.encode();
                setxattr(&path, posix_acl::ACCESS, &list, XattrFlags::empty())
                    .expect("the file system stores POSIX ACLs");
            }
        });
    }

    /// Sets `list` as the default ACL of the directory.
    pub(crate) fn hands_on(&self, name: &str, list: &PosixAcl) {
        let (path, list) = (self.at(name), list.encode());
        self.root.ask(move || {
            setxattr(&path, posix_acl::DEFAULT, &list, XattrFlags::empty()).expect("the file system stores POSIX ACLs");
        });
    }

    /// Returns the access that the kernel grants to user number `index`; `None` if the user cannot reach the file.
    pub(crate) fn kernel(&self, index: usize, name: &str, directory: bool) -> Option<Kernel> {
        let (path, uid) = (self.at(name), USERS[index].uid);
        self.witnesses[index].ask(move || {
            use std::os::unix::fs::MetadataExt;
            let owns = fs::metadata(&path).ok()?.uid() == uid;
            let execute = access(&path, Access::EXEC_OK).is_ok();
            let opens = |read, write| fs::OpenOptions::new().read(read).write(write).open(&path).is_ok();
            let (read, write) = if directory {
                (fs::read_dir(&path).is_ok(), access(&path, Access::WRITE_OK).is_ok())
            } else {
                (opens(true, false), opens(false, true))
            };
            let both = if directory { read && write } else { opens(true, true) };
            Some(Kernel { read, write, both, execute, owns })
        })
    }

    /// Returns whether the kernel lets root execute `name`.
    pub(crate) fn root_executes(&self, name: &str) -> bool {
        let path = self.at(name);
        self.root.ask(move || access(&path, Access::EXEC_OK).is_ok())
    }

    /// Returns whether the kernel lets the user create `name`, which is removed again afterwards.
    pub(crate) fn creates(&self, index: usize, name: &str) -> bool {
        let path = self.at(name);
        let made = self.witnesses[index].ask(move || fs::File::create_new(path).is_ok());
        self.remove(name);
        made
    }

    /// Returns whether the kernel lets the user remove `name`, tried on another file of the same owner next to it.
    pub(crate) fn unlinks(&self, index: usize, name: &str, directory: bool) -> bool {
        let path = self.at(name);
        let twin = path.with_file_name("twin");
        let made = twin.clone();
        self.root.ask(move || {
            use std::os::unix::fs::MetadataExt;
            let model = fs::metadata(&path).expect("it exists");
            if directory {
                fs::create_dir(&made).expect("the name is not in use");
            } else {
                fs::write(&made, "").expect("root has permission");
            }
            chown(&made, Some(model.uid()), Some(model.gid())).expect("root has permission");
        });
        let gone = twin.clone();
        let removed = self.witnesses[index]
            .ask(move || if directory { fs::remove_dir(gone).is_ok() } else { fs::remove_file(gone).is_ok() });
        self.root.ask(move || discard(&twin));
        removed
    }

    fn create(
        &mut self,
        client: usize,
        name: &str,
        access: A,
        disposition: CreateDisposition,
        options: CreateOptions,
        contexts: Vec<CreateContext<'_>>,
    ) -> Vec<u8> {
        let path = utf16_bytes(&name.replace('/', "\\"));
        let create = CreateRequest {
            desired_access: access.0,
            share_access: ShareAccess(7),
            create_disposition: disposition,
            create_options: options,
            name: &path,
            create_contexts: contexts,
            ..CreateRequest::default()
        };
        request(&mut self.clients[client], Command::CREATE, |out| create.encode(out))
    }

    fn close(&mut self, client: usize, response: &[u8]) {
        let file_id = opened(response);
        let close = CloseRequest { flags: CloseFlags(0), file_id };
        request(&mut self.clients[client], Command::CLOSE, |out| close.encode(out));
    }

    /// Returns whether a client gets `access` to `name`; any status other than success and access denied fails the
    /// test.
    pub(crate) fn opens(&mut self, client: usize, name: &str, access: A) -> bool {
        let response = self.create(client, name, access, CreateDisposition::OPEN, CreateOptions(0), Vec::new());
        match status(&response) {
            Status::SUCCESS => self.close(client, &response),
            Status::ACCESS_DENIED => return false,
            other => panic!("opening {name} for {access:?}: {other:?}"),
        }
        true
    }

    /// Returns the rights of an open for `access`; `None` if it is refused.
    pub(crate) fn granted(&mut self, client: usize, name: &str, access: A) -> Option<A> {
        let response = self.create(client, name, access, CreateDisposition::OPEN, CreateOptions(0), Vec::new());
        if status(&response) == Status::ACCESS_DENIED {
            return None;
        }
        let query = QueryInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: FileInformationClass::ACCESS.0,
            output_buffer_length: 4,
            file_id: opened(&response),
            ..QueryInfoRequest::default()
        };
        let answer = request(&mut self.clients[client], Command::QUERY_INFO, |out| query.encode(out));
        let answer = QueryInfoResponse::decode(&answer).expect("a well-formed message");
        let rights = answer.buffer.try_into().map(u32::from_le_bytes).expect("four bytes");
        self.close(client, &response);
        Some(A(rights))
    }

    /// Returns whether a client that requests maximum access can overwrite the content of the file `name`.
    pub(crate) fn overwrites(&mut self, client: usize, name: &str) -> bool {
        let (all, overwrite) = (A::MAXIMUM_ALLOWED, CreateDisposition::OVERWRITE);
        let response = self.create(client, name, all, overwrite, CreateOptions(0), Vec::new());
        if status(&response) == Status::SUCCESS {
            self.close(client, &response);
        }
        status(&response) == Status::SUCCESS
    }

    /// Returns whether a client can create the file `name`.
    pub(crate) fn makes(&mut self, client: usize, name: &str) -> bool {
        let new = CreateDisposition::CREATE;
        let response = self.create(client, name, A::FILE_READ_DATA, new, CreateOptions(0), Vec::new());
        if status(&response) == Status::SUCCESS {
            self.close(client, &response);
        }
        status(&response) == Status::SUCCESS
    }

    /// Creates the directory `name` as a client, with `descriptor` if given. Returns the resulting gid and mode.
    pub(crate) fn makes_directory(
        &mut self,
        client: usize,
        name: &str,
        descriptor: Option<&SecurityDescriptor>,
    ) -> (u32, u32) {
        let contexts = descriptor.map(|given| CreateContext::new(context::SD_BUFFER, given.to_bytes()));
        let (new, options) = (CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE);
        let response = self.create(client, name, A::FILE_ALL_ACCESS, new, options, contexts.into_iter().collect());
        assert_eq!(status(&response), Status::SUCCESS, "{name}");
        self.close(client, &response);
        self.group_and_mode(name)
    }

    /// Returns a file's group and mode.
    pub(crate) fn group_and_mode(&self, name: &str) -> (u32, u32) {
        let path = self.at(name);
        self.root.ask(move || {
            use std::os::unix::fs::MetadataExt;
            let metadata = fs::metadata(path).expect("it exists");
            (metadata.gid(), metadata.mode() & 0o7777)
        })
    }

    /// Changes a file's group and mode behind the server's back.
    pub(crate) fn regroup(&self, name: &str, gid: u32, mode: u32) {
        let path = self.at(name);
        self.root.ask(move || {
            chown(&path, None, Some(gid)).expect("root has permission");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root has permission");
        });
    }

    /// Sets the DACL of the directory `name` as a client.
    pub(crate) fn sets_list(&mut self, client: usize, name: &str, descriptor: &SecurityDescriptor) {
        let (open, options) = (CreateDisposition::OPEN, CreateOptions::DIRECTORY_FILE);
        let response = self.create(client, name, A::WRITE_DAC, open, options, Vec::new());
        self.set(client, &response, SecurityInformation::DACL, descriptor);
        self.close(client, &response);
    }

    /// Returns whether a client may remove the file `name`, and whether it is removed.
    pub(crate) fn deletes(&mut self, client: usize, name: &str) -> (bool, bool) {
        let options = CreateOptions::DELETE_ON_CLOSE;
        let response = self.create(client, name, A::DELETE, CreateDisposition::OPEN, options, Vec::new());
        if status(&response) == Status::SUCCESS {
            self.close(client, &response);
        }
        let path = self.at(name);
        let gone = self.root.ask(move || !path.exists());
        (status(&response) == Status::SUCCESS, gone)
    }

    /// Returns the maximum access that the server reports to the client; `None` if the client may not query it.
    pub(crate) fn maximum(&mut self, client: usize, name: &str) -> Option<A> {
        let asked = vec![CreateContext::new(context::QUERY_MAXIMAL_ACCESS, Vec::new())];
        let open = CreateDisposition::OPEN;
        let response = self.create(client, name, A::FILE_READ_ATTRIBUTES, open, CreateOptions(0), asked);
        if status(&response) != Status::SUCCESS {
            return None;
        }
        let contexts = CreateResponse::decode(&response).expect("a well-formed message").create_contexts;
        let answer = CreateContext::find(&contexts, context::QUERY_MAXIMAL_ACCESS).expect("it was requested");
        let answer = QueryMaximalAccessResponse::decode(&answer.data).expect("a well-formed message");
        self.close(client, &response);
        Some(A(answer.maximal_access))
    }

    /// Creates `name` as root on the share that stores security descriptors, with the owner and group of `descriptor`.
    /// The owner then sets the DACL, if the owner is one of the users.
    pub(crate) fn administer(&mut self, name: &str, directory: bool, descriptor: &SecurityDescriptor) {
        let options = if directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions(0) };
        let (administrator, new) = (self.administrator, CreateDisposition::CREATE);
        let response = self.create(administrator, name, A::FILE_ALL_ACCESS, new, options, Vec::new());
        let owns = |user: &User| descriptor.owner == Some(Sid::unix_user(user.uid));
        let owner = USERS.iter().position(owns).map_or(administrator, |index| self.stored[index]);
        self.set(administrator, &response, SecurityInformation::OWNER | SecurityInformation::GROUP, descriptor);
        self.close(administrator, &response);
        let open = CreateDisposition::OPEN;
        let response = self.create(owner, name, A::WRITE_DAC, open, CreateOptions(0), Vec::new());
        self.set(owner, &response, SecurityInformation::DACL, descriptor);
        self.close(owner, &response);
    }

    fn set(&mut self, client: usize, of: &[u8], parts: SecurityInformation, descriptor: &SecurityDescriptor) {
        let buffer = descriptor.to_bytes();
        let set = SetInfoRequest {
            info_type: InfoType::SECURITY,
            file_info_class: 0,
            additional_information: parts.0,
            file_id: opened(of),
            buffer: &buffer,
        };
        let answer = request(&mut self.clients[client], Command::SET_INFO, |out| set.encode(out));
        assert_eq!(status(&answer), Status::SUCCESS, "{descriptor:?}");
    }
}

fn discard(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

fn opened(response: &[u8]) -> FileId {
    assert_eq!(status(response), Status::SUCCESS);
    CreateResponse::decode(response).expect("a well-formed message").file_id
}

/// Sends one request and waits for its response, which may arrive from another thread.
fn request(client: &mut TestClient, command: Command, encode: impl FnOnce(&mut proto::bytes::Writer<'_>)) -> Vec<u8> {
    let message = client.compose(command, encode);
    let mut frames = client.send(&message);
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(last) = frames.iter().rev().find(|frame| status(frame) != Status::PENDING) {
            return last.clone();
        }
        assert!(Instant::now() < until, "{command:?} is not answered");
        std::thread::yield_now();
        frames.extend(client.proceed());
    }
}

/// Creates for each user a share whose clients all act as that user, with and without stored security descriptors, and
/// one whose clients all act as root.
fn policy() -> Policy {
    let mut policy = testing::policy();
    let plain = policy.shares["share"].clone();
    let mut add = |name: String, user: User, stores: bool| {
        let identity = Identity { uid: user.uid, gid: user.gid, groups: user.groups.into() };
        let acls = StoredAcls {
            of_owner: None,
            attribute: "security.NTACL".into(),
            ignore_system_acls: false,
            default_style: AclStyle::Posix,
        };
        let mut share = Share { name: name.clone(), streams: None, ..Share::clone(&plain) };
        share.access.force_user = Some(Arc::new(identity));
        share.acls.stored = stores.then_some(acls);
        // The descriptor synthesized from a POSIX ACL must not grant more once it is stored.
        share.acls.acl_store = AclStore::Said(Entries::ALL);
        policy.shares.insert(name, Arc::new(share));
    };
    for (index, user) in USERS.into_iter().enumerate() {
        add(format!("posix{index}"), user, false);
        add(format!("stored{index}"), user, true);
    }
    add("administrator".into(), User { uid: 0, gid: 0, groups: &[] }, true);
    policy
}
