//! Transfers of whole files with several requests in flight, within the credits that the server grants.

use std::ops::Range;

use proto::smb2::FileId;
use proto::smb2::header::Command;
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::{WriteRequest, WriteResponse};

use crate::client::charge;
use crate::{Client, Error, Result};

/// How a file is split into requests, and how many of them are in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Bytes per request, capped by the server's maximum.
    pub piece: u32,
    /// Requests in flight at once, at least 1.
    pub depth: usize,
}

impl Default for Window {
    /// 1 MiB, 4 at once.
    fn default() -> Self {
        Window { piece: 1 << 20, depth: 4 }
    }
}

impl Client {
    /// Reads `range` of an open file and passes each piece with its offset to `take`, in the order of arrival. A short
    /// piece is an error, because the file is shorter than `range`.
    pub async fn read_file(
        &mut self,
        file_id: FileId,
        range: Range<u64>,
        window: Window,
        mut take: impl FnMut(u64, &[u8]),
    ) -> Result<()> {
        let piece = window.piece.min(self.agreed().max_read_size).max(1);
        let mut next = range.start;
        loop {
            let mut queued = false;
            while next < range.end && self.may_queue(window, length_at(next, &range, piece)) {
                let length = length_at(next, &range, piece);
                let request = ReadRequest { file_id, offset: next, length, ..ReadRequest::default() };
                self.queue(Command::READ, charge(length as usize), next, |out| request.encode(out))?;
                next += u64::from(length);
                queued = true;
            }
            if queued {
                self.flush().await?;
            }
            if self.in_flight() == 0 {
                return if next < range.end { Err(no_credits()) } else { Ok(()) };
            }
            let response = self.next().await?;
            if let Err(refused) = response.succeeded() {
                self.connection.drain().await?;
                return Err(refused);
            }
            let offset = response.tag;
            let data = ReadResponse::decode(response.message)?.buffer;
            if data.len() != length_at(offset, &range, piece) as usize {
                return Err(Error::Protocol("a READ returned another length than the file has at this offset"));
            }
            take(offset, data);
        }
    }

    /// Writes `range` of an open file. `give` fills the buffer for the piece at an offset.
    pub async fn write_file(
        &mut self,
        file_id: FileId,
        range: Range<u64>,
        window: Window,
        mut give: impl FnMut(u64, &mut [u8]),
    ) -> Result<()> {
        let piece = window.piece.min(self.agreed().max_write_size).max(1);
        let mut buffer = vec![0; (range.end.saturating_sub(range.start)).min(piece.into()) as usize];
        let mut next = range.start;
        loop {
            while next < range.end && self.may_queue(window, length_at(next, &range, piece)) {
                let length = length_at(next, &range, piece);
                let data = &mut buffer[..length as usize];
                give(next, data);
                let request = WriteRequest::new(file_id, next, data);
                self.send_write(next, &request).await?;
                next += u64::from(length);
            }
            if self.in_flight() == 0 {
                return if next < range.end { Err(no_credits()) } else { Ok(()) };
            }
            let response = self.next().await?;
            if let Err(refused) = response.succeeded() {
                self.connection.drain().await?;
                return Err(refused);
            }
            if WriteResponse::decode(response.message)?.count != length_at(response.tag, &range, piece) {
                return Err(Error::Protocol("it wrote only part of a WRITE"));
            }
        }
    }

    fn may_queue(&self, window: Window, length: u32) -> bool {
        self.in_flight() < window.depth.max(1) && self.affords(charge(length as usize))
    }
}

/// The length of the piece at `offset`.
fn length_at(offset: u64, range: &Range<u64>, piece: u32) -> u32 {
    u32::try_from(range.end - offset).unwrap_or(u32::MAX).min(piece)
}

fn no_credits() -> Error {
    Error::Protocol("it grants too few credits for one request")
}
