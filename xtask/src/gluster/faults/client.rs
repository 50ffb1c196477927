//! A client that makes one request at a time and returns its exact status.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use client::{Client, Credentials, Error, Open, Options};
use proto::smb2::FileId;
use proto::smb2::write::{WriteFlags, WriteRequest};
use proto::status::Status;
use test_environment::{ALICE, Person};
use tokio::runtime::{Builder, Runtime};

/// Time limit for a response, which is longer than any time limit of the server.
const PATIENCE: Duration = Duration::from_secs(100);

/// A connection to a share.
pub(super) struct Smb {
    runtime: Runtime,
    client: Client,
}

impl Smb {
    /// Connects to a share as alice.
    pub(super) fn connect(address: SocketAddr, share: &str) -> Result<Smb> {
        Ok(Smb::try_connect(address, share, &ALICE)??)
    }

    /// Connects to a share as a user. The inner result is the server's.
    pub(super) fn try_connect(address: SocketAddr, share: &str, user: &Person) -> Result<client::Result<Smb>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let credentials = Credentials::password(user.name, user.password);
        let options = Options { credentials, timeout: PATIENCE, ..Options::default() };
        let connected = runtime.block_on(Client::connect(address, "127.0.0.1", share, &options));
        Ok(connected.map(|client| Smb { runtime, client }))
    }

    /// Makes calls.
    pub(super) fn run<T>(&mut self, calls: impl AsyncFnOnce(&mut Client) -> client::Result<T>) -> client::Result<T> {
        self.runtime.block_on(calls(&mut self.client))
    }

    /// Opens a file for all access and creates it if it does not exist.
    pub(super) fn open(&mut self, name: &str) -> client::Result<FileId> {
        self.run(async |client| client.open(&Open::file(name)).await)
    }

    /// Opens a file that must exist, for reading.
    pub(super) fn open_existing(&mut self, name: &str) -> client::Result<FileId> {
        self.run(async |client| client.open(&Open::existing(name)).await)
    }

    /// Reads from the begin of a file.
    pub(super) fn read(&mut self, file: FileId, length: usize) -> client::Result<Vec<u8>> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.run(async |client| client.read(file, 0, length).await.map(<[u8]>::to_vec))
    }

    /// Writes at the begin of a file.
    pub(super) fn write(&mut self, file: FileId, data: &[u8]) -> client::Result<()> {
        self.run(async |client| client.write(file, 0, data).await)
    }

    /// Writes at the begin of a file and through all caches.
    pub(super) fn write_through(&mut self, file: FileId, data: &[u8]) -> client::Result<()> {
        self.run(async |client| {
            let request = WriteRequest { flags: WriteFlags::WRITE_THROUGH, ..WriteRequest::new(file, 0, data) };
            client.send_write(0, &request).await?;
            client.next().await?.succeeded()
        })
    }

    /// Flushes a file.
    pub(super) fn flush(&mut self, file: FileId) -> client::Result<()> {
        self.run(async |client| client.flush_file(file).await)
    }

    /// Closes a file.
    pub(super) fn close(&mut self, file: FileId) -> client::Result<()> {
        self.run(async |client| client.close(file).await)
    }

    /// Opens a file, writes all of its content, flushes and closes it.
    pub(super) fn put(&mut self, name: &str, data: &[u8]) -> client::Result<()> {
        let file = self.open(name)?;
        let done = self.write(file, data).and_then(|()| self.flush(file));
        let closed = self.close(file);
        done.and(closed)
    }

    /// Opens a file that must exist, and reads and closes it.
    pub(super) fn get(&mut self, name: &str, length: usize) -> client::Result<Vec<u8>> {
        let file = self.open_existing(name)?;
        let read = self.read(file, length);
        let closed = self.close(file);
        let read = read?;
        closed.map(|()| read)
    }
}

/// Returns whether a call was refused with one of these statuses.
pub(super) fn refused<T>(result: &client::Result<T>, statuses: &[Status]) -> bool {
    result.as_ref().err().and_then(Error::status).is_some_and(|status| statuses.contains(&status))
}

/// Describes the outcome of a call.
pub(super) fn outcome<T>(result: &client::Result<T>) -> String {
    match result {
        Ok(_) => "it succeeded".to_owned(),
        Err(error) => error.to_string(),
    }
}
