//! Tests with connections over a socket to a server that panics on demand.

use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, Credentials, Open, Options};
use server::environment::Environment;
use server::state::Server;
use server::state::connection::Peer;
use server::testing::{PASSWORD, TestServer};
use server::vfs::Time;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::environment::SystemEnvironment;

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
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let options = Options { credentials: Credentials::password("alice", PASSWORD), ..Options::default() };
    let (server, stopping) = (server.clone(), stopping.clone());
    let driver = tokio::spawn(async move {
        let (stream, remote) = listener.accept().await.expect("a connection");
        let connection = Connection::new(&server, Peer { remote, local: address });
        drive(stream, connection, Arc::default(), None, stopping).await;
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

#[tokio::test]
async fn a_task_that_is_aborted_closes_its_connection() {
    let server = TestServer::new();
    let (_stop, stopping) = watch::channel(false);
    let (mut client, driver) = log_on(&server, &stopping).await;
    client.open(&Open::file("held")).await.expect("a file");
    driver.abort();
    assert!(driver.await.is_err());
    for _ in 0..1000 {
        if server.sessions.all().is_empty() {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!((server.sessions.all().len(), server.open_count(), server.accounting.memory()), (0, 0, 0));
}

/// Each client announces the longest frame and sends almost nothing. The memory is charged before it is allocated, even
/// if enough was free when the clients began.
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
    for piece in [&(8_u32 << 20).to_be_bytes()[..], &[0xfe], b"S", b"M"] {
        for stream in &mut streams {
            stream.write_all(piece).await.expect("the connection is open");
        }
        // Every task gets several turns.
        for _ in 0..20 * CLIENTS {
            tokio::task::yield_now().await;
        }
        assert!(server.accounting.memory() <= bound, "{} of {bound}", server.accounting.memory());
    }
    assert!(server.accounting.memory() > 8 << 20, "no client was granted memory for its frame");
}
