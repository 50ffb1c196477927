//! The data of reads and writes, in the form that avoids a copy.

use std::fmt;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;

use super::{Errno, Node, Op, Result};

/// Data that is not in the caller's buffer.
pub enum Payload {
    /// Memory of its owner: the frame of a request, or a back end's buffer.
    Memory(Bytes),
    /// Data in a pipe, which the kernel can move to a file or a socket.
    Pipe(Box<dyn Pipe>),
}

/// The reading end of a pipe, or of several in turn, that contain the whole data. Neither a read nor a `splice` from
/// the descriptor waits. Dropped, it closes the pipes or gives them back to their pool. Data that was not taken is
/// then lost.
pub trait Pipe: Read + AsFd + Send + Sync {
    /// Returns the number of bytes that were in the pipes before any was taken.
    fn length(&self) -> usize;

    /// Records that `splice` has taken `count` bytes from the descriptor. The rest may be in another pipe.
    fn spliced(&mut self, count: usize);
}

impl Payload {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::Memory(bytes) => bytes.len(),
            Payload::Pipe(pipe) => pipe.length(),
        }
    }

    /// Returns whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the data in memory. Data in a pipe is copied.
    ///
    /// # Errors
    /// `Errno::IO` if the pipe has less data than it should.
    pub fn into_memory(self) -> Result<Bytes> {
        match self {
            Payload::Memory(bytes) => Ok(bytes),
            Payload::Pipe(pipe) => {
                let mut data = vec![0; pipe.length()];
                Payload::Pipe(pipe).copy_to(&mut data)?;
                Ok(data.into())
            }
        }
    }

    /// Copies the data to the beginning of `space` and returns its length.
    ///
    /// # Errors
    /// `Errno::INVAL` if the space is too small; `Errno::IO` if a pipe has less data than it should.
    pub fn copy_to(self, space: &mut [u8]) -> Result<usize> {
        let space = space.get_mut(..self.len()).ok_or(Errno::INVAL)?;
        match self {
            Payload::Memory(bytes) => space.copy_from_slice(&bytes),
            Payload::Pipe(mut pipe) => pipe.read_exact(space).map_err(|_| Errno::IO)?,
        }
        Ok(space.len())
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload::Memory(bytes)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload::Memory(bytes.into())
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Payload::Memory(_) => "Memory",
            Payload::Pipe(_) => "Pipe",
        };
        write!(f, "{kind}({} bytes)", self.len())
    }
}

/// A read, for [`Node::read`].
#[derive(Debug)]
pub struct ReadRequest {
    /// The position in the file.
    pub offset: u64,
    /// The caller's buffer: its length minus `filled` is the number of bytes to read.
    pub buffer: Vec<u8>,
    /// The number of bytes at the beginning of the buffer that stay as they are.
    pub filled: usize,
    /// Whether the caller sends the data on as it is, so that data in a pipe saves a copy. Otherwise
    /// [`Payload::Pipe`] is not returned.
    pub pipe: bool,
}

/// What a read returns: the caller's buffer with the same length, even if the read failed, and where the data is.
pub type ReadReply = (Vec<u8>, Result<Content>);

/// The data of a read.
#[derive(Debug)]
pub enum Content {
    /// That number of bytes in the caller's buffer, after those that were filled.
    Buffer(usize),
    /// The data, at most as many bytes as the caller asked for. The buffer has undefined bytes after those that were
    /// filled.
    Payload(Payload),
}

impl ReadRequest {
    /// Returns a read of the whole buffer.
    pub fn new(offset: u64, buffer: Vec<u8>) -> ReadRequest {
        ReadRequest { offset, buffer, filled: 0, pipe: false }
    }

    /// Returns the request with `filled` bytes of the buffer that stay as they are.
    pub fn after(self, filled: usize) -> ReadRequest {
        ReadRequest { filled, ..self }
    }
}

/// Reads into `buffer[filled..]` from `offset` and returns the number of bytes read, fewer only at the end of file. The
/// buffer is always returned, with the same length and with `buffer[..filled]` unchanged, even if the read fails.
pub async fn read_into(
    node: &Arc<dyn Node>,
    op: &Op,
    offset: u64,
    buffer: Vec<u8>,
    filled: usize,
) -> (Vec<u8>, Result<usize>) {
    into_buffer(node.read(op, ReadRequest::new(offset, buffer).after(filled)).await, filled)
}

/// Moves the data of a read to the caller's buffer, after the bytes that were filled.
pub fn into_buffer((mut buffer, content): ReadReply, filled: usize) -> (Vec<u8>, Result<usize>) {
    let count = match content {
        Ok(Content::Buffer(count)) => Ok(count),
        Ok(Content::Payload(payload)) => {
            buffer.get_mut(filled..).ok_or(Errno::INVAL).and_then(|to| payload.copy_to(to))
        }
        Err(error) => Err(error),
    };
    (buffer, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::remote::Filled;

    #[test]
    fn a_payload_is_copied_whole_or_not_at_all() {
        let payloads = || [Payload::from(b"data".to_vec()), Payload::Pipe(Filled::with(b"data").expect("a pipe"))];
        for payload in payloads() {
            assert_eq!((payload.len(), payload.is_empty()), (4, false));
            assert_eq!(payload.into_memory(), Ok(Bytes::from_static(b"data")));
        }
        for payload in payloads() {
            let mut space = *b"......";
            assert_eq!((payload.copy_to(&mut space), &space), (Ok(4), b"data.."));
        }
        for payload in payloads() {
            let mut space = *b"...";
            assert_eq!((payload.copy_to(&mut space), &space), (Err(Errno::INVAL), b"..."));
        }
    }

    #[test]
    fn a_pipe_with_less_data_than_it_should_have_is_an_error() {
        let mut pipe = Filled::with(b"data").expect("a pipe");
        pipe.read_exact(&mut [0; 2]).expect("two bytes");
        assert_eq!(Payload::Pipe(pipe).into_memory(), Err(Errno::IO));
    }
}
