//! File content through a plain socket, the same work for every protocol: made while it is sent, looked at when it comes.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::random::{Content, Look};

/// Bytes that are sent or taken at once: as much as an SMB request of the same run.
const PIECE: usize = 1 << 20;

/// A file's content and the space to move it with.
pub(super) struct Pump {
    /// What the file is made of.
    pub(super) content: Content,
    /// How long it is, bytes.
    pub(super) size: u64,
    /// How much of what comes is looked at.
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
            socket.write_all(piece).await.context("the server takes no more")?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Takes a part of the file.
    pub(super) async fn receive(&mut self, socket: &mut TcpStream, part: Range<u64>) -> Result<()> {
        let mut offset = part.start;
        while offset < part.end {
            let space = (part.end - offset).min(PIECE as u64) as usize;
            let length = socket.read(&mut self.buffer[..space]).await?;
            ensure!(length > 0, "the server ended the file after {offset} of {} bytes", self.size);
            check(self.content, self.look, offset, &self.buffer[..length])?;
            offset += length as u64;
        }
        Ok(())
    }

    /// Takes what came already.
    pub(super) fn take(&self, offset: u64, data: &[u8]) -> Result<()> {
        check(self.content, self.look, offset, data)
    }
}

fn check(content: Content, look: Look, offset: u64, data: &[u8]) -> Result<()> {
    match content.wrong_at(offset, data, look) {
        None => Ok(()),
        Some(wrong) => bail!("the server gave wrong data at offset {wrong}"),
    }
}
