//! The controls with which smbtorture makes a server misbehave. Builds without the feature `torture` support none of
//! them.

use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::smb2::FileId;
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest};
use proto::status::Status;
use server::testing::{self, TestClient, TestServer};

/// FORCE_UNACKED_TIMEOUT, IOCTL_RESPONSE_BODY_PADDING8, GLOBAL_READ_RESPONSE_BODY_PADDING8, FSP_ASYNC_SLEEP.
const CONTROLS: [u32; 4] = [0x8384_8003, 0x8384_8013, 0x8384_8023, 0x8384_8043];
/// A code in the same range that is not assigned.
const UNKNOWN: u32 = 0x8384_80f3;

fn file(client: &mut TestClient) -> FileId {
    let name = utf16_bytes("file");
    let create = CreateRequest {
        desired_access: AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_WRITE_DATA.0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        create_options: CreateOptions(0),
        impersonation_level: ImpersonationLevel(2),
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    CreateResponse::decode(&response).expect("the file is created").file_id
}

/// Returns the statuses of the control for every form of request that smbtorture sends.
fn statuses(client: &mut TestClient, code: u32) -> Vec<Status> {
    let file_id = file(client);
    let nothing = FileId { persistent: u64::MAX, volatile: u64::MAX };
    let mut ask = |file_id, input: &[u8]| {
        let ioctl = IoctlRequest {
            ctl_code: FsctlCode(code),
            file_id,
            input,
            max_output_response: 16,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        testing::status(&client.request(Command::IOCTL, |out| ioctl.encode(out)))
    };
    vec![ask(file_id, &[]), ask(file_id, &[1]), ask(nothing, &[])]
}

#[test]
fn an_ordinary_build_has_no_torture_controls() {
    let server = TestServer::new();
    let mut client = TestClient::logged_on(&server, "alice");
    let unknown = statuses(&mut client, UNKNOWN);
    assert!(unknown.iter().all(|status| status.is_error()), "{unknown:?}");
    for code in CONTROLS {
        let same = statuses(&mut client, code) == unknown;
        assert_eq!(same, !cfg!(feature = "torture"), "{code:#x}");
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
