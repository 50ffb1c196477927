//! Tests with connections over a socket to a server that panics on demand.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, Credentials, Open, Options};
use server::environment::Environment;
use server::policy::Limits;
use server::state::Server;
use server::state::connection::Peer;
use server::testing::{PASSWORD, TestServer};
use server::vfs::Time;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::environment::SystemEnvironment;
use crate::event_loops::EventLoops;

mod buffers;
mod writes;

/// Connections of these tests run on the test's own runtime and move to one of these loops.
static LOOPS: LazyLock<EventLoops> = LazyLock::new(|| EventLoops::with_threads(2).expect("threads"));

fn inputs() -> Arc<Inputs> {
    Arc::new(Inputs::new(Limits::default().kept_buffers()))
}

/// The real clock and random numbers, and a clock that panics once when armed.
struct Trap {
    environment: SystemEnvironment,
    armed: AtomicBool,
}

impl Environment for Trap {
    fn now(&self) -> Time {
        assert!(!self.armed.swap(false, Ordering::Relaxed), "on purpose");
        self.environment.now()
    }

    fn uptime(&self) -> Duration {
        self.environment.uptime()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.environment.sleep(duration)
    }

    fn random(&self, bytes: &mut [u8]) {
        self.environment.random(bytes);
    }
}

async fn log_on(server: &Arc<Server>, stopping: &watch::Receiver<bool>) -> (Client, tokio::task::JoinHandle<()>) {
    log_on_over(server, stopping, |_| Ok(())).await
}

/// Logs on over a connection whose server side is set by `prepare`.
async fn log_on_over(
    server: &Arc<Server>,
    stopping: &watch::Receiver<bool>,
    prepare: impl FnOnce(&TcpStream) -> rustix::io::Result<()> + Send + 'static,
) -> (Client, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let options = Options { credentials: Credentials::password("alice", PASSWORD), ..Options::default() };
    let (server, stopping) = (server.clone(), stopping.clone());
    let driver = tokio::spawn(async move {
        let (stream, remote) = listener.accept().await.expect("a connection");
        prepare(&stream).expect("an open socket");
        let connection = Connection::new(&server, Peer { remote, local: address });
        drive(stream, connection, inputs(), LOOPS.place([127, 0, 0, 1].into()), None, stopping).await;
    });
    (Client::connect(address, "host", "share", &options).await.expect("a session"), driver)
}

#[tokio::test]
async fn a_panic_closes_its_connection_and_releases_its_state() {
    let environment = Arc::new(Trap { environment: SystemEnvironment::new(), armed: AtomicBool::new(false) });
    let server = TestServer::builder().environment(environment.clone()).start();
    let (_stop, stopping) = watch::channel(false);
    let (mut victim, driver) = log_on(&server, &stopping).await;
    let (mut other, _other) = log_on(&server, &stopping).await;
    victim.open(&Open::file("held")).await.expect("a file");
    assert_eq!((server.sessions.all().len(), server.open_count()), (2, 1));
    environment.armed.store(true, Ordering::Relaxed);
    assert!(victim.open(&Open::file("another")).await.is_err());
    driver.await.expect("the task itself does not panic");
    assert_eq!((server.sessions.all().len(), server.open_count(), server.connections.all().len()), (1, 0, 1));
    other.open(&Open::file("held")).await.expect("the file can be opened");
}

/// The socket accepts a long response in many parts, of which some end within the header.
#[tokio::test]
async fn data_in_a_pipe_follows_its_header() {
    let directory = tempfile::tempdir().expect("a directory");
    let data: Vec<u8> = (0..3_u64 << 17).flat_map(u64::to_le_bytes).collect();
    std::fs::write(directory.path().join("file"), &data).expect("there is free space");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), everybody).expect("the test owns it");
    // Files that have just changed are not read into pipes.
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    let volume = localfs::LocalFs::open(directory.path(), localfs::Options::default()).expect("the directory opens");
    let server = TestServer::builder().volume(Arc::new(volume)).start();
    let (_stop, stopping) = watch::channel(false);
    let little = |stream: &TcpStream| rustix::net::sockopt::set_socket_send_buffer_size(stream, 4096);
    let (mut client, _driver) = log_on_over(&server, &stopping, little).await;
    let pipes = || {
        let open = std::fs::read_dir("/proc/self/fd").expect("a /proc").flatten();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("pipe:")).count()
    };
    let before = pipes();
    let file = client.open(&Open::existing("file")).await.expect("it exists");
    for (offset, length) in [(0, data.len()), (1, 1 << 20), (70_000, 65_536), (data.len() - 100_000, 1 << 20)] {
        let read = client.read(file, offset as u64, length as u32).await.expect("it is readable");
        assert!(read == &data[offset..(offset + length).min(data.len())], "{offset}, {length}");
    }
    assert!(pipes() > before, "the data was copied");
}

