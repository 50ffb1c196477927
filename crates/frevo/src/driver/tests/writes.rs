//! WRITE requests that are executed while they arrive, and clients that are slow to send.

use client::Raw;
use proto::smb2::FileId;
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::{Command, Header};
use proto::smb2::write::{WriteRequest, WriteResponse};
use server::testing::policy;
use tokio::io::AsyncReadExt;

use super::*;

const LENGTH: usize = (3 << 20) + 1000;
/// The first part that is written ([`server::frame::Arrival::MEMORY`]), and a frame that contains hardly more.
const PART: u64 = 512 << 10;
const MORE_THAN_A_PART: usize = PART as usize + 10_000;
/// Bytes per second that a client must send.
const SLOWEST: usize = 50_000;

/// A server that serves `directory`, with connections that may be silent for `stall_time` within a request.
pub(super) fn served(directory: &std::path::Path, stall_time: Duration) -> TestServer {
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory, everybody).expect("the test owns it");
    let volume = localfs::LocalFs::open(directory, localfs::Options::default()).expect("the directory opens");
    let mut policy = policy();
    policy.limits = Limits { stall_time, slowest_request: SLOWEST, ..Limits::default() };
    let environment = Arc::new(SystemEnvironment::new());
    TestServer::builder().policy(policy).volume(Arc::new(volume)).environment(environment).start()
}

fn data(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at / 255 + at + seed) as u8).collect()
}

/// Returns the frame of the next request.
fn frame(raw: &mut Raw, command: Command, charge: u16, encode: impl FnOnce(&mut proto::bytes::Writer<'_>)) -> Vec<u8> {
    let mut header = Header::request(command, raw.next_message).with_tree_id(raw.tree_id);
    (header.session_id, header.credits, header.credit_charge) = (raw.session_id, 64, charge);
    raw.next_message += u64::from(charge);
    let mut message = Vec::new();
    let mut out = proto::bytes::Writer::new(&mut message);
    header.encode(&mut out);
    encode(&mut out);
    [&(message.len() as u32).to_be_bytes(), &message[..]].concat()
}

pub(super) fn write_frame(raw: &mut Raw, file: FileId, offset: u64, data: &[u8]) -> Vec<u8> {
    let charge = data.len().div_ceil(65_536) as u16;
    frame(raw, Command::WRITE, charge, |out| WriteRequest::new(file, offset, data).encode(out))
}

/// Receives a message; `None` if the connection ends.
pub(super) async fn receive(raw: &mut Raw) -> Option<Vec<u8>> {
    let length = raw.stream.read_u32().await.ok()?;
    let mut message = vec![0; length as usize];
    raw.stream.read_exact(&mut message).await.ok()?;
    Some(message)
}

/// A connected client that has a file open, and the task of its connection.
pub(super) async fn opened(
    server: &Arc<Server>,
    stopping: &watch::Receiver<bool>,
) -> (Raw, FileId, tokio::task::JoinHandle<()>) {
    let (mut client, driver) = log_on(server, stopping).await;
    let file = client.open(&Open::file("file")).await.expect("a file");
    let mut raw = client.into_raw();
    // Credits for long requests.
    for _ in 0..4 {
        let echo = frame(&mut raw, Command::ECHO, 1, |out| EchoRequest.encode(out));
        raw.stream.write_all(&echo).await.expect("the connection is open");
        receive(&mut raw).await.expect("a response");
    }
    (raw, file, driver)
}

#[tokio::test]
async fn they_are_written_as_they_arrive() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = served(directory.path(), Duration::from_secs(60));
    let (_stop, stopping) = watch::channel(false);
    let (mut raw, file, _driver) = opened(&server, &stopping).await;
    let path = directory.path().join("file");
    let (mut grew, mut rounds) = (false, 0);
    for step in [1000, 65_536, 300_001, LENGTH] {
        for offset in [0, 1, 70_000] {
            rounds += 1;
            let data = data(rounds);
            let _ = std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(0));
            // The next request begins in the last packet of this one.
            let frames = [write_frame(&mut raw, file, offset, &data), write_frame(&mut raw, file, 0, b"a")].concat();
            for piece in frames.chunks(step) {
                raw.stream.write_all(piece).await.expect("the connection is open");
                tokio::task::yield_now().await;
                let length = std::fs::metadata(&path).expect("it exists").len();
                grew |= (1..offset + LENGTH as u64).contains(&length);
            }
            for count in [LENGTH, 1] {
                let response = receive(&mut raw).await.expect("a response");
                assert_eq!(WriteResponse::decode(&response), Ok(WriteResponse { count: count as u32 }));
            }
            let written = std::fs::read(&path).expect("it is readable");
            let expected = if offset == 0 { &data[1..] } else { &data };
            assert!(written[offset.max(1) as usize..] == *expected, "{step}, {offset}");
            assert_eq!(written[0], b'a');
        }
    }
    assert!(grew, "each was written as a whole");
}

