//! Servers on port 445, for client programs that support no other: a network namespace in which each address
//! forwards to the port on which a server listens.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow};

use crate::network_namespace::{FIRST, NetworkNamespace, SECOND, move_to};

/// The namespace. Dropping it ends all connections.
pub struct Port445 {
    namespace: NetworkNamespace,
    listeners: Vec<TcpListener>,
}

impl Port445 {
    /// The available addresses.
    pub const ADDRESSES: [Ipv4Addr; 2] = [FIRST, SECOND];

    /// Forwards port 445 of the first address to the first of `servers`, and that of the second address to the second.
    pub fn open(servers: [SocketAddr; 2]) -> Result<Port445> {
        let namespace = NetworkNamespace::start()?;
        let network = namespace.network.as_raw_fd();
        let mut listeners = Vec::new();
        for (address, server) in Self::ADDRESSES.into_iter().zip(servers) {
            // A socket belongs to the namespace in which it was created, whatever thread uses it.
            let made = thread::spawn(move || move_to(network).and_then(|()| TcpListener::bind((address, 445))));
            let listener =
                made.join().map_err(|_| anyhow!("a thread panicked"))?.context("cannot listen on port 445")?;
            let accepting = listener.try_clone()?;
            thread::spawn(move || accept(&accepting, server));
            listeners.push(listener);
        }
        Ok(Port445 { namespace, listeners })
    }

    /// Makes `command` run in the namespace.
    pub fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let network = self.namespace.network.as_raw_fd();
        // SAFETY: between fork and exec the closure makes one system call.
        unsafe { command.pre_exec(move || move_to(network)) }
    }
}

impl Drop for Port445 {
    fn drop(&mut self) {
        for listener in &self.listeners {
            // SAFETY: shutdown takes two numbers; on Linux it makes accept return.
            unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
        }
    }
}

fn accept(listener: &TcpListener, server: SocketAddr) {
    while let Ok((client, _)) = listener.accept() {
        thread::spawn(move || join(client, server));
    }
}

/// Forwards bytes in both directions until both sides have finished.
fn join(client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
    }
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let back = thread::spawn(move || carry(&to, &from));
    let there = carry(&client, &server);
    let _ = back.join();
    there
}

fn carry(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let carried = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    carried.map(drop)
}
