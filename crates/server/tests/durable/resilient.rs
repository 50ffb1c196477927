//! Resilient opens ([MS-SMB2] 3.3.5.15.9): preserved without an oplock for the requested time.

use proto::bytes::Writer;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, NetworkResiliencyRequest};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use crate::requests::{reconnect, run, send};
use server::testing::{PipelinedClient, TestServer, opened};

pub(crate) fn make_resilient(client: &mut PipelinedClient, file_id: FileId, timeout: u32) -> Status {
    let mut input = Vec::new();
    NetworkResiliencyRequest { timeout }.encode(&mut Writer::new(&mut input));
    let request = IoctlRequest {
        ctl_code: FsctlCode::LMR_REQUEST_RESILIENCY,
        file_id,
        flags: IoctlFlags::IS_FSCTL,
        input: &input,
        ..IoctlRequest::default()
    };
    client.request(Command::IOCTL, |out| request.encode(out)).header().status
}

#[test]
fn a_resilient_open_is_kept_without_an_oplock_for_the_requested_time() {
    for (asked, granted, kept) in [
        (0, Status::SUCCESS, 119),
        (5_000, Status::SUCCESS, 4),
        (300_000, Status::SUCCESS, 299),
        (300_001, Status::INVALID_PARAMETER, 0),
    ] {
        let server = TestServer::with_stopped_clock();
        let mut client = server.log_on("alice", false);
        let (file_id, _) = client.open("file", OplockLevel::NONE);
        assert_eq!(make_resilient(&mut client, file_id, asked), granted, "{asked}");
        run(client.connection.close());
        if granted != Status::SUCCESS {
            assert_eq!(server.open_count(), 0);
            continue;
        }
        server.log_on("alice", false).open("file", OplockLevel::NONE);
        server.advance_seconds(kept);
        run(server.scavenge());
        assert_eq!(server.open_count(), 2, "{asked}");
        let mut back = server.log_on("alice", false);
        opened(&send(&mut back, "", OplockLevel::NONE, vec![reconnect(file_id)]));
        run(back.connection.close());
        server.advance_seconds(kept + 1);
        run(server.scavenge());
        assert_eq!(server.open_count(), 1, "{asked}");
    }
}