/// A client that stops in the middle keeps neither the file nor memory once its connection has ended.
#[tokio::test]
async fn a_client_that_does_not_complete_one_is_disconnected() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = served(directory.path(), Duration::from_millis(400));
    let (_stop, stopping) = watch::channel(false);
    let (mut raw, file, driver) = opened(&server, &stopping).await;
    let frame = write_frame(&mut raw, file, 0, &data(1));
    raw.stream.write_all(&frame[..MORE_THAN_A_PART]).await.expect("the connection is open");
    assert_eq!(receive(&mut raw).await, None);
    driver.await.expect("it ends");
    assert_eq!((server.open_count(), server.accounting.memory()), (0, 0));
    assert_eq!(std::fs::metadata(directory.path().join("file")).expect("it exists").len(), PART);
}

/// Its bytes count although the kernel collects them until there are enough.
#[tokio::test]
async fn a_client_that_is_fast_enough_is_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = served(directory.path(), Duration::from_secs(2));
    let (_stop, stopping) = watch::channel(false);
    let (mut raw, file, _driver) = opened(&server, &stopping).await;
    let data = &data(1)[..1 << 20];
    let frame = write_frame(&mut raw, file, 0, data);
    let (start, rest) = frame.split_at(1000);
    raw.stream.write_all(start).await.expect("the connection is open");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (part, rest) = rest.split_at(4 * SLOWEST);
    raw.stream.write_all(part).await.expect("the connection is open");
    tokio::time::sleep(Duration::from_secs(3)).await;
    raw.stream.write_all(rest).await.expect("the connection is open");
    let response = receive(&mut raw).await.expect("a response");
    assert_eq!(WriteResponse::decode(&response), Ok(WriteResponse { count: 1 << 20 }));
    assert!(std::fs::read(directory.path().join("file")).expect("it is readable") == data);
}

/// A server that stops does not wait for the rest, and does not report a result.
#[tokio::test]
async fn a_server_that_stops() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = served(directory.path(), Duration::from_secs(60));
    let (stop, stopping) = watch::channel(false);
    let (mut raw, file, driver) = opened(&server, &stopping).await;
    let frame = write_frame(&mut raw, file, 0, &data(1));
    raw.stream.write_all(&frame[..MORE_THAN_A_PART]).await.expect("the connection is open");
    while std::fs::metadata(directory.path().join("file")).expect("it exists").len() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.send_replace(true);
    assert_eq!(receive(&mut raw).await, None);
    driver.await.expect("it ends");
    assert_eq!((server.open_count(), server.accounting.memory()), (0, 0));
}

/// The input is never empty, because each packet has the beginning of the next request too.
#[tokio::test]
async fn a_client_that_never_pauses_is_not_too_slow() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = served(directory.path(), Duration::from_millis(400));
    let (_stop, stopping) = watch::channel(false);
    let (mut raw, _file, _driver) = opened(&server, &stopping).await;
    let mut sent = 0;
    for _ in 0..30 {
        let echo = frame(&mut raw, Command::ECHO, 1, |out| EchoRequest.encode(out));
        let next = frame(&mut raw, Command::ECHO, 1, |out| EchoRequest.encode(out));
        raw.next_message -= 1;
        raw.stream.write_all(&[&echo[sent..], &next[..1]].concat()).await.expect("the connection is open");
        sent = 1;
        assert!(receive(&mut raw).await.is_some());
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}