/// A connection moves back and forth with requests in progress.
#[tokio::test]
async fn a_connection_moves_between_event_loops() {
    let server = TestServer::builder().environment(Arc::new(SystemEnvironment::new())).start();
    let (_stop, stopping) = watch::channel(false);
    let (mut client, driver) = log_on(&server, &stopping).await;
    let file = client.open(&Open::file("file")).await.expect("a file");
    let mut moves = 0;
    for round in 0..200_u64 {
        let data = round.to_le_bytes();
        // Whichever loop has it: the request is taken by a connection of that loop only.
        LOOPS.want(round as usize % 2, (round + 1) as usize % 2);
        client.write(file, 0, &data).await.expect("it is written");
        assert_eq!(client.read(file, 0, 100).await.expect("it is read"), data);
        moves += usize::from(!LOOPS.is_wanted());
    }
    assert!(moves > 100, "{moves}");
    assert_eq!(server.open_count(), 1);
    drop(client);
    driver.await.expect("it ends");
    assert_eq!((server.sessions.all().len(), server.open_count(), server.accounting.memory()), (0, 0, 0));
}

#[tokio::test]
async fn a_task_that_is_aborted_closes_its_connection() {
    let server = TestServer::new();
    let (_stop, stopping) = watch::channel(false);
    let (mut client, driver) = log_on(&server, &stopping).await;
    client.open(&Open::file("held")).await.expect("a file");
    driver.abort();
    assert!(driver.await.is_err());
    // Its task may be on another event loop.
    for _ in 0..1000 {
        if server.sessions.all().is_empty() && server.accounting.memory() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((server.sessions.all().len(), server.open_count(), server.accounting.memory()), (0, 0, 0));
}

/// Each client announces the longest frame and sends a small part of it. The memory is charged before it is allocated,
/// even if enough was free when the clients began.
#[tokio::test]
async fn concurrent_frames_use_at_most_the_memory_share_of_their_user() {
    const CLIENTS: usize = 48;
    let server = TestServer::builder().environment(Arc::new(SystemEnvironment::new())).start();
    let bound = {
        let limits = &server.policy().limits;
        assert!(CLIENTS * limits.frame > limits.memory / 4);
        limits.memory / 4
    };
    let (_stop, stopping) = watch::channel(false);
    let mut streams = Vec::new();
    for _ in 0..CLIENTS {
        let (client, _driver) = log_on(&server, &stopping).await;
        streams.push(client.into_raw().stream);
    }
    // The header shows that the request is not one that can be executed before all of it has arrived.
    let start = [&(8_u32 << 20).to_be_bytes()[..], &[0xfe], &[0; 110]];
    for piece in start.into_iter().chain([&[0; 100_000][..]; 10]) {
        for stream in &streams {
            // The socket of a client that has to wait may be full.
            let _ = stream.try_write(piece);
        }
        // Every task gets several turns.
        for _ in 0..20 * CLIENTS {
            tokio::task::yield_now().await;
        }
        assert!(server.accounting.memory() <= bound, "{} of {bound}", server.accounting.memory());
    }
    assert!(server.accounting.memory() > 8 << 20, "no client was granted memory for its frame");
}

/// Each idle connection holds its task. What is needed only at the end is not part of it.
#[tokio::test]
async fn the_task_of_a_connection_is_small() {
    let server = TestServer::builder().environment(Arc::new(SystemEnvironment::new())).start();
    let (_stop, stopping) = watch::channel(false);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(address).await.expect("a connection");
    let (stream, remote) = listener.accept().await.expect("a connection");
    let connection = Connection::new(&server, Peer { remote, local: address });
    let task = drive(stream, connection, inputs(), LOOPS.place([127, 0, 0, 1].into()), None, stopping);
    assert!(size_of_val(&task) <= 2_560, "{} bytes", size_of_val(&task));
}
