//! A server in this process, for tests of the built program.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use bytes::BytesMut;
use client::{Credentials, Options};
use server::state::Server;
use server::state::connection::{Connection, Peer};
use server::testing::{PASSWORD, TestServer};

/// A server that runs until the end of the process.
pub(crate) struct Served {
    /// The port on which it listens.
    pub(crate) port: u16,
    /// Client options with one of its users.
    pub(crate) options: Options,
}

/// Starts a server with an empty share in memory.
pub(crate) fn serve() -> Served {
    let server = TestServer::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let server = server.clone();
            thread::spawn(move || drive(&server, stream));
        }
    });
    let options = Options { credentials: Credentials::password("alice", PASSWORD), ..Options::default() };
    Served { port, options }
}

/// Serves one connection. Each frame is answered before the next one is read.
fn drive(server: &Arc<Server>, mut stream: TcpStream) -> io::Result<()> {
    let peer = Peer { remote: stream.peer_addr()?, local: stream.local_addr()? };
    let connection = Connection::new(server, peer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    while connection.ended().is_none() {
        let mut head = [0; 4];
        if stream.read_exact(&mut head).is_err() {
            break;
        }
        let mut frame = BytesMut::zeroed((u32::from_be_bytes(head) & 0xff_ffff) as usize);
        stream.read_exact(&mut frame)?;
        match connection.receive(frame) {
            Ok(Some(chain)) => runtime.block_on(chain.execute()),
            Ok(None) => {}
            Err(reason) => connection.end(reason),
        }
        while let Some(frame) = connection.next_frame() {
            stream.write_all(&frame.into_bytes().expect("whole data"))?;
        }
    }
    runtime.block_on(connection.close());
    Ok(())
}
