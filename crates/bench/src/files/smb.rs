//! File operations over SMB.

use std::ops::Range;

use anyhow::{Context, Result};
use client::{Client, Open, Window};
use proto::fscc::{DirectoryEntry, FileAttributes};
use proto::smb2::FileId;

use super::{Entry, Files, OpenFile};
use crate::listing;
use crate::method::Server;
use crate::requests::Requests;

/// Buffer size of a listing, in bytes.
pub const BUFFER: u32 = 64 * 1024;

/// A connection to a share.
pub struct Smb {
    client: Client,
    /// The working directory in the share.
    directory: &'static str,
    requests: Requests,
}

impl Smb {
    /// Uses the working directory `directory` of a share over `client`.
    pub fn new(client: Client, directory: &'static str, requests: Requests) -> Smb {
        Smb { client, directory, requests }
    }

    fn path(&self, path: &str) -> String {
        format!(r"{}\{}", self.directory, path.replace('/', r"\"))
    }
}

impl Files for Smb {
    const BLOCKS: bool = false;

    async fn create(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let path = self.path(path);
        Ok(self.requests.make(&mut self.client, &path, content).await?)
    }

    async fn list(&mut self, path: &str, mut each: impl FnMut(&Entry<'_>) -> Result<()> + Send) -> Result<()> {
        let path = self.path(path);
        let note = |entry: &DirectoryEntry<'_>| {
            let is_directory = entry.file_attributes.contains(FileAttributes::DIRECTORY);
            each(&Entry { name: &listing::name(entry)?, is_directory, size: entry.end_of_file })
        };
        listing::list(&mut self.client, &path, BUFFER, note).await?;
        Ok(())
    }

    async fn size(&mut self, path: &str) -> Result<u64> {
        let path = self.path(path);
        Ok(self.requests.size(&mut self.client, &path).await?)
    }

    async fn read(&mut self, path: &str, length: u32, take: impl FnMut(&[u8]) + Send) -> Result<()> {
        let path = self.path(path);
        Ok(self.requests.read(&mut self.client, &path, length, take).await?)
    }

    async fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.path(from), self.path(to));
        Ok(self.requests.rename(&mut self.client, &from, &to).await?)
    }

    async fn delete(&mut self, path: &str) -> Result<()> {
        let path = self.path(path);
        Ok(self.requests.delete(&mut self.client, &path).await?)
    }

    async fn make_directory(&mut self, path: &str) -> Result<()> {
        let path = self.path(path);
        Ok(self.requests.make_directory(&mut self.client, &path).await?)
    }

    async fn remove_directory(&mut self, path: &str) -> Result<()> {
        self.delete(path).await
    }
}

/// An open file, on a connection that has no other.
pub struct SmbFile {
    client: Client,
    file: FileId,
}

impl SmbFile {
    /// Creates the file `path` of the share, or opens an existing one.
    pub async fn create(mut client: Client, path: &str) -> Result<SmbFile> {
        let file = client.open(&Open::file(path)).await.with_context(|| format!("cannot create {path}"))?;
        Ok(SmbFile { client, file })
    }

    /// Returns the same open on a new connection of its session. The session's first connection must have been made
    /// with [`client::Options::multichannel`].
    pub async fn over(&self, server: &Server) -> Result<SmbFile> {
        Ok(SmbFile { client: server.bind(&self.client).await?, file: self.file })
    }
}

impl OpenFile for SmbFile {
    const BLOCKS: bool = false;

    async fn write(
        &mut self,
        range: Range<u64>,
        window: Window,
        fill: impl FnMut(u64, &mut [u8]) + Send,
    ) -> Result<()> {
        Ok(self.client.write_file(self.file, range, window, fill).await?)
    }

    async fn read(&mut self, range: Range<u64>, window: Window, take: impl FnMut(u64, &[u8]) + Send) -> Result<()> {
        Ok(self.client.read_file(self.file, range, window, take).await?)
    }

    async fn flush(&mut self) -> Result<()> {
        Ok(self.client.flush_file(self.file).await?)
    }
}
