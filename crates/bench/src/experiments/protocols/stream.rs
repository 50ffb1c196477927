//! File content over a plain socket, with the same work for every protocol: generated while sending, checked while
//! receiving.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::random::{Content, Look};

/// Bytes sent or received at once: as much as in an SMB request of the same run.
const PIECE: usize = 1 << 20;

/// A file's content, with a buffer for transfers.
pub(super) struct Pump {
    /// The content of the file.
    pub(super) content: Content,
    /// The length of the file, in bytes.
    pub(super) size: u64,
    /// How much of the received data is checked.
    pub(super) look: Look,
    buffer: Vec<u8>,
}

impl Pump {
    pub(super) fn new(content: Content, size: u64) -> Pump {
        Pump { content, size, look: Look::Every, buffer: vec![0; PIECE] }
    }

    /// Sends the whole file.
    pub(super) async fn send(&mut self, socket: &mut TcpStream) -> Result<()> {
        let mut offset = 0;
        while offset < self.size {
            let piece = &mut self.buffer[..(self.size - offset).min(PIECE as u64) as usize];
            self.content.fill(offset, piece);
            socket.write_all(piece).await.context("the server no longer accepts data")?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Receives a part of the file.
    pub(super) async fn receive(&mut self, socket: &mut TcpStream, part: Range<u64>) -> Result<()> {
        let mut offset = part.start;
        while offset < part.end {
            let space = (part.end - offset).min(PIECE as u64) as usize;
            let length = socket.read(&mut self.buffer[..space]).await?;
            ensure!(length > 0, "the server closed the connection after {offset} of {} bytes", self.size);
            check(self.content, self.look, offset, &self.buffer[..length])?;
            offset += length as u64;
        }
        Ok(())
    }

    /// Checks data that was already received.
    pub(super) fn take(&self, offset: u64, data: &[u8]) -> Result<()> {
        check(self.content, self.look, offset, data)
    }
}

fn check(content: Content, look: Look, offset: u64, data: &[u8]) -> Result<()> {
    match content.wrong_at(offset, data, look) {
        None => Ok(()),
        Some(wrong) => bail!("the server returned wrong data at offset {wrong}"),
    }
}
