//! What requests and incomplete frames keep of the input buffers.

use proto::smb2::header::{Command, Header};
use proto::smb2::write::WriteResponse;
use server::testing::policy;

use super::writes::{opened, receive, served, write_frame};
use super::*;

const MIB: usize = 1 << 20;
/// The buffer for a read of unknown length.
const USUAL: usize = 66 * 1024;

/// A driver that has not received anything.
async fn driver() -> Driver {
    let mut policy = policy();
    policy.limits.frame_before_logon = policy.limits.frame;
    let server = TestServer::with_policy(policy);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let connection = Connection::new(&server, Peer { remote: address, local: address });
    Driver::new(stream, connection, Arc::new(Inputs::new(1 << 30)), LOOPS.place([127, 0, 0, 1].into()), None)
}

/// Returns a frame of `length` bytes after its transport header.
fn frame(command: Command, length: usize) -> Vec<u8> {
    let mut message = Header::request(command, 0).to_bytes().to_vec();
    message.resize(length, 7);
    [&(length as u32).to_be_bytes(), &message[..]].concat()
}

/// Receives `bytes` into a buffer of `size` bytes. Returns where it is.
fn fill(driver: &mut Driver, size: usize, bytes: &[u8]) -> *const u8 {
    driver.input = driver.inputs.take(size);
    driver.input_size = driver.input.capacity();
    driver.input.extend_from_slice(bytes);
    driver.input.as_ptr()
}

#[tokio::test]
async fn a_request_keeps_no_buffer_that_is_much_longer() {
    for (command, length, size, is_copied) in [
        (Command::LOCK, 5_000, USUAL, true),
        (Command::LOCK, 5_000, 2 * MIB, true),
        (Command::LOCK, 300_000, 8 * MIB, true),
        (Command::LOCK, 30_000, USUAL, false),
        (Command::LOCK, 3 * MIB, 8 * MIB, false),
        (Command::WRITE, 4_000, USUAL, true),
        (Command::WRITE, 4_096 + 112, USUAL, false),
        (Command::WRITE, 4_096 + 112, MIB + 117, true),
        (Command::WRITE, 65_536 + 112, USUAL, false),
        (Command::WRITE, 65_536 + 112, MIB + 117, false),
        (Command::WRITE, MIB + 112, MIB + 117, false),
        (Command::WRITE, MIB + 112, 2 * MIB, false),
        (Command::WRITE, 5_000, 8 * MIB, true),
    ] {
        let mut driver = driver().await;
        let sent = frame(command, length);
        let memory = fill(&mut driver, size, &[&sent[..], &frame(Command::ECHO, 68)].concat());
        let taken = driver.next_frame().expect("a frame").expect("a frame");
        assert!(taken == sent[4..]);
        assert_eq!(taken.as_ptr() != memory.wrapping_add(4), is_copied, "{command:?} {length} {size}");
        assert_eq!(driver.next_frame().expect("a frame").expect("a frame").len(), 68);
        assert_eq!(driver.next_frame().expect("no frame"), None);
    }
}

/// The connection is charged for the capacity of its input.
#[tokio::test]
async fn an_incomplete_frame_keeps_no_buffer_uncharged() {
    for waits in [true, false] {
        let mut driver = driver().await;
        let (long, next) = (frame(Command::LOCK, 8 * MIB), &frame(Command::ECHO, 68)[..10]);
        let memory = fill(&mut driver, long.len() + 100, &[&long[..], next].concat());
        let request = driver.next_frame().expect("a frame").expect("a frame");
        assert_eq!(driver.next_frame().expect("no frame"), None);
        let waiting = waits.then_some(request);
        driver.compact();
        assert_eq!(driver.input, next);
        if !waits {
            assert_eq!((driver.input.as_ptr(), driver.transit().input), (memory, long.len() + 100));
            continue;
        }
        assert!(driver.transit().input < 1_000);
        drop(waiting);
        assert_eq!(driver.inputs.take(8 * MIB).as_ptr(), memory, "the buffer is not free after the request");
    }
}

/// Wherever the pieces end that the client sends.
#[tokio::test]
async fn requests_of_all_lengths_arrive_intact() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = served(directory.path(), Duration::from_secs(60));
    let (_stop, stopping) = watch::channel(false);
    let (mut raw, file, task) = opened(&server, &stopping).await;
    let lengths = [MIB, 5_000, 20_000, 3, 700_000, 100, 65_536, 2 * MIB + 5, 9_000, 1, MIB - 7, 4_097];
    for (round, step) in [997, 65_536, 300_001, 16 * MIB].into_iter().enumerate() {
        let total: usize = lengths.iter().sum();
        let data: Vec<u8> = (0..total).map(|at| (at / 251 + at + round) as u8).collect();
        let (mut frames, mut offset) = (Vec::new(), 0);
        for length in lengths {
            frames.extend(write_frame(&mut raw, file, offset as u64, &data[offset..offset + length]));
            offset += length;
        }
        for piece in frames.chunks(step) {
            raw.stream.write_all(piece).await.expect("the connection is open");
        }
        let mut counts = Vec::new();
        for _ in lengths {
            let response = receive(&mut raw).await.expect("a response");
            counts.push(WriteResponse::decode(&response).expect("it is written").count as usize);
        }
        counts.sort_unstable();
        let mut expected = lengths;
        expected.sort_unstable();
        assert_eq!(counts, expected);
        assert!(std::fs::read(directory.path().join("file")).expect("it is readable") == data, "{step}");
    }
    drop(raw);
    task.await.expect("it ends");
    assert_eq!(server.accounting.memory(), 0);
}
