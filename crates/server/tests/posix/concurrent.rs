//! Several POSIX clients that change the names of one file at the same time.

use std::sync::Arc;

use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition as Disposition, CreateOptions as Options};
use proto::smb2::header::Command;
use proto::status::Status;
use server::testing::{TestServer, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script, yields};
use server::vfs::memory::Options as VolumeOptions;

use crate::client::{ALL, Client, READ};

const DELETE: u32 = 0x0001_0000;

/// Delays the removal of names.
struct SlowUnlink;

impl Script for SlowUnlink {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        match operation {
            Operation::Unlink => Fault { before: Some(yields(6)), after: Some(yields(6)), error: None },
            _ => Fault::default(),
        }
    }
}

fn server() -> TestServer {
    let options = VolumeOptions { mode: 0o777, ..VolumeOptions::default() };
    TestServer::builder()
        .volume_options(options)
        .wrap_volume(|volume| Faulty::new(volume, Arc::new(SlowUnlink)))
        .configure(|policy| policy.smb3_unix_extensions = true)
        .start()
}

/// Opens a name so that the CLOSE deletes it.
fn doom(client: &mut Client, name: &str) -> proto::smb2::FileId {
    client.create(name, DELETE, Disposition::OPEN, Options::DELETE_ON_CLOSE, Some(0xffff)).expect("it is there").0
}

#[test]
fn two_names_of_one_file_are_both_unlinked() {
    // With `keeper`, another POSIX open keeps the file, so that neither CLOSE is the last one. With `reader`, it is
    // closed during the removals.
    for (keeper, reader) in [(false, false), (true, false), (true, true)] {
        for steps in 0..16 {
            let server = server();
            let [mut alice, mut bob, mut carl] = ["alice", "bob", "alice"].map(|user| Client::posix(&server, user));
            alice.put("f", b"content");
            let file = alice.open("f", ALL);
            assert_eq!(alice.link_by(file, "g"), Status::SUCCESS);
            alice.client.close(file);
            let kept = keeper.then(|| carl.open("f", READ));
            let (first, second) = (doom(&mut alice, "f"), doom(&mut bob, "g"));
            let close = |file_id| CloseRequest { flags: CloseFlags::NONE, file_id };
            let message = alice.client.compose(Command::CLOSE, |out| close(first).encode(out));
            alice.client.post(&message);
            let mut frames: Vec<_> = (0..steps).flat_map(|_| alice.client.proceed()).collect();
            let message = bob.client.compose(Command::CLOSE, |out| close(second).encode(out));
            bob.client.post(&message);
            let others = bob.client.proceed();
            let kept = kept.filter(|file| {
                if reader {
                    carl.client.close(*file);
                }
                !reader
            });
            frames.extend(alice.client.proceed());
            for (client, frames) in [(&mut alice, frames), (&mut bob, others)] {
                let response = client.client.finish(frames).expect("a response");
                assert_eq!(status(&response), Status::SUCCESS);
            }
            assert_eq!(alice.names(""), [".", ".."], "{keeper} {reader} {steps}");
            if let Some(kept) = kept {
                assert_eq!(carl.read(kept), Ok(b"content".to_vec()));
                assert_eq!(carl.information(kept).posix.links, 0);
                carl.client.close(kept);
            }
            assert_eq!((server.open_files(), server.open_count()), (0, 0), "{keeper} {reader} {steps}");
            // The names are free.
            alice.put("f", b"new");
            assert_eq!(bob.get("f"), Ok(b"new".to_vec()));
        }
    }
}
