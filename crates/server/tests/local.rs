//! Clients and local programs on the same files: `kernel oplocks`, and leases that local programs have.

#[allow(dead_code, reason = "not every test file needs all of it")]
mod bed;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use bed::{Bed, Client, Message, opened};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::CreateDisposition;
use proto::smb2::header::{Command, Flags};
use proto::smb2::oplock_break::{OplockBreak, OplockBreakNotification, OplockBreakResponse};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::answer::block_on;
use server::vfs::{Access, Case, Errno, Identity, Links, Lookup, Node, RelPath, Result};

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };

/// A share whose oplocks the kernel's leases stand behind.
fn bed() -> Bed {
    Bed::with(|share| share.kernel_oplocks = true)
}

/// A local program looks for the file `file`.
fn found(bed: &Bed) -> Arc<dyn Node> {
    let path = RelPath::root().join(b"file").expect("a name");
    match block_on(bed.volume.lookup(&root(), &path, Case::Sensitive, Links::default())) {
        Ok(Lookup::Found { node, .. }) => node,
        _ => panic!("the file is there"),
    }
}

fn root() -> Arc<Identity> {
    Arc::new(Identity { uid: 0, gid: 0, groups: Box::new([]) })
}

/// A local program opens it, without waiting.
fn open_locally(bed: &Bed, access: Access) -> Result<Arc<dyn Node>> {
    block_on(found(bed).open(&root(), access))
}

/// What the server does beside the connections.
fn housekeeping(bed: &Bed) -> Pin<Box<dyn Future<Output = ()>>> {
    let server = bed.server.clone();
    Box::pin(async move { server.scavenge().await })
}

fn turn(running: &mut Pin<Box<dyn Future<Output = ()>>>) {
    for _ in 0..3 {
        assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

fn send(client: &mut Client, disposition: CreateDisposition, oplock: OplockLevel) -> Message {
    let create = client.create("file", disposition, oplock, Flags(0));
    assert!(client.send(&create));
    client.next()
}

fn create(client: &mut Client, oplock: OplockLevel) -> (FileId, OplockLevel) {
    opened(&send(client, CreateDisposition::OPEN_IF, oplock))
}

#[track_caller]
fn close(client: &mut Client, file_id: FileId) {
    let close = CloseRequest { flags: CloseFlags(0), file_id };
    client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
}

/// The client is told that its oplock ends altogether.
#[track_caller]
fn told(client: &mut Client) {
    let message = client.next();
    assert_eq!(message.header().command, Command::OPLOCK_BREAK);
    match OplockBreakNotification::decode(message.bytes()) {
        Ok(OplockBreakNotification::Oplock(broken)) => assert_eq!(broken.oplock_level, OplockLevel::NONE),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn acknowledge(client: &mut Client, file_id: FileId) {
    let acknowledgment = OplockBreakResponse::Oplock(OplockBreak { oplock_level: OplockLevel::NONE, file_id });
    client.request(Command::OPLOCK_BREAK, |out| acknowledgment.encode(out)).check(Status::SUCCESS);
}

#[test]
fn what_the_kernel_can_stand_behind() {
    for (asked, granted) in [
        (OplockLevel::BATCH, OplockLevel::BATCH),
        (OplockLevel::EXCLUSIVE, OplockLevel::EXCLUSIVE),
        (OplockLevel::II, OplockLevel::NONE),
    ] {
        let bed = bed();
        let mut client = bed.log_on("alice", false);
        assert_eq!(create(&mut client, asked).1, granted);
        let mut second = bed.log_on("alice", false);
        if granted == OplockLevel::NONE {
            assert_eq!(create(&mut second, asked).1, OplockLevel::NONE);
        }
    }
}

#[test]
fn a_file_that_is_open_locally_is_not_cached() {
    let bed = bed();
    let mut client = bed.log_on("alice", false);
    let (first, _) = create(&mut client, OplockLevel::NONE);
    close(&mut client, first);
    let local = open_locally(&bed, READ).expect("opens");
    let (second, level) = create(&mut client, OplockLevel::BATCH);
    assert_eq!(level, OplockLevel::NONE);
    close(&mut client, second);
    drop(local);
    assert_eq!(create(&mut client, OplockLevel::BATCH).1, OplockLevel::BATCH);
}

#[test]
fn a_local_program_waits_until_the_client_has_given_way() {
    for closes in [false, true] {
        let bed = bed();
        let mut client = bed.log_on("alice", false);
        let (file_id, _) = create(&mut client, OplockLevel::EXCLUSIVE);
        for _ in 0..2 {
            assert_eq!(open_locally(&bed, READ).err(), Some(Errno::AGAIN));
        }
        told(&mut client);
        client.silent();
        if closes {
            close(&mut client, file_id);
        } else {
            acknowledge(&mut client, file_id);
        }
        open_locally(&bed, BOTH).expect("nobody caches it");
    }
}

#[test]
fn a_client_that_does_not_answer_loses_its_oplock() {
    let bed = bed();
    let mut housekeeping = housekeeping(&bed);
    let mut client = bed.log_on("alice", false);
    let (file_id, _) = create(&mut client, OplockLevel::BATCH);
    assert!(open_locally(&bed, READ).is_err());
    told(&mut client);
    for (seconds, ended) in [(30, false), (10, true)] {
        turn(&mut housekeeping);
        bed.pass(seconds);
        turn(&mut housekeeping);
        assert_eq!(open_locally(&bed, READ).is_ok(), ended);
    }
    let late = OplockBreakResponse::Oplock(OplockBreak { oplock_level: OplockLevel::NONE, file_id });
    client.request(Command::OPLOCK_BREAK, |out| late.encode(out)).check(Status::INVALID_DEVICE_STATE);
}

#[test]
fn another_client_opens_when_the_first_has_given_way() {
    let bed = bed();
    let mut first = bed.log_on("alice", false);
    let (file_id, _) = create(&mut first, OplockLevel::BATCH);
    let mut second = bed.log_on("alice", false);
    send(&mut second, CreateDisposition::OPEN, OplockLevel::BATCH).check(Status::PENDING);
    told(&mut first);
    acknowledge(&mut first, file_id);
    assert_eq!(opened(&second.next()).1, OplockLevel::NONE, "both have it open");
    open_locally(&bed, BOTH).expect("nobody caches it");
}

#[test]
fn a_client_waits_for_the_lease_of_a_local_program() {
    for gives_way in [true, false] {
        let bed = Bed::new();
        let mut client = bed.log_on("alice", false);
        let (file_id, _) = create(&mut client, OplockLevel::NONE);
        close(&mut client, file_id);
        let local = open_locally(&bed, BOTH).expect("opens");
        let lease = block_on(local.lease(Arc::new(|| {}))).expect("a lease");
        send(&mut client, CreateDisposition::OPEN, OplockLevel::NONE).check(Status::PENDING);
        bed.pass(10);
        client.silent();
        if gives_way {
            drop(lease);
            bed.pass(1);
            opened(&client.next());
        } else {
            bed.pass(120);
            client.next().check(Status::SHARING_VIOLATION);
        }
    }
}
