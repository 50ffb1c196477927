//! Reparse points as clients make, read and meet them, on a file system in memory.

use std::sync::Arc;

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::Guid;
use proto::fscc::{FileAttributes, FileInformationClass, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData};
use proto::smb2::FileId;
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::error::{ErrorResponse, SymbolicLinkError, SymlinkFlags};
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::WriteRequest;
use proto::status::Status;
use server::answer::block_on;
use server::policy::Share;
use server::rig::{self, Client, status};
use server::vfs::{Case, Kind, Links, Lookup, RelPath, Vfs};
use server::world::World;

const ALL: u32 = 0x001f_01ff;

struct Bench {
    client: Client,
    volume: Arc<dyn Vfs>,
}

fn bench(configure: impl Fn(&mut Share)) -> Bench {
    let world: Arc<dyn World> = Arc::new(rig::Still::default());
    let volume = rig::memory(world.clone());
    let mut policy = rig::policy();
    policy.shares.values_mut().for_each(|share| configure(Arc::make_mut(share)));
    Bench { client: Client::logged_on(&rig::server(policy, world, volume.clone()), "alice"), volume }
}

impl Bench {
    fn create(
        &mut self,
        name: &str,
        disposition: CreateDisposition,
        options: u32,
    ) -> Result<CreateResponse<'static>, Vec<u8>> {
        let name = utf16_bytes(name);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: if options & CreateOptions::DIRECTORY_FILE.0 == 0 { ALL } else { 0x0010_0181 },
            share_access: ShareAccess(7),
            create_disposition: disposition,
            create_options: CreateOptions(options),
            name: &name,
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        match status(&response) {
            Status::SUCCESS => {
                let decoded = CreateResponse::decode(&response).expect("a response");
                Ok(CreateResponse { create_contexts: Vec::new(), ..decoded })
            }
            _ => Err(response),
        }
    }

    #[track_caller]
    fn make(&mut self, name: &str) -> FileId {
        self.create(name, CreateDisposition::CREATE, 0).expect("it is new").file_id
    }

    /// The link itself, with rights that reading its data does not take.
    fn open_link(&mut self, name: &str) -> Result<CreateResponse<'static>, Status> {
        let wire = utf16_bytes(name);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: 0x0010_0180,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN,
            create_options: CreateOptions::OPEN_REPARSE_POINT,
            name: &wire,
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        match status(&response) {
            Status::SUCCESS => {
                let decoded = CreateResponse::decode(&response).expect("a response");
                Ok(CreateResponse { create_contexts: Vec::new(), ..decoded })
            }
            refused => Err(refused),
        }
    }

    fn control(&mut self, code: FsctlCode, file_id: FileId, input: &[u8]) -> (Status, Vec<u8>) {
        let ioctl = IoctlRequest {
            ctl_code: code,
            file_id,
            input,
            max_output_response: 4096,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        let response = self.client.request(Command::IOCTL, |out| ioctl.encode(out));
        let output = IoctlResponse::decode(&response).map(|response| response.output.to_vec()).unwrap_or_default();
        (status(&response), output)
    }

    #[track_caller]
    fn set(&mut self, file_id: FileId, buffer: &[u8], expected: Status) {
        assert_eq!(self.control(FsctlCode::SET_REPARSE_POINT, file_id, buffer).0, expected);
    }

    fn write(&mut self, file_id: FileId, text: &str) {
        let write =
            WriteRequest { file_id, length: text.len() as u32, buffer: text.as_bytes(), ..WriteRequest::default() };
        assert_eq!(status(&self.client.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
    }

    fn content(&mut self, name: &str) -> String {
        let file_id = self.create(name, CreateDisposition::OPEN, 0).expect("it opens").file_id;
        let read = ReadRequest { length: 100, file_id, ..ReadRequest::default() };
        let response = self.client.request(Command::READ, |out| read.encode(out));
        String::from_utf8(ReadResponse::decode(&response).expect("data").buffer.to_vec()).expect("text")
    }

    /// What the file system itself has at `name`, and where it leads.
    fn on_disk(&self, name: &str) -> (Kind, Option<String>) {
        let root = rig::root();
        let path = name.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).expect("a name"));
        match block_on(self.volume.lookup(&root, &path, Case::Sensitive, Links::default())) {
            Ok(Lookup::Found { node, metadata, .. }) => {
                let target = block_on(node.read_link()).ok();
                (metadata.kind, target.map(|target| String::from_utf8(target).expect("text")))
            }
            _ => panic!("{name} is missing"),
        }
    }

    /// Attributes and reparse tag of the entry `name` in the root.
    fn entry(&mut self, name: &str) -> (u32, u32) {
        let root = self.create("", CreateDisposition::OPEN, CreateOptions::DIRECTORY_FILE.0).expect("the root").file_id;
        let pattern = utf16_bytes(name);
        let query = QueryDirectoryRequest {
            file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
            flags: QueryDirectoryFlags(0),
            file_id: root,
            file_name: &pattern,
            output_buffer_length: 4096,
            ..QueryDirectoryRequest::default()
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        let entry = QueryDirectoryResponse::decode(&response).expect("an entry").buffer;
        let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four"));
        // [MS-FSCC] 2.4.21: FileAttributes, and EaSize, which is the tag of a reparse point.
        (number(56), number(64))
    }
}

fn buffer(tag: ReparseTag, data: &[u8]) -> Vec<u8> {
    let buffer = ReparseDataBuffer::new(tag, Guid::NIL, data).expect("short");
    let mut bytes = Vec::new();
    buffer.encode(&mut Writer::new(&mut bytes));
    bytes
}

fn link(target: &str, flags: SymlinkFlags) -> Vec<u8> {
    let name = utf16_bytes(target);
    let data = SymbolicLinkReparseData { substitute_name: &name, print_name: &name, flags };
    buffer(ReparseTag::SYMLINK, &data.to_bytes().expect("short"))
}

#[test]
fn a_link_that_stays_in_the_share_becomes_one_of_linux() {
    let mut bench = bench(|_| {});
    let target = bench.make("target");
    bench.write(target, "content");
    let made = bench.make("link");
    bench.set(made, &link("target", SymlinkFlags::RELATIVE), Status::SUCCESS);
    bench.client.close(made);
    assert_eq!(bench.on_disk("link"), (Kind::Symlink, Some("target".into())));
    assert_eq!(bench.content("link"), "content");
    // Followed, it shows as what it leads to, in listings too.
    assert_eq!(bench.entry("link").1, 0);
    let directory = bench.create("dir", CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE.0);
    bench.set(directory.expect("new").file_id, &link(".", SymlinkFlags::RELATIVE), Status::SUCCESS);
    assert_eq!(bench.on_disk("dir"), (Kind::Symlink, Some(".".into())));
    assert_ne!(bench.entry("dir").0 & FileAttributes::DIRECTORY.0, 0);
}

#[test]
fn what_leads_out_is_kept_for_clients_alone() {
    for (target, flags) in [(r"..\secret", SymlinkFlags::RELATIVE), (r"\??\C:\secret", SymlinkFlags(0))] {
        let mut bench = bench(|_| {});
        let made = bench.make("link");
        let asked = link(target, flags);
        bench.set(made, &asked, Status::SUCCESS);
        bench.client.close(made);
        assert_eq!(bench.on_disk("link"), (Kind::File, None));
        let refused = bench.create("link", CreateDisposition::OPEN, 0).expect_err("the server does not follow it");
        assert_eq!(status(&refused), Status::IO_REPARSE_TAG_NOT_HANDLED);
        let opened = bench.open_link("link").expect("the point itself");
        assert_ne!(opened.file_attributes & FileAttributes::REPARSE_POINT.0, 0);
        assert_eq!(bench.control(FsctlCode::GET_REPARSE_POINT, opened.file_id, &[]), (Status::SUCCESS, asked));
        let (attributes, tag) = bench.entry("link");
        assert_eq!((attributes & FileAttributes::REPARSE_POINT.0 != 0, tag), (true, ReparseTag::SYMLINK.0));
    }
}

#[test]
fn other_tags_are_kept_until_their_owner_deletes_them() {
    let mut bench = bench(|_| {});
    let made = bench.make("point");
    let (nfs, other) = (buffer(ReparseTag::NFS, b"data"), buffer(ReparseTag::WOF, b"x"));
    bench.set(made, &nfs, Status::SUCCESS);
    bench.set(made, &buffer(ReparseTag::NFS, b"new"), Status::SUCCESS);
    bench.set(made, &other, Status::IO_REPARSE_TAG_MISMATCH);
    for (wrong, expected) in [
        (&nfs[..7], Status::IO_REPARSE_DATA_INVALID),
        (&buffer(ReparseTag(1), b""), Status::IO_REPARSE_TAG_INVALID),
        (&buffer(ReparseTag::MOUNT_POINT, b""), Status::NOT_A_DIRECTORY),
    ] {
        bench.set(made, wrong, expected);
    }
    let mut delete = |tag| bench.control(FsctlCode::DELETE_REPARSE_POINT, made, &buffer(tag, b"")).0;
    assert_eq!(delete(ReparseTag::WOF), Status::IO_REPARSE_TAG_MISMATCH);
    assert_eq!(delete(ReparseTag::NFS), Status::SUCCESS);
    assert_eq!(delete(ReparseTag::NFS), Status::NOT_A_REPARSE_POINT);
    assert_eq!(bench.control(FsctlCode::GET_REPARSE_POINT, made, &[]).0, Status::NOT_A_REPARSE_POINT);
    assert_eq!(bench.create("point", CreateDisposition::OPEN, 0).map(|opened| opened.file_attributes & 0x400), Ok(0));
}

#[test]
fn a_file_with_content_becomes_no_link() {
    let mut bench = bench(|_| {});
    let made = bench.make("file");
    bench.write(made, "content");
    bench.set(made, &link("target", SymlinkFlags::RELATIVE), Status::IO_REPARSE_DATA_INVALID);
    assert_eq!(bench.content("file"), "content");
}

#[test]
fn where_links_are_not_followed_clients_are_told_where_they_lead() {
    let mut bench = bench(|share| share.follow_symlinks = false);
    for (name, target) in [("link", "target"), ("out", r"..\secret")] {
        let made = bench.make(name);
        bench.set(made, &link(target, SymlinkFlags::RELATIVE), Status::SUCCESS);
        bench.client.close(made);
    }
    for (name, unparsed) in [("link", 0), (r"link\a\bc", 10)] {
        let stopped = bench.create(name, CreateDisposition::OPEN, 0).expect_err("a link");
        assert_eq!(status(&stopped), Status::STOPPED_ON_SYMLINK, "{name}");
        let error = ErrorResponse::decode(&stopped).expect("an error");
        let told = SymbolicLinkError::decode(error.error_data).expect("a link");
        assert_eq!((told.unparsed_path_length, told.flags), (unparsed, SymlinkFlags::RELATIVE), "{name}");
        assert_eq!(told.substitute_name, &*utf16_bytes("target"));
    }
    let opened = bench.open_link("link").expect("the link itself");
    let (found, data) = bench.control(FsctlCode::GET_REPARSE_POINT, opened.file_id, &[]);
    assert_eq!((found, data), (Status::SUCCESS, link("target", SymlinkFlags::RELATIVE)));
    assert_eq!(bench.entry("link").1, ReparseTag::SYMLINK.0);
}

#[test]
fn a_link_out_of_the_share_is_there_for_nobody() {
    let mut bench = bench(|share| share.follow_symlinks = false);
    let root = rig::root();
    for (name, target) in [("out", "../secret"), ("absolute", "/etc/passwd")] {
        let path = RelPath::root().join(name.as_bytes()).expect("a name");
        block_on(bench.volume.make_link(&root, &path, target.as_bytes())).expect("made locally");
        let refused = bench.create(name, CreateDisposition::OPEN, 0).expect_err("not followed");
        assert_eq!(status(&refused), Status::OBJECT_NAME_NOT_FOUND, "{name}");
    }
}
